//! What `tables` is asked for.

use clap::{Args, ValueEnum};

use super::case::TablesScenario;

/// Options of `tables`.
#[derive(Debug, Args)]
pub struct Tables {
    /// Which scenarios; all when not given
    #[arg(long, value_delimiter = ',')]
    pub scenario: Vec<TablesScenario>,
    /// Runs of each scenario [default: 5; with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Small tables and one short run: shows that everything works, not how fast it is
    #[arg(long)]
    pub quick: bool,
}

impl Tables {
    /// How many runs.
    pub fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// Which scenarios, each once.
    pub fn scenarios(&self) -> impl Iterator<Item = TablesScenario> {
        let wanted = |s: &TablesScenario| self.scenario.is_empty() || self.scenario.contains(s);
        TablesScenario::value_variants().iter().copied().filter(wanted)
    }
}

/// Options of one scenario's process.
#[derive(Debug, Args)]
pub struct TablesCase {
    /// The scenario
    pub scenario: TablesScenario,
    /// Runs
    #[arg(long)]
    pub runs: u32,
    /// Small
    #[arg(long)]
    pub quick: bool,
}

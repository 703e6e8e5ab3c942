//! Options of `tables`.

use clap::{Args, ValueEnum};

use super::case::TablesScenario;
use crate::options::Repeats;

/// Options of `tables`.
#[derive(Debug, Args)]
pub struct Tables {
    /// The scenarios to measure; all if not given
    #[arg(long, value_delimiter = ',')]
    pub scenario: Vec<TablesScenario>,
    /// Number of runs, and form of the output.
    #[command(flatten)]
    pub repeats: Repeats,
}

impl Tables {
    /// Returns the selected scenarios, each once.
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

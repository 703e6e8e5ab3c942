//! `namely strategy`: the strategies of prefixes.

use clap::{Args, Subcommand};
use namely_messages::StrategyChoice;
use namely_wire::Name;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::options::name;
use crate::output::Cell;
use crate::router::connect;

/// List, set and unset strategies.
#[derive(Debug, Subcommand)]
pub enum Strategy {
    /// List strategy choices
    List(List),
    /// Choose the strategy below a prefix
    Set(Set),
    /// Remove the choice at a prefix
    Unset(Unset),
}

impl Strategy {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Strategy::List(c) => c.run(ctx),
            Strategy::Set(c) => c.run(ctx),
            Strategy::Unset(c) => c.run(ctx),
        }
    }
}

/// List strategy choices.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely strategy list")]
pub struct List {}

impl List {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let choices: Vec<StrategyChoice> = connect(ctx)?.strategies()?;
        let rows: Vec<Vec<Cell>> = choices
            .iter()
            .map(|c| vec![c.prefix.to_string().into(), c.strategy.to_string().into()])
            .collect();
        ctx.out.table(&["prefix", "strategy"], &rows);
        Ok(())
    }
}

/// The short names of the strategies, in the order of the help.
pub(super) const STRATEGIES: [&str; 10] = [
    "best-route",
    "multicast",
    "asf",
    "random",
    "weighted-load-balancer",
    "multipath",
    "self-learning",
    "vip",
    "round-robin",
    "fast-route",
];

/// Choose a strategy.
#[derive(Debug, Args)]
#[command(
    after_help = "Strategies: best-route, multicast, asf, random, weighted-load-balancer, multipath, self-learning, vip, round-robin, fast-route\n\nExamples:\n  namely strategy set /live multicast\n  namely strategy set /far asf/v=5/probing-interval~30000/max-timeouts~5\n  namely strategy set / /localhost/nfd/strategy/best-route"
)]
pub struct Set {
    /// The name prefix.
    #[arg(value_parser = name)]
    prefix: Name,
    /// A strategy's short name, such as multicast or asf, or its full name.
    strategy: String,
}

impl Set {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let strategy = connect(ctx)?.set_strategy(&self.prefix, &self.strategy)?.to_string();
        ctx.out.answer(
            || format!("{} is forwarded by {strategy}", self.prefix),
            || json!({"prefix": self.prefix.to_string(), "strategy": strategy}),
        );
        Ok(())
    }
}

/// Remove a choice.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely strategy unset /live")]
pub struct Unset {
    /// The name prefix.
    #[arg(value_parser = name)]
    prefix: Name,
}

impl Unset {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        connect(ctx)?.unset_strategy(&self.prefix)?;
        ctx.out.answer(
            || format!("{} has no strategy of its own now", self.prefix),
            || json!({"prefix": self.prefix.to_string()}),
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_strategy() {
        let help = Set::augment_args(clap::Command::new("set")).get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let (first, _) = help.split_once('\n').unwrap_or_default();
        assert_eq!(first, format!("Strategies: {}", STRATEGIES.join(", ")));
    }
}

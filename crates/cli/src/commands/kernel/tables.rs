//! `namely kernel bind`, `strategy` and `cs`.

use clap::{Args, Subcommand};

use namely_messages::strategy_name;
use namely_nnet::proc;
use namely_wire::Name;
use serde_json::json;

use super::control;
use super::status::counters;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::options::name;
use crate::output::{Cell, octets_text};

/// List bindings.
#[derive(Debug, Subcommand)]
pub enum Bind {
    /// List the prefixes that applications have bound
    List(BindList),
}

impl Bind {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Bind::List(c) => c.run(ctx),
        }
    }
}

/// List bindings.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely kernel bind list")]
pub struct BindList {}

impl BindList {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let bindings = control()?.bindings()?;
        let is_routed = |prefix: &Name| proc::is_routed_to_applications(prefix.as_name()).unwrap_or(false);
        let rows: Vec<Vec<Cell>> = bindings
            .iter()
            .map(|binding| {
                let routed = if is_routed(&binding.prefix) { "yes" } else { "no" };
                vec![binding.prefix.to_string().into(), binding.face.into(), routed.into()]
            })
            .collect();
        ctx.out.table(&["prefix", "face", "routed"], &rows);
        Ok(())
    }
}

/// List, set and unset strategies.
#[derive(Debug, Subcommand)]
pub enum Strategy {
    /// List strategy choices
    List(StrategyList),
    /// Choose the strategy below a prefix
    Set(StrategySet),
    /// Remove the choice at a prefix
    Unset(StrategyUnset),
}

impl Strategy {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Strategy::List(c) => c.run(ctx),
            Strategy::Set(c) => c.run(ctx),
            Strategy::Unset(c) => c.run(ctx),
        }
    }
}

/// List strategy choices.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely kernel strategy list")]
pub struct StrategyList {}

impl StrategyList {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let choices = control()?.strategies()?;
        let rows: Vec<Vec<Cell>> = choices
            .iter()
            .map(|choice| vec![choice.prefix.to_string().into(), choice.strategy.to_string().into()])
            .collect();
        ctx.out.table(&["prefix", "strategy"], &rows);
        Ok(())
    }
}

/// Choose a strategy.
#[derive(Debug, Args)]
#[command(
    after_help = "`namely strategy set --help` lists the strategies.\n\nExample:\n  namely kernel strategy set /live multicast"
)]
pub struct StrategySet {
    /// The name prefix.
    #[arg(value_parser = name)]
    prefix: Name,
    /// A strategy's short name, such as multicast or asf, or its full name.
    strategy: String,
}

impl StrategySet {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let strategy = strategy_name(&self.strategy)
            .ok_or_else(|| Failure::failed(format!("'{}' is not the name of a strategy", self.strategy)))?;
        control()?.strategy_new(self.prefix.as_name(), strategy.as_name())?;
        ctx.out.answer(
            || format!("{} is forwarded by {strategy}", self.prefix),
            || json!({"prefix": self.prefix.to_string(), "strategy": strategy.to_string()}),
        );
        Ok(())
    }
}

/// Remove a choice.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely kernel strategy unset /live")]
pub struct StrategyUnset {
    /// The name prefix.
    #[arg(value_parser = name)]
    prefix: Name,
}

impl StrategyUnset {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        control()?.strategy_del(self.prefix.as_name())?;
        ctx.out.answer(
            || format!("{} has no strategy of its own now", self.prefix),
            || json!({"prefix": self.prefix.to_string()}),
        );
        Ok(())
    }
}

/// Show, configure and erase the content store.
#[derive(Debug, Subcommand)]
pub enum Cs {
    /// Show the content store
    Info(CsInfo),
    /// Change its capacity
    Config(CsConfig),
    /// Erase Data below a prefix
    Erase(CsErase),
}

impl Cs {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Cs::Info(c) => c.run(ctx),
            Cs::Config(c) => c.run(ctx),
            Cs::Erase(c) => c.run(ctx),
        }
    }
}

/// Show the content store.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely kernel cs info --json")]
pub struct CsInfo {}

impl CsInfo {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let cs = counters("cs")?;
        let of = |name: &str| cs.iter().find(|(label, _)| label == name).map_or(0, |(_, value)| *value);
        let text = || {
            [
                format!("entries   {} of {}", of("packets"), of("packets_max")),
                format!("memory    {}", octets_text(of("octets"))),
                format!("hits      {}", of("hits")),
                format!("misses    {}", of("misses")),
                format!("refused   {}", of("refused")),
                format!("evicted   {}", of("evicted")),
            ]
        };
        let value = || {
            json!({
                "entries": of("packets"), "capacity": of("packets_max"), "octets": of("octets"), "hits": of("hits"),
                "misses": of("misses"), "refused": of("refused"), "evicted": of("evicted"),
            })
        };
        ctx.out.answer(text, value);
        Ok(())
    }
}

/// Change the content store's capacity.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely kernel cs config --capacity 4096")]
pub struct CsConfig {
    /// Maximum number of Data packets, at most the module's parameter cs_packets_max.
    #[arg(long, value_name = "N")]
    capacity: u64,
}

impl CsConfig {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        control()?.cs_set(self.capacity)?;
        let capacity = self.capacity;
        ctx.out.answer(
            || format!("the content store holds {capacity} Data at most"),
            || json!({"capacity": capacity}),
        );
        Ok(())
    }
}

/// Erase Data.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely kernel cs erase /lab")]
pub struct CsErase {
    /// The name prefix.
    #[arg(value_parser = name)]
    prefix: Name,
}

impl CsErase {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut kernel = control()?;
        let mut erased = 0;
        // The limit of packets ends the loop even if further packets arrive meanwhile.
        let packets_max = counters("cs")?
            .into_iter()
            .find(|(label, _)| label == "packets_max")
            .map_or(0, |(_, value)| value);
        loop {
            let some = kernel.cs_erase(self.prefix.as_name(), None)?;
            erased += some;
            if some == 0 || erased > packets_max {
                break;
            }
        }
        if erased == 0 {
            return Err(Failure::new(Exit::NotFound, format!("nothing is stored below {}", self.prefix)));
        }
        ctx.out.answer(
            || format!("{erased} Data below {} erased", self.prefix),
            || json!({"prefix": self.prefix.to_string(), "erased": erased}),
        );
        Ok(())
    }
}

//! `namely cs`: the content store.

use clap::{Args, Subcommand};
use namely_wire::Name;
use namely_wire::mgmt::{Command, ControlParameters, cs_flags};
use serde_json::json;

use super::Context;
use super::face::Switch;
use crate::failure::Failure;
use crate::router::Router;

/// Show, configure and erase the content store.
#[derive(Debug, Subcommand)]
pub enum Cs {
    /// Show capacity, contents and hits
    Info(Info),
    /// Change capacity and what is admitted and served
    Config(Config),
    /// Erase what is stored below a prefix
    Erase(Erase),
}

impl Cs {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Cs::Info(c) => c.run(ctx),
            Cs::Config(c) => c.run(ctx),
            Cs::Erase(c) => c.run(ctx),
        }
    }
}

/// Show the content store.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely cs info --json")]
pub struct Info {}

impl Info {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let info = Router::connect(ctx)?.cs_info()?;
        // NFD does not say.
        let policy = info.policy.as_deref().unwrap_or("-");
        let on = |bit| if info.flags & bit != 0 { "on" } else { "off" };
        ctx.out.answer(
            || {
                format!(
                    "entries   {} of {}\nhits      {}\nmisses    {}\nadmit     {}\nserve     {}\npolicy    {policy}",
                    info.entries,
                    info.capacity,
                    info.hits,
                    info.misses,
                    on(cs_flags::ENABLE_ADMIT),
                    on(cs_flags::ENABLE_SERVE)
                )
            },
            || {
                json!({
                    "entries": info.entries, "capacity": info.capacity, "hits": info.hits, "misses": info.misses,
                    "policy": info.policy, "admit": info.flags & cs_flags::ENABLE_ADMIT != 0, "serve": info.flags & cs_flags::ENABLE_SERVE != 0,
                })
            },
        );
        Ok(())
    }
}

/// Change the content store.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely cs config --capacity 100000 --admit off")]
pub struct Config {
    /// Most packets stored.
    #[arg(long, value_name = "PACKETS")]
    capacity: Option<u64>,
    /// Whether new Data may enter.
    #[arg(long, value_enum, value_name = "on|off")]
    admit: Option<Switch>,
    /// Whether stored Data may answer.
    #[arg(long, value_enum, value_name = "on|off")]
    serve: Option<Switch>,
    /// What leaves first: s3-fifo, lru, fifo, lfu, arc or sieve (namely's router only).
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
}

impl Config {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut parameters = ControlParameters {
            capacity: self.capacity,
            cs_policy: self.policy.clone(),
            ..Default::default()
        };
        for (switch, bit) in [(self.admit, cs_flags::ENABLE_ADMIT), (self.serve, cs_flags::ENABLE_SERVE)] {
            let Some(switch) = switch else { continue };
            *parameters.mask.get_or_insert(0) |= bit;
            *parameters.flags.get_or_insert(0) |= if switch == Switch::On { bit } else { 0 };
        }
        let now = Router::connect(ctx)?.command(Command::CsConfig, &parameters)?;
        let capacity = now.capacity.unwrap_or_default();
        ctx.out.answer(
            || match &now.cs_policy {
                Some(policy) => format!("capacity {capacity} packets, policy {policy}"),
                None => format!("capacity {capacity} packets"),
            },
            || json!({"capacity": capacity, "flags": now.flags, "policy": now.cs_policy}),
        );
        Ok(())
    }
}

/// Erase stored Data.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely cs erase /lab")]
pub struct Erase {
    /// The name prefix.
    prefix: Name,
    /// At most this many packets.
    #[arg(long, value_name = "PACKETS")]
    count: Option<u64>,
}

impl Erase {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut router = Router::connect(ctx)?;
        let mut erased = 0;
        loop {
            let left = self.count.map(|c| c - erased);
            let parameters =
                ControlParameters { name: Some(self.prefix.clone()), count: left, ..Default::default() };
            let answer = router.command(Command::CsErase, &parameters)?;
            let count = answer.count.unwrap_or_default();
            erased += count;
            // The router erases a bounded number at a time; Capacity in its answer says that more may remain.
            let more = answer.capacity.is_some() && count > 0;
            if !more || self.count.is_some_and(|c| erased >= c) {
                break;
            }
        }
        ctx.out.answer(
            || format!("{erased} packets erased below {}", self.prefix),
            || json!({"prefix": self.prefix.to_string(), "erased": erased}),
        );
        Ok(())
    }
}

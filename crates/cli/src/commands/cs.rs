//! `namely cs`: the content store.

use clap::{Args, Subcommand};
use namely_client::CsChanges;
use namely_wire::Name;
use namely_wire::mgmt::cs_flags;
use serde_json::json;

use super::Context;
use super::face::Switch;
use crate::failure::Failure;
use crate::router::connect;

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
        let info = connect(ctx)?.cs_info()?;
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
        let changes = CsChanges {
            capacity: self.capacity,
            admit: self.admit.map(Switch::is_on),
            serve: self.serve.map(Switch::is_on),
            policy: self.policy.clone(),
        };
        let now = connect(ctx)?.configure_cs(&changes)?;
        let capacity = now.capacity;
        ctx.out.answer(
            || match &now.policy {
                Some(policy) => format!("capacity {capacity} packets, policy {policy}"),
                None => format!("capacity {capacity} packets"),
            },
            || json!({"capacity": capacity, "flags": now.flags, "policy": now.policy}),
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
        let erased = connect(ctx)?.erase_cs(&self.prefix, self.count)?;
        ctx.out.answer(
            || format!("{erased} packets erased below {}", self.prefix),
            || json!({"prefix": self.prefix.to_string(), "erased": erased}),
        );
        Ok(())
    }
}

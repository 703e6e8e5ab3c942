//! `namely cs`: the content store, in memory and on disk.

mod format;
mod list;
mod show;
mod warm;

use clap::{Args, Subcommand};
use namely_client::CsChanges;
use namely_wire::Name;
use serde_json::json;

use super::face::Switch;
use crate::context::Context;
use crate::failure::Failure;
use crate::options::name;
use crate::output::{count_text, octets_text};
use crate::router::connect;

/// Show, configure, fill and erase the content store.
#[derive(Debug, Subcommand)]
pub enum Cs {
    /// Show capacity, contents and hits, in memory and on disk
    Info(show::Info),
    /// List the packets below a prefix, in memory or on disk
    List(list::List),
    /// Change capacity, admission and service
    Config(Config),
    /// Erase the packets below a prefix, in memory and on disk
    Erase(Erase),
    /// Keep the packets below a prefix on disk: they are not evicted
    Pin(Pin),
    /// Remove a pin
    Unpin(Unpin),
    /// Fetch a file or a directory into the content store
    Warm(warm::Warm),
    /// Format a device for a content store; its contents are lost
    Format(format::Format),
}

impl Cs {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Cs::Info(c) => c.run(ctx),
            Cs::List(c) => c.run(ctx),
            Cs::Config(c) => c.run(ctx),
            Cs::Erase(c) => c.run(ctx),
            Cs::Pin(c) => c.run(ctx),
            Cs::Unpin(c) => c.run(ctx),
            Cs::Warm(c) => c.run(ctx),
            Cs::Format(c) => c.run(ctx),
        }
    }
}

/// Change the content store.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely cs config --capacity 100000 --admit off\n  namely cs config --disk-octets-max 20GiB --disk-admission all"
)]
pub struct Config {
    /// Maximum number of packets in memory.
    #[arg(long, value_name = "PACKETS")]
    capacity: Option<u64>,
    /// Whether new Data may enter.
    #[arg(long, value_enum, value_name = "on|off")]
    admit: Option<Switch>,
    /// Whether stored Data may answer.
    #[arg(long, value_enum, value_name = "on|off")]
    serve: Option<Switch>,
    /// Eviction policy of memory: s3-fifo, lru, fifo, lfu, arc or sieve (namely's router only).
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Maximum octets on disk, such as 20GiB (namely's router only, as all options of the disk).
    #[arg(long, value_name = "SIZE", value_parser = parse_octets)]
    disk_octets_max: Option<u64>,
    /// Packets that are written to disk when they leave memory: those with a hit there (hit), also
    /// those that memory evicted before (again), or all.
    #[arg(long, value_name = "hit|again|all")]
    disk_admission: Option<String>,
    /// Pending requests to the disk from which on it is bypassed.
    #[arg(long, value_name = "REQUESTS")]
    disk_threshold: Option<u64>,
    /// Order of the disk's reads and writes: fifo, data-first or weighted.
    #[arg(long, value_name = "ORDER")]
    disk_queue: Option<String>,
}

impl Config {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let changes = CsChanges {
            capacity: self.capacity,
            admit: self.admit.map(Switch::is_on),
            serve: self.serve.map(Switch::is_on),
            policy: self.policy.clone(),
            disk_octets: self.disk_octets_max,
            disk_admission: self.disk_admission.clone(),
            disk_threshold: self.disk_threshold,
            disk_queue: self.disk_queue.clone(),
        };
        let now = connect(ctx)?.configure_cs(&changes)?;
        let text = || {
            let mut memory = format!("capacity {} packets", now.capacity);
            if let Some(policy) = &now.policy {
                memory += &format!(", policy {policy}");
            }
            let mut disk = match (now.disk_octets, &now.disk_admission) {
                (Some(octets), Some(admission)) => {
                    format!("disk {}, admission {admission}", octets_text(octets))
                }
                _ => return vec![memory],
            };
            if let (Some(threshold), Some(queue)) = (now.disk_threshold, &now.disk_queue) {
                disk += &format!(", threshold {threshold}, queue {queue}");
            }
            vec![memory, disk]
        };
        if let (Some(requested), Some(octets)) = (self.disk_octets_max, now.disk_octets)
            && requested != octets
        {
            ctx.out.remark(format!("the disk's limit is {}, the nearest possible", octets_text(octets)));
        }
        ctx.out.answer(text, || {
            json!({
                "capacity": now.capacity, "flags": now.flags, "policy": now.policy,
                "disk_octets_max": now.disk_octets, "disk_admission": now.disk_admission,
                "disk_threshold": now.disk_threshold, "disk_queue": now.disk_queue,
            })
        });
        Ok(())
    }
}

fn parse_octets(text: &str) -> Result<u64, String> {
    namely_daemon::parse_octets(text)
}

/// Erase stored Data.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely cs erase /lab")]
pub struct Erase {
    /// The name prefix.
    #[arg(value_parser = name)]
    prefix: Name,
    /// At most this many packets.
    #[arg(long, value_name = "PACKETS")]
    count: Option<u64>,
}

impl Erase {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let erased = connect(ctx)?.erase_cs(&self.prefix, self.count)?;
        ctx.out.answer(
            || format!("{} erased below {}", count_text(erased, "packet"), self.prefix),
            || json!({"prefix": self.prefix.to_string(), "erased": erased}),
        );
        Ok(())
    }
}

/// Keep the packets below a prefix on disk.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely cs pin /lab/data")]
pub struct Pin {
    /// The name prefix.
    #[arg(value_parser = name)]
    prefix: Name,
}

impl Pin {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        connect(ctx)?.pin_cs(&self.prefix)?;
        ctx.out.answer(
            || format!("{} is pinned", self.prefix),
            || json!({"prefix": self.prefix.to_string(), "pinned": true}),
        );
        Ok(())
    }
}

/// Remove a pin.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely cs unpin /lab/data")]
pub struct Unpin {
    /// The name prefix, as it was pinned.
    #[arg(value_parser = name)]
    prefix: Name,
}

impl Unpin {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        connect(ctx)?.unpin_cs(&self.prefix)?;
        ctx.out.answer(
            || format!("{} is not pinned any more", self.prefix),
            || json!({"prefix": self.prefix.to_string(), "pinned": false}),
        );
        Ok(())
    }
}

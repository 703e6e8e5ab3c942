//! `namely cs list`: the packets of the content store below a prefix.

use std::path::Path;

use clap::Args;
use namely_tier::{self as tier, TierError};
use namely_wire::Name;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::options::name;
use crate::output::octets_text;
use crate::router::connect;

/// List the packets of the content store below a prefix, in memory or on disk.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely cs list /lab/data\n  namely cs list /lab/data --disk --count\n\nA line has the octets, the remaining freshness in seconds (-: unlimited), and the name.\n\nIt is for root and the router's user. The router lists the packets in memory in parts. With --disk this command reads the folder's files, or the device, without the router: packets that are not yet on the disk may be missing."
)]
pub struct List {
    /// The name prefix.
    #[arg(default_value = "/", value_parser = name)]
    prefix: Name,
    /// List the packets on disk instead of those in memory.
    #[arg(long)]
    disk: bool,
    /// Print only their count.
    #[arg(long)]
    count: bool,
}

/// Sums over the packets.
#[derive(Debug, Default)]
struct Total {
    packets: u64,
    octets: u64,
}

impl List {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut total = Total::default();
        match self.disk {
            true => self.list_disk(ctx, &mut total)?,
            false => connect(ctx)?.list_cs(&self.prefix, |packet| {
                self.print(ctx, &mut total, &packet.name, packet.octets, Some(packet.fresh_ms));
            })?,
        }
        let Total { packets, octets } = total;
        if self.count {
            let text = || format!("{packets} packets, {} below {}", octets_text(octets), self.prefix);
            let prefix = self.prefix.to_string();
            ctx.out.answer(text, || json!({"prefix": prefix, "packets": packets, "octets": octets}));
        } else {
            ctx.out.remark(format!("{packets} packets, {}", octets_text(octets)));
        }
        Ok(())
    }

    /// Adds a packet to `total` and prints it. `fresh_ms` is the remaining freshness; `None` stands
    /// for unlimited.
    fn print(&self, ctx: &Context<'_>, total: &mut Total, name: &Name, octets: u64, fresh_ms: Option<u64>) {
        total.packets += 1;
        total.octets += octets;
        if self.count {
            return;
        }
        let fresh = fresh_ms.map_or_else(|| "-".to_owned(), |ms| (ms / 1000).to_string());
        ctx.out.answer(
            || format!("{octets:>6} {fresh:>8} s {name}"),
            || json!({"name": name.to_string(), "octets": octets, "fresh_ms": fresh_ms}),
        );
    }

    fn list_disk(&self, ctx: &Context<'_>, total: &mut Total) -> Result<(), Failure> {
        let disk = connect(ctx)?.cs_disk()?;
        let disk = disk.ok_or_else(|| {
            Failure::new(Exit::NotFound, "the content store has no disk")
                .hint("start the router with --cs-disk DIR, or `folder` under [cs.disk]")
        })?;
        let bar = ctx.out.bar("{bar:10} {percent:>3}% {bytes} of {total_bytes} read");
        let now_ms = namely_host::clock::unix_ms();
        let mut found = |listed: tier::ListedPacket<'_>| {
            let fresh = (listed.expires_ms != 0).then(|| listed.expires_ms.saturating_sub(now_ms));
            self.print(ctx, total, &listed.name.to_name(), listed.octets as u64, fresh);
        };
        let mut read = |done: u64, all: u64| {
            if let Some(bar) = &bar {
                bar.set(done, all);
            }
        };
        let listed = tier::list(Path::new(&disk.folder), self.prefix.as_name(), &mut found, &mut read);
        drop(bar);
        listed.map_err(|error| match error {
            TierError::ReadOnly(path) => Failure::failed(format!("no permission to read {}", path.display()))
                .hint("run it as root, or as the router's user"),
            error => Failure::failed(error.to_string()),
        })
    }
}

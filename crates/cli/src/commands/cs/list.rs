//! `namely cs list`: which packets the content store has below a prefix.

use std::path::Path;

use clap::Args;
use namely_store::tier::{self, TierError};
use namely_wire::Name;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::options::name;
use crate::output::octets_text;
use crate::router::connect;

/// List what the content store has below a prefix, in memory or on disk.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely cs list /lab/data\n  namely cs list /lab/data --disk --count\n\nA line has octets, for how many seconds it is fresh (-: for ever), and the name.\n\nIt is for root and the router's user. The router tells what it has in memory a part at a time; what is on its disk is read from the folder's files, or the device, here, all of it, without the router: what it has not put on the disk yet may be missing."
)]
pub struct List {
    /// The name prefix.
    #[arg(default_value = "/", value_parser = name)]
    prefix: Name,
    /// On disk.
    #[arg(long)]
    disk: bool,
    /// Count them, and do not list them.
    #[arg(long)]
    count: bool,
}

/// How many there were.
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
                self.tell(ctx, &mut total, (&packet.name, packet.octets), Some(packet.fresh_ms));
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

    /// `fresh_ms`: for how long it is fresh; none: for ever.
    fn tell(
        &self,
        ctx: &Context<'_>,
        total: &mut Total,
        (name, octets): (&Name, u64),
        fresh_ms: Option<u64>,
    ) {
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
        let bar = ctx.out.bar("{bar:24} {percent:>3}% {bytes} of {total_bytes} read");
        let now_ms = namely_host::clock::unix_ms();
        let mut found = |listed: tier::Listed<'_>| {
            let fresh = (listed.expires_ms != 0).then(|| listed.expires_ms.saturating_sub(now_ms));
            self.tell(ctx, total, (&listed.name.to_name(), listed.octets as u64), fresh);
        };
        let mut read = |done: u64, all: u64| {
            if let Some(bar) = &bar {
                bar.set(done, all);
            }
        };
        let listed = tier::list(Path::new(&disk.folder), self.prefix.as_name(), &mut found, &mut read);
        drop(bar);
        listed.map_err(|error| match error {
            TierError::ReadOnly(path) => Failure::failed(format!("{} may not be read", path.display()))
                .hint("be root, or the router's user"),
            error => Failure::failed(error.to_string()),
        })
    }
}

//! `namely vip`: objects, directions and neighbors' counts of a router's virtual plane of VIP.

use std::cmp::Reverse;

use clap::{Args, Subcommand};
use namely_messages::{Counter, VipNeighbour, VipObject, VipStatus};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Cell, octets_text};
use crate::router::connect;

/// Number of units in a router's dataset that make one VIP.
const UNIT: f64 = (1 << 20) as f64;

/// Show the router's virtual plane of VIP: objects, next hops, neighbors.
#[derive(Debug, Subcommand)]
pub enum Vip {
    /// Show the plane: its slot, its key, its catalogue, its counters
    Status(Status),
    /// List the registered objects, with the tier and the next hop of each
    Objects(Objects),
    /// List the neighbors that exchange VIPs with this router
    Neighbours(Neighbours),
    /// List the objects with the highest scores of VIPs
    Top(Top),
    /// Show the catalogue in force
    Catalogue(Catalogue),
}

impl Vip {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Vip::Status(c) => c.run(ctx),
            Vip::Objects(c) => c.run(ctx),
            Vip::Neighbours(c) => c.run(ctx),
            Vip::Top(c) => c.run(ctx),
            Vip::Catalogue(c) => c.run(ctx),
        }
    }
}

/// Returns the status of the router's plane. Fails if the router runs none.
fn status(ctx: &Context<'_>) -> Result<VipStatus, Failure> {
    connect(ctx)?.vip_status()?.ok_or_else(|| {
        Failure::failed("the router runs no virtual plane")
            .hint("put [vip] into its configuration: docs/vip.md shows how")
    })
}

/// Show the plane.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely vip status\n  namely vip status --json")]
pub struct Status {}

impl Status {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let status = status(ctx)?;
        ctx.out.answer(|| status_text(&status), || status_json(&status));
        if status.is_open {
            ctx.out.remark("the exchange is OPEN: unsigned counts of neighbors are accepted (vip.trust)");
        }
        Ok(())
    }
}

fn status_text(status: &VipStatus) -> Vec<String> {
    let VipStatus { router, slot, period_ms, catalogue, version, objects, blocks, files, .. } = status;
    let (key, octets, room) = (hex(&status.key), octets_text(status.octets), octets_text(status.room));
    let disk = status.disk_room.map(|room| {
        let rate = octets_text(status.disk_octets_per_s.unwrap_or(0));
        format!("disk       {}, read at {rate}/s", octets_text(room))
    });
    let counted = status.counters.iter().filter(|counter| counter.value > 0);
    let counted: Vec<String> =
        counted.map(|c| format!("{} {}", c.label.replace('_', " "), c.value)).collect();
    let lines = [
        format!("router     {router}"),
        format!("key        {key}"),
        format!("slot       {slot}, {period_ms} ms"),
        format!("catalogue  {catalogue}, version {version}: {blocks} blocks, {files} files"),
        format!("objects    {objects} registered, {octets}"),
        format!("room       {room}"),
    ];
    lines.into_iter().chain(disk).chain([format!("counted    {}", counted.join(", "))]).collect()
}

fn status_json(status: &VipStatus) -> Value {
    json!({
        "router": status.router, "key": hex(&status.key), "open": status.is_open, "slot": status.slot,
        "period_ms": status.period_ms, "catalogue": status.catalogue, "version": status.version,
        "objects": status.objects, "blocks": status.blocks, "files": status.files, "octets": status.octets, "room": status.room,
        "disk_room": status.disk_room, "disk_octets_per_s": status.disk_octets_per_s,
        "counters": counters_json(&status.counters),
    })
}

fn counters_json(counters: &[Counter]) -> Value {
    counters.iter().map(|counter| (counter.label.clone(), Value::from(counter.value))).collect()
}

/// List the registered objects.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely vip objects\n  namely vip objects --kept\n  namely vip objects --json\n\nV: VIPs that wait here. score: the decaying sum of VIPs that arrived. asked: VIPs of requests made here; a part of an object counts as a part. kept: the tier that the plane assigns. held: the part in memory by now, with the overhead of each packet."
)]
pub struct Objects {
    /// Only those that are kept here.
    #[arg(long)]
    kept: bool,
}

impl Objects {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        status(ctx)?;
        let mut objects = connect(ctx)?.vip_objects()?;
        objects.retain(|object| !self.kept || object.tier.is_some());
        list(ctx, &objects);
        Ok(())
    }
}

/// List the objects with the highest scores of VIPs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely vip top\n  namely vip top 3 --json")]
pub struct Top {
    /// Number of objects.
    #[arg(default_value_t = 10)]
    count: usize,
}

impl Top {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        status(ctx)?;
        let mut objects = connect(ctx)?.vip_objects()?;
        objects.sort_by_key(|object| Reverse((object.score, object.asked)));
        objects.truncate(self.count);
        list(ctx, &objects);
        Ok(())
    }
}

fn list(ctx: &Context<'_>, objects: &[VipObject]) {
    if ctx.out.is_json() {
        return objects.iter().for_each(|object| ctx.out.answer(String::new, || object_json(object)));
    }
    let columns = ["object", "size", "V", "score", "asked", "kept", "held", "goes"];
    let rows: Vec<Vec<Cell>> = objects.iter().map(row).collect();
    ctx.out.table(&columns, &rows);
}

fn row(object: &VipObject) -> Vec<Cell> {
    let kept = match object.tier {
        None => "no".to_owned(),
        Some(0) => "memory".to_owned(),
        Some(1) => "disk".to_owned(),
        Some(tier) => format!("tier {tier}"),
    };
    let goes = match object.face_id {
        _ if object.is_source => "here".to_owned(),
        Some(face) => format!("face {face}"),
        None => "-".to_owned(),
    };
    vec![
        object.name.as_str().into(),
        octets_text(object.octets).into(),
        vips(object.count),
        vips(object.score),
        vips(object.asked),
        kept.into(),
        held_text(object).into(),
        goes.into(),
    ]
}

/// Formats the part of an object in memory. Packets take more memory than their content, so the
/// whole object would seem larger than it is.
fn held_text(object: &VipObject) -> String {
    let is_whole = object.octets > 0 && object.held >= object.octets;
    if is_whole { "all".to_owned() } else { octets_text(object.held) }
}

fn object_json(object: &VipObject) -> Value {
    json!({
        "object": object.name, "id": format!("{:016x}", object.id), "octets": object.octets,
        "count": object.count as f64 / UNIT, "score": object.score as f64 / UNIT,
        "asked": object.asked as f64 / UNIT, "tier": object.tier, "held": object.held, "source": object.is_source,
        "face_id": object.face_id,
    })
}

fn vips(units: u64) -> Cell {
    Cell::Real(units as f64 / UNIT, 3)
}

/// List the neighbors.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely vip neighbours\n  namely vip neighbours --json")]
pub struct Neighbours {}

impl Neighbours {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        status(ctx)?;
        let neighbours = connect(ctx)?.vip_neighbours()?;
        if ctx.out.is_json() {
            neighbours.iter().for_each(|of| ctx.out.answer(String::new, || neighbour_json(of)));
            return Ok(());
        }
        let columns = ["neighbour", "face", "remote", "counts", "under way", "entered", "refused"];
        let rows: Vec<Vec<Cell>> = neighbours.iter().map(neighbour_row).collect();
        ctx.out.table(&columns, &rows);
        let has_no_face = |of: &&VipNeighbour| of.face_id.is_none();
        for of in neighbours.iter().filter(has_no_face) {
            ctx.out.remark(format!(
                "no face leads to {}: create it with [[face]] or `namely face create`",
                of.remote
            ));
        }
        Ok(())
    }
}

fn neighbour_row(of: &VipNeighbour) -> Vec<Cell> {
    let speaks = !of.router.is_empty();
    let counts = match of.fresh_ms {
        _ if !speaks => "does not speak VIP".to_owned(),
        Some(ms) => format!("good for {}.{} s", ms / 1000, ms % 1000 / 100),
        None => "none received".to_owned(),
    };
    let refused: u64 = of.counters.iter().map(|counter| counter.value).sum();
    vec![
        if speaks { of.router.as_str().into() } else { Cell::None },
        of.face_id.into(),
        of.remote.as_str().into(),
        counts.into(),
        vips(of.under_way),
        of.entered.into(),
        refused.into(),
    ]
}

fn neighbour_json(of: &VipNeighbour) -> Value {
    json!({
        "router": (!of.router.is_empty()).then_some(&of.router), "remote": of.remote, "face_id": of.face_id,
        "fresh_ms": of.fresh_ms, "boot": of.boot.map(|boot| format!("{boot:016x}")),
        "under_way": of.under_way as f64 / UNIT, "slots_under_way": of.slots_under_way,
        "entered": of.entered, "counters": counters_json(&of.counters),
    })
}

/// Show the catalogue in force.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  namely vip catalogue\n\n`namely catalogue` checks and makes catalogues; the router reads its own again on SIGHUP, and keeps the old one if the new one is invalid."
)]
pub struct Catalogue {}

impl Catalogue {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let VipStatus { catalogue, version, objects, blocks, files, octets, .. } = status(ctx)?;
        ctx.out.answer(
            || {
                let octets = octets_text(octets);
                format!("{catalogue}: version {version}, {blocks} blocks, {files} files; {objects} registered, {octets}")
            },
            || {
                json!({
                    "catalogue": catalogue, "version": version, "blocks": blocks, "files": files, "objects": objects,
                    "octets": octets,
                })
            },
        );
        Ok(())
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_object_is_not_larger_than_itself() {
        let held = |held| held_text(&VipObject { octets: 400_000, held, ..VipObject::default() });
        assert_eq!([0, 399_360, 400_000, 456_090].map(held), ["0 B", "390.0 KiB", "all", "all"]);
    }
}

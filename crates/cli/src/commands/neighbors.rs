//! `namely neighbors`: the neighbors on the links of a router.

use clap::Args;
use namely_messages::{NeighborState, NeighborStatus};
use namely_wire::Name;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Cell;
use crate::router::connect;

/// List the neighbors on the router's links.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely neighbors\n  namely neighbors --json")]
pub struct Neighbors {}

impl Neighbors {
    /// Prints the neighbors.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let all = connect(ctx)?.neighbors()?;
        if ctx.out.is_json() {
            all.iter().for_each(|entry| ctx.out.answer(String::new, || neighbor_json(entry)));
            return Ok(());
        }
        let is_own = |entry: &&NeighborStatus| is_own(entry.state);
        let others: Vec<&NeighborStatus> = all.iter().filter(|entry| !is_own(entry)).collect();
        let columns = ["link", "station", "state", "face", "mtu", "seen", "prefixes", "key"];
        let rows: Vec<Vec<Cell>> = others.iter().map(|entry| row(entry)).collect();
        ctx.out.table(&columns, &rows);
        for (entry, prefix) in
            others.iter().flat_map(|entry| entry.refused.iter().map(move |prefix| (entry, prefix)))
        {
            // The rule can be copied into the configuration.
            ctx.out.remark([
                format!("no rule accepts {prefix} of {}; this one would:", entry.station),
                "[[discovery.accept]]".to_owned(),
                format!("prefix = \"{prefix}\""),
                format!("key = \"{}\"", hex(&entry.key)),
            ]);
        }
        for open in all.iter().filter(|entry| entry.state == NeighborState::OwnOpen) {
            ctx.out.remark(format!(
                "{} is OPEN: every prefix that a station there announces becomes a route (discovery.open)",
                open.local_uri
            ));
        }
        let links: Vec<&str> = all.iter().filter(is_own).map(|entry| entry.local_uri.as_str()).collect();
        if links.is_empty() {
            ctx.out.remark("no link is watched: start the router with --listen-also dev://INTERFACE");
        } else if others.is_empty() {
            ctx.out.remark(format!(
                "no neighbor on {}: a router without hellos, such as NFD, is reached by the multicast group",
                links.join(", ")
            ));
        }
        Ok(())
    }
}

fn is_own(state: NeighborState) -> bool {
    matches!(state, NeighborState::Own | NeighborState::OwnOpen)
}

fn row(entry: &NeighborStatus) -> Vec<Cell> {
    let is_quarantined = entry.state == NeighborState::Quarantined;
    let seconds = entry.silent_ms.map(|ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100));
    let seen = seconds.map(|s| if is_quarantined { format!("for {s}") } else { format!("{s} ago") });
    let refused = entry.refused.iter().map(|prefix| format!("{prefix} (refused)"));
    let prefixes: Vec<String> = entry.accepted.iter().map(Name::to_string).chain(refused).collect();
    vec![
        entry.local_uri.as_str().into(),
        entry.station.as_str().into(),
        entry.state.as_str().into(),
        entry.face_id.into(),
        entry.mtu.into(),
        seen.into(),
        (!prefixes.is_empty()).then(|| prefixes.join(" ")).into(),
        // 8 octets suffice to distinguish keys.
        (!entry.key.is_empty()).then(|| hex(&entry.key[..entry.key.len().min(8)])).into(),
    ]
}

fn neighbor_json(entry: &NeighborStatus) -> serde_json::Value {
    let names = |names: &[Name]| names.iter().map(Name::to_string).collect::<Vec<_>>();
    json!({
        "link": entry.local_uri, "station": entry.station, "state": entry.state.as_str(),
        "face_id": entry.face_id, "mtu": entry.mtu, "peer_mtu": entry.peer_mtu, "key": hex(&entry.key),
        "silent_ms": entry.silent_ms, "prefixes": names(&entry.accepted), "refused": names(&entry.refused),
    })
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

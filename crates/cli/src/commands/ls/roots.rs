//! `namely ls /`: the prefixes that the router knows, with the programs and neighbors behind them.

use std::collections::{BTreeMap, BTreeSet};

use namely_client::{Client, ClientError, FACE_LOCAL};
use namely_messages::{FaceScope, FaceStatus};
use namely_wire::Name;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Cell;
use crate::router::connect;

/// First components of names that no router forwards to others.
const OF_ROUTERS: [&[u8]; 2] = [b"localhost", b"localhop"];

/// Prints the prefixes, each with the programs and neighbors that Interests below it go to.
pub(super) fn list(ctx: &Context<'_>, is_names_only: bool) -> Result<(), Failure> {
    let mut router = connect(ctx)?;
    let faces: BTreeMap<u64, FaceStatus> =
        router.faces()?.into_iter().map(|face| (face.face_id, face)).collect();
    let known = known(&mut router)?;
    if is_names_only {
        let names: BTreeSet<&Name> = known.iter().map(|(prefix, _)| prefix).collect();
        names.iter().for_each(|name| ctx.out.answer(|| name.to_string(), || json!(name.to_string())));
        return Ok(());
    }
    let rows: Vec<Vec<Cell>> = known
        .iter()
        .map(|(prefix, face_id)| {
            let face = faces.get(face_id);
            let behind = face.map_or_else(|| format!("face {face_id}"), FaceStatus::remote_text);
            vec![kind(face).into(), prefix.to_string().into(), behind.into()]
        })
        .collect();
    ctx.out.table(&["kind", "uri", "behind"], &rows);
    if rows.is_empty() {
        ctx.out.remark(
            "the router knows no names: `namely serve DIR --prefix /NAME` publishes some, `namely route add` \
             leads to those of others",
        );
    }
    Ok(())
}

fn kind(face: Option<&FaceStatus>) -> &'static str {
    match face.map(|face| face.face_scope) {
        Some(FaceScope::Local) => "program",
        _ => "neighbor",
    }
}

/// Returns the prefixes and the faces of their next hops, without those of the router itself.
fn known(router: &mut Client) -> Result<BTreeSet<(Name, u64)>, ClientError> {
    let mut known = BTreeSet::new();
    for entry in router.rib()? {
        known.extend(entry.routes.iter().map(|route| (entry.prefix.clone(), route.face_id)));
    }
    // Some routers have entries without routes.
    let routed: BTreeSet<Name> = known.iter().map(|(prefix, _)| prefix.clone()).collect();
    for entry in router.fib()?.into_iter().filter(|entry| !routed.contains(&entry.prefix)) {
        known.extend(entry.next_hops.iter().map(|hop| (entry.prefix.clone(), hop.face_id)));
    }
    // Other routers than namely's have no bindings.
    let bindings = router.bindings().unwrap_or_default();
    known.extend(bindings.into_iter().map(|binding| (binding.prefix, binding.face_id)));
    // The programs behind this face are those of the bindings.
    known.retain(|(prefix, face_id)| {
        let first = prefix.components().next();
        *face_id != FACE_LOCAL && first.is_none_or(|first| !OF_ROUTERS.contains(&first.value))
    });
    Ok(known)
}

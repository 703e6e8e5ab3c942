//! Routes for neighbours who make a face to this router.

use namely_mgmt::Control;
use namely_wire::mgmt::{Route, RouteOrigin, route_flags};

use crate::config::Autoreg;
use crate::dataplane::{FaceStatus, Persistency};

/// Registers what `rules` give to the neighbour at the other end of a new face.
pub(super) fn register(rules: &[Autoreg], face: &FaceStatus, control: Control<'_>, now_ns: u64) {
    let neighbour =
        face.remote.address().filter(|_| !face.is_local && face.persistency == Persistency::OnDemand);
    let Some(address) = neighbour else { return };
    for rule in rules.iter().filter(|rule| rule.admits(address.ip())) {
        let route = Route {
            face_id: face.face_id.0,
            origin: RouteOrigin::AUTOREG,
            cost: rule.cost,
            flags: route_flags::CHILD_INHERIT,
            expiration_period_ms: None,
        };
        for prefix in &rule.prefixes {
            if let Err(error) = control.tables.rib_register(prefix.as_name(), &route, now_ns) {
                tracing::warn!("no route {prefix} to the neighbour at {address}: {error:?}");
            }
        }
    }
}

//! Routes for neighbors that connect to this router.

use namely_forwarder::Charge;
use namely_messages::{FaceEventNotification, FacePersistency, FaceScope, Route, RouteOrigin, route_flags};
use namely_mgmt::Control;
use namely_wire::FaceUri;

use crate::config::Autoreg;

/// Registers the routes of `rules` for the neighbor at the other end of a new face.
pub(super) fn register(rules: &[Autoreg], face: &FaceEventNotification, control: Control<'_>, now_ns: u64) {
    if face.face_scope == FaceScope::Local || face.face_persistency != FacePersistency::OnDemand {
        return;
    }
    let Some(address) = face.uri.parse().ok().and_then(|remote: FaceUri| remote.ip()) else { return };
    for rule in rules.iter().filter(|rule| rule.admits(address)) {
        let route = Route {
            face_id: face.face_id,
            origin: RouteOrigin::AUTOREG,
            cost: rule.cost,
            flags: route_flags::CHILD_INHERIT,
            expiration_period_ms: None,
        };
        for prefix in &rule.prefixes {
            if let Err(error) = control.tables.rib_register(Charge::Router, prefix.as_name(), &route, now_ns)
            {
                tracing::warn!(%prefix, %address, %error, "no route to the new neighbor");
            }
        }
    }
}

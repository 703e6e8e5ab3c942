//! `rib/register` and `rib/unregister`. The caller converts `rib/announce` to a registration.

use namely_forwarder::{Charge, FaceId, FibError, RibError};
use namely_messages::{
    Command, CommandParameters, CommandRequest, ControlParameters, ControlResponse, FaceScope, Route,
    RouteOrigin, route_flags, status_code,
};
use namely_wire::NameRef;

use super::{CommandResult, face_or_own, not_found, required_name, table_refusal};
use crate::control::{Control, Tables};

/// Executes a command. An announcement is also passed to the face, which may attach it to Data
/// until it expires or the route is unregistered.
pub(crate) fn execute(
    request: &CommandRequest<'_>,
    parameters: &ControlParameters,
    own: u64,
    control: Control<'_>,
    now_ns: u64,
) -> CommandResult {
    let is_unregistered = request.command == Command::RibUnregister;
    let response = if is_unregistered {
        unregister(parameters, own, control.tables)?
    } else {
        register(parameters, own, control, now_ns)?
    };
    let lasts_ns = parameters.expiration_period_ms.unwrap_or(u64::MAX).saturating_mul(1_000_000);
    let announcement = match &request.parameters {
        CommandParameters::Announcement(data) => Some((*data, now_ns.saturating_add(lasts_ns))),
        CommandParameters::Control(_) => None,
    };
    if announcement.is_some() || is_unregistered {
        let prefix = required_name(parameters)?.to_name();
        control.faces.announce(FaceId(face_or_own(parameters, own)), &prefix, announcement);
    }
    Ok(response)
}

fn register(parameters: &ControlParameters, own: u64, control: Control<'_>, now_ns: u64) -> CommandResult {
    let tables = control.tables;
    let prefix = required_name(parameters)?;
    let route = Route {
        face_id: face_or_own(parameters, own),
        origin: parameters.origin.unwrap_or(RouteOrigin::APP),
        cost: parameters.cost.unwrap_or(0),
        flags: parameters.flags.unwrap_or(route_flags::CHILD_INHERIT),
        expiration_period_ms: parameters.expiration_period_ms,
    };
    // A route to another face requires the right to manage the router, so the router is charged.
    let charge = if route.face_id == own { Charge::Owner } else { Charge::Router };
    tables.rib_register(charge, prefix, &route, now_ns).map_err(|error| match error {
        RibError::OwnerFull => ControlResponse::new(status_code::UNAUTHORIZED, error.to_string()),
        RibError::NoFace | RibError::Fib(FibError::NoFace) => table_refusal(true, "RIB", route.face_id),
        RibError::TableFull | RibError::Fib(_) => table_refusal(false, "RIB", route.face_id),
    })?;
    let mut response = ControlResponse::ok(&ControlParameters {
        name: Some(prefix.to_name()),
        face_id: Some(route.face_id),
        origin: Some(route.origin),
        cost: Some(route.cost),
        flags: Some(route.flags),
        expiration_period_ms: route.expiration_period_ms,
        ..Default::default()
    });
    if route.face_id == own && has_other_applications(prefix, own, control) {
        response.text = ControlResponse::SHARED_TEXT.to_owned();
    }
    Ok(response)
}

/// Returns true if a route of this prefix leads to another process of this machine.
fn has_other_applications(prefix: NameRef<'_>, own: u64, control: Control<'_>) -> bool {
    let process = |face: u64| {
        let face = control.faces.face(FaceId(face)).filter(|face| face.face_scope == FaceScope::Local)?;
        Some(face.details.and_then(|details| details.pid).ok_or(face.face_id))
    };
    let own = process(own);
    let others = control.tables.rib_faces(prefix).into_iter().filter_map(process);
    // A face without a known process counts as a process of its own.
    own.is_some_and(|own| others.into_iter().any(|other| other != own))
}

fn unregister(parameters: &ControlParameters, own: u64, tables: &dyn Tables) -> CommandResult {
    let prefix = required_name(parameters)?;
    let face_id = face_or_own(parameters, own);
    let origin = parameters.origin.unwrap_or(RouteOrigin::APP);
    if !tables.rib_unregister(prefix, FaceId(face_id), origin) {
        return Err(not_found(format!("{prefix} has no route to face {face_id} with origin {origin}")));
    }
    Ok(ControlResponse::ok(&ControlParameters {
        name: Some(prefix.to_name()),
        face_id: Some(face_id),
        origin: Some(origin),
        ..Default::default()
    }))
}

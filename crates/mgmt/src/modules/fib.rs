//! `fib/add-nexthop` and `fib/remove-nexthop`.

use namely_forwarder::{FaceId, FibError};
use namely_messages::{ControlParameters, ControlResponse};

use super::{CommandResult, face_or_own, not_found, required_name, table_refusal};
use crate::control::Tables;

pub(crate) fn add_nexthop(parameters: &ControlParameters, own: u64, tables: &dyn Tables) -> CommandResult {
    let prefix = required_name(parameters)?;
    let face_id = face_or_own(parameters, own);
    let cost = parameters.cost.unwrap_or(0);
    tables
        .fib_add(prefix, FaceId(face_id), cost)
        .map_err(|error| table_refusal(error == FibError::NoFace, "FIB", face_id))?;
    Ok(ControlResponse::ok(&ControlParameters {
        name: Some(prefix.to_name()),
        face_id: Some(face_id),
        cost: Some(cost),
        ..Default::default()
    }))
}

pub(crate) fn remove_nexthop(parameters: &ControlParameters, own: u64, tables: &dyn Tables) -> CommandResult {
    let prefix = required_name(parameters)?;
    let face_id = face_or_own(parameters, own);
    if !tables.fib_remove(prefix, FaceId(face_id)) {
        return Err(not_found(format!("{prefix} has no next hop {face_id}")));
    }
    Ok(ControlResponse::ok(&ControlParameters {
        name: Some(prefix.to_name()),
        face_id: Some(face_id),
        ..Default::default()
    }))
}

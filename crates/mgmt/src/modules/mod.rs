//! The commands of each module: parameters in, a response out, once they were allowed.

pub(crate) mod bpt;
pub(crate) mod cs;
pub(crate) mod explain;
pub(crate) mod faces;
pub(crate) mod fib;
pub(crate) mod hop;
pub(crate) mod rib;
pub(crate) mod strategy;
pub(crate) mod trace;

use namely_wire::mgmt::{ControlParameters, ControlResponse, status_code};
use namely_wire::{Name, NameRef};

/// 400: the parameters are not what the command takes.
pub(crate) fn bad(text: impl Into<String>) -> ControlResponse {
    ControlResponse::new(status_code::BAD_PARAMETERS, text)
}

/// 404: what the command is about does not exist.
pub(crate) fn not_found(text: impl Into<String>) -> ControlResponse {
    ControlResponse::new(status_code::NOT_FOUND, text)
}

/// The Name that a command needs.
pub(crate) fn required_name(parameters: &ControlParameters) -> Result<NameRef<'_>, ControlResponse> {
    parameters.name.as_ref().map(Name::as_name).ok_or_else(|| bad("Name is missing"))
}

/// The face that a command is about: FaceId, or the one it came from.
pub(crate) fn face_or_own(parameters: &ControlParameters, own: u64) -> u64 {
    parameters.face_id.filter(|id| *id != 0).unwrap_or(own)
}

/// What Flags and Mask request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaskedFlags {
    flags: u64,
    mask: u64,
}

impl MaskedFlags {
    /// Reads both; NFD takes both or neither.
    pub(crate) fn of(parameters: &ControlParameters) -> Result<Self, ControlResponse> {
        match (parameters.flags, parameters.mask) {
            (Some(flags), Some(mask)) => Ok(MaskedFlags { flags, mask }),
            (None, None) => Ok(MaskedFlags { flags: 0, mask: 0 }),
            _ => Err(bad("Flags and Mask go together: send both or neither")),
        }
    }

    /// The wanted state of `bit`; `None` leaves it alone.
    pub(crate) fn bit(self, bit: u64) -> Option<bool> {
        (self.mask & bit != 0).then_some(self.flags & bit != 0)
    }
}

/// Why a table did not take an entry, as a response: there is no such face, or it is full.
pub(crate) fn table_refusal(is_face_missing: bool, table: &str, face_id: u64) -> ControlResponse {
    if is_face_missing {
        ControlResponse::new(status_code::FACE_NOT_FOUND, format!("there is no face {face_id}"))
    } else {
        let text = format!("the {table} is full; raise its limit in the router's configuration");
        ControlResponse::new(status_code::INTERNAL_ERROR, text)
    }
}

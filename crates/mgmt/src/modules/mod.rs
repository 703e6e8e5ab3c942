//! The commands of each module. Their functions take the parameters of an authorized command and
//! return a response.

pub(crate) mod bpt;
pub(crate) mod cs;
pub(crate) mod explain;
pub(crate) mod faces;
pub(crate) mod fib;
pub(crate) mod hop;
pub(crate) mod rib;
pub(crate) mod strategy;
pub(crate) mod trace;

use namely_messages::{ControlParameters, ControlResponse, status_code};
use namely_wire::{Name, NameRef};

/// The response of a command that was executed, or of one that was refused.
pub(crate) type CommandResult = Result<ControlResponse, ControlResponse>;

/// 400: the parameters are not valid for the command.
pub(crate) fn bad(text: impl Into<String>) -> ControlResponse {
    ControlResponse::new(status_code::BAD_PARAMETERS, text)
}

/// 404: the object of the command does not exist.
pub(crate) fn not_found(text: impl Into<String>) -> ControlResponse {
    ControlResponse::new(status_code::NOT_FOUND, text)
}

/// The Name that a command requires.
pub(crate) fn required_name(parameters: &ControlParameters) -> Result<NameRef<'_>, ControlResponse> {
    parameters.name.as_ref().map(Name::as_name).ok_or_else(|| bad("Name is missing"))
}

/// The face of a command: its FaceId, or the face that the command came from.
pub(crate) fn face_or_own(parameters: &ControlParameters, own: u64) -> u64 {
    parameters.face_id.filter(|id| *id != 0).unwrap_or(own)
}

/// The requested change of Flags, with its Mask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaskedFlags {
    flags: u64,
    mask: u64,
}

impl MaskedFlags {
    /// Reads both fields. As in NFD, both or neither must be present.
    pub(crate) fn of(parameters: &ControlParameters) -> Result<Self, ControlResponse> {
        match (parameters.flags, parameters.mask) {
            (Some(flags), Some(mask)) => Ok(MaskedFlags { flags, mask }),
            (None, None) => Ok(MaskedFlags { flags: 0, mask: 0 }),
            _ => Err(bad("Flags and Mask go together: send both or neither")),
        }
    }

    /// The requested state of `bit`; `None` leaves it unchanged.
    pub(crate) fn bit(self, bit: u64) -> Option<bool> {
        (self.mask & bit != 0).then_some(self.flags & bit != 0)
    }
}

/// The response if a table refused an entry: there is no such face, or the table is full.
pub(crate) fn table_refusal(is_face_missing: bool, table: &str, face_id: u64) -> ControlResponse {
    if is_face_missing {
        ControlResponse::new(status_code::FACE_NOT_FOUND, format!("there is no face {face_id}"))
    } else {
        let text = format!("the {table} is full; raise its limit in the router's configuration");
        ControlResponse::new(status_code::INTERNAL_ERROR, text)
    }
}

//! `bpt/bind` and `bpt/unbind`: the prefixes of this host's applications, below the routable
//! prefixes that the operator routes to the face `local`.

use namely_forwarder::{BindError, Bound, FaceId};
use namely_messages::{ControlParameters, ControlResponse, bind_flags, status_code};
use namely_wire::{Name, NameRef};

use super::{CommandResult, bad, face_or_own, not_found, required_name};
use crate::control::Tables;

/// Prefixes that one face has bound.
///
/// So one application cannot fill the table.
///
/// # Limit
/// The bind is refused with status 500.
/// - Counter: `management.commands_failed`
/// - Tests: `bound_prefixes_per_face_are_limited`
pub const BINDINGS_PER_FACE_MAX: usize = 4096;

/// Octets and components of a bound prefix.
///
/// # Limit
/// The bind is refused with status 414.
/// - Value: 255 octets, 32 components
/// - Counter: `management.commands_failed`
/// - Tests: `long_prefixes_cannot_be_bound`
pub const BOUND_PREFIX_MAX: (usize, usize) = (255, 32);

pub(crate) fn bind(parameters: &ControlParameters, own: u64, tables: &dyn Tables) -> CommandResult {
    let prefix = required_name(parameters)?;
    let flags = parameters.flags.unwrap_or_default();
    if flags & !bind_flags::ROUTED != 0 {
        return Err(bad(format!("Flags {flags}: a binding knows {} only", bind_flags::ROUTED)));
    }
    if prefix.as_bytes().len() > BOUND_PREFIX_MAX.0 || prefix.len() > BOUND_PREFIX_MAX.1 {
        let (octets, components) = BOUND_PREFIX_MAX;
        let text = format!("a bound prefix has at most {components} components and {octets} octets");
        return Err(ControlResponse::new(status_code::NAME_TOO_LONG, text));
    }
    if flags & bind_flags::ROUTED != 0 && tables.bpt_routed(prefix).is_none() {
        return Err(not_found(not_routed(prefix)));
    }
    let (face, name) = (FaceId(face_or_own(parameters, own)), prefix.to_name());
    let bound = match tables.bpt_bind(face, &name, BINDINGS_PER_FACE_MAX) {
        // A repeated bind succeeds, because a client cannot know if its first command arrived.
        Err(BindError::InUse) if tables.bpt_holds(face, &name) => {
            Ok(tables.bpt_routed(prefix).map_or(Bound::NotRouted, |_| Bound::Routed))
        }
        other => other,
    };
    let bound = bound.map_err(|error| refusal(error, prefix, face, tables))?;
    let is_routed = bound == Bound::Routed;
    let response = ControlResponse::ok(&ControlParameters {
        name: Some(name),
        face_id: Some(face.0),
        flags: Some(if is_routed { bind_flags::ROUTED } else { 0 }),
        ..Default::default()
    });
    Ok(if is_routed { response } else { ControlResponse { text: not_routed(prefix), ..response } })
}

pub(crate) fn unbind(parameters: &ControlParameters, own: u64, tables: &dyn Tables) -> CommandResult {
    let prefix = required_name(parameters)?.to_name();
    let face_id = face_or_own(parameters, own);
    if !tables.bpt_unbind(FaceId(face_id), &prefix) {
        return Err(not_found(format!("face {face_id} has not bound {prefix}")));
    }
    Ok(ControlResponse::ok(&ControlParameters {
        name: Some(prefix),
        face_id: Some(face_id),
        ..Default::default()
    }))
}

/// Rule 2 (`IS-07`): the text for an application whose prefix no route covers.
fn not_routed(prefix: NameRef<'_>) -> String {
    format!("no route leads {prefix} to `local`: until there is one, no Interest comes by this binding")
}

fn refusal(error: BindError, prefix: NameRef<'_>, face: FaceId, tables: &dyn Tables) -> ControlResponse {
    match error {
        BindError::InUse => {
            let of = tables.bpt_bound_to(prefix);
            let by =
                of.map_or_else(|| "one that is bound".into(), |of| format!("one that face {of} has bound"));
            let text = format!("{prefix} overlaps {by}: choose a name beside it");
            ControlResponse::new(status_code::CONFLICT, text)
        }
        BindError::NoFace => {
            ControlResponse::new(status_code::FACE_NOT_FOUND, format!("there is no face {face}"))
        }
        BindError::NotUpper => bad(format!("face {face} leads to another host: only applications bind")),
        BindError::OwnerFull => ControlResponse::new(status_code::UNAUTHORIZED, error.to_string()),
        BindError::NoMemory => ControlResponse::new(status_code::INTERNAL_ERROR, error.to_string()),
        BindError::TableFull => ControlResponse::new(
            status_code::INTERNAL_ERROR,
            format!(
                "too many prefixes are bound, or {BINDINGS_PER_FACE_MAX} by this application: unbind some"
            ),
        ),
    }
}

/// The bound prefixes, in the order of names.
pub(crate) fn list(tables: &dyn Tables) -> Vec<namely_messages::Binding> {
    let flags =
        |prefix: &Name| if tables.bpt_routed(prefix.as_name()).is_some() { bind_flags::ROUTED } else { 0 };
    let mut bindings: Vec<_> = tables
        .bpt()
        .into_iter()
        .map(|(prefix, face)| namely_messages::Binding { flags: flags(&prefix), prefix, face_id: face.0 })
        .collect();
    bindings.sort_by(|a, b| a.prefix.cmp(&b.prefix));
    bindings
}

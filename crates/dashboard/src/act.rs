//! The actions by which a holder of the token changes a router.

use namely_client::{FaceProperties, RouteOptions};
use namely_messages::RouteOrigin;
use namely_wire::Name;
use serde::Deserialize;
use serde_json::Value;

use crate::reach::{RouterError, RouterLink};

/// Octets of the body of a request to a dashboard.
///
/// # Limit
/// The request is refused with 413.
/// - Counter: `refused`
/// - Tests: `oversized_heads_and_bodies_are_refused`
pub const BODY_OCTETS_MAX: usize = 16 * 1024;

/// Commands of a dashboard in progress at once.
///
/// # Limit
/// A further command is refused with 503.
/// - Counter: `refused_busy`
/// - Tests: `excess_actions_are_refused_as_busy`
pub const ACTIONS_MAX: usize = 4;

/// A command to a router.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Action {
    /// Makes a face to an address.
    FaceCreate { uri: String },
    /// Destroys a face.
    FaceDestroy { face: u64 },
    /// Adds a route for a prefix to a face, given by number or address.
    RouteAdd { prefix: String, face: String, cost: u64 },
    /// Removes a route.
    RouteRemove { prefix: String, face: u64, origin: String },
    /// Chooses a strategy below a prefix.
    StrategySet { prefix: String, strategy: String },
    /// Takes that back.
    StrategyUnset { prefix: String },
    /// Erases the content store's entries below a prefix.
    StoreErase { prefix: String },
}

impl Action {
    /// Parses a request's body into the index of the router and the action.
    pub(crate) fn parse(mut body: Value) -> Result<(usize, Action), String> {
        let object = body.as_object_mut().ok_or("the body is not an object")?;
        let router = object.remove("router").and_then(|router| router.as_u64()).ok_or("which router?")?;
        let action = serde_json::from_value(body).map_err(|error| error.to_string())?;
        Ok((usize::try_from(router).unwrap_or(usize::MAX), action))
    }

    /// Carries out the action and returns a report of it.
    pub(crate) fn carry_out(&self, reach: &RouterLink) -> Result<String, RouterError> {
        let mut client = reach.client()?;
        match self {
            Action::FaceCreate { uri } => {
                let face = client.create_face(uri, None, &FaceProperties::default())?;
                Ok(format!("face {} to {}", face.face_id, face.uri))
            }
            Action::FaceDestroy { face } => {
                client.destroy_face(*face)?;
                Ok(format!("face {face} is destroyed"))
            }
            Action::RouteAdd { prefix, face, cost } => {
                let prefix = name(prefix)?;
                let face = client.find_or_create_face(face)?;
                client.add_route(&prefix, face, &RouteOptions { cost: *cost, ..RouteOptions::default() })?;
                Ok(format!("{prefix} leads to face {face}, at cost {cost}"))
            }
            Action::RouteRemove { prefix, face, origin } => {
                let prefix = name(prefix)?;
                let origin: RouteOrigin =
                    origin.parse().map_err(|_| wrong(format!("{origin} is not an origin of routes")))?;
                client.remove_route(&prefix, *face, origin)?;
                Ok(format!("{prefix} no longer leads to face {face}"))
            }
            Action::StrategySet { prefix, strategy } => {
                let prefix = name(prefix)?;
                let strategy = client.set_strategy(&prefix, strategy)?;
                Ok(format!("{prefix} is forwarded by {strategy}"))
            }
            Action::StrategyUnset { prefix } => {
                let prefix = name(prefix)?;
                client.unset_strategy(&prefix)?;
                Ok(format!("{prefix} has no strategy of its own now"))
            }
            Action::StoreErase { prefix } => {
                let prefix = name(prefix)?;
                let erased = client.erase_cs(&prefix, None)?;
                Ok(format!("{erased} Data below {prefix} are erased from memory"))
            }
        }
    }
}

/// A name that begins with a slash, so that no other word is taken for one.
pub(crate) fn name(text: &str) -> Result<Name, RouterError> {
    if !text.starts_with('/') {
        return Err(wrong("a name begins with a slash"));
    }
    text.parse().map_err(|error| wrong(format!("{text} is not a name: {error}")))
}

fn wrong(what: impl Into<String>) -> RouterError {
    RouterError { what: what.into(), hint: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_holds_exactly_one_action() {
        let right = json!({"router": 1, "do": "route_remove", "prefix": "/a", "face": 3, "origin": "static"});
        assert!(matches!(Action::parse(right), Ok((1, Action::RouteRemove { face: 3, .. }))));
        for wrong in [
            json!([]),
            json!({"do": "face_destroy", "face": 1}),
            json!({"router": -1, "do": "face_destroy", "face": 1}),
            json!({"router": 0, "do": "format_disk"}),
            json!({"router": 0, "do": "face_destroy", "face": "x"}),
            json!({"router": 0, "do": "face_destroy", "face": 1, "more": 1}),
        ] {
            assert!(Action::parse(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(name("lab").is_err() && name("/lab").is_ok());
    }
}

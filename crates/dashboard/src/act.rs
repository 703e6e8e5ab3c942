//! What the page does to a router for who has the token.

use namely_client::{FaceProperties, RouteOptions};
use namely_wire::Name;
use namely_wire::mgmt::RouteOrigin;
use serde::Deserialize;
use serde_json::Value;

use crate::reach::{Reach, Trouble};

/// Longest body of a request, octets.
pub const BODY_OCTETS_MAX: usize = 16 * 1024;

/// Commands that are under way at once.
pub const ACTIONS_MAX: usize = 4;

/// A command to a router.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Action {
    /// Makes a face to an address.
    FaceCreate { uri: String },
    /// Destroys a face.
    FaceDestroy { face: u64 },
    /// Has names below a prefix asked for at a face, by number or address.
    RouteAdd { prefix: String, face: String, cost: u64 },
    /// Removes a route.
    RouteRemove { prefix: String, face: u64, origin: String },
    /// Chooses a strategy below a prefix.
    StrategySet { prefix: String, strategy: String },
    /// Takes that back.
    StrategyUnset { prefix: String },
    /// Erases what the content store has below a prefix.
    StoreErase { prefix: String },
}

impl Action {
    /// The action that a request's body says, without `router`, which says where.
    pub(crate) fn parse(mut body: Value) -> Result<(usize, Action), String> {
        let object = body.as_object_mut().ok_or("the body is no object")?;
        let router = object.remove("router").and_then(|router| router.as_u64()).ok_or("which router?")?;
        let action = serde_json::from_value(body).map_err(|error| error.to_string())?;
        Ok((usize::try_from(router).unwrap_or(usize::MAX), action))
    }

    /// Carries it out, and says what was done.
    pub(crate) fn carry_out(&self, reach: &Reach) -> Result<String, Trouble> {
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
                    origin.parse().map_err(|_| wrong(format!("{origin} is no origin of routes")))?;
                client.remove_route(&prefix, *face, origin)?;
                Ok(format!("{prefix} leads to face {face} no more"))
            }
            Action::StrategySet { prefix, strategy } => {
                let prefix = name(prefix)?;
                let strategy = client.set_strategy(&prefix, strategy)?;
                Ok(format!("{prefix} is forwarded by {strategy}"))
            }
            Action::StrategyUnset { prefix } => {
                let prefix = name(prefix)?;
                client.unset_strategy(&prefix)?;
                Ok(format!("{prefix} has no strategy of its own any more"))
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
pub(crate) fn name(text: &str) -> Result<Name, Trouble> {
    if !text.starts_with('/') {
        return Err(wrong("a name begins with a slash"));
    }
    text.parse().map_err(|error| wrong(format!("{text} is no name: {error}")))
}

fn wrong(what: impl Into<String>) -> Trouble {
    Trouble { what: what.into(), hint: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_one_action_of_one_router_and_nothing_else() {
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

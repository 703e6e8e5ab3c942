//! Routes that are reported to a routing daemon on this machine, like NFD's `readvertise_nlsr`.

use namely_messages::RouteOrigin;
use serde::{Deserialize, Deserializer};

use super::values;

/// Routes that a routing daemon announces to the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Readvertise {
    /// The origins of these routes. Without any, no route is reported.
    #[serde(deserialize_with = "origins")]
    pub origins: Vec<RouteOrigin>,
}

fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RouteOrigin>, D::Error> {
    Ok(Vec::<OriginText>::deserialize(deserializer)?.into_iter().map(|text| text.0).collect())
}

struct OriginText(RouteOrigin);

impl<'de> Deserialize<'de> for OriginText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| match text.parse::<RouteOrigin>() {
            Ok(origin) => Ok(OriginText(origin)),
            Err(_) => {
                let known = "app, client, autoreg, autoconf, prefixann, static";
                Err(format!("`{text}` is none of {known}, and no number"))
            }
        };
        values::parsed(deserializer, "an origin such as \"client\"", parse)
    }
}

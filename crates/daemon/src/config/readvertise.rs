//! Routes that are reported to a routing daemon on this machine, like NFD's `readvertise_nlsr`.

use namely_messages::RouteOrigin;
use serde::{Deserialize, Deserializer};

/// Routes that a routing daemon announces to the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Readvertise {
    /// The origins of these routes. Without any, no route is reported.
    #[serde(deserialize_with = "origins")]
    pub origins: Vec<RouteOrigin>,
}

fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RouteOrigin>, D::Error> {
    let origin = |text: String| {
        text.parse().map_err(|_| {
            let known = "app, client, autoreg, autoconf, prefixann, static or a number";
            serde::de::Error::custom(format!("`{text}` is not an origin: write {known}"))
        })
    };
    Vec::<String>::deserialize(deserializer)?.into_iter().map(origin).collect()
}

//! The listener for metrics.

use std::net::SocketAddr;

use serde::Deserialize;

use super::values;

/// The listener for a Prometheus server (docs/metrics.md).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// The address. Without it, no metrics are served.
    #[serde(deserialize_with = "values::socket_address")]
    pub listen: Option<SocketAddr>,
    /// Host names that requests may contain in addition to addresses, `localhost` and the machine's
    /// own name.
    pub hosts: Vec<String>,
    /// Faces with their own series of metrics, the oldest first.
    ///
    /// Without a limit, peers that open faces could fill the storage of a Prometheus server.
    ///
    /// # Limit
    /// All other faces share one series.
    /// - Value: 2000
    /// - Setting: `metrics.faces_max`
    /// - Tests: `faces_beyond_the_limit_are_merged`
    pub faces_max: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics { listen: None, hosts: Vec::new(), faces_max: 2000 }
    }
}

//! Where metrics are served.

use std::net::SocketAddr;

use serde::Deserialize;

/// Where metrics are served, for a Prometheus server to fetch (docs/metrics.md).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// The address; none are served without.
    pub listen: Option<SocketAddr>,
    /// Names by which browsers and Prometheus servers may call it, beside addresses, `localhost`
    /// and the machine's own name.
    pub hosts: Vec<String>,
    /// Faces that have series of their own, the oldest first; all further ones are shown as one, so
    /// that peers do not decide how much a Prometheus server stores.
    pub faces_max: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics { listen: None, hosts: Vec::new(), faces_max: 2000 }
    }
}

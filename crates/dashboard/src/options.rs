//! The options of a page.

use std::net::SocketAddr;
use std::time::Duration;

use crate::{CertificateFiles, PrometheusUrl};

/// Routers of one dashboard.
///
/// # Limit
/// The dashboard does not start.
/// - Tests: `shown_routers_are_limited`
pub const ROUTERS_MAX: usize = 32;

/// The routers that the page shows, and the clients that it serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address at which the dashboard listens; port 0 is any.
    pub listen: SocketAddr,
    /// The routers' addresses; `None` stands for the router in the usual places.
    pub routers: Vec<Option<String>>,
    /// Users with trusted routers on this machine, beside this user and root.
    pub trust_router_of: String,
    /// The trust in producers of fetched Data.
    pub trust: namely_socket::Trust,
    /// The certificate for HTTPS. Without one, the page is served on this machine alone.
    pub certificate: Option<CertificateFiles>,
    /// Names by which browsers may address the server, beside addresses, `localhost` and the names
    /// of the certificate.
    pub hosts: Vec<String>,
    /// Interval at which routers are polled while a page watches.
    pub interval: Duration,
    /// The Prometheus server that scrapes the routers, for a history of hours and days.
    pub prometheus: Option<PrometheusUrl>,
}

impl Default for Options {
    /// Polls the usual router once a second, and listens for this machine only.
    fn default() -> Self {
        Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            routers: vec![None],
            trust_router_of: String::new(),
            trust: namely_socket::Trust::User,
            certificate: None,
            hosts: Vec::new(),
            interval: Duration::from_secs(1),
            prometheus: None,
        }
    }
}

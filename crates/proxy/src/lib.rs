//! HTTP through named data (HT-33): [`ingress`] answers browsers, players and `curl` from named
//! objects, [`egress`] makes those objects from what origins answer. Between the two are only
//! names, so that every router on the way may answer, and many clients that want the same cost the
//! origin one request.
//!
//! What is asked for is the name alone: request headers do not travel, so nothing that depends on
//! who asks (cookies, credentials) is carried, and responses meant for one client are refused.
//! docs/proxy.md has names and formats.
//!
//! ```no_run
//! use namely_proxy::ingress::{Ingress, Sites};
//! use namely_socket::{Consumer, ConsumerOptions};
//!
//! let sites = Sites::One("/http/video.example".parse().expect("a name"));
//! let consumer = Consumer::bind(sites.prefix().clone(), ConsumerOptions::default())?;
//! let gateway = Ingress::start(([127, 0, 0, 1], 8080).into(), sites, consumer)?;
//! println!("http://{}/", gateway.address());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod egress;
pub mod freshness;
pub mod head;
pub mod ingress;
pub mod names;
pub mod range;

/// The target under which both gateways log one line for each request, at level info.
pub const ACCESS: &str = "namely_access";

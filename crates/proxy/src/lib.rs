//! HTTP over named data (HT-33). [`ingress`] answers browsers, players and `curl` from named
//! objects. [`egress`] makes those objects from responses of origins. Only names connect the two,
//! so every router on the path may answer, and many requests for the same resource cost the origin
//! one request.
//!
//! A request consists of the name alone, because request headers are not carried. So nothing that
//! depends on the client (cookies, credentials) is carried, and responses for one client only are
//! refused. docs/proxy.md has names and formats.
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

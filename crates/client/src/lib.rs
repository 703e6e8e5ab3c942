//! A client for a router's management: faces and channels, routes and FIB, strategies, the content
//! store, status and counters.
//!
//! [`Client`] works with any router that supports the NFD management protocol, over the client's
//! connection of `namely-transport`. It returns the protocol's own values ([`namely_messages`]). A
//! router on the same host identifies the user by the socket; over the network a command needs a
//! key that the router trusts. Answers are not verified: they are as trustworthy as the connection
//! to the router. The crate contains no part of a router, and is not for the forwarding path.
//!
//! ```no_run
//! use namely_client::{Client, FaceProperties, RouteOptions, default_signer};
//!
//! let mut client = Client::find(None, default_signer())?;
//! let face = client.create_face("udp://192.0.2.7", None, &FaceProperties::default())?;
//! let options = RouteOptions { cost: 10, ..Default::default() };
//! client.add_route(&"/lab".parse()?, face.face_id, &options)?;
//! for entry in client.rib()? {
//!     println!("{}: {} routes", entry.prefix, entry.routes.len());
//! }
//! println!("{} Interests so far", client.status()?.in_interests);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Follows NFD's management protocol; docs/management.md lists what namely's router adds.
#![forbid(unsafe_code)]

mod bindings;
mod client;
mod dataset;
mod error;
mod faces;
mod hot;
pub mod rates;
mod routes;
mod tables;
mod traces;

pub use bindings::{FACE_LOCAL, Upstream};
pub use client::{Client, default_signer};
pub use dataset::DATASET_SEGMENTS_MAX;
pub use error::ClientError;
pub use faces::{CreatedFace, FaceProperties};
pub use hot::{HOT_PREFIXES_MAX, HotPrefix};
pub use routes::RouteOptions;
pub use tables::{CsChanges, CsConfig};
pub use traces::{HopOutcome, TracePart};

//! Fetching and publishing of named objects, congestion control, and a client's connection to any
//! router.
//!
//! State machines ([`fetch`], [`object`], [`congestion`], [`publish`]) take time and packets and
//! return actions. They never read a socket. Only two parts of [`object`] are not of this kind:
//! verification reads the system clock for the validity of certificates, and discovery waits for
//! answers through [`object::Express`]. The [`connection`] does the I/O: one blocking, poll-based
//! link to a router that uses NDNLPv2 (namelyd, NFD, NDNd). It reconnects and registers its
//! prefixes again. `namely_socket` drives the state machines over a connection.
//!
//! This crate depends on no particular router. It reads only the files that it needs to find and
//! check a router, such as a `client.conf`.
//!
//! ```
//! use namely_security::Signer;
//! use namely_transport::publish::{Options, Publication};
//! use namely_wire::{InterestBuilder, InterestView, Name};
//!
//! let name: Name = "/lab/run7".parse().expect("a name");
//! let signer = Signer::digest_sha256();
//! let object = Publication::new(name.as_name(), 1, b"content", &Options::default(), &signer)?;
//! let interest = InterestBuilder::new(name.join_version(1).join_segment(0)).build();
//! assert!(object.answer(&InterestView::parse(&interest).expect("an Interest")).is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod announce;
pub mod congestion;
pub mod connection;
mod endpoint;
pub mod fetch;
mod matching;
mod nonce;
pub mod object;
mod paths;
pub mod publish;
mod segment;
pub mod serve;

pub use self::matching::answers;
pub use self::nonce::Nonces;
pub use self::paths::{listen_socket, memif_beside};

//! Sockets with names instead of addresses: a [`Consumer`] fetches data below its prefix, a
//! [`Producer`] publishes there. The transport segments, names, signs, serves, fetches, verifies
//! and paces (docs/sockets.md, rows HT-02 to HT-26).
//!
//! Each socket has one event loop that owns its connection to the router. It runs on a thread of
//! the socket, or on the calling thread of a blocking call. Any thread may call a socket; calls
//! block, poll or are awaited. The socket never runs an application's code on its own threads, and
//! delivers unverified data only if an option allows it.
//!
//! ```no_run
//! use namely_socket::{Consumer, ConsumerOptions, Failure};
//! use namely_socket::{Producer, ProducerOptions, PublishOptions};
//!
//! fn main() -> Result<(), Failure> {
//!     let producer = Producer::bind("/lab".parse()?, ProducerOptions::default())?;
//!     producer.publish(&"/lab/run7".parse()?, b"content", &PublishOptions::default())?;
//!     let consumer = Consumer::bind("/lab".parse()?, ConsumerOptions::default())?;
//!     assert_eq!(consumer.fetch(&"/lab/run7".parse()?)?, b"content");
//!     Ok(())
//! }
//! ```
#![forbid(unsafe_code)]

mod buffer;
mod consumer;
mod engine;
mod errno;
mod error;
mod failure;
mod inbox;
mod names;
mod namespace;
pub mod options;
mod pending;
mod producer;
mod readiness;
mod session;
mod sleep;
mod trust;

pub use self::consumer::{
    Consumer, ConsumerStats, DATAGRAMS_MAX, Datagram, FETCHES_MAX, Flow, ObjectInfo, ObjectStream,
    RANGES_WINDOW, REVOCATIONS_MAX, Ranges, Received, RecvError, SendError, Sink,
};
pub use self::errno::errno_name;
pub use self::error::{BindError, CallError, FetchError, PublishError};
pub use self::failure::Failure;
pub use self::names::{application_name, network_name};
pub use self::namespace::{NAME_OCTETS_MAX, NameError, PREFIX_COMPONENTS_MAX, PREFIX_OCTETS_MAX};
pub use self::options::{
    BufferPolicy, ConsumerOptions, ManifestUse, OnBadSegment, OptionError, OptionSpec, ProducerOptions,
    PublishOptions, READ_AHEAD_OCTETS, Revocation, STREAM_OCTETS_FIRST, Suite, Trust, VERIFY_THREADS_MAX,
};
pub use self::pending::Pending;
pub use self::producer::{
    Producer, ProducerStats, Published, PushError, PushOptions, Pushed, Receipt, Request, Requests,
};
pub use self::session::{BUFFERS_OCTETS_MAX, PRODUCERS_MAX};
pub use namely_store::StoreError;
pub use namely_wire::Name;

/// The program of docs/rust.md, which `cargo test --doc` compiles.
#[cfg(doctest)]
#[doc = include_str!("../texts/rust.md")]
struct Page;

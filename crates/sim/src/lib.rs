//! A network in one thread and virtual time: the router's own forwarder, link service and neighbour
//! discovery at each node, the client's own fetch state machine at its edge, and between them links
//! with a rate, a delay, loss, reordering and a bounded queue.
//!
//! There is no clock, no randomness but the seed's, and no thread: the same calls with the same
//! seed give the same packets at the same nanoseconds, octet for octet ([`Network::trace_digest`]).
//! What computing costs is not modelled, but at nodes with a disk ([`DiskSpec`]): others answer in
//! no time.
//!
//! What a node does beyond forwarding is a [`Behaviour`], attached to its forwarder by an
//! application's face: it gets packets and a timer, sends packets, and may change the node's
//! tables, so a routing protocol, a cache controller or a discovery service is one as much as a
//! consumer is.
//!
//! ```
//! use namely_sim::{ConstantRate, LinkSpec, Network, Producer, RouterSpec, MS, SECOND};
//!
//! let mut network = Network::new(7);
//! let near = network.add_router(RouterSpec::default());
//! let far = network.add_router(RouterSpec::default());
//! let link = LinkSpec { rate_bps: 10_000_000, delay_ns: 5 * MS, ..LinkSpec::default() };
//! network.connect(near, far, link);
//!
//! let prefix = "/example".parse().unwrap();
//! network.announce(&prefix, far);
//! network.attach(far, Box::new(Producer::new(prefix.clone(), 1000)));
//! let consumer = network.attach(near, Box::new(ConstantRate::new(prefix, 100)));
//! network.run_until(SECOND);
//!
//! let consumer: &ConstantRate = network.behaviour(consumer).unwrap();
//! assert!(consumer.data >= 98);
//! assert!(consumer.rtt_ns.min() > 10 * MS);
//! ```
#![forbid(unsafe_code)]

mod alarm;
mod behaviour;
mod behaviours;
pub mod bottleneck;
mod disk;
mod link;
pub mod nbcache;
pub mod ndise;
mod neighbours;
mod network;
mod node;
mod packet;
pub mod plot;
mod random;
mod routes;
pub mod table;

pub use behaviour::{Behaviour, Context};
pub use behaviours::{
    Catalogue, ConstantRate, Demand, FileFetch, Hostile, Load, ObjectReader, Producer, VipAgent,
};
pub use disk::{DiskCounts, DiskSpec, Processing};
pub use link::{Carried, LinkCounts, LinkSpec};
pub use network::{AppId, Network, PortId};
pub use node::{Router, RouterSpec};
pub use packet::{NodeId, Packet};
pub use random::Random;

/// One millisecond, ns.
pub const MS: u64 = 1_000_000;

/// One second, ns.
pub const SECOND: u64 = 1_000_000_000;

//! A network in virtual time. Each node runs the router's own forwarder, link
//! service and neighbor discovery. The client's own fetch state machine runs at the edge. Links
//! have a rate, a delay, loss, reordering and a bounded queue.
//!
//! There is no clock, and no randomness except that of the seed. Nodes share no state: a node
//! contains its links' ends and its behaviors, each with a random generator of its own, and its
//! events have an order that does not depend on other nodes. The same calls with the same seed
//! produce the same packets at the same nanoseconds, octet for octet ([`Network::trace_digest`]),
//! with any number of threads ([`Network::set_threads`]).
//! The cost of computation is not modeled, except at nodes with a disk ([`DiskSpec`]): other nodes
//! answer in no time.
//!
//! A function of a node beyond forwarding is a [`Behaviour`], attached to its forwarder by an
//! application's face. It receives packets and a timer, sends packets, and may change the node's
//! tables. So a routing protocol, a cache controller and a discovery service are behaviors, as is a
//! consumer.
//!
//! [`queueing`] models routers with content stores as queues, without a network.
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
mod discoveries;
mod disk;
mod engine;
mod event;
pub mod failures;
mod link;
mod math;
pub mod nbcache;
pub mod ndise;
mod neighbours;
mod network;
mod node;
mod packet;
mod partition;
pub mod paths;
pub mod plot;
mod process;
pub mod queue;
pub mod queueing;
mod random;
mod routes;
mod slab;
pub mod table;
mod threads;
mod time_counts;
pub mod topology;
pub mod trace;
mod units;
mod zipf;

pub use behaviour::{Behaviour, Context};
pub use behaviours::{
    Catalogue, ConstantRate, DESTINATIONS_MAX, Demand, DistanceVector, FileFetch, Hostile, Load, MEMBERS_MAX,
    ObjectReader, PopularNames, Producer, Requests, SyncGroup, SyncMember, TraceConsumer, UNREACHABLE,
    VipAgent, ZipfConsumer,
};
pub use disk::{DiskCounts, DiskSpec, Processing};
pub use event::LinkEndId;
pub use link::{LinkCounts, LinkSpec, TrafficCounts};
pub use network::{Announcement, AppId, Network};
pub use node::{Router, RouterSpec};
pub use packet::{NodeId, Packet};
pub use random::Random;
pub use time_counts::TimeCounts;
pub use units::{MS, SECOND};
pub use zipf::Zipf;

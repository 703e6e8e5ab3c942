//! The NDN forwarding core: the processing of packets by the tables, without I/O.
//!
//! A [`Forwarder`] receives packets and the time, and returns packets to send. It never reads a
//! clock, a socket, a file or randomness, uses no floats, and runs anywhere with an allocator and a
//! lock. The same code serves a daemon, a simulator and a kernel.
//!
//! The contract: call [`Forwarder::receive`] with each packet that a face receives. Send each
//! packet that is passed to the [`Output`] through the face that is passed with it. Call
//! [`Forwarder::expire`] after packets were received or routes changed (once for a batch is
//! enough), and again no later than the time that it returned. Time is nanoseconds on any monotonic
//! clock. All methods take `&self`.
//!
//! ```
//! use std::sync::Arc;
//! use namely_forwarder::{Config, FaceId, FaceProperties, Forwarder, Outgoing, Received};
//! use namely_wire::{DataBuilder, InterestBuilder, Name, SignatureInfo};
//!
//! type Sent = Vec<(FaceId, Outgoing<Arc<[u8]>>)>;
//! let config = Config::new(|_| [0; 32]); // the embedder's SHA-256
//! let forwarder = Forwarder::<Arc<[u8]>, parking_lot::RawMutex>::new(config, 42).unwrap();
//! let consumer = forwarder.face_register(FaceProperties::application()).unwrap();
//! let producer = forwarder.face_register(FaceProperties::remote()).unwrap();
//! let name: Name = "/a/b".parse().unwrap();
//! forwarder.fib().add_nexthop(name.as_name(), producer, 0).unwrap();
//!
//! let mut sent = Sent::new();
//! let interest = InterestBuilder::new(name.clone()).nonce([1, 2, 3, 4]).build();
//! forwarder.receive(consumer, Received::bare(interest.into()), 0, &mut sent);
//! assert_eq!(sent.pop().map(|(face, _)| face), Some(producer));
//!
//! let data = DataBuilder::new(name.as_name()).build(b"hello", &SignatureInfo::digest_sha256());
//! forwarder.receive(producer, Received::bare(data.finish(&[0; 32]).into()), 1000, &mut sent);
//! assert_eq!(sent.pop().map(|(face, _)| face), Some(consumer));
//! ```
//!
//! # Contents
//!
//! Faces ([`Forwarder::face_register`]), next hops ([`Forwarder::fib`]), prefixes that applications
//! bind ([`Forwarder::bindings`]), strategies ([`Forwarder::strategies`]: see
//! `docs/strategies.md`), a content store ([`CsPolicy`]), and counters of all drops
//! ([`DropReason`]). Each limit is a field of [`Config`]. A [`Router`] is a forwarder with routes,
//! from which it computes the next hops ([`Router::rib_register`]).
//!
//! # Locks
//!
//! The module `lock_order` documents their order, and has types that enforce it. Faces are held and
//! put without a lock; FIB, BPT, strategy choice and the names of objects are read without one. The
//! PIT has a lock for each bucket and one for each entry. The content store has one for each
//! bucket, one for each Data, and one for its policy and limits. [`Output::send`] is called with no
//! lock held, so that the embedder may call back.
//!
//! Implements the NDN packet format v0.3, NDNLPv2, and the pipelines of NFD's developer guide.
#![no_std]
// Not `forbid`, because `prefetch` allows it for one instruction.
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod batch;
mod bpt;
mod config;
mod congestion;
mod control;
mod counter;
mod counters;
mod cs;
mod dead_nonces;
mod discovery_faces;
mod error;
mod explain;
mod explainer;
mod face_id;
mod faces;
mod fib;
mod forwarder;
mod hash;
mod inline_vec;
mod interest_key;
mod limits;
mod lock_order;
mod name_keys;
mod released_faces;
// The same names in both builds, so that the pipelines need no conditional compilation.
#[cfg_attr(not(feature = "vip"), path = "objects/absent.rs")]
mod objects;
mod ordered;
mod packet;
mod pipeline;
mod pit;
mod pool;
mod prefetch;
mod prefix_table;
mod random;
mod regions;
mod reserve;
mod rib;
mod router;
mod shares;
mod slab;
mod strategy;
mod sync;
mod tables;
mod tier;
mod trace;
mod wheel;

pub use batch::Batch;
pub use bpt::{BindError, Bound};
pub use config::{Config, Sha256, UnsolicitedPolicy};
pub use congestion::{LABEL_MS_MAX, NOTIFIED_FACES_MAX};
#[cfg(feature = "vip")]
pub use control::ObjectControl;
pub use control::{
    BindingControl, CsControl, DiscoveryControl, FibControl, PitControl, StrategyControl, TableSizes,
};
pub use counters::{DropReason, ForwarderCounters, ObjectCounts, PacketCounts};
pub use cs::status::{CachedData, CsChange, CsStatus};
pub use cs::{CsPolicy, PolicyModel, UnknownPolicy};
#[cfg(feature = "vip")]
pub use cs::{ObjectPlacement, ObjectPlan, ObjectUsage};
pub use discovery_faces::{DISCOVERY_FACES_MAX, DOUBTED_NS};
pub use error::ConfigError;
pub use explain::{EXPLAINED_PENDING_MAX, ExplainedHop, Explanation};
pub use face_id::FaceId;
pub use faces::{FaceError, FaceHold, FaceLayer, FaceProperties, FaceSnapshot, Faces, Released};
pub use fib::FibError;
pub use forwarder::Forwarder;
pub use limits::{
    BindingLimits, CsLimits, DeadNonceLimits, FibLimits, ObjectLimits, PitLimits, RibLimits, StrategyLimits,
    WALK_PLACES,
};
#[cfg(feature = "vip")]
pub use objects::{OBJECT_NEIGHBOURS_MAX, ObjectName, ObjectsError};
pub use packet::{Learned, Outgoing, Output, PacketBuf, Received};
pub use pipeline::expire::Expiry;
pub use pit::status::{PendingInterest, PitStatus, SentTo};
pub use prefetch::prefetch_line;
pub use rib::RibError;
pub use router::{ANNOUNCED_ROUTE_MS_MAX, LEARNED_ROUTE_MS, RefusalEffect, Router};
pub use shares::{Charge, OwnerId};
pub use strategy::{
    ChosenStrategy, DEFAULT_STRATEGY, NextHopMeasurement, ROUND_TRIP_ENDS_NS, RoundTripCounts, StrategyError,
    StrategyName,
};
pub use tier::{
    Completion, EvictedData, Ticket, Tier, TierAnswer, TierCounts, TierMarking, TierRequest, TierWrite,
};
pub use trace::{Step, Tracer};

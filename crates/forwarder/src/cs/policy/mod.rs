//! Eviction policies of the content store (`IS-36`), behind one trait.
//!
//! A policy manages lists of ids and does not access packets. Its calls need its lock, except for a
//! hit that only raises a mark by an atomic store ([`OnHit`]). It uses integer arithmetic only. The
//! number of its ghosts, the records of evicted Data, is bounded by the number of Data in the
//! store.

mod adaptive;
pub(super) mod eviction;
mod ghosts;
pub(super) mod lists;
mod model;
mod recent;
mod s3_fifo;
mod sieve;
mod simple;
mod sparse;
#[cfg(test)]
mod tests;

use core::fmt;
use core::str::FromStr;

use crate::error::ConfigError;
use crate::slab::Id;
use eviction::{Arrival, Marks, OnHit, Policy};
use lists::{List, Records};
pub use model::PolicyModel;

/// The eviction policy of the content store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CsPolicy {
    /// S3-FIFO: a small queue for new Data, a main queue for Data that was requested again, and
    /// ghosts of the small one. A hit takes no lock of the policy.
    #[default]
    S3Fifo,
    /// Least recently used.
    Lru,
    /// First in, first out. A hit takes no lock of the policy.
    Fifo,
    /// Least frequently used; among equals, least recently used.
    Lfu,
    /// Adaptive replacement: balances recency and frequency by its misses.
    Arc,
    /// SIEVE: a queue whose hand skips requested Data. A hit takes no lock of the policy. One scan
    /// of much Data that is never requested again empties it.
    Sieve,
    /// For tests: the newest Data is evicted first, so that a full store does not change.
    Noop,
}

impl CsPolicy {
    /// All policies.
    pub const ALL: [CsPolicy; 7] = [
        CsPolicy::S3Fifo,
        CsPolicy::Lru,
        CsPolicy::Fifo,
        CsPolicy::Lfu,
        CsPolicy::Arc,
        CsPolicy::Sieve,
        CsPolicy::Noop,
    ];

    /// Its name in configurations and commands.
    pub fn name(self) -> &'static str {
        match self {
            CsPolicy::S3Fifo => "s3-fifo",
            CsPolicy::Lru => "lru",
            CsPolicy::Fifo => "fifo",
            CsPolicy::Lfu => "lfu",
            CsPolicy::Arc => "arc",
            CsPolicy::Sieve => "sieve",
            CsPolicy::Noop => "noop",
        }
    }
}

/// There is no policy of that name: the caller's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such policy; there are")?;
        CsPolicy::ALL.iter().try_for_each(|policy| write!(f, " {}", policy.name()))
    }
}

impl core::error::Error for UnknownPolicy {}

impl FromStr for CsPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        CsPolicy::ALL.into_iter().find(|policy| policy.name() == name).ok_or(UnknownPolicy)
    }
}

/// One of the policies.
pub(super) enum AnyPolicy {
    S3Fifo(s3_fifo::S3Fifo),
    Lru(simple::Lru),
    Fifo(simple::Fifo),
    Lfu(simple::Lfu),
    Arc(adaptive::Adaptive),
    Sieve(sieve::Sieve),
    Noop(simple::Noop),
}

impl AnyPolicy {
    /// A policy for about `packets` Data.
    pub(super) fn new(kind: CsPolicy, packets: usize) -> Result<Self, ConfigError> {
        Ok(match kind {
            CsPolicy::S3Fifo => AnyPolicy::S3Fifo(s3_fifo::S3Fifo::new(packets)?),
            CsPolicy::Lru => AnyPolicy::Lru(simple::Lru::default()),
            CsPolicy::Fifo => AnyPolicy::Fifo(simple::Fifo::default()),
            CsPolicy::Lfu => AnyPolicy::Lfu(simple::Lfu::new()?),
            CsPolicy::Arc => AnyPolicy::Arc(adaptive::Adaptive::new(packets)?),
            CsPolicy::Sieve => AnyPolicy::Sieve(sieve::Sieve::default()),
            CsPolicy::Noop => AnyPolicy::Noop(simple::Noop::default()),
        })
    }
}

/// Evaluates `$do` for any policy.
macro_rules! with_policy {
    ($any:expr, $policy:ident => $do:expr) => {
        match $any {
            AnyPolicy::S3Fifo($policy) => $do,
            AnyPolicy::Lru($policy) => $do,
            AnyPolicy::Fifo($policy) => $do,
            AnyPolicy::Lfu($policy) => $do,
            AnyPolicy::Arc($policy) => $do,
            AnyPolicy::Sieve($policy) => $do,
            AnyPolicy::Noop($policy) => $do,
        }
    };
}

impl Policy for AnyPolicy {
    fn on_hit(&self) -> OnHit {
        with_policy!(self, policy => policy.on_hit())
    }

    fn arriving(&mut self, hash: u64) -> Arrival {
        with_policy!(self, policy => policy.arriving(hash))
    }

    fn evict(&mut self, arrival: Arrival, records: &mut Records, marks: &impl Marks) -> Option<Id> {
        with_policy!(self, policy => policy.evict(arrival, records, marks))
    }

    fn prepare(&mut self, packets: usize) -> Result<(), ConfigError> {
        with_policy!(self, policy => policy.prepare(packets))
    }

    fn next(&self) -> Option<Id> {
        with_policy!(self, policy => policy.next())
    }

    fn prefetch(&self, hash: u64) {
        with_policy!(self, policy => policy.prefetch(hash));
    }

    fn inserted(&mut self, id: Id, arrival: Arrival, records: &mut Records) {
        with_policy!(self, policy => policy.inserted(id, arrival, records));
    }

    fn hit(&mut self, id: Id, records: &mut Records) {
        with_policy!(self, policy => policy.hit(id, records));
    }

    fn removed(&mut self, id: Id, records: &mut Records) {
        with_policy!(self, policy => policy.removed(id, records));
    }

    fn lists(&self, show: &mut dyn FnMut(&List)) {
        with_policy!(self, policy => policy.lists(show));
    }

    #[cfg(test)]
    fn ghosts(&self) -> usize {
        with_policy!(self, policy => policy.ghosts())
    }
}

//! Which Data leaves the content store first (`IS-36`): the policies, behind one trait.
//!
//! A policy keeps ids in lists and knows nothing of packets. It is called under its lock, but for hits where
//! it says that a mark, raised by an atomic store, is all that it wants to know ([`OnHit`]). Integer
//! arithmetic only. What it remembers of Data that left (its ghosts) is bounded by what is in the store.

mod adaptive;
mod ghosts;
mod lists;
mod model;
mod recent;
mod s3_fifo;
mod sieve;
mod simple;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

use crate::slab::Id;
pub(super) use lists::{List, Record, Records};
pub use model::PolicyModel;

/// Entries that a policy examines at most for one eviction. Popular Data all over a list would otherwise
/// make one insertion pay for every hit since the last one.
pub(super) const EVICTION_SCAN_MAX: usize = 256;

/// How the content store chooses what leaves first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CsPolicy {
    /// S3-FIFO: a small queue for what came once, a main queue for what was asked for again, and a memory
    /// of what left the small one. A hit takes no lock of the policy.
    #[default]
    S3Fifo,
    /// Least recently used.
    Lru,
    /// First in, first out. A hit takes no lock of the policy.
    Fifo,
    /// Least frequently used, least recently among those.
    Lfu,
    /// Adaptive replacement: recency against frequency, by what was missed.
    Arc,
    /// SIEVE: a queue whose hand passes over what was asked for. A hit takes no lock of the policy. One scan
    /// of much Data that nobody asks for again empties it.
    Sieve,
    /// For tests: what came last leaves first, so that a full store keeps what it has.
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

    /// A policy for about `packets` Data.
    pub(super) fn make(self, packets: usize) -> Box<dyn Policy> {
        match self {
            CsPolicy::S3Fifo => Box::new(s3_fifo::S3Fifo::new(packets)),
            CsPolicy::Lru => Box::new(simple::Lru::default()),
            CsPolicy::Fifo => Box::new(simple::Fifo::default()),
            CsPolicy::Lfu => Box::new(simple::Lfu::default()),
            CsPolicy::Arc => Box::new(adaptive::Adaptive::new(packets)),
            CsPolicy::Sieve => Box::new(sieve::Sieve::default()),
            CsPolicy::Noop => Box::new(simple::Noop::default()),
        }
    }
}

/// There is no policy of that name: the caller's fault.
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

/// What a policy needs to be told of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnHit {
    /// Its mark is raised, up to so much: an atomic store, no lock. With 0 a hit is nothing to it.
    Mark(u8),
    /// [`Policy::hit`], under the policy's lock.
    Lock,
}

/// Marks of Data that were hit.
pub(super) trait Marks {
    fn mark(&self, id: Id) -> u8;
    fn set_mark(&self, id: Id, mark: u8);
}

/// What a policy knows of a Data that comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    /// It left not long ago, from the list for what came once.
    Recent,
    /// It left not long ago, from the list for what came more often.
    Frequent,
}

/// Keeps the order in which Data leave.
pub(super) trait Policy: Send {
    fn on_hit(&self) -> OnHit;

    /// A Data whose name has this hash is about to come in. Called once for each, before room is made.
    fn arriving(&mut self, _hash: u64) -> Arrival {
        Arrival::New
    }

    /// Takes out the Data that leaves to make room for one that comes in so; none if there is no Data.
    fn evict(&mut self, arrival: Arrival, records: &mut Records, marks: &dyn Marks) -> Option<Id>;

    /// What [`Policy::evict`] will probably choose: a hint for who reads ahead.
    fn next(&self) -> Option<Id>;

    /// A Data came in.
    fn inserted(&mut self, id: Id, arrival: Arrival, records: &mut Records);

    /// A Data answered an Interest, or arrived again. Only called with [`OnHit::Lock`].
    fn hit(&mut self, _id: Id, _records: &mut Records) {}

    /// A Data was erased.
    fn removed(&mut self, id: Id, records: &mut Records);

    /// Shows its lists, what is to leave first first.
    fn lists(&self, show: &mut dyn FnMut(&List));

    /// How many Data that left it remembers.
    #[cfg(test)]
    fn ghosts(&self) -> usize {
        0
    }
}

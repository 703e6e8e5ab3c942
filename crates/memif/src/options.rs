//! The limits and settings of an interface.

use std::fmt;
use std::sync::Arc;

use namely_host::shares::{Owner, Refusal, Share, ShareLimits, SharePool};

use crate::message::Text;

/// Rings of a shared-memory face in each direction.
///
/// # Limit
/// The peer is refused.
/// - Value: 4, at most 8
/// - Setting: `faces.memif.rings_max`
/// - Counter: `memif_too_much`
/// - Tests: `extra_rings_and_regions_are_limited`
pub const RING_PAIRS_MAX: u16 = 8;

/// Slots of a ring of a shared-memory face.
///
/// The constant is log2 of the slots, and libmemif's limit. Up to this size, indexes of 16 bits
/// distinguish a full ring from an empty one.
///
/// # Limit
/// The peer is refused.
/// - Value: 2^11, at most 2^14
/// - Setting: `faces.memif.ring_slots_max`
/// - Counter: `memif_too_much`
/// - Tests: `memif_limits_admit_their_maximum`
pub const RING_SIZE_LOG2_MAX: u8 = 14;

/// Settings of an interface: the request of a client or the limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Client: the interface's number. A server accepts any number.
    pub id: u32,
    /// The secret. A client sends it; a server requires it, unless it is empty.
    pub secret: Text<24>,
    /// Rings in each direction, at most [`RING_PAIRS_MAX`]. Server: the maximum for a client.
    pub ring_pairs: u16,
    /// log2 of the slots of a ring, at most [`RING_SIZE_LOG2_MAX`]. Server: the maximum for a
    /// client.
    pub ring_size_log2: u8,
    /// Client: octets of each slot's buffer.
    pub buffer_octets: u32,
    /// Client: whether the server is trusted not to block this end when this end wakes it. A
    /// wake-up then takes half as long.
    pub trusts_server: bool,
    /// Regions of memory of a shared-memory face.
    ///
    /// The limit applies to the server.
    ///
    /// # Limit
    /// The client is refused.
    /// - Value: 4
    /// - Setting: `faces.memif.regions_max`
    /// - Counter: `memif_too_much`
    /// - Tests: `extra_rings_and_regions_are_limited`
    pub regions_max: u16,
    /// Octets mapped here for one shared-memory face.
    ///
    /// The limit applies to the server.
    ///
    /// # Limit
    /// The client is refused.
    /// - Value: 64 MiB
    /// - Setting: `faces.memif.octets_max`
    /// - Counter: `memif_too_much`
    /// - Tests: `memif_limits_admit_their_maximum`
    pub mapped_octets_max: usize,
    /// Octets of a packet received by shared memory.
    ///
    /// # Limit
    /// The packet is dropped.
    /// - Value: 9472 octets
    /// - Counter: `length_too_large`
    /// - Tests: `an_overlong_packet_is_counted`
    pub packet_octets_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            id: 0,
            secret: Text([0; 24]),
            ring_pairs: 1,
            ring_size_log2: 9,
            buffer_octets: 9472,
            trusts_server: false,
            regions_max: 4,
            mapped_octets_max: 64 << 20,
            packet_octets_max: 9472,
        }
    }
}

/// Makes holders release mapped memory.
pub trait Collector: fmt::Debug + Send + Sync {
    /// Makes `payer` release some of its memory at once. Returns false if `payer` has none.
    fn collect(&self, payer: Owner) -> bool;
}

/// The limit on a peer's mapped memory: a pool that all peers share, and the holder of this peer.
#[derive(Clone, Debug)]
pub struct Budget {
    pool: SharePool,
    holder: Owner,
    collector: Option<Arc<dyn Collector>>,
}

impl Budget {
    /// Creates a budget of `max` octets with a pool of its own.
    pub fn new(max: usize) -> Self {
        let total = max as u64;
        let pool = SharePool::new(ShareLimits { total, ..ShareLimits::default() });
        Budget { pool, holder: Owner::Root, collector: None }
    }

    /// Creates the budget of `holder` in `pool`. When the pool is in use, `collector` makes the
    /// largest holder release some of its memory.
    pub fn of(pool: SharePool, holder: Owner, collector: Arc<dyn Collector>) -> Self {
        Budget { pool, holder, collector: Some(collector) }
    }

    /// Returns the octets that all peers of the pool have mapped.
    pub fn mapped(&self) -> usize {
        self.pool.used() as usize
    }

    /// Takes `octets` of the budget until the returned share is dropped; `None` if this peer cannot
    /// have as many.
    pub(crate) fn charge(&self, octets: usize) -> Option<Arc<Share>> {
        loop {
            let payer = match self.pool.take(self.holder, octets as u64) {
                Ok(share) => return Some(Arc::new(share)),
                Err(Refusal::Full { payer: Some(payer) }) if payer != self.holder => payer,
                Err(_) => return None,
            };
            if !self.collector.as_ref()?.collect(payer) {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_budget_is_charged_up_to_its_limit() {
        let budget = Budget::new(100);
        let first = budget.charge(60).unwrap();
        assert!(budget.charge(41).is_none());
        assert!(budget.charge(usize::MAX).is_none());
        let second = budget.charge(40).unwrap();
        assert_eq!(budget.mapped(), 100);
        drop((first, second));
        assert_eq!(budget.mapped(), 0);
    }

    /// Releases one piece at a time of the memory that was charged to the paying holder.
    #[derive(Debug, Default)]
    struct Pieces(Mutex<Vec<(Owner, Arc<Share>)>>);

    impl Collector for Pieces {
        fn collect(&self, payer: Owner) -> bool {
            let mut pieces = self.0.lock().unwrap();
            let Some(at) = pieces.iter().position(|(holder, _)| *holder == payer) else { return false };
            pieces.remove(at).1.give_back();
            true
        }
    }

    #[test]
    fn a_peer_is_limited_to_its_memif_ceiling() {
        let limits =
            ShareLimits { total: 100, ceiling: 60, reserve: 20, root_extra: 10, ..Default::default() };
        let (pool, pieces) = (SharePool::new(limits), Arc::<Pieces>::default());
        let budget = |holder| Budget::of(pool.clone(), holder, pieces.clone());
        let charge = |holder, octets: usize| {
            let share = budget(holder).charge(octets)?;
            pieces.0.lock().unwrap().push((holder, share.clone()));
            Some(share)
        };
        let [first, second, third] = [1, 2, 3].map(Owner::uid);
        let shares = [0; 6].map(|_| charge(first, 10).unwrap());
        assert!(charge(first, 1).is_none(), "one past the ceiling");
        let of_second = charge(second, 40).unwrap();
        let of_third = charge(third, 15).expect("all is in use, and the largest pays");
        assert_eq!(shares.each_ref().map(|share| share.amount()), [0, 0, 10, 10, 10, 10]);
        assert_eq!((pool.held(first), pool.held(third), pool.used()), (40, 15, 95));
        let of_root = charge(Owner::Root, 15).expect("root has more");
        assert_eq!(pool.used(), 110);
        assert!(charge(second, 5).is_none(), "who would be the largest is refused");
        pieces.0.lock().unwrap().clear();
        assert!(charge(third, 1).is_none(), "nobody has anything to give");
        assert_eq!([of_second, of_third, of_root].map(|share| share.amount()), [40, 15, 15]);
    }
}

//! What an interface may take, and what it asks for.

use std::fmt;
use std::sync::Arc;

use namely_host::shares::{Holder, Refusal, Share, ShareLimits, SharePool};

use crate::message::Text;

/// Most rings in each direction.
pub const RING_PAIRS_MAX: u16 = 8;

/// Largest ring, log2 of its slots: libmemif's limit. Indexes of 16 bits can tell a full ring from
/// an empty one.
pub const RING_SIZE_LOG2_MAX: u8 = 14;

/// Settings of an interface. What a client asks for and what a server admits are of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Client: the interface's number. A server takes any.
    pub id: u32,
    /// Client: sent. Server: wanted, unless it is empty.
    pub secret: Text<24>,
    /// Rings in each direction. Server: at most; within [`RING_PAIRS_MAX`].
    pub ring_pairs: u16,
    /// log2 of the slots of a ring. Server: at most; within [`RING_SIZE_LOG2_MAX`].
    pub ring_size_log2: u8,
    /// Client: octets of each slot's buffer.
    pub buffer_octets: u32,
    /// Client: the server may make this end wait when it is woken, if it means to. Waking it then
    /// takes half as long.
    pub trusts_server: bool,
    /// Server: maximum number of regions of memory that a client may have.
    pub regions_max: u16,
    /// Server: maximum number of octets of memory that a client may have mapped here.
    pub mapped_octets_max: usize,
    /// Longest packet received, octets; a longer one is counted and dropped.
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

/// Has holders give back what they have mapped.
pub trait Collector: fmt::Debug + Send + Sync {
    /// Has `payer` give back some of what it has, at once. False if it has nothing to give.
    fn collect(&self, payer: Holder) -> bool;
}

/// What a peer may have mapped here: a pool that all peers draw from, and who this one is.
#[derive(Clone, Debug)]
pub struct Budget {
    pool: SharePool,
    holder: Holder,
    collector: Option<Arc<dyn Collector>>,
}

impl Budget {
    /// A budget of `max` octets, for whoever it is given to.
    pub fn new(max: usize) -> Self {
        let total = max as u64;
        let pool = SharePool::new(ShareLimits { total, ..ShareLimits::default() });
        Budget { pool, holder: Holder::Root, collector: None }
    }

    /// The part of `pool` that `holder` may have. Where all is in use, `collector` has the holder
    /// with most give back some of it.
    pub fn of(pool: SharePool, holder: Holder, collector: Arc<dyn Collector>) -> Self {
        Budget { pool, holder, collector: Some(collector) }
    }

    /// Octets that are mapped, by whomever.
    pub fn mapped(&self) -> usize {
        self.pool.used() as usize
    }

    /// Takes `octets` of the budget until the share is dropped; `None` if this peer cannot have as
    /// many.
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
    fn a_budget_is_charged_up_to_its_limit_and_no_octet_further() {
        let budget = Budget::new(100);
        let first = budget.charge(60).unwrap();
        assert!(budget.charge(41).is_none());
        assert!(budget.charge(usize::MAX).is_none());
        let second = budget.charge(40).unwrap();
        assert_eq!(budget.mapped(), 100);
        drop((first, second));
        assert_eq!(budget.mapped(), 0);
    }

    /// Gives back a piece at a time of what was charged to whoever is to pay.
    #[derive(Debug, Default)]
    struct Pieces(Mutex<Vec<(Holder, Arc<Share>)>>);

    impl Collector for Pieces {
        fn collect(&self, payer: Holder) -> bool {
            let mut pieces = self.0.lock().unwrap();
            let Some(at) = pieces.iter().position(|(holder, _)| *holder == payer) else { return false };
            pieces.remove(at).1.give_back();
            true
        }
    }

    #[test]
    fn a_peer_has_no_more_than_its_ceiling_and_where_all_is_in_use_the_largest_gives_back() {
        let limits =
            ShareLimits { total: 100, ceiling: 60, reserve: 20, root_extra: 10, ..Default::default() };
        let (pool, pieces) = (SharePool::new(limits), Arc::<Pieces>::default());
        let budget = |holder| Budget::of(pool.clone(), holder, pieces.clone());
        let charge = |holder, octets: usize| {
            let share = budget(holder).charge(octets)?;
            pieces.0.lock().unwrap().push((holder, share.clone()));
            Some(share)
        };
        let [first, second, third] = [1, 2, 3].map(Holder::uid);
        let shares = [0; 6].map(|_| charge(first, 10).unwrap());
        assert!(charge(first, 1).is_none(), "one past the ceiling");
        let of_second = charge(second, 40).unwrap();
        let of_third = charge(third, 15).expect("all is in use, and the largest pays");
        assert_eq!(shares.each_ref().map(|share| share.amount()), [0, 0, 10, 10, 10, 10]);
        assert_eq!((pool.held(first), pool.held(third), pool.used()), (40, 15, 95));
        let of_root = charge(Holder::Root, 15).expect("root has more");
        assert_eq!(pool.used(), 110);
        assert!(charge(second, 5).is_none(), "who would be the largest is refused");
        pieces.0.lock().unwrap().clear();
        assert!(charge(third, 1).is_none(), "nobody has anything to give");
        assert_eq!([of_second, of_third, of_root].map(|share| share.amount()), [40, 15, 15]);
    }
}

//! The order in which packets are evicted from memory: FIFO, LRU or LFU (HT-24).

use std::collections::BTreeSet;

use super::BufferPolicy;

/// The position of a packet in the order; stored with the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Number of uses (LFU); 0 under the other policies.
    uses: u64,
    /// The event number of its insertion (FIFO) or of its last use (LRU, LFU).
    event: u64,
}

/// Packets in the order of eviction. Every operation takes logarithmic time.
#[derive(Debug)]
pub(super) struct Order {
    policy: BufferPolicy,
    ranks: BTreeSet<(Rank, u32)>,
    events: u64,
}

impl Order {
    pub(super) fn new(policy: BufferPolicy) -> Self {
        Order { policy, ranks: BTreeSet::new(), events: 0 }
    }

    /// Adds a packet.
    pub(super) fn insert(&mut self, packet: u32) -> Rank {
        self.events += 1;
        let rank = Rank { uses: 0, event: self.events };
        self.ranks.insert((rank, packet));
        rank
    }

    /// Records a use of a packet.
    pub(super) fn touch(&mut self, packet: u32, rank: &mut Rank) {
        if self.policy == BufferPolicy::Fifo {
            return;
        }
        self.ranks.remove(&(*rank, packet));
        self.events += 1;
        rank.uses = if self.policy == BufferPolicy::Lfu { rank.uses.saturating_add(1) } else { 0 };
        rank.event = self.events;
        self.ranks.insert((*rank, packet));
    }

    /// Removes a packet.
    pub(super) fn remove(&mut self, packet: u32, rank: Rank) {
        self.ranks.remove(&(rank, packet));
    }

    /// Returns the packet to evict next.
    pub(super) fn first(&self) -> Option<u32> {
        self.ranks.first().map(|(_, packet)| *packet)
    }
}

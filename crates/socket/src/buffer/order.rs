//! In which order packets leave memory: FIFO, LRU or LFU (HT-24).

use std::collections::BTreeSet;

use super::BufferPolicy;

/// Where a packet stands in the order; kept with the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// How often it was used (LFU); 0 under the other policies.
    uses: u64,
    /// When it came (FIFO) or was used last (LRU, LFU), in a count of events.
    event: u64,
}

/// Packets in the order in which they give way. Every operation takes the logarithm of their
/// number.
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

    /// A packet came.
    pub(super) fn insert(&mut self, packet: u32) -> Rank {
        self.events += 1;
        let rank = Rank { uses: 0, event: self.events };
        self.ranks.insert((rank, packet));
        rank
    }

    /// A packet was used.
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

    /// A packet went.
    pub(super) fn remove(&mut self, packet: u32, rank: Rank) {
        self.ranks.remove(&(rank, packet));
    }

    /// The packet that gives way next.
    pub(super) fn first(&self) -> Option<u32> {
        self.ranks.first().map(|(_, packet)| *packet)
    }
}

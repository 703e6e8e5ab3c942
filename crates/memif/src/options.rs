//! What an interface may take, and what it asks for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Octets that all interfaces of a process together may have mapped. Clones share one budget.
#[derive(Clone, Debug)]
pub struct Budget {
    max: usize,
    mapped: Arc<AtomicUsize>,
}

impl Budget {
    /// A budget of `max` octets.
    pub fn new(max: usize) -> Self {
        Budget { max, mapped: Arc::default() }
    }

    /// Octets that are mapped.
    pub fn mapped(&self) -> usize {
        self.mapped.load(Ordering::Relaxed)
    }

    /// Takes `octets` of the budget until the charge is dropped; `None` if it does not have as
    /// many.
    pub(crate) fn charge(&self, octets: usize) -> Option<Charge> {
        // Relaxed: the number alone decides, and no memory is reached because of it.
        let more = |mapped: usize| mapped.checked_add(octets).filter(|mapped| *mapped <= self.max);
        self.mapped.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Charge { octets, mapped: self.mapped.clone() })
    }
}

/// A part of a budget that is in use.
#[derive(Debug)]
pub(crate) struct Charge {
    octets: usize,
    mapped: Arc<AtomicUsize>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.mapped.fetch_sub(self.octets, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
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
}

//! Returns spare memory to the system after load. A round runs every second while packets pass, and
//! twice more afterwards. Sleeping workers are woken between the last two rounds, so that they
//! release their own spare memory. An idle router does nothing.

use namely_host::give_back_memory;

use namely_dataplane::{release_spares, share_spares};

/// Interval between rounds, ns.
const PAUSE_NS: u64 = 1_000_000_000;

/// The allocator trims its memory once in this number of rounds, and in rounds without packets. It
/// does not do so in every round, because it has to scan all of its memory.
const ROUNDS: u32 = 3;

/// The time of the next round.
#[derive(Debug, Default)]
pub(super) struct SpareReclaimer {
    due_ns: Option<u64>,
    packets: u64,
    /// True if packets had passed in the last round.
    was_busy: bool,
    round: u32,
}

impl SpareReclaimer {
    /// Schedules a round after an event: a face changed, or management received an Interest.
    pub(super) fn note(&mut self, now_ns: u64) {
        self.due_ns.get_or_insert(now_ns.saturating_add(PAUSE_NS));
    }

    /// Runs a round if it is due. `packets` returns the total number of packets, and `wake` wakes
    /// all workers. Returns the time of the next call, ns.
    pub(super) fn tick(
        &mut self,
        now_ns: u64,
        packets: impl FnOnce() -> u64,
        wake: impl FnOnce(),
    ) -> Option<u64> {
        let due_ns = self.due_ns?;
        if due_ns > now_ns {
            return self.due_ns;
        }
        let packets = packets();
        let is_busy = std::mem::replace(&mut self.packets, packets) != packets;
        let was_busy = std::mem::replace(&mut self.was_busy, is_busy);
        self.round = self.round.wrapping_add(1);
        share_spares();
        release_spares();
        if !is_busy || self.round.is_multiple_of(ROUNDS) {
            give_back_memory();
        }
        if was_busy && !is_busy {
            wake();
        }
        self.due_ns = (is_busy || was_busy).then(|| now_ns.saturating_add(PAUSE_NS));
        self.due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_checked_while_packets_pass() {
        let (mut leftovers, mut woken) = (SpareReclaimer::default(), 0);
        let mut tick = |leftovers: &mut SpareReclaimer, now_ns, packets| {
            (leftovers.tick(now_ns, || packets, || woken += 1), woken)
        };
        assert_eq!(tick(&mut leftovers, 5, 1), (None, 0), "nothing happened");
        leftovers.note(10);
        leftovers.note(20);
        let at = |n: u64| 10 + n * PAUSE_NS;
        assert_eq!(tick(&mut leftovers, at(1) - 1, 1), (Some(at(1)), 0));
        assert_eq!(tick(&mut leftovers, at(1), 1), (Some(at(2)), 0));
        assert_eq!(tick(&mut leftovers, at(2), 2), (Some(at(3)), 0));
        assert_eq!(tick(&mut leftovers, at(3), 2), (Some(at(4)), 1), "no packets: workers may sleep");
        assert_eq!(tick(&mut leftovers, at(4), 2), (None, 1));
        assert_eq!(tick(&mut leftovers, u64::MAX, 3), (None, 1), "until something happens again");
    }
}

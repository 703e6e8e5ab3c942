//! Memory that load has left behind: what a second has shown to be spare goes back to the system,
//! for as long as packets pass and once more when they do no longer. A router with nothing to do
//! does nothing.

use namely_host::give_back_memory;

use crate::dataplane::give_back_spares;

/// How often it is looked for, ns.
const PAUSE_NS: u64 = 1_000_000_000;

/// The allocator is asked to give back what it can every so many times, and at the end: it has to
/// look through everything.
const ROUNDS: u32 = 3;

/// When to look for it.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    due_ns: Option<u64>,
    packets: u64,
    round: u32,
}

impl Leftovers {
    /// Something happened: a face came or went, or management was asked.
    pub(super) fn note(&mut self, now_ns: u64) {
        self.due_ns.get_or_insert(now_ns.saturating_add(PAUSE_NS));
    }

    /// Gives back what is due; `packets` says how many have passed ever. Returns when to be called
    /// again, ns.
    pub(super) fn tick(&mut self, now_ns: u64, packets: impl FnOnce() -> u64) -> Option<u64> {
        let due_ns = self.due_ns?;
        if due_ns > now_ns {
            return self.due_ns;
        }
        let packets = packets();
        let is_busy = std::mem::replace(&mut self.packets, packets) != packets;
        self.round = self.round.wrapping_add(1);
        give_back_spares();
        if !is_busy || self.round.is_multiple_of(ROUNDS) {
            give_back_memory();
        }
        self.due_ns = is_busy.then(|| now_ns.saturating_add(PAUSE_NS));
        self.due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_as_long_as_packets_pass_and_once_more() {
        let mut leftovers = Leftovers::default();
        assert_eq!(leftovers.tick(5, || 1), None, "nothing happened");
        leftovers.note(10);
        leftovers.note(20);
        let first_ns = 10 + PAUSE_NS;
        assert_eq!(leftovers.tick(first_ns - 1, || 1), Some(first_ns));
        assert_eq!(leftovers.tick(first_ns, || 1), Some(first_ns + PAUSE_NS));
        assert_eq!(leftovers.tick(first_ns + PAUSE_NS, || 2), Some(first_ns + 2 * PAUSE_NS));
        assert_eq!(leftovers.tick(first_ns + 2 * PAUSE_NS, || 2), None);
        assert_eq!(leftovers.tick(u64::MAX, || 3), None, "until something happens again");
    }
}

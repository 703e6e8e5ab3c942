//! Memory that load has left behind: what a second has shown to be spare goes back to the system,
//! for as long as packets pass and twice more when they do no longer: workers that sleep by then
//! are woken in between, so that they give back what they have. A router with nothing to do does
//! nothing.

use namely_host::give_back_memory;

use namely_dataplane::{give_back_spares, share_spares};

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
    /// Packets had passed when it was last looked.
    was_busy: bool,
    round: u32,
}

impl Leftovers {
    /// Something happened: a face came or went, or management was asked.
    pub(super) fn note(&mut self, now_ns: u64) {
        self.due_ns.get_or_insert(now_ns.saturating_add(PAUSE_NS));
    }

    /// Gives back what is due; `packets` says how many have passed ever, and `wake` wakes all
    /// workers. Returns when to be called again, ns.
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
        give_back_spares();
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
    fn it_is_looked_for_as_long_as_packets_pass_and_twice_more() {
        let (mut leftovers, mut woken) = (Leftovers::default(), 0);
        let mut tick = |leftovers: &mut Leftovers, now_ns, packets| {
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

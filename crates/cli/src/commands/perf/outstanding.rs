//! The Interests of one flow that are under way. They have a fixed number of slots, which are
//! indexed by number and linked in the order of deadlines.
//!
//! All Interests of a flow have the same lifetime, so the order of sending is the order of
//! deadlines. A linked list through the slots allows removal at constant cost.

/// No slot.
const NONE: u32 = u32::MAX;

/// The numbers that a flow requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// Each number is used once. The low bits are the slot, the others count the uses of the slot.
    Distinct { slot_bits: u32 },
    /// A range of numbers is used repeatedly. Each number is its own slot.
    Cyclic,
}

#[derive(Clone, Copy, Debug)]
struct InterestSlot {
    /// The number requested last.
    number: u64,
    waiting: bool,
    first_sent_ns: u64,
    deadline_ns: u64,
    before: u32,
    after: u32,
}

/// Requested numbers without an answer yet.
#[derive(Debug)]
pub(super) struct Outstanding {
    slots: Vec<InterestSlot>,
    numbers: Numbers,
    /// Free slots. For cyclic numbers the next free slot is found by a scan.
    free: Vec<u32>,
    next: u32,
    first: u32,
    last: u32,
    count: usize,
    window: usize,
}

impl Outstanding {
    /// Allows `window` numbers at once. No number is used twice.
    pub(super) fn distinct(window: u32) -> Self {
        let slot_bits = window.max(1).next_power_of_two().trailing_zeros();
        let numbers = Numbers::Distinct { slot_bits };
        Self::with(window, window, numbers, (0..window).rev().collect())
    }

    /// Allows `window` numbers at once. All numbers are below `count`.
    pub(super) fn cyclic(window: u32, count: u32) -> Self {
        Self::with(window.min(count), count, Numbers::Cyclic, Vec::new())
    }

    fn with(window: u32, slots: u32, numbers: Numbers, free: Vec<u32>) -> Self {
        let slot = |i| InterestSlot {
            number: u64::from(i),
            waiting: false,
            first_sent_ns: 0,
            deadline_ns: 0,
            before: NONE,
            after: NONE,
        };
        Outstanding {
            slots: (0..slots).map(slot).collect(),
            numbers,
            free,
            next: 0,
            first: NONE,
            last: NONE,
            count: 0,
            window: window as usize,
        }
    }

    /// Returns the number of Interests under way.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there is no room for another Interest.
    pub(super) fn is_full(&self) -> bool {
        self.count >= self.window
    }

    /// Returns the next number to request, and marks it as under way; `None` if the window is full.
    pub(super) fn begin(&mut self, now_ns: u64, deadline_ns: u64) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        let at = self.take_slot()?;
        let slot = self.slots.get_mut(at as usize)?;
        if let Numbers::Distinct { slot_bits } = self.numbers {
            slot.number = slot.number.wrapping_add(1 << slot_bits);
        }
        let number = slot.number;
        (slot.waiting, slot.first_sent_ns, slot.deadline_ns) = (true, now_ns, deadline_ns);
        self.link_last(at);
        self.count += 1;
        Some(number)
    }

    fn take_slot(&mut self) -> Option<u32> {
        if self.numbers != Numbers::Cyclic {
            return self.free.pop();
        }
        // The loop ends: a slot is free, because the window is not full, and there are at least as
        // many slots as the window allows Interests.
        loop {
            let at = self.next;
            self.next = if at + 1 == self.slots.len() as u32 { 0 } else { at + 1 };
            if !self.slots[at as usize].waiting {
                return Some(at);
            }
        }
    }

    fn slot_of(&self, number: u64) -> Option<u32> {
        let at = match self.numbers {
            Numbers::Distinct { slot_bits } => number & ((1 << slot_bits) - 1),
            Numbers::Cyclic => number,
        };
        let slot = self.slots.get(usize::try_from(at).ok()?)?;
        (slot.waiting && slot.number == number).then_some(at as u32)
    }

    /// Removes `number` and returns the time of its first sending; `None` if it is not under way.
    pub(super) fn finish(&mut self, number: u64) -> Option<u64> {
        let at = self.slot_of(number)?;
        self.unlink(at);
        self.slots[at as usize].waiting = false;
        if self.numbers != Numbers::Cyclic {
            self.free.push(at);
        }
        self.count -= 1;
        Some(self.slots[at as usize].first_sent_ns)
    }

    /// Returns true if `number` is under way.
    pub(super) fn has(&self, number: u64) -> bool {
        self.slot_of(number).is_some()
    }

    /// Returns the number with the first deadline, if this deadline has passed.
    pub(super) fn overdue(&self, now_ns: u64) -> Option<u64> {
        let slot = self.slots.get(self.first as usize)?;
        (slot.deadline_ns <= now_ns).then_some(slot.number)
    }

    /// Records that `number` was sent again, with a deadline later than any other.
    pub(super) fn again(&mut self, number: u64, deadline_ns: u64) {
        if let Some(at) = self.slot_of(number) {
            self.unlink(at);
            self.slots[at as usize].deadline_ns = deadline_ns;
            self.link_last(at);
        }
    }

    /// Returns the next deadline; `u64::MAX` if no Interest is under way.
    pub(super) fn due_ns(&self) -> u64 {
        self.slots.get(self.first as usize).map_or(u64::MAX, |slot| slot.deadline_ns)
    }

    fn link_last(&mut self, at: u32) {
        let last = std::mem::replace(&mut self.last, at);
        let slot = &mut self.slots[at as usize];
        (slot.before, slot.after) = (last, NONE);
        match self.slots.get_mut(last as usize) {
            Some(last) => last.after = at,
            None => self.first = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let InterestSlot { before, after, .. } = self.slots[at as usize];
        match self.slots.get_mut(before as usize) {
            Some(slot) => slot.after = after,
            None => self.first = after,
        }
        match self.slots.get_mut(after as usize) {
            Some(slot) => slot.before = before,
            None => self.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_window_never_repeats_a_number() {
        let mut outstanding = Outstanding::distinct(5);
        let mut seen = HashSet::new();
        let mut waiting = Vec::new();
        for round in 0..1000u64 {
            while let Some(number) = outstanding.begin(round, round + 10) {
                assert!(seen.insert(number), "{number} came twice");
                waiting.push(number);
            }
            assert_eq!((outstanding.len(), outstanding.is_full()), (5, true));
            let number = waiting.swap_remove(round as usize % 5);
            assert!(outstanding.has(number));
            assert!(outstanding.finish(number).is_some());
            assert_eq!(outstanding.finish(number), None, "it is answered only once");
        }
    }

    #[test]
    fn cyclic_numbers_never_repeat_in_flight() {
        let mut outstanding = Outstanding::cyclic(10, 4);
        let first: Vec<u64> = (0..4).map_while(|_| outstanding.begin(0, 10)).collect();
        assert_eq!(first, [0, 1, 2, 3]);
        assert_eq!(outstanding.begin(0, 10), None, "a set of four has no fifth");
        outstanding.finish(2);
        assert_eq!(outstanding.begin(1, 11), Some(2));
        assert_eq!(outstanding.finish(4), None);
    }

    #[test]
    fn deadlines_stay_ordered_after_retransmission() {
        let mut outstanding = Outstanding::distinct(4);
        let numbers: Vec<u64> = (0..4).filter_map(|t| outstanding.begin(t, t + 100)).collect();
        assert_eq!((outstanding.due_ns(), outstanding.overdue(99)), (100, None));
        outstanding.finish(numbers[1]);
        assert_eq!(outstanding.overdue(100), Some(numbers[0]));
        outstanding.again(numbers[0], 200);
        assert_eq!(outstanding.overdue(200), Some(numbers[2]));
        assert_eq!(outstanding.finish(numbers[2]), Some(2));
        assert_eq!(outstanding.finish(numbers[3]), Some(3));
        assert_eq!(outstanding.finish(numbers[0]), Some(0), "latency counts from the first sending");
        assert_eq!((outstanding.due_ns(), outstanding.len()), (u64::MAX, 0));
    }
}

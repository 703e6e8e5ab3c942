//! The Interests under way of one flow: a fixed number of places, found by number, in the order of
//! their deadlines.
//!
//! All Interests of a flow have one lifetime, so that the order of sending is the order of the
//! deadlines: a list through the places, from which any one leaves at the same cost.

/// No place.
const NONE: u32 = u32::MAX;

/// Which numbers a flow asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// Each once: the low bits say the place, the others how often it was taken.
    Distinct { place_bits: u32 },
    /// These many, one after the other, again and again; a number is its own place.
    Cyclic,
}

#[derive(Clone, Copy, Debug)]
struct InterestSlot {
    /// The number asked for last.
    number: u64,
    waiting: bool,
    first_sent_ns: u64,
    deadline_ns: u64,
    before: u32,
    after: u32,
}

/// What is asked for and not answered yet.
#[derive(Debug)]
pub(super) struct Outstanding {
    places: Vec<InterestSlot>,
    numbers: Numbers,
    /// Places to take; for cyclic numbers the next is found by walking.
    free: Vec<u32>,
    next: u32,
    first: u32,
    last: u32,
    count: usize,
    window: usize,
}

impl Outstanding {
    /// At most `window` at once, each with a number of its own.
    pub(super) fn distinct(window: u32) -> Self {
        let place_bits = window.max(1).next_power_of_two().trailing_zeros();
        let numbers = Numbers::Distinct { place_bits };
        Self::with(window, window, numbers, (0..window).rev().collect())
    }

    /// At most `window` at once, of the numbers below `count`.
    pub(super) fn cyclic(window: u32, count: u32) -> Self {
        Self::with(window.min(count), count, Numbers::Cyclic, Vec::new())
    }

    fn with(window: u32, places: u32, numbers: Numbers, free: Vec<u32>) -> Self {
        let place = |i| InterestSlot {
            number: u64::from(i),
            waiting: false,
            first_sent_ns: 0,
            deadline_ns: 0,
            before: NONE,
            after: NONE,
        };
        Outstanding {
            places: (0..places).map(place).collect(),
            numbers,
            free,
            next: 0,
            first: NONE,
            last: NONE,
            count: 0,
            window: window as usize,
        }
    }

    /// How many are under way.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there is no room for another.
    pub(super) fn is_full(&self) -> bool {
        self.count >= self.window
    }

    /// The next number to ask for, from now on under way; none when the window is full.
    pub(super) fn begin(&mut self, now_ns: u64, deadline_ns: u64) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        let at = self.take_place()?;
        let place = self.places.get_mut(at as usize)?;
        if let Numbers::Distinct { place_bits } = self.numbers {
            place.number = place.number.wrapping_add(1 << place_bits);
        }
        let number = place.number;
        (place.waiting, place.first_sent_ns, place.deadline_ns) = (true, now_ns, deadline_ns);
        self.link_last(at);
        self.count += 1;
        Some(number)
    }

    fn take_place(&mut self) -> Option<u32> {
        if self.numbers != Numbers::Cyclic {
            return self.free.pop();
        }
        // There is a free one: the window is not larger than the places, and not full.
        loop {
            let at = self.next;
            self.next = if at + 1 == self.places.len() as u32 { 0 } else { at + 1 };
            if !self.places[at as usize].waiting {
                return Some(at);
            }
        }
    }

    fn place_of(&self, number: u64) -> Option<u32> {
        let at = match self.numbers {
            Numbers::Distinct { place_bits } => number & ((1 << place_bits) - 1),
            Numbers::Cyclic => number,
        };
        let place = self.places.get(usize::try_from(at).ok()?)?;
        (place.waiting && place.number == number).then_some(at as u32)
    }

    /// Ends the wait for `number`; when it was sent first, or none if it is not under way.
    pub(super) fn finish(&mut self, number: u64) -> Option<u64> {
        let at = self.place_of(number)?;
        self.unlink(at);
        self.places[at as usize].waiting = false;
        if self.numbers != Numbers::Cyclic {
            self.free.push(at);
        }
        self.count -= 1;
        Some(self.places[at as usize].first_sent_ns)
    }

    /// Returns true if `number` is under way.
    pub(super) fn has(&self, number: u64) -> bool {
        self.place_of(number).is_some()
    }

    /// The number whose time is over first, if its deadline has come.
    pub(super) fn overdue(&self, now_ns: u64) -> Option<u64> {
        let place = self.places.get(self.first as usize)?;
        (place.deadline_ns <= now_ns).then_some(place.number)
    }

    /// `number` was asked for again, with a later deadline than any other.
    pub(super) fn again(&mut self, number: u64, deadline_ns: u64) {
        if let Some(at) = self.place_of(number) {
            self.unlink(at);
            self.places[at as usize].deadline_ns = deadline_ns;
            self.link_last(at);
        }
    }

    /// The next deadline; the end of time when nothing is under way.
    pub(super) fn due_ns(&self) -> u64 {
        self.places.get(self.first as usize).map_or(u64::MAX, |place| place.deadline_ns)
    }

    fn link_last(&mut self, at: u32) {
        let last = std::mem::replace(&mut self.last, at);
        let place = &mut self.places[at as usize];
        (place.before, place.after) = (last, NONE);
        match self.places.get_mut(last as usize) {
            Some(last) => last.after = at,
            None => self.first = at,
        }
    }

    fn unlink(&mut self, at: u32) {
        let InterestSlot { before, after, .. } = self.places[at as usize];
        match self.places.get_mut(before as usize) {
            Some(place) => place.after = after,
            None => self.first = after,
        }
        match self.places.get_mut(after as usize) {
            Some(place) => place.before = before,
            None => self.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_window_holds_and_no_number_comes_twice() {
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
    fn cyclic_numbers_come_again_but_never_while_they_are_under_way() {
        let mut outstanding = Outstanding::cyclic(10, 4);
        let first: Vec<u64> = (0..4).map_while(|_| outstanding.begin(0, 10)).collect();
        assert_eq!(first, [0, 1, 2, 3]);
        assert_eq!(outstanding.begin(0, 10), None, "a set of four has no fifth");
        outstanding.finish(2);
        assert_eq!(outstanding.begin(1, 11), Some(2));
        assert_eq!(outstanding.finish(4), None);
    }

    #[test]
    fn deadlines_come_in_order_whatever_is_answered_or_asked_again() {
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

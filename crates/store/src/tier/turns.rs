//! Reads that wait for the disk, by who wants them: holders take turns, by octets, and each may
//! have its share of what may pend.

use std::collections::{BTreeMap, VecDeque};

use namely_host::shares::Holder;

/// Octets that a holder may read in its turn, before that of the next.
pub(crate) const TURN_OCTETS: u64 = 32 << 10;

/// Of what may pend beyond the limit a half is for this machine's own programs.
const LOCAL_PART: usize = 2;

/// Reads that wait, and how many of each holder pend.
#[derive(Debug)]
pub(crate) struct Turns<J> {
    holders: BTreeMap<Holder, Turn<J>>,
    /// Those who have reads that wait; the first one's turn it is.
    order: VecDeque<Holder>,
}

#[derive(Debug)]
struct Turn<J> {
    waiting: VecDeque<(u64, u64, J)>,
    /// What is left of its turn; below zero: what it has had of the next ones.
    octets_left: i64,
    /// Reads that wait or are being done.
    pending: usize,
}

impl<J> Turns<J> {
    pub(crate) fn new() -> Self {
        Turns { holders: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Whether one more read of `holder` may pend where `pending` do, and from `limit` on everybody
    /// has only a share: who has had more than that finds no room, and others do.
    pub(crate) fn has_room(&self, holder: Holder, pending: usize, limit: usize) -> bool {
        if pending < limit {
            return true;
        }
        let own = self.holders.get(&holder).map_or(0, |turn| turn.pending);
        let holders = self.holders.len() + usize::from(own == 0);
        // However many holders there are.
        let most = if holder.is_local() { limit } else { limit / LOCAL_PART };
        own < limit.div_ceil(holders) && pending < limit.saturating_add(most)
    }

    /// Adds a read of so many octets, which is the `number`th request.
    pub(crate) fn push(&mut self, holder: Holder, number: u64, octets: u64, job: J) {
        let turn = self.holders.entry(holder).or_insert_with(|| Turn {
            waiting: VecDeque::new(),
            octets_left: TURN_OCTETS as i64,
            pending: 0,
        });
        turn.pending += 1;
        if turn.waiting.is_empty() {
            self.order.push_back(holder);
        }
        turn.waiting.push_back((number, octets, job));
    }

    /// A read of `holder` was done.
    pub(crate) fn done(&mut self, holder: Holder) {
        let Some(turn) = self.holders.get_mut(&holder) else { return };
        turn.pending -= 1;
        if turn.pending == 0 {
            self.holders.remove(&holder);
        }
    }

    /// The number and the octets of the next read.
    pub(crate) fn first(&mut self) -> Option<(u64, u64)> {
        loop {
            let holder = *self.order.front()?;
            let turn = self.holders.get_mut(&holder)?;
            if turn.octets_left > 0 || self.order.len() == 1 {
                return turn.waiting.front().map(|(number, octets, _)| (*number, *octets));
            }
            turn.octets_left += TURN_OCTETS as i64;
            self.order.rotate_left(1);
        }
    }

    /// The next read.
    pub(crate) fn take(&mut self) -> Option<J> {
        self.first()?;
        let turn = self.holders.get_mut(self.order.front()?)?;
        let (_, octets, job) = turn.waiting.pop_front()?;
        turn.octets_left = turn.octets_left.saturating_sub_unsigned(octets);
        if turn.waiting.is_empty() {
            turn.octets_left = TURN_OCTETS as i64;
            self.order.pop_front();
        }
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 64;

    /// Adds a read of 8 KiB if there is room, to reads and to what pends.
    fn ask(turns: &mut Turns<Holder>, pending: &mut usize, holder: Holder) -> bool {
        let has_room = turns.has_room(holder, *pending, LIMIT);
        if has_room {
            turns.push(holder, *pending as u64, 8 << 10, holder);
            *pending += 1;
        }
        has_room
    }

    #[test]
    fn who_has_more_than_a_share_waits_for_others_who_do_not_wait_for_him() {
        let (mut turns, mut pending) = (Turns::new(), 0);
        let [peer, other] = [1, 2].map(|n| Holder::address([192, 0, 2, n].into()));
        assert_eq!((0..1000).filter(|_| ask(&mut turns, &mut pending, peer)).count(), LIMIT);
        for holder in [other, Holder::uid(1000), Holder::Root] {
            assert!(ask(&mut turns, &mut pending, holder), "{holder} has had nothing");
        }
        assert!(!ask(&mut turns, &mut pending, peer), "one past it");
        // Four reads are a turn; then each of the others has one.
        let order: Vec<Holder> = (0..8).map_while(|_| turns.take()).collect();
        assert_eq!(order, [peer, peer, peer, peer, other, Holder::uid(1000), Holder::Root, peer]);
        for holder in order {
            turns.done(holder);
            pending -= 1;
        }
        assert!(pending < LIMIT && ask(&mut turns, &mut pending, peer));
    }

    #[test]
    fn however_many_ask_so_much_pends_and_half_of_what_is_beyond_is_this_machines() {
        let (mut turns, mut pending) = (Turns::new(), 0);
        let address = |n: u16| Holder::address([10, 0, (n >> 8) as u8, n as u8].into());
        let taken = (0..1000).filter(|n| ask(&mut turns, &mut pending, address(*n))).count();
        assert_eq!(taken, LIMIT * 3 / 2);
        let taken = (1..1000).filter(|uid| ask(&mut turns, &mut pending, Holder::uid(*uid))).count();
        assert_eq!(taken, LIMIT / 2);
        assert!(!ask(&mut turns, &mut pending, Holder::Root));
        // Who reads much at once waits for longer.
        let mut turns = Turns::new();
        (0..3).for_each(|n| turns.push(Holder::uid(1), n, 4 * TURN_OCTETS, 1));
        (3..23).for_each(|n| turns.push(Holder::uid(2), n, TURN_OCTETS, 2));
        let order: Vec<i32> = (0..11).map_while(|_| turns.take()).collect();
        assert_eq!(order, [1, 2, 2, 2, 2, 1, 2, 2, 2, 2, 1]);
    }

    #[test]
    fn without_a_limit_there_is_room_and_with_none_there_is_not() {
        let mut turns = Turns::new();
        turns.push(Holder::Root, 1, 1, ());
        assert!(turns.has_room(Holder::uid(1), 1 << 40, usize::MAX));
        assert!(!turns.has_room(Holder::uid(1), 0, 0) && !turns.has_room(Holder::Root, 1, 0));
    }
}

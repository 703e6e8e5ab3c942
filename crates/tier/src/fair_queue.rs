//! Reads that wait for the disk, by holder. Holders are served round-robin by octets, and each has
//! a share of the pending requests.

use std::collections::{BTreeMap, VecDeque};

use namely_host::shares::Owner;

/// Octets that a holder may read from the tier per round.
///
/// # Limit
/// The reads of other holders are served first.
/// - Tests: `a_holder_above_its_share_waits`
pub(crate) const TURN_OCTETS: u64 = 32 << 10;

/// Divisor of the requests beyond the limit. Other machines may use only this part of them;
/// programs of this machine may use all.
const LOCAL_PART: usize = 2;

/// Waiting reads, and the number of pending reads of each holder.
#[derive(Debug)]
pub(crate) struct FairQueue<J> {
    holders: BTreeMap<Owner, OwnerQueue<J>>,
    /// Holders with waiting reads; the first one is served next.
    order: VecDeque<Owner>,
}

#[derive(Debug)]
struct OwnerQueue<J> {
    waiting: VecDeque<(u64, u64, J)>,
    /// Octets left in this round; negative if the holder has used octets of later rounds.
    octets_left: i64,
    /// Reads that wait or are being performed.
    pending: usize,
}

impl<J> FairQueue<J> {
    pub(crate) fn new() -> Self {
        FairQueue { holders: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Returns whether one more read of `holder` may pend while `pending` requests do. Once `limit`
    /// requests pend, a holder has room only below its share.
    pub(crate) fn has_room(&self, holder: Owner, pending: usize, limit: usize) -> bool {
        if pending < limit {
            return true;
        }
        let own = self.holders.get(&holder).map_or(0, |queue| queue.pending);
        let holders = self.holders.len() + usize::from(own == 0);
        // A bound on all requests, for any number of holders.
        let most = if holder.is_local() { limit } else { limit / LOCAL_PART };
        own < limit.div_ceil(holders) && pending < limit.saturating_add(most)
    }

    /// Adds a read of `octets` octets, which is the `number`th request.
    pub(crate) fn push(&mut self, holder: Owner, number: u64, octets: u64, job: J) {
        let queue = self.holders.entry(holder).or_insert_with(|| OwnerQueue {
            waiting: VecDeque::new(),
            octets_left: TURN_OCTETS as i64,
            pending: 0,
        });
        queue.pending += 1;
        if queue.waiting.is_empty() {
            self.order.push_back(holder);
        }
        queue.waiting.push_back((number, octets, job));
    }

    /// Records that a read of `holder` is done.
    pub(crate) fn done(&mut self, holder: Owner) {
        let Some(queue) = self.holders.get_mut(&holder) else { return };
        queue.pending -= 1;
        // A holder without reads has no entry, so the pending reads bound the memory.
        if queue.pending == 0 {
            self.holders.remove(&holder);
        }
    }

    /// Returns the number and the octets of the next read.
    pub(crate) fn first(&mut self) -> Option<(u64, u64)> {
        loop {
            let holder = *self.order.front()?;
            let queue = self.holders.get_mut(&holder)?;
            // A single holder has no other to wait for.
            if queue.octets_left > 0 || self.order.len() == 1 {
                return queue.waiting.front().map(|(number, octets, _)| (*number, *octets));
            }
            queue.octets_left += TURN_OCTETS as i64;
            self.order.rotate_left(1);
        }
    }

    /// Takes the next read.
    pub(crate) fn take(&mut self) -> Option<J> {
        self.first()?;
        let queue = self.holders.get_mut(self.order.front()?)?;
        let (_, octets, job) = queue.waiting.pop_front()?;
        queue.octets_left = queue.octets_left.saturating_sub_unsigned(octets);
        if queue.waiting.is_empty() {
            // A holder that returns later has neither credit nor debt.
            queue.octets_left = TURN_OCTETS as i64;
            self.order.pop_front();
        }
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 64;

    /// Adds a read of 8 KiB to `turns` if there is room, and counts it in `pending`.
    fn ask(turns: &mut FairQueue<Owner>, pending: &mut usize, holder: Owner) -> bool {
        let has_room = turns.has_room(holder, *pending, LIMIT);
        if has_room {
            turns.push(holder, *pending as u64, 8 << 10, holder);
            *pending += 1;
        }
        has_room
    }

    #[test]
    fn a_holder_above_its_share_waits() {
        let (mut turns, mut pending) = (FairQueue::new(), 0);
        let [peer, other] = [1, 2].map(|n| Owner::address([192, 0, 2, n].into()));
        assert_eq!((0..1000).filter(|_| ask(&mut turns, &mut pending, peer)).count(), LIMIT);
        for holder in [other, Owner::uid(1000), Owner::Root] {
            assert!(ask(&mut turns, &mut pending, holder), "{holder} has had nothing");
        }
        assert!(!ask(&mut turns, &mut pending, peer), "one past it");
        // Four reads make a round; then each of the others has one.
        let order: Vec<Owner> = (0..8).map_while(|_| turns.take()).collect();
        assert_eq!(order, [peer, peer, peer, peer, other, Owner::uid(1000), Owner::Root, peer]);
        for holder in order {
            turns.done(holder);
            pending -= 1;
        }
        assert!(pending < LIMIT && ask(&mut turns, &mut pending, peer));
    }

    #[test]
    fn pending_reads_reserve_room_for_local_users() {
        let (mut turns, mut pending) = (FairQueue::new(), 0);
        let address = |n: u16| Owner::address([10, 0, (n >> 8) as u8, n as u8].into());
        let taken = (0..1000).filter(|n| ask(&mut turns, &mut pending, address(*n))).count();
        assert_eq!(taken, LIMIT * 3 / 2);
        let taken = (1..1000).filter(|uid| ask(&mut turns, &mut pending, Owner::uid(*uid))).count();
        assert_eq!(taken, LIMIT / 2);
        assert!(!ask(&mut turns, &mut pending, Owner::Root));
        // A holder with large reads waits longer.
        let mut turns = FairQueue::new();
        (0..3).for_each(|n| turns.push(Owner::uid(1), n, 4 * TURN_OCTETS, 1));
        (3..23).for_each(|n| turns.push(Owner::uid(2), n, TURN_OCTETS, 2));
        let order: Vec<i32> = (0..11).map_while(|_| turns.take()).collect();
        assert_eq!(order, [1, 2, 2, 2, 2, 1, 2, 2, 2, 2, 1]);
    }

    #[test]
    fn a_pending_limit_of_zero_leaves_no_room() {
        let mut turns = FairQueue::new();
        turns.push(Owner::Root, 1, 1, ());
        assert!(turns.has_room(Owner::uid(1), 1 << 40, usize::MAX));
        assert!(!turns.has_room(Owner::uid(1), 0, 0) && !turns.has_room(Owner::Root, 1, 0));
    }
}

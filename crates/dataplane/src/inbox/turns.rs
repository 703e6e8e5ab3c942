//! The packets that wait for the control thread, and whose turn it is.
//!
//! Each holder (a user of this machine, a host, a station) has a share of the queue and of the
//! control thread's time, so that one who sends without pause keeps nobody else waiting. Holders
//! take turns, root first; and the faces of one holder take turns too, so that a user's tools work
//! while one of the user's programs runs wild. Reads no clock.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use namely_forwarder::FaceId;
use namely_host::shares::{Holder, Refusal, ShareLimits, Shares};

use super::ControlPacket;

/// Maximum number of packets that wait for the control thread; those of root may be a quarter more.
/// A further one takes the place of one of the holder that has most, or is dropped; both counted.
pub const CONTROL_PACKETS_MAX: usize = 1024;

/// Maximum number of packets of one holder that wait for the control thread; root has twice that.
pub const CONTROL_PACKETS_PER_HOLDER_MAX: usize = 128;

/// How many packets of a holder are handled in a second, root's excepted; further ones wait.
pub const CONTROL_PACKETS_PER_SECOND: u64 = 2000;

/// The part of the control thread's time that a holder gets, root excepted: one in so many ns.
pub const CONTROL_TIME_SHARE: u64 = 4;

/// For how long a holder may use more than the two limits above before it waits, ns.
const BURST_NS: u64 = 1_000_000_000;

/// How many packets of root are handled before one of somebody else, if that waits.
const ROOT_TURNS: u32 = 8;

/// Holders without packets whose use of time is remembered before those are forgotten that have
/// waited enough.
const HOLDERS_IDLE_MAX: usize = 1024;

/// Why a packet is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    /// The holder has as many waiting as one may.
    Share,
    /// As many wait as may.
    All,
}

#[derive(Debug)]
pub(super) struct Turns {
    shares: Shares,
    holders: BTreeMap<Holder, Waiting>,
    /// Who had the last turn, root excepted.
    last: Option<Holder>,
    root_turns: u32,
}

/// What waits for one holder's turn.
#[derive(Debug, Default)]
struct Waiting {
    /// None of the queues is empty.
    faces: BTreeMap<Option<FaceId>, VecDeque<ControlPacket>>,
    last: Option<FaceId>,
    /// The time that the holder has used up, on the control thread's clock, ns.
    used_ns: u64,
}

/// Whose packet is handled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing waits.
    Nobody,
    /// All who wait have used up their time: the first has some at this time, ns.
    At(u64),
    /// It is this one's.
    Of(Holder),
}

impl Default for Turns {
    fn default() -> Self {
        let limits = ShareLimits {
            total: CONTROL_PACKETS_MAX as u64,
            ceiling: CONTROL_PACKETS_PER_HOLDER_MAX as u64,
            local_ceiling: None,
            reserve: 1,
            local_reserve: (CONTROL_PACKETS_MAX / 4) as u64,
            root_extra: (CONTROL_PACKETS_MAX / 4) as u64,
        };
        Turns { shares: Shares::new(limits), holders: BTreeMap::new(), last: None, root_turns: 0 }
    }
}

impl Turns {
    /// Puts in a packet of `holder`. What it takes the place of is given back: one of the largest
    /// holder's, or of the holder's own busiest face.
    ///
    /// # Errors
    /// [`Full`]: the packet is dropped.
    pub(super) fn push(
        &mut self,
        holder: Holder,
        packet: ControlPacket,
    ) -> Result<Option<ControlPacket>, Full> {
        let evicted = match self.check(holder) {
            Ok(()) => None,
            Err(Refusal::Ceiling) => Some(self.drop_from(holder, packet.incoming).ok_or(Full::Share)?),
            Err(Refusal::Full { payer }) => {
                Some(payer.and_then(|payer| self.drop_from(payer, packet.incoming)).ok_or(Full::All)?)
            }
        };
        self.shares.take(holder, 1).map_err(|_| Full::All)?;
        let waiting = self.holders.entry(holder).or_default();
        waiting.faces.entry(packet.incoming).or_default().push_back(packet);
        Ok(evicted)
    }

    fn check(&self, holder: Holder) -> Result<(), Refusal> {
        // Root has no ceiling among shares: it would fill the queue with what it sends in a loop.
        let root_max = 2 * CONTROL_PACKETS_PER_HOLDER_MAX as u64;
        if holder == Holder::Root && self.shares.held(holder) >= root_max {
            return Err(Refusal::Ceiling);
        }
        self.shares.check(holder, 1)
    }

    /// Drops the newest packet of the face of `holder` that has most waiting, unless that is the
    /// face that asks: it has no better right.
    fn drop_from(&mut self, holder: Holder, asking: Option<FaceId>) -> Option<ControlPacket> {
        let waiting = self.holders.get_mut(&holder)?;
        let own = waiting.faces.get(&asking).map_or(0, VecDeque::len);
        let (face, most) =
            waiting.faces.iter().map(|(face, queue)| (*face, queue.len())).max_by_key(|(_, most)| *most)?;
        if most <= own {
            return None;
        }
        let dropped = waiting.take(face, VecDeque::pop_back);
        self.shares.give_back(holder, 1);
        dropped
    }

    /// Whose turn it is at `now_ns`; without `is_timed` nobody has used up his time.
    pub(super) fn next(&self, now_ns: u64, is_timed: bool) -> Turn {
        let is_waiting = |waiting: &Waiting| !waiting.faces.is_empty();
        let may = |waiting: &Waiting| !is_timed || waiting.used_ns <= now_ns.saturating_add(BURST_NS);
        let other = {
            let mut rest = self.holders.range((self.last.map_or(Unbounded, Excluded), Unbounded));
            let from_start = self.holders.iter();
            let fits = |(holder, waiting): &(&Holder, &Waiting)| {
                **holder != Holder::Root && is_waiting(waiting) && may(waiting)
            };
            rest.find(fits).or_else(|| from_start.into_iter().find(fits)).map(|(holder, _)| *holder)
        };
        let is_root = self.holders.get(&Holder::Root).is_some_and(is_waiting);
        match other {
            _ if is_root && (other.is_none() || self.root_turns < ROOT_TURNS) => Turn::Of(Holder::Root),
            Some(holder) => Turn::Of(holder),
            None => {
                let waiting = self.holders.values().filter(|waiting| is_waiting(waiting));
                let first_ns = waiting.map(|waiting| waiting.used_ns.saturating_sub(BURST_NS)).min();
                first_ns.map_or(Turn::Nobody, Turn::At)
            }
        }
    }

    /// Takes out a packet of `holder`, whose turn it is.
    pub(super) fn pop(&mut self, holder: Holder) -> Option<ControlPacket> {
        if holder == Holder::Root {
            self.root_turns = self.root_turns.saturating_add(1);
        } else {
            self.root_turns = 0;
            self.last = Some(holder);
        }
        let waiting = self.holders.get_mut(&holder)?;
        let mut rest =
            waiting.faces.range((waiting.last.map_or(Unbounded, |id| Excluded(Some(id))), Unbounded));
        let face = rest.next().or_else(|| waiting.faces.iter().next()).map(|(face, _)| *face)?;
        waiting.last = face;
        let packet = waiting.take(face, VecDeque::pop_front);
        self.shares.give_back(holder, 1);
        packet
    }

    /// Charges `holder` for a packet that was handled in `spent_ns`, until `now_ns`.
    pub(super) fn charge(&mut self, holder: Holder, spent_ns: u64, now_ns: u64) {
        if holder == Holder::Root {
            return;
        }
        let each_ns = 1_000_000_000 / CONTROL_PACKETS_PER_SECOND;
        let price_ns = each_ns.max(spent_ns.saturating_mul(CONTROL_TIME_SHARE));
        if let Some(waiting) = self.holders.get_mut(&holder) {
            waiting.used_ns = waiting.used_ns.max(now_ns).saturating_add(price_ns);
        }
        if self.holders.len() > HOLDERS_IDLE_MAX {
            self.holders.retain(|_, waiting| !waiting.faces.is_empty() || waiting.used_ns > now_ns);
        }
    }
}

impl Waiting {
    fn take(
        &mut self,
        face: Option<FaceId>,
        take: impl FnOnce(&mut VecDeque<ControlPacket>) -> Option<ControlPacket>,
    ) -> Option<ControlPacket> {
        let queue = self.faces.get_mut(&face)?;
        let packet = take(queue);
        if queue.is_empty() {
            self.faces.remove(&face);
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use namely_wire::LpHeaders;

    use super::*;
    use crate::Packet;

    const SECOND_NS: u64 = 1_000_000_000;

    fn packet(face: u64) -> ControlPacket {
        ControlPacket {
            packet: Packet::from(&[5, 0][..]),
            headers: LpHeaders::default(),
            incoming: Some(FaceId(face)),
            is_local: true,
            credentials: None,
            holder: Holder::Root,
        }
    }

    fn host(n: u8) -> Holder {
        Holder::address([192, 0, 2, n].into())
    }

    /// Takes out the next packet, by holder and face.
    fn take(turns: &mut Turns, now_ns: u64) -> Option<(Holder, u64)> {
        let Turn::Of(holder) = turns.next(now_ns, true) else { return None };
        let packet = turns.pop(holder).unwrap();
        turns.charge(holder, 0, now_ns);
        Some((holder, packet.incoming.unwrap().0))
    }

    #[test]
    fn a_holder_has_its_share_of_the_queue_and_one_past_it_is_dropped() {
        let mut turns = Turns::default();
        for _ in 0..CONTROL_PACKETS_PER_HOLDER_MAX {
            assert!(matches!(turns.push(Holder::uid(7), packet(1)), Ok(None)));
        }
        assert_eq!(turns.push(Holder::uid(7), packet(1)).err(), Some(Full::Share), "one past the share");
        assert!(turns.push(Holder::uid(8), packet(2)).is_ok(), "others have theirs");
        let evicted = turns.push(Holder::uid(7), packet(3)).unwrap().unwrap();
        assert_eq!(evicted.incoming, Some(FaceId(1)), "another face of the user has a place");
    }

    #[test]
    fn when_all_is_full_the_largest_holder_pays_and_root_gets_in() {
        let mut turns = Turns::default();
        let mut n = 0;
        while turns.shares.used() < CONTROL_PACKETS_MAX as u64 {
            n += 1;
            for _ in 0..CONTROL_PACKETS_PER_HOLDER_MAX {
                turns.push(Holder::uid(n), packet(n.into())).unwrap();
            }
        }
        assert!(turns.push(Holder::uid(100), packet(100)).unwrap().is_some(), "somebody pays");
        assert!(turns.push(Holder::Root, packet(101)).unwrap().is_none(), "root has places of its own");
        assert_eq!(take(&mut turns, 0), Some((Holder::Root, 101)));
    }

    #[test]
    fn hosts_cannot_take_the_places_of_this_machines_users() {
        let mut turns = Turns::default();
        for n in 0..=u8::MAX {
            for _ in 0..CONTROL_PACKETS_PER_HOLDER_MAX {
                turns.push(host(n), packet(n.into())).ok();
            }
        }
        assert_eq!(turns.shares.used(), (CONTROL_PACKETS_MAX - CONTROL_PACKETS_MAX / 4) as u64);
        assert!(turns.push(Holder::uid(7), packet(1)).unwrap().is_none());
    }

    #[test]
    fn holders_take_turns_and_so_do_the_faces_of_each() {
        let mut turns = Turns::default();
        for _ in 0..100 {
            turns.push(Holder::uid(1), packet(1)).unwrap();
        }
        for (holder, face) in [(Holder::uid(1), 11), (Holder::uid(2), 2), (host(1), 3)] {
            turns.push(holder, packet(face)).unwrap();
        }
        let mut faces: Vec<u64> = (0..4).filter_map(|_| take(&mut turns, 0)).map(|(_, face)| face).collect();
        faces.sort_unstable();
        assert_eq!(faces, [1, 2, 3, 11]);
    }

    #[test]
    fn root_comes_first_and_does_not_keep_others_out() {
        let mut turns = Turns::default();
        turns.push(Holder::uid(1), packet(1)).unwrap();
        for _ in 0..2 * ROOT_TURNS {
            turns.push(Holder::Root, packet(0)).unwrap();
        }
        let order: Vec<u64> = std::iter::from_fn(|| take(&mut turns, 0)).map(|(_, face)| face).collect();
        assert_eq!(order.iter().position(|face| *face == 1), Some(ROOT_TURNS as usize), "{order:?}");
        assert_eq!(order.len(), 2 * ROOT_TURNS as usize + 1);
    }

    #[test]
    fn a_holder_is_handled_at_its_rate_after_the_burst_and_root_at_any() {
        let mut turns = Turns::default();
        let (mut handled, mut of_root) = (0, 0);
        for step in 0..100_000 {
            let now_ns = step * SECOND_NS / 10_000;
            turns.push(Holder::uid(1), packet(1)).ok();
            turns.push(Holder::Root, packet(0)).unwrap();
            while let Some((holder, _)) = take(&mut turns, now_ns) {
                *(if holder == Holder::Root { &mut of_root } else { &mut handled }) += 1;
            }
        }
        assert_eq!(of_root, 100_000);
        // Ten seconds and the burst of one.
        let expected = 11 * CONTROL_PACKETS_PER_SECOND;
        assert!((expected - 2..=expected + 2).contains(&handled), "{handled}");
    }

    #[test]
    fn what_takes_long_is_paid_for_and_the_wait_has_an_end() {
        let mut turns = Turns::default();
        let holder = Holder::uid(1);
        for _ in 0..10 {
            turns.push(holder, packet(1)).unwrap();
        }
        // Half a second each: four times that is charged, and one second is free.
        assert_eq!(turns.next(0, true), Turn::Of(holder));
        turns.pop(holder);
        turns.charge(holder, SECOND_NS / 2, 0);
        assert_eq!(turns.next(0, true), Turn::At(SECOND_NS));
        assert_eq!(turns.next(0, false), Turn::Of(holder), "at the end nobody waits");
        assert_eq!(turns.next(SECOND_NS, true), Turn::Of(holder));
        assert_eq!(Turns::default().next(0, true), Turn::Nobody);
    }

    #[test]
    fn holders_that_have_waited_enough_are_forgotten() {
        let mut turns = Turns::default();
        for n in 0..=HOLDERS_IDLE_MAX as u32 {
            turns.push(Holder::uid(1 + n), packet(1)).unwrap();
            take(&mut turns, u64::from(n) * SECOND_NS).unwrap();
        }
        assert!(turns.holders.len() <= 2, "{}", turns.holders.len());
    }
}

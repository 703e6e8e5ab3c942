//! The packets that wait for the control thread, and their order.
//!
//! Each owner (a user of this machine, a host, a link address), also called holder, has a share of
//! the queue and of the control thread's time, so that an owner that sends without pause does not
//! delay others. Owners are served round-robin, root first. The faces of one owner are served
//! round-robin too, so that a user's tools work while another program of that user floods the
//! queue. This module reads no clock.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use namely_forwarder::FaceId;
use namely_host::shares::{Owner, Refusal, ShareLimits, Shares};

use super::ControlPacket;

/// Packets that wait for the control thread.
///
/// A holder is a user of this machine, an address or a link address.
///
/// # Limit
/// A packet of the holder with most packets is dropped, or else the new packet.
/// - Value: 1024, a quarter of them for users of this machine; 256 more for root
/// - Counter: `internal_queue_full`
/// - Tests: `a_full_inbox_evicts_the_largest_holder`,
///   `hosts_leave_room_for_local_users`
pub const CONTROL_PACKETS_MAX: usize = 1024;

/// Packets of one holder that wait for the control thread.
///
/// # Limit
/// A packet of the holder's busiest face is dropped, or else the new packet.
/// - Value: 128; 256 for root
/// - Counter: `control_share_full`
/// - Tests: `packets_past_a_holders_share_are_dropped`,
///   `a_flooding_user_delays_no_other`
pub const CONTROL_PACKETS_PER_HOLDER_MAX: usize = 128;

/// Packets of one holder that the control thread handles in a second.
///
/// # Limit
/// Further packets wait in the queue.
/// - Value: 2000, and as many more at once; no limit for root
/// - Tests: `only_root_exceeds_the_holder_rate`
pub const CONTROL_PACKETS_PER_SECOND: u64 = 2000;

/// Part of the control thread's time for one holder.
///
/// The constant is the divisor: one in so many ns.
///
/// # Limit
/// Further packets of the holder wait in the queue.
/// - Value: a quarter, and a second's worth more at once; no limit for root
/// - Tests: `slow_handling_is_charged_to_its_holder`
pub const CONTROL_TIME_SHARE: u64 = 4;

/// Time by which an owner may exceed the two limits above before it waits, ns.
const BURST_NS: u64 = 1_000_000_000;

/// Number of packets of root that are handled before a waiting packet of another owner.
const ROOT_TURNS: u32 = 8;

/// Idle holders whose use of the control thread's time is remembered.
///
/// # Limit
/// Holders that have waited long enough are removed.
/// - Tests: `idle_holders_are_forgotten`
const HOLDERS_IDLE_MAX: usize = 1024;

/// The reason for which a packet is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Full {
    /// The owner's share of the queue is full.
    Share,
    /// The whole queue is full.
    All,
}

#[derive(Debug)]
pub(super) struct FairQueue {
    shares: Shares,
    holders: BTreeMap<Owner, OwnerQueue>,
    /// The owner that was served last, except root.
    last: Option<Owner>,
    root_turns: u32,
}

/// The waiting packets of one owner.
#[derive(Debug, Default)]
struct OwnerQueue {
    /// None of the queues is empty.
    faces: BTreeMap<Option<FaceId>, VecDeque<ControlPacket>>,
    last: Option<FaceId>,
    /// The time up to which the owner has used its share, on the control thread's clock, ns.
    used_ns: u64,
}

/// The owner to serve next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextOwner {
    /// No packet waits.
    Empty,
    /// All waiting owners have used up their time. The first may be served again at this time, ns.
    WaitUntil(u64),
    /// Serve this owner.
    Serve(Owner),
}

impl Default for FairQueue {
    fn default() -> Self {
        let limits = ShareLimits {
            total: CONTROL_PACKETS_MAX as u64,
            ceiling: CONTROL_PACKETS_PER_HOLDER_MAX as u64,
            local_ceiling: None,
            reserve: 1,
            local_reserve: (CONTROL_PACKETS_MAX / 4) as u64,
            root_extra: (CONTROL_PACKETS_MAX / 4) as u64,
        };
        FairQueue { shares: Shares::new(limits), holders: BTreeMap::new(), last: None, root_turns: 0 }
    }
}

impl FairQueue {
    /// Puts in a packet of `holder`. Returns the packet that was evicted for it: a packet of the
    /// owner with the most packets, or of the busiest face of `holder`.
    ///
    /// # Errors
    /// [`Full`]: the packet is dropped.
    pub(super) fn push(
        &mut self,
        holder: Owner,
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

    fn check(&self, holder: Owner) -> Result<(), Refusal> {
        // [`Shares`] has no ceiling for root. Without this check its programs could fill the queue
        // by sending in a loop.
        let root_max = 2 * CONTROL_PACKETS_PER_HOLDER_MAX as u64;
        if holder == Owner::Root && self.shares.held(holder) >= root_max {
            return Err(Refusal::Ceiling);
        }
        self.shares.check(holder, 1)
    }

    /// Drops the newest packet of the face of `holder` with the most waiting packets. Drops none if
    /// the face of the incoming packet, `incoming`, has as many.
    fn drop_from(&mut self, holder: Owner, incoming: Option<FaceId>) -> Option<ControlPacket> {
        let waiting = self.holders.get_mut(&holder)?;
        let own = waiting.faces.get(&incoming).map_or(0, VecDeque::len);
        let (face, most) =
            waiting.faces.iter().map(|(face, queue)| (*face, queue.len())).max_by_key(|(_, most)| *most)?;
        // The incoming packet's own face has as many, so the incoming packet is dropped instead.
        if most <= own {
            return None;
        }
        // The newest, because the others have waited longer.
        let dropped = waiting.take(face, VecDeque::pop_back);
        self.shares.give_back(holder, 1);
        dropped
    }

    /// Returns the owner to serve at `now_ns`. Without `is_timed` the limits of time are ignored.
    pub(super) fn next(&self, now_ns: u64, is_timed: bool) -> NextOwner {
        let is_waiting = |waiting: &OwnerQueue| !waiting.faces.is_empty();
        let may = |waiting: &OwnerQueue| !is_timed || waiting.used_ns <= now_ns.saturating_add(BURST_NS);
        let other = {
            let mut rest = self.holders.range((self.last.map_or(Unbounded, Excluded), Unbounded));
            let from_start = self.holders.iter();
            let fits = |(holder, waiting): &(&Owner, &OwnerQueue)| {
                **holder != Owner::Root && is_waiting(waiting) && may(waiting)
            };
            rest.find(fits).or_else(|| from_start.into_iter().find(fits)).map(|(holder, _)| *holder)
        };
        let is_root = self.holders.get(&Owner::Root).is_some_and(is_waiting);
        match other {
            _ if is_root && (other.is_none() || self.root_turns < ROOT_TURNS) => {
                NextOwner::Serve(Owner::Root)
            }
            Some(holder) => NextOwner::Serve(holder),
            None => {
                let waiting = self.holders.values().filter(|waiting| is_waiting(waiting));
                let first_ns = waiting.map(|waiting| waiting.used_ns.saturating_sub(BURST_NS)).min();
                first_ns.map_or(NextOwner::Empty, NextOwner::WaitUntil)
            }
        }
    }

    /// Takes out a packet of `holder`, which `FairQueue::next` has chosen.
    pub(super) fn pop(&mut self, holder: Owner) -> Option<ControlPacket> {
        if holder == Owner::Root {
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

    /// Charges `holder` for a packet whose handling took `spent_ns` and ended at `now_ns`.
    pub(super) fn charge(&mut self, holder: Owner, spent_ns: u64, now_ns: u64) {
        if holder == Owner::Root {
            return;
        }
        let each_ns = 1_000_000_000 / CONTROL_PACKETS_PER_SECOND;
        // Both limits apply: the one that costs more is charged.
        let price_ns = each_ns.max(spent_ns.saturating_mul(CONTROL_TIME_SHARE));
        if let Some(waiting) = self.holders.get_mut(&holder) {
            // Unused time before `now_ns` is not saved up.
            waiting.used_ns = waiting.used_ns.max(now_ns).saturating_add(price_ns);
        }
        if self.holders.len() > HOLDERS_IDLE_MAX {
            self.holders.retain(|_, waiting| !waiting.faces.is_empty() || waiting.used_ns > now_ns);
        }
    }
}

impl OwnerQueue {
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
            holder: Owner::Root,
        }
    }

    fn host(n: u8) -> Owner {
        Owner::address([192, 0, 2, n].into())
    }

    /// Takes out the next packet. Returns its owner and face.
    fn take(turns: &mut FairQueue, now_ns: u64) -> Option<(Owner, u64)> {
        let NextOwner::Serve(holder) = turns.next(now_ns, true) else { return None };
        let packet = turns.pop(holder).unwrap();
        turns.charge(holder, 0, now_ns);
        Some((holder, packet.incoming.unwrap().0))
    }

    #[test]
    fn packets_past_a_holders_share_are_dropped() {
        let mut turns = FairQueue::default();
        for _ in 0..CONTROL_PACKETS_PER_HOLDER_MAX {
            assert!(matches!(turns.push(Owner::uid(7), packet(1)), Ok(None)));
        }
        assert_eq!(turns.push(Owner::uid(7), packet(1)).err(), Some(Full::Share), "one past the share");
        assert!(turns.push(Owner::uid(8), packet(2)).is_ok(), "others have theirs");
        let evicted = turns.push(Owner::uid(7), packet(3)).unwrap().unwrap();
        assert_eq!(evicted.incoming, Some(FaceId(1)), "another face of the user has a place");
    }

    #[test]
    fn a_full_inbox_evicts_the_largest_holder() {
        let mut turns = FairQueue::default();
        let mut n = 0;
        while turns.shares.used() < CONTROL_PACKETS_MAX as u64 {
            n += 1;
            for _ in 0..CONTROL_PACKETS_PER_HOLDER_MAX {
                turns.push(Owner::uid(n), packet(n.into())).unwrap();
            }
        }
        assert!(turns.push(Owner::uid(100), packet(100)).unwrap().is_some(), "somebody pays");
        assert!(turns.push(Owner::Root, packet(101)).unwrap().is_none(), "root has places of its own");
        assert_eq!(take(&mut turns, 0), Some((Owner::Root, 101)));
    }

    #[test]
    fn hosts_leave_room_for_local_users() {
        let mut turns = FairQueue::default();
        for n in 0..=u8::MAX {
            for _ in 0..CONTROL_PACKETS_PER_HOLDER_MAX {
                turns.push(host(n), packet(n.into())).ok();
            }
        }
        assert_eq!(turns.shares.used(), (CONTROL_PACKETS_MAX - CONTROL_PACKETS_MAX / 4) as u64);
        assert!(turns.push(Owner::uid(7), packet(1)).unwrap().is_none());
    }

    #[test]
    fn holders_and_their_faces_take_turns() {
        let mut turns = FairQueue::default();
        for _ in 0..100 {
            turns.push(Owner::uid(1), packet(1)).unwrap();
        }
        for (holder, face) in [(Owner::uid(1), 11), (Owner::uid(2), 2), (host(1), 3)] {
            turns.push(holder, packet(face)).unwrap();
        }
        let mut faces: Vec<u64> = (0..4).filter_map(|_| take(&mut turns, 0)).map(|(_, face)| face).collect();
        faces.sort_unstable();
        assert_eq!(faces, [1, 2, 3, 11]);
    }

    #[test]
    fn root_is_first_without_starving_others() {
        let mut turns = FairQueue::default();
        turns.push(Owner::uid(1), packet(1)).unwrap();
        for _ in 0..2 * ROOT_TURNS {
            turns.push(Owner::Root, packet(0)).unwrap();
        }
        let order: Vec<u64> = std::iter::from_fn(|| take(&mut turns, 0)).map(|(_, face)| face).collect();
        assert_eq!(order.iter().position(|face| *face == 1), Some(ROOT_TURNS as usize), "{order:?}");
        assert_eq!(order.len(), 2 * ROOT_TURNS as usize + 1);
    }

    #[test]
    fn only_root_exceeds_the_holder_rate() {
        let mut turns = FairQueue::default();
        let (mut handled, mut of_root) = (0, 0);
        for step in 0..100_000 {
            let now_ns = step * SECOND_NS / 10_000;
            turns.push(Owner::uid(1), packet(1)).ok();
            turns.push(Owner::Root, packet(0)).unwrap();
            while let Some((holder, _)) = take(&mut turns, now_ns) {
                *(if holder == Owner::Root { &mut of_root } else { &mut handled }) += 1;
            }
        }
        assert_eq!(of_root, 100_000);
        // Ten seconds and the burst of one.
        let expected = 11 * CONTROL_PACKETS_PER_SECOND;
        assert!((expected - 2..=expected + 2).contains(&handled), "{handled}");
    }

    #[test]
    fn slow_handling_is_charged_to_its_holder() {
        let mut turns = FairQueue::default();
        let holder = Owner::uid(1);
        for _ in 0..10 {
            turns.push(holder, packet(1)).unwrap();
        }
        // Half a second of handling costs two seconds of the share, and the burst of one second is
        // free.
        assert_eq!(turns.next(0, true), NextOwner::Serve(holder));
        turns.pop(holder);
        turns.charge(holder, SECOND_NS / 2, 0);
        assert_eq!(turns.next(0, true), NextOwner::WaitUntil(SECOND_NS));
        assert_eq!(turns.next(0, false), NextOwner::Serve(holder), "at the end nobody waits");
        assert_eq!(turns.next(SECOND_NS, true), NextOwner::Serve(holder));
        assert_eq!(FairQueue::default().next(0, true), NextOwner::Empty);
    }

    #[test]
    fn idle_holders_are_forgotten() {
        let mut turns = FairQueue::default();
        for n in 0..=HOLDERS_IDLE_MAX as u32 {
            turns.push(Owner::uid(1 + n), packet(1)).unwrap();
            take(&mut turns, u64::from(n) * SECOND_NS).unwrap();
        }
        assert!(turns.holders.len() <= 2, "{}", turns.holders.len());
    }
}

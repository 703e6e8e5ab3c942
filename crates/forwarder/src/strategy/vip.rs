//! VIP (`VI-15`, `VI-16`): an object's Interests go where most of its VIPs went, which who computes
//! the virtual plane has set ([`crate::ObjectControl::direct`]), and all packets of an object
//! that are asked for one after the other go one way, whatever changes meanwhile.
//!
//! The direction is *locked* with the first Interest and each further one renews the lock. A face
//! that is gone, a retransmission, a Nack or a timeout ends it: the object is asked for another
//! way, and not that way again for as long as a lock lasts. What belongs to no object goes as by
//! best route.

use super::best_route::BestRoute;
use super::suppression::{Retransmission, decide};
use super::{Answer, DataVerdict, Pending, Strategy, Upstream, Verdict};
use crate::face_id::FaceKey;
use crate::pit::entry::OutRecords;
use crate::strategy::hook::{Hook, Memory};

/// A lock lasts twice the largest round trip of its object, and so long at least and at most, ns.
const LOCK_NS_MIN: u64 = 200_000_000;
const LOCK_NS_MAX: u64 = 10_000_000_000;

pub(crate) struct Vip;

/// What is remembered of an object.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    /// The locked face, and until when.
    locked: Option<(FaceKey, u64)>,
    /// A face that failed, and until when it is not chosen.
    failed: Option<(FaceKey, u64)>,
    rtt_ns_max: u64,
}

impl Memory for Direction {
    fn new(_faces_max: usize) -> Option<Self> {
        Some(Direction::default())
    }
}

impl Direction {
    fn lasts_ns(&self) -> u64 {
        self.rtt_ns_max.saturating_mul(2).clamp(LOCK_NS_MIN, LOCK_NS_MAX)
    }

    fn lock(&mut self, face: FaceKey, now_ns: u64) {
        self.locked = Some((face, now_ns.saturating_add(self.lasts_ns())));
    }

    /// The face did not answer.
    fn fail(&mut self, face: FaceKey, now_ns: u64) {
        self.locked.take_if(|(locked, _)| *locked == face);
        self.failed = Some((face, now_ns.saturating_add(self.lasts_ns())));
    }

    /// The locked face was asked for the very same and has not answered.
    fn fail_if_asked(&mut self, pending: &Pending<'_>) {
        if let Some((face, _)) = self.locked
            && pending.out_record(face).is_some()
        {
            self.fail(face, pending.now_ns);
        }
    }

    /// Where a retransmission goes: of what is not waited for the cheapest that has not failed.
    fn another(&self, pending: &Pending<'_>) -> Verdict {
        let works = |upstream: &Upstream<'_>| !self.has_failed(upstream.key(), pending.now_ns);
        let mut unused = pending.upstreams.iter();
        let unused = unused.position(|upstream| pending.is_unused(upstream) && works(upstream));
        unused.map_or_else(|| pending.unused_or_earliest(), Verdict::forward_to)
    }

    fn has_failed(&self, face: FaceKey, now_ns: u64) -> bool {
        self.failed.is_some_and(|(failed, until_ns)| failed == face && now_ns < until_ns)
    }

    /// The locked upstream, or the planned one, or the cheapest that has not failed, or the
    /// cheapest.
    fn choose(&self, pending: &Pending<'_>, planned: Option<FaceKey>) -> usize {
        let now_ns = pending.now_ns;
        let at = |face: FaceKey| pending.upstreams.iter().position(|upstream| upstream.key() == face);
        let works = |upstream: &Upstream<'_>| !self.has_failed(upstream.key(), now_ns);
        let locked = self.locked.filter(|(_, until_ns)| now_ns < *until_ns).and_then(|(face, _)| at(face));
        locked
            .or_else(|| planned.filter(|face| !self.has_failed(*face, now_ns)).and_then(at))
            .or_else(|| pending.upstreams.iter().position(works))
            .unwrap_or(0)
    }
}

impl Strategy for Vip {
    type Memory = Direction;

    const MEASURES: bool = true;

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        BestRoute.after_receive_interest(pending)
    }

    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        direction: &mut Direction,
        hook: &mut Hook<'_>,
    ) -> Verdict {
        let now_ns = pending.now_ns;
        match decide(pending) {
            Retransmission::Suppress => Verdict::Suppress,
            Retransmission::New if pending.upstreams.is_empty() => Verdict::NoUpstream,
            Retransmission::New => {
                // Its time is over, which no timer has told yet.
                direction.fail_if_asked(pending);
                let chosen = direction.choose(pending, hook.direction);
                if let Some(upstream) = pending.upstreams.get(chosen) {
                    direction.lock(upstream.key(), now_ns);
                }
                Verdict::forward_to(chosen)
            }
            Retransmission::Forward => {
                direction.fail_if_asked(pending);
                direction.another(pending)
            }
        }
    }

    fn after_data(&self, answer: &Answer<'_>, direction: &mut Direction, hook: &mut Hook<'_>) -> DataVerdict {
        if let Some(sent) = answer.sent() {
            let rtt_ns = hook.now_ns.saturating_sub(sent.sent_at_ns);
            direction.rtt_ns_max = direction.rtt_ns_max.max(rtt_ns);
            hook.round_trip(rtt_ns);
        }
        DataVerdict::default()
    }

    fn after_nack(&self, face: FaceKey, direction: &mut Direction, hook: &mut Hook<'_>) {
        direction.fail(face, hook.now_ns);
    }

    fn on_timeout(&self, out_records: &OutRecords, direction: &mut Direction, hook: &mut Hook<'_>) {
        if let Some((face, _)) = direction.locked
            && out_records.iter().any(|record| record.face == face)
        {
            direction.fail(face, hook.now_ns);
        }
    }
}

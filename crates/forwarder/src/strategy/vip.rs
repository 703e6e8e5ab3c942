//! VIP (`VI-15`, `VI-16`): an object's Interests are sent to the face that most of its VIPs went
//! to, as the virtual plane has set ([`crate::ObjectControl::direct`]). Consecutive Interests for
//! an object take the same path, even if the plan changes meanwhile.
//!
//! The direction is *locked* with the first Interest, and each further one renews the lock. The
//! removal of the face, a retransmission, a Nack or a timeout ends it: the object's Interests then
//! take another path, and do not return to this one for the duration of a lock. Interests for no
//! object are forwarded as by best route.

use super::best_route::BestRoute;
use super::suppression::{Retransmission, decide};
use super::{Answer, DataVerdict, Pending, Strategy, Upstream, Verdict};
use crate::face_id::FaceKey;
use crate::pit::entry::OutRecords;
use crate::strategy::hook::{Hook, Memory};

/// A lock lasts twice the largest round trip of its object, within these bounds, ns.
const LOCK_NS_MIN: u64 = 200_000_000;
const LOCK_NS_MAX: u64 = 10_000_000_000;

pub(crate) struct Vip;

/// The memory of an object.
#[derive(Debug, Default)]
pub(crate) struct VipMemory {
    /// The locked face, and the end of the lock.
    locked: Option<(FaceKey, u64)>,
    /// A face that failed, and the end of its exclusion.
    failed: Option<(FaceKey, u64)>,
    rtt_ns_max: u64,
}

impl Memory for VipMemory {
    fn new(_faces_max: usize) -> Option<Self> {
        // Independent of `strategy_faces_max`: it has two faces at most.
        Some(VipMemory::default())
    }
}

impl VipMemory {
    fn lasts_ns(&self) -> u64 {
        self.rtt_ns_max.saturating_mul(2).clamp(LOCK_NS_MIN, LOCK_NS_MAX)
    }

    fn lock(&mut self, face: FaceKey, now_ns: u64) {
        self.locked = Some((face, now_ns.saturating_add(self.lasts_ns())));
    }

    /// Records that the face did not answer.
    fn fail(&mut self, face: FaceKey, now_ns: u64) {
        self.locked.take_if(|(locked, _)| *locked == face);
        self.failed = Some((face, now_ns.saturating_add(self.lasts_ns())));
    }

    /// Fails the locked face if it was sent this very Interest and has not answered.
    fn fail_if_sent(&mut self, pending: &Pending<'_>) {
        if let Some((face, _)) = self.locked
            && pending.out_record(face).is_some()
        {
            self.fail(face, pending.now_ns);
        }
    }

    /// The upstream of a retransmission: the cheapest without a pending answer that has not failed.
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
    type Memory = VipMemory;

    const MEASURES: bool = true;

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        BestRoute.after_receive_interest(pending)
    }

    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        direction: &mut VipMemory,
        hook: &mut Hook<'_>,
    ) -> Verdict {
        let now_ns = pending.now_ns;
        match decide(pending) {
            Retransmission::Suppress => Verdict::Suppress,
            Retransmission::New if pending.upstreams.is_empty() => Verdict::NoUpstream,
            Retransmission::New => {
                // The entry has expired, but its timer has not fired yet.
                direction.fail_if_sent(pending);
                let chosen = direction.choose(pending, hook.direction);
                if let Some(upstream) = pending.upstreams.get(chosen) {
                    direction.lock(upstream.key(), now_ns);
                }
                Verdict::forward_to(chosen)
            }
            Retransmission::Forward => {
                direction.fail_if_sent(pending);
                direction.another(pending)
            }
        }
    }

    fn after_data(&self, answer: &Answer<'_>, direction: &mut VipMemory, hook: &mut Hook<'_>) -> DataVerdict {
        if let Some(sent) = answer.sent() {
            let rtt_ns = hook.now_ns.saturating_sub(sent.sent_at_ns);
            // The largest, so that a lock outlasts the slowest answer of the object.
            direction.rtt_ns_max = direction.rtt_ns_max.max(rtt_ns);
            hook.round_trip(rtt_ns);
        }
        DataVerdict::default()
    }

    fn after_nack(&self, face: FaceKey, direction: &mut VipMemory, hook: &mut Hook<'_>) {
        direction.fail(face, hook.now_ns);
    }

    fn on_timeout(&self, out_records: &OutRecords, direction: &mut VipMemory, hook: &mut Hook<'_>) {
        if let Some((face, _)) = direction.locked
            && out_records.iter().any(|record| record.face == face)
        {
            direction.fail(face, hook.now_ns);
        }
    }
}

//! Load balancing by round trip, under the name of ndnSIM's tutorial, `weighted-load-balancer`: a
//! new Interest is sent to a random next hop, with more probability for shorter round trips. Next
//! hops without a measurement count as the fastest measured one. A retransmission is sent to one
//! without a pending answer, then to the one used longest ago, as in best route.
//!
//! An Interest without an answer counts as a round trip of its waiting time, so that a dead next
//! hop receives ever fewer Interests; answers restore it.

use super::best_route::BestRoute;
use super::rtt::RttEstimator;
use super::suppression::{Retransmission, decide};
use super::{Answer, DataVerdict, FibChange, NextHopMeasurement, Pending, Strategy, Verdict};
use crate::face_id::FaceKey;
use crate::pit::entry::OutRecords;
use crate::strategy::hook::{FaceRecords, Hook, Memory};

/// The weight of a slow next hop is at least the fastest one's divided by this number, so that the
/// slow one is measured again when it becomes faster.
const SHARE_MIN: u64 = 128;

/// The round trip that a Nack counts as, ns.
const NACK_NS: u64 = 1_000_000_000;

pub(crate) struct WeightedLoadBalancer;

/// The memory of the balancer for a prefix.
pub(crate) struct WeightedMemory(FaceRecords<RttEstimator>);

impl Memory for WeightedMemory {
    fn new(faces_max: usize) -> Option<Self> {
        FaceRecords::new(faces_max).map(WeightedMemory)
    }
}

impl WeightedMemory {
    fn add(&mut self, face: FaceKey, rtt_ns: u64, hook: &Hook<'_>) {
        if let Some(rtt) = self.0.get_or_make(face, hook, RttEstimator::default) {
            rtt.add(rtt_ns.max(1));
        }
    }

    /// One of the upstreams, by their weights; `None` if there is none.
    fn draw(&self, pending: &Pending<'_>, random: u64) -> Option<usize> {
        let measured_ns = |face| self.0.get(face).and_then(RttEstimator::srtt_ns);
        let known = pending.upstreams.iter().filter_map(|upstream| measured_ns(upstream.key()));
        let least_ns = known.min().unwrap_or(1).max(1);
        // The fastest next hop has the weight 2^16, and one of twice its round trip has half of
        // that.
        let weight = |face| {
            let ns = measured_ns(face).unwrap_or(least_ns).max(1);
            // In 64 bits, because a kernel has no division of 128 bits. Only round trips of days
            // take the other branch.
            let share = if least_ns >> 48 == 0 { (least_ns << 16) / ns } else { least_ns / (ns >> 16) };
            share.max((1 << 16) / SHARE_MIN)
        };
        let sum = pending.upstreams.iter().map(|upstream| weight(upstream.key())).sum();
        let mut left = random.checked_rem(sum)?;
        pending.upstreams.iter().position(|upstream| {
            let own = weight(upstream.key());
            let is_it = left < own;
            left = left.saturating_sub(own);
            is_it
        })
    }
}

impl Strategy for WeightedLoadBalancer {
    type Memory = WeightedMemory;

    const MEASURES: bool = true;

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        BestRoute.after_receive_interest(pending)
    }

    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        memory: &mut WeightedMemory,
        hook: &mut Hook<'_>,
    ) -> Verdict {
        match decide(pending) {
            Retransmission::Suppress => Verdict::Suppress,
            Retransmission::New => {
                memory.draw(pending, (hook.random)()).map_or(Verdict::NoUpstream, Verdict::forward_to)
            }
            Retransmission::Forward => pending.unused_or_earliest(),
        }
    }

    fn after_data(
        &self,
        answer: &Answer<'_>,
        memory: &mut WeightedMemory,
        hook: &mut Hook<'_>,
    ) -> DataVerdict {
        if let Some(sent) = answer.sent() {
            let rtt_ns = hook.now_ns.saturating_sub(sent.sent_at_ns);
            memory.add(answer.face, rtt_ns, hook);
            hook.round_trip(rtt_ns);
        }
        DataVerdict::default()
    }

    fn after_nack(&self, face: FaceKey, memory: &mut WeightedMemory, hook: &mut Hook<'_>) {
        memory.add(face, NACK_NS, hook);
    }

    fn on_timeout(&self, out_records: &OutRecords, memory: &mut WeightedMemory, hook: &mut Hook<'_>) {
        for record in out_records.iter().filter(|record| record.nack.is_none()) {
            memory.add(record.face, hook.now_ns.saturating_sub(record.sent_at_ns), hook);
        }
    }

    fn measured(&self, face: FaceKey, memory: &WeightedMemory) -> NextHopMeasurement {
        let srtt_ns = memory.0.get(face).and_then(RttEstimator::srtt_ns);
        NextHopMeasurement { srtt_ns, is_failing: false }
    }

    fn fib_changed(&self, change: FibChange, memory: &mut WeightedMemory) {
        if let FibChange::Removed(face) = change {
            memory.0.retain(|own, _| own != face);
        }
    }
}

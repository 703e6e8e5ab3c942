//! ASF, adaptive forwarding by smoothed round-trip time (NFD's version 5; Lehman et al., "An
//! Experimental Investigation of Hyperbolic Routing with a Smart Forwarding Plane in NDN", 2016).
//!
//! - A new Interest is sent to the next hop of the smallest smoothed RTT. Next hops that were never
//!   measured rank behind the measured ones, and those that did not answer their last Interests
//!   rank last. Equals are ordered by cost.
//! - A retransmission is sent to the best next hop without a pending Interest. If all have one, it
//!   is sent to the one used longest ago. The suppression interval of each next hop must have
//!   passed.
//! - In the background, a new Interest is also sent with another Nonce to one more next hop: the
//!   first time within [`FIRST_PROBE_NS_MAX`], then once in a `probing-interval`. That next hop is
//!   one that was never measured, or else a random one: of n next hops, rank r has the weight
//!   `n+1-r`.
//! - One Interest at a time is timed for each next hop. A next hop counts as timed out if
//!   `max-timeouts` of them in a row have no answer within the retransmission timeout, or after one
//!   Nack. Data from it ends that.
//!
//! In addition to NFD, whose timeouts are 200 ms and more: a next hop that has not answered for
//! longer than its round trips take is *doubted*. Interests are then sent to the next best one.
//! Once per timeout, an Interest is also sent to the doubted one, until it answers or counts as
//! timed out.
//!
//! NFD keeps a satisfied PIT entry for 50 ms to measure slower answers. Here the entry is removed
//! at once, and a late answer is recognized by the hash of the timed name: it is measured as long
//! as the timeout allows. An upstream can only affect its own RTT.

use super::best_route::BestRoute;
use super::rtt::RttEstimator;
use super::suppression::{Retransmission, advance};
use super::{
    Answer, DataVerdict, FibChange, NextHopMeasurement, Parameters, Pending, Strategy, Upstream, Verdict,
};
use crate::face_id::FaceKey;
use crate::strategy::hook::{FaceRecords, Hook, Memory};
use crate::strategy::memory_id::LIFETIME_NS;

/// Maximum delay of the first probe of a prefix, which comes at a random time, ns.
const FIRST_PROBE_NS_MAX: u64 = 5_000_000_000;

pub(crate) struct Asf;

/// The memory of ASF for a prefix.
pub(crate) struct AsfMemory {
    faces: FaceRecords<NextHop>,
    /// The time of the next probe; `None` before the first Interest.
    probe_at_ns: Option<u64>,
    /// The parameters at the last Interest.
    parameters: Parameters,
}

/// The measurements of a next hop.
#[derive(Debug, Default)]
struct NextHop {
    rtt: RttEstimator,
    /// True since it did not answer its last Interests.
    is_timed_out: bool,
    /// Timeouts since its last answer.
    timeouts: u32,
    /// The Interest that is being timed.
    timed: Option<PendingMeasurement>,
    /// The time of the first Interest after the last answer.
    waits_since_ns: Option<u64>,
    /// The time at which this record expires, unless the next hop is used before.
    forgotten_at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct PendingMeasurement {
    name_hash: u64,
    sent_at_ns: u64,
    due_ns: u64,
}

/// The rank of a next hop, smaller is better: class, then smoothed RTT.
type Rank = (u8, u64);

impl Memory for AsfMemory {
    fn new(faces_max: usize) -> Option<Self> {
        let (faces, parameters) = (FaceRecords::new(faces_max)?, Parameters::default());
        Some(AsfMemory { faces, probe_at_ns: None, parameters })
    }
}

impl Strategy for Asf {
    type Memory = AsfMemory;

    const MEASURES: bool = true;

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        BestRoute.after_receive_interest(pending)
    }

    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        memory: &mut AsfMemory,
        hook: &mut Hook<'_>,
    ) -> Verdict {
        // Saved for `on_timer`, because only this hook has the parameters.
        memory.parameters = hook.parameters;
        if !pending.has_pending_upstream() {
            let Some(best) = memory.best(pending, |_| true) else { return Verdict::NoUpstream };
            return memory.send(best, pending, hook);
        }
        if let Some(best) = memory.best(pending, |upstream| pending.is_unused(upstream)) {
            return match is_suppressed(best, pending) {
                true => Verdict::Suppress,
                false => memory.send(best, pending, hook),
            };
        }
        match pending.used_earliest() {
            Some(i) if !is_suppressed(i, pending) => Verdict::forward_to(i),
            _ => Verdict::Suppress,
        }
    }

    fn after_data(&self, answer: &Answer<'_>, memory: &mut AsfMemory, hook: &mut Hook<'_>) -> DataVerdict {
        if let Some((measured, sent)) = memory.faces.get_mut(answer.face).zip(answer.sent()) {
            measured.answered(hook.now_ns.saturating_sub(sent.sent_at_ns), hook);
            // Data for another name does not end the timing of this one.
            measured.timed.take_if(|timed| timed.name_hash == hook.name_hash);
        }
        DataVerdict::default()
    }

    fn after_late_data(
        &self,
        face: FaceKey,
        has_prefix: &dyn Fn(u64) -> bool,
        memory: &mut AsfMemory,
        hook: &mut Hook<'_>,
    ) {
        let Some(measured) = memory.faces.get_mut(face) else { return };
        if let Some(timed) = measured.timed.take_if(|timed| has_prefix(timed.name_hash)) {
            measured.answered(hook.now_ns.saturating_sub(timed.sent_at_ns), hook);
        }
    }

    fn after_nack(&self, face: FaceKey, memory: &mut AsfMemory, _hook: &mut Hook<'_>) {
        if let Some(measured) = memory.faces.get_mut(face) {
            (measured.timed, measured.waits_since_ns) = (None, None);
            measured.is_timed_out = true;
        }
    }

    fn on_timer(&self, memory: &mut AsfMemory, hook: &mut Hook<'_>) {
        let (now_ns, timeouts_max) = (hook.now_ns, memory.parameters.timeouts_max());
        memory.faces.retain(|_, measured| {
            if measured.timed.take_if(|timed| timed.due_ns <= now_ns).is_some() {
                measured.timeouts += 1;
                // Not assigned: a Nack may have set it, and only Data resets it.
                measured.is_timed_out |= measured.timeouts >= timeouts_max;
            }
            let is_kept = measured.forgotten_at_ns > now_ns;
            if is_kept {
                let due_ns = measured.timed.map_or(u64::MAX, |timed| timed.due_ns);
                hook.set_timer(due_ns.min(measured.forgotten_at_ns));
            }
            is_kept
        });
    }

    fn measured(&self, face: FaceKey, memory: &AsfMemory) -> NextHopMeasurement {
        let of_face = memory.faces.get(face);
        of_face.map_or_else(NextHopMeasurement::default, |own| NextHopMeasurement {
            srtt_ns: own.rtt.srtt_ns(),
            is_failing: own.is_timed_out,
        })
    }

    fn fib_changed(&self, change: FibChange, memory: &mut AsfMemory) {
        if let FibChange::Removed(face) = change {
            memory.faces.retain(|own, _| own != face);
        }
    }
}

impl AsfMemory {
    /// The best upstream that `may_use` allows.
    fn best(&self, pending: &Pending<'_>, may_use: impl Fn(&Upstream<'_>) -> bool) -> Option<usize> {
        let upstreams = pending.upstreams.iter().enumerate();
        let ranked = upstreams.filter(|(_, upstream)| may_use(upstream));
        ranked.min_by_key(|(i, upstream)| (self.rank(upstream, pending.now_ns), *i)).map(|(i, _)| i)
    }

    fn rank(&self, upstream: &Upstream<'_>, now_ns: u64) -> Rank {
        match self.faces.get(upstream.key()) {
            // Without its RTT, which says nothing about a next hop that no longer answers.
            Some(measured) if measured.is_timed_out => (3, 0),
            Some(measured) if measured.is_doubted(now_ns) => (2, measured.rtt.srtt_ns().unwrap_or(0)),
            Some(measured) => measured.rtt.srtt_ns().map_or((1, 0), |srtt_ns| (0, srtt_ns)),
            None => (1, 0),
        }
    }

    /// Sends the Interest to an upstream, and a probe to another if one is due.
    fn send(&mut self, to: usize, pending: &Pending<'_>, hook: &mut Hook<'_>) -> Verdict {
        self.time(to, pending, hook);
        match self.probe(to, pending, hook) {
            Some(probe) => {
                self.time(probe, pending, hook);
                Verdict::Probe(to, probe)
            }
            None => Verdict::forward_to(to),
        }
    }

    /// Times the answer of an upstream, unless one of its answers is being timed already.
    fn time(&mut self, upstream: usize, pending: &Pending<'_>, hook: &mut Hook<'_>) {
        let Some(face) = pending.upstreams.get(upstream).map(Upstream::key) else { return };
        let Some(measured) = self.faces.get_or_make(face, hook, NextHop::default) else { return };
        measured.use_until(hook);
        measured.waits_since_ns.get_or_insert(hook.now_ns);
        if measured.timed.is_none() {
            let (sent_at_ns, name_hash) = (hook.now_ns, hook.name_hash);
            let due_ns = sent_at_ns.saturating_add(measured.rtt.rto_ns());
            measured.timed = Some(PendingMeasurement { name_hash, sent_at_ns, due_ns });
            hook.set_timer(due_ns);
        }
    }

    /// The upstream to probe in addition to `used`, if a probe is due and there is one.
    fn probe(&mut self, used: usize, pending: &Pending<'_>, hook: &Hook<'_>) -> Option<usize> {
        let now_ns = hook.now_ns;
        // In addition to the periodic probes, whose time it does not change.
        if let Some(doubted) = self.untimed_doubted(used, pending) {
            return Some(doubted);
        }
        // At a random time, so that prefixes that become active together do not probe together.
        let due_ns = *self
            .probe_at_ns
            .get_or_insert_with(|| now_ns.saturating_add((hook.random)() % FIRST_PROBE_NS_MAX));
        if due_ns > now_ns {
            return None;
        }
        let probe = self.choose_probe(used, pending, hook.random)?;
        self.probe_at_ns = Some(now_ns.saturating_add(self.parameters.probing_ns()));
        Some(probe)
    }

    /// A doubted upstream other than `used` without a timed Interest, so that it is probed again.
    fn untimed_doubted(&self, used: usize, pending: &Pending<'_>) -> Option<usize> {
        let is_it = |upstream: &Upstream<'_>| {
            self.faces.get(upstream.key()).is_some_and(|measured| {
                measured.timed.is_none() && !measured.is_timed_out && measured.is_doubted(pending.now_ns)
            })
        };
        pending.upstreams.iter().enumerate().position(|(i, upstream)| i != used && is_it(upstream))
    }

    fn choose_probe(&self, used: usize, pending: &Pending<'_>, random: &dyn Fn() -> u64) -> Option<usize> {
        let others = || pending.upstreams.iter().enumerate().filter(|(i, _)| *i != used);
        let unmeasured = |upstream: &Upstream<'_>| {
            self.faces.get(upstream.key()).is_none_or(|measured| measured.rtt.srtt_ns().is_none())
        };
        if let Some((i, _)) = others().find(|(_, upstream)| unmeasured(upstream)) {
            return Some(i);
        }
        // All others have a record, so there are at most `strategy_faces_max`, and comparing all
        // pairs is cheap.
        let others_ranked = || others().map(|(i, upstream)| ((self.rank(upstream, pending.now_ns), i), i));
        let wanted = draw(others().count() as u64, random())?;
        let better = |rank| others_ranked().filter(|(other, _)| *other < rank).count() as u64;
        others_ranked().find(|(rank, _)| better(*rank) == wanted).map(|(_, i)| i)
    }
}

impl NextHop {
    fn answered(&mut self, rtt_ns: u64, hook: &mut Hook<'_>) {
        self.rtt.add(rtt_ns);
        hook.round_trip(rtt_ns);
        (self.is_timed_out, self.timeouts, self.waits_since_ns) = (false, 0, None);
        self.use_until(hook);
    }

    /// Returns true if it has not answered for longer than its answers take.
    fn is_doubted(&self, now_ns: u64) -> bool {
        let waits_ns = self.waits_since_ns.map(|since_ns| now_ns.saturating_sub(since_ns));
        waits_ns.zip(self.rtt.patience_ns()).is_some_and(|(waits_ns, patience_ns)| waits_ns > patience_ns)
    }

    fn use_until(&mut self, hook: &mut Hook<'_>) {
        self.forgotten_at_ns = hook.now_ns.saturating_add(LIFETIME_NS);
        hook.set_timer(self.forgotten_at_ns);
    }
}

/// Decides for one upstream, and doubles its interval if the Interest may be sent.
fn is_suppressed(upstream: usize, pending: &mut Pending<'_>) -> bool {
    let now_ns = pending.now_ns;
    let Some(face) = pending.upstreams.get(upstream).map(Upstream::key) else { return true };
    pending.out_record_mut(face).is_some_and(|record| {
        let since_ns = now_ns.saturating_sub(record.sent_at_ns);
        advance(&mut record.suppression_ns, since_ns) == Retransmission::Suppress
    })
}

/// One of the ranks 0 to `n` - 1, rank j with the weight n - j; `None` if `n` is 0.
fn draw(n: u64, random: u64) -> Option<u64> {
    let weights = n * (n + 1) / 2;
    let mut left = random.checked_rem(weights)?;
    (0..n).find(|j| {
        let is_it = left < n - j;
        left = left.saturating_sub(n - j);
        is_it
    })
}

#[cfg(test)]
mod tests;

//! Congestion-aware multipath: all next hops at once, each in proportion to its capacity.
//!
//! For each next hop of a prefix the router has the state that a consumer has for its one path: a
//! window, the Interests in flight, and the round-trip time. A new Interest is sent to the next hop
//! with the lowest ratio of Interests in flight to window, so the load follows the windows.
//!
//! A window grows if it limits the Interests in flight while few Interests are queued on the path.
//! The number of queued Interests is estimated from the current and the shortest round-trip time.
//! At first a window grows by one for each Data. Later it grows by a 32nd per round trip, but at
//! least by one. It shrinks by one per round trip while many Interests are queued. A congestion
//! mark, a Nack, a retransmission or a timeout cuts it to seven tenths, at most once per round
//! trip.
//!
//! A congestion mark makes a consumer slow down, although only one of its paths is full. So the
//! router removes the mark if another next hop has room and was not cut recently, because that one
//! takes over the load. Marks are passed on when all next hops are full. A queue that stays long
//! drops packets in either case.
//!
//! The window of a next hop that does not answer stays full, so it receives nothing more until its
//! Interests expire or are retransmitted.

use super::best_route::BestRoute;
use super::rtt::RttEstimator;
use super::suppression::{Retransmission, decide};
use super::{
    Answer, ChosenUpstreams, DataVerdict, FibChange, NextHopMeasurement, Pending, Strategy, Verdict,
};
use crate::face_id::FaceKey;
use crate::pit::entry::{OutRecord, OutRecords};
use crate::strategy::hook::{FaceRecords, Hook, Memory};

/// One Interest in the unit of windows, a 256th of an Interest.
const ONE: u64 = 1 << 8;

const WINDOW_FIRST: u64 = 4 * ONE;
const WINDOW_MIN: u64 = 2 * ONE;
const WINDOW_MAX: u64 = ONE << 20;

/// A window grows by this fraction of itself per round trip after its first full queue or cut.
const GROWTH_PART: u64 = 32;

/// A window grows below the first number of queued Interests, and shrinks from the second on.
const WAITING: (u64, u64) = (2, 4);

/// Time for which the shortest round trip counts as that of an empty path, ns. It expires because a
/// route change may lengthen the path.
const BASE_NS: u64 = 10_000_000_000;

/// The fraction of a window that remains after a cut.
const CUT: (u64, u64) = (7, 10);

/// Round trips for which a next hop counts as full after it was cut.
const FULL_ROUND_TRIPS: u64 = 2;

/// The assumed round-trip time before the first measurement, ns.
const RTT_NS_UNKNOWN: u64 = 100_000_000;

/// Interests in flight count as ended after a next hop was unused for this time, ns. It is longer
/// than the default InterestLifetime.
const IDLE_NS: u64 = 10_000_000_000;

pub(crate) struct Multipath;

/// The memory of multipath for a prefix.
pub(crate) struct MultipathMemory(FaceRecords<Path>);

#[derive(Debug)]
struct Path {
    window: u64,
    in_flight: u64,
    rtt: RttEstimator,
    shortest: Shortest,
    /// The window was cut or its queue was long at least once, which ends the fast growth.
    is_started: bool,
    cut_at_ns: Option<u64>,
    used_at_ns: u64,
}

/// The shortest round trip of the current and of the previous period of [`BASE_NS`], ns.
#[derive(Debug)]
struct Shortest {
    before_ns: u64,
    now_ns: u64,
    since_ns: u64,
}

impl Shortest {
    fn add(&mut self, rtt_ns: u64, at_ns: u64) -> u64 {
        if at_ns.saturating_sub(self.since_ns) >= BASE_NS {
            *self = Shortest { before_ns: self.now_ns, now_ns: rtt_ns, since_ns: at_ns };
        }
        self.now_ns = self.now_ns.min(rtt_ns);
        self.now_ns.min(self.before_ns)
    }
}

impl Default for Path {
    fn default() -> Self {
        Path {
            window: WINDOW_FIRST,
            in_flight: 0,
            rtt: RttEstimator::default(),
            shortest: Shortest { before_ns: u64::MAX, now_ns: u64::MAX, since_ns: 0 },
            is_started: false,
            cut_at_ns: None,
            used_at_ns: 0,
        }
    }
}

impl Path {
    /// The load of the window if one more Interest is sent.
    fn load(&self) -> u64 {
        // No division by 0: the window is at least `WINDOW_MIN`.
        (self.in_flight + 1) * ONE * ONE / self.window
    }

    fn srtt_ns(&self) -> u64 {
        self.rtt.srtt_ns().unwrap_or(RTT_NS_UNKNOWN)
    }

    fn was_cut_within(&self, round_trips: u64, now_ns: u64) -> bool {
        let span_ns = self.srtt_ns().saturating_mul(round_trips);
        self.cut_at_ns.is_some_and(|cut_at_ns| now_ns.saturating_sub(cut_at_ns) < span_ns)
    }

    fn cut(&mut self, now_ns: u64) {
        if !self.was_cut_within(1, now_ns) {
            self.window = (self.window * CUT.0 / CUT.1).max(WINDOW_MIN);
            (self.cut_at_ns, self.is_started) = (Some(now_ns), true);
        }
    }

    /// Updates the window for Data that arrived after `rtt_ns`.
    fn answered(&mut self, rtt_ns: u64, is_marked: bool, now_ns: u64) {
        self.rtt.add(rtt_ns);
        let shortest_ns = self.shortest.add(rtt_ns, now_ns);
        let waited_ns = rtt_ns.saturating_sub(shortest_ns);
        // Both sides are multiplied by the round trip: a kernel has no division of 128 bits.
        let waiting = u128::from(self.in_flight) * u128::from(waited_ns);
        let packets = |n: u64| u128::from(n) * u128::from(rtt_ns.max(1));
        let in_a_round_trip = ONE * ONE / self.window;
        if is_marked {
            self.cut(now_ns);
        } else if waiting >= packets(WAITING.1) {
            self.is_started = true;
            self.window = (self.window - in_a_round_trip).max(WINDOW_MIN);
        } else if waiting < packets(WAITING.0) && (self.in_flight + 1) * ONE >= self.window {
            let later = in_a_round_trip.max(ONE / GROWTH_PART);
            let step = if self.is_started { later } else { ONE };
            self.window = (self.window + step).min(WINDOW_MAX);
        }
    }

    fn has_room(&self, now_ns: u64) -> bool {
        self.in_flight * ONE < self.window && !self.was_cut_within(FULL_ROUND_TRIPS, now_ns)
    }
}

impl Memory for MultipathMemory {
    fn new(faces_max: usize) -> Option<Self> {
        FaceRecords::new(faces_max).map(MultipathMemory)
    }
}

impl MultipathMemory {
    /// The upstream with the lowest load; the cheapest of equals.
    fn emptiest(&self, pending: &Pending<'_>) -> Option<usize> {
        let load = |face| self.0.get(face).map_or_else(|| Path::default().load(), Path::load);
        let upstreams = pending.upstreams.iter().enumerate();
        upstreams.min_by_key(|(i, upstream)| (load(upstream.key()), *i)).map(|(i, _)| i)
    }

    /// Records that the Interest is sent to this upstream.
    fn send(&mut self, pending: &Pending<'_>, to: usize, hook: &Hook<'_>) {
        let Some(face) = pending.upstreams.get(to).map(super::Upstream::key) else { return };
        let Some(path) = self.0.get_or_make(face, hook, Path::default) else { return };
        // Otherwise Interests whose end was not reported would occupy the window for ever.
        if hook.now_ns.saturating_sub(path.used_at_ns) > IDLE_NS {
            path.in_flight = 0;
        }
        path.used_at_ns = hook.now_ns;
        // A retransmission to an upstream that has sent no Nack is in flight already.
        if pending.out_record(face).is_none_or(|record| record.nack.is_some()) {
            path.in_flight += 1;
        }
    }

    /// Removes the Interest from those in flight. `after_nack` removed it from upstreams that sent
    /// a Nack.
    fn end(&mut self, out_records: &OutRecords) {
        for record in out_records.iter().filter(|record| record.nack.is_none()) {
            self.land(record.face);
        }
    }

    fn land(&mut self, face: FaceKey) {
        if let Some(path) = self.0.get_mut(face) {
            // Saturating, because `send` may have reset the number in the meantime.
            path.in_flight = path.in_flight.saturating_sub(1);
        }
    }

    fn cut(&mut self, face: FaceKey, now_ns: u64) {
        if let Some(path) = self.0.get_mut(face) {
            path.cut(now_ns);
        }
    }
}

impl Strategy for Multipath {
    type Memory = MultipathMemory;

    const MEASURES: bool = true;

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        BestRoute.after_receive_interest(pending)
    }

    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        paths: &mut MultipathMemory,
        hook: &mut Hook<'_>,
    ) -> Verdict {
        let verdict = match decide(pending) {
            Retransmission::Suppress => return Verdict::Suppress,
            Retransmission::New => paths.emptiest(pending).map_or(Verdict::NoUpstream, Verdict::forward_to),
            Retransmission::Forward => {
                let waiting = |record: &&OutRecord| record.is_pending(hook.now_ns);
                // The consumer no longer waits for the earlier Interests: they count as lost.
                let lost = pending.out_records.iter().filter(waiting);
                lost.for_each(|record| paths.cut(record.face, hook.now_ns));
                pending.unused_or_earliest()
            }
        };
        if let Verdict::Forward(chosen) = &verdict {
            let chosen: &ChosenUpstreams = chosen;
            chosen.iter().for_each(|i| paths.send(pending, *i as usize, hook));
        }
        verdict
    }

    fn after_data(
        &self,
        answer: &Answer<'_>,
        paths: &mut MultipathMemory,
        hook: &mut Hook<'_>,
    ) -> DataVerdict {
        let now_ns = hook.now_ns;
        if let Some((path, sent)) = paths.0.get_mut(answer.face).zip(answer.sent()) {
            let rtt_ns = now_ns.saturating_sub(sent.sent_at_ns);
            path.answered(rtt_ns, answer.is_marked, now_ns);
            hook.round_trip(rtt_ns);
        }
        paths.end(answer.out_records);
        let others_have_room = answer.is_marked
            && paths.0.iter().any(|(face, path)| face != answer.face && path.has_room(now_ns));
        DataVerdict { absorbs_mark: others_have_room, ..DataVerdict::default() }
    }

    fn after_nack(&self, face: FaceKey, paths: &mut MultipathMemory, hook: &mut Hook<'_>) {
        paths.land(face);
        paths.cut(face, hook.now_ns);
    }

    fn on_timeout(&self, out_records: &OutRecords, paths: &mut MultipathMemory, hook: &mut Hook<'_>) {
        out_records.iter().for_each(|record| paths.cut(record.face, hook.now_ns));
        paths.end(out_records);
    }

    fn measured(&self, face: FaceKey, paths: &MultipathMemory) -> NextHopMeasurement {
        let srtt_ns = paths.0.get(face).and_then(|path| path.rtt.srtt_ns());
        NextHopMeasurement { srtt_ns, is_failing: false }
    }

    fn fib_changed(&self, change: FibChange, paths: &mut MultipathMemory) {
        if let FibChange::Removed(face) = change {
            paths.0.retain(|own, _| own != face);
        }
    }
}

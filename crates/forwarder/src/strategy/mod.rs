//! Forwarding strategies: they choose the upstreams of a pending Interest, and learn from its
//! outcome.
//!
//! The set is closed and known at compile time. To add one: implement [`Strategy`] in a file of its
//! own, add the file here, and add its row to the table in [`registry`].
//! docs/strategies.md describes the behavior of each.
//!
//! A strategy receives one pending Interest under its lock and decides. It sends nothing itself,
//! reads no clock, and has no state of its own. Its state is in a record for each prefix
//! ([`memory`]). Strategies without memory take no lock and have no other hooks than
//! [`Strategy::after_receive_interest`] and [`Strategy::judge_nacks`].
//!
//! Hooks are the triggers of NFD's developer guide, section 5.1, under its names where it has one.

mod asf;
mod best_route;
mod choice;
mod fast_route;
pub(crate) mod hook;
pub(crate) mod memory;
pub(crate) mod memory_id;
mod multicast;
mod multipath;
mod name;
mod parameters;
mod random;
mod registry;
mod round_robin;
mod round_trips;
mod rtt;
mod self_learning;
pub(crate) mod suppression;
#[cfg(feature = "vip")]
mod vip;
mod weighted;

use namely_wire::NackReason;

use crate::face_id::FaceKey;
use crate::faces::FaceHold;
use crate::inline_vec::InlineVec;
use crate::pit::entry::{OutRecord, OutRecords};

pub(crate) use choice::StrategyChoice;
pub use choice::StrategyError;
use hook::{Hook, Memory};
pub(crate) use memory::StrategyMemory;
pub use name::StrategyName;
pub(crate) use parameters::Parameters;
pub use registry::{ChosenStrategy, DEFAULT_STRATEGY};
pub(crate) use registry::{ConfiguredStrategy, StrategyKind};
pub use round_trips::{ROUND_TRIP_ENDS_NS, RoundTripCounts};

/// A next hop that this Interest may be sent to: scope, hop limit and its ingress allow it.
/// Cheapest first.
#[derive(Debug)]
pub(crate) struct Upstream<'a> {
    pub(crate) face: FaceHold<'a>,
    /// True if the FIB led to `local` and the BPT to this face: the local delivering path.
    pub(crate) is_bound: bool,
}

impl Upstream<'_> {
    pub(crate) fn key(&self) -> FaceKey {
        self.face.key()
    }
}

// Few prefixes have more than four next hops, so most Interests allocate nothing.
pub(crate) type Upstreams<'a> = InlineVec<Upstream<'a>, 4>;

/// Positions in [`Upstreams`] to send to.
#[derive(Debug)]
pub(crate) struct ChosenUpstreams {
    // Of 32 bits, because two of these are copied for each Interest.
    list: InlineVec<u32, 4>,
    /// There was no memory for one more.
    is_cut: bool,
}

impl ChosenUpstreams {
    #[inline]
    pub(crate) fn new() -> Self {
        ChosenUpstreams { list: InlineVec::new(), is_cut: false }
    }

    pub(crate) fn push(&mut self, upstream: usize) {
        // Recorded and not counted, so that an Interest counts once however many upstreams it
        // lacks.
        self.is_cut |= !self.list.push(upstream as u32);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl core::ops::Deref for ChosenUpstreams {
    type Target = InlineVec<u32, 4>;

    fn deref(&self) -> &InlineVec<u32, 4> {
        &self.list
    }
}

impl core::ops::DerefMut for ChosenUpstreams {
    fn deref_mut(&mut self) -> &mut InlineVec<u32, 4> {
        &mut self.list
    }
}

/// A pending Interest as a strategy reads and changes it.
pub(crate) struct Pending<'a> {
    pub(crate) upstreams: &'a Upstreams<'a>,
    pub(crate) out_records: &'a mut OutRecords,
    /// The entry's suppression interval, ns; 0 until the first retransmission.
    pub(crate) suppression_ns: &'a mut u32,
    pub(crate) now_ns: u64,
}

impl Pending<'_> {
    pub(crate) fn out_record(&self, face: FaceKey) -> Option<&OutRecord> {
        self.out_records.iter().find(|record| record.face == face)
    }

    pub(crate) fn out_record_mut(&mut self, face: FaceKey) -> Option<&mut OutRecord> {
        self.out_records.iter_mut().find(|record| record.face == face)
    }

    pub(crate) fn has_pending_upstream(&self) -> bool {
        self.out_records.iter().any(|record| record.is_pending(self.now_ns))
    }

    /// Returns true if the Interest does not wait for an answer of this upstream: it was never sent
    /// there, or that record has expired.
    pub(crate) fn is_unused(&self, upstream: &Upstream<'_>) -> bool {
        self.out_record(upstream.key()).is_none_or(|record| record.expires_at_ns <= self.now_ns)
    }

    /// The upstream of a retransmission: the cheapest without a pending answer, or else the one
    /// used longest ago.
    pub(crate) fn unused_or_earliest(&self) -> Verdict {
        let unused = self.upstreams.iter().position(|upstream| self.is_unused(upstream));
        unused.or_else(|| self.used_earliest()).map_or(Verdict::Suppress, Verdict::forward_to)
    }

    /// The upstream with the oldest sending.
    pub(crate) fn used_earliest(&self) -> Option<usize> {
        let upstreams = self.upstreams.iter().enumerate();
        let sent = upstreams
            .filter_map(|(i, upstream)| self.out_record(upstream.key()).map(|record| (record.sent_at_ns, i)));
        // Of equal times the cheapest, because upstreams are in the order of cost.
        sent.min().map(|(_, i)| i)
    }
}

/// A strategy's decision on an Interest.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Send it to these.
    Forward(ChosenUpstreams),
    /// Send it to this upstream or to all, which are routes. To other hosts it is sent with
    /// NonDiscovery.
    Along(Option<usize>),
    /// Send it to this group along a route, and to the neighbors of its link, because one of them
    /// may be the one that answers there.
    Beside(usize),
    /// Send it to all discovery faces, and to all next hops.
    Discover,
    /// Send it to the first, and as a probe to the second. The probe has a Nonce of its own,
    /// because it must not look like a loop where both paths meet again.
    Probe(usize, usize),
    /// Aggregate it with the pending Interest.
    Suppress,
    /// Refuse it, because there is no upstream.
    NoUpstream,
}

impl Verdict {
    /// Send it to this upstream.
    pub(crate) fn forward_to(upstream: usize) -> Self {
        let mut chosen = ChosenUpstreams::new();
        chosen.push(upstream);
        Verdict::Forward(chosen)
    }
}

/// A strategy's decision on a Nack from upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NackVerdict {
    /// Others may still answer.
    Wait,
    /// All downstreams receive a Nack.
    ReturnToAll(NackReason),
    /// The only upstream left is itself a downstream: only it receives a Nack, so that two routers
    /// do not wait for each other.
    ReturnToOne(FaceKey, NackReason),
}

/// Data that satisfied a pending Interest.
pub(crate) struct Answer<'a> {
    /// The face that it came from.
    pub(crate) face: FaceKey,
    /// The faces that the Interest was sent to, including that one.
    pub(crate) out_records: &'a OutRecords,
    /// It carries a congestion mark.
    pub(crate) is_marked: bool,
}

impl Answer<'_> {
    /// The record of the Interest's latest sending to the face that has answered.
    pub(crate) fn sent(&self) -> Option<&OutRecord> {
        self.out_records.iter().find(|record| record.face == self.face)
    }
}

/// A strategy's decision on Data on its way downstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataVerdict {
    /// Its congestion mark is removed: the strategy itself sends less to that upstream.
    pub(crate) absorbs_mark: bool,
    /// If it answers a discovery, a route is learned from it.
    pub(crate) teaches: bool,
}

/// A change of the next hops of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FibChange {
    /// The prefix has a new next hop, or one with a new cost.
    Added(FaceKey),
    /// The prefix no longer has this next hop.
    Removed(FaceKey),
}

/// A strategy's measurement of a next hop, for the control path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextHopMeasurement {
    /// The smoothed round trip, ns; `None` if it was never measured.
    pub srtt_ns: Option<u64>,
    /// It did not answer its last Interests.
    pub is_failing: bool,
}

/// A forwarding strategy. Hooks run under the lock of their pending Interest, if there is one, and
/// under that of the memory. They must return soon, and may take no other lock.
pub(crate) trait Strategy {
    /// Its memory of a prefix: `()` for none.
    type Memory: Memory;

    /// True if it measures round-trip times and reports them ([`Hook::round_trip`]).
    const MEASURES: bool = false;

    /// An Interest came that neither loops nor was answered from the cache. There is no memory for
    /// it: the strategy has none, or `strategy_prefixes_max` prefixes have a record.
    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict;

    /// As `after_receive_interest`, with the memory of the FIB prefix that the Interest matched.
    /// The other hooks for this Interest receive the same memory.
    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        _memory: &mut Self::Memory,
        _hook: &mut Hook<'_>,
    ) -> Verdict {
        self.after_receive_interest(pending)
    }

    /// Data satisfied a pending Interest; it is not sent downstream yet.
    fn after_data(
        &self,
        _answer: &Answer<'_>,
        _memory: &mut Self::Memory,
        _hook: &mut Hook<'_>,
    ) -> DataVerdict {
        DataVerdict::default()
    }

    /// Data from `face` came when no Interest was pending for it any more: an answer slower than
    /// that of another upstream. `has_prefix` returns true for the hash of a prefix of its name, or
    /// of the whole name.
    fn after_late_data(
        &self,
        _face: FaceKey,
        _has_prefix: &dyn Fn(u64) -> bool,
        _memory: &mut Self::Memory,
        _hook: &mut Hook<'_>,
    ) {
    }

    /// A Nack from `face` was recorded for a pending Interest.
    fn after_nack(&self, _face: FaceKey, _memory: &mut Self::Memory, _hook: &mut Hook<'_>) {}

    /// A pending Interest expired unsatisfied; `out_records` are its upstreams.
    fn on_timeout(&self, _out_records: &OutRecords, _memory: &mut Self::Memory, _hook: &mut Hook<'_>) {}

    /// The time set with [`Hook::set_timer`] has come.
    fn on_timer(&self, _memory: &mut Self::Memory, _hook: &mut Hook<'_>) {}

    /// A next hop of the prefix was added or removed. There is no time here: the control path has
    /// none.
    fn fib_changed(&self, _change: FibChange, _memory: &mut Self::Memory) {}

    /// The measurement of a next hop.
    fn measured(&self, _face: FaceKey, _memory: &Self::Memory) -> NextHopMeasurement {
        NextHopMeasurement::default()
    }

    /// The decision on the Nacks that a pending Interest has received. `is_downstream` returns true
    /// if a face waits for an answer.
    fn judge_nacks(&self, out_records: &OutRecords, is_downstream: &dyn Fn(FaceKey) -> bool) -> NackVerdict {
        combine_nacks(out_records, is_downstream)
    }
}

/// Passes a Nack on once every upstream has sent one, with the least severe reason among them.
fn combine_nacks(out_records: &OutRecords, is_downstream: &dyn Fn(FaceKey) -> bool) -> NackVerdict {
    let reasons = out_records.iter().filter_map(|record| record.nack);
    // `None` is neutral in `less_severe`.
    let reason = reasons.fold(NackReason::None, less_severe);
    let mut unanswered = out_records.iter().filter(|record| record.nack.is_none());
    // Two suffice to distinguish none, one and several.
    match (unanswered.next(), unanswered.next()) {
        (None, _) => NackVerdict::ReturnToAll(reason),
        (Some(last), None) if is_downstream(last.face) => NackVerdict::ReturnToOne(last.face, reason),
        _ => NackVerdict::Wait,
    }
}

/// Of two reasons the less severe: the smaller number, except that `None` carries no severity.
fn less_severe(a: NackReason, b: NackReason) -> NackReason {
    match (a, b) {
        (NackReason::None, other) | (other, NackReason::None) => other,
        (a, b) => {
            if a.number() <= b.number() {
                a
            } else {
                b
            }
        }
    }
}

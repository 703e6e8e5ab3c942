//! Forwarding strategies: which upstreams a pending Interest is sent to, and what they learn from
//! what becomes of it.
//!
//! The set is closed and known at compile time. To add one: implement [`Strategy`] in a file of its
//! own, name the file here, and add its row to the table in [`registry`]. ARCHITECTURE.md
//! ("Strategies") shows which hooks and which memory ASF, self-learning, fast-route and VIP use.
//!
//! A strategy sees one pending Interest under its lock and decides; it sends nothing itself, reads
//! no clock, and keeps nothing in itself. What it is to remember, it keeps in a record for each
//! prefix ([`memory`]): those that remember nothing take no lock and get no other hook than
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
pub(crate) use registry::{Named, StrategyKind};
pub use round_trips::{ROUND_TRIP_ENDS_NS, RoundTripCounts};

/// A next hop that this Interest may go to: scope, hop limit and the face it came from allow it.
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

pub(crate) type Upstreams<'a> = InlineVec<Upstream<'a>, 4>;

/// Positions in [`Upstreams`] to send to.
#[derive(Debug)]
pub(crate) struct Chosen {
    // Of 32 bits: two of these are copied for each Interest.
    list: InlineVec<u32, 4>,
    /// There was no memory for one more.
    is_cut: bool,
}

impl Chosen {
    #[inline]
    pub(crate) fn new() -> Self {
        Chosen { list: InlineVec::new(), is_cut: false }
    }

    pub(crate) fn push(&mut self, upstream: usize) {
        self.is_cut |= !self.list.push(upstream as u32);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl core::ops::Deref for Chosen {
    type Target = InlineVec<u32, 4>;

    fn deref(&self) -> &InlineVec<u32, 4> {
        &self.list
    }
}

impl core::ops::DerefMut for Chosen {
    fn deref_mut(&mut self) -> &mut InlineVec<u32, 4> {
        &mut self.list
    }
}

/// A pending Interest as a strategy may see and mark it.
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

    /// Returns true if the Interest is not waiting for an answer of this upstream: it was never
    /// sent there, or the time of that record is over.
    pub(crate) fn is_unused(&self, upstream: &Upstream<'_>) -> bool {
        self.out_record(upstream.key()).is_none_or(|record| record.expires_at_ns <= self.now_ns)
    }

    /// Where a retransmission goes: to the cheapest upstream that is not waited for, or else to the
    /// one used longest ago.
    pub(crate) fn unused_or_earliest(&self) -> Verdict {
        let unused = self.upstreams.iter().position(|upstream| self.is_unused(upstream));
        unused.or_else(|| self.used_earliest()).map_or(Verdict::Suppress, Verdict::forward_to)
    }

    /// The upstream whose latest sending is longest ago.
    pub(crate) fn used_earliest(&self) -> Option<usize> {
        let upstreams = self.upstreams.iter().enumerate();
        let sent = upstreams
            .filter_map(|(i, upstream)| self.out_record(upstream.key()).map(|record| (record.sent_at_ns, i)));
        sent.min().map(|(_, i)| i)
    }
}

/// What becomes of an Interest.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Send it to these.
    Forward(Chosen),
    /// Send it to this one or to all, which are routes: those of other hosts are told so by
    /// NonDiscovery.
    Along(Option<usize>),
    /// Send it to this group along a route, and to the neighbours of its link, of which one may be
    /// who answers there.
    Beside(usize),
    /// Send it to all faces that are for discovery, and to all next hops.
    Discover,
    /// Send it to the first, and with a Nonce of its own to the second, which is only to be
    /// measured: where both ways meet again it must not look like a loop.
    Probe(usize, usize),
    /// It is aggregated with what is pending.
    Suppress,
    /// There is no upstream to send it to: refuse it.
    NoUpstream,
}

impl Verdict {
    /// Send it to this upstream.
    pub(crate) fn forward_to(upstream: usize) -> Self {
        let mut chosen = Chosen::new();
        chosen.push(upstream);
        Verdict::Forward(chosen)
    }
}

/// What becomes of a Nack from upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NackVerdict {
    /// Others may still answer.
    Wait,
    /// All downstreams are told.
    TellAll(NackReason),
    /// The one upstream left is itself a downstream: only it is told, so that two routers do not
    /// wait for each other.
    TellOne(FaceKey, NackReason),
}

/// Data that satisfied a pending Interest.
pub(crate) struct Answer<'a> {
    /// Where it came from.
    pub(crate) face: FaceKey,
    /// Where the Interest was sent, that face among them.
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

/// What becomes of Data on its way downstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataVerdict {
    /// Its congestion mark ends here: the strategy itself sends less that way.
    pub(crate) absorbs_mark: bool,
    /// If it answers a discovery, it shows a route.
    pub(crate) teaches: bool,
}

/// A change of the next hops of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FibChange {
    /// The prefix has this next hop now, or with another cost than before.
    Added(FaceKey),
    /// The prefix has this next hop no longer.
    Removed(FaceKey),
}

/// What a strategy has measured of a next hop, for people who ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The smoothed round trip, ns; `None` if it was never measured.
    pub srtt_ns: Option<u64>,
    /// Its last Interests were not answered.
    pub is_failing: bool,
}

/// A forwarding strategy. Hooks run under the lock of the pending Interest they are about, if there
/// is one, and then that of the memory: they must end, and may take no other lock.
pub(crate) trait Strategy {
    /// What it remembers of a prefix: `()` for nothing.
    type Memory: Memory;

    /// Whether it measures how long upstreams take to answer, and says so ([`Hook::round_trip`]).
    const MEASURES: bool = false;

    /// An Interest came that neither loops nor was answered from the cache, and there is no memory:
    /// the strategy has none, or `strategy_prefixes_max` prefixes are remembered.
    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict;

    /// The same with the memory of the FIB prefix that the Interest matched. The other hooks about
    /// this Interest get the same memory.
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

    /// Data from `face` came when no Interest was pending for it any more: the answer of an
    /// upstream that was slower than another. `has_prefix` tells whether a hash is that of a prefix
    /// of its name, or of the whole.
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

    /// A pending Interest expired unsatisfied; `out_records` are where it was sent.
    fn on_timeout(&self, _out_records: &OutRecords, _memory: &mut Self::Memory, _hook: &mut Hook<'_>) {}

    /// The time given to [`Hook::set_timer`] has come.
    fn on_timer(&self, _memory: &mut Self::Memory, _hook: &mut Hook<'_>) {}

    /// A next hop of the prefix was added or removed. The control path has no time to give.
    fn fib_changed(&self, _change: FibChange, _memory: &mut Self::Memory) {}

    /// What was measured of a next hop.
    fn measured(&self, _face: FaceKey, _memory: &Self::Memory) -> Measured {
        Measured::default()
    }

    /// What becomes of the Nacks that a pending Interest has. `is_downstream` returns true if a
    /// face waits for an answer.
    fn judge_nacks(&self, out_records: &OutRecords, is_downstream: &dyn Fn(FaceKey) -> bool) -> NackVerdict {
        combine_nacks(out_records, is_downstream)
    }
}

/// Passes a Nack on once every upstream has sent one, with the least severe reason among them.
fn combine_nacks(out_records: &OutRecords, is_downstream: &dyn Fn(FaceKey) -> bool) -> NackVerdict {
    let reasons = out_records.iter().filter_map(|record| record.nack);
    let reason = reasons.fold(NackReason::None, less_severe);
    let mut unanswered = out_records.iter().filter(|record| record.nack.is_none());
    match (unanswered.next(), unanswered.next()) {
        (None, _) => NackVerdict::TellAll(reason),
        (Some(last), None) if is_downstream(last.face) => NackVerdict::TellOne(last.face, reason),
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

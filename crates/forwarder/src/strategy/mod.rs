//! Forwarding strategies: which upstreams a pending Interest is sent to, and what a Nack from
//! upstream means.
//!
//! The set is closed and known at compile time. To add one: implement [`Strategy`], add it to
//! [`StrategyKind`], and its name to the table in `choice`. A strategy sees one pending Interest
//! under its lock and decides; it sends nothing itself.

mod best_route;
mod choice;
mod multicast;
mod suppression;

use namely_wire::NackReason;

use crate::faces::{FaceHold, FaceKey};
use crate::inline_vec::InlineVec;
use crate::pit::{OutRecord, OutRecords};

pub use choice::StrategyError;
pub(crate) use choice::{StrategyChoice, StrategyKind};

/// A next hop that this Interest may go to: scope, hop limit and the face it came from allow it.
/// Cheapest first.
#[derive(Debug)]
pub(crate) struct Upstream<'a> {
    pub(crate) face: FaceHold<'a>,
    /// True if the FIB said `local` and the BPT this face: the local delivering path.
    pub(crate) is_bound: bool,
}

impl Upstream<'_> {
    pub(crate) fn key(&self) -> FaceKey {
        self.face.key()
    }
}

pub(crate) type Upstreams<'a> = InlineVec<Upstream<'a>, 4>;

/// Positions in [`Upstreams`] to send to.
pub(crate) type Chosen = InlineVec<usize, 4>;

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

    pub(crate) fn has_pending_upstream(&self) -> bool {
        self.out_records.iter().any(|record| record.is_pending(self.now_ns))
    }
}

/// What becomes of an Interest.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Send it to these.
    Forward(Chosen),
    /// It is aggregated with what is pending.
    Suppress,
    /// There is no upstream to send it to: refuse it.
    NoUpstream,
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

/// A forwarding strategy.
pub(crate) trait Strategy {
    /// An Interest came that neither loops nor was answered from the cache.
    fn receive_interest(&self, pending: &mut Pending<'_>) -> Verdict;

    /// A Nack was entered on an out-record. `is_downstream` returns true if a face waits for an
    /// answer.
    fn receive_nack(&self, out_records: &OutRecords, is_downstream: &dyn Fn(FaceKey) -> bool) -> NackVerdict {
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

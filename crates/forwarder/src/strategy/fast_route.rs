//! Fast route, a baseline (`VI-28`): the first Interest of a prefix is sent to all next hops, later
//! ones to the next hop that answered first. Every [`PROBING_INTERESTS`] Interests another next hop
//! is probed, too, and replaces it if it answers first. A Nack, a timeout or the removal of the
//! current next hop restarts this.

use super::multicast::Multicast;
use super::suppression::{Retransmission, decide};
use super::{Answer, ChosenUpstreams, DataVerdict, FibChange, Pending, Strategy, Upstream, Verdict};
use crate::face_id::FaceKey;
use crate::pit::entry::OutRecords;
use crate::strategy::hook::{Hook, Memory};

/// New Interests from one probe to the next.
const PROBING_INTERESTS: u32 = 1024;

pub(crate) struct FastRoute;

/// The memory of fast route for a prefix.
pub(crate) struct FastRouteMemory {
    /// The current next hop.
    used: Option<FaceKey>,
    /// New Interests since the choice or the last probe.
    interests: u32,
}

impl Memory for FastRouteMemory {
    fn new(_faces_max: usize) -> Option<Self> {
        Some(FastRouteMemory { used: None, interests: 0 })
    }
}

impl FastRouteMemory {
    /// Resets the current next hop, if it is this one.
    fn lose(&mut self, face: FaceKey) {
        self.used.take_if(|used| *used == face);
    }

    /// An upstream other than `used`, if a probe is due and there is one.
    fn probe(&mut self, used: usize, pending: &Pending<'_>, hook: &Hook<'_>) -> Option<usize> {
        self.interests += 1;
        let others = (pending.upstreams.len() as u64).checked_sub(1).filter(|others| *others > 0)?;
        if self.interests < PROBING_INTERESTS {
            return None;
        }
        self.interests = 0;
        let other = ((hook.random)() % others) as usize;
        Some(if other < used { other } else { other + 1 })
    }
}

impl Strategy for FastRoute {
    type Memory = FastRouteMemory;

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        Multicast.after_receive_interest(pending)
    }

    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        fastest: &mut FastRouteMemory,
        hook: &mut Hook<'_>,
    ) -> Verdict {
        match decide(pending) {
            Retransmission::Suppress => return Verdict::Suppress,
            Retransmission::New if pending.upstreams.is_empty() => return Verdict::NoUpstream,
            Retransmission::New => {}
            // Without a count: only new Interests lead to a probe.
            Retransmission::Forward => return pending.unused_or_earliest(),
        }
        let is_used = |upstream: &Upstream<'_>| Some(upstream.key()) == fastest.used;
        let Some(used) = pending.upstreams.iter().position(is_used) else {
            let mut all = ChosenUpstreams::new();
            (0..pending.upstreams.len()).for_each(|i| all.push(i));
            return Verdict::Forward(all);
        };
        match fastest.probe(used, pending, hook) {
            Some(probe) => Verdict::Probe(used, probe),
            None => Verdict::forward_to(used),
        }
    }

    fn after_data(
        &self,
        answer: &Answer<'_>,
        fastest: &mut FastRouteMemory,
        _hook: &mut Hook<'_>,
    ) -> DataVerdict {
        // Only the first answer of an Interest is reported here, so its face was the fastest.
        if answer.sent().is_some() && fastest.used != Some(answer.face) {
            (fastest.used, fastest.interests) = (Some(answer.face), 0);
        }
        DataVerdict::default()
    }

    fn after_nack(&self, face: FaceKey, fastest: &mut FastRouteMemory, _hook: &mut Hook<'_>) {
        fastest.lose(face);
    }

    fn on_timeout(&self, out_records: &OutRecords, fastest: &mut FastRouteMemory, _hook: &mut Hook<'_>) {
        out_records.iter().for_each(|record| fastest.lose(record.face));
    }

    fn fib_changed(&self, change: FibChange, fastest: &mut FastRouteMemory) {
        if let FibChange::Removed(face) = change {
            fastest.lose(face);
        }
    }
}

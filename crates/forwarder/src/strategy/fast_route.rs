//! Fast route, a baseline (`VI-28`): the first Interest of a prefix goes to all next hops, later
//! ones to the one that answered first. Every [`PROBING_INTERESTS`] Interests another next hop gets
//! one, too, and takes its place if it answers first. A Nack, a timeout or the end of the next hop
//! that is used starts anew.

use super::multicast::Multicast;
use super::suppression::{Retransmission, decide};
use super::{Answer, Chosen, DataVerdict, FibChange, Pending, Strategy, Upstream, Verdict};
use crate::face_id::FaceKey;
use crate::pit::entry::OutRecords;
use crate::strategy::hook::{Hook, Memory};

/// New Interests from one probe to the next.
const PROBING_INTERESTS: u32 = 1024;

pub(crate) struct FastRoute;

/// What fast route remembers of a prefix.
pub(crate) struct Fastest {
    /// The next hop that is used.
    used: Option<FaceKey>,
    /// New Interests since it was chosen or the last probe.
    interests: u32,
}

impl Memory for Fastest {
    fn new(_faces_max: usize) -> Option<Self> {
        Some(Fastest { used: None, interests: 0 })
    }
}

impl Fastest {
    /// Forgets the next hop that is used, if it is this one.
    fn lose(&mut self, face: FaceKey) {
        self.used.take_if(|used| *used == face);
    }

    /// Another upstream than `used`, if a probe is due and there is one.
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
    type Memory = Fastest;

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        Multicast.after_receive_interest(pending)
    }

    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        fastest: &mut Fastest,
        hook: &mut Hook<'_>,
    ) -> Verdict {
        match decide(pending) {
            Retransmission::Suppress => return Verdict::Suppress,
            Retransmission::New if pending.upstreams.is_empty() => return Verdict::NoUpstream,
            Retransmission::New => {}
            Retransmission::Forward => return pending.unused_or_earliest(),
        }
        let is_used = |upstream: &Upstream<'_>| Some(upstream.key()) == fastest.used;
        let Some(used) = pending.upstreams.iter().position(is_used) else {
            let mut all = Chosen::new();
            (0..pending.upstreams.len()).for_each(|i| all.push(i));
            return Verdict::Forward(all);
        };
        match fastest.probe(used, pending, hook) {
            Some(probe) => Verdict::Probe(used, probe),
            None => Verdict::forward_to(used),
        }
    }

    fn after_data(&self, answer: &Answer<'_>, fastest: &mut Fastest, _hook: &mut Hook<'_>) -> DataVerdict {
        // Only the first answer of an Interest comes here: who gives it was the fastest.
        if answer.sent().is_some() && fastest.used != Some(answer.face) {
            (fastest.used, fastest.interests) = (Some(answer.face), 0);
        }
        DataVerdict::default()
    }

    fn after_nack(&self, face: FaceKey, fastest: &mut Fastest, _hook: &mut Hook<'_>) {
        fastest.lose(face);
    }

    fn on_timeout(&self, out_records: &OutRecords, fastest: &mut Fastest, _hook: &mut Hook<'_>) {
        out_records.iter().for_each(|record| fastest.lose(record.face));
    }

    fn fib_changed(&self, change: FibChange, fastest: &mut Fastest) {
        if let FibChange::Removed(face) = change {
            fastest.lose(face);
        }
    }
}

//! Self-learning (NFD's version 1; Shi et al., "On Broadcast-based Self-Learning in Named Data
//! Networking", 2017): where no route leads, an Interest goes everywhere, and routes are learned
//! from where its Data comes.
//!
//! - An Interest without a next hop is a *discovery*: it goes to all faces that are for discovery,
//!   groups and the neighbours of their links ([`crate::DiscoveryControl`]).
//!   With next hops it goes to the one that answered last, or to all of them, and says
//!   NonDiscovery: who has no route for such an Interest refuses it instead of asking everybody.
//! - Data that answers a discovery teaches a route ([`crate::Learned`]): the home puts it into the
//!   RIB, for a short time.
//! - After a Nack or a timeout of the next hop that is used, and when an Interest comes again while
//!   nothing is answered, the next Interest is a discovery again.
//!
//! Interests that lead nowhere cost everybody a packet: each face may begin
//! [`DISCOVERIES_PER_S_MAX`] discoveries a second, and what is beyond is refused.

use namely_wire::mgmt::LinkType;

use super::suppression::{Retransmission, decide};
use super::{Answer, DataVerdict, FibChange, Pending, Strategy, Upstream, Verdict};
use crate::face_id::FaceKey;
use crate::pit::entry::OutRecords;
use crate::strategy::hook::{FaceRecords, Hook, Memory};

/// Discoveries that a face may begin in a second. A face that there is no room to remember has none
/// of its own, but shares one such number with others like it.
pub(crate) const DISCOVERIES_PER_S_MAX: u32 = 500;

/// How often an Interest along a route to a group goes to the neighbours of its link as well, ns.
pub(crate) const BESIDE_NS: u64 = 1_000_000_000;

/// A next hop that answered so lately is not given up for one Interest that comes again, ns.
const ANSWERS_NS: u64 = 1_000_000_000;

pub(crate) struct SelfLearning;

/// What it remembers of a prefix.
pub(crate) struct Learning {
    /// The next hop that answered last.
    used: Option<FaceKey>,
    answered_at_ns: u64,
    /// True since it failed.
    is_doubted: bool,
    /// When an Interest last went to a group and its neighbours, or first to the group, ns.
    beside_at_ns: Option<u64>,
    begun: FaceRecords<Begun>,
    begun_by_others: Begun,
}

/// Discoveries that a face began in the second since a time.
#[derive(Debug, Default)]
struct Begun {
    since_ns: u64,
    count: u32,
}

impl Begun {
    fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.since_ns) >= 1_000_000_000
    }

    /// Counts one; false if it is one too many.
    fn admits(&mut self, now_ns: u64) -> bool {
        if self.is_over(now_ns) {
            *self = Begun { since_ns: now_ns, count: 0 };
        }
        self.count += 1;
        self.count <= DISCOVERIES_PER_S_MAX
    }
}

impl Memory for Learning {
    fn new(faces_max: usize) -> Option<Self> {
        Some(Learning {
            used: None,
            answered_at_ns: 0,
            is_doubted: false,
            beside_at_ns: None,
            begun: FaceRecords::new(faces_max)?,
            begun_by_others: Begun::default(),
        })
    }
}

impl Learning {
    fn fail(&mut self, face: FaceKey) {
        if self.used.is_none_or(|used| used == face) {
            (self.used, self.is_doubted) = (None, true);
        }
    }

    fn discover(&mut self, hook: &Hook<'_>) -> Verdict {
        // What a face began in an earlier second counts no more, and its place is another's.
        if hook.ingress.is_some_and(|face| self.begun.get(face).is_none()) {
            self.begun.retain(|_, begun| !begun.is_over(hook.now_ns));
        }
        let begun = match hook.ingress.and_then(|face| self.begun.get_or_make(face, hook, Begun::default)) {
            Some(own) => own,
            None => &mut self.begun_by_others,
        };
        if begun.admits(hook.now_ns) { Verdict::Discover } else { Verdict::NoUpstream }
    }

    /// Along the routes: by the next hop that answered last, or all. Who answers by a group may be
    /// a neighbour, who is asked there as well now and then: by its own answer the route moves to
    /// it.
    fn along(&mut self, pending: &Pending<'_>, now_ns: u64) -> Verdict {
        let is_used = |upstream: &Upstream<'_>| Some(upstream.key()) == self.used;
        let used = pending.upstreams.iter().position(is_used);
        let is_group = |upstream: &Upstream<'_>| upstream.face.link_type() != LinkType::PointToPoint;
        let Some(group) = used.filter(|i| pending.upstreams.get(*i).is_some_and(is_group)) else {
            return Verdict::Along(used);
        };
        let before = *self.beside_at_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(before) < BESIDE_NS {
            return Verdict::Along(used);
        }
        self.beside_at_ns = Some(now_ns);
        Verdict::Beside(group)
    }
}

impl Strategy for SelfLearning {
    type Memory = Learning;

    /// Without memory nothing is learned.
    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        match decide(pending) {
            Retransmission::Suppress => Verdict::Suppress,
            _ if pending.upstreams.is_empty() => Verdict::NoUpstream,
            _ => Verdict::Along(None),
        }
    }

    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        memory: &mut Learning,
        hook: &mut Hook<'_>,
    ) -> Verdict {
        let has_route = !pending.upstreams.is_empty();
        // What an application of this machine offers is asked of nobody else, however it answers.
        let is_here = pending.upstreams.iter().any(|upstream| upstream.face.is_local());
        let decision = decide(pending);
        let answers = hook.now_ns.saturating_sub(memory.answered_at_ns) < ANSWERS_NS;
        match decision {
            Retransmission::Suppress => Verdict::Suppress,
            _ if hook.is_non_discovery && !has_route => Verdict::NoUpstream,
            _ if hook.is_non_discovery || is_here => memory.along(pending, hook.now_ns),
            _ if !has_route || memory.is_doubted => memory.discover(hook),
            Retransmission::Forward if !answers => memory.discover(hook),
            _ => memory.along(pending, hook.now_ns),
        }
    }

    fn after_data(&self, answer: &Answer<'_>, memory: &mut Learning, hook: &mut Hook<'_>) -> DataVerdict {
        (memory.used, memory.is_doubted) = (Some(answer.face), false);
        memory.answered_at_ns = hook.now_ns;
        DataVerdict { teaches: true, ..DataVerdict::default() }
    }

    fn after_nack(&self, face: FaceKey, memory: &mut Learning, _hook: &mut Hook<'_>) {
        memory.fail(face);
    }

    fn on_timeout(&self, out_records: &OutRecords, memory: &mut Learning, _hook: &mut Hook<'_>) {
        out_records.iter().filter(|record| record.nack.is_none()).for_each(|record| memory.fail(record.face));
    }

    fn fib_changed(&self, change: FibChange, memory: &mut Learning) {
        if let FibChange::Removed(face) = change {
            memory.used.take_if(|used| *used == face);
            memory.begun.retain(|own, _| own != face);
        }
    }
}

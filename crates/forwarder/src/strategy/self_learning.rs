//! Self-learning (NFD's version 1; Shi et al., "On Broadcast-based Self-Learning in Named Data
//! Networking", 2017): an Interest without a route is flooded, and routes are learned from the
//! faces that its Data comes from.
//!
//! - An Interest without a next hop is a *discovery*: it is sent to all discovery faces, that is
//!   groups and the neighbors of their links ([`crate::DiscoveryControl`]). With next hops it is
//!   sent to the one that answered last, or to all of them, with NonDiscovery: a router without a
//!   route refuses such an Interest instead of flooding it.
//! - A route is learned from Data that answers a discovery ([`crate::Learned`]): the
//!   embedder adds it to the RIB, for a short time.
//! - After a Nack or a timeout of the current next hop, and on a retransmission while nothing is
//!   answered, the next Interest is a discovery again.
//!
//! An Interest that leads nowhere costs every router a packet. So each face may begin
//! [`DISCOVERIES_PER_S_MAX`] discoveries a second, and further ones are refused.

use namely_messages::LinkType;

use super::suppression::{Retransmission, decide};
use super::{Answer, DataVerdict, FibChange, Pending, Strategy, Upstream, Verdict};
use crate::face_id::FaceKey;
use crate::pit::entry::OutRecords;
use crate::strategy::hook::{FaceRecords, Hook, Memory};

/// Discoveries that a face begins in a second.
///
/// Faces without a record, for lack of room, share one such number.
///
/// # Limit
/// The Interest is refused as without a route.
/// - Counter: `no_route`
/// - Tests: `discoveries_per_face_are_rate_limited`
pub(crate) const DISCOVERIES_PER_S_MAX: u32 = 500;

/// Interval of Interests to the neighbors beside a group.
///
/// Such an Interest follows a route to the group of a link.
///
/// # Limit
/// An earlier Interest is sent to the group alone.
/// - Value: 1 s for each prefix
/// - Tests: `a_group_route_follows_the_answering_neighbor`
pub(crate) const BESIDE_NS: u64 = 1_000_000_000;

/// A next hop that answered within this time is not dropped for one retransmission, ns.
const ANSWERS_NS: u64 = 1_000_000_000;

pub(crate) struct SelfLearning;

/// The memory of self-learning for a prefix.
pub(crate) struct Learning {
    /// The next hop that answered last.
    used: Option<FaceKey>,
    answered_at_ns: u64,
    /// True since it failed.
    is_doubted: bool,
    /// The last time of an Interest to a group and its neighbors, or of the first one to the group,
    /// ns.
    beside_at_ns: Option<u64>,
    begun: FaceRecords<DiscoveryCount>,
    begun_by_others: DiscoveryCount,
}

/// Discoveries that a face began in the second since `since_ns`.
#[derive(Debug, Default)]
struct DiscoveryCount {
    since_ns: u64,
    count: u32,
}

impl DiscoveryCount {
    fn is_over(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.since_ns) >= 1_000_000_000
    }

    /// Counts one; returns false if the limit is exceeded.
    fn admits(&mut self, now_ns: u64) -> bool {
        if self.is_over(now_ns) {
            *self = DiscoveryCount { since_ns: now_ns, count: 0 };
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
            begun_by_others: DiscoveryCount::default(),
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
        // Discoveries of an earlier second no longer count, so their records are removed for other
        // faces.
        if hook.ingress.is_some_and(|face| self.begun.get(face).is_none()) {
            self.begun.retain(|_, begun| !begun.is_over(hook.now_ns));
        }
        let begun =
            match hook.ingress.and_then(|face| self.begun.get_or_make(face, hook, DiscoveryCount::default)) {
                Some(own) => own,
                None => &mut self.begun_by_others,
            };
        if begun.admits(hook.now_ns) { Verdict::Discover } else { Verdict::NoUpstream }
    }

    /// Forwards along the routes: by the next hop that answered last, or all. Data from a group may
    /// come from a neighbor, so the neighbors receive the Interest as well from time to time. The
    /// neighbor's own answer moves the route to it.
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

    /// Without memory no route is learned.
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
        // Interests for a local application's names are sent to no other host, even if it does not
        // answer.
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
        // A Nack was handled when it arrived.
        out_records.iter().filter(|record| record.nack.is_none()).for_each(|record| memory.fail(record.face));
    }

    fn fib_changed(&self, change: FibChange, memory: &mut Learning) {
        if let FibChange::Removed(face) = change {
            memory.used.take_if(|used| *used == face);
            memory.begun.retain(|own, _| own != face);
        }
    }
}

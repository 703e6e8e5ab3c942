//! The dataset `name/explain`: how the tables of a router treat a name.

use namely_forwarder::{ExplainedHop as Hop, FaceId, PacketBuf, PendingInterest, Router, SentTo};
use namely_messages::{
    Explained, ExplainedData, ExplainedHop, ExplainedInterest, ExplainedRoute, ExplainedSending, route_flags,
};
use namely_wire::{NackReason, Name, NameRef};

const NS_PER_MS: u64 = 1_000_000;

/// Maximum number of routes listed for a name. A RIB can have more.
const ROUTES_MAX: usize = 64;

/// Describes how an Interest for `name` is processed, without the parts that depend on the
/// requester.
pub(crate) fn explained<B, R>(router: &Router<B, R>, name: NameRef<'_>, now_ns: u64) -> Explained
where
    B: PacketBuf,
    R: lock_api::RawMutex,
{
    let found = router.explain(name);
    let prefix = found.fib_components.map(|n| name.prefix(n).to_name());
    Explained {
        cached: found.cached.map(|data| ExplainedData {
            name: data.name,
            octets: data.octets as u64,
            fresh_ms: left_ms(data.fresh_until_ns, now_ns),
        }),
        pending: found.pending.iter().map(|interest| pending(interest, now_ns)).collect(),
        next_hops: found.next_hops.iter().map(next_hop).collect(),
        routes: prefix.as_ref().map(|prefix| routes(router, prefix, now_ns)).unwrap_or_default(),
        prefix,
        bound: found.bound.map(|face| face.0),
        strategy: found.strategy,
        strategy_prefix: name.prefix(found.strategy_components).to_name(),
        discovery: ids(&found.discovery),
        pit_entries: found.pit_entries as u64,
        pit_capacity: found.pit_entries_max as u64,
        ..Explained::default()
    }
}

/// The routes that cause the next hops of `prefix`: its own, and inherited routes of shorter names.
fn routes<B, R>(router: &Router<B, R>, prefix: &Name, now_ns: u64) -> Vec<ExplainedRoute>
where
    B: PacketBuf,
    R: lock_api::RawMutex,
{
    let mut all = Vec::new();
    for n in (0..=prefix.len()).rev() {
        let at = prefix.as_name().prefix(n).to_name();
        let own = router.rib_routes(&at, now_ns);
        let captures = own.iter().any(|route| route.flags & route_flags::CAPTURE != 0);
        let counts = |flags: u64| n == prefix.len() || flags & route_flags::CHILD_INHERIT != 0;
        let counted = own.into_iter().filter(|route| counts(route.flags));
        all.extend(counted.map(|route| ExplainedRoute { prefix: at.clone(), route }));
        if captures || all.len() >= ROUTES_MAX {
            break;
        }
    }
    all.truncate(ROUTES_MAX);
    all
}

fn pending(interest: &PendingInterest, now_ns: u64) -> ExplainedInterest {
    let sending = |sent: &SentTo| ExplainedSending {
        face_id: sent.face.0,
        since_ms: now_ns.saturating_sub(sent.sent_at_ns) / NS_PER_MS,
        nack: sent.nack.map(NackReason::number),
    };
    ExplainedInterest {
        left_ms: left_ms(interest.expires_at_ns, now_ns),
        downstreams: ids(&interest.downstreams),
        upstreams: interest.upstreams.iter().map(sending).collect(),
    }
}

fn next_hop(hop: &Hop) -> ExplainedHop {
    ExplainedHop {
        face_id: hop.face.0,
        cost: hop.cost,
        srtt_us: hop.measured.srtt_ns.map(|ns| ns / 1000),
        is_failing: hop.measured.is_failing,
    }
}

fn ids(faces: &[FaceId]) -> Vec<u64> {
    faces.iter().map(|face| face.0).collect()
}

fn left_ms(until_ns: u64, now_ns: u64) -> u64 {
    until_ns.saturating_sub(now_ns) / NS_PER_MS
}

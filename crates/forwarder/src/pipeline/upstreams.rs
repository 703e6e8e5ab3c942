//! The candidate upstreams of an Interest: FIB, forwarding hint, BPT, scope and hop limit.

use lock_api::RawMutex;

use super::checked_interest::CheckedInterest;
use super::{Pipeline, is_localhop, is_localhost};
use namely_messages::LinkType;

use crate::counters::DropReason;
use crate::face_id::{FaceId, FaceKey};
use crate::faces::FaceHold;
use crate::fib::NextHops;
use crate::hash::NameHashes;
use crate::inline_vec::InlineVec;
use crate::interest_key::InterestKey;
use crate::packet::PacketBuf;
use crate::prefix_table::Key;
use crate::strategy::{ChosenUpstreams, StrategyKind, Upstream, Upstreams};

/// The outcome of name resolution for one Interest.
pub(super) struct Routing<'a> {
    pub(super) strategy: StrategyKind,
    pub(super) upstreams: Upstreams<'a>,
    /// The hash of the matched FIB prefix, by which a strategy finds its memory.
    pub(super) prefix_hash: u64,
    /// True if the application chose the only upstream itself, by NextHopFaceId.
    pub(super) is_explicit: bool,
    /// True if a next hop was omitted because HopLimit is exhausted here.
    pub(super) hop_limited: bool,
}

impl Routing<'_> {
    /// A routing without upstreams.
    pub(super) fn new(strategy: StrategyKind) -> Self {
        Routing {
            strategy,
            upstreams: InlineVec::new(),
            prefix_hash: 0,
            is_explicit: false,
            hop_limited: false,
        }
    }
}

/// The upstreams that a pending Interest is sent to.
pub(super) struct Forwarding<'t> {
    pub(super) routing: Routing<'t>,
    /// Indices into the upstreams of `routing`.
    pub(super) chosen: ChosenUpstreams,
    pub(super) hop_limit: Option<(usize, u8)>,
    /// One more upstream, which receives the Interest with a Nonce of its own.
    pub(super) probe: Option<(usize, [u8; 4])>,
}

impl Forwarding<'_> {
    pub(super) fn new(strategy: StrategyKind) -> Self {
        Forwarding {
            routing: Routing::new(strategy),
            chosen: ChosenUpstreams::new(),
            hop_limit: None,
            probe: None,
        }
    }
}

impl<'t, B: PacketBuf, R: RawMutex> Pipeline<'t, '_, B, R> {
    /// Resolves the name: adds the upstreams that the Interest may be sent to, cheapest first.
    pub(super) fn add_upstreams(
        self,
        arrived: &CheckedInterest<'_, B>,
        routing: &mut Routing<'t>,
    ) -> Result<(), DropReason> {
        // NDNLPv2, Consumer Controlled Forwarding.
        if let Some(id) = arrived.headers.next_hop_face_id {
            let face = self.context.hold(FaceId(id)).ok_or(DropReason::NextHopGone)?;
            // A privileged application chooses the upstream of its Interest. That may be its
            // ingress, or one hop further than `/localhop` allows. But `/localhost` stays on this
            // host.
            if is_localhost(arrived.interest.view.name) && !face.is_local() {
                return Err(DropReason::Scope);
            }
            if arrived.hop_limit_out() == Some(0) && !face.is_local() {
                return Err(DropReason::HopLimit);
            }
            // Cannot fail: the first upstream is stored inline.
            let _ = routing.upstreams.push(Upstream { face, is_bound: false });
            routing.is_explicit = true;
            return Ok(());
        }
        let nexthops = self.nexthops(&arrived.interest);
        routing.prefix_hash = nexthops.prefix_hash;
        if nexthops.is_cut {
            self.tables.counters.dropped(DropReason::NoMemory);
        }
        // Iterated in place, because moving the list out of its struct would copy it.
        for hop in nexthops.faces.iter() {
            self.add_upstream(arrived, *hop, routing);
        }
        if routing.upstreams.len() > 1 {
            exclude_down(&mut routing.upstreams);
        }
        Ok(())
    }

    /// Adds a discovery face, as if it were a next hop.
    #[inline(never)]
    pub(super) fn add_discovery_face(
        self,
        arrived: &CheckedInterest<'_, B>,
        face: FaceKey,
        routing: &mut Routing<'t>,
    ) {
        self.add_upstream(arrived, face, routing);
    }

    /// The next hops of the name, or of the first name of the forwarding hint that has any (guide,
    /// "FIB lookup"; packet format, Interest, ForwardingHint).
    fn nexthops(self, interest: &InterestKey<'_>) -> NextHops {
        if interest.view.forwarding_hint_value.is_none() {
            return self.tables.fib.longest_match(interest.key());
        }
        // Outside a batch a hint is rare, so the shared work memory is locked for it.
        match self.context.hint.and_then(|hashes| hashes.try_borrow_mut().ok()) {
            Some(mut hashes) => self.nexthops_of_hint(interest, &mut hashes[0]),
            None => self.nexthops_of_hint(interest, self.tables.names.work().hashes()),
        }
    }

    #[cold]
    #[inline(never)]
    fn nexthops_of_hint(self, interest: &InterestKey<'_>, hashes: &mut NameHashes) -> NextHops {
        for hint in interest.view.forwarding_hint() {
            let nexthops =
                self.tables.fib.longest_match(Key::filled(&self.tables.names.hasher, hint, hashes));
            if !nexthops.faces.is_empty() {
                return nexthops;
            }
        }
        NextHops::none()
    }

    #[inline(always)]
    fn add_upstream(self, arrived: &CheckedInterest<'_, B>, hop: FaceKey, routing: &mut Routing<'t>) {
        let is_bound = hop == FaceKey::LOCAL;
        let key = if is_bound { self.tables.bpt.find(arrived.interest.key()) } else { Some(hop) };
        let Some(key) = key else {
            self.tables.counters.dropped(DropReason::NotBound);
            return;
        };
        // A next hop whose face was just released is skipped; the next sweep removes it from the
        // FIB.
        let Some(face) = self.context.hold_key(key) else { return };
        if !egress_allowed(arrived, &face) || routing.upstreams.iter().any(|known| known.key() == key) {
            return;
        }
        // Packet format, Interest, HopLimit: an Interest with 0 reaches only local applications.
        if arrived.hop_limit_out() == Some(0) && self.ends_here(arrived, &face, routing) {
            return;
        }
        if !routing.upstreams.push(Upstream { face, is_bound }) {
            self.tables.counters.dropped(DropReason::NoMemory);
        }
    }
}

/// Removes next hops that cannot send at present if there are others. Otherwise best-route would
/// lose the first transmission of each Interest at the cheapest one.
fn exclude_down(upstreams: &mut Upstreams<'_>) {
    let is_up = |hop: &Upstream<'_>| !hop.face.is_down();
    if !upstreams.iter().all(is_up) && upstreams.iter().any(is_up) {
        upstreams.retain(is_up);
    }
}

/// Returns true if scope and link allow the Interest to leave through `face` (guide 4.2.5, Outgoing
/// Interest). It does not return to its ingress, unless that link is ad hoc. Under `/localhost` it
/// does not leave this host. Under `/localhop` it leaves this host only if it comes from this host.
fn egress_allowed<B>(arrived: &CheckedInterest<'_, B>, face: &FaceHold<'_>) -> bool {
    let (name, ingress) = (arrived.interest.view.name, arrived.ingress);
    if face.key() == ingress.key() && face.link_type() != LinkType::AdHoc {
        return false;
    }
    face.is_local() || !(is_localhost(name) || is_localhop(name) && !ingress.is_local())
}

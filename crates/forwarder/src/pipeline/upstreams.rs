//! Where an Interest may go: FIB, forwarding hint, BPT, and what scope and hop limit allow.

use lock_api::RawMutex;

use super::arrived::Arrived;
use super::{Pipeline, is_localhop, is_localhost};
use namely_wire::mgmt::LinkType;

use crate::counters::DropReason;
use crate::face_id::{FaceId, FaceKey};
use crate::faces::FaceHold;
use crate::fib::NextHops;
use crate::hash::NameHashes;
use crate::inline_vec::InlineVec;
use crate::interest_key::InterestKey;
use crate::packet::PacketBuf;
use crate::prefix_table::Key;
use crate::strategy::{Chosen, StrategyKind, Upstream, Upstreams};

/// The outcome of name resolution for one Interest.
pub(super) struct Routing<'a> {
    pub(super) strategy: StrategyKind,
    pub(super) upstreams: Upstreams<'a>,
    /// The hash of the FIB prefix that was matched: what a strategy remembers things under.
    pub(super) prefix_hash: u64,
    /// The application chose the one upstream itself, by NextHopFaceId.
    pub(super) is_explicit: bool,
    /// Some next hop was left out because HopLimit ends here.
    pub(super) hop_limited: bool,
}

impl Routing<'_> {
    /// Nowhere yet.
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

/// Where a pending Interest is to be sent.
pub(super) struct Forwarding<'t> {
    pub(super) routing: Routing<'t>,
    /// Of the upstreams of `routing`.
    pub(super) chosen: Chosen,
    pub(super) hop_limit: Option<(usize, u8)>,
    /// One more upstream, to which it goes with a Nonce of its own.
    pub(super) probe: Option<(usize, [u8; 4])>,
}

impl Forwarding<'_> {
    pub(super) fn new(strategy: StrategyKind) -> Self {
        Forwarding { routing: Routing::new(strategy), chosen: Chosen::new(), hop_limit: None, probe: None }
    }
}

impl<'t, B: PacketBuf, R: RawMutex> Pipeline<'t, '_, B, R> {
    /// Resolves the name: adds the upstreams the Interest may go to, cheapest first.
    pub(super) fn add_upstreams(
        self,
        arrived: &Arrived<'_, B>,
        routing: &mut Routing<'t>,
    ) -> Result<(), DropReason> {
        // NDNLPv2, Consumer Controlled Forwarding.
        if let Some(id) = arrived.headers.next_hop_face_id {
            let face = self.context.hold(FaceId(id)).ok_or(DropReason::NextHopGone)?;
            // A privileged application says where its Interest goes, even back or one hop further
            // than `/localhop` allows; but what is of this host stays here.
            if is_localhost(arrived.interest.view.name) && !face.is_local() {
                return Err(DropReason::Scope);
            }
            if arrived.hop_limit_out() == Some(0) && !face.is_local() {
                return Err(DropReason::HopLimit);
            }
            // The first one lies in place.
            let _ = routing.upstreams.push(Upstream { face, is_bound: false });
            routing.is_explicit = true;
            return Ok(());
        }
        let nexthops = self.nexthops(&arrived.interest);
        routing.prefix_hash = nexthops.prefix_hash;
        if nexthops.is_cut {
            self.tables.counters.dropped(DropReason::NoMemory);
        }
        // Walked in place: taken apart, the list is copied first.
        for hop in nexthops.faces.iter() {
            self.add_upstream(arrived, *hop, routing);
        }
        Ok(())
    }

    /// Adds a face that is for discovery, as if it were a next hop.
    #[inline(never)]
    pub(super) fn add_discovery_face(
        self,
        arrived: &Arrived<'_, B>,
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
        // Beside a batch it is rare enough for one lock.
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
    fn add_upstream(self, arrived: &Arrived<'_, B>, hop: FaceKey, routing: &mut Routing<'t>) {
        let is_bound = hop == FaceKey::LOCAL;
        let key = if is_bound { self.tables.bpt.find(arrived.interest.key()) } else { Some(hop) };
        let Some(key) = key else {
            self.tables.counters.dropped(DropReason::NotBound);
            return;
        };
        // A next hop whose face has just gone is skipped; it leaves the FIB with the next sweep.
        let Some(face) = self.context.hold_key(key) else { return };
        if !may_go(arrived, &face) || routing.upstreams.iter().any(|known| known.key() == key) {
            return;
        }
        // Packet format, Interest, HopLimit: one that has come to 0 reaches local applications
        // only.
        if arrived.hop_limit_out() == Some(0) && self.ends_here(arrived, &face, routing) {
            return;
        }
        if !routing.upstreams.push(Upstream { face, is_bound }) {
            self.tables.counters.dropped(DropReason::NoMemory);
        }
    }
}

/// Returns true if scope and link allow the Interest to leave through `face`: not back where it
/// came from unless the link is ad hoc, not to another host under `/localhost`, and under
/// `/localhop` only if it is of this host (guide 4.2.5, Outgoing Interest).
fn may_go<B>(arrived: &Arrived<'_, B>, face: &FaceHold<'_>) -> bool {
    let (name, ingress) = (arrived.interest.view.name, arrived.ingress);
    if face.key() == ingress.key() && face.link_type() != LinkType::AdHoc {
        return false;
    }
    face.is_local() || !(is_localhost(name) || is_localhop(name) && !ingress.is_local())
}

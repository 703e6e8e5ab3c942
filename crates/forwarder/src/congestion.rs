//! What neighbours tell each other of the load of their tiers, after NB-Cache (its section III-E):
//! a router whose tier has too much to do says so to those who ask it, again and again while it is
//! so, and once when it is over. Who hears it labels the face for as long as was said, and passes
//! its own load on to other faces, or marks Data when there is none.
//!
//! An announcement is an Interest that asks for nothing: `/localhop/nb-cc/busy` or
//! `/localhop/nb-cc/free`, with HopLimit 1, whose InterestLifetime is how long the label lasts. A
//! router that does not know it has no route for it and drops it.
//!
//! Who can send on a neighbour's link can label that link and no other; it could as well drop what
//! goes there. Labels are soft state: one that is not renewed ends by itself.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::mgmt::LinkType;
use namely_wire::{InterestBuilder, InterestView, LpHeaders, Name, NameRef};

use crate::face_id::FaceKey;
use crate::faces::{FaceHold, Faces};
use crate::lock_order::LeafLock;
use crate::packet::{Outgoing, Output, PacketBuf};
use crate::random::Random;
use crate::tier::{Tier, TierCounters};

/// `/localhop/nb-cc`, as the octets of a name.
const PREFIX: &[u8] = b"\x08\x08localhop\x08\x05nb-cc";

const BUSY: &[u8] = b"\x08\x04busy";
const FREE: &[u8] = b"\x08\x04free";

/// Announcements that may be lost in a row before a label ends, plus one.
const PERIODS: u64 = 3;

/// Longest time that one announcement labels a face, ms.
pub const LABEL_MS_MAX: u64 = 10_000;

/// Maximum number of neighbours that are told of congestion. A further one is not, and counted.
pub const TOLD_FACES_MAX: usize = 256;

/// The neighbours that were told of congestion, and when they are told again.
#[derive(Default)]
struct Told {
    faces: Vec<FaceKey>,
    next_ns: u64,
}

/// Returns true if an Interest of this name is an announcement.
#[inline]
pub(crate) fn is_announcement(name: NameRef<'_>) -> bool {
    name.as_bytes().starts_with(PREFIX)
}

/// Labels the face that an announcement came from. One that came from an application, or from a
/// link with several peers, says nothing of where Interests go.
#[cold]
pub(crate) fn hear(counters: &TierCounters, ingress: &FaceHold<'_>, view: &InterestView<'_>, now_ns: u64) {
    let is_neighbour = !ingress.is_local() && ingress.link_type() == LinkType::PointToPoint;
    let lifetime_ms = view.lifetime_or_default_ms().min(LABEL_MS_MAX);
    let until_ns = match view.name.as_bytes().strip_prefix(PREFIX) {
        Some(BUSY) if is_neighbour => now_ns.saturating_add(lifetime_ms.saturating_mul(1_000_000)),
        Some(FREE) if is_neighbour => 0,
        _ => return counters.announcements_refused.add(1),
    };
    ingress.set_congested(until_ns);
    counters.announcements_heard.add(1);
}

/// The reports of this router's tier load to its neighbors.
pub(crate) struct Announcements<R> {
    /// How often it is said, ns; 0: never.
    interval_ns: u64,
    /// Taken alone.
    told: LeafLock<R, Told>,
}

/// Strategy and counters of an announcement.
#[derive(Clone, Copy)]
pub(crate) struct Announcing<'t> {
    pub(crate) counters: &'t TierCounters,
    pub(crate) random: &'t Random,
}

impl<R: RawMutex> Announcements<R> {
    pub(crate) fn new(interval_ns: u64) -> Self {
        Announcements { interval_ns, told: LeafLock::new(Told::default()) }
    }

    /// The tier had too much to do when an Interest of `downstream` came: so that is told, now and
    /// until it is over.
    #[cold]
    pub(crate) fn tell<B: PacketBuf>(
        &self,
        downstream: &FaceHold<'_>,
        with: Announcing<'_>,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) {
        if self.interval_ns == 0 || downstream.is_local() || downstream.link_type() != LinkType::PointToPoint
        {
            return;
        }
        let mut told = self.told.lock();
        if told.faces.contains(&downstream.key()) {
            return;
        }
        if told.faces.len() >= TOLD_FACES_MAX {
            drop(told);
            return with.counters.announcements_full.add(1);
        }
        if told.faces.is_empty() {
            told.next_ns = now_ns.saturating_add(self.interval_ns);
        }
        if told.faces.try_reserve(1).is_err() {
            drop(told);
            return with.counters.announcements_full.add(1);
        }
        told.faces.push(downstream.key());
        // The lock is given back first: the home may call back from `Output::send`.
        drop(told);
        self.announce(downstream, true, with, out);
    }

    /// Tells neighbours again, or that it is over; returns when to do so next.
    pub(crate) fn tell_due<B: PacketBuf>(
        &self,
        faces: &Faces<R>,
        with: Announcing<'_>,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) -> Option<u64> {
        let told = self.told.lock();
        let Told { faces: known, next_ns } = &*told;
        if known.is_empty() || now_ns < *next_ns {
            return (!known.is_empty()).then_some(*next_ns);
        }
        drop(told);
        self.tell_again(faces, with, now_ns, out)
    }

    #[cold]
    fn tell_again<B: PacketBuf>(
        &self,
        faces: &Faces<R>,
        with: Announcing<'_>,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) -> Option<u64> {
        // Asked with no lock held: the home may take one of its own to answer.
        let is_busy = out.tier().is_some_and(|tier| tier.is_busy());
        let mut told = self.told.lock();
        told.faces.retain(|face| faces.is_registered(*face));
        told.next_ns = now_ns.saturating_add(self.interval_ns);
        let known = if is_busy { told.faces.clone() } else { core::mem::take(&mut told.faces) };
        let next_ns = (!told.faces.is_empty()).then_some(told.next_ns);
        drop(told);
        for face in known {
            if let Some(face) = faces.hold_key(face) {
                self.announce(&face, is_busy, with, out);
            }
        }
        next_ns
    }

    fn announce<B: PacketBuf>(
        &self,
        face: &FaceHold<'_>,
        is_busy: bool,
        with: Announcing<'_>,
        out: &mut impl Output<B>,
    ) {
        let lifetime_ns = self.interval_ns.saturating_mul(PERIODS);
        let name = Name::new().join_generic("localhop").join_generic("nb-cc");
        let name = name.join_generic(if is_busy { "busy" } else { "free" });
        let interest = InterestBuilder::new(name)
            .nonce(with.random.nonce())
            .lifetime_ms((lifetime_ns / 1_000_000).clamp(1, LABEL_MS_MAX))
            .hop_limit(1)
            .build();
        if let Some(packet) = B::build(interest.len(), |octets| octets.copy_from_slice(&interest)) {
            with.counters.announcements_sent.add(1);
            let headers = LpHeaders::default();
            out.send(face.id(), Outgoing { packet, headers, hop_limit: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_known_by_its_name() {
        let name: Name = "/localhop/nb-cc/busy".parse().unwrap();
        assert_eq!(name.as_name().as_bytes().strip_prefix(PREFIX), Some(BUSY));
        let name: Name = "/localhop/nb-cc/free".parse().unwrap();
        assert_eq!(name.as_name().as_bytes().strip_prefix(PREFIX), Some(FREE));
        assert!(!is_announcement("/localhop/nb".parse::<Name>().unwrap().as_name()));
    }
}

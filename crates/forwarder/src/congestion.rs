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

use crate::faces::{FaceHold, FaceKey};
use crate::forwarder::Forwarder;
use crate::packet::{Outgoing, Output, PacketBuf};
use crate::tier::Tier;

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
pub(crate) struct Told {
    faces: Vec<FaceKey>,
    next_ns: u64,
}

/// Who marks Data that comes from the tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TierMarking {
    /// Nobody.
    Never,
    /// A router whose tier has as many pending requests as its threshold says.
    Threshold,
    /// The same, but only if no upstream is left to which it could pass its load (NB-Cache's lazy
    /// notification).
    #[default]
    Lazy,
}

impl TierMarking {
    /// Returns true if Data is to be marked, when the tier `is_busy` and there is an upstream that
    /// has not announced congestion, or not.
    pub(crate) fn marks(self, is_busy: bool, may_bypass: impl FnOnce() -> bool) -> bool {
        match self {
            TierMarking::Never => false,
            TierMarking::Threshold => is_busy,
            TierMarking::Lazy => is_busy && !may_bypass(),
        }
    }
}

/// Returns true if an Interest of this name is an announcement.
#[inline]
pub(crate) fn is_announcement(name: NameRef<'_>) -> bool {
    name.as_bytes().starts_with(PREFIX)
}

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Labels the face that an announcement came from. One that came from an application, or from a
    /// link with several peers, says nothing of where Interests go.
    #[cold]
    pub(crate) fn hear(&self, ingress: &FaceHold<'_>, view: &InterestView<'_>, now_ns: u64) {
        let counters = &self.cs.tier;
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

    /// The tier had too much to do when an Interest of `downstream` came: so that is told, now and
    /// until it is over.
    #[cold]
    pub(crate) fn tell_of_congestion(
        &self,
        downstream: &FaceHold<'_>,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) {
        if self.config.cs_announce_ns == 0
            || downstream.is_local()
            || downstream.link_type() != LinkType::PointToPoint
        {
            return;
        }
        let mut told = self.told.lock();
        if told.faces.contains(&downstream.key()) {
            return;
        }
        if told.faces.len() >= TOLD_FACES_MAX {
            drop(told);
            return self.cs.tier.announcements_full.add(1);
        }
        if told.faces.is_empty() {
            told.next_ns = now_ns.saturating_add(self.config.cs_announce_ns);
        }
        if told.faces.try_reserve(1).is_err() {
            drop(told);
            return self.cs.tier.announcements_full.add(1);
        }
        told.faces.push(downstream.key());
        drop(told);
        self.announce(downstream, true, out);
    }

    /// Tells neighbours again, or that it is over; returns when to do so next.
    pub(crate) fn announce_due(&self, now_ns: u64, out: &mut impl Output<B>) -> Option<u64> {
        let told = self.told.lock();
        let Told { faces, next_ns } = &*told;
        if faces.is_empty() || now_ns < *next_ns {
            return (!faces.is_empty()).then_some(*next_ns);
        }
        drop(told);
        self.announce_again(now_ns, out)
    }

    #[cold]
    fn announce_again(&self, now_ns: u64, out: &mut impl Output<B>) -> Option<u64> {
        let is_busy = out.tier().is_some_and(|tier| tier.is_busy());
        let mut told = self.told.lock();
        told.faces.retain(|face| self.faces.is_registered(*face));
        told.next_ns = now_ns.saturating_add(self.config.cs_announce_ns);
        let faces = if is_busy { told.faces.clone() } else { core::mem::take(&mut told.faces) };
        let next_ns = (!told.faces.is_empty()).then_some(told.next_ns);
        drop(told);
        for face in faces {
            if let Some(face) = self.faces.hold_key(face) {
                self.announce(&face, is_busy, out);
            }
        }
        next_ns
    }

    fn announce(&self, face: &FaceHold<'_>, is_busy: bool, out: &mut impl Output<B>) {
        let lifetime_ns = self.config.cs_announce_ns.saturating_mul(PERIODS);
        let name = Name::new().join_generic("localhop").join_generic("nb-cc");
        let name = name.join_generic(if is_busy { "busy" } else { "free" });
        let interest = InterestBuilder::new(name)
            .nonce(self.next_nonce())
            .lifetime_ms((lifetime_ns / 1_000_000).clamp(1, LABEL_MS_MAX))
            .hop_limit(1)
            .build();
        if let Some(packet) = B::build(interest.len(), |octets| octets.copy_from_slice(&interest)) {
            self.cs.tier.announcements_sent.add(1);
            let headers = LpHeaders::default();
            out.send(face.id(), Outgoing { packet, headers, hop_limit: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_marked_by_the_truth_table_of_nb_cache() {
        let marks = |rule: TierMarking| {
            [(false, true), (false, false), (true, true), (true, false)]
                .map(|(is_busy, may_bypass)| rule.marks(is_busy, || may_bypass))
        };
        assert_eq!(marks(TierMarking::Lazy), [false, false, false, true]);
        assert_eq!(marks(TierMarking::Threshold), [false, false, true, true]);
        assert_eq!(marks(TierMarking::Never), [false; 4]);
        assert_eq!(TierMarking::default(), TierMarking::Lazy);
    }

    #[test]
    fn an_announcement_is_known_by_its_name() {
        let name: Name = "/localhop/nb-cc/busy".parse().unwrap();
        assert_eq!(name.as_name().as_bytes().strip_prefix(PREFIX), Some(BUSY));
        let name: Name = "/localhop/nb-cc/free".parse().unwrap();
        assert_eq!(name.as_name().as_bytes().strip_prefix(PREFIX), Some(FREE));
        assert!(!is_announcement("/localhop/nb".parse::<Name>().unwrap().as_name()));
    }
}

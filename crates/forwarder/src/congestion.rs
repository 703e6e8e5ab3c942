//! Announcements of tier load between neighbors, after NB-Cache (its section III-E). A router whose
//! tier is overloaded announces it to the neighbors that send it Interests, repeatedly while the
//! overload lasts, and announces its end once. A neighbor that receives the announcement labels the
//! face for the announced time, and moves its own load to other faces, or marks Data when there is
//! none.
//!
//! An announcement is an Interest that requests no Data: `/localhop/nb-cc/busy` or
//! `/localhop/nb-cc/free`, with HopLimit 1. Its InterestLifetime is the time that the label lasts.
//! A router without support for it has no route for it and drops it.
//!
//! A peer that can send on a neighbor's link can label that link and no other. It gains nothing by
//! that, because it could also drop the packets that are sent there. Labels are soft state: one
//! that is not renewed ends by itself.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_messages::LinkType;
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

/// Duration of a label, in intervals between announcements. A label outlasts the loss of all but
/// one of this number of announcements in a row.
const PERIODS: u64 = 3;

/// Time that one announcement of congestion labels a face.
///
/// # Limit
/// The label ends.
/// - Tests:
///   `a_congestion_label_ends_at_its_limit`
pub const LABEL_MS_MAX: u64 = 10_000;

/// Neighbors that receive announcements of congestion.
///
/// # Limit
/// A further neighbor receives none.
/// - Counter: `congestion_untold`
/// - Tests: `busy_announcements_past_the_limit_are_counted`
pub const NOTIFIED_FACES_MAX: usize = 256;

/// The neighbors that have received an announcement, and the time of the next one.
#[derive(Default)]
struct NotifiedFaces {
    faces: Vec<FaceKey>,
    next_ns: u64,
}

/// Returns true if an Interest of this name is an announcement.
#[inline]
pub(crate) fn is_announcement(name: NameRef<'_>) -> bool {
    name.as_bytes().starts_with(PREFIX)
}

/// Labels the face that an announcement came from. An announcement from an application, or on a
/// link with several peers, is refused: it does not identify a next hop.
#[cold]
pub(crate) fn receive(counters: &TierCounters, ingress: &FaceHold<'_>, view: &InterestView<'_>, now_ns: u64) {
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

/// The announcements of this router's tier load to its neighbors.
pub(crate) struct Announcements<R> {
    /// The interval of announcements, ns; 0: never.
    interval_ns: u64,
    /// Locked with no other lock held.
    notified: LeafLock<R, NotifiedFaces>,
}

/// Counters and random numbers for an announcement.
#[derive(Clone, Copy)]
pub(crate) struct AnnouncementContext<'t> {
    pub(crate) counters: &'t TierCounters,
    pub(crate) random: &'t Random,
}

impl<R: RawMutex> Announcements<R> {
    pub(crate) fn new(interval_ns: u64) -> Self {
        Announcements { interval_ns, notified: LeafLock::new(NotifiedFaces::default()) }
    }

    /// Announces that the tier was overloaded when an Interest from `downstream` arrived.
    /// Announcements repeat until the overload ends.
    #[cold]
    pub(crate) fn notify<B: PacketBuf>(
        &self,
        downstream: &FaceHold<'_>,
        with: AnnouncementContext<'_>,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) {
        if self.interval_ns == 0 || downstream.is_local() || downstream.link_type() != LinkType::PointToPoint
        {
            return;
        }
        let mut notified = self.notified.lock();
        if notified.faces.contains(&downstream.key()) {
            return;
        }
        if notified.faces.len() >= NOTIFIED_FACES_MAX {
            drop(notified);
            return with.counters.announcements_full.add(1);
        }
        if notified.faces.is_empty() {
            notified.next_ns = now_ns.saturating_add(self.interval_ns);
        }
        // Counted as a full list, because the neighbor misses the announcements in both cases.
        if notified.faces.try_reserve(1).is_err() {
            drop(notified);
            return with.counters.announcements_full.add(1);
        }
        notified.faces.push(downstream.key());
        // The lock is released first, because the embedder may call back from `Output::send`.
        drop(notified);
        self.announce(downstream, true, with, out);
    }

    /// Repeats the announcement to neighbors, or announces the end; returns the time of the next
    /// call.
    pub(crate) fn announce_due<B: PacketBuf>(
        &self,
        faces: &Faces<R>,
        with: AnnouncementContext<'_>,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) -> Option<u64> {
        let notified = self.notified.lock();
        let NotifiedFaces { faces: known, next_ns } = &*notified;
        if known.is_empty() || now_ns < *next_ns {
            return (!known.is_empty()).then_some(*next_ns);
        }
        drop(notified);
        self.repeat_announcement(faces, with, now_ns, out)
    }

    #[cold]
    fn repeat_announcement<B: PacketBuf>(
        &self,
        faces: &Faces<R>,
        with: AnnouncementContext<'_>,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) -> Option<u64> {
        // Called with no lock held: the embedder may take a lock of its own to answer.
        let is_busy = out.tier().is_some_and(|tier| tier.is_busy());
        let mut notified = self.notified.lock();
        // Another worker may have announced since the caller released the lock.
        if now_ns < notified.next_ns {
            return (!notified.faces.is_empty()).then_some(notified.next_ns);
        }
        notified.faces.retain(|face| faces.is_registered(*face));
        notified.next_ns = now_ns.saturating_add(self.interval_ns);
        // A copy, because packets are sent with no lock held.
        let known = if is_busy { notified.faces.clone() } else { core::mem::take(&mut notified.faces) };
        let next_ns = (!notified.faces.is_empty()).then_some(notified.next_ns);
        drop(notified);
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
        with: AnnouncementContext<'_>,
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
    fn congestion_announcements_are_recognized_by_name() {
        let name: Name = "/localhop/nb-cc/busy".parse().unwrap();
        assert_eq!(name.as_name().as_bytes().strip_prefix(PREFIX), Some(BUSY));
        let name: Name = "/localhop/nb-cc/free".parse().unwrap();
        assert_eq!(name.as_name().as_bytes().strip_prefix(PREFIX), Some(FREE));
        assert!(!is_announcement("/localhop/nb".parse::<Name>().unwrap().as_name()));
    }
}

//! PrefixAnnouncements (NDNLPv2) of the packets that a worker is processing. An announcement is
//! forwarded with the packet that carried it, and is reported with the route learned from that
//! packet. It is not verified here.

use namely_link::ANNOUNCEMENT_OCTETS_MAX;

use crate::Packet;

/// Announcements that a worker retains while it forwards a batch.
///
/// # Limit
/// The announcement is dropped, and its Data is forwarded without it.
/// - Counter: `announcement_dropped`
/// - Tests: `announcements_past_their_limits_are_dropped`
const ANNOUNCEMENTS_OF_A_BATCH_MAX: usize = 64;

/// Packets with their announcements, until the batch has been forwarded.
#[derive(Debug, Default)]
pub(super) struct PendingAnnouncements(Vec<(Packet, Vec<u8>)>);

impl PendingAnnouncements {
    /// Retains the announcement of a packet. Returns false if it is too long, or if the batch has
    /// too many.
    pub(super) fn keep(&mut self, packet: &Packet, announcement: &[u8]) -> bool {
        let fits =
            announcement.len() <= ANNOUNCEMENT_OCTETS_MAX && self.0.len() < ANNOUNCEMENTS_OF_A_BATCH_MAX;
        if fits {
            // The clone keeps the buffer, so that no other packet has its address during the batch.
            self.0.push((packet.clone(), announcement.to_vec()));
        }
        fits
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the announcement of the packet with these octets. Packets are compared by address,
    /// not by content.
    pub(super) fn with(&self, packet: &[u8]) -> Option<&[u8]> {
        let found = self.0.iter().find(|(own, _)| own.as_ptr() == packet.as_ptr());
        found.map(|(_, announcement)| announcement.as_slice())
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_stays_with_its_packet() {
        let mut announced = PendingAnnouncements::default();
        let [with, without] = [(); 2].map(|()| Packet::from(vec![6; 200]));
        assert!(announced.keep(&with, b"a"));
        assert_eq!(announced.with(&with.clone()), Some(&b"a"[..]));
        assert_eq!(announced.with(&without), None);
        announced.clear();
        assert!(announced.is_empty() && announced.with(&with).is_none());
    }

    #[test]
    fn announcements_past_their_limits_are_dropped() {
        let mut announced = PendingAnnouncements::default();
        let packet = Packet::from(vec![6; 200]);
        assert!(!announced.keep(&packet, &[0; ANNOUNCEMENT_OCTETS_MAX + 1]));
        for _ in 0..ANNOUNCEMENTS_OF_A_BATCH_MAX {
            assert!(announced.keep(&packet, &[0; ANNOUNCEMENT_OCTETS_MAX]));
        }
        assert!(!announced.keep(&packet, b"a"));
    }
}

//! PrefixAnnouncements (NDNLPv2) of the packets that a worker has at hand: they go on with the very
//! packet that they came with, and are shown with the route that it teaches. Nobody believes them
//! here.

use namely_link::ANNOUNCEMENT_OCTETS_MAX;

use crate::Packet;

/// Announcements that are kept while a worker forwards the packets that it has read.
const ANNOUNCEMENTS_OF_A_BATCH_MAX: usize = 64;

/// Packets with their announcements, until the batch has been forwarded.
#[derive(Debug, Default)]
pub(super) struct Announced(Vec<(Packet, Vec<u8>)>);

impl Announced {
    /// Keeps what came with a packet. False if it is too long, or one too many.
    pub(super) fn keep(&mut self, packet: &Packet, announcement: &[u8]) -> bool {
        let fits =
            announcement.len() <= ANNOUNCEMENT_OCTETS_MAX && self.0.len() < ANNOUNCEMENTS_OF_A_BATCH_MAX;
        if fits {
            self.0.push((packet.clone(), announcement.to_vec()));
        }
        fits
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What came with these octets: with this very packet, not with one that is equal.
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
    fn an_announcement_belongs_to_the_packet_that_it_came_with() {
        let mut announced = Announced::default();
        let [with, without] = [(); 2].map(|()| Packet::from(vec![6; 200]));
        assert!(announced.keep(&with, b"a"));
        assert_eq!(announced.with(&with.clone()), Some(&b"a"[..]));
        assert_eq!(announced.with(&without), None);
        announced.clear();
        assert!(announced.is_empty() && announced.with(&with).is_none());
    }

    #[test]
    fn announcements_are_kept_up_to_their_limits_and_one_past_them_is_dropped() {
        let mut announced = Announced::default();
        let packet = Packet::from(vec![6; 200]);
        assert!(!announced.keep(&packet, &[0; ANNOUNCEMENT_OCTETS_MAX + 1]));
        for _ in 0..ANNOUNCEMENTS_OF_A_BATCH_MAX {
            assert!(announced.keep(&packet, &[0; ANNOUNCEMENT_OCTETS_MAX]));
        }
        assert!(!announced.keep(&packet, b"a"));
    }
}

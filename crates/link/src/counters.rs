//! Reasons of drops, and their counters.

use namely_wire::DecodeError;

/// A reason to drop a frame, a fragment or a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDrop {
    /// Peer: the octets are no link packet.
    Malformed(DecodeError),
    /// Peer: a fragment on a stream, which needs no fragments.
    FragmentOnStream,
    /// Peer: a fragment without Sequence.
    FragmentWithoutSequence,
    /// Peer: FragIndex is not below FragCount.
    FragIndexOutOfRange,
    /// Peer: FragCount above [`crate::FRAGMENTS_MAX`].
    TooManyFragments,
    /// Peer: fragments of one message disagree on FragCount; the later one is dropped.
    FragCountChanged,
    /// Peer or network: a fragment that was received already.
    DuplicateFragment,
    /// Peer: more octets than a packet may have, in one piece or in fragments. Also counted for a
    /// packet to be sent that is too long for a ring of shared memory or a socket of the kernel.
    MessageTooLarge,
    /// Network: a message stayed incomplete for 500 ms.
    ReassemblyTimeout,
    /// Network or peer: the oldest incomplete message was evicted for newer fragments.
    ReassemblyEvicted,
    /// Network: a frame that the reliability service sent twice.
    DuplicateFrame,
    /// Peer: NextHopFaceId on a face where local fields are off.
    LocalFieldRefused,
    /// Peer: a field on a packet that may not carry it, such as Nack on a Data or CachePolicy on an
    /// Interest.
    MisplacedField,
    /// Environment: no memory for a fragment, whose packet is dropped, for an acknowledgement, or
    /// for a packet to be sent.
    NoMemory,
    /// Environment or peer: a received PrefixAnnouncement has more than 2048 octets, or one to be
    /// sent does not fit into the first frame of its packet. The packet continues without it.
    AnnouncementLeftOut,
    /// Environment: the MTU leaves no space after the header fields.
    MtuTooSmall,
    /// Network: a packet was dropped after three retransmissions.
    RetransmissionsExhausted,
    /// Network: a probe of the path's MTU was too long, or lost by chance. Shorter ones arrived.
    PathProbeLost,
    /// Network: the reliability service evicted its oldest unacknowledged frame, which may have
    /// arrived.
    UnackedEvicted,
    /// Network: the oldest acknowledgement that waited to be sent was evicted.
    AckEvicted,
}

/// Reasons of this crate.
const OWN: usize = 19;

const OWN_LABELS: [&str; OWN] = [
    "fragment_on_stream",
    "fragment_without_sequence",
    "frag_index_out_of_range",
    "too_many_fragments",
    "frag_count_changed",
    "duplicate_fragment",
    "message_too_large",
    "reassembly_timeout",
    "reassembly_evicted",
    "duplicate_frame",
    "local_field_refused",
    "misplaced_field",
    "mtu_too_small",
    "retransmissions_exhausted",
    "path_probe_lost",
    "unacked_evicted",
    "ack_evicted",
    "no_memory",
    "announcement_left_out",
];

impl LinkDrop {
    /// The counter name under which drops for this reason are reported.
    pub fn label(self) -> &'static str {
        label(self.number())
    }

    fn number(self) -> usize {
        match self {
            LinkDrop::FragmentOnStream => 0,
            LinkDrop::FragmentWithoutSequence => 1,
            LinkDrop::FragIndexOutOfRange => 2,
            LinkDrop::TooManyFragments => 3,
            LinkDrop::FragCountChanged => 4,
            LinkDrop::DuplicateFragment => 5,
            LinkDrop::MessageTooLarge => 6,
            LinkDrop::ReassemblyTimeout => 7,
            LinkDrop::ReassemblyEvicted => 8,
            LinkDrop::DuplicateFrame => 9,
            LinkDrop::LocalFieldRefused => 10,
            LinkDrop::MisplacedField => 11,
            LinkDrop::MtuTooSmall => 12,
            LinkDrop::RetransmissionsExhausted => 13,
            LinkDrop::PathProbeLost => 14,
            LinkDrop::UnackedEvicted => 15,
            LinkDrop::AckEvicted => 16,
            LinkDrop::NoMemory => 17,
            LinkDrop::AnnouncementLeftOut => 18,
            LinkDrop::Malformed(error) => OWN + error.number(),
        }
    }
}

fn label(number: usize) -> &'static str {
    number.checked_sub(OWN).map_or_else(|| OWN_LABELS[number], |number| DecodeError::LABELS[number])
}

/// Drops by reason. Counting allocates no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkDrops {
    counts: [u64; OWN + DecodeError::LABELS.len()],
    total: u64,
}

impl Default for LinkDrops {
    fn default() -> Self {
        LinkDrops { counts: [0; OWN + DecodeError::LABELS.len()], total: 0 }
    }
}

impl LinkDrops {
    /// Counts one drop.
    pub fn count(&mut self, drop: LinkDrop) {
        self.add(drop, 1);
    }

    /// Counts `n` drops.
    pub fn add(&mut self, drop: LinkDrop, n: u64) {
        let count = &mut self.counts[drop.number()];
        *count = count.saturating_add(n);
        self.total = self.total.saturating_add(n);
    }

    /// Returns the number of drops under this label.
    pub fn of(&self, label: &str) -> u64 {
        self.iter().find(|(known, _)| *known == label).map_or(0, |(_, n)| n)
    }

    /// Every reason with at least one drop, by its label, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(number, n)| (label(number), *n))
    }

    /// Returns true if nothing was dropped.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &LinkDrops) {
        for (count, n) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*n);
        }
        self.total = self.total.saturating_add(other.total);
    }

    /// Number of all drops.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    #[test]
    fn each_link_reason_has_its_own_count() {
        let labels: BTreeSet<_> = OWN_LABELS.iter().chain(&DecodeError::LABELS).collect();
        assert_eq!(labels.len(), OWN + DecodeError::LABELS.len());
        let mut drops = LinkDrops::default();
        assert!(drops.is_empty() && drops.of("no_memory") == 0);
        let reasons = [
            (LinkDrop::FragmentOnStream, "fragment_on_stream"),
            (LinkDrop::NoMemory, "no_memory"),
            (LinkDrop::Malformed(DecodeError::Truncated), "truncated"),
            (LinkDrop::Malformed(DecodeError::OutOfRange(7)), "out_of_range"),
        ];
        for (n, (reason, label)) in reasons.into_iter().enumerate() {
            assert_eq!(reason.label(), label);
            drops.add(reason, n as u64 + 1);
            drops.count(reason);
        }
        let counted: Vec<_> = reasons.iter().map(|(_, label)| drops.of(label)).collect();
        assert_eq!((counted, drops.total()), (Vec::from([2, 3, 4, 5]), 14));
        drops.merge(&drops.clone());
        assert_eq!((drops.of("no_memory"), drops.iter().count(), drops.total()), (6, 4, 28));
    }
}

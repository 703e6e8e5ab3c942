//! Why packets are dropped, and how often.

use alloc::collections::BTreeMap;

use namely_wire::DecodeError;

/// A reason to drop a frame, a fragment or a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDrop {
    /// Peer: the octets are no link packet.
    Malformed(DecodeError),
    /// Peer: a fragment on a stream, where nothing needs fragments.
    FragmentOnStream,
    /// Peer: a fragment without Sequence.
    FragmentWithoutSequence,
    /// Peer: FragIndex is not below FragCount.
    FragIndexOutOfRange,
    /// Peer: FragCount above [`crate::FRAGMENTS_MAX`].
    TooManyFragments,
    /// Peer: fragments of one message disagree on FragCount; the later one is dropped.
    FragCountChanged,
    /// Peer or network: a fragment that is already here.
    DuplicateFragment,
    /// Peer: more octets than a packet may have, in one piece or in fragments.
    MessageTooLarge,
    /// Network: a message stayed incomplete for too long.
    ReassemblyTimeout,
    /// Network or peer: the oldest incomplete message had to make room.
    ReassemblyEvicted,
    /// Network: a frame that the reliability service sent twice.
    DuplicateFrame,
    /// Peer: NextHopFaceId on a face where local fields are off.
    LocalFieldRefused,
    /// Peer: a field on a packet that may not carry it, such as Nack on a Data.
    MisplacedField,
    /// Environment: the MTU leaves no room behind the header fields.
    MtuTooSmall,
    /// Network: a packet was dropped after the last retransmission.
    RetransmissionsExhausted,
    /// Network: a probe of the path's MTU was too long for it, or lost by chance: shorter ones came
    /// through.
    PathProbeLost,
    /// Network: the oldest unacknowledged frame had to make room.
    UnackedEvicted,
    /// Network: the oldest acknowledgement that waited to be sent had to make room.
    AckEvicted,
}

impl LinkDrop {
    /// The counter name under which drops for this reason are reported.
    pub fn label(self) -> &'static str {
        match self {
            LinkDrop::Malformed(error) => error.label(),
            LinkDrop::FragmentOnStream => "fragment_on_stream",
            LinkDrop::FragmentWithoutSequence => "fragment_without_sequence",
            LinkDrop::FragIndexOutOfRange => "frag_index_out_of_range",
            LinkDrop::TooManyFragments => "too_many_fragments",
            LinkDrop::FragCountChanged => "frag_count_changed",
            LinkDrop::DuplicateFragment => "duplicate_fragment",
            LinkDrop::MessageTooLarge => "message_too_large",
            LinkDrop::ReassemblyTimeout => "reassembly_timeout",
            LinkDrop::ReassemblyEvicted => "reassembly_evicted",
            LinkDrop::DuplicateFrame => "duplicate_frame",
            LinkDrop::LocalFieldRefused => "local_field_refused",
            LinkDrop::MisplacedField => "misplaced_field",
            LinkDrop::MtuTooSmall => "mtu_too_small",
            LinkDrop::RetransmissionsExhausted => "retransmissions_exhausted",
            LinkDrop::PathProbeLost => "path_probe_lost",
            LinkDrop::UnackedEvicted => "unacked_evicted",
            LinkDrop::AckEvicted => "ack_evicted",
        }
    }
}

/// Drops by label. Labels are constants of the program, so this stays small whatever a peer sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropCounters {
    counts: BTreeMap<&'static str, u64>,
}

impl DropCounters {
    /// Counts one drop.
    pub fn count(&mut self, label: &'static str) {
        self.add(label, 1);
    }

    /// Counts `n` drops.
    pub fn add(&mut self, label: &'static str, n: u64) {
        let count = self.counts.entry(label).or_default();
        *count = count.saturating_add(n);
    }

    /// How many were dropped for this reason.
    pub fn of(&self, label: &str) -> u64 {
        self.counts.get(label).copied().unwrap_or(0)
    }

    /// Every reason that occurred, with its count, in the order of labels.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(label, n)| (*label, *n))
    }

    /// Returns true if nothing was dropped.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &DropCounters) {
        other.iter().for_each(|(label, n)| self.add(label, n));
    }

    /// Everything that was dropped.
    pub fn total(&self) -> u64 {
        self.counts.values().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

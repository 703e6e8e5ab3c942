//! A pending Interest: its one packet, its downstreams and its upstreams.

use namely_wire::{NackReason, NameRef, PitToken};

use crate::face_id::FaceKey;
use crate::inline_vec::InlineVec;
use crate::interest_key::InterestKey;
use crate::strategy::memory_id::MemoryId;

/// A run of octets in the entry's packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    start: u16,
    end: u16,
}

impl Span {
    /// The position of `part`, a slice of `whole`. Positions in a packet fit 16 bits: see `hash`.
    pub(crate) fn of(whole: &[u8], part: &[u8]) -> Self {
        // Wrapping, so that a part of another buffer does not panic here. Its span is wrong, and
        // `slice` checks it.
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        Span { start: start as u16, end: (start + part.len()) as u16 }
    }

    pub(crate) fn slice<'a>(&self, whole: &'a [u8]) -> &'a [u8] {
        whole.get(usize::from(self.start)..usize::from(self.end)).unwrap_or(&[])
    }
}

/// A downstream: a face that sent the Interest and waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InRecord {
    pub(crate) face: FaceKey,
    /// The Nonce of its latest Interest.
    pub(crate) nonce: [u8; 4],
    /// The PIT token that its answer must carry.
    pub(crate) token: Option<PitToken>,
    pub(crate) expires_at_ns: u64,
}

/// An upstream: a face that the Interest was sent to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutRecord {
    pub(crate) face: FaceKey,
    /// The Nonce of the latest transmission.
    pub(crate) nonce: [u8; 4],
    pub(crate) sent_at_ns: u64,
    pub(crate) expires_at_ns: u64,
    /// Retransmissions within this time after `sent_at_ns` are suppressed, ns; 0 until the first
    /// one.
    pub(crate) suppression_ns: u32,
    /// The Nack with which the face answered.
    pub(crate) nack: Option<NackReason>,
}

impl OutRecord {
    /// Returns true if an answer may still arrive.
    pub(crate) fn is_pending(&self, now_ns: u64) -> bool {
        self.nack.is_none() && self.expires_at_ns >= now_ns
    }
}

pub(crate) type InRecords = InlineVec<InRecord, 1>;
pub(crate) type OutRecords = InlineVec<OutRecord, 1>;

/// One pending Interest. Its name is never copied: it is a slice of the packet.
#[derive(Debug)]
pub(crate) struct PitEntry<B> {
    /// Components of the name that the hash covers: all but a trailing implicit digest.
    pub(super) components: u8,
    /// The stripe that lends storage for more than one record.
    pub(super) stripe: u8,
    name: Span,
    hint: Span,
    flags: Flags,
    /// The state of the tier's read for this Interest.
    pub(crate) reading: Reading,
    /// The only Interest packet that the entry stores (`IS-27`).
    pub(crate) packet: B,
    pub(crate) in_records: InRecords,
    pub(crate) out_records: OutRecords,
    /// As [`OutRecord::suppression_ns`], for the entry as a whole.
    pub(crate) suppression_ns: u32,
    pub(crate) expires_at_ns: u64,
    /// The strategy's memory of the prefix, if the strategy follows the Interest after it was sent.
    pub(crate) memory: MemoryId,
}

/// The state of a pending Interest in the tier below the content store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The tier was not queried.
    NotQueried,
    /// The Interest is parked: it was not sent, because the tier may read its Data. These headers
    /// are needed if it is sent after all.
    Parked { is_marked: bool, non_discovery: bool },
    /// The Interest is forwarded, or was forwarded, without the tier.
    Bypassed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flags {
    can_be_prefix: bool,
    must_be_fresh: bool,
    /// The name ends in an implicit digest.
    digest: bool,
}

impl Flags {
    fn of(interest: &InterestKey<'_>) -> Self {
        Flags {
            can_be_prefix: interest.view.can_be_prefix,
            must_be_fresh: interest.view.must_be_fresh,
            digest: interest.digest.is_some(),
        }
    }
}

impl<B: AsRef<[u8]>> PitEntry<B> {
    /// An entry for `packet`, the Interest that `interest` views, with its first downstream.
    pub(super) fn new(packet: B, interest: &InterestKey<'_>, record: InRecord, stripe: u8) -> Self {
        let view = interest.view;
        PitEntry {
            // `COMPONENTS_MAX` fits eight bits.
            components: interest.components as u8,
            stripe,
            name: Span::of(view.wire, view.name.as_bytes()),
            hint: view.forwarding_hint_value.map(|hint| Span::of(view.wire, hint)).unwrap_or_default(),
            flags: Flags::of(interest),
            reading: Reading::NotQueried,
            packet,
            in_records: InlineVec::of(record),
            out_records: InlineVec::new(),
            suppression_ns: 0,
            expires_at_ns: record.expires_at_ns,
            memory: MemoryId::NONE,
        }
    }

    /// The octets of the name.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.slice(self.packet.as_ref())
    }

    /// Components of the name, not counting a trailing implicit digest.
    pub(crate) fn components(&self) -> usize {
        usize::from(self.components)
    }

    /// The octets of the name without a trailing implicit digest.
    pub(crate) fn name_without_digest(&self) -> &[u8] {
        let name = self.name();
        // TYPE, LENGTH and 32 octets.
        &name[..name.len() - if self.flags.digest { 34.min(name.len()) } else { 0 }]
    }

    pub(crate) fn can_be_prefix(&self) -> bool {
        self.flags.can_be_prefix
    }

    pub(crate) fn must_be_fresh(&self) -> bool {
        self.flags.must_be_fresh
    }

    /// The implicit digest that ends the name.
    pub(crate) fn digest(&self) -> Option<&[u8]> {
        let name = self.name();
        self.flags.digest.then(|| &name[name.len().saturating_sub(32)..])
    }

    /// Returns true if `interest` requests the same: name, selectors and forwarding hint.
    pub(crate) fn is_same_as(&self, interest: &InterestKey<'_>) -> bool {
        self.has_name_and_selectors(interest)
            && self.hint.slice(self.packet.as_ref()) == interest.view.forwarding_hint_value.unwrap_or(&[])
    }

    /// Returns true if `interest` has the same name and selectors.
    pub(super) fn has_name_and_selectors(&self, interest: &InterestKey<'_>) -> bool {
        self.flags == Flags::of(interest) && self.name() == interest.view.name.as_bytes()
    }

    /// Returns true if the Interest was sent to `face`, which may therefore answer.
    #[inline]
    pub(super) fn was_sent_to(&self, face: FaceKey) -> bool {
        // In nearly all calls the first one, which is stored inline.
        self.out_records.get(0).is_some_and(|record| record.face == face)
            || self.out_records.iter().any(|record| record.face == face)
    }

    /// Returns true if Data named `name` of `components` components satisfies the entry, apart from
    /// the digest that it may request. Called for entries whose hash is that of a prefix of `name`.
    pub(crate) fn may_match(&self, name: NameRef<'_>, components: usize) -> bool {
        let covered = usize::from(self.components);
        if self.flags.digest {
            // TYPE, LENGTH and 32 octets of digest follow the Data's name.
            let (own, name) = (self.name(), name.as_bytes());
            return covered == components && own.len() == name.len() + 34 && own.starts_with(name);
        }
        if covered == components {
            return self.name() == name.as_bytes();
        }
        self.flags.can_be_prefix && name.as_bytes().starts_with(self.name())
    }
}

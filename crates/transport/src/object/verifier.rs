//! SegmentVerifier the pieces of an object, in their order: a manifest comes before what it lists.

use std::collections::VecDeque;

use namely_host::clock::unix_ns;
use namely_security::{
    PacketOctets, Preparation, Prepared, Rejection, RejectionReason, SegmentFault, TrustReason, Verdict,
    Verified, VerifiedManifest, Verifier, manifest_name,
};
use namely_wire::{ContentType, Name};

use super::layout::{Layout, Piece};
use super::{Object, ObjectError, Part, SignatureMode};
use crate::fetch::Failure;

/// How often one piece may come and be wrong before the fetch fails: a damaged copy in a cache is
/// worked around, a producer that makes wrong packets is not.
const CORRUPT_MAX: u32 = 2 + super::descriptor::PAUSES_MAX;

/// Manifests kept: those of the group under way and of the next one, and a spare.
const MANIFESTS_MAX: usize = 3;

/// What becomes of a segment that is not what it should be (HT-20).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBadSegment {
    /// It is requested again, three times in all.
    #[default]
    Refetch,
    /// It is handed over all the same, as unverified. A manifest never is.
    Accept,
    /// The fetch fails.
    Abort,
}

/// What a piece turned out to be.
#[derive(Debug)]
pub enum Checked<B: PacketOctets> {
    /// A segment that is believed.
    Segment {
        /// Its number.
        segment: u64,
        /// The segment.
        data: Verified<B>,
        /// The last segment's number, if nobody knew it before.
        last: Option<u64>,
    },
    /// A segment that is not believed, and is to be used anyway.
    Unverified {
        /// Its number.
        segment: u64,
        /// The packet.
        data: Vec<u8>,
    },
    /// A manifest, and why it is believed; it is kept here.
    Manifest(TrustReason),
    /// Not what it should be: it is to be asked for again, once the router knows which Data that
    /// was.
    Corrupt(Option<Name>),
    /// To be checked again once this certificate was supplied.
    Need {
        /// The name of the certificate or key.
        certificate: Name,
        /// The piece, given back.
        data: B,
    },
    /// Nothing further can be believed.
    Failed(ObjectError),
}

/// Decides which pieces of one object are believed.
#[derive(Debug)]
pub struct SegmentVerifier {
    object: Name,
    signature_mode: SignatureMode,
    segments: Option<u64>,
    manifest_entries: u64,
    layout: Layout,
    on_bad: OnBadSegment,
    known: VecDeque<VerifiedManifest>,
    preparation: Option<Preparation>,
    /// Why the last segment that has a signature of its own is believed.
    reason: Option<TrustReason>,
    /// The piece that came wrong last, and how often.
    corrupt: Option<(u64, u32)>,
    /// The metadata is believed.
    is_vouched_for: bool,
    /// A segment named the last one.
    knows_last: bool,
}

impl SegmentVerifier {
    /// Verifies `parts` of `object`, each of which begins behind the end of the one before.
    pub fn new(object: &Object, parts: &[Part], on_bad: OnBadSegment) -> Self {
        SegmentVerifier {
            object: object.name.clone(),
            signature_mode: object.signature_mode,
            segments: object.segments,
            manifest_entries: object.manifest_entries,
            layout: Layout::of(object, parts),
            on_bad,
            known: VecDeque::new(),
            preparation: None,
            reason: None,
            corrupt: None,
            is_vouched_for: object.reason.is_some(),
            knows_last: false,
        }
    }

    /// The number after that of the last piece, if the end of what is read is known.
    pub fn end(&self) -> Option<u64> {
        Some(self.layout.end(self.segments)?.max(self.first()))
    }

    /// The number of the first piece.
    pub fn first(&self) -> u64 {
        self.layout.first()
    }

    /// The name of the segment that piece `number` is; none if it is a manifest.
    pub fn segment_name(&self, number: u64) -> Option<Name> {
        match self.layout.piece(number) {
            Piece::Segment(segment) => Some(self.object.join_segment(segment)),
            Piece::Manifest(_) => None,
        }
    }

    /// What can be done ahead of pieces that are still to be checked, as far as those say that
    /// were.
    pub fn preparation(&self) -> Option<&Preparation> {
        self.preparation.as_ref()
    }

    /// Checks piece `number`, under manifests the one after the last that was believed.
    pub fn check<B: PacketOctets>(
        &mut self,
        number: u64,
        data: Prepared<B>,
        verifier: &mut Verifier,
    ) -> Checked<B> {
        match (self.layout.piece(number), self.signature_mode) {
            (Piece::Manifest(_), _) => self.check_manifest(number, data, verifier),
            (Piece::Segment(segment), SignatureMode::Manifests) => self.check_listed(number, segment, data),
            (Piece::Segment(segment), SignatureMode::Segments) => {
                self.check_signed(number, segment, data, verifier)
            }
        }
    }

    fn check_manifest<B: PacketOctets>(
        &mut self,
        number: u64,
        data: Prepared<B>,
        verifier: &mut Verifier,
    ) -> Checked<B> {
        let verified = match verifier.verify_prepared(data, unix_ns()) {
            Verdict::Verified(verified) => verified,
            Verdict::NeedCertificate(needed) => {
                return Checked::Need { certificate: needed.certificate, data: needed.data };
            }
            Verdict::Rejected(rejection) => return self.rejected(number, None, rejection),
        };
        match VerifiedManifest::open_of_at_most(self.manifest_entries, &verified) {
            Ok(manifest) => {
                if self.known.len() == MANIFESTS_MAX {
                    self.known.pop_front();
                }
                self.preparation = Some(Preparation::Digests(manifest.hash()));
                self.known.push_back(manifest);
                Checked::Manifest(verified.reason().clone())
            }
            Err(error) => Checked::Failed(ObjectError::Manifest { name: verified.name().to_name(), error }),
        }
    }

    fn check_listed<B: PacketOctets>(&mut self, number: u64, segment: u64, data: Prepared<B>) -> Checked<B> {
        let Some(manifest) = self.known.iter().find(|manifest| manifest.covers(segment)) else {
            // The layout puts each manifest before its segments.
            let name = manifest_name(self.object.as_name(), segment / self.manifest_entries);
            return Checked::Failed(ObjectError::NoAnswer { name });
        };
        let copy = self.copy_to_accept(data.packet());
        match manifest.verify_prepared(data) {
            Ok(verified) => self.believe(segment, verified),
            Err(rejection) => {
                let damaged = matches!(rejection.why, SegmentFault::BadDigest | SegmentFault::Malformed(_));
                self.bad(number, copy.map(|data| (segment, data)), damaged, ObjectError::Corrupt(rejection))
            }
        }
    }

    fn check_signed<B: PacketOctets>(
        &mut self,
        number: u64,
        segment: u64,
        data: Prepared<B>,
        verifier: &mut Verifier,
    ) -> Checked<B> {
        let copy = self.copy_to_accept(data.packet());
        match verifier.verify_prepared(data, unix_ns()) {
            Verdict::Verified(verified) if verified.content_type() == ContentType::Nack => {
                Checked::Failed(ObjectError::NotFound { name: verified.name().to_name() })
            }
            Verdict::Verified(verified) => {
                self.learn(verified.reason(), verifier);
                self.believe(segment, verified)
            }
            Verdict::NeedCertificate(needed) => {
                Checked::Need { certificate: needed.certificate, data: needed.data }
            }
            Verdict::Rejected(rejection) => {
                self.rejected(number, copy.map(|data| (segment, data)), rejection)
            }
        }
    }

    /// Segments to come are likely believed for the same reason as the last.
    fn learn(&mut self, reason: &TrustReason, verifier: &Verifier) {
        if self.reason.as_ref() != Some(reason) {
            self.preparation = verifier.preparation(reason);
            self.reason = Some(reason.clone());
        }
    }

    /// A verifier does not give back what it rejects.
    fn copy_to_accept<B: PacketOctets>(&self, data: &B) -> Option<Vec<u8>> {
        (self.on_bad == OnBadSegment::Accept).then(|| data.as_ref().to_vec())
    }

    fn rejected<B: PacketOctets>(
        &mut self,
        number: u64,
        accepted: Option<(u64, Vec<u8>)>,
        rejection: Rejection,
    ) -> Checked<B> {
        // Of an object whose metadata is believed somebody else's pieces are no better than
        // damaged.
        let damaged = match self.is_vouched_for {
            true => rejection.may_be_anothers(),
            false => matches!(
                rejection.why,
                RejectionReason::BadSignature | RejectionReason::BadDigest | RejectionReason::Malformed(_)
            ),
        };
        self.bad(number, accepted, damaged, ObjectError::Untrusted(rejection))
    }

    /// What becomes of a piece that is not believed: if it is damaged, another copy may be better,
    /// unless that was tried often enough.
    fn bad<B: PacketOctets>(
        &mut self,
        number: u64,
        accepted: Option<(u64, Vec<u8>)>,
        damaged: bool,
        error: ObjectError,
    ) -> Checked<B> {
        if let Some((segment, data)) = accepted {
            return Checked::Unverified { segment, data };
        }
        let times = match self.corrupt {
            Some((again, times)) if again == number => times + 1,
            _ => 1,
        };
        self.corrupt = Some((number, times));
        let is_final = times >= CORRUPT_MAX || self.on_bad == OnBadSegment::Abort;
        if is_final || !damaged { Checked::Failed(error) } else { Checked::Corrupt(error.refused_data()) }
    }

    fn believe<B: PacketOctets>(&mut self, segment: u64, data: Verified<B>) -> Checked<B> {
        // What is the last segment is believed of verified ones only.
        let due = self.segments.is_none() || !self.knows_last;
        let last = if due { data.final_block_id().and_then(|last| last.segment()) } else { None };
        self.knows_last = true;
        let Some(last) = last else { return Checked::Segment { segment, data, last: None } };
        let claimed = last.saturating_add(1);
        match self.segments {
            Some(known) if known != claimed => {
                let failure = Failure::EndMoved { known, claimed };
                Checked::Failed(ObjectError::Fetch { name: self.object.clone(), failure })
            }
            Some(_) => Checked::Segment { segment, data, last: None },
            None => {
                self.segments = Some(claimed);
                Checked::Segment { segment, data, last: Some(last) }
            }
        }
    }
}

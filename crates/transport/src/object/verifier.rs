//! Verifies the pieces of an object in order: a manifest precedes the segments that it lists.

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

/// Corrupt copies of one piece of an object.
///
/// A fetch bypasses a damaged copy in a cache this way, but not a producer of corrupt packets.
///
/// # Limit
/// The fetch fails and names the piece and its signer.
/// - Value: 6
/// - Counter: `corrupt`
/// - Tests: `a_damaged_segment_is_fetched_again`
const CORRUPT_MAX: u32 = 2 + super::descriptor::PAUSES_MAX;

/// Maximum number of retained manifests: those of the present and of the next group, and one more.
const MANIFESTS_MAX: usize = 3;

/// The treatment of a segment that fails verification (HT-20).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBadSegment {
    /// It is requested again. The sixth corrupt copy ends the fetch.
    #[default]
    Refetch,
    /// It is handed over as unverified. A manifest never is.
    Accept,
    /// The fetch fails.
    Abort,
}

/// The result of checking a piece.
#[derive(Debug)]
pub enum PieceOutcome<B: PacketOctets> {
    /// A verified segment.
    Segment {
        /// Its number.
        segment: u64,
        /// The segment.
        data: Verified<B>,
        /// The last segment's number, if it was unknown before.
        last: Option<u64>,
    },
    /// A segment that failed verification, but is accepted anyway.
    Unverified {
        /// Its number.
        segment: u64,
        /// The packet.
        data: Vec<u8>,
    },
    /// A verified manifest. The verifier retains its list.
    Manifest(Verified<B>),
    /// A corrupt piece. The caller reports the named Data to the router and requests the piece
    /// again.
    Corrupt(Option<Name>),
    /// The caller must supply this certificate and then check the piece again.
    Need {
        /// The name of the certificate or key.
        certificate: Name,
        /// The piece, returned to the caller.
        data: B,
    },
    /// No further piece can be verified.
    Failed(ObjectError),
}

/// Verifies the pieces of one object.
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
    /// The reason for which the last segment with a signature of its own is trusted.
    reason: Option<TrustReason>,
    /// The last corrupt piece, and the number of its corrupt copies.
    corrupt: Option<(u64, u32)>,
    /// Whether the metadata is verified.
    is_vouched_for: bool,
    /// Whether the FinalBlockId of a verified segment was already read. If the length is known,
    /// only the first one is compared with it.
    knows_last: bool,
}

impl SegmentVerifier {
    /// Verifies `parts` of `object`. Each part begins after the end of the previous one.
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

    /// The number after the last piece, if the end of the parts is known.
    pub fn end(&self) -> Option<u64> {
        Some(self.layout.end(self.segments)?.max(self.first()))
    }

    /// The number of the first piece.
    pub fn first(&self) -> u64 {
        self.layout.first()
    }

    /// The name of the segment with piece number `number`; none if it is a manifest.
    pub fn segment_name(&self, number: u64) -> Option<Name> {
        match self.layout.piece(number) {
            Piece::Segment(segment) => Some(self.object.join_segment(segment)),
            Piece::Manifest(_) => None,
        }
    }

    /// The part of the verification of further pieces that can be done in advance. It is derived
    /// from the pieces so far.
    pub fn preparation(&self) -> Option<&Preparation> {
        self.preparation.as_ref()
    }

    /// Checks piece `number`. Under manifests it must follow the last accepted piece.
    pub fn check<B: PacketOctets>(
        &mut self,
        number: u64,
        data: Prepared<B>,
        verifier: &mut Verifier,
    ) -> PieceOutcome<B> {
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
    ) -> PieceOutcome<B> {
        let verified = match verifier.verify_prepared(data, unix_ns()) {
            Verdict::Verified(verified) => verified,
            Verdict::NeedCertificate(needed) => {
                return PieceOutcome::Need { certificate: needed.certificate, data: needed.data };
            }
            // A manifest is never accepted unverified, because it authenticates a whole group.
            Verdict::Rejected(rejection) => return self.rejected(number, None, rejection),
        };
        // A manifest with more entries than announced would shift the numbers of all later pieces.
        match VerifiedManifest::open_of_at_most(self.manifest_entries, &verified) {
            Ok(manifest) => {
                if self.known.len() == MANIFESTS_MAX {
                    self.known.pop_front();
                }
                self.preparation = Some(Preparation::Digests(manifest.hash()));
                self.known.push_back(manifest);
                PieceOutcome::Manifest(verified)
            }
            Err(error) => {
                PieceOutcome::Failed(ObjectError::Manifest { name: verified.name().to_name(), error })
            }
        }
    }

    fn check_listed<B: PacketOctets>(
        &mut self,
        number: u64,
        segment: u64,
        data: Prepared<B>,
    ) -> PieceOutcome<B> {
        let Some(manifest) = self.known.iter().find(|manifest| manifest.covers(segment)) else {
            // The layout puts each manifest before its segments, so a manifest is missing here.
            let name = manifest_name(self.object.as_name(), segment / self.manifest_entries);
            return PieceOutcome::Failed(ObjectError::NoAnswer { name });
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
    ) -> PieceOutcome<B> {
        let copy = self.copy_to_accept(data.packet());
        match verifier.verify_prepared(data, unix_ns()) {
            // The Nack is verified, so it is the producer that denies the object.
            Verdict::Verified(verified) if verified.content_type() == ContentType::Nack => {
                PieceOutcome::Failed(ObjectError::NotFound { name: verified.name().to_name() })
            }
            Verdict::Verified(verified) => {
                self.learn(verified.reason(), verifier);
                self.believe(segment, verified)
            }
            Verdict::NeedCertificate(needed) => {
                PieceOutcome::Need { certificate: needed.certificate, data: needed.data }
            }
            Verdict::Rejected(rejection) => {
                self.rejected(number, copy.map(|data| (segment, data)), rejection)
            }
        }
    }

    /// Prepares for further segments, which are likely trusted for the same reason as this one.
    fn learn(&mut self, reason: &TrustReason, verifier: &Verifier) {
        if self.reason.as_ref() != Some(reason) {
            self.preparation = verifier.preparation(reason);
            self.reason = Some(reason.clone());
        }
    }

    /// Copies the packet if it is accepted even when it fails verification, because a verifier does
    /// not return rejected packets.
    fn copy_to_accept<B: PacketOctets>(&self, data: &B) -> Option<Vec<u8>> {
        (self.on_bad == OnBadSegment::Accept).then(|| data.as_ref().to_vec())
    }

    fn rejected<B: PacketOctets>(
        &mut self,
        number: u64,
        accepted: Option<(u64, Vec<u8>)>,
        rejection: Rejection,
    ) -> PieceOutcome<B> {
        // If the object's metadata is verified, pieces of other signers are treated as damaged.
        let damaged = match self.is_vouched_for {
            true => rejection.may_be_anothers(),
            false => matches!(
                rejection.why,
                RejectionReason::BadSignature | RejectionReason::BadDigest | RejectionReason::Malformed(_)
            ),
        };
        self.bad(number, accepted, damaged, ObjectError::Untrusted(rejection))
    }

    /// Decides about a piece that failed verification. If it is damaged, another copy may be valid,
    /// up to a maximum number of attempts.
    fn bad<B: PacketOctets>(
        &mut self,
        number: u64,
        accepted: Option<(u64, Vec<u8>)>,
        damaged: bool,
        error: ObjectError,
    ) -> PieceOutcome<B> {
        if let Some((segment, data)) = accepted {
            return PieceOutcome::Unverified { segment, data };
        }
        if !self.may_repeat(number) || !damaged {
            PieceOutcome::Failed(error)
        } else {
            PieceOutcome::Corrupt(error.refused_data())
        }
    }

    /// Counts a bad copy of piece `number`. Returns true if another copy may be requested.
    fn may_repeat(&mut self, number: u64) -> bool {
        // One counter suffices, because a corrupt piece is replaced before the next one is checked.
        let times = match self.corrupt {
            Some((again, times)) if again == number => times + 1,
            _ => 1,
        };
        self.corrupt = Some((number, times));
        times < CORRUPT_MAX && self.on_bad != OnBadSegment::Abort
    }

    /// Takes back that piece `number`, the last one that was checked, is valid: a key that
    /// authenticates it was revoked. `named_last` is true if it was the segment that named the last
    /// one. Returns true if another copy may be requested.
    pub fn take_back(&mut self, number: u64, named_last: bool) -> bool {
        match self.layout.piece(number) {
            Piece::Manifest(_) => drop(self.known.pop_back()),
            Piece::Segment(_) => {
                self.knows_last = false;
                if named_last {
                    self.segments = None;
                }
            }
        }
        self.may_repeat(number)
    }

    fn believe<B: PacketOctets>(&mut self, segment: u64, data: Verified<B>) -> PieceOutcome<B> {
        // Only verified segments are trusted to name the last one.
        let due = self.segments.is_none() || !self.knows_last;
        let last = if due { data.final_block_id().and_then(|last| last.segment()) } else { None };
        self.knows_last = true;
        let Some(last) = last else { return PieceOutcome::Segment { segment, data, last: None } };
        let claimed = last.saturating_add(1);
        match self.segments {
            // If both ends were accepted, the fetch would stop early or never.
            Some(known) if known != claimed => {
                let failure = Failure::EndMoved { known, claimed };
                PieceOutcome::Failed(ObjectError::Fetch { name: self.object.clone(), failure })
            }
            Some(_) => PieceOutcome::Segment { segment, data, last: None },
            None => {
                self.segments = Some(claimed);
                PieceOutcome::Segment { segment, data, last: Some(last) }
            }
        }
    }
}

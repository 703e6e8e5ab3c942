//! Encodes the packets of segmented objects in place: Data that a manifest authenticates, and the
//! Interests for numbered pieces.

use std::ops::Range;

use namely_security::ManifestHash;
use namely_wire::tlv::{Writer, nni_octets, tlv_octets};
use namely_wire::types::*;
use namely_wire::{Name, NameRef, SignatureInfo};

/// Returns the number of segments of `segment_octets` in an object of `octets`: at least one, so
/// that an empty object has a name and a signature, too. `segment_octets` of 0 counts as 1.
pub fn segment_count(octets: u64, segment_octets: u64) -> u64 {
    octets.div_ceil(segment_octets.max(1)).max(1)
}

/// Maximum additional octets for the LENGTH fields of a Content and of its Data, compared with an
/// empty Content.
const CONTENT_HEADER_OCTETS_MAX: usize = 16;

/// The position of the Content in a prepared packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentGap {
    signed_from: usize,
    /// The range of the Content.
    pub content: Range<usize>,
}

/// Writes the segments of one object, each a Data with the signature that its manifests require.
#[derive(Clone, Debug)]
pub struct SegmentWriter {
    hash: ManifestHash,
    /// The object's name components.
    object: Vec<u8>,
    /// The MetaInfo element; empty if there is none.
    meta_info: Vec<u8>,
    /// The SignatureInfo element.
    signature_info: Vec<u8>,
}

impl SegmentWriter {
    /// Creates a writer for the object with the versioned name `object`. Each segment has a
    /// FinalBlockId if the last segment is known.
    pub fn new(
        object: NameRef<'_>,
        last_segment: Option<u64>,
        freshness_ms: u64,
        hash: ManifestHash,
    ) -> Self {
        let mut meta_info = Writer::new();
        // MetaInfo is optional, and an empty one would lengthen each packet.
        if last_segment.is_some() || freshness_ms > 0 {
            meta_info.nested(META_INFO, |w| {
                if freshness_ms > 0 {
                    w.nni(FRESHNESS_PERIOD, freshness_ms);
                }
                if let Some(last) = last_segment {
                    w.nested(FINAL_BLOCK_ID, |w| {
                        w.nni(u32::from(SEGMENT_COMPONENT), last);
                    });
                }
            });
        }
        let mut signature_info = Writer::new();
        let info = match hash {
            ManifestHash::Sha256 => SignatureInfo::digest_sha256(),
            // The packet spec has no signature type for BLAKE3, so only the manifest authenticates.
            ManifestHash::Blake3 => SignatureInfo::null(),
        };
        info.encode(SIGNATURE_INFO, &mut signature_info);
        SegmentWriter {
            hash,
            object: object.as_bytes().to_vec(),
            meta_info: meta_info.into_vec(),
            signature_info: signature_info.into_vec(),
        }
    }

    /// The hash function for the segments.
    pub fn hash(&self) -> ManifestHash {
        self.hash
    }

    /// Octets of the Data of `segment` with `content_octets` of Content.
    pub fn octets(&self, segment: u64, content_octets: usize) -> usize {
        let value = self.value_octets(segment, content_octets);
        tlv_octets(DATA, value)
    }

    fn name_octets(&self, segment: u64) -> usize {
        self.object.len() + tlv_octets(u32::from(SEGMENT_COMPONENT), nni_octets(segment))
    }

    fn value_octets(&self, segment: u64, content_octets: usize) -> usize {
        tlv_octets(NAME, self.name_octets(segment))
            + self.meta_info.len()
            + tlv_octets(CONTENT, content_octets)
            + self.signature_info.len()
            + tlv_octets(SIGNATURE_VALUE, self.signature_value_octets())
    }

    fn signature_value_octets(&self) -> usize {
        match self.hash {
            ManifestHash::Sha256 => 32,
            ManifestHash::Blake3 => 0,
        }
    }

    /// Returns the maximum octets of Content for packets of at most `packet_octets_max`. The result
    /// holds for every segment up to `last_segment`. Returns `None` if the packet of an empty
    /// segment is already longer.
    pub fn content_octets_max(&self, last_segment: u64, packet_octets_max: usize) -> Option<usize> {
        let empty = self.octets(last_segment, 0);
        let room = packet_octets_max.checked_sub(empty)?;
        // LENGTH fields grow with the Content by a few octets at most, so the search ends after a
        // few steps.
        (0..=room).rev().find(|content| self.octets(last_segment, *content) <= packet_octets_max)
    }

    /// Writes the Data of `segment` into `packet`, without the Content and the SignatureValue. The
    /// length of `packet` is [`SegmentWriter::octets`]. Returns the position of the Content. The
    /// caller may then read the Content directly into the packet, and [`SegmentWriter::complete`]
    /// writes the SignatureValue.
    pub fn lay_out(&self, segment: u64, content_octets: usize, packet: &mut [u8]) -> SegmentGap {
        let mut w = Writer::with_capacity(self.octets(segment, 0) + CONTENT_HEADER_OCTETS_MAX);
        let signed_from = self.write_front(segment, content_octets, &mut w);
        let (front, rest) = packet.split_at_mut(w.len());
        front.copy_from_slice(w.as_bytes());
        let behind = &mut rest[content_octets..][..self.signature_info.len()];
        behind.copy_from_slice(&self.signature_info);
        SegmentGap { signed_from, content: w.len()..w.len() + content_octets }
    }

    /// Completes packets that [`SegmentWriter::lay_out`] began, after their Content was filled in.
    /// The packets are contiguous in `packets`. `laid_out` contains the length and the gap of each
    /// packet. Returns the digests of the signed portions, which are computed together.
    pub fn complete(&self, packets: &mut [u8], laid_out: &[(usize, SegmentGap)]) -> Vec<[u8; 32]> {
        let mut rest = &packets[..];
        let mut portions = Vec::with_capacity(laid_out.len());
        for (octets, gap) in laid_out {
            let (packet, others) = rest.split_at(*octets);
            portions.push(&packet[gap.signed_from..gap.content.end + self.signature_info.len()]);
            rest = others;
        }
        let digests = self.hash.digests(&portions);
        let mut rest = packets;
        for ((octets, gap), digest) in laid_out.iter().zip(&digests) {
            let (packet, others) = rest.split_at_mut(*octets);
            let value = &mut packet[gap.content.end + self.signature_info.len()..];
            // TYPE and LENGTH are below 253, so each takes one octet.
            value[..2].copy_from_slice(&[SIGNATURE_VALUE as u8, self.signature_value_octets() as u8]);
            value[2..].copy_from_slice(&digest[..self.signature_value_octets()]);
            rest = others;
        }
        digests
    }

    /// Creates the packets of consecutive segments from `first` on, with `contents`. Returns each
    /// packet with the digest of its signed portion. The digests are computed together.
    pub fn make(&self, first: u64, contents: &[&[u8]]) -> Vec<(Vec<u8>, [u8; 32])> {
        let mut packets = Vec::with_capacity(contents.len());
        for (segment, content) in (first..).zip(contents) {
            let mut w = Writer::with_capacity(self.octets(segment, content.len()));
            let signed_from = self.write_front(segment, content.len(), &mut w);
            w.raw(content).raw(&self.signature_info);
            packets.push((signed_from, w.into_vec()));
        }
        let portions: Vec<&[u8]> = packets.iter().map(|(from, packet)| &packet[*from..]).collect();
        let digests = self.hash.digests(&portions);
        let sealed = packets.into_iter().zip(digests).map(|((_, mut packet), digest)| {
            self.seal(&mut packet, &digest);
            (packet, digest)
        });
        sealed.collect()
    }

    /// Appends the SignatureValue.
    fn seal(&self, out: &mut Vec<u8>, digest: &[u8; 32]) {
        let value = &digest[..self.signature_value_octets()];
        out.extend_from_slice(&[SIGNATURE_VALUE as u8, value.len() as u8]);
        out.extend_from_slice(value);
    }

    /// Writes the part of the Data before the Content's octets. Returns the start of the signed
    /// portion, relative to this position.
    fn write_front(&self, segment: u64, content_octets: usize, w: &mut Writer) -> usize {
        let start = w.len();
        w.header(DATA, self.value_octets(segment, content_octets));
        let signed_from = w.len() - start;
        self.write_before_content(segment, content_octets, w);
        signed_from
    }

    /// Writes the signed portion before the Content's octets.
    fn write_before_content(&self, segment: u64, content_octets: usize, w: &mut Writer) {
        w.header(NAME, self.name_octets(segment))
            .raw(&self.object)
            .nni(u32::from(SEGMENT_COMPONENT), segment);
        w.raw(&self.meta_info).header(CONTENT, content_octets);
    }

    /// Appends the Data of `segment` to `out`. `fill` must append exactly `content_octets`.
    /// `digest` is the digest of the signed portion, if the caller has it; otherwise this function
    /// computes it. Returns the digest. If `fill` fails, the appended octets are invalid and the
    /// caller truncates them.
    pub fn write<E>(
        &self,
        segment: u64,
        content_octets: usize,
        digest: Option<[u8; 32]>,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<[u8; 32], E> {
        // `Writer` owns its buffer. `out` is moved into it and back, so that nothing is copied.
        let mut w = Writer::from_vec(std::mem::take(out));
        let signed_from = w.len() + self.write_front(segment, content_octets, &mut w);
        *out = w.into_vec();
        fill(out)?;
        out.extend_from_slice(&self.signature_info);
        let digest = digest.unwrap_or_else(|| self.hash.digest(&out[signed_from..]));
        self.seal(out, &digest);
        Ok(digest)
    }
}

/// Writes the Interests for numbered pieces under one prefix.
#[derive(Clone, Debug)]
pub struct PieceInterest {
    prefix: Vec<u8>,
    /// The fields after the Nonce.
    tail: Vec<u8>,
}

impl PieceInterest {
    /// Creates a writer of the Interests for the Data `<prefix>/seg=<n>`.
    pub fn new(prefix: NameRef<'_>, lifetime_ms: u64) -> Self {
        let mut tail = Writer::new();
        tail.nni(INTEREST_LIFETIME, lifetime_ms);
        PieceInterest { prefix: prefix.as_bytes().to_vec(), tail: tail.into_vec() }
    }

    /// Appends the Interest for `piece`. If `fresh`, the Interest has MustBeFresh, so no stale copy
    /// answers it.
    pub fn write(&self, piece: u64, fresh: bool, nonce: [u8; 4], out: &mut Vec<u8>) {
        let name_octets = self.prefix.len() + tlv_octets(u32::from(SEGMENT_COMPONENT), nni_octets(piece));
        let selectors: &[u8] = if fresh { &[MUST_BE_FRESH as u8, 0] } else { &[] };
        // The Nonce element has 6 octets.
        let value_octets = tlv_octets(NAME, name_octets) + selectors.len() + 6 + self.tail.len();
        let mut w = Writer::from_vec(std::mem::take(out));
        w.header(INTEREST, value_octets)
            .header(NAME, name_octets)
            .raw(&self.prefix)
            .nni(u32::from(SEGMENT_COMPONENT), piece);
        w.raw(selectors).tlv(NONCE, &nonce).raw(&self.tail);
        *out = w.into_vec();
    }

    /// Octets of the Interest for `piece`.
    pub fn octets(&self, piece: u64, fresh: bool) -> usize {
        let name_octets = self.prefix.len() + tlv_octets(u32::from(SEGMENT_COMPONENT), nni_octets(piece));
        let value_octets = tlv_octets(NAME, name_octets) + if fresh { 2 } else { 0 } + 6 + self.tail.len();
        tlv_octets(INTEREST, value_octets)
    }

    /// Returns the number of the piece `name`, if it is a piece under this prefix.
    pub fn piece(&self, name: NameRef<'_>) -> Option<u64> {
        // TLVs are self-delimiting, so a prefix in octets is a prefix in components.
        let rest = name.as_bytes().strip_prefix(&self.prefix[..])?;
        let component = namely_wire::Component::parse(rest).ok()?;
        component.segment()
    }
}

/// The name of segment `segment` of `object`.
pub fn segment_name(object: NameRef<'_>, segment: u64) -> Name {
    object.to_name().join_segment(segment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_security::{Signer, sign_data};
    use namely_wire::{DataBuilder, DataView, InterestBuilder};
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn object() -> Name {
        "/p/file/v=7".parse().unwrap()
    }

    #[test]
    fn no_object_has_an_empty_last_segment() {
        for (octets, segments) in [(0, 1), (1, 1), (7999, 1), (8000, 1), (8001, 2), (16000, 2), (16001, 3)] {
            assert_eq!(segment_count(octets, 8000), segments, "{octets}");
        }
        assert_eq!(segment_count(u64::MAX, 1), u64::MAX);
        assert_eq!(segment_count(5, 0), 5);
    }

    proptest! {
        #[test]
        fn a_written_segment_matches_the_builder(
            segment in prop_oneof![0u64..300, Just(65536), any::<u64>()],
            content in prop::collection::vec(any::<u8>(), 0..600),
            last in prop::option::of(0u64..70_000),
            freshness_ms in prop_oneof![Just(0u64), Just(10_000)],
            hash in prop_oneof![Just(ManifestHash::Sha256), Just(ManifestHash::Blake3)],
        ) {
            let writer = SegmentWriter::new(object().as_name(), last, freshness_ms, hash);
            let mut written = b"before".to_vec();
            let filled: Result<_, Infallible> = writer.write(segment, content.len(), None, &mut written, |out| {
                out.extend_from_slice(&content);
                Ok(())
            });
            let name = segment_name(object().as_name(), segment);
            let last = last.map(|last| Name::new().join_segment(last));
            let mut builder = DataBuilder::new(name.as_name()).freshness_ms(freshness_ms);
            if let Some(last) = &last {
                builder = builder.final_block_id(last.as_name().last().unwrap());
            }
            let signer = match hash {
                ManifestHash::Sha256 => Signer::digest_sha256(),
                ManifestHash::Blake3 => Signer::null(),
            };
            let built = sign_data(&builder, &content, &signer).unwrap();
            prop_assert_eq!(&written[6..], &built[..]);
            prop_assert_eq!(writer.octets(segment, content.len()), built.len());
            let digest = filled.unwrap();
            let signed_portion = DataView::parse(&built).unwrap().signed_portion;
            prop_assert_eq!(hash.digest(signed_portion), digest);
            prop_assert_eq!(built.ends_with(&digest), hash == ManifestHash::Sha256);
            let mut placed = vec![9; built.len()];
            let gap = writer.lay_out(segment, content.len(), &mut placed);
            placed[gap.content.clone()].copy_from_slice(&content);
            prop_assert_eq!(writer.complete(&mut placed, &[(built.len(), gap)]), [digest]);
            prop_assert_eq!(&placed, &built);
            prop_assert_eq!(writer.make(segment, &[&content]), [(built, digest)]);
        }

        #[test]
        fn a_segments_content_has_a_limit(
            last in any::<u64>(), packet_octets_max in 100usize..9000,
        ) {
            let writer = SegmentWriter::new(object().as_name(), Some(last), 1000, ManifestHash::Blake3);
            match writer.content_octets_max(last, packet_octets_max) {
                Some(content) => {
                    prop_assert!(writer.octets(last, content) <= packet_octets_max);
                    prop_assert!(writer.octets(last, content + 1) > packet_octets_max);
                }
                None => prop_assert!(writer.octets(last, 0) > packet_octets_max),
            }
        }

        #[test]
        fn a_written_interest_matches_the_builder(piece in any::<u64>(), fresh in any::<bool>()) {
            let template = PieceInterest::new(object().as_name(), 4000);
            let mut written = Vec::new();
            template.write(piece, fresh, [1, 2, 3, 4], &mut written);
            let name = segment_name(object().as_name(), piece);
            let mut builder = InterestBuilder::new(name.clone()).nonce([1, 2, 3, 4]).lifetime_ms(4000);
            if fresh {
                builder = builder.must_be_fresh();
            }
            prop_assert_eq!(&written, &builder.build());
            prop_assert_eq!(template.octets(piece, fresh), written.len());
            prop_assert_eq!(template.piece(name.as_name()), Some(piece));
            prop_assert_eq!(template.piece(name.join_segment(0).as_name()), None);
            prop_assert_eq!(template.piece(object().as_name()), None);
        }
    }
}

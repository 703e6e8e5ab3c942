//! Interests and Data that are written into the caller's memory; a Data is written around content
//! that is already there. Nothing is allocated, and no content is copied.

use core::ops::Range;

use crate::error::DecodeError;
use crate::name::NameRef;
use crate::signature::SignatureInfoView;
use crate::tlv::{Reader, nni_octets, put_header, tlv_octets};
use crate::types::*;

/// SignatureInfo and SignatureValue, one after the other, each with TYPE and LENGTH; checked.
#[derive(Clone, Copy, Debug)]
pub struct SignatureOctets<'a>(&'a [u8]);

impl<'a> SignatureOctets<'a> {
    /// Checks that the octets are the two elements, and nothing else.
    ///
    /// # Errors
    /// [`DecodeError`]: the octets are something else.
    pub fn parse(octets: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(octets);
        SignatureInfoView::parse_value(reader.require(SIGNATURE_INFO)?.value)?;
        reader.require(SIGNATURE_VALUE)?;
        if reader.next_tlv()?.is_some() {
            return Err(DecodeError::TrailingOctets);
        }
        Ok(SignatureOctets(octets))
    }
}

/// A name with an optional segment number at its end.
#[derive(Clone, Copy, Debug)]
pub struct PlacedName<'a> {
    /// The name before the segment number.
    pub prefix: NameRef<'a>,
    /// The SegmentNameComponent's number.
    pub segment: Option<u64>,
}

impl PlacedName<'_> {
    fn value_octets(&self) -> usize {
        self.prefix.as_bytes().len() + self.segment.map_or(0, segment_octets)
    }

    fn octets(&self) -> usize {
        tlv_octets(NAME, self.value_octets())
    }
}

/// Returns the octets of a SegmentNameComponent.
fn segment_octets(segment: u64) -> usize {
    nni_element_octets(u32::from(SEGMENT_COMPONENT), segment)
}

fn nni_element_octets(typ: u32, n: u64) -> usize {
    tlv_octets(typ, nni_octets(n))
}

/// An Interest to be written.
///
/// ```
/// use namely_wire::{InterestBuilder, Name, PlacedInterest, PlacedName};
/// let prefix: Name = "/a/b".parse().unwrap();
/// let interest = PlacedInterest {
///     name: PlacedName { prefix: prefix.as_name(), segment: Some(7) },
///     can_be_prefix: false,
///     must_be_fresh: true,
///     nonce: [1, 2, 3, 4],
///     lifetime_ms: 250,
/// };
/// let mut octets = vec![0; interest.octets()];
/// interest.write(&mut octets);
/// let builder = InterestBuilder::new(prefix.join_segment(7)).must_be_fresh();
/// assert_eq!(octets, builder.nonce([1, 2, 3, 4]).lifetime_ms(250).build());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PlacedInterest<'a> {
    /// Name; of at least one component.
    pub name: PlacedName<'a>,
    /// CanBePrefix.
    pub can_be_prefix: bool,
    /// MustBeFresh.
    pub must_be_fresh: bool,
    /// Nonce.
    pub nonce: [u8; 4],
    /// InterestLifetime, ms.
    pub lifetime_ms: u64,
}

impl PlacedInterest<'_> {
    fn value_octets(&self) -> usize {
        let flags = 2 * usize::from(self.can_be_prefix) + 2 * usize::from(self.must_be_fresh);
        self.name.octets() + flags + 6 + nni_element_octets(INTEREST_LIFETIME, self.lifetime_ms)
    }

    /// Returns the octets of the whole Interest.
    pub fn octets(&self) -> usize {
        tlv_octets(INTEREST, self.value_octets())
    }

    /// Writes the Interest.
    ///
    /// # Panics
    /// If `buffer` has less than [`PlacedInterest::octets`].
    pub fn write(&self, buffer: &mut [u8]) {
        let mut cursor = Cursor { buffer, at: 0 };
        cursor.header(INTEREST, self.value_octets());
        cursor.name(&self.name);
        if self.can_be_prefix {
            cursor.header(CAN_BE_PREFIX, 0);
        }
        if self.must_be_fresh {
            cursor.header(MUST_BE_FRESH, 0);
        }
        cursor.header(NONCE, self.nonce.len());
        cursor.octets(&self.nonce);
        cursor.nni(INTEREST_LIFETIME, self.lifetime_ms);
    }
}

/// A Data to be written around its content.
///
/// ```
/// use namely_wire::{DataBuilder, Name, PlacedData, PlacedName, SignatureInfo};
/// let name: Name = "/a/b".parse().unwrap();
/// let mut space = *b"....................content............................................";
/// let data = PlacedData {
///     name: PlacedName { prefix: name.as_name(), segment: None },
///     freshness_ms: 1000,
///     last_segment: None,
///     signature: None,
/// };
/// let whole = data.write(&mut space, 20..27, |_| [0; 32]).unwrap();
/// let builder = DataBuilder::new(name.as_name()).freshness_ms(1000);
/// let unsigned = builder.build(b"content", &SignatureInfo::digest_sha256());
/// assert_eq!(&space[whole], unsigned.finish(&[0; 32]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PlacedData<'a> {
    /// Name; of at least one component.
    pub name: PlacedName<'a>,
    /// FreshnessPeriod in ms; omitted when 0.
    pub freshness_ms: u64,
    /// The segment number of FinalBlockId.
    pub last_segment: Option<u64>,
    /// `None`: DigestSha256.
    pub signature: Option<SignatureOctets<'a>>,
}

/// SignatureInfo of a DigestSha256 signature, and the header of its value.
const DIGEST_INFO: [u8; 5] = [SIGNATURE_INFO as u8, 3, SIGNATURE_TYPE as u8, 1, 0];
const DIGEST_OCTETS: usize = 32;

impl PlacedData<'_> {
    /// Maximum overhead of a Data in octets, without its name, its content and a given signature.
    pub const OVERHEAD_OCTETS_MAX: usize = 96;

    fn meta_info_octets(&self) -> usize {
        let freshness = match self.freshness_ms {
            0 => 0,
            ms => nni_element_octets(FRESHNESS_PERIOD, ms),
        };
        freshness + self.last_segment.map_or(0, |last| tlv_octets(FINAL_BLOCK_ID, segment_octets(last)))
    }

    /// Writes the parts before and after `content`, a range of `space`; `digest` is SHA-256.
    /// Returns the range of the whole Data, or `None` if it does not fit.
    pub fn write(
        &self,
        space: &mut [u8],
        content: Range<usize>,
        digest: impl FnOnce(&[u8]) -> [u8; DIGEST_OCTETS],
    ) -> Option<Range<usize>> {
        let meta_info_octets = self.meta_info_octets();
        let meta_info = if meta_info_octets > 0 { tlv_octets(META_INFO, meta_info_octets) } else { 0 };
        let content_header = tlv_octets(CONTENT, content.len()) - content.len();
        let signed_head = self.name.octets() + meta_info + content_header;
        let tail = self.signature.map_or(DIGEST_INFO.len() + 2 + DIGEST_OCTETS, |octets| octets.0.len());
        let value_octets = signed_head + content.len() + tail;
        let header = tlv_octets(DATA, value_octets) - value_octets;
        let start = content.start.checked_sub(header + signed_head)?;
        let end = content.end.checked_add(tail).filter(|end| *end <= space.len())?;

        let mut cursor = Cursor { buffer: &mut space[start..content.start], at: 0 };
        cursor.header(DATA, value_octets);
        cursor.name(&self.name);
        if meta_info_octets > 0 {
            cursor.header(META_INFO, meta_info_octets);
            if self.freshness_ms > 0 {
                cursor.nni(FRESHNESS_PERIOD, self.freshness_ms);
            }
            if let Some(last) = self.last_segment {
                cursor.header(FINAL_BLOCK_ID, segment_octets(last));
                cursor.nni(u32::from(SEGMENT_COMPONENT), last);
            }
        }
        cursor.header(CONTENT, content.len());

        let signature_value = match self.signature {
            Some(octets) => {
                space[content.end..end].copy_from_slice(octets.0);
                return Some(start..end);
            }
            None => content.end + DIGEST_INFO.len(),
        };
        space[content.end..signature_value].copy_from_slice(&DIGEST_INFO);
        let value = digest(&space[start + header..signature_value]);
        let mut cursor = Cursor { buffer: &mut space[signature_value..end], at: 0 };
        cursor.header(SIGNATURE_VALUE, DIGEST_OCTETS);
        cursor.octets(&value);
        Some(start..end)
    }
}

struct Cursor<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl Cursor<'_> {
    fn header(&mut self, typ: u32, length: usize) {
        self.at += put_header(&mut self.buffer[self.at..], typ, length);
    }

    fn octets(&mut self, octets: &[u8]) {
        self.buffer[self.at..self.at + octets.len()].copy_from_slice(octets);
        self.at += octets.len();
    }

    fn nni(&mut self, typ: u32, n: u64) {
        let octets = nni_octets(n);
        self.header(typ, octets);
        self.octets(&n.to_be_bytes()[8 - octets..]);
    }

    fn name(&mut self, name: &PlacedName<'_>) {
        self.header(NAME, name.value_octets());
        self.octets(name.prefix.as_bytes());
        if let Some(segment) = name.segment {
            self.nni(u32::from(SEGMENT_COMPONENT), segment);
        }
    }
}

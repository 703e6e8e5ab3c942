//! Interests that are forwarded with a change: the retained parts of the received Interest and the
//! new parts, to be written into the caller's buffer. Nothing is allocated.

use core::ops::Range;

use crate::interest::InterestView;
use crate::tlv::{Reader, put_header, read_tlv, tlv_octets};
use crate::types::{CAN_BE_PREFIX, FORWARDING_HINT, INTEREST, MUST_BE_FRESH, NAME, NONCE};

/// TYPE, LENGTH and VALUE of a Nonce.
const NONCE_OCTETS: usize = 6;

/// An Interest with a Nonce where its application omitted it, or without a forwarding hint that is
/// no longer needed.
///
/// ```
/// use namely_wire::{AmendedInterest, InterestBuilder, InterestView, Name};
/// let name: Name = "/a/b".parse().unwrap();
/// let without = [5, 8, 7, 6, 8, 1, b'a', 8, 1, b'b'];
/// let view = InterestView::parse(&without).unwrap();
/// let amended = AmendedInterest::new(&view, Some([1, 2, 3, 4]), true);
/// let mut octets = vec![0; amended.octets()];
/// amended.write(&mut octets);
/// assert_eq!(octets, InterestBuilder::new(name).nonce([1, 2, 3, 4]).build());
/// ```
#[derive(Clone, Debug)]
pub struct AmendedInterest<'a> {
    value: &'a [u8],
    /// Range of the removed forwarding hint, or an empty range.
    left_out: Range<usize>,
    nonce: [u8; NONCE_OCTETS],
    /// Offset in `value` of the new Nonce, if there is one.
    nonce_at: Option<usize>,
}

impl<'a> AmendedInterest<'a> {
    /// Amends `interest`. `nonce` must be `None` if the Interest has one. The forwarding hint is
    /// removed unless `keeps_hint` is true.
    pub fn new(interest: &InterestView<'a>, nonce: Option<[u8; 4]>, keeps_hint: bool) -> Self {
        let value = read_tlv(interest.wire).map_or(&[][..], |outer| outer.value);
        // The Nonce is inserted after the last of the elements that precede it in the
        // specification's order; unknown elements may lie between these. These elements are all
        // critical, so the parser has refused any of them that is out of order.
        let (mut body, mut left_out, mut split, mut start) = (Reader::new(value), 0..0, 0, 0);
        while let Ok(Some(tlv)) = body.next_tlv() {
            let end = body.position();
            match tlv.typ {
                FORWARDING_HINT if !keeps_hint => left_out = start..end,
                NAME | CAN_BE_PREFIX | MUST_BE_FRESH | FORWARDING_HINT => split = end,
                _ => {}
            }
            start = end;
        }
        let [a, b, c, d] = nonce.unwrap_or_default();
        let nonce_at = nonce.map(|_| split);
        AmendedInterest { value, left_out, nonce: [NONCE as u8, 4, a, b, c, d], nonce_at }
    }

    fn value_octets(&self) -> usize {
        let nonce = if self.nonce_at.is_some() { NONCE_OCTETS } else { 0 };
        self.value.len() - self.left_out.len() + nonce
    }

    /// Returns the octets of the whole Interest.
    pub fn octets(&self) -> usize {
        tlv_octets(INTEREST, self.value_octets())
    }

    /// Writes the Interest.
    ///
    /// # Panics
    /// If `buffer` is not of [`AmendedInterest::octets`].
    pub fn write(&self, buffer: &mut [u8]) {
        let mut position = put_header(buffer, INTEREST, self.value_octets());
        let mut put = |octets: &[u8]| {
            buffer[position..position + octets.len()].copy_from_slice(octets);
            position += octets.len();
        };
        let kept = |part: Range<usize>| {
            // The removed range lies entirely within one part.
            if part.contains(&self.left_out.start) && !self.left_out.is_empty() {
                [&self.value[part.start..self.left_out.start], &self.value[self.left_out.end..part.end]]
            } else {
                [&self.value[part], &[]]
            }
        };
        let split = self.nonce_at.unwrap_or(0);
        kept(0..split).into_iter().for_each(&mut put);
        if self.nonce_at.is_some() {
            put(&self.nonce);
        }
        kept(split..self.value.len()).into_iter().for_each(&mut put);
        assert_eq!(position, buffer.len(), "a buffer of the Interest's length");
    }
}

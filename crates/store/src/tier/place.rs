//! Where a record is, in eight octets.

/// Octets by which records are aligned in a segment.
pub(crate) const UNIT_OCTETS: usize = 16;

/// Maximum number of segments of a tier, each with an open descriptor.
pub const SEGMENTS_MAX: usize = 1 << SLOT_BITS;

/// Maximum octets of a segment.
pub(crate) const SEGMENT_OCTETS_MAX: u64 = (UNIT_OCTETS as u64) << OFFSET_BITS;

const SLOT_BITS: u32 = 10;
const OFFSET_BITS: u32 = 28;
const LENGTH_BITS: u32 = 10;
const EXPIRY_BITS: u32 = 12;

const OFFSET_AT: u32 = SLOT_BITS;
const LENGTH_AT: u32 = OFFSET_AT + OFFSET_BITS;
const READ_AT: u32 = LENGTH_AT + LENGTH_BITS;
const EXPIRY_AT: u32 = READ_AT + 1;

/// Later expiries than this are not known by the index; the record says them.
const EXPIRY_UNKNOWN: u64 = (1 << EXPIRY_BITS) - 1;

/// Milliseconds of a step of the expiry that the index knows: 17 minutes, so that it reaches 49
/// days ahead.
const EXPIRY_STEP_MS: u64 = 1 << 20;

/// Where a record is: its segment's slot, its offset there and its length in units, whether it was
/// read since it was written, and about when it expires. Zero is no place.
///
/// ```text
/// 0           10              38             48           49              61      64
/// | slot (10) | offset (28)   | length (10)  | read (1)   | expiry (12)   | 0 (3) |
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// `offset`: a multiple of [`UNIT_OCTETS`]; `octets`: of the whole record, at least one.
    pub(crate) fn new(slot: usize, offset: u64, octets: usize, expiry: Expiry) -> Self {
        debug_assert!(slot < SEGMENTS_MAX && offset < SEGMENT_OCTETS_MAX);
        debug_assert!(offset.is_multiple_of(UNIT_OCTETS as u64) && octets > 0);
        let units = octets.div_ceil(UNIT_OCTETS) as u64;
        debug_assert!(units < 1 << LENGTH_BITS);
        Place(
            slot as u64
                | ((offset / UNIT_OCTETS as u64) << OFFSET_AT)
                | (units << LENGTH_AT)
                | (expiry.0 << EXPIRY_AT),
        )
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }

    pub(crate) fn offset(self) -> u64 {
        (self.0 >> OFFSET_AT & ((1 << OFFSET_BITS) - 1)) * UNIT_OCTETS as u64
    }

    /// Octets of the record, up to the next one.
    pub(crate) fn octets(self) -> usize {
        (self.0 >> LENGTH_AT & ((1 << LENGTH_BITS) - 1)) as usize * UNIT_OCTETS
    }

    pub(crate) fn end(self) -> u64 {
        self.offset() + self.octets() as u64
    }

    pub(crate) fn was_read(self) -> bool {
        self.0 >> READ_AT & 1 == 1
    }

    pub(crate) fn read(self) -> Self {
        Place(self.0 | (1 << READ_AT))
    }

    pub(crate) fn expiry(self) -> Expiry {
        Expiry(self.0 >> EXPIRY_AT & EXPIRY_UNKNOWN)
    }

    /// The same record, whether it was read or not.
    pub(crate) fn is(self, other: Place) -> bool {
        self.read() == other.read()
    }
}

/// When a record expires, rounded up to steps since the tier was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expiry(u64);

impl Expiry {
    /// `expires_ms`: since the Unix epoch, 0: never; `base_ms`: when the tier was opened.
    pub(crate) fn new(expires_ms: u64, base_ms: u64) -> Self {
        match expires_ms {
            0 => Expiry(EXPIRY_UNKNOWN),
            _ => Expiry(expires_ms.saturating_sub(base_ms).div_ceil(EXPIRY_STEP_MS).min(EXPIRY_UNKNOWN)),
        }
    }

    /// Returns true if the record has expired for sure.
    pub(crate) fn is_over(self, now_ms: u64, base_ms: u64) -> bool {
        self.0 != EXPIRY_UNKNOWN && now_ms >= base_ms.saturating_add(self.0 * EXPIRY_STEP_MS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_expires_within_the_step_is_not_over_before_it() {
        let base_ms = 1_000_000_000_000;
        let soon = Expiry::new(base_ms + 1, base_ms);
        assert!(!soon.is_over(base_ms, base_ms));
        assert!(soon.is_over(base_ms + EXPIRY_STEP_MS, base_ms));
        assert!(Expiry::new(base_ms, base_ms).is_over(base_ms, base_ms));
        assert!(Expiry::new(1, base_ms).is_over(base_ms, base_ms));
        let never = Expiry::new(0, base_ms);
        assert!(!never.is_over(u64::MAX, base_ms));
        assert_eq!(Expiry::new(u64::MAX, base_ms), never);
    }

    proptest! {
        #[test]
        fn a_place_says_what_went_into_it(
            slot in 0..SEGMENTS_MAX,
            unit in 0..1_u64 << OFFSET_BITS,
            octets in 1..(UNIT_OCTETS << LENGTH_BITS) - UNIT_OCTETS,
            expires_ms in any::<u64>(),
        ) {
            let expiry = Expiry::new(expires_ms, 77);
            let place = Place::new(slot, unit * UNIT_OCTETS as u64, octets, expiry);
            prop_assert!(!place.is_none() && !place.was_read() && place.read().was_read());
            for place in [place, place.read()] {
                prop_assert_eq!(place.slot(), slot);
                prop_assert_eq!(place.offset(), unit * UNIT_OCTETS as u64);
                prop_assert_eq!(place.octets(), octets.next_multiple_of(UNIT_OCTETS));
                prop_assert_eq!(place.expiry(), expiry);
            }
        }
    }
}

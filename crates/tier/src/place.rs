//! The position of a record, in eight octets.

/// Octets by which records are aligned in a segment.
pub(crate) const UNIT_OCTETS: usize = 16;

/// Segments of a tier, each with an open descriptor.
///
/// # Limit
/// The oldest segment is evicted.
/// - Value: 1024; segments are so long that a tier has at most three quarters of that
/// - Counter: `evicted`
/// - Tests: `segment_count_and_size_are_bounded`
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

/// The largest expiry in the index. It stands for all later ones, and for records that never
/// expire; the record has the exact expiry.
const EXPIRY_UNKNOWN: u64 = (1 << EXPIRY_BITS) - 1;

/// Milliseconds per step of the expiry in the index: 17 minutes, so that the index reaches 49 days
/// ahead.
const EXPIRY_STEP_MS: u64 = 1 << 20;

/// The position of a record: its segment's slot, its offset there, its length in units, whether it
/// was read since it was written, and its approximate expiry. Zero is no position.
///
/// ```text
/// 0           10              38             48           49              61      64
/// | slot (10) | offset (28)   | length (10)  | read (1)   | expiry (12)   | 0 (3) |
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordPosition(u64);

impl RecordPosition {
    /// `offset` is a multiple of [`UNIT_OCTETS`]; `octets` is the length of the whole record, at
    /// least one.
    pub(crate) fn new(slot: usize, offset: u64, octets: usize, expiry: Expiry) -> Self {
        debug_assert!(slot < SEGMENTS_MAX && offset < SEGMENT_OCTETS_MAX);
        debug_assert!(offset.is_multiple_of(UNIT_OCTETS as u64) && octets > 0);
        let units = octets.div_ceil(UNIT_OCTETS) as u64;
        debug_assert!(units < 1 << LENGTH_BITS);
        RecordPosition(
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
        RecordPosition(self.0 | (1 << READ_AT))
    }

    pub(crate) fn expiry(self) -> Expiry {
        Expiry(self.0 >> EXPIRY_AT & EXPIRY_UNKNOWN)
    }

    /// Returns whether both are positions of the same record. The mark of a read is ignored.
    pub(crate) fn is(self, other: RecordPosition) -> bool {
        self.read() == other.read()
    }
}

/// Expiry of a record, rounded up to steps since the tier was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expiry(u64);

impl Expiry {
    /// `expires_ms` is in ms since the Unix epoch; 0: never. `base_ms` is the time at which the
    /// tier was opened.
    pub(crate) fn new(expires_ms: u64, base_ms: u64) -> Self {
        match expires_ms {
            // The index does not distinguish an expiry that it cannot hold from none: the record
            // decides.
            0 => Expiry(EXPIRY_UNKNOWN),
            _ => Expiry(expires_ms.saturating_sub(base_ms).div_ceil(EXPIRY_STEP_MS).min(EXPIRY_UNKNOWN)),
        }
    }

    /// Returns true if the record has certainly expired.
    pub(crate) fn is_over(self, now_ms: u64, base_ms: u64) -> bool {
        self.0 != EXPIRY_UNKNOWN && now_ms >= base_ms.saturating_add(self.0 * EXPIRY_STEP_MS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expiry_is_rounded_up_to_its_step() {
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
        fn a_place_survives_a_round_trip(
            slot in 0..SEGMENTS_MAX,
            unit in 0..1_u64 << OFFSET_BITS,
            octets in 1..(UNIT_OCTETS << LENGTH_BITS) - UNIT_OCTETS,
            expires_ms in any::<u64>(),
        ) {
            let expiry = Expiry::new(expires_ms, 77);
            let place = RecordPosition::new(slot, unit * UNIT_OCTETS as u64, octets, expiry);
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

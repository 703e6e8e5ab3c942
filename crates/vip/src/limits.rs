//! What bounds the virtual plane. docs/limits.md lists them.

/// Objects that are registered.
pub const OBJECTS_MAX: usize = 4096;

/// Neighbours, those that speak VIP and those that do not.
pub const NEIGHBOURS_MAX: usize = 64;

/// Tiers of what is kept: memory, disks.
pub const TIERS_MAX: usize = 4;

/// Octets of an object.
pub const OBJECT_OCTETS_MAX: u64 = 1 << 62;

/// Slots whose VIPs a neighbour has not acknowledged. While there are as many nothing new is sent
/// to it.
pub const OFFERS_MAX: usize = 8;

/// Counts in one packet; more of them take further segments.
pub const COUNTS_PER_SEGMENT: usize = 500;

/// Segments of the counts of a neighbour.
pub const SEGMENTS_MAX: usize = OBJECTS_MAX.div_ceil(COUNTS_PER_SEGMENT);

/// Requests of a neighbour, rightly signed, that are answered in a slot.
pub const REQUESTS_MAX: u32 = 4;

/// Packets of a neighbour whose signature may turn out wrong: so many at once, and so many a
/// second. They leave the requests that are rightly signed alone.
pub const UNSIGNED_BURST: u64 = 256;
/// See [`UNSIGNED_BURST`].
pub const UNSIGNED_PER_SECOND: u64 = 1000;

/// How many times longer or shorter a neighbour's period may be than one's own.
pub const PERIOD_RATIO_MAX: u64 = 16;

/// VIPs that a neighbour may offer, in percent of what its link carries since it offered last, of
/// [`OFFERS_MAX`] slots at most.
pub const OFFER_PERCENT_MAX: u64 = 125;

/// Periods of a neighbour for which its counts are used.
pub const COUNTS_PERIODS: u64 = 2;

/// Octets of a router's name in the exchange.
pub const ROUTER_OCTETS_MAX: usize = 64;

/// Objects that a search for the best set looks at before it takes the best that it has found.
pub const SEARCH_STEPS_MAX: u32 = 16_384;

/// Pairs of objects of unequal sizes that are compared for a swap between tiers.
pub const SWAPS_MAX: u32 = 65_536;

/// How often tiers with objects of unequal sizes are filled anew.
pub const REFILLS_MAX: u32 = 8;

/// Exchanges by which one placement is made better.
pub const PLACEMENT_STEPS_MAX: u32 = 256;

const _: () = assert!(NEIGHBOURS_MAX <= 64, "the neighbours of an object are bits of a word");
const _: () = assert!(SEGMENTS_MAX <= 16, "the segments that have come are bits of a u16");

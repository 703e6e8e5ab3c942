//! Limits of the virtual plane. docs/limits.md lists them.

/// Registered objects of VIP.
///
/// # Limit
/// A catalogue with more objects is refused.
/// - Tests: `a_vip_catalogue_has_an_object_limit`
pub const OBJECTS_MAX: usize = 4096;

/// Neighbors of a virtual plane, with or without VIP.
///
/// # Limit
/// A configuration with more neighbors is refused.
/// - Tests: `a_vip_configuration_has_limits`
pub const NEIGHBOURS_MAX: usize = 64;

/// Cache tiers of a placement: memory and disks.
///
/// # Limit
/// Further tiers are not used.
/// - Tests: `four_thousand_objects_stay_within_search_bounds`
pub const TIERS_MAX: usize = 4;

/// Octets of a registered object.
///
/// # Limit
/// A catalogue with a larger object is refused.
/// - Value: 2^62
/// - Tests: `invalid_sizes_and_duplicate_ids_are_refused`
pub const OBJECT_OCTETS_MAX: u64 = 1 << 62;

/// Slots with VIPs that a neighbor has not acknowledged.
///
/// # Limit
/// No new slot is sent to the neighbor.
/// - Counter: `offers_full`
/// - Tests: `unacknowledged_slots_of_a_neighbor_are_limited`,
///   `offers_of_invalid_slots_are_refused`
pub const OFFERS_MAX: usize = 8;

/// Counts in one packet of the exchange.
///
/// # Limit
/// Further counts follow in the next segment.
/// - Tests: `many_counts_are_sent_in_segments`
pub const COUNTS_PER_SEGMENT: usize = 500;

/// Segments of a neighbor's counts.
///
/// # Limit
/// A message with more segments is malformed.
/// - Value: 9
/// - Counter: `malformed`
/// - Tests:
///   `many_counts_are_sent_in_segments`,
///   `unsorted_or_repeated_counts_are_refused`
pub const SEGMENTS_MAX: usize = OBJECTS_MAX.div_ceil(COUNTS_PER_SEGMENT);

/// Validly signed requests of a neighbor that are answered in a slot.
///
/// # Limit
/// A further request is not answered.
/// - Value: 4; 9 times as many for segments
/// - Counter: `rate_limited`
/// - Tests: `a_neighbor_has_four_requests_per_slot`,
///   `requests_for_old_segments_are_refused`
pub const REQUESTS_MAX: u32 = 4;

/// Packets of a neighbor with an unverified signature, at once.
///
/// They do not reduce the limit of validly signed requests.
///
/// # Limit
/// A further packet is dropped before its signature is verified.
/// - Counter: `unsigned_limited`
/// - Tests: `failed_verifications_are_limited`
pub const UNSIGNED_BURST: u64 = 256;
/// Packets of a neighbor with an unverified signature, in a second.
///
/// See [`UNSIGNED_BURST`].
///
/// # Limit
/// A further packet is dropped before its signature is verified.
/// - Counter: `unsigned_limited`
/// - Tests: `failed_verifications_are_limited`
pub const UNSIGNED_PER_SECOND: u64 = 1000;

/// Ratio between a neighbor's period and the own one, in either direction.
///
/// # Limit
/// The neighbor's request is refused.
/// - Counter: `bad_period`
/// - Tests: `the_slot_period_has_limits`
pub const PERIOD_RATIO_MAX: u64 = 16;

/// VIPs that a neighbor may offer, in percent of its link's capacity.
///
/// Unused capacity accumulates over at most [`OFFERS_MAX`] slots.
///
/// # Limit
/// The excess of an offer is cut.
/// - Value: 125 %
/// - Counter: `offer_cut`
/// - Tests: `offered_vips_are_cut_to_link_capacity`
pub const OFFER_PERCENT_MAX: u64 = 125;

/// Periods of a neighbor for which its counts are used.
///
/// # Limit
/// The neighbor's link carries no VIPs, and no Interest is directed to it.
/// - Counter: `counts_stale`
/// - Tests: `counts_resume_after_a_long_silence`,
///   `a_silent_neighbor_gets_no_directed_interests`
pub const COUNTS_PERIODS: u64 = 2;

/// Octets of a router's name in the exchange.
///
/// # Limit
/// A configuration with a longer name is refused.
/// - Tests: `a_vip_configuration_has_limits`
pub const ROUTER_OCTETS_MAX: usize = 64;

/// Objects that a search for the best set visits.
///
/// # Limit
/// The search returns the best set so far.
/// - Tests: `four_thousand_objects_stay_within_search_bounds`
pub const SEARCH_STEPS_MAX: u32 = 16_384;

/// Pairs of objects compared for a swap between tiers.
///
/// The objects have unequal sizes.
///
/// # Limit
/// The placement found so far is used.
/// - Tests: `four_thousand_objects_stay_within_search_bounds`
pub const SWAPS_MAX: u32 = 65_536;

/// Rounds of refilling tiers with objects of unequal sizes.
///
/// # Limit
/// The placement found so far is used.
/// - Tests: `four_thousand_objects_stay_within_search_bounds`
pub const REFILLS_MAX: u32 = 8;

/// Exchanges that improve one placement.
///
/// # Limit
/// The placement found so far is used.
/// - Tests: `four_thousand_objects_stay_within_search_bounds`
pub const PLACEMENT_STEPS_MAX: u32 = 256;

const _: () = assert!(NEIGHBOURS_MAX <= 64, "the neighbors of an object are bits of a word");
const _: () = assert!(SEGMENTS_MAX <= 16, "the segments that have come are bits of a u16");

//! Limits of neighbor discovery that are not configurable. docs/limits.md lists them.

/// Prefixes in one hello.
///
/// # Limit
/// The hello is malformed.
/// - Counter: `discovery.malformed`
/// - Tests: `announced_prefixes_are_limited`,
///   `malformed_discovery_messages_are_only_counted`
pub const PREFIXES_MAX: usize = 8;

/// Octets of the text of a prefix in a hello.
///
/// # Limit
/// The hello is malformed.
/// - Counter: `discovery.malformed`
/// - Tests: `announced_prefixes_are_limited`,
///   `malformed_discovery_messages_are_only_counted`
pub const PREFIX_OCTETS_MAX: usize = 255;

/// Octets of a message about neighbors.
///
/// # Limit
/// The message is malformed.
/// - Counter: `discovery.malformed`
/// - Tests: `malformed_discovery_messages_are_only_counted`
pub const MESSAGE_OCTETS_MAX: usize = 2800;

/// Signatures of neighbors that wait to be checked.
///
/// # Limit
/// The message is dropped.
/// - Counter: `discovery.verify_full`
/// - Tests: `pending_verifications_are_limited`
pub const VERIFYING_MAX: usize = 256;

/// Link addresses with state that are not neighbors, on all links.
///
/// # Limit
/// Further link addresses share one bucket of messages.
/// - Tests: `remembered_stations_are_limited`
pub const STATIONS_MAX: usize = 1024;

/// Hellos of one interface, multicast and unicast, that may still be answered.
pub const OUTSTANDING_MAX: usize = 512;

/// Messages that a link address may send at once.
///
/// # Limit
/// Further messages are dropped before their signature is checked.
/// - Counter: `discovery.rate_limited`
/// - Tests: `a_station_has_a_message_quota`
pub const STATION_BURST: u64 = 16;

/// Messages of a link address in a second, beyond its burst.
///
/// # Limit
/// Further messages are dropped before their signature is checked.
/// - Counter: `discovery.rate_limited`
/// - Tests: `a_station_has_a_message_quota`
pub const STATION_PER_SECOND: u64 = 8;

/// Messages at once of all link addresses that are not neighbors.
///
/// # Limit
/// Further messages are dropped before their signature is checked.
/// - Counter: `discovery.strangers_limited`
/// - Tests: `unknown_stations_share_a_message_quota`
pub const STRANGERS_BURST: u64 = 512;

/// Messages in a second of all link addresses that are not neighbors.
///
/// # Limit
/// Further messages are dropped before their signature is checked.
/// - Counter: `discovery.strangers_limited`
/// - Tests: `unknown_stations_share_a_message_quota`
pub const STRANGERS_PER_SECOND: u64 = 200;

const SECOND_NS: u64 = 1_000_000_000;

/// Deadline for the reply to a hello, ns. A later reply is refused.
pub const REPLY_NS: u64 = SECOND_NS;

/// Replies to one challenge whose signature is checked.
pub const CHALLENGE_TRIES_MAX: u32 = 4;

/// Time for which a sent hello is retained, ns. The hello distinguishes a late reply from an
/// unsolicited one.
pub const REPLY_REMEMBERED_NS: u64 = 10 * SECOND_NS;

/// Challenges of a found neighbor before it is removed.
pub const CHALLENGES_MAX: u32 = 3;

/// Time between two challenges of a found neighbor, ns.
pub const CHALLENGE_NS: u64 = SECOND_NS / 3;

/// Time after an interface came up during which multicast hellos fit the smallest MTU, ns.
pub const FIRST_NS: u64 = SECOND_NS;

/// Minimum time between two multicast hellos of an interface, ns, even if the interface flaps.
pub const HELLO_GAP_NS: u64 = SECOND_NS / 20;

/// Time between two reductions of a neighbor's MTU.
///
/// # Limit
/// An earlier reduction is ignored, and the present MTU stays.
/// - Value: 10 s
/// - Counter: `discovery.mtu_lowered_too_often`
/// - Tests: `a_changed_mtu_reaches_the_neighbor_at_once`
pub const LOWERED_NS: u64 = 10 * SECOND_NS;

/// Time for which the key of a neighbor that left without a goodbye is retained, ns.
pub const KEY_NS: u64 = 60 * SECOND_NS;

/// Number of neighbors above which replies to new ones are spread over time.
pub const SPREAD_ABOVE: usize = 8;

/// Maximum delay of a reply, ns, for each neighbor of this router.
pub const SPREAD_NS: u64 = 2_000_000;
/// Maximum delay of a reply, ns, with any number of neighbors.
pub const SPREAD_NS_MAX: u64 = 400_000_000;

/// Maximum number of neighbors of a link that receive an Interest without a route one by one. With
/// more neighbors, the Interest is sent to the group.
pub const ASKED_ONE_BY_ONE_MAX: usize = 16;

/// Longest supported MTU, octets.
pub const MTU_OCTETS_MAX: usize = 65_535;

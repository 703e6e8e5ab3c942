//! What bounds neighbour discovery beside its configuration. docs/limits.md lists them.

/// Prefixes of one hello. More make it malformed.
pub const PREFIXES_MAX: usize = 8;

/// Octets of the text of an announced prefix. A longer one makes the hello malformed.
pub const PREFIX_OCTETS_MAX: usize = 255;

/// Octets of a message. A longer one is malformed.
pub const MESSAGE_OCTETS_MAX: usize = 2800;

/// Signatures that wait to be checked. What comes meanwhile is dropped (`verify_full`).
pub const VERIFYING_MAX: usize = 256;

/// Stations on all links that are remembered for what they did, beside neighbours. Others share one
/// bucket of messages.
pub const STATIONS_MAX: usize = 1024;

/// Hellos of one interface, multicast and unicast, to which a reply may still come.
pub const OUTSTANDING_MAX: usize = 512;

/// Messages that a station may send at once before it is rate limited, and per second.
pub const STATION_BURST: u64 = 16;
/// See [`STATION_BURST`].
pub const STATION_PER_SECOND: u64 = 8;

/// The same for all stations together that are no neighbours.
pub const STRANGERS_BURST: u64 = 512;
/// See [`STRANGERS_BURST`].
pub const STRANGERS_PER_SECOND: u64 = 200;

const SECOND_NS: u64 = 1_000_000_000;

/// How long a reply to a hello is waited for, ns. A later one is refused.
pub const REPLY_NS: u64 = SECOND_NS;

/// Replies to one challenge whose signature is looked at.
pub const CHALLENGE_TRIES_MAX: u32 = 4;

/// How long it is remembered that a hello was sent, to tell late replies from such to nothing, ns.
pub const REPLY_REMEMBERED_NS: u64 = 10 * SECOND_NS;

/// How often a neighbour that was found is challenged until it goes again.
pub const CHALLENGES_MAX: u32 = 3;

/// Time between two challenges of a neighbour that was found, ns.
pub const CHALLENGE_NS: u64 = SECOND_NS / 3;

/// For how long after an interface came up hellos that are multicast there fit the smallest MTU,
/// ns.
pub const FIRST_NS: u64 = SECOND_NS;

/// The least time between two multicast hellos of an interface, ns: one that flaps sends no more.
pub const HELLO_GAP_NS: u64 = SECOND_NS / 20;

/// A neighbour's MTU is lowered once in so long, ns.
pub const LOWERED_NS: u64 = 10 * SECOND_NS;

/// How long a neighbour that has gone without a goodbye is remembered with its key, ns.
pub const KEY_NS: u64 = 60 * SECOND_NS;

/// Beyond this many neighbours, replies to new ones are spread over time.
pub const SPREAD_ABOVE: usize = 8;

/// By how much a reply is late at most for each neighbour, ns, and in all.
pub const SPREAD_NS: u64 = 2_000_000;
/// See [`SPREAD_NS`].
pub const SPREAD_NS_MAX: u64 = 400_000_000;

/// Neighbours of a link that are asked one by one for what no route leads to. Of more, the group is
/// asked.
pub const ASKED_ONE_BY_ONE_MAX: usize = 16;

/// Longest MTU that is understood, octets.
pub const MTU_OCTETS_MAX: usize = 65_535;

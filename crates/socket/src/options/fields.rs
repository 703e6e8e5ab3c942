//! The fields of options.

use std::path::PathBuf;
use std::time::Duration;

use namely_security::HmacKey;
use namely_transport::object::{OnBadSegment, ReadOptions};
use namely_transport::publish::{PACKET_OCTETS_DEFAULT, SEGMENT_OCTETS_DEFAULT};
use namely_wire::Name;

use super::values::{ManifestUse, READ_AHEAD_OCTETS, Revocation, Suite, Trust};
use crate::buffer::BufferPolicy;

/// Options of a consumer. `Default` has the defaults of the table.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// `router`; none: the default addresses.
    pub router: Option<String>,
    /// `trust_router_of`.
    pub trust_router_of: String,
    /// `keychain`; none: the user's.
    pub keychain: Option<PathBuf>,
    /// `identity`: the identity that signs datagrams; none: they are not signed.
    pub identity: Option<Name>,
    /// `trust`.
    pub trust: Trust,
    /// `congestion`, `window_max`, `rate_max`, `lifetime_ms`, `retries`, `stale_s`.
    pub read: ReadOptions,
    /// Threads that verify for one consumer, including the fetch's own.
    ///
    /// 0: one for each processor, within limits.
    ///
    /// # Limit
    /// The fetch's own thread verifies the waiting segments.
    /// - Value: one for each processor, 4 at most; and one for each further fetch
    /// - Counter: `verify_helpers_most`
    /// - Tests: `verification_helpers_are_limited`
    pub verify_threads: usize,
    /// `timeout_ms`: the longest time that a call waits; none: no limit while the fetch continues.
    pub timeout: Option<Duration>,
    /// Octets of an object that is fetched whole into memory.
    ///
    /// # Limit
    /// A larger object is refused with `EFBIG`.
    /// - Value: 1 GiB
    /// - Tests: `fetches_over_the_limits_are_refused`,
    ///   `an_object_over_the_callers_limit_is_refused`
    pub object_octets_max: u64,
    /// `reliable`.
    pub reliable: bool,
    /// `on_bad_segment`.
    pub on_bad_segment: OnBadSegment,
    /// `revocation`.
    pub revocation: Revocation,
    /// Octets of one object that are requested and not verified.
    ///
    /// # Limit
    /// No further segment is requested.
    /// - Value: 768 MiB
    /// - Counter: `backlog_most`
    /// - Tests: `a_full_backlog_stops_the_interests`,
    ///   `a_full_backlog_stops_threaded_verification`
    pub backlog_octets: usize,
    /// `read_ahead_octets`.
    pub read_ahead_octets: usize,
    /// `can_be_prefix`.
    pub can_be_prefix: bool,
    /// `must_be_fresh`.
    pub must_be_fresh: bool,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        ConsumerOptions {
            router: None,
            trust_router_of: String::new(),
            keychain: None,
            identity: None,
            trust: Trust::User,
            read: ReadOptions::default(),
            verify_threads: 0,
            timeout: None,
            object_octets_max: 1 << 30,
            reliable: true,
            on_bad_segment: OnBadSegment::Refetch,
            revocation: Revocation::Check,
            backlog_octets: 768 << 20,
            read_ahead_octets: READ_AHEAD_OCTETS,
            can_be_prefix: false,
            must_be_fresh: true,
        }
    }
}

/// Options of a producer. `Default` has the defaults of the table.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    /// `router`; none: the default addresses.
    pub router: Option<String>,
    /// `trust_router_of`.
    pub trust_router_of: String,
    /// `keychain`; none: the user's.
    pub keychain: Option<PathBuf>,
    /// `identity`; none: the longest one above the prefix.
    pub identity: Option<Name>,
    /// `timeout_ms`; none: no limit.
    pub timeout: Option<Duration>,
    /// `manifest`.
    pub manifest: ManifestUse,
    /// `suite`.
    pub suite: Suite,
    /// The key of suite `hmac` and the name by which consumers know it.
    pub shared_key: Option<(Name, HmacKey)>,
    /// `packet_octets_max`.
    pub packet_octets_max: usize,
    /// `mtu`: whether packets also stay within
    /// [`Producer::path_octets`](crate::Producer::path_octets).
    pub follows_path: bool,
    /// `segment_octets`.
    pub segment_octets: usize,
    /// `freshness_ms`.
    pub freshness_ms: u64,
    /// `reliable`.
    pub reliable: bool,
    /// Octets of memory of a producer's output buffer.
    ///
    /// # Limit
    /// A packet is evicted by `buffer_policy`; without a store it is lost.
    /// - Value: 64 MiB
    /// - Counter: `evicted`
    /// - Tests: `a_full_buffer_evicts_one_packet`
    pub buffer_octets: usize,
    /// `buffer_policy`.
    pub buffer_policy: BufferPolicy,
    /// `store`.
    pub store: Option<PathBuf>,
    /// Octets of a producer's store.
    ///
    /// # Limit
    /// A reliable producer gets `ENOSPC`; the oldest file of an unreliable producer is removed.
    /// - Value: 1 GiB
    /// - Counter: `evicted_disk`
    /// - Tests: `a_store_is_limited_in_octets`,
    ///   `a_full_store_refuses_whole_publications`,
    ///   `an_unreliable_producers_store_evicts_its_oldest`
    pub store_octets: u64,
    /// `announce`.
    pub announce: bool,
    /// Requested names that wait for a producer's application.
    ///
    /// # Limit
    /// A further Interest is refused with a Congestion Nack.
    /// - Value: 256
    /// - Counter: `dropped_requests_full`
    /// - Tests: `a_slow_application_causes_congestion_nacks`,
    ///   `waiting_names_and_interests_are_limited`
    pub requests_max: usize,
    /// `pending_ms`; none: the InterestLifetime.
    pub pending_ms: Option<u64>,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        ProducerOptions {
            router: None,
            trust_router_of: String::new(),
            keychain: None,
            identity: None,
            timeout: None,
            manifest: ManifestUse::default(),
            suite: Suite::default(),
            shared_key: None,
            packet_octets_max: PACKET_OCTETS_DEFAULT,
            follows_path: false,
            segment_octets: SEGMENT_OCTETS_DEFAULT,
            freshness_ms: 10_000,
            reliable: false,
            buffer_octets: 64 << 20,
            buffer_policy: BufferPolicy::default(),
            store: None,
            store_octets: 1 << 30,
            announce: false,
            requests_max: 256,
            pending_ms: None,
        }
    }
}

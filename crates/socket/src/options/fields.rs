//! The fields that options are.

use std::path::PathBuf;
use std::time::Duration;

use namely_security::HmacKey;
use namely_transport::object::{OnBadSegment, ReadOptions};
use namely_transport::publish::{PACKET_OCTETS_DEFAULT, SEGMENT_OCTETS_DEFAULT};
use namely_wire::Name;

use super::values::{ManifestUse, READ_AHEAD_OCTETS, Revocation, Suite, Trust};
use crate::buffer::BufferPolicy;

/// Options of a consumer. `Default` is the table's.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// `router`; none: the usual places.
    pub router: Option<String>,
    /// `trust_router_of`.
    pub trust_router_of: String,
    /// `keychain`; none: the user's.
    pub keychain: Option<PathBuf>,
    /// `identity`: whose key signs datagrams; none: they are not signed.
    pub identity: Option<Name>,
    /// `trust`.
    pub trust: Trust,
    /// `congestion`, `window_max`, `lifetime_ms`, `retries`.
    pub read: ReadOptions,
    /// `verify_threads`; 0: one for each processor, within limits.
    pub verify_threads: usize,
    /// `timeout_ms`: the longest a call waits; none: as long as the fetch goes on.
    pub timeout: Option<Duration>,
    /// `object_octets_max`.
    pub object_octets_max: u64,
    /// `reliable`.
    pub reliable: bool,
    /// `on_bad_segment`.
    pub on_bad_segment: OnBadSegment,
    /// `revocation`.
    pub revocation: Revocation,
    /// `backlog_segments`.
    pub backlog_segments: usize,
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
            backlog_segments: 2048,
            read_ahead_octets: READ_AHEAD_OCTETS,
            can_be_prefix: false,
            must_be_fresh: false,
        }
    }
}

/// Options of a producer. `Default` is the table's.
#[derive(Clone, Debug)]
pub struct ProducerOptions {
    /// `router`; none: the usual places.
    pub router: Option<String>,
    /// `trust_router_of`.
    pub trust_router_of: String,
    /// `keychain`; none: the user's.
    pub keychain: Option<PathBuf>,
    /// `identity`; none: the longest one above the prefix.
    pub identity: Option<Name>,
    /// `timeout_ms`; none: for ever.
    pub timeout: Option<Duration>,
    /// `manifest`.
    pub manifest: ManifestUse,
    /// `suite`.
    pub suite: Suite,
    /// The key of suite `hmac` and the name by which consumers know it.
    pub shared_key: Option<(Name, HmacKey)>,
    /// `packet_octets_max`.
    pub packet_octets_max: usize,
    /// `mtu`: whether packets are no longer than
    /// [`Producer::path_octets`](crate::Producer::path_octets) either.
    pub follows_path: bool,
    /// `segment_octets`.
    pub segment_octets: usize,
    /// `freshness_ms`.
    pub freshness_ms: u64,
    /// `reliable`.
    pub reliable: bool,
    /// `buffer_octets`.
    pub buffer_octets: usize,
    /// `buffer_policy`.
    pub buffer_policy: BufferPolicy,
    /// `store`.
    pub store: Option<PathBuf>,
    /// `store_octets`.
    pub store_octets: u64,
    /// `announce`.
    pub announce: bool,
    /// `requests_max`.
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

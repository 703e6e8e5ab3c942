//! The table of options: name, text and field of each.

use std::fmt;

use namely_transport::congestion::Algorithm;
use namely_transport::object::OnBadSegment;
use namely_wire::PACKET_OCTETS_MAX;

use super::error::OptionError;
use super::fields::{ConsumerOptions, ProducerOptions};
use super::text::{OptionText, Words};
use super::values::{ManifestUse, Revocation, Suite, VERIFY_THREADS_MAX};
use crate::buffer::BufferPolicy;

/// The kinds of sockets that have an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Both.
    Both,
    /// Consumers.
    Consumer,
    /// Producers.
    Producer,
}

/// The text that an option accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// One of these words. A word that ends in `:` is followed by an argument.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number within these bounds.
    Number {
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
    /// A whole number that can be read but not set.
    ReadOnly,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Its name.
    pub name: &'static str,
    /// The sockets that have it.
    pub on: For,
    /// The text that it accepts.
    pub kind: Kind,
    /// Its default as text; empty: none.
    pub default: &'static str,
    /// True if it can be set only before bind.
    pub before_bind: bool,
    /// Its description.
    pub about: &'static str,
    of_consumer: Option<Field<ConsumerOptions>>,
    of_producer: Option<Field<ProducerOptions>>,
}

/// The field of an option in `O`.
struct Field<O> {
    set: fn(&mut O, &OptionSpec, &str) -> Result<(), OptionError>,
    get: fn(&O) -> String,
}

impl<O> Clone for Field<O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Field<O> {}

impl<O> fmt::Debug for Field<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Field")
    }
}

/// Builds the [`Field`] that sets and gets the field at this path in the options.
macro_rules! field {
    ($($field:ident).+) => {
        Field {
            set: |options, spec, value| {
                options.$($field).+ = parsed(spec, value)?;
                Ok(())
            },
            get: |options| options.$($field).+.text(),
        }
    };
}

const fn spec(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
    of_consumer: Option<Field<ConsumerOptions>>,
    of_producer: Option<Field<ProducerOptions>>,
) -> OptionSpec {
    let on = match (&of_consumer, &of_producer) {
        (Some(_), Some(_)) => For::Both,
        (Some(_), None) => For::Consumer,
        _ => For::Producer,
    };
    OptionSpec { name, on, kind, default, before_bind: false, about, of_consumer, of_producer }
}

const fn both(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
    consumer: Field<ConsumerOptions>,
    producer: Field<ProducerOptions>,
) -> OptionSpec {
    spec(name, kind, default, about, Some(consumer), Some(producer))
}

const fn consumer(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
    field: Field<ConsumerOptions>,
) -> OptionSpec {
    spec(name, kind, default, about, Some(field), None)
}

const fn producer(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
    field: Field<ProducerOptions>,
) -> OptionSpec {
    spec(name, kind, default, about, None, Some(field))
}

/// A read-only option. The bound producer returns its value.
const fn read_only(name: &'static str, about: &'static str) -> OptionSpec {
    let field = Field {
        set: |_: &mut ProducerOptions, spec, value| {
            Err(OptionError::Bad { option: spec.name, value: value.into() })
        },
        get: |_| "0".into(),
    };
    producer(name, Kind::ReadOnly, "0", about, field)
}

const fn before(spec: OptionSpec) -> OptionSpec {
    OptionSpec { before_bind: true, ..spec }
}

const fn words<T: Words>() -> Kind {
    Kind::Choice(T::WORDS)
}

const ANY_NUMBER: Kind = Kind::Number { min: 0, max: u64::MAX };
const SOME: Kind = Kind::Number { min: 1, max: u64::MAX };
const TRUST: Kind = Kind::Choice(&["user", "policy:FILE", "anchor:FILE", "digest", "insecure"]);
const CONGESTION: Kind = Kind::Choice(&Algorithm::WORDS);
const MTU: Kind = Kind::Choice(&["off", "path"]);
const PACKET_OCTETS: Kind = Kind::Number { min: 256, max: PACKET_OCTETS_MAX as u64 };

const FOLLOWS_PATH: Field<ProducerOptions> = Field {
    set: |options, spec, value| {
        options.follows_path = match value {
            "off" => false,
            "path" => true,
            _ => return Err(OptionError::Bad { option: spec.name, value: value.into() }),
        };
        Ok(())
    },
    get: |options| if options.follows_path { "path" } else { "off" }.into(),
};

/// Every option, in the order of the documentation.
pub const OPTIONS: &[OptionSpec] = &[
    before(both(
        "router",
        Kind::Text,
        "",
        "address of the router; empty: the usual places",
        field!(router),
        field!(router),
    )),
    before(both(
        "trust_router_of",
        Kind::Text,
        "",
        "users whose routers on this machine are trusted besides one's own and root's, with commas between",
        field!(trust_router_of),
        field!(trust_router_of),
    )),
    before(both(
        "keychain",
        Kind::Text,
        "",
        "folder of the key chain; empty: the user's",
        field!(keychain),
        field!(keychain),
    )),
    before(both(
        "identity",
        Kind::Text,
        "",
        "the signing identity; empty: of a producer the longest one above the prefix, and a consumer's datagrams are not signed",
        field!(identity),
        field!(identity),
    )),
    before(consumer(
        "trust",
        TRUST,
        "user",
        "the trust rules: the user's keys and anchors, a policy file, one more anchor's file, digests, none",
        field!(trust),
    )),
    consumer(
        "congestion",
        CONGESTION,
        "cubic",
        "congestion control of fetches",
        field!(read.fetch.congestion),
    ),
    consumer(
        "window_max",
        SOME,
        "1048576",
        "largest window of a fetch, packets",
        field!(read.fetch.window_max),
    ),
    consumer(
        "rate_max",
        ANY_NUMBER,
        "0",
        "octets of packets that all fetches together request per second; 0: no limit",
        field!(read.rate_max),
    ),
    consumer("lifetime_ms", SOME, "2000", "InterestLifetime, ms", field!(read.lifetime_ms)),
    consumer(
        "retries",
        SOME,
        "3",
        "requests for metadata and certificates before a call fails",
        field!(read.attempts),
    ),
    consumer(
        "stale_s",
        ANY_NUMBER,
        "0",
        "maximum age of cached metadata that is accepted if the producer does not answer, s; 0: none",
        field!(read.stale_s),
    ),
    consumer(
        "reliable",
        Kind::Flag,
        "true",
        "whether lost segments are requested again; if not, a gap is an error, and a stream continues",
        field!(reliable),
    ),
    consumer(
        "on_bad_segment",
        words::<OnBadSegment>(),
        "refetch",
        "the reaction to a segment that does not verify",
        field!(on_bad_segment),
    ),
    consumer(
        "revocation",
        words::<Revocation>(),
        "check",
        "refuse revoked certificates, or also those without a good status, or none",
        field!(revocation),
    ),
    consumer(
        "backlog_octets",
        SOME,
        "805306368",
        "octets of an object that may be requested and not verified",
        field!(backlog_octets),
    ),
    // Its name of release 0.1.0, in segments of any size up to the largest packet.
    consumer(
        "backlog_segments",
        SOME,
        "91512",
        "as backlog_octets, in packets of 8,800 octets",
        Field {
            set: |options, spec, value| {
                let segments: usize = parsed(spec, value)?;
                options.backlog_octets = segments.saturating_mul(PACKET_OCTETS_MAX);
                Ok(())
            },
            get: |options| (options.backlog_octets / PACKET_OCTETS_MAX).text(),
        },
    ),
    consumer(
        "verify_threads",
        Kind::Number { min: 0, max: VERIFY_THREADS_MAX as u64 },
        "0",
        "threads that verify an object, its own included, and more than one only while many segments wait; 0: one for each processor, 4 at most",
        field!(verify_threads),
    ),
    consumer(
        "read_ahead_octets",
        SOME,
        "402653184",
        "octets that a stream requests ahead of its reader; 4 MiB at first",
        field!(read_ahead_octets),
    ),
    consumer(
        "can_be_prefix",
        Kind::Flag,
        "false",
        "whether Data with longer names may answer datagrams",
        field!(can_be_prefix),
    ),
    consumer(
        "must_be_fresh",
        Kind::Flag,
        "true",
        "whether stale Data may not answer datagrams",
        field!(must_be_fresh),
    ),
    both(
        "timeout_ms",
        ANY_NUMBER,
        "0",
        "the longest a call waits, ms; 0: as long as the fetch goes on",
        field!(timeout),
        field!(timeout),
    ),
    consumer(
        "object_octets_max",
        SOME,
        "1073741824",
        "the largest object that is fetched whole, octets",
        field!(object_octets_max),
    ),
    producer(
        "manifest",
        words::<ManifestUse>(),
        "sha256",
        "whether manifests authenticate segments, and their hash",
        field!(manifest),
    ),
    producer("suite", words::<Suite>(), "ed25519", "signature of publications", field!(suite)),
    producer(
        "packet_octets_max",
        PACKET_OCTETS,
        "8736",
        "largest packet made, octets",
        field!(packet_octets_max),
    ),
    producer(
        "mtu",
        MTU,
        "off",
        "whether packets are limited to the size that the path to the router carries whole",
        FOLLOWS_PATH,
    ),
    read_only("path_octets", "largest packet that the path carries whole; 0: not bound"),
    read_only(
        "certificate_ends_s",
        "last second of the session's certificate, s since the Unix epoch; 0: not bound, or no key signs",
    ),
    producer("segment_octets", SOME, "8192", "maximum content of a segment, octets", field!(segment_octets)),
    producer("freshness_ms", ANY_NUMBER, "10000", "FreshnessPeriod of segments, ms", field!(freshness_ms)),
    before(producer(
        "reliable",
        Kind::Flag,
        "false",
        "whether all publications are retained in the store; otherwise those that do not fit are lost",
        field!(reliable),
    )),
    before(producer(
        "buffer_octets",
        ANY_NUMBER,
        "67108864",
        "memory of the output buffer, octets",
        field!(buffer_octets),
    )),
    before(producer(
        "buffer_policy",
        words::<BufferPolicy>(),
        "lru",
        "which packets leave memory first",
        field!(buffer_policy),
    )),
    before(producer(
        "store",
        Kind::Text,
        "",
        "directory behind the output buffer; empty: none",
        field!(store),
    )),
    before(producer("store_octets", SOME, "1073741824", "limit of the store, octets", field!(store_octets))),
    before(producer(
        "announce",
        Kind::Flag,
        "false",
        "whether metadata, first segments and replies announce the whole prefix to routers that learn routes",
        field!(announce),
    )),
    before(producer(
        "requests_max",
        SOME,
        "256",
        "requests that wait for the application",
        field!(requests_max),
    )),
    before(producer(
        "pending_ms",
        ANY_NUMBER,
        "0",
        "the longest an Interest waits for the application, ms; 0: its lifetime",
        field!(pending_ms),
    )),
];

/// Parses `value` as `spec` requires.
pub(super) fn parsed<T: OptionText>(spec: &OptionSpec, value: &str) -> Result<T, OptionError> {
    let bad = || OptionError::Bad { option: spec.name, value: value.into() };
    if let Kind::Number { min, max } = spec.kind
        && !value.parse().is_ok_and(|number: u64| (min..=max).contains(&number))
    {
        return Err(bad());
    }
    T::of_text(value).ok_or_else(bad)
}

/// Returns the specification of option `name` on sockets of kind `on`.
pub(crate) fn find(name: &str, on: For) -> Result<&'static OptionSpec, OptionError> {
    of(on).find(|spec| spec.name == name).ok_or_else(|| unknown(name, on))
}

/// The options of sockets of kind `on`.
fn of(on: For) -> impl Iterator<Item = &'static OptionSpec> {
    OPTIONS.iter().filter(move |spec| spec.on == on || spec.on == For::Both)
}

fn unknown(name: &str, on: For) -> OptionError {
    OptionError::Unknown { option: name.into(), known: of(on).map(|spec| spec.name).collect() }
}

macro_rules! by_name {
    ($($options:ident: $on:ident in $field:ident),*) => {
        $(impl $options {
            /// Sets option `name` to `value`.
            ///
            /// # Errors
            /// There is no such option, or `value` is invalid.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
                let spec = find(name, For::$on)?;
                let field = spec.$field.ok_or_else(|| unknown(name, For::$on))?;
                (field.set)(self, spec, value)
            }

            /// The value of option `name`, as text.
            ///
            /// # Errors
            /// There is no such option.
            pub fn get(&self, name: &str) -> Result<String, OptionError> {
                let field = find(name, For::$on)?.$field.ok_or_else(|| unknown(name, For::$on))?;
                Ok((field.get)(self))
            }
        })*
    };
}

by_name!(ConsumerOptions: Consumer in of_consumer, ProducerOptions: Producer in of_producer);

//! Options, by field in Rust and by name and text everywhere else: one table for all bindings.

mod error;

use std::path::PathBuf;
use std::time::Duration;

use namely_security::{HmacKey, KeyChain, KeyType, ManifestHash, TrustPolicy, read_certificate};
use namely_transport::congestion::Algorithm;
pub use namely_transport::object::OnBadSegment;
use namely_transport::object::ReadOptions;
use namely_transport::publish::{self, PACKET_OCTETS_DEFAULT, SEGMENT_OCTETS_DEFAULT, Signing};
use namely_wire::{Name, PACKET_OCTETS_MAX};

pub use self::error::OptionError;
pub use crate::buffer::BufferPolicy;
use crate::consumer::{READ_AHEAD_OCTETS, VERIFY_THREADS_MAX};
use crate::error::BindError;

/// Which sockets have an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Both.
    Both,
    /// Consumers.
    Consumer,
    /// Producers.
    Producer,
}

/// What text an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// One of these words; one that ends in `:` is followed by something.
    Choice(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number within these bounds.
    Number {
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// A whole number that can be read and not be set.
    ReadOnly,
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its name.
    pub name: &'static str,
    /// Which sockets have it.
    pub on: For,
    /// What text it takes.
    pub kind: Kind,
    /// Its value unless another is set, as text; empty: none.
    pub default: &'static str,
    /// Whether it can be set only before bind.
    pub before_bind: bool,
    /// What it is.
    pub about: &'static str,
}

const fn spec(
    name: &'static str,
    on: For,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> OptionSpec {
    OptionSpec { name, on, kind, default, before_bind: false, about }
}

const fn before(spec: OptionSpec) -> OptionSpec {
    OptionSpec { before_bind: true, ..spec }
}

const ANY_NUMBER: Kind = Kind::Number { min: 0, max: u64::MAX };
const SOME: Kind = Kind::Number { min: 1, max: u64::MAX };
const TRUST: Kind = Kind::Choice(&["user", "policy:", "anchor:", "digest", "insecure"]);
const ON_BAD: Kind = Kind::Choice(&["refetch", "accept", "abort"]);
const REVOCATION: Kind = Kind::Choice(&["check", "off", "require"]);
const CONGESTION: Kind = Kind::Choice(&["cubic", "raaqm", "bbr", "nbcc", "aimd", "fixed:"]);
const MTU: Kind = Kind::Choice(&["off", "path"]);
const PACKET_OCTETS: Kind = Kind::Number { min: 256, max: PACKET_OCTETS_MAX as u64 };

/// Every option, in the order of the documentation.
pub const OPTIONS: &[OptionSpec] = &[
    before(spec("router", For::Both, Kind::Text, "", "address of the router; empty: the usual places")),
    before(spec("keychain", For::Both, Kind::Text, "", "folder of the key chain; empty: the user's")),
    before(spec(
        "identity",
        For::Producer,
        Kind::Text,
        "",
        "who signs; empty: the longest identity above the prefix",
    )),
    before(spec(
        "trust",
        For::Consumer,
        TRUST,
        "user",
        "whom to believe: the user's keys and anchors, a policy file, one more anchor's file, digests, anything",
    )),
    spec("congestion", For::Consumer, CONGESTION, "cubic", "how fetches follow the network"),
    spec("window_max", For::Consumer, SOME, "1024", "largest window of a fetch, packets"),
    spec("lifetime_ms", For::Consumer, SOME, "2000", "InterestLifetime, ms"),
    spec("retries", For::Consumer, SOME, "3", "how often metadata and certificates are asked for"),
    spec(
        "reliable",
        For::Consumer,
        Kind::Flag,
        "true",
        "whether what is lost is asked for again; if not, a gap is an error, and a stream goes on behind it",
    ),
    spec(
        "on_bad_segment",
        For::Consumer,
        ON_BAD,
        "refetch",
        "what becomes of a segment that is not believed",
    ),
    spec(
        "revocation",
        For::Consumer,
        REVOCATION,
        "check",
        "refuse what is revoked, or also what nobody calls good, or nothing",
    ),
    spec(
        "backlog_segments",
        For::Consumer,
        SOME,
        "2048",
        "segments of an object that may wait to be verified",
    ),
    spec(
        "verify_threads",
        For::Consumer,
        Kind::Number { min: 0, max: VERIFY_THREADS_MAX as u64 },
        "0",
        "threads that verify an object, its own included, and more than one only while much waits; 0: one for each processor, 4 at most",
    ),
    spec(
        "read_ahead_octets",
        For::Consumer,
        SOME,
        "4194304",
        "octets that a stream asks for ahead of its reader; as many again wait verified",
    ),
    spec(
        "can_be_prefix",
        For::Consumer,
        Kind::Flag,
        "false",
        "whether Data with longer names may answer datagrams",
    ),
    spec("must_be_fresh", For::Consumer, Kind::Flag, "false", "whether stale Data may not answer datagrams"),
    spec(
        "timeout_ms",
        For::Both,
        ANY_NUMBER,
        "0",
        "the longest a call waits, ms; 0: as long as the fetch goes on",
    ),
    spec(
        "object_octets_max",
        For::Consumer,
        SOME,
        "1073741824",
        "the largest object that is fetched whole, octets",
    ),
    spec(
        "manifest",
        For::Producer,
        Kind::Choice(&["off", "sha256", "blake3"]),
        "sha256",
        "whether manifests vouch for segments, and with which hash",
    ),
    spec("suite", For::Producer, Kind::Choice(Suite::WORDS), "ed25519", "how what is published is signed"),
    spec("packet_octets_max", For::Producer, PACKET_OCTETS, "8736", "largest packet made, octets"),
    spec(
        "mtu",
        For::Producer,
        MTU,
        "off",
        "whether packets are made no longer than the path to the router carries whole",
    ),
    spec(
        "path_octets",
        For::Producer,
        Kind::ReadOnly,
        "0",
        "largest packet that the path carries whole; 0: not bound",
    ),
    spec(
        "certificate_ends_s",
        For::Producer,
        Kind::ReadOnly,
        "0",
        "last second of the session's certificate, s since the Unix epoch; 0: not bound, or no key signs",
    ),
    spec("segment_octets", For::Producer, SOME, "8192", "most content in a segment, octets"),
    spec("freshness_ms", For::Producer, ANY_NUMBER, "10000", "FreshnessPeriod of segments, ms"),
    before(spec(
        "reliable",
        For::Producer,
        Kind::Flag,
        "false",
        "whether everything published is kept in the store; otherwise what does not fit is lost",
    )),
    before(spec(
        "buffer_octets",
        For::Producer,
        ANY_NUMBER,
        "67108864",
        "memory of the output buffer, octets",
    )),
    before(spec(
        "buffer_policy",
        For::Producer,
        Kind::Choice(&["fifo", "lru", "lfu"]),
        "lru",
        "which packets leave memory first",
    )),
    before(spec("store", For::Producer, Kind::Text, "", "directory behind the output buffer; empty: none")),
    before(spec("store_octets", For::Producer, SOME, "1073741824", "limit of the store, octets")),
    before(spec("requests_max", For::Producer, SOME, "256", "names that wait for the application")),
    before(spec(
        "pending_ms",
        For::Producer,
        ANY_NUMBER,
        "0",
        "the longest an Interest waits for the application, ms; 0: its lifetime",
    )),
];

/// FreshnessPeriod of metadata, ms: for so long caches may not notice a newer version.
const METADATA_FRESHNESS_MS: u64 = 1_000;

/// Whom a consumer believes.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// The user's own keys and trust anchors, each below its identity.
    #[default]
    User,
    /// What a policy file says.
    PolicyFile(PathBuf),
    /// Who is believed otherwise, and the certificates in these files.
    AnchorFiles {
        /// Who is believed otherwise.
        beside: Box<Trust>,
        /// A certificate each.
        files: Vec<PathBuf>,
    },
    /// This policy.
    Policy(Box<TrustPolicy>),
}

impl Trust {
    /// The policy; `keychain` is the folder of the key chain, if not the user's.
    pub(crate) fn policy(&self, keychain: Option<&PathBuf>) -> Result<TrustPolicy, BindError> {
        match self {
            Trust::User => users(keychain),
            Trust::PolicyFile(path) => TrustPolicy::load(path).map_err(BindError::Policy),
            Trust::AnchorFiles { beside, files } => {
                let mut policy = beside.policy(keychain)?;
                for path in files {
                    policy.add_anchor(read_certificate(path).map_err(BindError::Anchor)?);
                }
                Ok(policy)
            }
            Trust::Policy(policy) => Ok((**policy).clone()),
        }
    }
}

impl std::str::FromStr for Trust {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split_once(':') {
            None if text == "user" => Ok(Trust::User),
            None if text == "digest" => Ok(Trust::Policy(TrustPolicy::digest_only().into())),
            None if text == "insecure" => Ok(Trust::Policy(TrustPolicy::insecure_accept_all().into())),
            Some(("policy", path)) => Ok(Trust::PolicyFile(path.into())),
            Some(("anchor", path)) => {
                Ok(Trust::AnchorFiles { beside: Box::new(Trust::User), files: vec![path.into()] })
            }
            _ => Err(()),
        }
    }
}

pub(crate) fn key_chain(folder: Option<&PathBuf>) -> Result<KeyChain, BindError> {
    match folder {
        Some(folder) => Ok(KeyChain::open(folder)?),
        None => Ok(KeyChain::open_default()?),
    }
}

fn users(keychain: Option<&PathBuf>) -> Result<TrustPolicy, BindError> {
    let (policy, problems) = key_chain(keychain)?.hierarchical_policy()?;
    for problem in problems {
        tracing::warn!(%problem, "a part of the key chain is left out");
    }
    Ok(policy)
}

/// Options of a consumer. `Default` is the table's.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// `router`; none: the usual places.
    pub router: Option<String>,
    /// `keychain`; none: the user's.
    pub keychain: Option<PathBuf>,
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
            keychain: None,
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
    /// `mtu`: whether packets are no longer than [`Producer::path_octets`](crate::Producer::path_octets) either.
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
    /// `requests_max`.
    pub requests_max: usize,
    /// `pending_ms`; none: the InterestLifetime.
    pub pending_ms: Option<u64>,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        ProducerOptions {
            router: None,
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
            requests_max: 256,
            pending_ms: None,
        }
    }
}

macro_rules! words {
    ($type:ident: $($variant:ident = $word:literal),* $(,)?) => {
        impl $type {
            /// What the option takes, as text.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            fn text(self) -> &'static str {
                match self {
                    $($type::$variant => $word,)*
                }
            }
        }

        impl std::str::FromStr for $type {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                match text {
                    $($word => Ok($type::$variant),)*
                    _ => Err(()),
                }
            }
        }
    };
}

words! { BufferPolicy: Fifo = "fifo", Lru = "lru", Lfu = "lfu" }
words! {
    Suite: DigestSha256 = "digest-sha256", Hmac = "hmac", Ed25519 = "ed25519", EcdsaP256 = "ecdsa-p256",
    Rsa2048 = "rsa-2048",
}

/// How what is published is signed (option `suite`; HT-14, HT-23).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suite {
    /// SHA-256 only: intact, of unknown origin.
    DigestSha256,
    /// A key that is shared with the consumers.
    Hmac,
    /// Ed25519.
    #[default]
    Ed25519,
    /// ECDSA over P-256.
    EcdsaP256,
    /// RSA of 2048 bits.
    Rsa2048,
}

impl Suite {
    /// The kind of its session key, if it has one.
    pub(crate) fn key_type(self) -> Option<KeyType> {
        match self {
            Suite::DigestSha256 | Suite::Hmac => None,
            Suite::Ed25519 => Some(KeyType::Ed25519),
            Suite::EcdsaP256 => Some(KeyType::EcdsaP256),
            Suite::Rsa2048 => Some(KeyType::Rsa),
        }
    }
}

/// Whether manifests vouch for segments (option `manifest`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestUse {
    /// Each segment is signed.
    Off,
    /// A manifest lists digests of this kind.
    By(ManifestHash),
}

impl Default for ManifestUse {
    fn default() -> Self {
        ManifestUse::By(ManifestHash::Sha256)
    }
}

impl ManifestUse {
    fn text(self) -> &'static str {
        match self {
            ManifestUse::Off => "off",
            ManifestUse::By(ManifestHash::Sha256) => "sha256",
            ManifestUse::By(ManifestHash::Blake3) => "blake3",
        }
    }
}

impl std::str::FromStr for ManifestUse {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "off" => Ok(ManifestUse::Off),
            "sha256" => Ok(ManifestUse::By(ManifestHash::Sha256)),
            "blake3" => Ok(ManifestUse::By(ManifestHash::Blake3)),
            _ => Err(()),
        }
    }
}

/// What a consumer asks about certificates (option `revocation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revocation {
    /// Nothing.
    Off,
    /// Whether they are revoked; where nobody answers, they are believed.
    #[default]
    Check,
    /// The same; where nobody answers who may, they are not believed.
    Require,
}

const BAD_SEGMENT_WORDS: [(OnBadSegment, &str); 3] =
    [(OnBadSegment::Refetch, "refetch"), (OnBadSegment::Accept, "accept"), (OnBadSegment::Abort, "abort")];

const REVOCATION_WORDS: [(Revocation, &str); 3] =
    [(Revocation::Off, "off"), (Revocation::Check, "check"), (Revocation::Require, "require")];

/// How one object is published: what is none is as the socket's options say (HT-23).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishOptions {
    /// The version; none: the time, in microseconds since the Unix epoch, and never the same twice.
    pub version: Option<u64>,
    /// How it is signed.
    pub suite: Option<Suite>,
    /// Whether manifests vouch for the segments.
    pub manifest: Option<ManifestUse>,
    /// Largest packet made, octets.
    pub packet_octets_max: Option<usize>,
    /// FreshnessPeriod of segments, ms.
    pub freshness_ms: Option<u64>,
    /// After this time who asks for the newest version reaches the application again; segments stay as they are.
    pub expires: Option<Duration>,
}

impl PublishOptions {
    /// Sets option `name`, one of those of a producer that it has a field for, `version` or `expires_ms`, to what `value`
    /// says.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let number = |option| value.parse().map_err(|_| OptionError::Bad { option, value: value.into() });
        match name {
            "version" => {
                self.version = Some(number("version")?);
                return Ok(());
            }
            "expires_ms" => {
                self.expires = Some(Duration::from_millis(number("expires_ms")?));
                return Ok(());
            }
            _ => {}
        }
        let spec = find(name, For::Producer)?;
        match spec.name {
            "manifest" => self.manifest = Some(parsed(spec, value)?),
            "suite" => self.suite = Some(parsed(spec, value)?),
            "packet_octets_max" => self.packet_octets_max = Some(parsed(spec, value)?),
            "freshness_ms" => self.freshness_ms = Some(parsed(spec, value)?),
            _ => return Err(OptionError::Unknown(name.into())),
        }
        Ok(())
    }

    pub(crate) fn over(&self, socket: &ProducerOptions) -> publish::Options {
        publish::Options {
            packet_octets_max: self.packet_octets_max.unwrap_or(socket.packet_octets_max),
            segment_octets_max: socket.segment_octets,
            signing: match self.manifest.unwrap_or(socket.manifest) {
                ManifestUse::Off => Signing::PerPacket,
                ManifestUse::By(hash) => Signing::Manifest(hash),
            },
            freshness_ms: self.freshness_ms.unwrap_or(socket.freshness_ms),
            metadata_freshness_ms: self.expires.map_or(METADATA_FRESHNESS_MS, |expires| {
                (expires.as_millis() as u64).min(METADATA_FRESHNESS_MS)
            }),
        }
    }
}

/// The specification of option `name` on such a socket.
pub(crate) fn find(name: &str, on: For) -> Result<&'static OptionSpec, OptionError> {
    let is = |spec: &&OptionSpec| spec.name == name && (spec.on == on || spec.on == For::Both);
    OPTIONS.iter().find(is).ok_or_else(|| OptionError::Unknown(name.into()))
}

/// `value` as what `spec` takes.
fn parsed<T: std::str::FromStr>(spec: &OptionSpec, value: &str) -> Result<T, OptionError> {
    let bad = || OptionError::Bad { option: spec.name, value: value.into() };
    if let Kind::Number { min, max } = spec.kind
        && !value.parse().is_ok_and(|number: u64| (min..=max).contains(&number))
    {
        return Err(bad());
    }
    value.parse().map_err(|_| bad())
}

/// The value that the word `value` stands for.
fn word<T: Copy>(spec: &OptionSpec, value: &str, words: &[(T, &str)]) -> Result<T, OptionError> {
    let found = words.iter().find(|(_, word)| *word == value).map(|(meant, _)| *meant);
    found.ok_or_else(|| OptionError::Bad { option: spec.name, value: value.into() })
}

fn word_of<T: PartialEq>(value: T, words: &[(T, &str)]) -> String {
    words.iter().find(|(meant, _)| *meant == value).map_or_else(String::new, |(_, word)| (*word).into())
}

fn text_of<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(String::new, T::to_string)
}

fn path_text(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(String::new, |path| path.display().to_string())
}

fn filled(value: &str) -> Option<&str> {
    (!value.is_empty()).then_some(value)
}

fn ms_text(timeout: Option<Duration>) -> String {
    timeout.map_or(0, |timeout| timeout.as_millis()).to_string()
}

fn timeout_of(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

impl ConsumerOptions {
    /// Sets option `name` to what `value` says.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let spec = find(name, For::Consumer)?;
        match spec.name {
            "router" => self.router = filled(value).map(Into::into),
            "keychain" => self.keychain = filled(value).map(Into::into),
            "trust" => self.trust = parsed(spec, value)?,
            "congestion" => self.read.fetch.congestion = parsed(spec, value)?,
            "window_max" => {
                self.read.fetch.window_max = parsed(spec, value)?;
            }
            "lifetime_ms" => self.read.lifetime_ms = parsed(spec, value)?,
            "retries" => self.read.attempts = parsed(spec, value)?,
            "timeout_ms" => self.timeout = timeout_of(parsed(spec, value)?),
            "object_octets_max" => self.object_octets_max = parsed(spec, value)?,
            "reliable" => self.reliable = parsed(spec, value)?,
            "on_bad_segment" => self.on_bad_segment = word(spec, value, &BAD_SEGMENT_WORDS)?,
            "revocation" => self.revocation = word(spec, value, &REVOCATION_WORDS)?,
            "backlog_segments" => self.backlog_segments = parsed(spec, value)?,
            "verify_threads" => self.verify_threads = parsed(spec, value)?,
            "read_ahead_octets" => self.read_ahead_octets = parsed(spec, value)?,
            "can_be_prefix" => self.can_be_prefix = parsed(spec, value)?,
            "must_be_fresh" => self.must_be_fresh = parsed(spec, value)?,
            _ => return Err(OptionError::Unknown(name.into())),
        }
        Ok(())
    }

    /// The value of option `name`, as text.
    pub fn get(&self, name: &str) -> Result<String, OptionError> {
        Ok(match find(name, For::Consumer)?.name {
            "router" => text_of(&self.router),
            "keychain" => path_text(&self.keychain),
            "trust" => trust_text(&self.trust),
            "congestion" => congestion_text(self.read.fetch.congestion),
            "window_max" => self.read.fetch.window_max.to_string(),
            "lifetime_ms" => self.read.lifetime_ms.to_string(),
            "retries" => self.read.attempts.to_string(),
            "timeout_ms" => ms_text(self.timeout),
            "object_octets_max" => self.object_octets_max.to_string(),
            "reliable" => self.reliable.to_string(),
            "on_bad_segment" => word_of(self.on_bad_segment, &BAD_SEGMENT_WORDS),
            "revocation" => word_of(self.revocation, &REVOCATION_WORDS),
            "backlog_segments" => self.backlog_segments.to_string(),
            "verify_threads" => self.verify_threads.to_string(),
            "read_ahead_octets" => self.read_ahead_octets.to_string(),
            "can_be_prefix" => self.can_be_prefix.to_string(),
            "must_be_fresh" => self.must_be_fresh.to_string(),
            _ => return Err(OptionError::Unknown(name.into())),
        })
    }
}

impl ProducerOptions {
    /// Sets option `name` to what `value` says.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let spec = find(name, For::Producer)?;
        match spec.name {
            "router" => self.router = filled(value).map(Into::into),
            "keychain" => self.keychain = filled(value).map(Into::into),
            "identity" => {
                self.identity = filled(value).map(|value| parsed(spec, value)).transpose()?;
            }
            "timeout_ms" => self.timeout = timeout_of(parsed(spec, value)?),
            "manifest" => self.manifest = parsed(spec, value)?,
            "packet_octets_max" => self.packet_octets_max = parsed(spec, value)?,
            "mtu" if value == "off" || value == "path" => self.follows_path = value == "path",
            "mtu" | "path_octets" | "certificate_ends_s" => {
                return Err(OptionError::Bad { option: spec.name, value: value.into() });
            }
            "suite" => self.suite = parsed(spec, value)?,
            "segment_octets" => self.segment_octets = parsed(spec, value)?,
            "freshness_ms" => self.freshness_ms = parsed(spec, value)?,
            "reliable" => self.reliable = parsed(spec, value)?,
            "buffer_octets" => self.buffer_octets = parsed(spec, value)?,
            "buffer_policy" => self.buffer_policy = parsed(spec, value)?,
            "store" => self.store = filled(value).map(Into::into),
            "store_octets" => self.store_octets = parsed(spec, value)?,
            "requests_max" => self.requests_max = parsed(spec, value)?,
            "pending_ms" => self.pending_ms = Some(parsed(spec, value)?).filter(|ms| *ms > 0),
            _ => return Err(OptionError::Unknown(name.into())),
        }
        Ok(())
    }

    /// The value of option `name`, as text.
    pub fn get(&self, name: &str) -> Result<String, OptionError> {
        Ok(match find(name, For::Producer)?.name {
            "router" => text_of(&self.router),
            "keychain" => path_text(&self.keychain),
            "identity" => text_of(&self.identity),
            "timeout_ms" => ms_text(self.timeout),
            "manifest" => self.manifest.text().into(),
            "packet_octets_max" => self.packet_octets_max.to_string(),
            "mtu" => if self.follows_path { "path" } else { "off" }.into(),
            "path_octets" | "certificate_ends_s" => "0".into(),
            "suite" => self.suite.text().into(),
            "segment_octets" => self.segment_octets.to_string(),
            "freshness_ms" => self.freshness_ms.to_string(),
            "reliable" => self.reliable.to_string(),
            "buffer_octets" => self.buffer_octets.to_string(),
            "buffer_policy" => self.buffer_policy.text().into(),
            "store" => path_text(&self.store),
            "store_octets" => self.store_octets.to_string(),
            "requests_max" => self.requests_max.to_string(),
            "pending_ms" => self.pending_ms.unwrap_or(0).to_string(),
            _ => return Err(OptionError::Unknown(name.into())),
        })
    }
}

fn trust_text(trust: &Trust) -> String {
    match trust {
        Trust::User => "user".into(),
        Trust::PolicyFile(path) => format!("policy:{}", path.display()),
        Trust::AnchorFiles { files, .. } => {
            let files: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
            format!("anchor:{}", files.join(":"))
        }
        Trust::Policy(policy) if policy.is_authenticating() => "policy".into(),
        Trust::Policy(policy) if policy.accepts_all() => "insecure".into(),
        Trust::Policy(_) => "digest".into(),
    }
}

fn congestion_text(algorithm: Algorithm) -> String {
    match algorithm {
        Algorithm::Fixed(window) => format!("fixed:{window}"),
        Algorithm::Aimd => "aimd".into(),
        Algorithm::Cubic => "cubic".into(),
        Algorithm::Raaqm => "raaqm".into(),
        Algorithm::Bbr => "bbr".into(),
        Algorithm::NbCc => "nbcc".into(),
    }
}

#[cfg(test)]
mod tests;

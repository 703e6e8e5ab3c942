//! Types of option values.

use std::path::PathBuf;

use namely_security::{KeyType, ManifestHash, TrustPolicy};

/// Octets that a stream requests ahead of its reader.
///
/// This is the default of option `read_ahead_octets`. The limit begins at 4 MiB and grows with the
/// octets that the reader takes within a round trip.
///
/// # Limit
/// No further segment is requested.
/// - Value: 384 MiB
/// - Setting: `read_ahead_octets`
/// - Tests: `a_range_requests_only_its_segments`
pub const READ_AHEAD_OCTETS: usize = 384 << 20;

/// Octets of a stream that are verified and wait for the reader, and at first those that are
/// requested.
///
/// # Limit
/// No further segment is verified.
/// - Value: 4 MiB and one segment, and one that the reader has; `read_ahead_octets` if it is less
/// - Tests: `a_stream_seeks_within_its_read_ahead`
pub const STREAM_OCTETS_FIRST: usize = 4 << 20;

/// Value of option `verify_threads`.
///
/// # Limit
/// A larger value is refused with `EINVAL`.
/// - Tests: `every_option_has_a_limit`
pub const VERIFY_THREADS_MAX: usize = 64;

/// The trust policy of a consumer.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// The user's own keys and trust anchors, each below its identity.
    #[default]
    User,
    /// The policy in a file.
    PolicyFile(PathBuf),
    /// Another policy with additional trust anchors.
    AnchorFiles {
        /// The other policy.
        beside: Box<Trust>,
        /// Files with one certificate each.
        files: Vec<PathBuf>,
    },
    /// This policy.
    Policy(Box<TrustPolicy>),
}

/// The signature suite of published packets (option `suite`; HT-14, HT-23).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Suite {
    /// SHA-256 only: proves integrity but not origin.
    DigestSha256,
    /// HMAC with a key that is shared with the consumers.
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
    /// The type of its session key, if it has one.
    pub(crate) fn key_type(self) -> Option<KeyType> {
        match self {
            Suite::DigestSha256 | Suite::Hmac => None,
            Suite::Ed25519 => Some(KeyType::Ed25519),
            Suite::EcdsaP256 => Some(KeyType::EcdsaP256),
            Suite::Rsa2048 => Some(KeyType::Rsa),
        }
    }
}

/// Whether manifests authenticate segments (option `manifest`).
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

/// Whether a consumer checks certificates for revocation (option `revocation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revocation {
    /// No check.
    Off,
    /// Rejects revoked certificates. A certificate of unknown status is accepted.
    #[default]
    Check,
    /// Rejects revoked certificates and certificates of unknown status.
    Require,
}

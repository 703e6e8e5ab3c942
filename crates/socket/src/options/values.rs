//! What options can be.

use std::path::PathBuf;

use namely_security::{KeyType, ManifestHash, TrustPolicy};

/// Octets of a stream that are verified and wait to be read, unless option `read_ahead_octets` says
/// less or more; as many again are requested and not verified.
pub const READ_AHEAD_OCTETS: usize = 4 << 20;

/// Maximum number of threads that verify for one socket, the fetch's own included.
pub const VERIFY_THREADS_MAX: usize = 64;

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

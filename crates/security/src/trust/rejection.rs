//! Why a packet is not believed, in words that say what to do next.

use std::fmt;

use namely_wire::{DecodeError, Name, SignatureType};

use crate::certificate::CertificateError;
use crate::validity::UtcTime;

/// A packet that is not believed: which, by which key, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The packet that was to be verified; the empty name if it could not be read.
    pub name: Name,
    /// The certificate in its chain at which verification failed; `None` if it failed at the packet
    /// itself.
    pub certificate: Option<Name>,
    /// The key that the failing packet or certificate names as its signer.
    pub key: Option<Name>,
    /// What is wrong.
    pub why: RejectionReason,
    /// The implicit digest of Data, by which others can be told which packet this was.
    pub digest: Option<Box<[u8; 32]>>,
}

/// What is wrong with a packet, its signature, or its chain of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RejectionReason {
    /// Peer: not a well-formed packet.
    Malformed(DecodeError),
    /// Peer: not a usable certificate.
    BadCertificate(CertificateError),
    /// Peer: an Interest without a signature.
    NotSigned,
    /// Peer: no signature that shows an origin, where one is needed.
    NoOrigin(SignatureType),
    /// Caller: only digests are checked, and the packet is signed with a key.
    NotADigest(SignatureType),
    /// Peer: a signature of a type that namely does not know.
    UnknownSignatureType(u64),
    /// Peer: the KeyLocator is absent, or a digest, or not the name of a key.
    NoKeyName,
    /// Caller or peer: no rule lets this key sign this name.
    NotAllowed,
    /// Caller: signed with a shared key that the policy does not have.
    NoSharedKey,
    /// Caller: no trust anchor leads to this name.
    NoAnchor,
    /// Caller: the chain ends at a certificate that signed itself and is no anchor.
    UntrustedRoot,
    /// Peer: certificates that sign each other in a circle.
    Loop,
    /// Peer or caller: a longer chain than the policy allows; its limit is given.
    TooDeep(usize),
    /// Peer: the digest does not fit the octets.
    BadDigest,
    /// Peer: the signature does not fit the octets and the key.
    BadSignature,
    /// Peer: the signature's type is not that of the key.
    KeyTypeMismatch,
    /// Peer or environment: the certificate is not valid yet; its first second is given.
    NotYetValid {
        /// Seconds since the Unix epoch.
        not_before_s: u64,
    },
    /// Peer: the certificate is no longer valid; its last second is given.
    Expired {
        /// Seconds since the Unix epoch.
        not_after_s: u64,
    },
    /// Caller: the policy's revocation list names the certificate or its key.
    Revoked,
}

impl Rejection {
    /// Returns true if the packet may be somebody else's in the place of the right one, so that
    /// another answer may be better.
    pub fn may_be_anothers(&self) -> bool {
        matches!(
            self.why,
            RejectionReason::Malformed(_)
                | RejectionReason::NoOrigin(_)
                | RejectionReason::UnknownSignatureType(_)
                | RejectionReason::NoKeyName
                | RejectionReason::NotAllowed
                | RejectionReason::NoSharedKey
                | RejectionReason::NoAnchor
                | RejectionReason::UntrustedRoot
                | RejectionReason::Loop
                | RejectionReason::BadDigest
                | RejectionReason::BadSignature
                | RejectionReason::KeyTypeMismatch
        )
    }

    /// What failed: the packet itself, or a certificate in its chain.
    pub fn failed(&self) -> &Name {
        self.certificate.as_ref().unwrap_or(&self.name)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(certificate) = &self.certificate {
            write!(f, " is not trusted: certificate {certificate}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ", signed by {key},")?;
        }
        f.write_str(" ")?;
        self.why.describe(f, self)
    }
}

impl std::error::Error for Rejection {}

impl RejectionReason {
    fn describe(&self, f: &mut fmt::Formatter<'_>, about: &Rejection) -> fmt::Result {
        match self {
            RejectionReason::Malformed(e) => write!(f, "is malformed: {e}"),
            RejectionReason::BadCertificate(e) => write!(f, "cannot be used: {e}"),
            RejectionReason::NotSigned => f.write_str("is not signed: sign it with a key that the receiver trusts"),
            RejectionReason::NoOrigin(typ) => write!(
                f,
                "carries no key's signature ({typ:?}), so anybody may have made it: have its producer sign it, \
                 or accept digests explicitly"
            ),
            RejectionReason::NotADigest(typ) => write!(
                f,
                "is signed ({typ:?}), and only digests are checked: verify signatures by importing a trust \
                 anchor with `namely cert trust FILE`"
            ),
            RejectionReason::UnknownSignatureType(n) => write!(f, "has a signature of unknown type {n}"),
            RejectionReason::NoKeyName => f.write_str("does not say by name which key signed it"),
            RejectionReason::NotAllowed => f.write_str(
                "is refused: no trust rule lets this key sign this name; by default a key signs only below its \
                 own identity",
            ),
            RejectionReason::NoSharedKey => f.write_str("cannot be checked: this trust policy does not have that shared key"),
            RejectionReason::NoAnchor => write!(
                f,
                "cannot be checked: no trust anchor for {}: import one with `namely cert trust FILE`",
                about.name
            ),
            RejectionReason::UntrustedRoot => f.write_str(
                "signed itself and is not a trust anchor: if you trust it, import it with \
                 `namely cert trust FILE`",
            ),
            RejectionReason::Loop => f.write_str("is signed in a circle of certificates that reaches no trust anchor"),
            RejectionReason::TooDeep(limit) => write!(
                f,
                "is more than {limit} certificates away from a trust anchor: import a nearer one with \
                 `namely cert trust FILE`, or raise depth_max in the trust policy"
            ),
            RejectionReason::BadDigest => f.write_str("is damaged or forged: its digest does not fit"),
            RejectionReason::BadSignature => f.write_str("is damaged or forged: the signature does not fit"),
            RejectionReason::KeyTypeMismatch => f.write_str("is forged: its signature is of another type than the key"),
            RejectionReason::NotYetValid { not_before_s } => write!(
                f,
                "is not valid before {}: check this machine's clock, or wait",
                UtcTime(*not_before_s)
            ),
            RejectionReason::Expired { not_after_s } => {
                write!(f, "expired at {}: ask its owner for a renewed one", UtcTime(*not_after_s))
            }
            RejectionReason::Revoked => f.write_str("is revoked by this trust policy"),
        }
    }
}

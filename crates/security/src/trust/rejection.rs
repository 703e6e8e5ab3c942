//! Reasons for rejecting a packet, in messages with a remedy.

use std::fmt;

use namely_wire::{DecodeError, Name, SignatureType};

use crate::certificate::CertificateError;
use crate::validity::UtcTime;

/// A rejected packet, with the key and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Rejection {
    /// The name of the packet; empty if the packet could not be read.
    pub name: Name,
    /// The certificate of the packet's chain at which verification failed; `None` if verification
    /// failed at the packet itself.
    pub certificate: Option<Name>,
    /// The key that the failing packet or certificate names as its signer.
    pub key: Option<Name>,
    /// The reason.
    #[source]
    pub why: RejectionReason,
    /// The implicit digest of Data, which identifies this packet to others.
    pub digest: Option<Box<[u8; 32]>>,
}

/// A fault of a packet, its signature, or its chain of certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectionReason {
    /// Peer: not a well-formed packet.
    #[error("is malformed: {0}")]
    Malformed(#[source] DecodeError),
    /// Peer: not a usable certificate.
    #[error("cannot be used: {0}")]
    BadCertificate(#[source] CertificateError),
    /// Peer: an Interest without a signature.
    #[error("is not signed: sign it with a key that the receiver trusts")]
    NotSigned,
    /// Peer: the signature proves no origin, but the policy requires one.
    #[error(
        "carries no key's signature ({0:?}), so anybody may have made it: have its producer sign \
         it, or accept digests explicitly"
    )]
    NoOrigin(SignatureType),
    /// Caller: only digests are checked, and the packet is signed with a key.
    #[error(
        "is signed ({0:?}), and only digests are checked: verify signatures by importing a trust \
         anchor with `namely cert trust FILE`"
    )]
    NotADigest(SignatureType),
    /// Peer: a signature of an unknown type.
    #[error("has a signature of unknown type {0}")]
    UnknownSignatureType(u64),
    /// Peer: the KeyLocator is absent, or a digest, or not the name of a key.
    #[error("does not name the key that signed it")]
    NoKeyName,
    /// Caller or peer: no rule allows this key to sign this name.
    #[error(
        "is refused: no trust rule lets this key sign this name; by default a key signs only \
         below its own identity"
    )]
    NotAllowed,
    /// Caller: signed with a shared key that the policy lacks.
    #[error("cannot be checked: this trust policy does not have that shared key")]
    NoSharedKey,
    /// Caller: no trust anchor leads to this name.
    #[error("cannot be checked: no trust anchor")]
    NoAnchor,
    /// Caller: the chain ends at a self-signed certificate that is not an anchor.
    #[error(
        "signed itself and is not a trust anchor: if you trust it, import it with `namely cert \
         trust FILE`"
    )]
    UntrustedRoot,
    /// Peer: certificates that sign each other in a circle.
    #[error("is signed in a circle of certificates that reaches no trust anchor")]
    Loop,
    /// Peer or caller: a longer chain than the policy allows; the limit is given.
    #[error(
        "is more than {0} certificates away from a trust anchor: import a nearer one with `namely \
         cert trust FILE`, or raise depth_max in the trust policy"
    )]
    TooDeep(usize),
    /// Peer: the digest does not match the octets.
    #[error("is damaged or forged: its digest does not fit")]
    BadDigest,
    /// Peer: the signature does not match the octets and the key.
    #[error("is damaged or forged: the signature does not fit")]
    BadSignature,
    /// Peer: the signature's type differs from the key's.
    #[error("is forged: its signature is of another type than the key")]
    KeyTypeMismatch,
    /// Peer or environment: the certificate is not valid yet; its first second is given.
    #[error("is not valid before {}: check this machine's clock, or wait", UtcTime(*.not_before_s))]
    NotYetValid {
        /// Seconds since the Unix epoch.
        not_before_s: u64,
    },
    /// Peer: the certificate is no longer valid; its last second is given.
    #[error("expired at {}: ask its owner for a renewed one", UtcTime(*.not_after_s))]
    Expired {
        /// Seconds since the Unix epoch.
        not_after_s: u64,
    },
    /// Caller: the policy's revocation list names the certificate or its key.
    #[error("is revoked by this trust policy")]
    Revoked,
}

impl Rejection {
    /// Returns true if another sender than the right producer may have made the packet. Another
    /// request for the name may then return the right packet.
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

    /// Returns the name of the failing packet: the packet itself, or a certificate in its chain.
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
        write!(f, " {}", self.why)?;
        match &self.why {
            RejectionReason::NoAnchor => {
                write!(f, " for {}: import one with `namely cert trust FILE`", self.name)
            }
            _ => Ok(()),
        }
    }
}

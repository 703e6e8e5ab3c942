//! Certificates (packet spec, `certificate.rst`): a Data that binds a key to an identity.
//!
//! A certificate is named `/<Identity>/KEY/<KeyId>/<IssuerId>/<Version>`, and
//! `/<Identity>/KEY/<KeyId>` is the name of its key. Parsing checks form only; whether to believe a
//! certificate is for the [`Verifier`](crate::Verifier).

use std::fmt;
use std::sync::Arc;

use namely_wire::types::VALIDITY_PERIOD;
use namely_wire::{
    CertificateName, CertificateView, Component, ContentType, DataView, DecodeError, Name, NameRef,
    PACKET_OCTETS_MAX, SignatureType, ValidityPeriod, build_certificate, key_name, key_name_of_locator,
};

use crate::crypto::{CryptoError, PrivateKey, PublicKey, random};
use crate::signer::Signer;

/// Octets of a KeyId that namely makes.
pub(crate) const KEY_ID_OCTETS: usize = 8;

/// A well-formed certificate with a usable public key. Cheap to clone.
#[derive(Clone)]
pub struct Certificate {
    inner: Arc<Inner>,
}

struct Inner {
    wire: Vec<u8>,
    name: Name,
    signer: Option<Name>,
    signature_type: SignatureType,
    validity: ValidityPeriod,
    public_key: PublicKey,
}

impl Certificate {
    /// Checks the form of `wire`, exactly one Data.
    ///
    /// # Errors
    /// [`CertificateError`]: no certificate, or one whose key cannot be used.
    pub fn parse(wire: &[u8]) -> Result<Self, CertificateError> {
        if wire.len() > PACKET_OCTETS_MAX {
            return Err(CertificateError::TooLarge(wire.len()));
        }
        let data = DataView::parse(wire)?;
        if data.content_type != ContentType::Key {
            return Err(CertificateError::NotAKey(data.content_type.number()));
        }
        if CertificateName::parse(data.name).is_err() {
            return Err(CertificateError::BadName(data.name.to_name()));
        }
        let view = CertificateView::from_data(data).map_err(|e| match e {
            DecodeError::Missing(VALIDITY_PERIOD) => CertificateError::NoValidity,
            e => CertificateError::Encoding(e),
        })?;
        let inner = Inner {
            name: data.name.to_name(),
            signer: view.signer_name().map(Name::from),
            signature_type: data.signature_type,
            validity: view.validity,
            public_key: PublicKey::from_spki(view.public_key_der())?,
            wire: wire.to_vec(),
        };
        Ok(Certificate { inner: Arc::new(inner) })
    }

    /// A certificate that `key`, named `key_name`, signs for itself; IssuerId is `self`.
    ///
    /// `version` is by custom ms since the Unix epoch.
    ///
    /// # Errors
    /// [`CertificateError`]: `key_name` is no key's name, the certificate would be longer than a
    /// packet, or signing failed.
    pub fn self_signed(
        key_name: NameRef<'_>,
        key: &Arc<PrivateKey>,
        validity: ValidityPeriod,
        version: u64,
    ) -> Result<Self, CertificateError> {
        let signer = Signer::new(key_name.to_name(), Arc::clone(key));
        Self::issue(key_name, key.public(), &signer, "self", validity, version)
    }

    /// A certificate for the key `public_key`, named `key_name`, signed by `issuer`. A request to
    /// be signed is the owner's self-signed certificate: give its key and key name.
    ///
    /// # Errors
    /// [`CertificateError`]: `key_name` is no key's name, the certificate would be longer than a
    /// packet, or signing failed.
    pub fn issue(
        key_name: NameRef<'_>,
        public_key: &PublicKey,
        issuer: &Signer,
        issuer_id: &str,
        validity: ValidityPeriod,
        version: u64,
    ) -> Result<Self, CertificateError> {
        if key_name_of_locator(key_name) != Ok(key_name) {
            return Err(CertificateError::BadName(key_name.to_name()));
        }
        let unsigned = build_certificate(
            key_name,
            Component::generic(issuer_id.as_bytes()),
            version,
            public_key.spki(),
            &validity,
            issuer.signature_info(),
        );
        let value = issuer.sign(&[unsigned.signed_portion()])?;
        Self::parse(&unsigned.finish(&value))
    }

    /// The Data's octets.
    pub fn wire(&self) -> &[u8] {
        &self.inner.wire
    }

    /// `/<Identity>/KEY/<KeyId>/<IssuerId>/<Version>`.
    pub fn name(&self) -> NameRef<'_> {
        self.inner.name.as_name()
    }

    /// `/<Identity>/KEY/<KeyId>`.
    pub fn key_name(&self) -> NameRef<'_> {
        self.name().without_last(2)
    }

    /// Whose key it is.
    pub fn identity(&self) -> NameRef<'_> {
        self.name().without_last(4)
    }

    /// The key or certificate that signed this certificate, as its KeyLocator names it.
    pub fn signer_name(&self) -> Option<NameRef<'_>> {
        self.inner.signer.as_ref().map(Name::as_name)
    }

    /// How this certificate is signed.
    pub fn signature_type(&self) -> SignatureType {
        self.inner.signature_type
    }

    /// Returns true if its own key signed it (by name: the signature is not checked here).
    pub fn is_self_signed(&self) -> bool {
        self.signer_name().is_some_and(|signer| self.answers_to(signer))
    }

    /// When it may be used.
    pub fn validity(&self) -> ValidityPeriod {
        self.inner.validity
    }

    /// The key it is about.
    pub fn public_key(&self) -> &PublicKey {
        &self.inner.public_key
    }

    /// Returns true if a KeyLocator of `locator` can mean this certificate: it names the key, or
    /// the certificate.
    pub(crate) fn answers_to(&self, locator: NameRef<'_>) -> bool {
        locator.is_prefix_of(self.name()) && self.key_name().is_prefix_of(locator)
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.inner.wire == other.inner.wire
    }
}

impl Eq for Certificate {}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.name())
    }
}

/// A fresh key name under `identity`: its KeyId is 8 random octets.
///
/// # Errors
/// [`CryptoError::Random`] if the operating system has no random octets.
pub fn new_key_name(identity: NameRef<'_>) -> Result<Name, CryptoError> {
    Ok(key_name(identity, Component::generic(&random::<KEY_ID_OCTETS>()?)))
}

/// The identity that a key name (`/<Identity>/KEY/<KeyId>`) belongs to.
pub(crate) fn identity_of(key_name: NameRef<'_>) -> NameRef<'_> {
    key_name.without_last(2)
}

/// Why something is not a certificate that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateError {
    /// Peer: not a well-formed Data or SignatureInfo.
    Encoding(DecodeError),
    /// Peer: longer than a packet; its octets are given.
    TooLarge(usize),
    /// Peer: a Data of another ContentType.
    NotAKey(u64),
    /// Peer or caller: the name is not that of a key or certificate.
    BadName(Name),
    /// Peer: no ValidityPeriod.
    NoValidity,
    /// Caller: a file that is neither raw, base64 nor PEM.
    NotText,
    /// Peer: the public key cannot be used. Environment or caller: it could not be signed.
    Key(CryptoError),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateError::Encoding(e) => write!(f, "not a well-formed certificate: {e}"),
            CertificateError::TooLarge(octets) => {
                write!(f, "{octets} octets are too many for a certificate (at most {PACKET_OCTETS_MAX})")
            }
            CertificateError::NotAKey(content_type) => {
                write!(f, "a Data of ContentType {content_type}, not a certificate (2)")
            }
            CertificateError::BadName(name) => {
                write!(f, "{name} is not a certificate's name (/Identity/KEY/KeyId/IssuerId/Version)")
            }
            CertificateError::NoValidity => f.write_str("the certificate has no validity period"),
            CertificateError::NotText => {
                f.write_str("neither a raw certificate, nor base64, nor PEM with the label NDN CERT")
            }
            CertificateError::Key(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for CertificateError {}

impl From<DecodeError> for CertificateError {
    fn from(e: DecodeError) -> Self {
        CertificateError::Encoding(e)
    }
}

impl From<CryptoError> for CertificateError {
    fn from(e: CryptoError) -> Self {
        CertificateError::Key(e)
    }
}

#[cfg(test)]
mod tests;

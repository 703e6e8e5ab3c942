//! Certificates (packet spec, `certificate.rst`): a Data that binds a key to an identity.
//!
//! A certificate is named `/<Identity>/KEY/<KeyId>/<IssuerId>/<Version>`, and
//! `/<Identity>/KEY/<KeyId>` is the name of its key. Parsing checks the form only; the
//! [`Verifier`](crate::Verifier) decides whether to trust a certificate.

use std::fmt;
use std::sync::Arc;

use namely_wire::types::VALIDITY_PERIOD;
use namely_wire::{
    CertificateName, CertificateView, Component, ContentType, DataView, DecodeError, Name, NameRef,
    PACKET_OCTETS_MAX, SignatureType, ValidityPeriod, build_certificate, key_name, key_name_of_locator,
};

use crate::crypto::{CryptoError, PrivateKey, PublicKey, random};
use crate::signer::Signer;

/// Octets of a generated KeyId.
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
    /// Parses `wire`, which must be exactly one Data, and checks its form.
    ///
    /// # Errors
    /// [`CertificateError`]: `wire` is not a certificate, or its key cannot be used.
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

    /// Creates a certificate that `key`, named `key_name`, signs for itself; IssuerId is `self`.
    ///
    /// `version` is by convention in ms since the Unix epoch.
    ///
    /// # Errors
    /// [`CertificateError`]: `key_name` is not a key's name, the certificate would be longer than a
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

    /// Issues a certificate for the key `public_key`, named `key_name`, signed by `issuer`. A
    /// certificate request is the owner's self-signed certificate; pass its key and its key name.
    ///
    /// # Errors
    /// [`CertificateError`]: `key_name` is not a key's name, the certificate would be longer than a
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

    /// The identity of the key's owner.
    pub fn identity(&self) -> NameRef<'_> {
        self.name().without_last(4)
    }

    /// The key or certificate that signed this certificate, as its KeyLocator names it.
    pub fn signer_name(&self) -> Option<NameRef<'_>> {
        self.inner.signer.as_ref().map(Name::as_name)
    }

    /// The type of this certificate's signature.
    pub fn signature_type(&self) -> SignatureType {
        self.inner.signature_type
    }

    /// Returns true if the KeyLocator names the certificate's own key. The signature is not
    /// verified here.
    pub fn is_self_signed(&self) -> bool {
        self.signer_name().is_some_and(|signer| self.answers_to(signer))
    }

    /// The certificate's ValidityPeriod.
    pub fn validity(&self) -> ValidityPeriod {
        self.inner.validity
    }

    /// The certified key.
    pub fn public_key(&self) -> &PublicKey {
        &self.inner.public_key
    }

    /// Returns true if the KeyLocator `locator` names this certificate, or is a prefix of its name
    /// from the key name on.
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

/// Creates a new key name under `identity`: its KeyId is 8 random octets.
///
/// # Errors
/// [`CryptoError::Random`] if the operating system has no random octets.
pub fn new_key_name(identity: NameRef<'_>) -> Result<Name, CryptoError> {
    Ok(key_name(identity, Component::generic(&random::<KEY_ID_OCTETS>()?)))
}

/// The identity in a key name (`/<Identity>/KEY/<KeyId>`).
pub(crate) fn identity_of(key_name: NameRef<'_>) -> NameRef<'_> {
    key_name.without_last(2)
}

/// The reason why a packet is not a usable certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Peer: not a well-formed Data or SignatureInfo.
    #[error("not a well-formed certificate: {0}")]
    Encoding(#[from] DecodeError),
    /// Peer: longer than a packet; its octets are given.
    #[error("{0} octets are too many for a certificate (at most {PACKET_OCTETS_MAX})")]
    TooLarge(usize),
    /// Peer: a Data of another ContentType.
    #[error("a Data of ContentType {0}, not a certificate (2)")]
    NotAKey(u64),
    /// Peer or caller: the name is not that of a key or certificate.
    #[error("{0} is not a certificate's name (/Identity/KEY/KeyId/IssuerId/Version)")]
    BadName(Name),
    /// Peer: no ValidityPeriod.
    #[error("the certificate has no validity period")]
    NoValidity,
    /// Caller: a file that is neither raw, base64 nor PEM.
    #[error("neither a raw certificate, nor base64, nor PEM with the label NDN CERT")]
    NotText,
    /// Peer: the public key cannot be used. Environment or caller: the certificate could not be
    /// signed.
    #[error(transparent)]
    Key(#[from] CryptoError),
}

#[cfg(test)]
mod tests;

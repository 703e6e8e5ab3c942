//! Certificates and exported keys (packet spec, `certificate.rst`; SafeBag of ndn-cxx): names,
//! validity, descriptions, a checked view, and the unsigned packet.
//!
//! A view has the claims of a certificate. `namely-security` verifies the signature and the trust
//! in its signer.

use alloc::string::String;
use alloc::vec::Vec;

use crate::data::{ContentType, DataBuilder, DataView, UnsignedData};
use crate::error::DecodeError;
use crate::name::{Component, Name, NameRef};
use crate::signature::{SignatureInfo, SignatureInfoView};
use crate::tlv::{self, Reader, Writer};
use crate::types::*;
use crate::validity::ValidityPeriod;

/// Maximum FreshnessPeriod of namely's certificates in ms, as `certificate.rst` recommends.
pub(crate) const CERTIFICATE_FRESHNESS_MS: u64 = 3_600_000;

/// The name of a certificate: `/<Identity>/KEY/<KeyId>/<IssuerId>/<Version>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateName<'a> {
    name: NameRef<'a>,
    identity_components: usize,
}

impl<'a> CertificateName<'a> {
    /// Checks the form of `name`.
    ///
    /// # Errors
    /// [`DecodeError::BadName`] if it is not `/<Identity>/KEY/<KeyId>/<IssuerId>/<Version>`.
    pub fn parse(name: NameRef<'a>) -> Result<Self, DecodeError> {
        let identity_components = name.len().checked_sub(4).ok_or(DecodeError::BadName)?;
        if name.component(identity_components) != Some(KEY) {
            return Err(DecodeError::BadName);
        }
        Ok(CertificateName { name, identity_components })
    }

    /// Returns the whole name.
    pub fn name(&self) -> NameRef<'a> {
        self.name
    }

    /// Returns the identity that the key belongs to; may be empty.
    pub fn identity(&self) -> NameRef<'a> {
        self.name.prefix(self.identity_components)
    }

    /// Returns the key's name: `/<Identity>/KEY/<KeyId>`.
    pub fn key_name(&self) -> NameRef<'a> {
        self.name.prefix(self.identity_components + 2)
    }

    /// Returns KeyId.
    pub fn key_id(&self) -> Component<'a> {
        self.at(1)
    }

    /// Returns IssuerId: a word for the issuer.
    pub fn issuer_id(&self) -> Component<'a> {
        self.at(2)
    }

    /// Returns Version, if the last component is one (older certificates use other forms).
    pub fn version(&self) -> Option<u64> {
        self.at(3).version()
    }

    fn at(&self, i: usize) -> Component<'a> {
        self.name.component(self.identity_components + i).unwrap_or(KEY)
    }
}

const KEY: Component<'static> = Component { typ: GENERIC_COMPONENT, value: b"KEY" };

/// Returns the name of a key: `/<identity>/KEY/<key_id>`.
pub fn key_name(identity: NameRef<'_>, key_id: Component<'_>) -> Name {
    identity.to_name().join(KEY).join(key_id)
}

/// Returns the key name that a KeyLocator refers to: itself, or the key of the certificate that it
/// names.
///
/// # Errors
/// [`DecodeError::BadName`] if it is the name of neither a key nor a certificate.
pub fn key_name_of_locator(locator: NameRef<'_>) -> Result<NameRef<'_>, DecodeError> {
    if let Some(at) = locator.len().checked_sub(2)
        && locator.component(at) == Some(KEY)
    {
        return Ok(locator);
    }
    // A locator may omit the version, or issuer and version, of a certificate's name.
    let before_issuer =
        |n: usize| locator.len().checked_sub(n).filter(|at| locator.component(*at) == Some(KEY));
    let at = before_issuer(4).or_else(|| before_issuer(3)).ok_or(DecodeError::BadName)?;
    Ok(locator.prefix(at + 2))
}

/// A checked view of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateView<'a> {
    /// The packet.
    pub data: DataView<'a>,
    /// The parts of the packet's name.
    pub name: CertificateName<'a>,
    /// Signer and type of the signature.
    pub signature_info: SignatureInfoView<'a>,
    /// Period of validity.
    pub validity: ValidityPeriod,
}

impl<'a> CertificateView<'a> {
    /// Checks `wire` as exactly one certificate.
    ///
    /// # Errors
    /// [`DecodeError`]: not exactly one Data that is a certificate.
    pub fn parse(wire: &'a [u8]) -> Result<Self, DecodeError> {
        Self::from_data(DataView::parse(wire)?)
    }

    /// Checks that a Data is a certificate: its name, ContentType KEY, a ValidityPeriod. A
    /// FreshnessPeriod is not required, because it affects caches and not trust.
    ///
    /// # Errors
    /// [`DecodeError`]: the Data is well formed, but not a certificate.
    pub fn from_data(data: DataView<'a>) -> Result<Self, DecodeError> {
        let name = CertificateName::parse(data.name)?;
        if data.content_type != ContentType::Key {
            return Err(DecodeError::OutOfRange(CONTENT_TYPE));
        }
        let signature_info = data.signature_info()?;
        let (not_before, not_after) = signature_info.validity.ok_or(DecodeError::Missing(VALIDITY_PERIOD))?;
        let validity = ValidityPeriod::parse(not_before, not_after)?;
        Ok(CertificateView { data, name, signature_info, validity })
    }

    /// Returns the key, as a DER SubjectPublicKeyInfo; not checked here.
    pub fn public_key_der(&self) -> &'a [u8] {
        self.data.content
    }

    /// Returns the name of the signer's key or certificate, as claimed in the packet.
    pub fn signer_name(&self) -> Option<NameRef<'a>> {
        self.signature_info.key_name()
    }

    /// Returns true if the certificate claims to be signed by its own key.
    pub fn is_self_signed(&self) -> bool {
        self.signer_name().is_some_and(|signer| key_name_of_locator(signer) == Ok(self.name.key_name()))
    }

    /// Returns AdditionalDescription: keys and values, for people.
    ///
    /// # Errors
    /// [`DecodeError`]: the element is malformed, or not UTF-8.
    pub fn descriptions(&self) -> Result<Vec<(String, String)>, DecodeError> {
        descriptions(self.data.signature_info_value)
    }
}

fn descriptions(signature_info_value: &[u8]) -> Result<Vec<(String, String)>, DecodeError> {
    let mut found = Vec::new();
    let mut info = Reader::new(signature_info_value);
    while let Some(tlv) = info.next_tlv()? {
        if tlv.typ != ADDITIONAL_DESCRIPTION {
            continue;
        }
        let mut entries = tlv.children();
        while let Some(entry) = entries.next_tlv()? {
            if entry.typ != DESCRIPTION_ENTRY {
                tlv::ignore_unknown(entry.typ)?;
                continue;
            }
            let mut parts = entry.children();
            let key = parts.require(DESCRIPTION_KEY)?.value;
            let value = parts.require(DESCRIPTION_VALUE)?.value;
            found.push((text(key)?, text(value)?));
        }
    }
    Ok(found)
}

fn text(octets: &[u8]) -> Result<String, DecodeError> {
    core::str::from_utf8(octets).map(String::from).map_err(|_| DecodeError::BadText)
}

/// Builds a certificate without its signature value. `signer` is the issuer's SignatureInfo, to
/// which the validity and descriptions are added.
pub fn build_certificate(
    key_name: NameRef<'_>,
    issuer_id: Component<'_>,
    version: u64,
    public_key_der: &[u8],
    validity: &ValidityPeriod,
    signer: SignatureInfo,
) -> UnsignedData {
    let name = key_name.to_name().join(issuer_id).join_version(version);
    let info = SignatureInfo { validity: Some(validity.encode()), ..signer };
    DataBuilder::new(name.as_name())
        .content_type(ContentType::Key)
        .freshness_ms(validity.certificate_freshness_ms())
        .build(public_key_der, &info)
}

/// SafeBag: a certificate together with its encrypted private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafeBagView<'a> {
    /// The certificate.
    pub certificate: CertificateView<'a>,
    /// EncryptedKey: a DER PKCS #8 EncryptedPrivateKeyInfo; not checked here.
    pub encrypted_key: &'a [u8],
}

impl<'a> SafeBagView<'a> {
    /// Checks `octets` as exactly one SafeBag.
    ///
    /// # Errors
    /// [`DecodeError`]: not a certificate followed by an encrypted key.
    pub fn parse(octets: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = tlv::read_exactly(octets, SAFE_BAG)?.children();
        let certificate = CertificateView::parse(reader.require(DATA)?.raw)?;
        let encrypted_key = reader.require(SAFE_BAG_ENCRYPTED_KEY)?.value;
        while let Some(tlv) = reader.next_tlv()? {
            tlv::ignore_unknown(tlv.typ)?;
        }
        Ok(SafeBagView { certificate, encrypted_key })
    }
}

/// Encodes a SafeBag; `certificate` is a whole Data TLV.
pub fn encode_safe_bag(certificate: &[u8], encrypted_key: &[u8]) -> Vec<u8> {
    let mut w = Writer::with_capacity(certificate.len() + encrypted_key.len() + 16);
    w.nested(SAFE_BAG, |w| {
        w.raw(certificate).tlv(SAFE_BAG_ENCRYPTED_KEY, encrypted_key);
    });
    w.into_vec()
}

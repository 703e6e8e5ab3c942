//! SignatureInfo of Data and Interests (packet spec, `signature.rst`, `signed-interest.rst`), and
//! the ValidityPeriod of a certificate's SignatureInfo.

use alloc::string::String;
use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::name::{Name, NameRef};
use crate::tlv::{self, Reader, Writer};
use crate::types::*;
use crate::validity;

/// SignatureType numbers that namely creates and verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureType {
    /// 0: SHA-256 of the signed portion; integrity only.
    DigestSha256,
    /// 1: RSASSA-PKCS1-v1_5 over SHA-256.
    Sha256WithRsa,
    /// 3: ECDSA over SHA-256, DER encoded.
    Sha256WithEcdsa,
    /// 4: HMAC with SHA-256.
    HmacWithSha256,
    /// 5: Ed25519.
    Ed25519,
    /// 200: no signature.
    Null,
    /// An unknown type.
    Other(u64),
}

impl SignatureType {
    /// Returns the number on the wire.
    pub fn number(self) -> u64 {
        match self {
            SignatureType::DigestSha256 => 0,
            SignatureType::Sha256WithRsa => 1,
            SignatureType::Sha256WithEcdsa => 3,
            SignatureType::HmacWithSha256 => 4,
            SignatureType::Ed25519 => 5,
            SignatureType::Null => 200,
            SignatureType::Other(n) => n,
        }
    }

    /// Returns the type of a number on the wire.
    pub fn from_number(n: u64) -> Self {
        match n {
            0 => SignatureType::DigestSha256,
            1 => SignatureType::Sha256WithRsa,
            3 => SignatureType::Sha256WithEcdsa,
            4 => SignatureType::HmacWithSha256,
            5 => SignatureType::Ed25519,
            200 => SignatureType::Null,
            n => SignatureType::Other(n),
        }
    }
}

/// The signing key: by name or by the SHA-256 of its SubjectPublicKeyInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLocator<'a> {
    /// The name of a key or certificate.
    Name(NameRef<'a>),
    /// The digest of the public key.
    Digest(&'a [u8]),
}

/// A checked view of a SignatureInfo or InterestSignatureInfo element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureInfoView<'a> {
    /// Type of the signature.
    pub signature_type: SignatureType,
    /// The signing key.
    pub key_locator: Option<KeyLocator<'a>>,
    /// SignatureNonce.
    pub nonce: Option<&'a [u8]>,
    /// SignatureTime, ms since the Unix epoch.
    pub time_ms: Option<u64>,
    /// SignatureSeqNum.
    pub seq_num: Option<u64>,
    /// ValidityPeriod of a certificate: NotBefore and NotAfter as `YYYYMMDDThhmmss` UTC.
    pub validity: Option<(&'a [u8; 15], &'a [u8; 15])>,
}

impl<'a> SignatureInfoView<'a> {
    /// Parses the VALUE of a SignatureInfo element.
    ///
    /// # Errors
    /// [`DecodeError`]: an element is malformed, repeated, out of order, or critical and unknown;
    /// or SignatureType is missing.
    pub fn parse_value(value: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(value);
        let signature_type = SignatureType::from_number(reader.require(SIGNATURE_TYPE)?.nni()?);
        let mut info = SignatureInfoView {
            signature_type,
            key_locator: None,
            nonce: None,
            time_ms: None,
            seq_num: None,
            validity: None,
        };
        let mut last = 0;
        while let Some(tlv) = reader.next_tlv()? {
            let known = matches!(
                tlv.typ,
                KEY_LOCATOR | SIGNATURE_NONCE | SIGNATURE_TIME | SIGNATURE_SEQ_NUM | VALIDITY_PERIOD
            );
            // Recognized elements are in ascending order of TYPE; any other order is refused or
            // ignored.
            if !known || tlv.typ <= last {
                tlv::ignore_unknown(tlv.typ)?;
                continue;
            }
            last = tlv.typ;
            match tlv.typ {
                KEY_LOCATOR => info.key_locator = parse_key_locator(tlv.value)?,
                SIGNATURE_NONCE if tlv.value.is_empty() => {
                    return Err(DecodeError::BadLength(SIGNATURE_NONCE));
                }
                SIGNATURE_NONCE => info.nonce = Some(tlv.value),
                SIGNATURE_TIME => info.time_ms = Some(tlv.nni()?),
                SIGNATURE_SEQ_NUM => info.seq_num = Some(tlv.nni()?),
                _ => info.validity = Some(validity::split_value(tlv.value)?),
            }
        }
        Ok(info)
    }

    /// Returns the key locator's name, if it is one.
    pub fn key_name(&self) -> Option<NameRef<'a>> {
        match self.key_locator {
            Some(KeyLocator::Name(name)) => Some(name),
            _ => None,
        }
    }
}

fn parse_key_locator(value: &[u8]) -> Result<Option<KeyLocator<'_>>, DecodeError> {
    let mut reader = Reader::new(value);
    while let Some(tlv) = reader.next_tlv()? {
        match tlv.typ {
            NAME => return Ok(Some(KeyLocator::Name(NameRef::parse_value(tlv.value)?))),
            KEY_DIGEST => return Ok(Some(KeyLocator::Digest(tlv.value))),
            typ => tlv::ignore_unknown(typ)?,
        }
    }
    Ok(None)
}

/// The signer's parameters of a signature: the owned counterpart of [`SignatureInfoView`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureInfo {
    /// Type of the signature.
    pub signature_type: SignatureType,
    /// The name of the key or certificate; `None` for digest and null signatures.
    pub key_name: Option<Name>,
    /// SignatureNonce.
    pub nonce: Option<[u8; 8]>,
    /// SignatureTime, ms since the Unix epoch.
    pub time_ms: Option<u64>,
    /// SignatureSeqNum.
    pub seq_num: Option<u64>,
    /// ValidityPeriod of a certificate.
    pub validity: Option<([u8; 15], [u8; 15])>,
    /// AdditionalDescription of a certificate: keys and values, for people.
    pub descriptions: Vec<(String, String)>,
}

impl SignatureInfo {
    /// Creates the parameters of a signature of type `signature_type` by the key `key_name`.
    pub fn new(signature_type: SignatureType, key_name: Option<Name>) -> Self {
        SignatureInfo {
            signature_type,
            key_name,
            nonce: None,
            time_ms: None,
            seq_num: None,
            validity: None,
            descriptions: Vec::new(),
        }
    }

    /// Creates the parameters of a DigestSha256 signature.
    pub fn digest_sha256() -> Self {
        Self::new(SignatureType::DigestSha256, None)
    }

    /// Creates the parameters of SignatureNull: no signature at all.
    pub fn null() -> Self {
        Self::new(SignatureType::Null, None)
    }

    /// Appends the element under TYPE `typ` (SignatureInfo or InterestSignatureInfo).
    pub fn encode(&self, typ: u32, w: &mut Writer) {
        w.nested(typ, |w| {
            w.nni(SIGNATURE_TYPE, self.signature_type.number());
            if let Some(name) = &self.key_name {
                w.nested(KEY_LOCATOR, |w| name.as_name().encode(w));
            }
            if let Some(nonce) = &self.nonce {
                w.tlv(SIGNATURE_NONCE, nonce);
            }
            if let Some(time_ms) = self.time_ms {
                w.nni(SIGNATURE_TIME, time_ms);
            }
            if let Some(seq_num) = self.seq_num {
                w.nni(SIGNATURE_SEQ_NUM, seq_num);
            }
            if let Some((not_before, not_after)) = &self.validity {
                validity::encode_validity(w, not_before, not_after);
            }
            if !self.descriptions.is_empty() {
                w.nested(ADDITIONAL_DESCRIPTION, |w| self.encode_descriptions(w));
            }
        });
    }

    fn encode_descriptions(&self, w: &mut Writer) {
        for (key, value) in &self.descriptions {
            w.nested(DESCRIPTION_ENTRY, |w| {
                w.tlv(DESCRIPTION_KEY, key.as_bytes()).tlv(DESCRIPTION_VALUE, value.as_bytes());
            });
        }
    }
}

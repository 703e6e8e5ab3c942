//! Signers: a key together with the name by which verifiers find it, and functions that sign
//! packets.

use std::fmt;
use std::sync::Arc;

use namely_wire::{DataBuilder, InterestBuilder, Name, SignatureInfo, SignatureType};

use crate::crypto::{CryptoError, DIGEST_OCTETS, HmacKey, PrivateKey, random, sha256, sha256_of};

/// Signs Data and Interests. Cheap to clone; `Debug` prints no secret.
#[derive(Clone)]
pub struct Signer {
    kind: Kind,
    key_name: Option<Name>,
}

#[derive(Clone)]
enum Kind {
    Digest,
    Null,
    Hmac(Arc<HmacKey>),
    Key(Arc<PrivateKey>),
}

impl Signer {
    /// SHA-256 only: proves that a packet is intact, but not its origin.
    pub fn digest_sha256() -> Self {
        Signer { kind: Kind::Digest, key_name: None }
    }

    /// No signature at all.
    pub fn null() -> Self {
        Signer { kind: Kind::Null, key_name: None }
    }

    /// A key shared with the verifiers under the name `key_name`.
    pub fn hmac(key_name: Name, key: HmacKey) -> Self {
        Signer { kind: Kind::Hmac(Arc::new(key)), key_name: Some(key_name) }
    }

    /// A private key. `key_name` is the name of the key, or of one of its certificates. Verifiers
    /// fetch the certificate by this name.
    pub fn new(key_name: Name, key: Arc<PrivateKey>) -> Self {
        Signer { kind: Kind::Key(key), key_name: Some(key_name) }
    }

    /// The type of this signer's signatures.
    pub fn signature_type(&self) -> SignatureType {
        match &self.kind {
            Kind::Digest => SignatureType::DigestSha256,
            Kind::Null => SignatureType::Null,
            Kind::Hmac(_) => SignatureType::HmacWithSha256,
            Kind::Key(key) => key.key_type().signature_type(),
        }
    }

    /// The name in the KeyLocator; `None` for digest and null signatures.
    pub fn key_name(&self) -> Option<&Name> {
        self.key_name.as_ref()
    }

    /// The SignatureInfo of a Data that this signer signs.
    pub fn signature_info(&self) -> SignatureInfo {
        SignatureInfo::new(self.signature_type(), self.key_name.clone())
    }

    /// Maximum octets of a SignatureValue.
    pub fn signature_octets_max(&self) -> usize {
        match &self.kind {
            Kind::Digest | Kind::Hmac(_) => DIGEST_OCTETS,
            Kind::Null => 0,
            Kind::Key(key) => key.signature_octets_max(),
        }
    }

    /// The SignatureValue over `parts`, taken as one run of octets.
    ///
    /// # Errors
    /// [`CryptoError::Signing`] if the library refuses.
    pub fn sign(&self, parts: &[&[u8]]) -> Result<Vec<u8>, CryptoError> {
        match &self.kind {
            Kind::Digest => Ok(sha256_of(parts).to_vec()),
            Kind::Null => Ok(Vec::new()),
            Kind::Hmac(key) => Ok(key.sign(parts).to_vec()),
            Kind::Key(key) => key.sign(parts),
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({:?}", self.signature_type())?;
        if let Some(name) = &self.key_name {
            write!(f, ", {name}")?;
        }
        f.write_str(")")
    }
}

/// Creates a signed Data with the fields of `builder` and `content`, signed by `signer`.
///
/// ```
/// use namely_security::{Signer, sign_data};
/// use namely_wire::{DataBuilder, Name};
/// let name: Name = "/hello".parse().unwrap();
/// let builder = DataBuilder::new(name.as_name());
/// let wire = sign_data(&builder, b"world", &Signer::digest_sha256()).unwrap();
/// # assert!(namely_wire::DataView::parse(&wire).is_ok());
/// ```
///
/// # Errors
/// [`CryptoError::Signing`] if the library refuses.
pub fn sign_data(builder: &DataBuilder<'_>, content: &[u8], signer: &Signer) -> Result<Vec<u8>, CryptoError> {
    let unsigned = builder.build(content, &signer.signature_info());
    // Each segment of a manifest takes this path, which allocates no buffer for the signature.
    if let Kind::Digest = signer.kind {
        let digest = sha256(unsigned.signed_portion());
        return Ok(unsigned.finish(&digest));
    }
    let value = signer.sign(&[unsigned.signed_portion()])?;
    Ok(unsigned.finish(&value))
}

/// Creates a signed Interest with ApplicationParameters `parameters`, a fresh SignatureNonce, and
/// SignatureTime `time_ms` (ms since the Unix epoch). Many verifiers accept the Interests of one
/// key only in strictly ascending order of SignatureTime, so the caller must pass a larger
/// `time_ms` each time.
///
/// # Errors
/// [`CryptoError::Random`] or [`CryptoError::Signing`].
pub fn sign_interest(
    builder: &InterestBuilder,
    parameters: &[u8],
    signer: &Signer,
    time_ms: u64,
) -> Result<Vec<u8>, CryptoError> {
    let mut info = signer.signature_info();
    info.nonce = Some(random()?);
    info.time_ms = Some(time_ms);
    builder.build_signed(parameters, &info, |parts| signer.sign(parts), sha256)
}

#[cfg(test)]
mod tests {
    use namely_wire::{DataView, InterestView};

    use super::*;
    use crate::command::has_right_parameters_digest;
    use crate::crypto::KeyType;

    fn signers() -> Vec<Signer> {
        let key_name: Name = "/p/KEY/k".parse().unwrap();
        let mut signers = vec![
            Signer::digest_sha256(),
            Signer::null(),
            Signer::hmac(key_name.clone(), HmacKey::new(b"secret")),
        ];
        for key_type in [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::Rsa] {
            let key = Arc::new(PrivateKey::generate(key_type).unwrap());
            signers.push(Signer::new(key_name.clone(), key));
        }
        signers
    }

    #[test]
    fn signed_data_names_its_signer_and_type() {
        let name: Name = "/p/x".parse().unwrap();
        let mut types = Vec::new();
        for signer in signers() {
            let wire = sign_data(&DataBuilder::new(name.as_name()), b"content", &signer).unwrap();
            let data = DataView::parse(&wire).unwrap();
            let info = data.signature_info().unwrap();
            assert_eq!(info.signature_type, signer.signature_type());
            assert_eq!(info.key_name(), signer.key_name().map(Name::as_name));
            assert_eq!(data.content, b"content");
            types.push(data.signature_type.number());
        }
        assert_eq!(types, [0, 200, 4, 5, 3, 1]);
    }

    #[test]
    fn a_digest_covers_the_signed_portion() {
        let name: Name = "/p/x".parse().unwrap();
        let wire =
            sign_data(&DataBuilder::new(name.as_name()), &[7; 8000], &Signer::digest_sha256()).unwrap();
        let data = DataView::parse(&wire).unwrap();
        assert_eq!(data.signature_value, sha256(data.signed_portion));
    }

    #[test]
    fn signed_interests_have_time_nonce_and_digest() {
        let builder = InterestBuilder::new("/p/do".parse().unwrap());
        for signer in signers() {
            let wire = sign_interest(&builder, b"parameters", &signer, 1234).unwrap();
            let interest = InterestView::parse(&wire).unwrap();
            let info = interest.signature_info().unwrap().unwrap();
            assert_eq!((info.time_ms, info.nonce.map(<[u8]>::len)), (Some(1234), Some(8)));
            assert_eq!(interest.application_parameters, Some(&b"parameters"[..]));
            assert!(has_right_parameters_digest(&interest));
            let again = sign_interest(&builder, b"parameters", &signer, 1234).unwrap();
            assert_ne!(wire, again, "the nonce must be fresh");
        }
    }
}

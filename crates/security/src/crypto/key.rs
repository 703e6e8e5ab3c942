//! Private and public keys: Ed25519, ECDSA on P-256, RSA (packet spec, `signature.rst`).

use std::fmt;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, VerificationAlgorithm,
};
use namely_wire::SignatureType;
use pkcs8::der::asn1::UintRef;
use pkcs8::der::{Decode, Reader, SliceReader};
use pkcs8::spki::SubjectPublicKeyInfoRef;
use pkcs8::{ObjectIdentifier, PrivateKeyInfo};
use zeroize::Zeroizing;

use super::CryptoError;

/// Smallest modulus of an RSA key.
///
/// # Limit
/// A smaller key is refused with `RsaSize`.
/// - Value: 256 octets (2048 bits)
/// - Tests: `rsa_keys_have_from_2048_to_4096_bits`
pub(crate) const RSA_MODULUS_OCTETS_MIN: usize = 256;

/// Octets of the modulus of an RSA key.
///
/// The cost of a verification grows with the modulus.
///
/// # Limit
/// A larger key is refused with `RsaSize`.
/// - Value: 512 octets (4096 bits)
/// - Tests: `rsa_keys_have_from_2048_to_4096_bits`
pub(crate) const RSA_MODULUS_OCTETS_MAX: usize = 512;

const ED25519_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// The octets of a SubjectPublicKeyInfo before the 32 octets of an Ed25519 key (RFC 8410).
const ED25519_SPKI_HEADER: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const EC_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const RSA_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// Ed25519: the fastest, and the default.
    Ed25519,
    /// ECDSA on P-256 with SHA-256: every NDN implementation verifies it.
    EcdsaP256,
    /// RSA with PKCS#1 v1.5 and SHA-256; 2048 bits when generated.
    Rsa,
}

impl KeyType {
    /// The type of the signatures of such a key.
    pub fn signature_type(self) -> SignatureType {
        match self {
            KeyType::Ed25519 => SignatureType::Ed25519,
            KeyType::EcdsaP256 => SignatureType::Sha256WithEcdsa,
            KeyType::Rsa => SignatureType::Sha256WithRsa,
        }
    }

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            KeyType::Ed25519 => &ED25519,
            KeyType::EcdsaP256 => &ECDSA_P256_SHA256_ASN1,
            KeyType::Rsa => &RSA_PKCS1_2048_8192_SHA256,
        }
    }

    /// The key type of an AlgorithmIdentifier.
    fn of(oid: ObjectIdentifier, curve: Option<ObjectIdentifier>) -> Result<Self, CryptoError> {
        match oid {
            ED25519_OID => Ok(KeyType::Ed25519),
            EC_OID if curve == Some(P256_OID) => Ok(KeyType::EcdsaP256),
            RSA_OID => Ok(KeyType::Rsa),
            _ => Err(CryptoError::UnsupportedKey),
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyType::Ed25519 => "Ed25519",
            KeyType::EcdsaP256 => "ECDSA P-256",
            KeyType::Rsa => "RSA",
        })
    }
}

/// A key that signs. `Debug` prints its type only.
pub struct PrivateKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    EcdsaP256(EcdsaKeyPair),
    Rsa(rsa::KeyPair),
}

impl PrivateKey {
    /// Generates a key.
    ///
    /// # Errors
    /// [`CryptoError::Random`] if the operating system has no random octets.
    pub fn generate(key_type: KeyType) -> Result<Self, CryptoError> {
        let pair = match key_type {
            KeyType::Ed25519 => Ed25519KeyPair::generate().map(Pair::Ed25519),
            KeyType::EcdsaP256 => {
                EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map(Pair::EcdsaP256)
            }
            KeyType::Rsa => rsa::KeyPair::generate(rsa::KeySize::Rsa2048).map(Pair::Rsa),
        };
        Self::from_pair(pair.map_err(|_| CryptoError::Random)?)
    }

    /// Generates an RSA key of 4096 bits, the maximum; `generate` makes one of 2048.
    ///
    /// # Errors
    /// As [`PrivateKey::generate`].
    pub fn generate_rsa_4096() -> Result<Self, CryptoError> {
        let pair = rsa::KeyPair::generate(rsa::KeySize::Rsa4096).map_err(|_| CryptoError::Random)?;
        Self::from_pair(Pair::Rsa(pair))
    }

    /// Reads the key of an unencrypted PKCS#8 document (DER).
    ///
    /// # Errors
    /// [`CryptoError::BadPrivateKey`], [`CryptoError::UnsupportedKey`] or [`CryptoError::RsaSize`].
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, CryptoError> {
        let info = PrivateKeyInfo::try_from(der).map_err(|_| CryptoError::BadPrivateKey)?;
        let curve = info.algorithm.parameters_oid().ok();
        let pair = match KeyType::of(info.algorithm.oid, curve)? {
            KeyType::Ed25519 => Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(Pair::Ed25519),
            KeyType::EcdsaP256 => {
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der).map(Pair::EcdsaP256)
            }
            KeyType::Rsa => rsa::KeyPair::from_pkcs8(der).map(Pair::Rsa),
        };
        Self::from_pair(pair.map_err(|_| CryptoError::BadPrivateKey)?)
    }

    fn from_pair(pair: Pair) -> Result<Self, CryptoError> {
        let spki: Result<PublicKeyX509Der<'_>, _> = match &pair {
            Pair::Ed25519(pair) => pair.public_key().as_der(),
            Pair::EcdsaP256(pair) => pair.public_key().as_der(),
            Pair::Rsa(pair) => pair.public_key().as_der(),
        };
        let public = PublicKey::from_spki(spki.map_err(|_| CryptoError::BadPrivateKey)?.as_ref())?;
        Ok(PrivateKey { pair, public })
    }

    /// The key as an unencrypted PKCS#8 document (DER), wiped when dropped.
    ///
    /// # Errors
    /// [`CryptoError::BadPrivateKey`] if the library cannot write the key.
    pub fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        let copy = |octets: &[u8]| Zeroizing::new(octets.to_vec());
        match &self.pair {
            Pair::Ed25519(pair) => pair.to_pkcs8v1().map(|document| copy(document.as_ref())),
            Pair::EcdsaP256(pair) => pair.to_pkcs8v1().map(|document| copy(document.as_ref())),
            Pair::Rsa(pair) => AsDer::<Pkcs8V1Der<'_>>::as_der(pair).map(|document| copy(document.as_ref())),
        }
        .map_err(|_| CryptoError::BadPrivateKey)
    }

    /// The type of this key.
    pub fn key_type(&self) -> KeyType {
        self.public.key_type
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Maximum octets of a signature.
    pub fn signature_octets_max(&self) -> usize {
        match &self.pair {
            Pair::Ed25519(_) => 64,
            // Two numbers of up to 33 octets, in DER.
            Pair::EcdsaP256(_) => 72,
            Pair::Rsa(pair) => pair.public_modulus_len(),
        }
    }

    /// Signs several runs of octets, as if they were one.
    ///
    /// # Errors
    /// [`CryptoError::Signing`] if the library refuses.
    pub fn sign(&self, parts: &[&[u8]]) -> Result<Vec<u8>, CryptoError> {
        let message = ContiguousOctets::new(parts);
        let signed = match &self.pair {
            Pair::Ed25519(pair) => pair.try_sign(message.octets()).map(|s| s.as_ref().to_vec()),
            Pair::EcdsaP256(pair) => {
                pair.sign(&SystemRandom::new(), message.octets()).map(|s| s.as_ref().to_vec())
            }
            Pair::Rsa(pair) => {
                let mut value = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.octets(), &mut value)
                    .map(|()| value)
            }
        };
        signed.map_err(|_| CryptoError::Signing)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.key_type())
    }
}

/// A key that verifies, parsed once.
#[derive(Clone)]
pub struct PublicKey {
    key_type: KeyType,
    spki: Vec<u8>,
    parsed: ParsedPublicKey,
}

impl PublicKey {
    /// Reads the key of a DER SubjectPublicKeyInfo, as in a certificate's Content.
    ///
    /// # Errors
    /// [`CryptoError::BadPublicKey`], [`CryptoError::UnsupportedKey`] or [`CryptoError::RsaSize`].
    pub(crate) fn from_spki(der: &[u8]) -> Result<Self, CryptoError> {
        let info = SubjectPublicKeyInfoRef::try_from(der).map_err(|_| CryptoError::BadPublicKey)?;
        let key_type = KeyType::of(info.algorithm.oid, info.algorithm.parameters_oid().ok())?;
        if key_type == KeyType::Rsa {
            check_rsa_size(&info)?;
        }
        let parsed =
            ParsedPublicKey::new(key_type.verification(), der).map_err(|_| CryptoError::BadPublicKey)?;
        Ok(PublicKey { key_type, spki: der.to_vec(), parsed })
    }

    /// Creates the Ed25519 key with these octets (RFC 8032).
    ///
    /// # Errors
    /// [`CryptoError::BadPublicKey`] if the octets are not a point of the curve.
    pub fn from_ed25519(octets: &[u8; 32]) -> Result<Self, CryptoError> {
        Self::from_spki(&[&ED25519_SPKI_HEADER[..], octets].concat())
    }

    /// The octets of an Ed25519 key; `None` for any other.
    pub fn ed25519_octets(&self) -> Option<[u8; 32]> {
        self.spki.strip_prefix(&ED25519_SPKI_HEADER)?.try_into().ok()
    }

    /// The key as a DER SubjectPublicKeyInfo.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// The type of this key.
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// Returns true if `value` is this key's signature over `parts`, taken as one run of octets.
    pub fn verify(&self, parts: &[&[u8]], value: &[u8]) -> bool {
        self.parsed.verify_sig(ContiguousOctets::new(parts).octets(), value).is_ok()
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.spki == other.spki
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({}, ", self.key_type)?;
        super::sha256(&self.spki)[..8].iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        f.write_str(")")
    }
}

/// Checks the modulus in the RSAPublicKey (RFC 8017, A.1.1): SEQUENCE { modulus, publicExponent }.
fn check_rsa_size(info: &SubjectPublicKeyInfoRef<'_>) -> Result<(), CryptoError> {
    let octets = info.subject_public_key.as_bytes().ok_or(CryptoError::BadPublicKey)?;
    let modulus_octets = SliceReader::new(octets)
        .and_then(|mut reader| {
            reader.sequence(|reader| {
                let modulus = UintRef::decode(reader)?;
                UintRef::decode(reader)?;
                Ok(modulus.as_bytes().len())
            })
        })
        .map_err(|_| CryptoError::BadPublicKey)?;
    if (RSA_MODULUS_OCTETS_MIN..=RSA_MODULUS_OCTETS_MAX).contains(&modulus_octets) {
        Ok(())
    } else {
        Err(CryptoError::RsaSize)
    }
}

/// One run of octets: borrowed if there is one part (every Data), copied together if there are more
/// (every signed Interest).
enum ContiguousOctets<'a> {
    One(&'a [u8]),
    Many(Vec<u8>),
}

impl<'a> ContiguousOctets<'a> {
    fn new(parts: &[&'a [u8]]) -> Self {
        match parts {
            [one] => ContiguousOctets::One(one),
            _ => ContiguousOctets::Many(parts.concat()),
        }
    }

    fn octets(&self) -> &[u8] {
        match self {
            ContiguousOctets::One(octets) => octets,
            ContiguousOctets::Many(octets) => octets,
        }
    }
}

#[cfg(test)]
mod tests;

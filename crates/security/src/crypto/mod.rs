//! Hashes, message authentication codes, signatures and encrypted private keys.
//!
//! Only this module uses a cryptographic library, and all other code calls this module. The module
//! never prints a secret, and wipes the private octets that it has to hold.

mod content;
mod key;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod lanes;
mod pkcs8;

use std::fmt;

use aws_lc_rs::{digest, hmac};
use zeroize::Zeroizing;

pub use self::content::{ContentDigest, ContentHash, DigestAlgorithm};
pub use self::key::{KeyType, PrivateKey, PublicKey};
pub(crate) use self::lanes::sha256_each;
pub use self::pkcs8::{Passphrase, encrypt_pkcs8, private_key_from_pem, private_key_to_pem};
pub(crate) use self::pkcs8::{decrypt_pkcs8, is_encrypted_pem};

/// Octets of a digest, of either hash.
pub(crate) const DIGEST_OCTETS: usize = 32;

/// SHA-256 of `octets`, in one pass.
///
/// ```
/// let digest = namely_security::sha256(b"abc");
/// assert_eq!(digest[..4], [0xba, 0x78, 0x16, 0xbf]);
/// ```
pub fn sha256(octets: &[u8]) -> [u8; DIGEST_OCTETS] {
    to_array(digest::digest(&digest::SHA256, octets).as_ref())
}

/// SHA-256 over octets that arrive in pieces.
#[derive(Clone)]
pub struct Sha256(digest::Context);

impl Sha256 {
    /// Creates a hash of no octets.
    pub fn new() -> Self {
        Sha256(digest::Context::new(&digest::SHA256))
    }

    /// Adds `octets`.
    pub fn update(&mut self, octets: &[u8]) -> &mut Self {
        self.0.update(octets);
        self
    }

    /// Returns the digest of all octets.
    pub fn finish(self) -> [u8; DIGEST_OCTETS] {
        to_array(self.0.finish().as_ref())
    }
}

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sha256")
    }
}

/// BLAKE3 with an output of 32 octets, in one pass. On processors without SHA instructions, BLAKE3
/// is several times as fast as SHA-256. On processors with them, it is faster only for tens of
/// thousands of octets.
///
/// ```
/// let digest = namely_security::blake3(b"abc");
/// assert_eq!(digest[..4], [0x64, 0x37, 0xb3, 0xac]);
/// ```
pub fn blake3(octets: &[u8]) -> [u8; DIGEST_OCTETS] {
    *blake3::hash(octets).as_bytes()
}

/// SHA-256 of several runs of octets, as if they were one.
pub(crate) fn sha256_of(parts: &[&[u8]]) -> [u8; DIGEST_OCTETS] {
    if let [octets] = parts {
        return sha256(octets);
    }
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finish()
}

/// A key shared by signer and verifier, for HMAC-SHA256. Its octets are wiped on drop, and never
/// printed.
#[derive(Clone)]
pub struct HmacKey {
    secret: Zeroizing<Vec<u8>>,
    key: hmac::Key,
}

impl HmacKey {
    /// Creates the key from `secret`; 32 random octets or more are advisable.
    pub fn new(secret: &[u8]) -> Self {
        HmacKey { secret: Zeroizing::new(secret.to_vec()), key: hmac::Key::new(hmac::HMAC_SHA256, secret) }
    }

    /// Generates a random key of 32 octets.
    ///
    /// # Errors
    /// [`CryptoError::Random`] if the operating system has no random octets.
    pub fn generate() -> Result<Self, CryptoError> {
        let secret: Zeroizing<[u8; 32]> = Zeroizing::new(random()?);
        Ok(Self::new(&*secret))
    }

    /// The secret itself, for the other side.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// The authentication code of several runs of octets, as if they were one.
    pub fn sign(&self, parts: &[&[u8]]) -> [u8; DIGEST_OCTETS] {
        to_array(self.context(parts).sign().as_ref())
    }

    /// Returns true if `value` is the code of `parts`, in a time independent of the first
    /// difference.
    pub fn verify(&self, parts: &[&[u8]], value: &[u8]) -> bool {
        constant_time_eq(self.context(parts).sign().as_ref(), value)
    }

    fn context(&self, parts: &[&[u8]]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.key);
        parts.iter().for_each(|part| context.update(part));
        context
    }
}

impl fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HmacKey({} octets)", self.secret.len())
    }
}

/// `N` random octets from the operating system. The library's generator is not used, because it
/// first measures the processor's jitter for 40 ms, longer than all other work of a short command.
///
/// # Errors
/// [`CryptoError::Random`] if the operating system has no random octets.
pub fn random<const N: usize>() -> Result<[u8; N], CryptoError> {
    namely_host::random().map_err(|_| CryptoError::Random)
}

/// Returns true if two runs of octets are equal, in a time independent of the first difference.
pub(crate) fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

/// The reason why a key could not be made, read or used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// Environment: the operating system returned no random octets.
    #[error("the system's random number generator failed")]
    Random,
    /// Peer or caller: not a SubjectPublicKeyInfo, or one whose key is malformed.
    #[error("not a well-formed public key (DER SubjectPublicKeyInfo)")]
    BadPublicKey,
    /// Peer or caller: a well-formed key of an unsupported type.
    #[error("the key is of an unsupported kind: use Ed25519, ECDSA on P-256, or RSA")]
    UnsupportedKey,
    /// Peer or caller: an RSA modulus outside 2048..=4096 bits.
    #[error("the RSA modulus is not 2048 to 4096 bits: use a key of 2048 bits or more")]
    RsaSize,
    /// Caller: not a PKCS#8 private key.
    #[error("not a well-formed private key (DER PKCS#8)")]
    BadPrivateKey,
    /// Caller: the private key is encrypted, and no passphrase was given.
    #[error("the private key is encrypted: give its passphrase")]
    PassphraseNeeded,
    /// Caller: an encrypted private key does not decrypt under this passphrase.
    #[error("the passphrase is wrong, or the encrypted key is damaged")]
    WrongPassphrase,
    /// Caller: the encryption of the private key is not supported.
    #[error("the private key's encryption is not PBES2 with AES-CBC or 3DES: export the key again with it")]
    UnsupportedEncryption,
    /// Caller: an encrypted private key requires more derivation work than the limit.
    #[error("the private key asks for too many rounds of key derivation: export it again with fewer")]
    TooCostly,
    /// Bug or environment: the library refused to sign.
    #[error("the cryptographic library could not sign")]
    Signing,
}

fn to_array(octets: &[u8]) -> [u8; DIGEST_OCTETS] {
    octets.try_into().expect("a SHA-256 output is 32 octets long")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(octets: &[u8]) -> String {
        octets.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn sha256_agrees_with_fips_180_4_examples() {
        assert_eq!(hex(&sha256(b"abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hex(&sha256(b"")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn sha256_is_the_same_in_pieces() {
        let octets: Vec<u8> = (0..1000u32).map(|n| n as u8).collect();
        for cut in [0, 1, 63, 64, 65, 999, 1000] {
            let mut hasher = Sha256::default();
            hasher.update(&octets[..cut]).update(&octets[cut..]);
            assert_eq!(hasher.finish(), sha256(&octets));
            assert_eq!(sha256_of(&[&octets[..cut], &octets[cut..]]), sha256(&octets));
        }
    }

    #[test]
    fn hmac_agrees_with_rfc_4231() {
        let key = HmacKey::new(&[0x0b; 20]);
        let code = key.sign(&[b"Hi ", b"There"]);
        assert_eq!(hex(&code), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        assert!(key.verify(&[b"Hi There"], &code));
        assert!(!key.verify(&[b"Hi there"], &code));
        assert!(!key.verify(&[b"Hi There"], &code[..31]));
        assert!(!HmacKey::new(b"other").verify(&[b"Hi There"], &code));
    }

    #[test]
    fn random_octets_differ() {
        assert_ne!(random::<16>().unwrap(), random::<16>().unwrap());
    }

    #[test]
    fn a_shared_key_never_prints_its_secret() {
        let key = HmacKey::new(b"hunter2-hunter2");
        assert_eq!(format!("{key:?}"), "HmacKey(15 octets)");
    }
}

//! Encrypted private keys: PKCS#8 with PBES2 (RFC 5958, RFC 8018), as OpenSSL and ndnsec write and
//! read them.

use std::fmt;

use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::{self, Kdf};
use pkcs8::{EncryptedPrivateKeyInfo, LineEnding, PrivateKeyInfo, SecretDocument};
use zeroize::Zeroizing;

use super::{CryptoError, PrivateKey, random};

const PLAIN_LABEL: &str = "PRIVATE KEY";
const ENCRYPTED_LABEL: &str = "ENCRYPTED PRIVATE KEY";

/// Rounds of PBKDF2-HMAC-SHA256 for encryption.
pub(crate) const PBKDF2_ROUNDS: u32 = 210_000;

/// Rounds of PBKDF2 that a file may require.
///
/// So many rounds take a few seconds.
///
/// # Limit
/// The key is refused with `TooCostly`.
/// - Tests: `pbkdf2_rounds_of_a_file_are_limited`
pub(crate) const PBKDF2_ROUNDS_MAX: u32 = 10_000_000;

/// Octets of memory that a file may require for scrypt.
///
/// # Limit
/// The key is refused with `TooCostly`.
/// - Value: 256 MiB
/// - Tests: `scrypt_memory_of_a_file_is_limited`
pub(crate) const SCRYPT_OCTETS_MAX: u64 = 256 << 20;

/// The passphrase of a private key: wiped when dropped, never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// Copies `text`.
    pub fn new(text: impl AsRef<[u8]>) -> Self {
        Passphrase(Zeroizing::new(text.as_ref().to_vec()))
    }

    fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if the passphrase is empty. An empty passphrase protects nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

/// A private key as PEM (RFC 7468), encrypted if there is a passphrase; wiped when dropped.
///
/// # Errors
/// [`CryptoError`]: the key cannot be written, or there are no random octets to encrypt it with.
pub fn private_key_to_pem(
    key: &PrivateKey,
    passphrase: Option<&Passphrase>,
) -> Result<Zeroizing<String>, CryptoError> {
    let plain = key.to_pkcs8()?;
    let (octets, label) = match passphrase {
        Some(passphrase) => (Zeroizing::new(encrypt_pkcs8(&plain, passphrase)?), ENCRYPTED_LABEL),
        None => (plain, PLAIN_LABEL),
    };
    SecretDocument::try_from(octets.as_slice())
        .and_then(|document| document.to_pem(label, LineEnding::LF))
        .map_err(|_| CryptoError::BadPrivateKey)
}

/// Returns true if PEM `text` holds an encrypted private key.
pub(crate) fn is_encrypted_pem(text: &str) -> bool {
    text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
}

/// Reads the private key in PEM `text`. The passphrase of a key that is not encrypted is ignored.
///
/// # Errors
/// [`CryptoError`]: not a supported private key, or the passphrase is missing or wrong.
pub fn private_key_from_pem(text: &str, passphrase: Option<&Passphrase>) -> Result<PrivateKey, CryptoError> {
    let (label, document) = SecretDocument::from_pem(text).map_err(|_| CryptoError::BadPrivateKey)?;
    match (label, passphrase) {
        (PLAIN_LABEL, _) => PrivateKey::from_pkcs8(document.as_bytes()),
        (ENCRYPTED_LABEL, Some(passphrase)) => {
            PrivateKey::from_pkcs8(&decrypt_pkcs8(document.as_bytes(), passphrase)?)
        }
        (ENCRYPTED_LABEL, None) => Err(CryptoError::PassphraseNeeded),
        _ => Err(CryptoError::BadPrivateKey),
    }
}

/// Encrypts an unencrypted PKCS#8 document under AES-256-CBC.
///
/// # Errors
/// [`CryptoError::Random`] if the operating system has no random octets.
pub fn encrypt_pkcs8(der: &[u8], passphrase: &Passphrase) -> Result<Vec<u8>, CryptoError> {
    let (salt, iv) = (random::<16>()?, random::<16>()?);
    let parameters = pbes2::Parameters::pbkdf2_sha256_aes256cbc(PBKDF2_ROUNDS, &salt, &iv)
        .map_err(|_| CryptoError::UnsupportedEncryption)?;
    let info = PrivateKeyInfo::try_from(der).map_err(|_| CryptoError::BadPrivateKey)?;
    let document = info
        .encrypt_with_params(parameters, passphrase.as_bytes())
        .map_err(|_| CryptoError::UnsupportedEncryption)?;
    Ok(document.as_bytes().to_vec())
}

/// Decrypts an encrypted PKCS#8 document into an unencrypted one, wiped when dropped.
///
/// # Errors
/// [`CryptoError`]: the passphrase is wrong, the encryption is not supported, or it requires more
/// derivation work than the limit.
pub(crate) fn decrypt_pkcs8(der: &[u8], passphrase: &Passphrase) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
    let info = EncryptedPrivateKeyInfo::try_from(der).map_err(|_| CryptoError::BadPrivateKey)?;
    let EncryptionScheme::Pbes2(parameters) = &info.encryption_algorithm else {
        return Err(CryptoError::UnsupportedEncryption);
    };
    check_cost(&parameters.kdf)?;
    let document = info.decrypt(passphrase.as_bytes()).map_err(|_| CryptoError::WrongPassphrase)?;
    Ok(Zeroizing::new(document.as_bytes().to_vec()))
}

fn check_cost(kdf: &Kdf<'_>) -> Result<(), CryptoError> {
    let affordable = match kdf {
        Kdf::Pbkdf2(parameters) => parameters.iteration_count <= PBKDF2_ROUNDS_MAX,
        Kdf::Scrypt(parameters) => u64::from(parameters.block_size)
            .checked_mul(128)
            .and_then(|octets| octets.checked_mul(parameters.cost_parameter))
            .and_then(|octets| octets.checked_mul(u64::from(parameters.parallelization)))
            .is_some_and(|octets| octets <= SCRYPT_OCTETS_MAX),
        _ => return Err(CryptoError::UnsupportedEncryption),
    };
    if affordable { Ok(()) } else { Err(CryptoError::TooCostly) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pbkdf2_rounds_of_a_file_are_limited() {
        let cost = |rounds| {
            let parameters = pbes2::Parameters::pbkdf2_sha256_aes256cbc(rounds, &[9; 8], &[7; 16]).unwrap();
            check_cost(&parameters.kdf)
        };
        assert_eq!(cost(PBKDF2_ROUNDS), Ok(()));
        assert_eq!(cost(PBKDF2_ROUNDS_MAX), Ok(()));
        assert_eq!(cost(PBKDF2_ROUNDS_MAX + 1), Err(CryptoError::TooCostly));
    }

    #[test]
    fn scrypt_memory_of_a_file_is_limited() {
        let cost = |cost_parameter: u64, block_size| {
            let mut parameters =
                pbes2::Parameters::scrypt_aes256cbc(Default::default(), &[9; 8], &[7; 16]).unwrap();
            let Kdf::Scrypt(scrypt) = &mut parameters.kdf else { panic!() };
            scrypt.cost_parameter = cost_parameter;
            scrypt.block_size = block_size;
            scrypt.parallelization = 1;
            check_cost(&parameters.kdf)
        };
        assert_eq!(cost(SCRYPT_OCTETS_MAX / 128 / 8, 8), Ok(()));
        assert_eq!(cost(SCRYPT_OCTETS_MAX / 128 / 8 + 1, 8), Err(CryptoError::TooCostly));
        assert_eq!(cost(u64::MAX, u16::MAX), Err(CryptoError::TooCostly));
    }

    #[test]
    fn an_invalid_private_key_is_refused() {
        let passphrase = Passphrase::new("pass");
        for octets in [&b""[..], b"junk", &[0x30, 0x80], &[0x30, 0x03, 0x02, 0x01, 0x00]] {
            assert_eq!(decrypt_pkcs8(octets, &passphrase), Err(CryptoError::BadPrivateKey));
            assert_eq!(encrypt_pkcs8(octets, &passphrase), Err(CryptoError::BadPrivateKey));
        }
        for text in
            ["", "junk", "-----BEGIN PRIVATE KEY-----", "-----BEGIN CAT-----\nMAMCAQA=\n-----END CAT-----\n"]
        {
            let outcome = private_key_from_pem(text, Some(&passphrase)).map(|_| ());
            assert_eq!(outcome, Err(CryptoError::BadPrivateKey), "{text}");
        }
    }
}

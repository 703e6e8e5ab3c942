//! Import and export of keys as SafeBags, the form in which NDN software exchanges them.

use namely_wire::types::SAFE_BAG;
use namely_wire::{Name, NameRef, SafeBagView, encode_safe_bag};

use super::{KeyChain, KeyChainError};
use crate::certificate::Certificate;
use crate::crypto::{Passphrase, PrivateKey, decrypt_pkcs8, encrypt_pkcs8};
use crate::text;

impl KeyChain {
    /// Stores the key and certificate of a SafeBag, raw or base64. `bag_passphrase` decrypts the
    /// bag; `passphrase` encrypts the key in this key chain.
    ///
    /// A second import of the same key succeeds, and adds the certificate if the key chain does not
    /// have it: a script that runs again, such as an init container, must find what it left.
    ///
    /// # Errors
    /// [`KeyChainError::NotASafeBag`]; otherwise as [`KeyChain::insert`], or the bag's passphrase
    /// is wrong. [`KeyChainError::Exists`] also if the key is there, but not encrypted as
    /// `passphrase` requires.
    pub fn import_safe_bag(
        &self,
        octets: &[u8],
        bag_passphrase: &Passphrase,
        passphrase: Option<&Passphrase>,
    ) -> Result<Certificate, KeyChainError> {
        let raw = if octets.first().copied().map(u32::from) == Some(SAFE_BAG) {
            octets.to_vec()
        } else {
            let text = std::str::from_utf8(octets).map_err(|_| KeyChainError::NotASafeBag)?;
            text::from_base64(text).ok_or(KeyChainError::NotASafeBag)?
        };
        let bag = SafeBagView::parse(&raw).map_err(|_| KeyChainError::NotASafeBag)?;
        let certificate = Certificate::parse(bag.certificate.data.wire)?;
        let at_key = |e| KeyChainError::Key(certificate.key_name().to_name(), e);
        let pkcs8 = decrypt_pkcs8(bag.encrypted_key, bag_passphrase).map_err(at_key)?;
        let key = PrivateKey::from_pkcs8(&pkcs8).map_err(at_key)?;
        match self.insert(&key, &certificate, passphrase) {
            Err(KeyChainError::Exists(name)) => self.confirm(&name, &key, &certificate, passphrase)?,
            inserted => inserted?,
        }
        Ok(certificate)
    }

    /// Checks that the key `name` of this key chain is `key`, stored as an import with `passphrase`
    /// stores it, and adds `certificate` if it is new.
    fn confirm(
        &self,
        name: &Name,
        key: &PrivateKey,
        certificate: &Certificate,
        passphrase: Option<&Passphrase>,
    ) -> Result<(), KeyChainError> {
        let entry = self.key(Some(name.as_name()))?;
        // A key in clear would not be what an import with `--encrypt` reports, nor the reverse.
        if entry.encrypted != passphrase.is_some() {
            return Err(KeyChainError::Exists(name.clone()));
        }
        // The stored octets are read, because a damaged key is not the imported one.
        if self.private_key(name.as_name(), passphrase)?.public() != key.public() {
            return Err(KeyChainError::Exists(name.clone()));
        }
        match entry.certificates.iter().any(|known| known.name() == certificate.name()) {
            true => Ok(()),
            false => self.add_certificate(certificate),
        }
    }

    /// Exports the key that `which` names (see [`KeyChain::key`]) as a SafeBag encrypted under
    /// `bag_passphrase`. `passphrase` decrypts the key in this key chain. `ndnsec export` prints
    /// such a SafeBag in base64.
    ///
    /// # Errors
    /// As [`KeyChain::key`] and [`KeyChain::private_key`]; or the key could not be encrypted.
    pub fn export_safe_bag(
        &self,
        which: Option<NameRef<'_>>,
        passphrase: Option<&Passphrase>,
        bag_passphrase: &Passphrase,
    ) -> Result<SafeBag, KeyChainError> {
        let entry = self.key(which)?;
        let key = self.private_key(entry.name.as_name(), passphrase)?;
        let named = |certificate: &&Certificate| Some(certificate.name()) == which;
        let certificate = entry.certificates.iter().find(named).or(entry.certificates.first());
        let certificate = certificate.ok_or_else(|| KeyChainError::NotFound(entry.name.clone()))?;
        let encrypted = encrypt_pkcs8(&key.to_pkcs8()?, bag_passphrase)?;
        Ok(SafeBag(encode_safe_bag(certificate.wire(), &encrypted)))
    }
}

/// A certificate and its encrypted private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafeBag(Vec<u8>);

impl SafeBag {
    /// The octets of the TLV.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Base64 in lines of 64 characters.
    pub fn to_base64(&self) -> String {
        text::to_base64(&self.0)
    }
}

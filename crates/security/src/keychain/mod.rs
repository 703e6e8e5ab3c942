//! The key chain: the user's own keys with their certificates, and the chosen trust anchors.
//!
//! A key chain is stored in memory, or in a folder (`docs/keychain.md` lists every file) whose
//! secrets only the owner can read. Secrets are wiped from memory when they are no longer used, and
//! never printed.

mod error;
mod files;
mod transfer;

use std::cmp::Reverse;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namely_wire::{Name, NameRef, ValidityPeriod, key_name_of_locator};
use zeroize::Zeroizing;

use crate::certificate::{Certificate, identity_of, new_key_name};
use crate::crypto::{
    KeyType, Passphrase, PrivateKey, is_encrypted_pem, private_key_from_pem, private_key_to_pem, random,
    sha256,
};
use crate::signer::Signer;
use crate::trust::TrustPolicy;

pub use self::error::KeyChainError;
use self::files::{Files, Memory};
pub use self::transfer::SafeBag;

const FORMAT_FILE: &str = "format";
const FORMAT: &str = "namely key chain 1";
const LOCAL_SECRET_FILE: &str = "local-secret";
const DEFAULT_IDENTITY_FILE: &str = "default-identity";
const CERTIFICATE_SUFFIX: &str = ".ndncert";

/// Keys, their certificates, and trust anchors.
#[derive(Debug)]
pub struct KeyChain {
    files: Files,
}

/// A key to be made.
#[derive(Clone, Debug)]
pub struct NewKey<'a> {
    /// The identity of the key's owner.
    pub identity: NameRef<'a>,
    /// Its type.
    pub key_type: KeyType,
    /// The validity of its self-signed certificate.
    pub validity: ValidityPeriod,
    /// The version of its self-signed certificate, by convention in ms since the Unix epoch.
    pub version: u64,
    /// Encrypts the private key.
    pub passphrase: Option<&'a Passphrase>,
}

/// Content of a key chain.
#[derive(Debug)]
pub struct KeyListing {
    /// The keys, ordered by name. The keys of one identity therefore follow each other.
    pub keys: Vec<KeyEntry>,
    /// Damaged or unreadable files; their keys and certificates are missing from `keys`.
    pub problems: Vec<KeyChainError>,
}

/// A key of a key chain, without its secret.
#[derive(Clone, Debug)]
pub struct KeyEntry {
    /// `/<Identity>/KEY/<KeyId>`.
    pub name: Name,
    /// Whether the use of the key requires a passphrase.
    pub encrypted: bool,
    /// Whether its identity is the default identity.
    pub of_default_identity: bool,
    /// Whether the key is the default key of its identity.
    pub default_of_identity: bool,
    /// Its certificates, the default one first.
    pub certificates: Vec<Certificate>,
}

impl KeyEntry {
    /// The identity of the key's owner.
    pub fn identity(&self) -> NameRef<'_> {
        identity_of(self.name.as_name())
    }

    /// The type of the key.
    pub fn key_type(&self) -> Option<KeyType> {
        self.certificates.first().map(|certificate| certificate.public_key().key_type())
    }

    /// Returns its certificates. The first one is the certificate to publish under at `unix_s`. If
    /// the default certificate is not valid, its substitute is that valid certificate by the same
    /// issuer that ends last. A certificate by another issuer is no substitute, because a verifier
    /// may trust only one of the issuers.
    pub fn certificates_at(mut self, unix_s: u64) -> Vec<Certificate> {
        let issuer = |c: &Certificate| {
            c.signer_name().and_then(|name| key_name_of_locator(name).ok()).map(|n| n.to_name())
        };
        let is_valid = |c: &Certificate| c.validity().contains(unix_s);
        let Some(default) = self.certificates.first() else { return Vec::new() };
        let (is_ended, of) = (!is_valid(default), issuer(default));
        if is_ended {
            let is_first = |c: &Certificate| is_valid(c) && issuer(c) == of;
            self.certificates.sort_by_key(|c| Reverse(is_first(c).then(|| c.validity().not_after_s)));
        }
        self.certificates
    }
}

impl KeyChain {
    /// Opens the key chain in `folder`. The folder is made on the first write.
    ///
    /// # Errors
    /// [`KeyChainError::OtherOwner`] or [`KeyChainError::Writable`] if other users may change the
    /// content; [`KeyChainError::UnknownFormat`] if the key chain is of another version;
    /// [`KeyChainError::Read`] if a file or folder cannot be read.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, KeyChainError> {
        let key_chain = KeyChain { files: Files::Folder(folder.into()) };
        for folder in ["", "keys", "anchors"] {
            key_chain.files.check_owner(folder)?;
        }
        match key_chain.files.read_text(FORMAT_FILE)? {
            Some(format) if format != FORMAT => {
                Err(KeyChainError::UnknownFormat(key_chain.files.locate(FORMAT_FILE), format))
            }
            _ => Ok(key_chain),
        }
    }

    /// Opens the key chain of the user: `$NAMELY_HOME/keys`, else `$XDG_DATA_HOME/namely/keys`,
    /// else `$HOME/.local/share/namely/keys`.
    ///
    /// # Errors
    /// [`KeyChainError::NoHome`] if no home folder is known; otherwise as [`KeyChain::open`].
    pub fn open_default() -> Result<Self, KeyChainError> {
        Self::open(default_folder(|variable| std::env::var_os(variable))?)
    }

    /// Returns the secret of this key chain's owner, and makes it on first use. With this secret,
    /// programs authenticate their own files in folders where other users write, too. The secret
    /// signs nothing that leaves the machine.
    ///
    /// # Errors
    /// [`KeyChainError`]: the folder cannot be read or written, or others can read the secret.
    pub fn local_secret(&self) -> Result<[u8; 32], KeyChainError> {
        if let Some(secret) = self.read_local_secret()? {
            return Ok(secret);
        }
        self.prepare()?;
        let secret = random()?;
        if self.files.add(LOCAL_SECRET_FILE, &secret)? {
            return Ok(secret);
        }
        // Another process was first, and its secret authenticates files already.
        let lost = || KeyChainError::Corrupted(self.files.locate(LOCAL_SECRET_FILE), "it was removed".into());
        self.read_local_secret()?.ok_or_else(lost)
    }

    fn read_local_secret(&self) -> Result<Option<[u8; 32]>, KeyChainError> {
        let Some(octets) = self.files.read_private(LOCAL_SECRET_FILE)? else { return Ok(None) };
        let damaged = |_| {
            let path = self.files.locate(LOCAL_SECRET_FILE);
            KeyChainError::Corrupted(path, "it has not 32 octets".into())
        };
        octets.as_slice().try_into().map(Some).map_err(damaged)
    }

    /// Creates a key chain in memory, which ends with the process.
    pub fn in_memory() -> Self {
        KeyChain { files: Files::Memory(Memory::default()) }
    }

    /// Generates a key and its self-signed certificate. The first key's identity becomes the
    /// default one.
    ///
    /// # Errors
    /// [`KeyChainError`]: no key or certificate could be made, or the folder cannot be written.
    pub fn generate(&self, new: &NewKey<'_>) -> Result<KeyEntry, KeyChainError> {
        let key = Arc::new(PrivateKey::generate(new.key_type)?);
        let name = new_key_name(new.identity)?;
        let certificate = Certificate::self_signed(name.as_name(), &key, new.validity, new.version)?;
        self.insert(&key, &certificate, new.passphrase)?;
        self.entry(name.as_name())
    }

    /// Stores a private key under the key name of `certificate`, which must be its certificate.
    ///
    /// # Errors
    /// [`KeyChainError::OtherKey`] if the certificate is not the key's, [`KeyChainError::Exists`]
    /// if a key of this name exists; otherwise the folder cannot be written.
    pub fn insert(
        &self,
        key: &PrivateKey,
        certificate: &Certificate,
        passphrase: Option<&Passphrase>,
    ) -> Result<(), KeyChainError> {
        let name = certificate.key_name();
        if key.public() != certificate.public_key() {
            return Err(KeyChainError::OtherKey(name.to_name()));
        }
        if self.files.read(&in_key(name, "name"))?.is_some() {
            return Err(KeyChainError::Exists(name.to_name()));
        }
        self.prepare()?;
        let pem: Zeroizing<String> = private_key_to_pem(key, passphrase)?;
        let (name_text, certificate_text) = (format!("{name}\n"), certificate.to_base64());
        self.files.create_folder(
            &key_folder(name),
            &[
                ("name", name_text.as_bytes()),
                ("private.pem", pem.as_bytes()),
                (&certificate_file(certificate.name()), certificate_text.as_bytes()),
            ],
        )?;
        if self.files.read_text(DEFAULT_IDENTITY_FILE)?.is_none() {
            self.write_name(DEFAULT_IDENTITY_FILE, identity_of(name))?;
        }
        Ok(())
    }

    /// Lists all keys. Damaged keys are left out and reported as problems.
    ///
    /// # Errors
    /// [`KeyChainError::Read`] if the folder itself cannot be read.
    pub fn list(&self) -> Result<KeyListing, KeyChainError> {
        let mut listing = KeyListing { keys: Vec::new(), problems: Vec::new() };
        let default_identity = self.default_identity().unwrap_or_else(|e| {
            listing.problems.push(e);
            None
        });
        for folder in self.files.list("keys")? {
            let path = format!("keys/{folder}");
            match self.read_entry(&path, default_identity.as_ref(), &mut listing.problems) {
                Ok(entry) => listing.keys.push(entry),
                Err(e) => listing.problems.push(e),
            }
        }
        listing.keys.sort_by(|a, b| a.name.cmp(&b.name));
        self.mark_defaults(&mut listing);
        Ok(listing)
    }

    /// Returns the default identity, if there is one.
    ///
    /// # Errors
    /// [`KeyChainError`]: its file cannot be read, or is damaged.
    pub fn default_identity(&self) -> Result<Option<Name>, KeyChainError> {
        self.read_name(DEFAULT_IDENTITY_FILE)
    }

    /// Returns the key that `which` names: an identity's default key, a key, or the key of a
    /// certificate; `None` stands for the default identity.
    ///
    /// # Errors
    /// [`KeyChainError::Empty`] if there is no default identity, [`KeyChainError::NotFound`] if
    /// nothing has that name; otherwise a file cannot be read, or is damaged.
    pub fn key(&self, which: Option<NameRef<'_>>) -> Result<KeyEntry, KeyChainError> {
        let Some(which) = which else {
            let identity = self.default_identity()?.ok_or(KeyChainError::Empty)?;
            return self.key(Some(identity.as_name()));
        };
        if let Ok(key_name) = key_name_of_locator(which)
            && self.files.read(&in_key(key_name, "name"))?.is_some()
        {
            return self.entry(key_name);
        }
        let listing = self.list()?;
        let of_identity = |key: &&KeyEntry| key.identity() == which && key.default_of_identity;
        match listing.keys.iter().find(of_identity) {
            Some(key) => Ok(key.clone()),
            None => {
                Err(listing.problems.into_iter().next().unwrap_or(KeyChainError::NotFound(which.to_name())))
            }
        }
    }

    /// Returns the key to sign `name` with: the default key of the longest identity that is a
    /// prefix of `name`.
    ///
    /// # Errors
    /// [`KeyChainError`]: a file cannot be read, or is damaged.
    pub fn key_above(&self, name: NameRef<'_>) -> Result<Option<KeyEntry>, KeyChainError> {
        let keys = self.list()?.keys;
        let above = keys.into_iter().filter(|k| k.default_of_identity && k.identity().is_prefix_of(name));
        Ok(above.max_by_key(|k| k.identity().len()))
    }

    /// Returns a policy that trusts the user's own keys and the anchors, each for the names below
    /// its identity. Damaged files are left out and reported.
    ///
    /// # Errors
    /// [`KeyChainError::Read`] if a folder cannot be read.
    pub fn hierarchical_policy(&self) -> Result<(TrustPolicy, Vec<KeyChainError>), KeyChainError> {
        let mut policy = TrustPolicy::hierarchical();
        let (anchors, mut problems) = self.anchors()?;
        let listing = self.list()?;
        problems.extend(listing.problems);
        let own = listing.keys.into_iter().flat_map(|k| k.certificates).filter(|c| c.is_self_signed());
        for anchor in anchors.into_iter().chain(own) {
            policy.add_anchor(anchor);
        }
        Ok((policy, problems))
    }

    /// Returns a signer with the key that `which` names (see [`KeyChain::key`]). Its KeyLocator is
    /// the name of the certificate that `which` names, or else of the key's default certificate.
    ///
    /// # Errors
    /// As [`KeyChain::key`] and [`KeyChain::private_key`].
    pub fn signer(
        &self,
        which: Option<NameRef<'_>>,
        passphrase: Option<&Passphrase>,
    ) -> Result<Signer, KeyChainError> {
        let entry = self.key(which)?;
        let named = |certificate: &&Certificate| Some(certificate.name()) == which;
        let certificate = entry.certificates.iter().find(named).or(entry.certificates.first());
        let locator = certificate.map_or(entry.name.as_name(), Certificate::name).to_name();
        let key = self.private_key(entry.name.as_name(), passphrase)?;
        Ok(Signer::new(locator, Arc::new(key)))
    }

    /// Returns the private key named `key_name`.
    ///
    /// # Errors
    /// [`KeyChainError::NotFound`]; [`KeyChainError::TooOpen`] if others can read it;
    /// [`KeyChainError::Key`] if the passphrase is missing or wrong; otherwise the file cannot be
    /// read, or is damaged.
    pub fn private_key(
        &self,
        key_name: NameRef<'_>,
        passphrase: Option<&Passphrase>,
    ) -> Result<PrivateKey, KeyChainError> {
        let path = in_key(key_name, "private.pem");
        let octets =
            self.files.read_private(&path)?.ok_or_else(|| KeyChainError::NotFound(key_name.to_name()))?;
        let corrupted = |why: String| KeyChainError::Corrupted(self.files.locate(&path), why);
        let text = std::str::from_utf8(&octets).map_err(|_| corrupted("it is not text".into()))?;
        let damaged = |e| match e {
            crate::CryptoError::BadPrivateKey => corrupted(e.to_string()),
            e => KeyChainError::Key(key_name.to_name(), e),
        };
        let key = private_key_from_pem(text, passphrase).map_err(damaged)?;
        let entry = self.entry(key_name)?;
        match entry.certificates.iter().any(|c| c.public_key() != key.public()) {
            true => Err(corrupted(format!("it is not the private key of {key_name}"))),
            false => Ok(key),
        }
    }

    /// Adds a certificate, for example from an issuer, to its key, and makes it the key's default.
    ///
    /// # Errors
    /// [`KeyChainError::NotFound`] or [`KeyChainError::OtherKey`] if the key chain does not have
    /// the certified key; otherwise the folder cannot be written.
    pub fn add_certificate(&self, certificate: &Certificate) -> Result<(), KeyChainError> {
        let key_name = certificate.key_name();
        let entry = self.entry(key_name)?;
        if entry.certificates.iter().any(|known| known.public_key() != certificate.public_key()) {
            return Err(KeyChainError::OtherKey(key_name.to_name()));
        }
        let file = in_key(key_name, &certificate_file(certificate.name()));
        self.files.write(&file, certificate.to_base64().as_bytes())?;
        self.write_name(&in_key(key_name, "default-certificate"), certificate.name())
    }

    /// Makes `name` the default: an identity of the key chain, a key of that identity, or a
    /// certificate of that key.
    ///
    /// # Errors
    /// [`KeyChainError::NotFound`] if nothing has that name; otherwise the folder cannot be
    /// written.
    pub fn set_default(&self, name: NameRef<'_>) -> Result<(), KeyChainError> {
        let entry = self.key(Some(name))?;
        if entry.identity() == name {
            self.write_name(DEFAULT_IDENTITY_FILE, name)
        } else if entry.name.as_name() == name {
            self.write_name(&default_key_file(entry.identity()), name)
        } else if entry.certificates.iter().any(|certificate| certificate.name() == name) {
            self.write_name(&in_key(entry.name.as_name(), "default-certificate"), name)
        } else {
            Err(KeyChainError::NotFound(name.to_name()))
        }
    }

    /// Deletes an identity with all its keys, a key with its certificates, or a certificate.
    ///
    /// # Errors
    /// [`KeyChainError::NotFound`] if nothing has that name; otherwise the folder cannot be
    /// written.
    pub fn delete(&self, name: NameRef<'_>) -> Result<(), KeyChainError> {
        let listing = self.list()?;
        let doomed: Vec<_> =
            listing.keys.iter().filter(|k| k.identity() == name || k.name.as_name() == name).collect();
        for key in &doomed {
            self.files.remove(&key_folder(key.name.as_name()))?;
        }
        if !doomed.is_empty() {
            return Ok(());
        }
        let certificate = listing.keys.iter().flat_map(|k| &k.certificates).find(|c| c.name() == name);
        let certificate = certificate.ok_or_else(|| KeyChainError::NotFound(name.to_name()))?;
        self.files.remove(&in_key(certificate.key_name(), &certificate_file(name)))
    }

    /// Deletes a key that was just made and never used. If its identity became the default one and
    /// has no other key, there is no default identity either, as before.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn take_back(&self, entry: &KeyEntry) -> Result<(), KeyChainError> {
        self.files.remove(&key_folder(entry.name.as_name()))?;
        let is_default = self.default_identity()?.is_some_and(|name| name.as_name() == entry.identity());
        if is_default && self.list()?.keys.iter().all(|key| key.identity() != entry.identity()) {
            self.files.remove(DEFAULT_IDENTITY_FILE)?;
        }
        Ok(())
    }

    /// Returns the folder of the key chain; `None` if it is in memory.
    pub fn folder(&self) -> Option<&Path> {
        match &self.files {
            Files::Folder(folder) => Some(folder),
            Files::Memory(_) => None,
        }
    }

    /// Makes `certificate` a trust anchor of this user's tools.
    ///
    /// # Errors
    /// [`KeyChainError::Write`] if the folder cannot be written.
    pub fn trust(&self, certificate: &Certificate) -> Result<(), KeyChainError> {
        self.prepare()?;
        self.files.write(&anchor_path(certificate.name()), certificate.to_base64().as_bytes())
    }

    /// Removes the certificate `name` from the trust anchors.
    ///
    /// # Errors
    /// [`KeyChainError::NotFound`] if `name` is not an anchor; [`KeyChainError::Write`] if the
    /// folder cannot be written.
    pub fn distrust(&self, name: NameRef<'_>) -> Result<(), KeyChainError> {
        let path = anchor_path(name);
        match self.files.read(&path)? {
            Some(_) => self.files.remove(&path),
            None => Err(KeyChainError::NotFound(name.to_name())),
        }
    }

    /// Returns the trust anchors, and an error for each damaged file in their folder.
    ///
    /// # Errors
    /// [`KeyChainError::Read`] if the folder itself cannot be read.
    pub fn anchors(&self) -> Result<(Vec<Certificate>, Vec<KeyChainError>), KeyChainError> {
        let (mut anchors, mut problems) = (Vec::new(), Vec::new());
        for file in self.files.list("anchors")? {
            match self.read_certificate(&format!("anchors/{file}")) {
                Ok(anchor) => anchors.push(anchor),
                Err(e) => problems.push(e),
            }
        }
        Ok((anchors, problems))
    }

    fn prepare(&self) -> Result<(), KeyChainError> {
        match self.files.read(FORMAT_FILE)? {
            Some(_) => Ok(()),
            None => self.files.write(FORMAT_FILE, format!("{FORMAT}\n").as_bytes()),
        }
    }

    /// Returns the key named `key_name`, which must not be damaged.
    fn entry(&self, key_name: NameRef<'_>) -> Result<KeyEntry, KeyChainError> {
        if self.files.read(&in_key(key_name, "name"))?.is_none() {
            return Err(KeyChainError::NotFound(key_name.to_name()));
        }
        let mut listing = self.list()?;
        match listing.keys.iter().position(|key| key.name.as_name() == key_name) {
            Some(found) => Ok(listing.keys.swap_remove(found)),
            None => Err(listing
                .problems
                .into_iter()
                .next()
                .unwrap_or(KeyChainError::NotFound(key_name.to_name()))),
        }
    }

    /// Reads a key's folder. A damaged certificate is added to `problems`, and the key is usable
    /// without it.
    fn read_entry(
        &self,
        path: &str,
        default_identity: Option<&Name>,
        problems: &mut Vec<KeyChainError>,
    ) -> Result<KeyEntry, KeyChainError> {
        let missing = |file: &str| {
            KeyChainError::Corrupted(self.files.locate(&format!("{path}/{file}")), "it is missing".into())
        };
        let name = self.read_name(&format!("{path}/name"))?.ok_or_else(|| missing("name"))?;
        if key_folder(name.as_name()) != path {
            let file = self.files.locate(&format!("{path}/name"));
            return Err(KeyChainError::Corrupted(file, "it names a key of another folder".into()));
        }
        let private_path = format!("{path}/private.pem");
        let private = match self.files.read_private(&private_path) {
            Ok(private) => private.ok_or_else(|| missing("private.pem"))?,
            // A key that others can read does not sign, but is listed.
            Err(e) => {
                problems.push(e);
                self.files.read(&private_path).ok().flatten().unwrap_or_default()
            }
        };
        let mut certificates = Vec::new();
        for file in self.files.list(path)?.iter().filter(|file| file.ends_with(CERTIFICATE_SUFFIX)) {
            match self.read_certificate(&format!("{path}/{file}")) {
                Ok(certificate) => certificates.push(certificate),
                Err(e) => problems.push(e),
            }
        }
        certificates.sort_by(|a, b| a.name().cmp(&b.name()));
        match self.read_name(&format!("{path}/default-certificate")) {
            Ok(Some(default)) => certificates.sort_by_key(|c| c.name() != default.as_name()),
            Ok(None) => {}
            Err(e) => problems.push(e),
        }
        Ok(KeyEntry {
            encrypted: std::str::from_utf8(&private).is_ok_and(is_encrypted_pem),
            of_default_identity: default_identity.is_some_and(|d| d.as_name() == identity_of(name.as_name())),
            default_of_identity: false,
            name,
            certificates,
        })
    }

    /// Marks the default key of each identity: the chosen one, or else the first.
    fn mark_defaults(&self, listing: &mut KeyListing) {
        let same_identity = |a: &KeyEntry, b: &KeyEntry| a.identity() == b.identity();
        for keys in listing.keys.chunk_by_mut(same_identity) {
            let chosen = self.read_name(&default_key_file(keys[0].identity())).unwrap_or_else(|e| {
                listing.problems.push(e);
                None
            });
            let at = keys.iter().position(|key| Some(&key.name) == chosen.as_ref()).unwrap_or(0);
            keys[at].default_of_identity = true;
        }
    }

    fn read_certificate(&self, path: &str) -> Result<Certificate, KeyChainError> {
        let octets = self.files.read(path)?.unwrap_or_default();
        Certificate::from_file_octets(&octets)
            .map_err(|e| KeyChainError::Corrupted(self.files.locate(path), e.to_string()))
    }

    fn read_name(&self, path: &str) -> Result<Option<Name>, KeyChainError> {
        let Some(text) = self.files.read_text(path)? else { return Ok(None) };
        let corrupted = |_| KeyChainError::Corrupted(self.files.locate(path), "it holds no name".into());
        text.parse().map(Some).map_err(corrupted)
    }

    fn write_name(&self, path: &str, name: NameRef<'_>) -> Result<(), KeyChainError> {
        self.files.write(path, format!("{name}\n").as_bytes())
    }
}

/// Returns the folder of a user's key chain: `$NAMELY_HOME/keys`, else
/// `$XDG_DATA_HOME/namely/keys`, else `$HOME/.local/share/namely/keys`. `variable` reads an
/// environment variable.
///
/// # Errors
/// [`KeyChainError::NoHome`] if none of these variables is set.
pub(crate) fn default_folder(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, KeyChainError> {
    let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("NAMELY_HOME")
        .or_else(|| folder("XDG_DATA_HOME").map(|data| data.join("namely")))
        .or_else(|| folder("HOME").map(|home| home.join(".local/share/namely")))
        .map(|home| home.join("keys"))
        .ok_or(KeyChainError::NoHome)
}

/// Converts a name to a file name. The file name is a hash, because names may contain any octets
/// and may be longer than file names.
fn file_name(name: NameRef<'_>) -> String {
    sha256(name.as_bytes())[..16].iter().map(|b| format!("{b:02x}")).collect()
}

fn key_folder(key_name: NameRef<'_>) -> String {
    format!("keys/{}", file_name(key_name))
}

fn in_key(key_name: NameRef<'_>, file: &str) -> String {
    format!("{}/{file}", key_folder(key_name))
}

fn certificate_file(name: NameRef<'_>) -> String {
    format!("{}{CERTIFICATE_SUFFIX}", file_name(name))
}

fn anchor_path(name: NameRef<'_>) -> String {
    format!("anchors/{}", certificate_file(name))
}

fn default_key_file(identity: NameRef<'_>) -> String {
    format!("default-keys/{}", file_name(identity))
}

#[cfg(test)]
mod tests;

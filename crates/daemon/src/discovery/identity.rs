//! The router's key on its links: what it signs, and whether others have signed what they say.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use namely_discovery::Key;
use namely_discovery::message::{DISCOVERY, OwnHello, OwnReply};
use namely_host::clock;
use namely_security::{
    CryptoError, KeyChain, KeyChainError, KeyType, NewKey, PrivateKey, PublicKey, Signer,
    has_right_parameters_digest, sha256, sign_data, sign_interest,
};
use namely_wire::{DataBuilder, DataView, InterestBuilder, InterestView, Name, ValidityPeriod};

use super::WatchedLink;
use crate::config::Config;
use crate::exit::{Exit, Failure};

/// When the certificate that a key chain wants ends, s since the Unix epoch: in the year 9999.
/// Nobody looks at it.
const FOREVER_S: u64 = 253_402_300_799;

/// How long a hello stays in a router that takes it for an ordinary Interest, ms.
const LIFETIME_MS: u64 = 1000;

/// The router's key from the folder that keeps it, if there is one.
pub(crate) struct KeptKey(Option<PrivateKey>);

impl KeptKey {
    /// Reads the key of `config`'s router, which is made if it is not there. Done before rights are
    /// given up: afterwards nobody but the key's owner reads it, and the router writes no files.
    ///
    /// # Errors
    /// The folder cannot be read or written, or others may.
    pub(crate) fn read(config: &Config) -> Result<Self, Failure> {
        if WatchedLink::all(config).is_empty() {
            return Ok(KeptKey(None));
        }
        let of_service =
            || std::env::var_os("STATE_DIRECTORY").map(|folder| PathBuf::from(folder).join("keys"));
        let Some(folder) = config.discovery.key_chain.clone().or_else(of_service) else {
            return Ok(KeptKey(None));
        };
        Self::from_key_chain(&folder).map(|key| KeptKey(Some(key))).map_err(|error| {
            let why = format!("the key for neighbour discovery in {}: {error}", folder.display());
            Failure::new(Exit::Configuration, why).hint("see `key_chain` under [discovery]")
        })
    }

    fn from_key_chain(folder: &Path) -> Result<PrivateKey, KeyChainError> {
        let key_chain = KeyChain::open(folder)?;
        let identity = Name::new().join_generic(DISCOVERY);
        let identity = identity.as_name();
        let entry = match key_chain.key(Some(identity)) {
            Ok(entry) => entry,
            Err(KeyChainError::NotFound(_)) => {
                let validity = ValidityPeriod { not_before_s: 0, not_after_s: FOREVER_S };
                let version = clock::unix_ms();
                let key_type = KeyType::Ed25519;
                key_chain.generate(&NewKey { identity, key_type, validity, version, passphrase: None })?
            }
            Err(error) => return Err(error),
        };
        key_chain.private_key(entry.name.as_name(), None)
    }
}

/// The key that the router has on its links.
pub(super) struct Identity {
    key: Key,
    signer: Signer,
    /// The time of what was signed last: the next is later, whatever the clock does.
    time_ms: u64,
}

impl Identity {
    /// With the key that was kept, or else a fresh one.
    ///
    /// # Errors
    /// The system has no random octets, or the key is of another kind, in words.
    pub(super) fn new(kept: KeptKey) -> Result<Self, String> {
        let make = || -> Result<Self, CryptoError> {
            let private = match kept.0 {
                Some(private) => private,
                None => PrivateKey::generate(KeyType::Ed25519)?,
            };
            let key = private.public().ed25519_octets().ok_or(CryptoError::BadPublicKey)?;
            let id = &sha256(private.public().spki())[..8];
            let key_name = Name::new().join_generic(DISCOVERY).join_generic("KEY").join_generic(id);
            Ok(Identity { key, signer: Signer::new(key_name, Arc::new(private)), time_ms: 0 })
        };
        make().map_err(|error| format!("no key for neighbour discovery: {error}"))
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// A signed hello, and the digest that ends its name. Nothing when the library refuses.
    pub(super) fn hello(&mut self, hello: &OwnHello) -> Option<(Vec<u8>, [u8; 32])> {
        let builder = InterestBuilder::new(hello.name()).lifetime_ms(LIFETIME_MS).hop_limit(1);
        let builder = builder.nonce(namely_host::random().ok()?);
        let time_ms = self.next_time_ms();
        let packet = sign_interest(&builder, &hello.parameters(), &self.signer, time_ms).ok()?;
        let digest = InterestView::parse(&packet).ok()?.parameters_digest()?.try_into().ok()?;
        Some((packet, digest))
    }

    /// A signed reply.
    pub(super) fn reply(&mut self, reply: &OwnReply) -> Option<Vec<u8>> {
        let content = reply.content(self.next_time_ms());
        sign_data(&DataBuilder::new(reply.name.as_name()), &content, &self.signer).ok()
    }

    fn next_time_ms(&mut self) -> u64 {
        self.time_ms = clock::unix_ms().max(self.time_ms + 1);
        self.time_ms
    }
}

/// Whether this Interest or Data was signed with `key`.
pub(super) fn is_signed_by(packet: &[u8], key: &Key) -> bool {
    let Ok(key) = PublicKey::from_ed25519(key) else { return false };
    if let Ok(interest) = InterestView::parse(packet) {
        let Some(value) = interest.signature_value else { return false };
        let parts = [interest.signed_name(), interest.signed_parameters];
        return has_right_parameters_digest(&interest) && key.verify(&parts, value);
    }
    DataView::parse(packet).is_ok_and(|data| key.verify(&[data.signed_portion], data.signature_value))
}

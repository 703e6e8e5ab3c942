//! The router's link key, which signs its messages of neighbor discovery and VIP, and the
//! verification of other routers' messages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use namely_discovery::Key;
use namely_discovery::message::DISCOVERY;
use namely_host::clock;
use namely_security::{
    KeyChain, KeyChainError, KeyType, NewKey, PrivateKey, PublicKey, Signer, has_right_parameters_digest,
    sha256,
};
use namely_wire::{DataView, InterestView, Name, ValidityPeriod};

use crate::config::Config;
use crate::discovery::WatchedLink;
use crate::exit::{Exit, Failure};

/// End of validity of the certificate that a key chain requires, s since the Unix epoch: in the
/// year 9999. It is never checked.
const FOREVER_S: u64 = 253_402_300_799;

/// The router's key, if it needs one.
#[derive(Clone)]
pub(crate) struct RouterKey(Option<Arc<PrivateKey>>);

impl RouterKey {
    /// Reads the router's key from the folder in `config`, or generates it there. Without a folder,
    /// generates a new key at each start. A router without watched links and without VIP receives
    /// no key. Must be called before the process drops its privileges: afterwards it may neither
    /// read the key nor write files.
    ///
    /// # Errors
    /// The folder is not readable or writable, or other users may access it.
    pub(crate) fn read(config: &Config) -> Result<Self, Failure> {
        if WatchedLink::all(config).is_empty() && config.vip.is_none() {
            return Ok(RouterKey(None));
        }
        let made = match folder(config) {
            None => {
                PrivateKey::generate(KeyType::Ed25519).map_err(Failure::system("no key for neighbors"))?
            }
            Some(folder) => Self::from_key_chain(&folder).map_err(|error| {
                let why = format!("the key for neighbors in {}: {error}", folder.display());
                Failure::new(Exit::Configuration, why).hint("see `key_chain` under [discovery]")
            })?,
        };
        Ok(RouterKey(Some(Arc::new(made))))
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

    /// The public key's octets, and the signer.
    ///
    /// # Errors
    /// [`Failure`]: there is no key, or one of another type.
    pub(crate) fn signer(&self) -> Result<(Key, Signer), Failure> {
        let none = || Failure::failed("the router has no Ed25519 key for neighbors");
        let private = self.0.clone().ok_or_else(none)?;
        let key = private.public().ed25519_octets().ok_or_else(none)?;
        let id = &sha256(private.public().spki())[..8];
        let key_name = Name::new().join_generic(DISCOVERY).join_generic("KEY").join_generic(id);
        Ok((key, Signer::new(key_name, private)))
    }
}

/// The folder of the router's key: from the configuration, or in systemd's state directory of the
/// service.
pub(crate) fn folder(config: &Config) -> Option<PathBuf> {
    let of_service = || std::env::var_os("STATE_DIRECTORY").map(|folder| PathBuf::from(folder).join("keys"));
    config.discovery.key_chain.clone().or_else(of_service)
}

/// Returns true if this Interest or Data has a valid signature of `key`.
pub(crate) fn is_signed_by(packet: &[u8], key: &Key) -> bool {
    let Ok(key) = PublicKey::from_ed25519(key) else { return false };
    if let Ok(interest) = InterestView::parse(packet) {
        let Some(value) = interest.signature_value else { return false };
        let parts = [interest.signed_name(), interest.signed_parameters];
        return has_right_parameters_digest(&interest) && key.verify(&parts, value);
    }
    DataView::parse(packet).is_ok_and(|data| key.verify(&[data.signed_portion], data.signature_value))
}

//! Identities below the key chain's own, with certificates that end soon or are replaced by newer
//! ones.

use std::path::Path;
use std::sync::Arc;

use namely_security::{Certificate, KeyChain, KeyType, PrivateKey, new_key_name};
use namely_wire::{Name, ValidityPeriod};

/// Gives `identity` a certificate that is valid for `seconds` from now on, signed by the identity
/// above it of the key chain in `home` (`NAMELY_HOME`), and a key if it has none.
pub fn certify(home: &Path, identity: &Name, seconds: u64) -> Result<(), String> {
    let chain = KeyChain::open(home.join("keys")).map_err(|e| e.to_string())?;
    let above = identity.as_name().without_last(1);
    let issuer = chain.key_above(above).map_err(|e| e.to_string())?.ok_or("no key above the name")?;
    let issuer = chain.signer(Some(issuer.name.as_name()), None).map_err(|e| e.to_string())?;
    let now = namely_host::clock::since_epoch();
    let validity = ValidityPeriod { not_before_s: now.as_secs() - 1, not_after_s: now.as_secs() + seconds };
    let issue = |key_name: &Name, key: &PrivateKey| {
        let version = now.as_millis() as u64;
        Certificate::issue(key_name.as_name(), key.public(), &issuer, "harness", validity, version)
            .map_err(|e| e.to_string())
    };
    match chain.key(Some(identity.as_name())) {
        Ok(entry) => {
            let key = chain.private_key(entry.name.as_name(), None).map_err(|e| e.to_string())?;
            chain.add_certificate(&issue(&entry.name, &key)?).map_err(|e| e.to_string())
        }
        Err(_) => {
            let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).map_err(|e| e.to_string())?);
            let key_name = new_key_name(identity.as_name()).map_err(|e| e.to_string())?;
            chain.insert(&key, &issue(&key_name, &key)?, None).map_err(|e| e.to_string())
        }
    }
}

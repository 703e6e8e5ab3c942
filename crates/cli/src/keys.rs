//! The user's key chain for commands: the choice of keys, trust, and passphrases. A passphrase is
//! never printed or logged, and is dropped as soon as the command no longer needs it.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use namely_files::{IssuedCertificate, ResumeSecret};
use namely_host::clock::unix_ns;
use namely_security::validity::UtcTime;
use namely_security::{
    Certificate, KeyChain, KeyChainError, KeyEntry, KeyType, NewKey, Passphrase, Signer, TrustPolicy,
    validity,
};
use namely_wire::{Name, key_name_of_locator};

use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::signing;

/// Environment variable with the passphrase of private keys.
pub const PASSPHRASE_VARIABLE: &str = "NAMELY_PASSPHRASE";

/// Default validity of a self-signed certificate in days.
pub const VALIDITY_DAYS: u32 = 3650;

/// Opens the user's key chain.
pub fn key_chain() -> Result<KeyChain, Failure> {
    KeyChain::open_default().map_err(key_failure)
}

/// Returns the signer of Data named `name`: the key of the longest identity above the name. Without
/// such a key, the failure has the command that creates one. With `digest`, no key is needed.
pub fn data_signer(name: &Name, digest: bool) -> Result<Signer, Failure> {
    if digest {
        return Ok(Signer::digest_sha256());
    }
    let chain = key_chain()?;
    match chain.key_above(name.as_name()).map_err(key_failure)? {
        Some(entry) => signer_of(&chain, &entry),
        None => Err(Failure::failed(format!("no key of yours may sign {name}"))
            .hint(format!("make one with `namely key new {name}`, or sign with --digest"))),
    }
}

/// The key that signs the data that a command publishes.
#[derive(Debug)]
pub struct PublisherKey {
    /// Signs with the key.
    pub signer: Signer,
    /// The key, if this command has made it.
    made: Option<KeyEntry>,
}

impl PublisherKey {
    /// Returns the key of the longest identity above `prefix`. Creates a key for `prefix` if there
    /// is none, so that publishing needs no setup.
    pub fn find_or_make(prefix: &Name) -> Result<Self, Failure> {
        let chain = key_chain()?;
        if let Some(entry) = chain.key_above(prefix.as_name()).map_err(key_failure)? {
            return Ok(PublisherKey { signer: signer_of(&chain, &entry)?, made: None });
        }
        let now_ns = signing_time()?;
        let entry = chain
            .generate(&NewKey {
                identity: prefix.as_name(),
                key_type: KeyType::Ed25519,
                validity: validity::days_from(now_ns, VALIDITY_DAYS),
                version: now_ns / 1_000_000,
                passphrase: None,
            })
            .map_err(key_failure)?;
        Ok(PublisherKey { signer: signer_of(&chain, &entry)?, made: Some(entry) })
    }

    /// Remarks on a key that was made.
    pub fn announce(&self, ctx: &Context<'_>) {
        let Some(made) = &self.made else { return };
        let identity = made.identity();
        let instead = match identity.without_last(1) {
            above if above.is_empty() => String::new(),
            // Others have to compare a fingerprint for each key.
            above => format!("; `namely key new {above}` first makes one key for all names below {above}"),
        };
        ctx.out.remark(format!(
            "made the key {}: others trust it by `namely cert trust --from {identity}`{instead}",
            made.name
        ));
    }

    /// Takes back a key that was made for a command that then fails to publish: it has signed no
    /// data. Returns the failure of the command.
    pub fn take_back(&self, failure: Failure) -> Failure {
        let Some(made) = &self.made else { return failure };
        if let Ok(Err(error)) = key_chain().map(|chain| chain.take_back(made)) {
            tracing::warn!(%error, key = %made.name, "the unused key stays");
        }
        failure
    }
}

/// Returns the folder in which the versions of served files survive the server; `None` without a
/// key chain.
pub fn versions_folder() -> Option<PathBuf> {
    key_chain().ok()?.folder().map(|folder| folder.join("versions"))
}

/// Returns the certificates of the keys that may sign below `prefix`, for each key the preferred
/// certificate first. A producer serves them, so that clients find the key of the data's signature.
/// A certificate has an issuer that vouches for it if the issuer's key is in this key chain and
/// needs no passphrase.
pub fn certificates_for(prefix: &Name) -> Result<Vec<IssuedCertificate>, Failure> {
    let chain = key_chain()?;
    let keys = chain.list().map_err(key_failure)?.keys;
    let issuer_of = |certificate: &Certificate| {
        let name = key_name_of_locator(certificate.signer_name()?).ok()?;
        let entry = keys.iter().find(|key| key.name.as_name() == name && !key.encrypted)?;
        // A self-signed certificate is trusted as an anchor or not at all, so no issuer vouches for
        // it.
        let is_own = certificate.key_name() == name;
        if is_own { None } else { signer_of(&chain, entry).ok() }
    };
    let now_s = unix_ns() / 1_000_000_000;
    let below = keys.iter().filter(|k| k.identity().is_prefix_of(prefix.as_name()));
    let certificates = below.flat_map(|k| k.clone().certificates_at(now_s));
    Ok(certificates
        .map(|certificate| IssuedCertificate { issuer: issuer_of(&certificate), certificate })
        .collect())
}

/// The beginning of 2024, s since the Unix epoch. No machine that runs this program has an earlier
/// time.
const CLOCK_S_MIN: u64 = 1_704_067_200;

/// Returns the time for the validity of a new certificate, ns since the Unix epoch.
///
/// # Errors
/// The machine's clock is not set. A certificate of ten years made in 1970 would end in 1980.
pub fn signing_time() -> Result<u64, Failure> {
    checked_time(unix_ns())
}

fn checked_time(now_ns: u64) -> Result<u64, Failure> {
    let now_s = now_ns / 1_000_000_000;
    if now_s >= CLOCK_S_MIN {
        return Ok(now_ns);
    }
    let message =
        format!("this machine's clock shows {}, so a certificate would end too early", UtcTime(now_s));
    Err(Failure::failed(message).hint("set the clock, and run the command again"))
}

/// Returns the secret that authenticates the journals of partial files; `None`, which is logged, if
/// it is not available. Fetches are not resumed then.
pub fn resume_secret() -> Option<ResumeSecret> {
    match KeyChain::open_default().and_then(|chain| chain.local_secret()) {
        Ok(octets) => Some(ResumeSecret::new(octets)),
        Err(error) => {
            tracing::info!(%error, "interrupted fetches cannot be resumed");
            None
        }
    }
}

/// Returns the key `which` of the user's key chain, and a signer for commands with it.
pub fn command_signer(which: &Name) -> Result<(KeyEntry, Signer), Failure> {
    let chain = key_chain()?;
    let entry = chain.key(Some(which.as_name())).map_err(key_failure)?;
    let passphrase = if entry.encrypted { Some(passphrase_for(&entry.name)?) } else { None };
    let signer = chain.signer(Some(which.as_name()), passphrase.as_ref()).map_err(key_failure)?;
    Ok((entry, signer))
}

/// Returns a signer whose KeyLocator names the key instead of a certificate, so that signatures
/// stay valid with the key's later certificates.
fn signer_of(chain: &KeyChain, entry: &KeyEntry) -> Result<Signer, Failure> {
    signing::valid_certificate(entry.clone())?;
    let passphrase = if entry.encrypted { Some(passphrase_for(&entry.name)?) } else { None };
    let key = chain.private_key(entry.name.as_name(), passphrase.as_ref()).map_err(key_failure)?;
    Ok(Signer::new(entry.name.clone(), Arc::new(key)))
}

/// Reads the passphrase of the key `name`.
pub fn passphrase_for(name: &Name) -> Result<Passphrase, Failure> {
    passphrase(&format!("Passphrase of {name}: "))
}

/// Reads a passphrase from the environment or, at a terminal, from the user.
pub fn passphrase(prompt: &str) -> Result<Passphrase, Failure> {
    if let Ok(text) = std::env::var(PASSPHRASE_VARIABLE) {
        return Ok(Passphrase::new(text));
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::failed("a passphrase is needed")
            .hint(format!("set {PASSPHRASE_VARIABLE}, or run the command at a terminal")));
    }
    let text = output::prompt_secret(prompt)
        .map_err(|e| Failure::failed(format!("cannot read the passphrase: {e}")))?;
    Ok(Passphrase::new(text))
}

/// Converts a failed operation of the key chain, whose message already has a remedy.
pub fn key_failure(error: KeyChainError) -> Failure {
    Failure::failed(error.to_string())
}

/// The trust of a fetching command.
#[derive(Clone, Debug, Default, Args)]
pub struct Trust {
    /// Trust this certificate too, besides your own keys and the certificates of `namely cert
    /// trust`; may repeat.
    #[arg(long, value_name = "FILE", help_heading = "Trust")]
    trust: Vec<PathBuf>,
    /// Trust according to this policy file only.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["digest_only", "insecure"], help_heading = "Trust")]
    policy: Option<PathBuf>,
    /// Check the integrity of data, not its producer.
    #[arg(long, conflicts_with = "insecure", help_heading = "Trust")]
    digest_only: bool,
    /// Check nothing at all.
    #[arg(long, help_heading = "Trust")]
    insecure: bool,
}

impl Trust {
    /// Converts these options to the trust of a socket.
    pub fn of_socket(&self) -> namely_socket::Trust {
        use namely_socket::Trust;
        let beside = match &self.policy {
            _ if self.insecure => return Trust::Policy(TrustPolicy::insecure_accept_all().into()),
            _ if self.digest_only => return Trust::Policy(TrustPolicy::digest_only().into()),
            Some(path) => Trust::PolicyFile(path.clone()),
            None => Trust::User,
        };
        match self.trust.is_empty() {
            true => beside,
            false => Trust::AnchorFiles { beside: Box::new(beside), files: self.trust.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unset_clock_makes_no_certificate() {
        let start_ns = CLOCK_S_MIN * 1_000_000_000;
        assert_eq!(checked_time(start_ns).unwrap(), start_ns);
        let failure = checked_time(start_ns - 1).unwrap_err();
        assert!(failure.message.contains("2023-12-31 23:59:59 UTC"), "{}", failure.message);
        assert!(checked_time(0).unwrap_err().message.contains("1970-01-01"));
    }
}

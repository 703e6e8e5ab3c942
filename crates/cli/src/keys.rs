//! The user's key chain as commands use it: which key signs what, whom to trust, and where a
//! passphrase comes from. A passphrase is never printed, logged or kept longer than the command
//! needs it.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use namely_files::{ResumeSecret, Vouched};
use namely_host::clock::unix_ns;
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

/// How long a self-signed certificate is valid unless told otherwise.
pub const VALIDITY_DAYS: u32 = 3650;

/// The user's key chain.
pub fn key_chain() -> Result<KeyChain, Failure> {
    KeyChain::open_default().map_err(key_failure)
}

/// The signer of Data named `name`: the key of the longest identity above it. Without one, says how
/// to make it; `digest` asks for none.
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

/// Like [`data_signer`]; without a key for `prefix`, one is made, so that publishing works from the
/// first minute.
pub fn data_signer_or_new(ctx: &Context<'_>, prefix: &Name) -> Result<Signer, Failure> {
    let chain = key_chain()?;
    if let Some(entry) = chain.key_above(prefix.as_name()).map_err(key_failure)? {
        return signer_of(&chain, &entry);
    }
    let entry = chain
        .generate(&NewKey {
            identity: prefix.as_name(),
            key_type: KeyType::Ed25519,
            validity: validity::days_from(unix_ns(), VALIDITY_DAYS),
            version: unix_ns() / 1_000_000,
            passphrase: None,
        })
        .map_err(key_failure)?;
    ctx.out.remark(format!(
        "made the key {}; others trust it after `namely cert export {prefix} > FILE` here and `namely cert trust FILE` there",
        entry.name
    ));
    signer_of(&chain, &entry)
}

/// The certificates of the keys that may sign below `prefix`, of each key the one to publish under
/// first: a producer answers for them, so that clients find the key that signed what they fetch.
/// Where the key that issued one is here too, and needs no passphrase, it says that it is good.
pub fn certificates_for(prefix: &Name) -> Result<Vec<Vouched>, Failure> {
    let chain = key_chain()?;
    let keys = chain.list().map_err(key_failure)?.keys;
    let issuer_of = |certificate: &Certificate| {
        let name = key_name_of_locator(certificate.signer_name()?).ok()?;
        let entry = keys.iter().find(|key| key.name.as_name() == name && !key.encrypted)?;
        // One that signs itself is believed as it is, or not.
        let is_own = certificate.key_name() == name;
        if is_own { None } else { signer_of(&chain, entry).ok() }
    };
    let now_s = unix_ns() / 1_000_000_000;
    let below = keys.iter().filter(|k| k.identity().is_prefix_of(prefix.as_name()));
    let certificates = below.flat_map(|k| k.clone().certificates_at(now_s));
    Ok(certificates.map(|certificate| Vouched { issuer: issuer_of(&certificate), certificate }).collect())
}

/// What the journals of partial files are known by. Without one, which is said in the log, fetches
/// are not gone on with.
pub fn resume_secret() -> Option<ResumeSecret> {
    match KeyChain::open_default().and_then(|chain| chain.local_secret()) {
        Ok(octets) => Some(ResumeSecret::new(octets)),
        Err(error) => {
            tracing::info!(%error, "interrupted fetches cannot be gone on with");
            None
        }
    }
}

/// The key that `which` means of the user's key chain, and what signs with it as commands are
/// signed.
pub fn command_signer(which: &Name) -> Result<(KeyEntry, Signer), Failure> {
    let chain = key_chain()?;
    let entry = chain.key(Some(which.as_name())).map_err(key_failure)?;
    let passphrase = if entry.encrypted { Some(passphrase_for(&entry.name)?) } else { None };
    let signer = chain.signer(Some(which.as_name()), passphrase.as_ref()).map_err(key_failure)?;
    Ok((entry, signer))
}

/// A signer that names its key, so that what it signs outlives the certificates that the key has
/// now.
fn signer_of(chain: &KeyChain, entry: &KeyEntry) -> Result<Signer, Failure> {
    signing::valid_certificate(entry.clone())?;
    let passphrase = if entry.encrypted { Some(passphrase_for(&entry.name)?) } else { None };
    let key = chain.private_key(entry.name.as_name(), passphrase.as_ref()).map_err(key_failure)?;
    Ok(Signer::new(entry.name.clone(), Arc::new(key)))
}

/// The passphrase of the key `name`.
pub fn passphrase_for(name: &Name) -> Result<Passphrase, Failure> {
    passphrase(&format!("Passphrase of {name}: "))
}

/// A passphrase from the environment or, at a terminal, from the person.
pub fn passphrase(prompt: &str) -> Result<Passphrase, Failure> {
    if let Ok(text) = std::env::var(PASSPHRASE_VARIABLE) {
        return Ok(Passphrase::new(text));
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::failed("a passphrase is needed")
            .hint(format!("set {PASSPHRASE_VARIABLE}, or run the command at a terminal")));
    }
    let text = output::ask_secret(prompt)
        .map_err(|e| Failure::failed(format!("cannot read the passphrase: {e}")))?;
    Ok(Passphrase::new(text))
}

/// A failed key chain operation; its message already says what to do.
pub fn key_failure(error: KeyChainError) -> Failure {
    Failure::failed(error.to_string())
}

/// Whom a fetching command trusts.
#[derive(Debug, Default, Args)]
pub struct Trust {
    /// Trust this certificate too, beside your own keys and the certificates of
    /// `namely cert trust`; may repeat.
    #[arg(long, value_name = "FILE", help_heading = "Trust")]
    trust: Vec<PathBuf>,
    /// Trust as this policy file says, and nobody else.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["digest_only", "insecure"], help_heading = "Trust")]
    policy: Option<PathBuf>,
    /// Check that data is intact, not who made it.
    #[arg(long, conflicts_with = "insecure", help_heading = "Trust")]
    digest_only: bool,
    /// Check nothing at all.
    #[arg(long, help_heading = "Trust")]
    insecure: bool,
}

impl Trust {
    /// The same for a socket.
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

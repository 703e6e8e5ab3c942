//! The session of a bound producer (HT-10, HT-11): a key of its own, which its identity vouches for and which can vouch
//! for nothing outside the prefix; its certificate is revoked when the session ends.

mod notary;
mod pool;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use namely_security::certificate::new_key_name;
use namely_security::revocation::{Reason, Statement, Status, revocation_prefix};
use namely_security::{Certificate, HmacKey, KeyChain, KeyChainError, KeyType, PrivateKey, Signer};
use namely_wire::certificate::key_name_of_locator;
use namely_wire::{DataView, Name, NameRef};

pub(crate) use self::pool::Lease;
pub use self::pool::{BUFFERS_OCTETS_MAX, PRODUCERS_MAX};
use crate::error::BindError;
use crate::options::{self, ProducerOptions, Suite};

/// IssuerId of session certificates.
const ISSUER_ID: &str = "session";

/// For how long a statement that a certificate is good is given out again, and for how long it is fresh, ms.
pub(crate) const STATEMENT_MS: u64 = 1_000;

/// FreshnessPeriod of a revocation record, ms: an hour.
const RECORD_FRESHNESS_MS: u64 = 3_600_000;

/// The folder of a store in which a reliable producer keeps its session keys.
const KEPT_FOLDER: &str = "session";

/// Who signs for one producer.
#[derive(Debug)]
pub(crate) struct Session {
    prefix: Name,
    identity: Option<Identity>,
    shared_key: Option<(Name, HmacKey)>,
    keys: Mutex<Vec<SessionKey>>,
    /// Where session keys outlive the process: a reliable producer's.
    kept: Option<KeyChain>,
}

/// The identity that vouches for session keys.
#[derive(Debug)]
struct Identity {
    issuer: Signer,
    certificates: Vec<Certificate>,
}

#[derive(Debug)]
struct SessionKey {
    signer: Signer,
    certificate: Certificate,
    statement: Option<(u64, Arc<Vec<u8>>)>,
}

impl Session {
    /// Opens the session of a producer bound to `prefix`; `store` is where a reliable one goes on with the last.
    pub(crate) fn open(
        prefix: &Name,
        options: &ProducerOptions,
        store: Option<&Path>,
    ) -> Result<Self, BindError> {
        let identity = match options.suite.key_type() {
            Some(_) => Some(Identity::find(prefix, options)?),
            None => Identity::find(prefix, options).ok(),
        };
        let kept = store.map(|folder| KeyChain::open(folder.join(KEPT_FOLDER))).transpose()?;
        let shared_key = options.shared_key.clone();
        let session =
            Session { prefix: prefix.clone(), identity, shared_key, keys: Mutex::new(Vec::new()), kept };
        session.resume()?;
        session.signer(options.suite)?;
        Ok(session)
    }

    /// Takes up the keys that the last session with this store left.
    fn resume(&self) -> Result<(), BindError> {
        let (Some(kept), Some(identity)) = (&self.kept, &self.identity) else { return Ok(()) };
        let now_s = now_ms() / 1_000;
        for entry in kept.list()?.keys {
            let certificate = entry.certificates.into_iter().find(|certificate| {
                let validity = certificate.validity();
                certificate.identity() == self.prefix.as_name()
                    && (validity.not_before_s..=validity.not_after_s).contains(&now_s)
                    && certificate.signer_name().is_some_and(|signer| identity.is_key(signer))
            });
            if let Some(certificate) = certificate {
                let key = Arc::new(kept.private_key(entry.name.as_name(), None)?);
                let signer = Signer::new(certificate.name().to_name(), key);
                self.keys().push(SessionKey { signer, certificate, statement: None });
            }
        }
        Ok(())
    }

    /// The signer of `suite`; its key is made when it is used for the first time.
    pub(crate) fn signer(&self, suite: Suite) -> Result<Signer, BindError> {
        let Some(key_type) = suite.key_type() else {
            return match (suite, &self.shared_key) {
                (Suite::Hmac, Some((name, key))) => Ok(Signer::hmac(name.clone(), key.clone())),
                (Suite::Hmac, None) => Err(BindError::NoSharedKey),
                _ => Ok(Signer::digest_sha256()),
            };
        };
        let mut keys = self.keys();
        if let Some(known) = keys.iter().find(|key| key.certificate.public_key().key_type() == key_type) {
            return Ok(known.signer.clone());
        }
        let no_key = || BindError::NoKey { prefix: self.prefix.clone() };
        let identity = self.identity.as_ref().ok_or_else(no_key)?;
        let key = self.make_key(identity, key_type)?;
        let signer = key.signer.clone();
        keys.push(key);
        Ok(signer)
    }

    fn make_key(&self, identity: &Identity, key_type: KeyType) -> Result<SessionKey, BindError> {
        let failed = |e| BindError::KeyChain(KeyChainError::Key(self.prefix.clone(), e));
        let key = Arc::new(PrivateKey::generate(key_type).map_err(failed)?);
        let name = new_key_name(self.prefix.as_name()).map_err(failed)?;
        let validity =
            identity.certificates.first().map_or(namely_security::validity::ALWAYS, Certificate::validity);
        let issued =
            Certificate::issue(name.as_name(), key.public(), &identity.issuer, ISSUER_ID, validity, now_ms());
        let certificate = issued.map_err(BindError::Certificate)?;
        if let Some(kept) = &self.kept {
            kept.insert(&key, &certificate, None)?;
        }
        let signer = Signer::new(certificate.name().to_name(), key);
        Ok(SessionKey { signer, certificate, statement: None })
    }

    /// The certificate of the session's first key.
    pub(crate) fn certificate(&self) -> Option<Certificate> {
        self.keys().first().map(|key| key.certificate.clone())
    }

    /// What the socket answers for besides what is published: the session's certificates and the identity's.
    pub(crate) fn certificates(&self) -> Vec<Certificate> {
        let keys = self.keys();
        let of_session = keys.iter().map(|key| key.certificate.clone());
        let of_identity = self.identity.iter().flat_map(|identity| identity.certificates.iter().cloned());
        of_session.chain(of_identity).collect()
    }

    /// The statement that answers a question for `name`: that the certificate it is about is good. None when the name
    /// is about no key of this session.
    pub(crate) fn statement(&self, name: NameRef<'_>) -> Option<Arc<Vec<u8>>> {
        let issuer = &self.identity.as_ref()?.issuer;
        let mut keys = self.keys();
        let is_meant = |key: &&mut SessionKey| {
            revocation_prefix(key.certificate.name()).is_ok_and(|prefix| prefix.is_prefix_of(name))
        };
        let key = keys.iter_mut().find(is_meant)?;
        let now_ms = now_ms();
        if let Some((made_ms, wire)) = &key.statement
            && now_ms.saturating_sub(*made_ms) < STATEMENT_MS
        {
            return Some(wire.clone());
        }
        let statement = Statement { status: Status::Good, time_ms: now_ms };
        let wire = Arc::new(statement.sign(&key.certificate, STATEMENT_MS, issuer).ok()?);
        key.statement = Some((now_ms, wire.clone()));
        Some(wire)
    }

    /// Ends the session: a record for each of its certificates says that it is revoked. The keys are gone.
    pub(crate) fn revoke(&self) -> Vec<Vec<u8>> {
        let Some(identity) = &self.identity else { return Vec::new() };
        let statement = Statement { status: Status::Revoked(Reason::Superseded), time_ms: now_ms() };
        let keys = std::mem::take(&mut *self.keys());
        if let Some(kept) = &self.kept {
            for key in &keys {
                if let Err(error) = kept.delete(key.certificate.key_name()) {
                    tracing::warn!(%error, "the key of a revoked session is still in its store");
                }
            }
        }
        let signed =
            keys.iter().map(|key| statement.sign(&key.certificate, RECORD_FRESHNESS_MS, &identity.issuer));
        signed
            .filter_map(|record| record.inspect_err(|error| tracing::warn!(%error, "not revoked")).ok())
            .collect()
    }

    fn keys(&self) -> MutexGuard<'_, Vec<SessionKey>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Identity {
    /// The identity that was named, or the longest one above the prefix.
    fn find(prefix: &Name, options: &ProducerOptions) -> Result<Self, BindError> {
        let chain = options::key_chain(options.keychain.as_ref())?;
        let entry = match &options.identity {
            Some(identity) => chain.key(Some(identity.as_name()))?,
            None => chain
                .key_above(prefix.as_name())?
                .ok_or_else(|| BindError::NoKey { prefix: prefix.clone() })?,
        };
        let issuer = chain.signer(Some(entry.name.as_name()), None)?;
        Ok(Identity { issuer, certificates: entry.certificates })
    }

    fn is_key(&self, locator: NameRef<'_>) -> bool {
        let own = self.issuer.key_name().and_then(|name| key_name_of_locator(name.as_name()).ok());
        own.is_some() && key_name_of_locator(locator).ok() == own
    }
}

/// Who signs the commands of a producer: the identity that signs for its prefix, which a router on another machine has
/// to know; else nobody, which is enough for one on the same machine.
pub(crate) fn command_signer(prefix: &Name, options: &ProducerOptions) -> Signer {
    Identity::find(prefix, options).map_or_else(|_| Signer::digest_sha256(), |identity| identity.issuer)
}

/// Answers at `router` for `record`, of a session bound to `prefix` that ended, as long as the process lives.
pub(crate) fn announce(
    router: &str,
    prefix: &Name,
    record: Vec<u8>,
    commands: Signer,
) -> Result<(), BindError> {
    let Ok(data) = DataView::parse(&record) else { return Ok(()) };
    // Down to the KeyId: sessions to come of the same namespace answer for themselves.
    let prefix = data.name.prefix(prefix.len() + 2).to_name();
    notary::announce(router, notary::Record { prefix, wire: record }, commands)
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64)
}

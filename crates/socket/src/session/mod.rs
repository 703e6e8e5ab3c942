//! The session of a bound producer (HT-10, HT-11). Its key is certified by the identity and is
//! valid only inside the prefix. Its certificates are revoked when the session ends.
//!
//! A certificate of the session ends with that of the identity. Once the key chain has a newer
//! certificate of the identity, a newer one is issued for the same session key. Earlier signatures
//! name the key instead of a certificate, so the newer certificate authenticates them, too. Nothing
//! is signed after the newest certificate has ended.

mod identity;
mod pool;
mod revocation_responder;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use namely_security::validity::UtcTime;
use namely_security::{
    Certificate, HmacKey, KeyChain, KeyChainError, PrivateKey, RevocationError, RevocationReason,
    RevocationStatement, RevocationStatus, Signer, new_key_name, revocation_prefix,
};
use namely_wire::{DataView, Name, NameRef};

use self::identity::{Identity, Source};
pub(crate) use self::pool::Lease;
pub use self::pool::{BUFFERS_OCTETS_MAX, PRODUCERS_MAX};
use crate::error::BindError;
use crate::options::{ProducerOptions, Suite};
use namely_host::clock::unix_ms;

/// IssuerId of session certificates.
const ISSUER_ID: &str = "session";

/// Time for which a statement that a certificate is good is reused, and its FreshnessPeriod, ms.
pub(crate) const STATEMENT_MS: u64 = 1_000;

/// FreshnessPeriod of a revocation record, ms: an hour.
const RECORD_FRESHNESS_MS: u64 = 3_600_000;

/// The shortest time between two reads of the key chain for a newer certificate of the identity,
/// ms.
const LOOK_MS_MIN: u64 = 1_000;

/// The longest time between two checks. Meanwhile the clock may be set, or keys may be created.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// The folder of a store in which a reliable producer keeps its session keys.
const KEPT_FOLDER: &str = "session";

/// The signing keys of one producer.
#[derive(Debug)]
pub(crate) struct Session {
    prefix: Name,
    source: Source,
    shared_key: Option<(Name, HmacKey)>,
    state: Mutex<SessionState>,
    /// The storage of session keys that outlive the process: a reliable producer's.
    kept: Option<KeyChain>,
}

#[derive(Debug)]
struct SessionState {
    identity: Option<Identity>,
    keys: Vec<SessionKey>,
}

#[derive(Debug)]
struct SessionKey {
    /// Names the key, so that any of its valid certificates matches.
    signer: Signer,
    key: Arc<PrivateKey>,
    /// Never empty, the newest last.
    certificates: Vec<SessionCertificate>,
    /// When to check for a newer certificate of the identity, ms since the Unix epoch.
    due_ms: u64,
}

/// A certificate of the session.
#[derive(Debug)]
struct SessionCertificate {
    certificate: Certificate,
    /// The key that issued it.
    issuer: Signer,
    statement: Option<(u64, Arc<Vec<u8>>)>,
}

/// The result of a check of the key chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The check was not due.
    NotDue,
    /// The session has newer certificates.
    Renewed,
    /// The key chain has no certificate of the identity that ends later.
    Missing,
}

impl Session {
    /// Opens the session of a producer bound to `prefix`. A reliable producer resumes the last
    /// session from `store`.
    pub(crate) fn open(
        prefix: &Name,
        options: &ProducerOptions,
        store: Option<&Path>,
    ) -> Result<Self, BindError> {
        let (source, now_ms) = (Source::of(options), unix_ms());
        let identity = match options.suite.key_type() {
            Some(_) => Some(Identity::find(prefix, &source, now_ms)?),
            None => Identity::find(prefix, &source, now_ms).ok(),
        };
        let kept = store.map(|folder| KeyChain::open(folder.join(KEPT_FOLDER))).transpose()?;
        let session = Session {
            prefix: prefix.clone(),
            source,
            shared_key: options.shared_key.clone(),
            state: Mutex::new(SessionState { identity, keys: Vec::new() }),
            kept,
        };
        session.resume(now_ms)?;
        session.signer(options.suite)?;
        Ok(session)
    }

    /// Resumes the keys that the last session with this store left. A key receives a new
    /// certificate if it has no valid one that the identity's present key issued. It stays in use
    /// because packets that it signed are in the store.
    fn resume(&self, now_ms: u64) -> Result<(), BindError> {
        let mut state = self.state();
        let SessionState { identity: Some(identity), keys } = &mut *state else { return Ok(()) };
        let Some(kept) = &self.kept else { return Ok(()) };
        if identity.check(now_ms).is_err() {
            return Ok(());
        }
        for entry in kept.list()?.keys {
            if entry.identity() != self.prefix.as_name() {
                continue;
            }
            let key = Arc::new(kept.private_key(entry.name.as_name(), None)?);
            let is_good = |certificate: &Certificate| {
                certificate.validity().contains(now_ms / 1_000)
                    && certificate.signer_name().is_some_and(|signer| identity.is_key(signer))
            };
            let mut good: Vec<_> = entry.certificates.into_iter().filter(is_good).collect();
            good.sort_by_key(|certificate| certificate.validity().not_after_s);
            if good.is_empty() {
                let certificate = issue(entry.name.as_name(), &key, identity, now_ms)?;
                kept.add_certificate(&certificate)?;
                good.push(certificate);
            }
            keys.push(SessionKey::new(entry.name, key, good, identity, now_ms));
        }
        Ok(())
    }

    /// Returns the signer of `suite`. Its key is created at the first use.
    pub(crate) fn signer(&self, suite: Suite) -> Result<Signer, BindError> {
        let Some(key_type) = suite.key_type() else {
            return match (suite, &self.shared_key) {
                (Suite::Hmac, Some((name, key))) => Ok(Signer::hmac(name.clone(), key.clone())),
                (Suite::Hmac, None) => Err(BindError::NoSharedKey),
                _ => Ok(Signer::digest_sha256()),
            };
        };
        let now_ms = unix_ms();
        let mut state = self.state();
        let SessionState { identity, keys } = &mut *state;
        if let Some(known) = keys.iter().find(|known| known.key.public().key_type() == key_type) {
            known.check(now_ms)?;
            return Ok(known.signer.clone());
        }
        let identity = identity.as_ref().ok_or_else(|| BindError::NoKey { prefix: self.prefix.clone() })?;
        identity.check(now_ms)?;
        let failed = |e| BindError::KeyChain(KeyChainError::Key(self.prefix.clone(), e));
        let key = Arc::new(PrivateKey::generate(key_type).map_err(failed)?);
        let name = new_key_name(self.prefix.as_name()).map_err(failed)?;
        let certificate = issue(name.as_name(), &key, identity, now_ms)?;
        if let Some(kept) = &self.kept {
            kept.insert(&key, &certificate, None)?;
        }
        let made = SessionKey::new(name, key, vec![certificate], identity, now_ms);
        let signer = made.signer.clone();
        keys.push(made);
        Ok(signer)
    }

    /// The newest certificate of the session's first key.
    pub(crate) fn certificate(&self) -> Option<Certificate> {
        self.state().keys.first().map(|key| key.newest().clone())
    }

    /// Certificates that the socket serves besides published packets, the newest first: the
    /// session's and the identity's.
    pub(crate) fn certificates(&self) -> Vec<Certificate> {
        let state = self.state();
        let of_session = state.keys.iter().flat_map(|key| key.certificates.iter().rev());
        let of_session = of_session.map(|issued| issued.certificate.clone());
        let of_identity = state.identity.iter().flat_map(|identity| identity.certificates.iter().cloned());
        of_session.chain(of_identity).collect()
    }

    /// The signer of commands to the router: the identity.
    pub(crate) fn command_signer(&self) -> Signer {
        self.identity_signer().unwrap_or_else(Signer::digest_sha256)
    }

    /// The identity's signer, if there is one.
    pub(crate) fn identity_signer(&self) -> Option<Signer> {
        self.state().identity.as_ref().map(|identity| identity.issuer.clone())
    }

    /// Renews the certificates of the session's keys if a renewal is due and the key chain has a
    /// certificate of the identity that ends later. Reads files, so the socket's thread must not
    /// call it.
    pub(crate) fn renew(&self) -> Renewal {
        self.renew_at(unix_ms())
    }

    fn renew_at(&self, now_ms: u64) -> Renewal {
        if self.state().keys.iter().all(|key| key.due_ms > now_ms) {
            return Renewal::NotDue;
        }
        let found = Identity::find(&self.prefix, &self.source, now_ms).and_then(|identity| {
            identity.check(now_ms)?;
            Ok(identity)
        });
        let mut state = self.state();
        let SessionState { identity, keys } = &mut *state;
        let mut renewal = Renewal::Missing;
        match found {
            Ok(found) => {
                for key in keys.iter_mut().filter(|key| key.ends_s() < found.ends_s()) {
                    match key.renew(&found, self.kept.as_ref(), now_ms) {
                        Ok(()) => renewal = Renewal::Renewed,
                        Err(error) => tracing::warn!(prefix = %self.prefix, %error, "no newer certificate"),
                    }
                }
                if renewal == Renewal::Renewed {
                    *identity = Some(found);
                }
            }
            Err(error) => tracing::debug!(prefix = %self.prefix, %error, "the identity is not to be used"),
        }
        for key in keys.iter_mut().filter(|key| key.due_ms <= now_ms) {
            key.warn_of_end(now_ms);
            key.due_ms = now_ms + LOOK_MS_MIN.max(key.rest_ms(now_ms) / 3);
        }
        renewal
    }

    /// Time until [`Session::renew`] has work to do.
    pub(crate) fn rest(&self) -> Duration {
        let due_ms = self.state().keys.iter().map(|key| key.due_ms).min();
        let rest = due_ms.map(|due_ms| Duration::from_millis(due_ms.saturating_sub(unix_ms())));
        rest.map_or(LOOK_MAX, |rest| rest.min(LOOK_MAX))
    }

    /// Returns the signed statement that the certificate in the request `name` is good. None if the
    /// name belongs to no key of this session.
    pub(crate) fn statement(&self, name: NameRef<'_>) -> Option<Arc<Vec<u8>>> {
        let mut state = self.state();
        let SessionState { identity, keys } = &mut *state;
        let is_meant = |issued: &&mut SessionCertificate| {
            revocation_prefix(issued.certificate.name()).is_ok_and(|prefix| prefix.is_prefix_of(name))
        };
        let issued = keys.iter_mut().flat_map(|key| &mut key.certificates).find(is_meant)?;
        let now_ms = unix_ms();
        if let Some((made_ms, wire)) = &issued.statement
            && now_ms.saturating_sub(*made_ms) < STATEMENT_MS
        {
            return Some(wire.clone());
        }
        let statement = RevocationStatement { status: RevocationStatus::Good, time_ms: now_ms };
        let wire = Arc::new(issued.say(statement, STATEMENT_MS, identity.as_ref()).ok()?);
        issued.statement = Some((now_ms, wire.clone()));
        Some(wire)
    }

    /// Ends the session. Returns a revocation record for each of its certificates. The keys are
    /// deleted.
    pub(crate) fn revoke(&self) -> Vec<Vec<u8>> {
        let statement = RevocationStatement {
            status: RevocationStatus::Revoked(RevocationReason::Superseded),
            time_ms: unix_ms(),
        };
        let mut state = self.state();
        let keys = std::mem::take(&mut state.keys);
        if let Some(kept) = &self.kept {
            for key in &keys {
                if let Err(error) = kept.delete(key.newest().key_name()) {
                    tracing::warn!(%error, "the key of a revoked session is still in its store");
                }
            }
        }
        let issued = keys.iter().flat_map(|key| &key.certificates);
        let signed = issued.map(|issued| issued.say(statement, RECORD_FRESHNESS_MS, state.identity.as_ref()));
        signed
            .filter_map(|record| record.inspect_err(|error| tracing::warn!(%error, "not revoked")).ok())
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionKey {
    fn new(
        name: Name,
        key: Arc<PrivateKey>,
        certificates: Vec<Certificate>,
        identity: &Identity,
        now_ms: u64,
    ) -> Self {
        let issued = |certificate| SessionCertificate {
            certificate,
            issuer: identity.issuer.clone(),
            statement: None,
        };
        let certificates = certificates.into_iter().map(issued).collect();
        let mut made = SessionKey { signer: Signer::new(name, key.clone()), key, certificates, due_ms: 0 };
        made.due_ms = made.renewal_ms(now_ms);
        made
    }

    fn newest(&self) -> &Certificate {
        // `new` and `renew` leave at least one.
        &self.certificates[self.certificates.len() - 1].certificate
    }

    fn ends_s(&self) -> u64 {
        self.newest().validity().not_after_s
    }

    /// The remaining lifetime of its certificate, ms.
    fn rest_ms(&self, now_ms: u64) -> u64 {
        self.ends_s().saturating_mul(1_000).saturating_sub(now_ms)
    }

    /// The time at which two thirds of the remaining lifetime will have passed, ms since the Unix
    /// epoch.
    fn renewal_ms(&self, now_ms: u64) -> u64 {
        now_ms + self.rest_ms(now_ms) / 3 * 2
    }

    /// Returns an error if its newest certificate has ended.
    fn check(&self, now_ms: u64) -> Result<(), BindError> {
        check(self.newest(), now_ms)
    }

    /// Adds a certificate that ends with that of `identity`, and removes those that have ended.
    fn renew(&mut self, identity: &Identity, kept: Option<&KeyChain>, now_ms: u64) -> Result<(), BindError> {
        let certificate = issue(self.newest().key_name(), &self.key, identity, now_ms)?;
        if let Some(kept) = kept {
            kept.add_certificate(&certificate)?;
        }
        tracing::info!(certificate = %certificate.name(), ends = %UtcTime(certificate.validity().not_after_s), "renewed");
        self.certificates.retain(|issued| check(&issued.certificate, now_ms).is_ok());
        self.certificates.push(SessionCertificate {
            certificate,
            issuer: identity.issuer.clone(),
            statement: None,
        });
        self.due_ms = self.renewal_ms(now_ms);
        Ok(())
    }

    fn warn_of_end(&self, now_ms: u64) {
        let ends = UtcTime(self.ends_s());
        // Checks continue after the certificate has ended, but their failures are no longer logged.
        if self.due_ms / 1_000 <= self.ends_s() + 1 {
            tracing::warn!(
                certificate = %self.newest().name(), %ends, ended = self.check(now_ms).is_err(),
                "the session's certificate ends with the identity's: take in a newer one by `namely cert import FILE`"
            );
        }
    }
}

impl SessionCertificate {
    /// Signs `statement` with the key that issued the certificate. The KeyLocator is the identity's
    /// current one if the identity still has this key.
    fn say(
        &self,
        statement: RevocationStatement,
        freshness_ms: u64,
        identity: Option<&Identity>,
    ) -> Result<Vec<u8>, RevocationError> {
        let by_identity = |identity: &&Identity| {
            self.certificate.signer_name().is_some_and(|signer| identity.is_key(signer))
        };
        let issuer = identity.filter(by_identity).map_or(&self.issuer, |identity| &identity.issuer);
        statement.sign(&self.certificate, freshness_ms, issuer)
    }
}

/// Issues a session certificate for `key`, which ends with the identity's.
fn issue(
    key_name: NameRef<'_>,
    key: &PrivateKey,
    identity: &Identity,
    now_ms: u64,
) -> Result<Certificate, BindError> {
    let validity = identity.validity();
    Certificate::issue(key_name, key.public(), &identity.issuer, ISSUER_ID, validity, now_ms)
        .map_err(BindError::Certificate)
}

/// Returns an error if `certificate` has ended.
fn check(certificate: &Certificate, now_ms: u64) -> Result<(), BindError> {
    let not_after_s = certificate.validity().not_after_s;
    if now_ms / 1_000 <= not_after_s {
        return Ok(());
    }
    Err(BindError::Ended { certificate: certificate.name().to_name(), not_after_s })
}

/// Returns the signer of a producer's commands: the identity that signs for its prefix. A router on
/// another host must trust it. Without an identity commands carry a digest only, which is
/// sufficient for a router on the same host.
pub(crate) fn command_signer(prefix: &Name, options: &ProducerOptions) -> Signer {
    Identity::find(prefix, &Source::of(options), unix_ms())
        .map_or_else(|_| Signer::digest_sha256(), |identity| identity.issuer)
}

/// Serves `record` at `router` until the process ends. It belongs to an ended session bound to
/// `prefix`.
pub(crate) fn announce(
    router: &str,
    prefix: &Name,
    record: Vec<u8>,
    commands: namely_transport::connection::Options,
) -> Result<(), BindError> {
    let Ok(data) = DataView::parse(&record) else { return Ok(()) };
    // The prefix extends to the KeyId, because later sessions of the same namespace serve their own
    // records.
    let prefix = data.name.prefix(prefix.len() + 2).to_name();
    revocation_responder::announce(router, revocation_responder::Record { prefix, wire: record }, commands)
}

/// Returns true if a copy of `certificate` that is cached now becomes stale before the certificate
/// ends.
pub(crate) fn is_cacheable(certificate: &Certificate) -> bool {
    let ends_ms = certificate.validity().not_after_s.saturating_mul(1_000);
    unix_ms().saturating_add(certificate.validity().certificate_freshness_ms()) <= ends_ms
}

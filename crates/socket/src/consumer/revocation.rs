//! Revocation status of certificates: requested by the certificate's name and cached for a limited
//! time (docs/sockets.md, Sessions and revocation).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use namely_wire::Name;

use crate::error::FetchError;
use crate::options::Revocation;

/// Certificates in a consumer's cache of revocation status.
///
/// # Limit
/// The entry that expires first is evicted; revoked certificates stay.
/// - Tests: `revocations_outlive_other_cached_results`
pub const REVOCATIONS_MAX: usize = 256;

/// Time for which a statement that a certificate is good is cached. Its signer issues a new one
/// each second.
const GOOD: Duration = Duration::from_secs(1);

/// Time for which the status [`CertificateStatus::Unknown`] is cached before it is requested again.
const SILENT: Duration = Duration::from_secs(60);

/// InterestLifetime of a request for the status, ms.
pub(super) const LIFETIME_MS: u64 = 500;

/// The revocation status of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CertificateStatus {
    /// An authorized signer states that it is not revoked.
    Good,
    /// There was no answer, or no valid statement.
    Unknown,
    /// It is revoked.
    Revoked,
}

impl CertificateStatus {
    /// Returns an error if the certificate `name` must not be accepted.
    pub(super) fn judge(self, name: &Name, option: Revocation) -> Result<(), FetchError> {
        match (self, option) {
            (CertificateStatus::Revoked, Revocation::Check | Revocation::Require) => {
                Err(FetchError::Revoked { certificate: name.clone() })
            }
            (CertificateStatus::Unknown, Revocation::Require) => {
                Err(FetchError::NotKnownGood { certificate: name.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// The cached status of certificates.
#[derive(Debug, Default)]
pub(super) struct Revocations {
    known: Mutex<HashMap<Name, (CertificateStatus, Option<Instant>)>>,
}

impl Revocations {
    /// Returns the status of `certificate` if it is cached and current.
    pub(super) fn known(&self, certificate: &Name) -> Option<CertificateStatus> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (outcome, until) = *known.get(certificate)?;
        until.is_none_or(|until| Instant::now() < until).then_some(outcome)
    }

    /// Caches the status. A revocation never expires.
    pub(super) fn learn(&self, certificate: Name, outcome: CertificateStatus) {
        let now = Instant::now();
        let until = match outcome {
            CertificateStatus::Good => Some(now + GOOD),
            CertificateStatus::Unknown => Some(now + SILENT),
            CertificateStatus::Revoked => None,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REVOCATIONS_MAX && !known.contains_key(&certificate) {
            let soonest = known.iter().min_by_key(|(_, (_, until))| (until.is_none(), *until));
            if let Some(soonest) = soonest.map(|(name, _)| name.clone()) {
                known.remove(&soonest);
            }
        }
        known.insert(certificate, (outcome, until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revocations_outlive_other_cached_results() {
        let revocations = Revocations::default();
        let name = |i: usize| Name::new().join_generic(i.to_string());
        revocations.learn(name(0), CertificateStatus::Revoked);
        for i in 1..REVOCATIONS_MAX {
            revocations.learn(name(i), CertificateStatus::Unknown);
        }
        assert_eq!(revocations.known(&name(1)), Some(CertificateStatus::Unknown));
        revocations.learn(name(REVOCATIONS_MAX), CertificateStatus::Good);
        assert_eq!(revocations.known(&name(0)), Some(CertificateStatus::Revoked));
        assert_eq!(revocations.known(&name(1)), None, "the oldest gave way");
        assert_eq!(revocations.known(&name(REVOCATIONS_MAX)), Some(CertificateStatus::Good));
        assert!(CertificateStatus::Unknown.judge(&name(1), Revocation::Check).is_ok());
        assert!(CertificateStatus::Unknown.judge(&name(1), Revocation::Require).is_err());
        assert!(CertificateStatus::Revoked.judge(&name(1), Revocation::Off).is_ok());
    }
}

//! Whether certificates are revoked: asked by name, remembered for a while (docs/sockets.md,
//! Sessions and revocation).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use namely_wire::Name;

use crate::error::FetchError;
use crate::options::Revocation;

/// Certificates of which a consumer remembers whether they are revoked; the one that is asked again
/// soonest gives way.
pub const REVOCATIONS_MAX: usize = 256;

/// How long the word that a certificate is good holds: its sender says it anew each second.
const GOOD: Duration = Duration::from_secs(1);

/// How long nobody is asked again where nobody answered.
const SILENT: Duration = Duration::from_secs(60);

/// How long an answer is waited for.
pub(super) const LIFETIME_MS: u64 = 500;

/// What is known of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Who may say so said that it is not revoked.
    Good,
    /// Nobody said anything.
    Unknown,
    /// It is revoked.
    Revoked,
}

impl Outcome {
    /// Whether the certificate `name` may be believed.
    pub(super) fn judge(self, name: &Name, option: Revocation) -> Result<(), FetchError> {
        match (self, option) {
            (Outcome::Revoked, Revocation::Check | Revocation::Require) => {
                Err(FetchError::Revoked { certificate: name.clone() })
            }
            (Outcome::Unknown, Revocation::Require) => {
                Err(FetchError::NotKnownGood { certificate: name.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// What was learnt lately.
#[derive(Debug, Default)]
pub(super) struct Revocations {
    known: Mutex<HashMap<Name, (Outcome, Option<Instant>)>>,
}

impl Revocations {
    /// What is known of `certificate`, if it was learnt lately.
    pub(super) fn known(&self, certificate: &Name) -> Option<Outcome> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (outcome, until) = *known.get(certificate)?;
        until.is_none_or(|until| Instant::now() < until).then_some(outcome)
    }

    /// Remembers it. A revocation is for ever.
    pub(super) fn learn(&self, certificate: Name, outcome: Outcome) {
        let now = Instant::now();
        let until = match outcome {
            Outcome::Good => Some(now + GOOD),
            Outcome::Unknown => Some(now + SILENT),
            Outcome::Revoked => None,
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
    fn revocations_stay_when_there_are_too_many_certificates_to_remember() {
        let revocations = Revocations::default();
        let name = |i: usize| Name::new().join_generic(i.to_string());
        revocations.learn(name(0), Outcome::Revoked);
        for i in 1..REVOCATIONS_MAX {
            revocations.learn(name(i), Outcome::Unknown);
        }
        assert_eq!(revocations.known(&name(1)), Some(Outcome::Unknown));
        revocations.learn(name(REVOCATIONS_MAX), Outcome::Good);
        assert_eq!(revocations.known(&name(0)), Some(Outcome::Revoked));
        assert_eq!(revocations.known(&name(1)), None, "the oldest gave way");
        assert_eq!(revocations.known(&name(REVOCATIONS_MAX)), Some(Outcome::Good));
        assert!(Outcome::Unknown.judge(&name(1), Revocation::Check).is_ok());
        assert!(Outcome::Unknown.judge(&name(1), Revocation::Require).is_err());
        assert!(Outcome::Revoked.judge(&name(1), Revocation::Off).is_ok());
    }
}

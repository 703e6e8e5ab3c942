//! Revocation status of certificates: requested by the certificate's name and cached for a limited
//! time (docs/sockets.md, Sessions and revocation).

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use namely_transport::connection::REPEAT_MS;
use namely_transport::object::ReadOptions;
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

/// Time for which the status is not requested again after [`QueryResult::Unrouted`].
const UNROUTED: Duration = Duration::from_secs(60);

/// Times for which the status is not requested again after [`QueryResult::Silent`]: the first, and
/// the longest. Each is twice the previous one. Silence may be a loss, which must not admit a
/// revoked key for long; a producer without statements must not get a query for each packet.
const SILENT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);

/// Maximum time to wait for a statement, ms. The Interest is repeated meanwhile.
const WAIT_MS_MAX: u64 = 2_000;

/// Returns the options for requesting a statement, given those of the fetch. An Interest whose
/// lifetime ends before its first repetition is sent twice, so that one loss is not silence.
pub(super) fn query_options(read: ReadOptions) -> ReadOptions {
    let lifetime_ms = read.lifetime_ms.min(WAIT_MS_MAX);
    ReadOptions { lifetime_ms, attempts: if lifetime_ms > REPEAT_MS { 1 } else { 2 }, ..read }
}

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

/// The result of a request for the status of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryResult {
    /// An authorized signer states that it is not revoked.
    Good,
    /// It is revoked.
    Revoked,
    /// A router reports that no route leads to a signer of statements.
    Unrouted,
    /// There was no answer, or no valid statement.
    Silent,
}

impl QueryResult {
    fn status(self) -> CertificateStatus {
        match self {
            QueryResult::Good => CertificateStatus::Good,
            QueryResult::Revoked => CertificateStatus::Revoked,
            QueryResult::Unrouted | QueryResult::Silent => CertificateStatus::Unknown,
        }
    }
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
    known: Mutex<HashMap<Name, KnownStatus>>,
}

/// The cached status of one certificate.
#[derive(Clone, Copy, Debug)]
struct KnownStatus {
    status: CertificateStatus,
    /// The time of the next request; none: never.
    until: Option<Instant>,
    /// Whether a signer has stated that the certificate is good. A route to this signer existed.
    was_good: bool,
    /// The pause after the last silence, if there was no statement since.
    pause: Option<Duration>,
}

impl KnownStatus {
    fn is_current(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// Returns the status after `result`; `before` is the previous one.
    fn after(before: Option<KnownStatus>, result: QueryResult, now: Instant) -> Self {
        let was_good = result == QueryResult::Good || before.is_some_and(|before| before.was_good);
        let (pause, rest) = match result {
            QueryResult::Good => (None, Some(GOOD)),
            QueryResult::Revoked => (None, None),
            // The producer of a revoked session unregisters its prefix before it serves the record,
            // so the lack of a route proves nothing if there was one.
            QueryResult::Unrouted if !was_good => (None, Some(UNROUTED)),
            QueryResult::Unrouted | QueryResult::Silent => {
                let last = before.and_then(|before| before.pause);
                // Several fetches may have requested it at once, which is one silence.
                let is_same = before.is_some_and(|before| before.is_current(now));
                let pause = match last {
                    Some(last) if is_same => last,
                    Some(last) => (2 * last).min(*SILENT.end()),
                    None => *SILENT.start(),
                };
                (Some(pause), Some(pause))
            }
        };
        let until = rest.map(|rest| now + rest);
        KnownStatus { status: result.status(), until, was_good, pause }
    }
}

impl Revocations {
    /// Returns the status of `certificate` if it is cached and current.
    pub(super) fn known(&self, certificate: &Name) -> Option<CertificateStatus> {
        self.known_at(certificate, Instant::now())
    }

    fn known_at(&self, certificate: &Name, now: Instant) -> Option<CertificateStatus> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(certificate).filter(|known| known.is_current(now)).map(|known| known.status)
    }

    /// Caches the result of a request, and returns the status. A revocation never expires.
    pub(super) fn learn(&self, certificate: Name, result: QueryResult) -> CertificateStatus {
        self.learn_at(certificate, result, Instant::now())
    }

    fn learn_at(&self, certificate: Name, result: QueryResult, now: Instant) -> CertificateStatus {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REVOCATIONS_MAX && !known.contains_key(&certificate) {
            let soonest = known.iter().min_by_key(|(_, known)| (known.until.is_none(), known.until));
            if let Some(soonest) = soonest.map(|(name, _)| name.clone()) {
                known.remove(&soonest);
            }
        }
        let before = known.get(&certificate).copied();
        // Another fetch may have received the revocation meanwhile.
        if before.is_some_and(|before| before.status == CertificateStatus::Revoked) {
            return CertificateStatus::Revoked;
        }
        let after = KnownStatus::after(before, result, now);
        known.insert(certificate, after);
        after.status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(i: usize) -> Name {
        Name::new().join_generic(i.to_string())
    }

    #[test]
    fn revocations_outlive_other_cached_results() {
        let revocations = Revocations::default();
        revocations.learn(name(0), QueryResult::Revoked);
        for i in 1..REVOCATIONS_MAX {
            assert_eq!(revocations.learn(name(i), QueryResult::Unrouted), CertificateStatus::Unknown);
        }
        assert_eq!(revocations.known(&name(1)), Some(CertificateStatus::Unknown));
        assert_eq!(revocations.learn(name(REVOCATIONS_MAX), QueryResult::Good), CertificateStatus::Good);
        assert_eq!(revocations.known(&name(0)), Some(CertificateStatus::Revoked));
        assert_eq!(revocations.known(&name(1)), None, "the oldest gave way");
        assert_eq!(revocations.learn(name(0), QueryResult::Good), CertificateStatus::Revoked, "for good");
        assert!(CertificateStatus::Unknown.judge(&name(1), Revocation::Check).is_ok());
        assert!(CertificateStatus::Unknown.judge(&name(1), Revocation::Require).is_err());
        assert!(CertificateStatus::Revoked.judge(&name(1), Revocation::Off).is_ok());
    }

    /// Learns `result` and returns the time after which the status is requested again.
    fn rest(revocations: &Revocations, result: QueryResult, now: &mut Instant) -> Duration {
        revocations.learn_at(name(0), result, *now);
        let until = revocations.known.lock().unwrap()[&name(0)].until.unwrap();
        let rest = until - *now;
        assert!(revocations.known_at(&name(0), until - Duration::from_nanos(1)).is_some());
        assert_eq!(revocations.known_at(&name(0), until), None);
        *now = until;
        rest
    }

    #[test]
    fn silence_is_cached_for_growing_times() {
        let (revocations, mut now) = (Revocations::default(), Instant::now());
        let mut silences = Vec::new();
        for _ in 0..8 {
            silences.push(rest(&revocations, QueryResult::Silent, &mut now).as_secs());
        }
        assert_eq!(silences, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(rest(&revocations, QueryResult::Good, &mut now), GOOD);
        assert_eq!(rest(&revocations, QueryResult::Silent, &mut now).as_secs(), 1, "anew after a statement");
        // Two fetches that request it at the same time.
        revocations.learn_at(name(1), QueryResult::Silent, now);
        revocations.learn_at(name(1), QueryResult::Silent, now);
        assert_eq!(revocations.known_at(&name(1), now + Duration::from_secs(1)), None);
    }

    #[test]
    fn a_lost_route_to_the_signer_is_silence() {
        let (revocations, mut now) = (Revocations::default(), Instant::now());
        assert_eq!(rest(&revocations, QueryResult::Unrouted, &mut now), UNROUTED);
        assert_eq!(rest(&revocations, QueryResult::Good, &mut now), GOOD);
        assert_eq!(rest(&revocations, QueryResult::Unrouted, &mut now).as_secs(), 1);
        assert_eq!(rest(&revocations, QueryResult::Unrouted, &mut now).as_secs(), 2);
    }

    #[test]
    fn a_status_query_survives_one_loss() {
        let of = |lifetime_ms| {
            let read = query_options(ReadOptions { lifetime_ms, ..ReadOptions::default() });
            (read.lifetime_ms, read.attempts)
        };
        assert_eq!([200, REPEAT_MS].map(of), [(200, 2), (REPEAT_MS, 2)]);
        assert_eq!([REPEAT_MS + 1, 20_000].map(of), [(REPEAT_MS + 1, 1), (WAIT_MS_MAX, 1)]);
    }
}

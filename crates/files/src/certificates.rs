//! The certificates that a producer serves, so that clients find the key that signed the Data they
//! fetch, and its revocation status.

use namely_host::clock::unix_ms;
use namely_security::{Certificate, RevocationStatement, RevocationStatus, Signer, revocation_prefix};
use namely_transport::connection::Outbox;
use namely_wire::{InterestView, LpHeaders, NackReason, Name};

/// Time in ms for which a signed statement is served again, and the freshness of the statement.
const STATEMENT_MS: u64 = 1_000;

/// A certificate, with its issuer's key if that is available.
#[derive(Clone, Debug)]
pub struct IssuedCertificate {
    /// The certificate.
    pub certificate: Certificate,
    /// Signs the statements that the certificate is not revoked.
    pub issuer: Option<Signer>,
}

impl From<Certificate> for IssuedCertificate {
    fn from(certificate: Certificate) -> Self {
        IssuedCertificate { certificate, issuer: None }
    }
}

/// The handling of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The Interest is not for a certificate.
    Other,
    /// The Interest was answered.
    Sent,
    /// The certificate's revocation status is unknown here; the requester receives a Nack.
    NotKnown,
}

/// Certificates, and the latest statement about each.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    entries: Vec<Entry>,
}

/// A certificate with the names of the Interests for it. They are computed once, because every
/// Interest for a segment is compared with them.
#[derive(Debug)]
struct Entry {
    vouched: IssuedCertificate,
    /// Components of the key's name.
    key_components: usize,
    /// The prefix of the certificate's statements.
    statements: Option<Name>,
    latest: Option<Statement>,
}

/// A statement that a certificate is good.
#[derive(Debug)]
struct Statement {
    made_ms: u64,
    wire: Vec<u8>,
}

impl Certificates {
    pub(crate) fn set(&mut self, certificates: impl IntoIterator<Item = IssuedCertificate>) {
        self.entries = certificates.into_iter().map(Entry::new).collect();
    }

    /// The prefixes to register: `prefix`, and those of keys and statements outside it.
    pub(crate) fn prefixes(&self, prefix: &Name) -> Vec<Name> {
        let mut prefixes = vec![prefix.clone()];
        for Entry { vouched: IssuedCertificate { certificate, issuer }, statements, .. } in &self.entries {
            let key = certificate.key_name().to_name();
            let statements = issuer.as_ref().and(statements.clone());
            for name in [Some(key), statements].into_iter().flatten() {
                if prefixes.iter().all(|prefix| !prefix.as_name().is_prefix_of(name.as_name())) {
                    prefixes.push(name);
                }
            }
        }
        prefixes
    }

    /// Answers `interest` if it is for a certificate or a statement.
    pub(crate) fn answer(
        &mut self,
        interest: &InterestView<'_>,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Answer {
        if let Some(entry) = self.entries.iter().find(|entry| entry.matches(interest)) {
            outbox.send(headers, entry.vouched.certificate.wire());
            return Answer::Sent;
        }
        let is_about = |entry: &&mut Entry| {
            entry.statements.as_ref().is_some_and(|prefix| prefix.as_name().is_prefix_of(interest.name))
        };
        let Some(entry) = self.entries.iter_mut().find(is_about) else { return Answer::Other };
        match entry.statement(unix_ms()) {
            Some(statement) => {
                outbox.send(headers, &statement.wire);
                Answer::Sent
            }
            None => {
                outbox.send(&LpHeaders { nack: Some(NackReason::NoRoute), ..*headers }, interest.wire);
                Answer::NotKnown
            }
        }
    }
}

impl IssuedCertificate {
    /// Signs the statement that the certificate is not revoked.
    fn good(&self, now_ms: u64) -> Option<Vec<u8>> {
        let statement = RevocationStatement { status: RevocationStatus::Good, time_ms: now_ms };
        let signed = statement.sign(&self.certificate, STATEMENT_MS, self.issuer.as_ref()?);
        signed.inspect_err(|error| tracing::warn!(%error, "cannot sign the status of a certificate")).ok()
    }
}

impl Entry {
    fn new(vouched: IssuedCertificate) -> Self {
        let statements = revocation_prefix(vouched.certificate.name()).ok();
        Entry { key_components: vouched.certificate.key_name().len(), statements, vouched, latest: None }
    }

    /// Returns whether `interest` requests this certificate: by its name, or by that of its key.
    fn matches(&self, interest: &InterestView<'_>) -> bool {
        let name = self.vouched.certificate.name();
        // A shorter prefix requests an object, although certificates may lie below it, too.
        let is_of_key = interest.can_be_prefix && interest.name.len() >= self.key_components;
        interest.name == name || (is_of_key && interest.name.is_prefix_of(name))
    }

    /// Returns the latest statement, signed again if it is too old.
    fn statement(&mut self, now_ms: u64) -> Option<&Statement> {
        let is_recent = |statement: &Statement| now_ms.saturating_sub(statement.made_ms) < STATEMENT_MS;
        if !self.latest.as_ref().is_some_and(is_recent) {
            self.latest = self.vouched.good(now_ms).map(|wire| Statement { made_ms: now_ms, wire });
        }
        self.latest.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use namely_security::{KeyType, PrivateKey, RevocationStatement, TrustPolicy, Verdict, Verifier};
    use namely_transport::connection::Connection;
    use namely_wire::{InterestBuilder, LpView, ValidityPeriod};

    use super::*;

    fn key(uri: &str) -> (Certificate, Signer) {
        let name: Name = uri.parse().unwrap();
        let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
        let validity = ValidityPeriod { not_before_s: 0, not_after_s: u64::MAX / 2_000_000_000 };
        let certificate = Certificate::self_signed(name.as_name(), &key, validity, 1).unwrap();
        (certificate, Signer::new(name, key))
    }

    /// Returns the handling of an Interest, and the link packet that is sent.
    fn answer_to(certificates: &mut Certificates, name: Name) -> (Answer, Vec<u8>) {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut connection = Connection::from_stream(near).unwrap();
        let wire = InterestBuilder::new(name).can_be_prefix().must_be_fresh().build();
        let interest = InterestView::parse(&wire).unwrap();
        let answer = certificates.answer(&interest, &LpHeaders::default(), connection.outbox());
        connection.turn(0, &mut |_, _| ()).unwrap();
        drop(connection);
        let mut sent = Vec::new();
        far.read_to_end(&mut sent).unwrap();
        (answer, sent)
    }

    #[test]
    fn only_the_issuer_vouches_for_a_certificate() {
        let (anchor, issuer) = key("/lab/KEY/1");
        let (request, _) = key("/lab/dave/KEY/2");
        let validity = request.validity();
        let issued =
            Certificate::issue(request.key_name(), request.public_key(), &issuer, "lab", validity, 2)
                .unwrap();
        let prefix: Name = "/lab/dave/data".parse().unwrap();
        let status_prefix = revocation_prefix(issued.name()).unwrap();

        let mut certificates = Certificates::default();
        certificates.set([IssuedCertificate { certificate: issued.clone(), issuer: Some(issuer) }]);
        assert!(certificates.prefixes(&prefix).contains(&status_prefix), "it is asked for it");
        let (answer, sent) = answer_to(&mut certificates, status_prefix.clone());
        let data = LpView::parse(&sent).unwrap().fragment.unwrap().to_vec();
        let mut trust = TrustPolicy::hierarchical();
        trust.add_anchor(anchor);
        let Verdict::Verified(data) = Verifier::new(trust).verify(data, 1_000_000_000) else {
            panic!("the issuer signed it")
        };
        let statement = RevocationStatement::read(&data, &issued).unwrap();
        assert_eq!((answer, statement.status), (Answer::Sent, RevocationStatus::Good));
        let entry = &mut certificates.entries[0];
        let made_ms = entry.latest.as_ref().unwrap().made_ms;
        let mut signed_at = |ms| entry.statement(ms).unwrap().wire.clone();
        let first = signed_at(made_ms);
        assert_eq!(signed_at(made_ms + STATEMENT_MS - 1), first, "it is signed once a second");
        assert_ne!(signed_at(made_ms + STATEMENT_MS), first);

        certificates.set([IssuedCertificate::from(issued.clone())]);
        assert!(!certificates.prefixes(&prefix).contains(&status_prefix));
        let (answer, sent) = answer_to(&mut certificates, status_prefix);
        let nack = LpView::parse(&sent).unwrap().headers.nack;
        assert_eq!((answer, nack), (Answer::NotKnown, Some(NackReason::NoRoute)));
        assert_eq!(answer_to(&mut certificates, issued.name().to_name()).0, Answer::Sent);
        assert_eq!(answer_to(&mut certificates, prefix).0, Answer::Other);
    }
}

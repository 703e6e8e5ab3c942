//! The certificates that a producer answers for, so that clients find the key that signed what they
//! fetch, and whether one of these is revoked.

use namely_host::clock::unix_ms;
use namely_security::{Certificate, RevocationStatement, RevocationStatus, Signer, revocation_prefix};
use namely_transport::connection::Outbox;
use namely_wire::{InterestView, LpHeaders, NackReason, Name};

/// For how long a statement that a certificate is good is given out again, and for how long it is
/// fresh, ms.
const STATEMENT_MS: u64 = 1_000;

/// A certificate, with the key that issued it where that is at hand.
#[derive(Clone, Debug)]
pub struct Vouched {
    /// The certificate.
    pub certificate: Certificate,
    /// What signs that it is not revoked.
    pub issuer: Option<Signer>,
}

impl From<Certificate> for Vouched {
    fn from(certificate: Certificate) -> Self {
        Vouched { certificate, issuer: None }
    }
}

/// What became of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is about no certificate.
    Other,
    /// It was answered.
    Sent,
    /// Nobody here can say whether the certificate is revoked; who asks need not wait.
    NotKnown,
}

/// Certificates, and the statements about them that were made last.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    known: Vec<(Vouched, Option<Statement>)>,
}

/// When a statement was made, and its packet.
type Statement = (u64, Vec<u8>);

impl Certificates {
    pub(crate) fn set(&mut self, certificates: impl IntoIterator<Item = Vouched>) {
        self.known = certificates.into_iter().map(|vouched| (vouched, None)).collect();
    }

    /// The prefixes to be asked under: `prefix`, and those of keys and statements that lie
    /// elsewhere.
    pub(crate) fn prefixes(&self, prefix: &Name) -> Vec<Name> {
        let mut prefixes = vec![prefix.clone()];
        for (Vouched { certificate, issuer }, _) in &self.known {
            let key = certificate.key_name().to_name();
            let statements = issuer.as_ref().and_then(|_| revocation_prefix(certificate.name()).ok());
            for name in [Some(key), statements].into_iter().flatten() {
                if prefixes.iter().all(|prefix| !prefix.as_name().is_prefix_of(name.as_name())) {
                    prefixes.push(name);
                }
            }
        }
        prefixes
    }

    /// Answers `interest` if it is about a certificate.
    pub(crate) fn answer(
        &mut self,
        interest: &InterestView<'_>,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Answer {
        if let Some((Vouched { certificate, .. }, _)) =
            self.known.iter().find(|known| is_asked(known, interest))
        {
            outbox.send(headers, certificate.wire());
            return Answer::Sent;
        }
        let is_meant = |(vouched, _): &&mut (Vouched, _)| {
            let prefix = revocation_prefix(vouched.certificate.name());
            prefix.is_ok_and(|prefix| prefix.as_name().is_prefix_of(interest.name))
        };
        let Some((vouched, statement)) = self.known.iter_mut().find(is_meant) else { return Answer::Other };
        let now_ms = unix_ms();
        if statement.as_ref().is_none_or(|(made_ms, _)| now_ms.saturating_sub(*made_ms) >= STATEMENT_MS) {
            *statement = vouched.good(now_ms).map(|wire| (now_ms, wire));
        }
        match statement {
            Some((_, wire)) => {
                outbox.send(headers, wire);
                Answer::Sent
            }
            None => {
                outbox.send(&LpHeaders { nack: Some(NackReason::NoRoute), ..*headers }, interest.wire);
                Answer::NotKnown
            }
        }
    }
}

impl Vouched {
    /// The statement that the certificate is not revoked.
    fn good(&self, now_ms: u64) -> Option<Vec<u8>> {
        let statement = RevocationStatement { status: RevocationStatus::Good, time_ms: now_ms };
        let signed = statement.sign(&self.certificate, STATEMENT_MS, self.issuer.as_ref()?);
        signed.inspect_err(|error| tracing::warn!(%error, "nothing says that a certificate is good")).ok()
    }
}

/// Whether `interest` asks for this certificate: by its name, or by that of its key.
fn is_asked((vouched, _): &(Vouched, Option<Statement>), interest: &InterestView<'_>) -> bool {
    let name = vouched.certificate.name();
    // A shorter prefix means an object, though certificates may lie below it too.
    let is_of_key = interest.can_be_prefix && interest.name.len() >= vouched.certificate.key_name().len();
    interest.name == name || (is_of_key && interest.name.is_prefix_of(name))
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

    /// What becomes of an Interest, and the link packet that is sent.
    fn ask(certificates: &mut Certificates, name: Name) -> (Answer, Vec<u8>) {
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
    fn who_has_the_issuers_key_says_that_a_certificate_is_good_and_others_that_they_cannot_say() {
        let (anchor, issuer) = key("/lab/KEY/1");
        let (request, _) = key("/lab/dave/KEY/2");
        let validity = request.validity();
        let issued =
            Certificate::issue(request.key_name(), request.public_key(), &issuer, "lab", validity, 2)
                .unwrap();
        let prefix: Name = "/lab/dave/data".parse().unwrap();
        let asked = revocation_prefix(issued.name()).unwrap();

        let mut certificates = Certificates::default();
        certificates.set([Vouched { certificate: issued.clone(), issuer: Some(issuer) }]);
        assert!(certificates.prefixes(&prefix).contains(&asked), "it is asked for it");
        let (answer, sent) = ask(&mut certificates, asked.clone());
        let data = LpView::parse(&sent).unwrap().fragment.unwrap().to_vec();
        let mut trust = TrustPolicy::hierarchical();
        trust.add_anchor(anchor);
        let Verdict::Verified(data) = Verifier::new(trust).verify(data, 1_000_000_000) else {
            panic!("the issuer signed it")
        };
        let statement = RevocationStatement::read(&data, &issued).unwrap();
        assert_eq!((answer, statement.status), (Answer::Sent, RevocationStatus::Good));
        let again = ask(&mut certificates, asked.clone());
        assert_eq!(again.1, sent, "it is signed once a second");

        certificates.set([Vouched::from(issued.clone())]);
        assert!(!certificates.prefixes(&prefix).contains(&asked));
        let (answer, sent) = ask(&mut certificates, asked);
        let nack = LpView::parse(&sent).unwrap().headers.nack;
        assert_eq!((answer, nack), (Answer::NotKnown, Some(NackReason::NoRoute)));
        assert_eq!(ask(&mut certificates, issued.name().to_name()).0, Answer::Sent);
        assert_eq!(ask(&mut certificates, prefix).0, Answer::Other);
    }
}

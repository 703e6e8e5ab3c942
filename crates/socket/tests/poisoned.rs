//! Caches with foreign packets under a producer's names: a consumer requests past them, and reports
//! their signer if it receives no other packets.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use namely_security::validity::ALWAYS;
use namely_security::{Certificate, KeyType, PrivateKey, Signer, TrustPolicy, Verifier};
use namely_socket::{Consumer, ConsumerOptions, FetchError, Trust};
use namely_testkit::name;
use namely_transport::connection::{Answer, Connection, ConnectionError, Packet, Reply};
use namely_transport::object::{Discovery, Express, ObjectError, ReadOptions};
use namely_transport::publish::{Options, Publication};
use namely_wire::{InterestBuilder, InterestView, LpHeaders, NackReason, Name};

fn key_of(identity: &str) -> (Signer, Certificate) {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let key_name = name(identity).join_generic("KEY").join_generic("k");
    let certificate = Certificate::self_signed(key_name.as_name(), &key, ALWAYS, 1).unwrap();
    (Signer::new(key_name, key), certificate)
}

fn publication(content: &[u8], signer: &Signer) -> Publication {
    Publication::new(name("/p/o").as_name(), 7, content, &Options::default(), signer).unwrap()
}

fn believing(anchor: Certificate) -> TrustPolicy {
    let mut policy = TrustPolicy::hierarchical();
    policy.add_anchor(anchor);
    policy
}

/// A consumer that trusts `anchor`, and a producer with the answers of `answer`.
fn consumer(
    anchor: Certificate,
    mut answer: impl FnMut(&InterestView<'_>) -> Option<(LpHeaders, Vec<u8>)> + Send + 'static,
) -> Consumer {
    let (near, far) = UnixStream::pair().unwrap();
    std::thread::spawn(move || {
        let mut connection = Connection::from_stream(far).unwrap();
        let mut handle = |incoming: namely_transport::connection::Incoming<'_>,
                          outbox: &mut namely_transport::connection::Outbox| {
            if let Packet::Interest(interest) = incoming.packet
                && let Some((headers, wire)) = answer(&interest)
            {
                outbox.send(&headers, &wire);
            }
        };
        while connection.turn(u64::MAX, &mut handle).is_ok() {}
    });
    let trust = Trust::Policy(believing(anchor).into());
    let mut options = ConsumerOptions { trust, ..ConsumerOptions::default() };
    options.read.attempts = 2;
    Consumer::over(Connection::from_stream(near).unwrap(), Name::new(), options).unwrap()
}

#[test]
fn forged_cached_data_is_requested_again() {
    let (signer, anchor) = key_of("/p");
    let (forger, _) = key_of("/mallory");
    for poisoned in ["metadata", "manifest"] {
        let (genuine, forged) = (publication(b"genuine", &signer), publication(b"forged", &forger));
        let mut poison_left = 4;
        let consumer = consumer(anchor.clone(), move |interest| {
            let is_poisoned = interest.name.components().any(|c| c.value == poisoned.as_bytes());
            if is_poisoned && poison_left > 0 {
                poison_left -= 1;
                return Some((LpHeaders::default(), forged.answer(interest)?.to_vec()));
            }
            Some((LpHeaders::default(), genuine.answer(interest)?.to_vec()))
        });
        assert_eq!(consumer.fetch(&name("/p/o")).unwrap(), b"genuine", "{poisoned}");
    }
}

/// Answers each request anew, with another version.
struct LiveForger {
    forger: Signer,
    requests: u32,
    pauses: u32,
}

impl LiveForger {
    fn forged(&mut self, interest: &InterestView<'_>) -> Option<Vec<u8>> {
        self.requests += 1;
        let (object, version) = (name("/p/o"), u64::from(self.requests));
        let options = Options::default();
        let forged = Publication::new(object.as_name(), version, b"forged", &options, &self.forger).unwrap();
        forged.answer(interest).map(<[u8]>::to_vec)
    }
}

impl Express for LiveForger {
    fn express_retrying(&mut self, interest: &InterestBuilder, _: u32) -> Result<Answer, ConnectionError> {
        let answer = self.forged(&InterestView::parse(&interest.build()).unwrap());
        let reply = |wire| Answer::Data(Reply { wire, headers: LpHeaders::default(), rtt_ns: 0 });
        Ok(answer.map_or(Answer::Timeout, reply))
    }

    fn pause(&mut self, _: Duration) {
        self.pauses += 1;
    }
}

#[test]
fn repeated_forgeries_end_the_fetch_soon() {
    let (_, anchor) = key_of("/p");
    let (forger, _) = key_of("/mallory");
    let mut live = LiveForger { forger, requests: 0, pauses: 0 };
    let mut verifier = Verifier::new(believing(anchor.clone()));
    let mut discovery = Discovery::new(&mut live, &mut verifier, ReadOptions::default());
    let error = discovery.find(name("/p/o").as_name()).unwrap_err();
    assert!(matches!(error, ObjectError::Untrusted(_)), "{error}");
    // One of the requests reports the first packet to the router.
    assert!(live.requests <= 3 && live.pauses == 1, "a live producer is not asked for long");

    // The same over a socket. A producer whose thread stalls may receive retransmissions, too.
    let consumer = consumer(anchor, move |interest| Some((LpHeaders::default(), live.forged(interest)?)));
    let error = consumer.fetch(&name("/p/o")).unwrap_err();
    assert!(error.to_string().contains("/mallory/KEY/k"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("poisoned")), "{error}");
}

#[test]
fn congestion_is_distinguished_from_silence() {
    let (signer, anchor) = key_of("/p");
    let refused = |interest: &InterestView<'_>| {
        let headers = LpHeaders { nack: Some(NackReason::Congestion), ..LpHeaders::default() };
        Some((headers, interest.wire.to_vec()))
    };
    let congested = consumer(anchor.clone(), refused);
    let error = congested.fetch(&name("/p/o")).unwrap_err();
    assert!(error.to_string().contains("congested"), "{error}");

    // The same during a fetch that has begun.
    let genuine = publication(&[7; 20_000], &signer);
    let begun = consumer(anchor, move |interest| {
        let is_metadata = interest.name.components().any(|c| c.value == b"metadata");
        if is_metadata {
            return Some((LpHeaders::default(), genuine.answer(interest)?.to_vec()));
        }
        refused(interest)
    });
    begun.set_option("retries", "1").unwrap();
    let error = begun.fetch(&name("/p/o")).unwrap_err();
    assert!(error.to_string().contains("congested"), "{error}");
    let silent = FetchError::from(ObjectError::NoAnswer { name: name("/p/o") });
    assert!(!silent.to_string().contains("congested"));
}

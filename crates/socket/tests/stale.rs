//! A producer that is away, and a cache that has its packets: option `stale_s` limits the age of
//! the metadata that opens them.

use std::sync::Arc;

use namely_host::clock::unix_ns;
use namely_security::validity::ALWAYS;
use namely_security::{Certificate, KeyType, PrivateKey, Signer, TrustPolicy, Verifier};
use namely_transport::connection::{Answer, ConnectionError, Reply};
use namely_transport::object::{Discovery, Express, Object, ObjectError, ReadOptions};
use namely_transport::publish::{Options, Publication};
use namely_wire::{InterestBuilder, InterestView, LpHeaders, NackReason, Name};

const HOUR_S: u64 = 3_600;
const NS: u64 = 1_000_000_000;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn key_of(identity: &str) -> (Signer, Certificate) {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let key_name = name(identity).join_generic("KEY").join_generic("k");
    let certificate = Certificate::self_signed(key_name.as_name(), &key, ALWAYS, 1).unwrap();
    (Signer::new(key_name, key), certificate)
}

/// A cache whose packets are no longer fresh. Other Interests get `refusal`, or no answer.
struct Cache {
    packets: Option<Publication>,
    refusal: Option<NackReason>,
    requests: usize,
}

impl Express for Cache {
    fn express_retrying(&mut self, interest: &InterestBuilder, _: u32) -> Result<Answer, ConnectionError> {
        self.requests += 1;
        let wire = interest.build();
        let interest = InterestView::parse(&wire).unwrap();
        let cached = self.packets.as_ref().filter(|_| !interest.must_be_fresh);
        let found = cached.and_then(|packets| packets.answer(&interest)).map(<[u8]>::to_vec);
        Ok(match (found, self.refusal) {
            (Some(wire), _) => Answer::Data(Reply { wire, headers: LpHeaders::default(), rtt_ns: 0 }),
            (None, Some(reason)) => Answer::Nack(reason),
            (None, None) => Answer::Timeout,
        })
    }
}

/// A cache with `/p/o`, whose metadata was made `age_s` ago.
fn cached(age_s: u64, signer: &Signer, refusal: Option<NackReason>) -> Cache {
    let version = unix_ns() - age_s * NS;
    let object = Publication::new(name("/p/o").as_name(), version, b"content", &Options::default(), signer);
    Cache { packets: Some(object.unwrap()), refusal, requests: 0 }
}

fn find(cache: &mut Cache, anchor: &Certificate, stale_s: u64) -> Result<Object, ObjectError> {
    let mut policy = TrustPolicy::hierarchical();
    policy.add_anchor(anchor.clone());
    let mut verifier = Verifier::new(policy);
    let options = ReadOptions { stale_s, ..ReadOptions::default() };
    Discovery::new(cache, &mut verifier, options).find(name("/p/o").as_name())
}

#[test]
fn stale_metadata_replaces_an_absent_producer() {
    let (signer, anchor) = key_of("/p");
    for refusal in [Some(NackReason::NoRoute), None] {
        let mut cache = cached(HOUR_S, &signer, refusal);
        let found = find(&mut cache, &anchor, 2 * HOUR_S).unwrap();
        assert_eq!(found.octets(), Some(7), "{refusal:?}");
        assert!(found.as_of_ns.is_some() && found.reason.is_some(), "{refusal:?}: dated and verified");
    }
}

#[test]
fn metadata_past_its_age_opens_nothing() {
    let (signer, anchor) = key_of("/p");
    for stale_s in [0, HOUR_S - 1] {
        let mut cache = cached(HOUR_S, &signer, Some(NackReason::NoRoute));
        let refused = find(&mut cache, &anchor, stale_s).unwrap_err();
        assert!(matches!(refused, ObjectError::Refused { reason: NackReason::NoRoute, .. }), "{refused}");
        let mut cache = cached(HOUR_S, &signer, None);
        let silent = find(&mut cache, &anchor, stale_s).unwrap_err();
        assert!(matches!(silent, ObjectError::NoAnswer { .. }), "{silent}");
    }
}

#[test]
fn a_congested_producer_is_not_absent() {
    let (signer, anchor) = key_of("/p");
    let mut cache = cached(HOUR_S, &signer, Some(NackReason::Congestion));
    let refused = find(&mut cache, &anchor, 2 * HOUR_S).unwrap_err();
    assert!(matches!(refused, ObjectError::Refused { reason: NackReason::Congestion, .. }), "{refused}");
    assert_eq!(cache.requests, 1, "the cache is not searched");
}

#[test]
fn untrusted_stale_metadata_is_ignored() {
    let (_, anchor) = key_of("/p");
    let (forger, _) = key_of("/mallory");
    let mut cache = cached(HOUR_S, &forger, Some(NackReason::NoRoute));
    let refused = find(&mut cache, &anchor, 2 * HOUR_S).unwrap_err();
    assert!(matches!(refused, ObjectError::Refused { reason: NackReason::NoRoute, .. }), "{refused}");
    cache.packets = None;
    let missing = find(&mut cache, &anchor, 2 * HOUR_S).unwrap_err();
    assert!(matches!(missing, ObjectError::Refused { reason: NackReason::NoRoute, .. }), "{missing}");
}

use std::sync::Arc;

use namely_wire::{DataBuilder, Name, ValidityPeriod};

use super::*;
use crate::crypto::{HmacKey, KeyType, PrivateKey};
use crate::signer::{Signer, sign_data};
use crate::validity;

const NOW_NS: u64 = 1_800_000_000_000_000_000;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// A key with a certificate, and what it takes to sign with it.
struct Party {
    key: Arc<PrivateKey>,
    certificate: Certificate,
}

fn year() -> ValidityPeriod {
    validity::days_from(NOW_NS - 1_000_000_000, 365)
}

impl Party {
    fn root(identity: &str) -> Party {
        Self::root_of(identity, KeyType::Ed25519)
    }

    fn root_of(identity: &str, key_type: KeyType) -> Party {
        let key = Arc::new(PrivateKey::generate(key_type).unwrap());
        let key_name = name(identity).join_generic("KEY").join_generic("k");
        let certificate = Certificate::self_signed(key_name.as_name(), &key, year(), 1).unwrap();
        Party { key, certificate }
    }

    fn issue(&self, identity: &str) -> Party {
        self.issue_for(identity, year())
    }

    fn issue_for(&self, identity: &str, validity: ValidityPeriod) -> Party {
        let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
        let key_name = name(identity).join_generic("KEY").join_generic("k");
        let certificate =
            Certificate::issue(key_name.as_name(), key.public(), &self.signer(), "ca", validity, 1).unwrap();
        Party { key, certificate }
    }

    fn signer(&self) -> Signer {
        Signer::new(self.certificate.name().to_name(), Arc::clone(&self.key))
    }

    fn data(&self, uri: &str) -> Vec<u8> {
        sign_data(&DataBuilder::new(name(uri).as_name()), b"content", &self.signer()).unwrap()
    }
}

fn verifier(anchors: &[&Party]) -> Verifier {
    let mut policy = TrustPolicy::hierarchical();
    for anchor in anchors {
        policy.add_anchor(anchor.certificate.clone());
    }
    Verifier::new(policy)
}

fn verified(verifier: &mut Verifier, data: Vec<u8>) -> Verified {
    match verifier.verify(data, NOW_NS) {
        Verdict::Verified(verified) => verified,
        other => panic!("{other:?}"),
    }
}

fn rejected(verifier: &mut Verifier, data: Vec<u8>) -> Rejection {
    match verifier.verify(data, NOW_NS) {
        Verdict::Rejected(rejection) => rejection,
        other => panic!("{other:?}"),
    }
}

fn needed(verifier: &mut Verifier, data: Vec<u8>) -> Name {
    match verifier.verify(data, NOW_NS) {
        Verdict::NeedCertificate(needed) => needed.certificate,
        other => panic!("{other:?}"),
    }
}

#[test]
fn data_signed_by_an_anchor_of_each_kind_is_verified() {
    for key_type in [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::Rsa] {
        let root = Party::root_of("/p", key_type);
        let verified = verified(&mut verifier(&[&root]), root.data("/p/file"));
        assert_eq!(verified.name(), name("/p/file").as_name());
        assert_eq!(verified.content(), b"content");
        assert!(verified.reason().is_authentic());
        let TrustReason::Chain(chain) = verified.reason() else { panic!() };
        assert_eq!(chain.certificates, [root.certificate.name().to_name()]);
    }
}

#[test]
fn a_chain_is_walked_by_asking_for_one_certificate_after_the_other() {
    let root = Party::root("/p");
    let site = root.issue("/p/site");
    let host = site.issue("/p/site/host");
    let mut verifier = verifier(&[&root]);
    let data = host.data("/p/site/host/file");
    assert_eq!(needed(&mut verifier, data.clone()).as_name(), host.certificate.name());
    verifier.supply(host.certificate.wire()).unwrap();
    assert_eq!(needed(&mut verifier, data.clone()).as_name(), site.certificate.name());
    verifier.supply(site.certificate.wire()).unwrap();
    let first = verified(&mut verifier, data);
    let TrustReason::Chain(chain) = first.reason() else { panic!() };
    let names = [&host, &site, &root].map(|party| party.certificate.name().to_name());
    assert_eq!(chain.certificates, names);
    // Both are remembered now.
    verified(&mut verifier, host.data("/p/site/host/other"));
    verified(&mut verifier, site.data("/p/site/other"));
}

#[test]
fn digests_prove_no_origin_unless_the_policy_says_that_they_suffice() {
    let root = Party::root("/p");
    let digest =
        sign_data(&DataBuilder::new(name("/p/x").as_name()), b"hello", &Signer::digest_sha256()).unwrap();
    let why = rejected(&mut verifier(&[&root]), digest.clone()).why;
    assert_eq!(why, Why::NoOrigin(SignatureType::DigestSha256));

    let mut lenient = Verifier::new(TrustPolicy::digest_only());
    let verified_digest = verified(&mut lenient, digest.clone());
    assert_eq!(verified_digest.reason(), &TrustReason::Digest);
    assert!(!verified_digest.reason().is_authentic());
    let mut damaged = digest;
    let at = damaged.windows(5).position(|w| w == b"hello").unwrap();
    damaged[at] ^= 1;
    assert_eq!(rejected(&mut lenient, damaged).why, Why::BadDigest);
    assert_eq!(rejected(&mut lenient, root.data("/p/x")).why, Why::NotADigest(SignatureType::Ed25519));
}

#[test]
fn the_insecure_policy_accepts_and_says_that_nothing_was_checked() {
    let null = sign_data(&DataBuilder::new(name("/x").as_name()), b"", &Signer::null()).unwrap();
    let mut all = Verifier::new(TrustPolicy::insecure_accept_all());
    assert_eq!(verified(&mut all, null.clone()).reason(), &TrustReason::Unchecked);
    let mut strict = verifier(&[]);
    assert_eq!(rejected(&mut strict, null).why, Why::NoOrigin(SignatureType::Null));
}

#[test]
fn without_an_anchor_the_message_says_how_to_import_one() {
    let stranger = Party::root("/q");
    let mut verifier = verifier(&[&Party::root("/p")]);
    let message = rejected(&mut verifier, stranger.data("/q/x")).to_string();
    assert!(message.contains("/q/x, signed by /q/KEY/k/self/v=1,"), "{message}");
    assert!(message.contains("no trust anchor for /q/x"), "{message}");
    assert!(message.contains("namely cert trust FILE"), "{message}");
}

#[test]
fn shared_keys_verify_below_their_identity() {
    let key_name = name("/p/KEY/shared");
    let signer = Signer::hmac(key_name.clone(), HmacKey::new(&[7; 32]));
    let data = sign_data(&DataBuilder::new(name("/p/x").as_name()), b"c", &signer).unwrap();
    let foreign = sign_data(&DataBuilder::new(name("/q/x").as_name()), b"c", &signer).unwrap();
    let with_key = |octet| {
        let mut policy = TrustPolicy::hierarchical();
        policy.add_shared_key(key_name.clone(), HmacKey::new(&[octet; 32]));
        Verifier::new(policy)
    };
    assert_eq!(verified(&mut with_key(7), data.clone()).reason(), &TrustReason::SharedKey(key_name.clone()));
    assert_eq!(rejected(&mut with_key(8), data.clone()).why, Why::BadSignature);
    assert_eq!(rejected(&mut with_key(7), foreign).why, Why::NotAllowed);
    assert_eq!(rejected(&mut verifier(&[]), data).why, Why::NoSharedKey);
}

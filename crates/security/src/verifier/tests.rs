use std::sync::Arc;

use namely_testkit::name;
use namely_wire::{DataBuilder, Name, ValidityPeriod};

use super::*;
use crate::crypto::{HmacKey, KeyType, PrivateKey};
use crate::signer::{Signer, sign_data};
use crate::validity;

const NOW_NS: u64 = 1_800_000_000_000_000_000;

/// A key and its certificate.
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

/// The rejection of `data` when all `certificates` are supplied.
fn rejected_with(verifier: &mut Verifier, certificates: &[&Party], data: Vec<u8>) -> Rejection {
    certificates.iter().for_each(|party| verifier.supply_certificate(party.certificate.clone()));
    rejected(verifier, data)
}

#[test]
fn data_of_each_anchor_type_is_verified() {
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
fn a_chain_requests_one_certificate_at_a_time() {
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
    // Both certificates are cached.
    verified(&mut verifier, host.data("/p/site/host/other"));
    verified(&mut verifier, site.data("/p/site/other"));
}

#[test]
fn digests_need_an_explicit_policy() {
    let root = Party::root("/p");
    let digest =
        sign_data(&DataBuilder::new(name("/p/x").as_name()), b"hello", &Signer::digest_sha256()).unwrap();
    let why = rejected(&mut verifier(&[&root]), digest.clone()).why;
    assert_eq!(why, RejectionReason::NoOrigin(SignatureType::DigestSha256));

    let mut lenient = Verifier::new(TrustPolicy::digest_only());
    let verified_digest = verified(&mut lenient, digest.clone());
    assert_eq!(verified_digest.reason(), &TrustReason::Digest);
    assert!(!verified_digest.reason().is_authentic());
    let mut damaged = digest;
    let at = damaged.windows(5).position(|w| w == b"hello").unwrap();
    damaged[at] ^= 1;
    assert_eq!(rejected(&mut lenient, damaged).why, RejectionReason::BadDigest);
    assert_eq!(
        rejected(&mut lenient, root.data("/p/x")).why,
        RejectionReason::NotADigest(SignatureType::Ed25519)
    );
}

#[test]
fn the_insecure_policy_reports_no_check() {
    let null = sign_data(&DataBuilder::new(name("/x").as_name()), b"", &Signer::null()).unwrap();
    let mut all = Verifier::new(TrustPolicy::insecure_accept_all());
    assert_eq!(verified(&mut all, null.clone()).reason(), &TrustReason::Unchecked);
    let mut strict = verifier(&[]);
    assert_eq!(rejected(&mut strict, null).why, RejectionReason::NoOrigin(SignatureType::Null));
}

#[test]
fn a_missing_anchor_error_has_a_hint() {
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
    assert_eq!(rejected(&mut with_key(8), data.clone()).why, RejectionReason::BadSignature);
    assert_eq!(rejected(&mut with_key(7), foreign).why, RejectionReason::NotAllowed);
    assert_eq!(rejected(&mut verifier(&[]), data).why, RejectionReason::NoSharedKey);
}

#[test]
fn tampered_data_is_never_verified() {
    for key_type in [KeyType::Ed25519, KeyType::EcdsaP256] {
        let root = Party::root_of("/p", key_type);
        let mut verifier = verifier(&[&root]);
        let data = root.data("/p/file");
        for i in 0..data.len() {
            let mut tampered = data.clone();
            tampered[i] ^= 0x01;
            let verdict = verifier.verify(tampered, NOW_NS);
            assert!(!matches!(verdict, Verdict::Verified(_)), "octet {i}");
        }
        verified(&mut verifier, data);
    }
}

#[test]
fn a_tampered_certificate_vouches_for_nothing() {
    let root = Party::root("/p");
    let site = root.issue("/p/site");
    let data = site.data("/p/site/x");
    let mut verifier = verifier(&[&root]);
    let wire = site.certificate.wire();
    for i in 0..wire.len() {
        let mut tampered = wire.to_vec();
        tampered[i] ^= 0x01;
        if verifier.supply(&tampered).is_ok() {
            let verdict = verifier.verify(data.clone(), NOW_NS);
            assert!(!matches!(verdict, Verdict::Verified(_)), "octet {i}");
        }
    }
    verifier.supply(wire).unwrap();
    verified(&mut verifier, data);
}

#[test]
fn a_key_signs_only_below_its_identity() {
    let root = Party::root("/p");
    let site = root.issue("/p/site");
    let mut verifier = verifier(&[&root]);
    for outside in ["/p/other/x", "/p", "/p/sit", "/p/KEY/site", "/q"] {
        let rejection = rejected_with(&mut verifier, &[&site], site.data(outside));
        assert_eq!(rejection.why, RejectionReason::NotAllowed, "{outside}");
        assert_eq!(rejection.certificate, None);
    }
    // The site's key may not certify a neighbor either.
    let neighbor = site.issue("/p/other");
    let rejection = rejected_with(&mut verifier, &[&site, &neighbor], neighbor.data("/p/other/x"));
    assert_eq!(rejection.why, RejectionReason::NotAllowed);
    assert_eq!(rejection.certificate.as_ref().map(Name::as_name), Some(neighbor.certificate.name()));
}

#[test]
fn a_false_key_locator_is_refused() {
    let root = Party::root("/p");
    let mallory = Party::root("/mallory");
    // Mallory signs with a key of her own under the name of the anchor's key.
    let claimed = Signer::new(root.certificate.name().to_name(), Arc::clone(&mallory.key));
    let data = sign_data(&DataBuilder::new(name("/p/x").as_name()), b"evil", &claimed).unwrap();
    assert_eq!(rejected(&mut verifier(&[&root]), data).why, RejectionReason::BadSignature);
    let ecdsa = Signer::new(
        root.certificate.name().to_name(),
        Arc::new(PrivateKey::generate(KeyType::EcdsaP256).unwrap()),
    );
    let data = sign_data(&DataBuilder::new(name("/p/x").as_name()), b"evil", &ecdsa).unwrap();
    assert_eq!(rejected(&mut verifier(&[&root]), data).why, RejectionReason::KeyTypeMismatch);
}

#[test]
fn signatures_without_a_key_name_are_refused() {
    let root = Party::root("/p");
    let mut verifier = verifier(&[&root]);
    for locator in ["/", "/p", "/p/KEY", "/p/x/y"] {
        let signer = Signer::new(name(locator), Arc::clone(&root.key));
        let data = sign_data(&DataBuilder::new(name("/p/x").as_name()), b"", &signer).unwrap();
        assert_eq!(rejected(&mut verifier, data).why, RejectionReason::NoKeyName, "{locator}");
    }
    let unnamed = namely_wire::SignatureInfo::new(SignatureType::Ed25519, None);
    let data = DataBuilder::new(name("/p/x").as_name()).build(b"", &unnamed).finish(&[0; 64]);
    assert_eq!(rejected(&mut verifier, data).why, RejectionReason::NoKeyName);
    let unknown = namely_wire::SignatureInfo::new(SignatureType::Other(77), Some(name("/p/KEY/k")));
    let data = DataBuilder::new(name("/p/x").as_name()).build(b"", &unknown).finish(&[0; 64]);
    assert_eq!(rejected(&mut verifier, data).why, RejectionReason::UnknownSignatureType(77));
}

#[test]
fn octets_that_are_not_data_are_refused() {
    let mut verifier = verifier(&[]);
    for octets in [&b""[..], &[6], &[6, 0], &[5, 2, 7, 0], &[6, 255, 255, 255, 255, 255, 255, 255, 255, 255]]
    {
        assert!(matches!(rejected(&mut verifier, octets.to_vec()).why, RejectionReason::Malformed(_)));
    }
}

mod validity_periods {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn an_anchor_is_valid_within_its_period() {
        let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
        let key_name = name("/p/KEY/k");
        let now_s = NOW_NS / SECOND_NS;
        let period = ValidityPeriod { not_before_s: now_s, not_after_s: now_s + 10 };
        let certificate = Certificate::self_signed(key_name.as_name(), &key, period, 1).unwrap();
        let root = Party { key, certificate };
        let mut verifier = verifier(&[&root]);
        let mut why_at = |now_ns| match verifier.verify(root.data("/p/x"), now_ns) {
            Verdict::Verified(_) => None,
            Verdict::Rejected(rejection) => {
                assert_eq!(rejection.certificate.as_ref().map(Name::as_name), Some(root.certificate.name()));
                Some(rejection.why)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(why_at(NOW_NS - 1), Some(RejectionReason::NotYetValid { not_before_s: now_s }));
        assert_eq!(why_at(NOW_NS), None);
        assert_eq!(why_at(NOW_NS + 11 * SECOND_NS - 1), None);
        assert_eq!(
            why_at(NOW_NS + 11 * SECOND_NS),
            Some(RejectionReason::Expired { not_after_s: now_s + 10 })
        );
    }

    #[test]
    fn an_expired_certificate_in_a_chain_is_named() {
        let root = Party::root("/p");
        let now_s = NOW_NS / SECOND_NS;
        let past = ValidityPeriod { not_before_s: 0, not_after_s: now_s - 1 };
        let site = root.issue_for("/p/site", past);
        let host = site.issue("/p/site/host");
        let rejection = rejected_with(&mut verifier(&[&root]), &[&site, &host], host.data("/p/site/host/x"));
        assert_eq!(rejection.why, RejectionReason::Expired { not_after_s: now_s - 1 });
        assert_eq!(rejection.certificate.as_ref().map(Name::as_name), Some(site.certificate.name()));
        let message = rejection.to_string();
        assert!(
            message.contains("/p/site/KEY/k/ca/v=1") && message.contains("expired at 2027-"),
            "{message}"
        );
        let future = root.issue_for("/p/late", ValidityPeriod { not_before_s: now_s + 1, ..year() });
        let rejection = rejected_with(&mut verifier(&[&root]), &[&future], future.data("/p/late/x"));
        assert_eq!(rejection.why, RejectionReason::NotYetValid { not_before_s: now_s + 1 });
    }

    #[test]
    fn an_expired_issuer_invalidates_its_certificates() {
        let root = Party::root("/p");
        let now_s = NOW_NS / SECOND_NS;
        let short = ValidityPeriod { not_before_s: 0, not_after_s: now_s };
        let site = root.issue_for("/p/site", short);
        let host = site.issue("/p/site/host");
        let mut verifier = verifier(&[&root]);
        [&site, &host].iter().for_each(|party| verifier.supply_certificate(party.certificate.clone()));
        verified(&mut verifier, host.data("/p/site/host/x"));
        let later_ns = NOW_NS + SECOND_NS;
        let data = host.data("/p/site/host/x");
        let Verdict::NeedCertificate(needed) = verifier.verify(data, later_ns) else { panic!() };
        assert_eq!(needed.certificate.as_name(), host.certificate.name());
    }
}

mod chains {
    use super::*;

    /// The parties `/p/0`, `/p/0/1`, and so on. `root` certifies the first one, and each party
    /// certifies the next one.
    fn line(root: &Party, length: usize) -> Vec<Party> {
        let mut parties: Vec<Party> = Vec::new();
        let mut identity = String::from("/p");
        for n in 0..length {
            identity = format!("{identity}/{n}");
            parties.push(parties.last().unwrap_or(root).issue(&identity));
        }
        parties
    }

    fn line_outcome(length: usize, depth_max: usize) -> Verdict<Vec<u8>> {
        let root = Party::root("/p");
        let parties = line(&root, length);
        let mut policy = TrustPolicy::hierarchical();
        policy.add_anchor(root.certificate.clone()).set_depth_max(depth_max);
        let mut verifier = Verifier::new(policy);
        parties.iter().for_each(|party| verifier.supply_certificate(party.certificate.clone()));
        let last = parties.last().unwrap_or(&root);
        let below = Name::from(last.certificate.identity()).join_generic("x").to_string();
        verifier.verify(last.data(&below), NOW_NS)
    }

    #[test]
    fn a_chain_is_limited_by_the_policy() {
        for depth_max in [0, 1, 5] {
            assert!(matches!(line_outcome(depth_max, depth_max), Verdict::Verified(_)));
            let Verdict::Rejected(rejection) = line_outcome(depth_max + 1, depth_max) else { panic!() };
            assert_eq!(rejection.why, RejectionReason::TooDeep(depth_max));
        }
    }

    #[test]
    fn a_validated_upper_half_keeps_the_depth_limit() {
        let root = Party::root("/p");
        let parties = line(&root, 3);
        let mut policy = TrustPolicy::hierarchical();
        policy.add_anchor(root.certificate.clone()).set_depth_max(2);
        let mut verifier = Verifier::new(policy);
        parties.iter().for_each(|party| verifier.supply_certificate(party.certificate.clone()));
        verified(&mut verifier, parties[1].data("/p/0/1/x"));
        assert_eq!(rejected(&mut verifier, parties[2].data("/p/0/1/2/x")).why, RejectionReason::TooDeep(2));
    }

    #[test]
    fn circular_certificates_are_refused() {
        let root = Party::root("/p");
        let signs = |by: &str, key: &Arc<PrivateKey>, of: &str| {
            let signer = Signer::new(name(by), Arc::clone(key));
            let issued =
                Certificate::issue(name(of).as_name(), key.public(), &signer, "x", year(), 1).unwrap();
            Party { key: Arc::clone(key), certificate: issued }
        };
        let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
        let a = signs("/p/KEY/b", &key, "/p/KEY/a");
        let b = signs("/p/KEY/a", &key, "/p/KEY/b");
        let mut verifier = verifier(&[&root]);
        assert_eq!(rejected_with(&mut verifier, &[&a, &b], a.data("/p/x")).why, RejectionReason::Loop);
        let selfish = Party::root("/p");
        let selfish = signs("/p/KEY/s", &selfish.key, "/p/KEY/s");
        assert_eq!(
            rejected_with(&mut verifier, &[&selfish], selfish.data("/p/x")).why,
            RejectionReason::UntrustedRoot
        );
    }

    #[test]
    fn a_forged_certificate_never_blocks_the_real_one() {
        let root = Party::root("/p");
        let site = root.issue("/p/site");
        let mallory = Party::root("/p");
        let forged = {
            let signer = Signer::new(root.certificate.key_name().to_name(), Arc::clone(&mallory.key));
            Certificate::issue(site.certificate.key_name(), mallory.key.public(), &signer, "ca", year(), 2)
        };
        let mut verifier = verifier(&[&root]);
        let by_key_name = Signer::new(site.certificate.key_name().to_name(), Arc::clone(&site.key));
        let data = sign_data(&DataBuilder::new(name("/p/site/x").as_name()), b"", &by_key_name).unwrap();
        verifier.supply_certificate(forged.unwrap());
        let rejection = rejected(&mut verifier, data.clone());
        assert_eq!(rejection.why, RejectionReason::BadSignature);
        assert!(rejection.certificate.is_some());
        assert_eq!(needed(&mut verifier, data.clone()).as_name(), site.certificate.key_name());
        verifier.supply_certificate(site.certificate.clone());
        verified(&mut verifier, data);
    }

    #[test]
    fn a_disallowed_certificate_fetches_no_signer() {
        let root = Party::root("/p");
        let stranger = Party::root("/q").issue("/p/site");
        let rejection = rejected_with(&mut verifier(&[&root]), &[&stranger], stranger.data("/p/site/x"));
        assert_eq!(rejection.why, RejectionReason::NotAllowed);
        assert_eq!(rejection.certificate.as_ref().map(Name::as_name), Some(stranger.certificate.name()));
    }

    #[test]
    fn a_useless_certificate_is_requested_again() {
        let root = Party::root("/p");
        let selfish = Party::root("/p/site");
        let mut verifier = verifier(&[&root]);
        let data = selfish.data("/p/site/x");
        assert_eq!(
            rejected_with(&mut verifier, &[&selfish], data.clone()).why,
            RejectionReason::UntrustedRoot
        );
        assert_eq!(needed(&mut verifier, data).as_name(), selfish.certificate.name());
    }

    #[test]
    fn forged_data_never_displaces_a_certificate() {
        let root = Party::root("/p");
        let site = root.issue("/p/site");
        let mallory = Signer::new(
            site.certificate.name().to_name(),
            Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap()),
        );
        let forged = sign_data(&DataBuilder::new(name("/p/site/x").as_name()), b"", &mallory).unwrap();
        let mut verifier = verifier(&[&root]);
        verifier.supply_certificate(site.certificate.clone());
        assert_eq!(rejected(&mut verifier, forged).why, RejectionReason::BadSignature);
        verified(&mut verifier, site.data("/p/site/x"));
    }

    #[test]
    fn a_revoked_key_is_refused() {
        let root = Party::root("/p");
        let site = root.issue("/p/site");
        for revoked in [site.certificate.name(), site.certificate.key_name(), root.certificate.name()] {
            let mut policy = TrustPolicy::hierarchical();
            policy.add_anchor(root.certificate.clone()).revoke(revoked.to_name());
            let mut verifier = Verifier::new(policy);
            let rejection = rejected_with(&mut verifier, &[&site], site.data("/p/site/x"));
            assert_eq!(rejection.why, RejectionReason::Revoked, "{revoked}");
        }
    }

    #[test]
    fn the_newest_candidate_certificates_stay() {
        let root = Party::root("/p");
        let sites: Vec<Party> = (0..=CANDIDATES_MAX).map(|n| root.issue(&format!("/p/{n}"))).collect();
        let mut verifier = verifier(&[&root]);
        sites.iter().for_each(|site| verifier.supply_certificate(site.certificate.clone()));
        let first = sites[0].data("/p/0/x");
        assert_eq!(needed(&mut verifier, first).as_name(), sites[0].certificate.name());
        verified(&mut verifier, sites[1].data("/p/1/x"));
    }

    #[test]
    fn the_newest_validated_certificates_stay() {
        let root = Party::root("/p");
        let mut verifier = verifier(&[&root]);
        let mut validate = |n: usize| {
            let site = root.issue(&format!("/p/{n}"));
            verifier.supply_certificate(site.certificate.clone());
            verified(&mut verifier, site.data(&format!("/p/{n}/x")));
            site
        };
        let sites: Vec<Party> = (0..=VALIDATED_MAX).map(&mut validate).collect();
        let first = sites[0].data("/p/0/x");
        assert_eq!(needed(&mut verifier, first).as_name(), sites[0].certificate.name());
        verified(&mut verifier, sites[1].data("/p/1/x"));
    }
}

mod rules {
    use super::*;
    use crate::trust::Rule;

    fn rule(data: &str, key: &str) -> Rule {
        Rule { data: data.parse().unwrap(), key: key.parse().unwrap() }
    }

    #[test]
    fn only_names_matching_a_rule_may_be_signed() {
        let root = Party::root("/cms");
        let site = root.issue("/cms/site/tokyo");
        let mut policy = TrustPolicy::with_rules(vec![
            rule("/cms/data/<site>/<>*", "/cms/site/<site>/KEY/<>"),
            rule("/cms/site/<>/KEY/<>*", "/cms/KEY/<>"),
        ]);
        policy.add_anchor(root.certificate.clone());
        let mut verifier = Verifier::new(policy);
        verifier.supply_certificate(site.certificate.clone());
        verified(&mut verifier, site.data("/cms/data/tokyo/run/v=1"));
        for (party, uri) in [
            (&site, "/cms/data/osaka/run/v=1"),
            (&site, "/cms/site/tokyo/x"),
            (&root, "/cms/data/tokyo/run/v=1"),
        ] {
            assert_eq!(rejected(&mut verifier, party.data(uri)).why, RejectionReason::NotAllowed, "{uri}");
        }
    }

    /// The name of a certificate with IssuerId `KEY` can also be read as another key's name.
    #[test]
    fn a_certificate_name_never_bypasses_the_rules() {
        let root = Party::root("/p");
        let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
        let key_name = name("/p/guest/KEY/k");
        let certificate =
            Certificate::issue(key_name.as_name(), key.public(), &root.signer(), "KEY", year(), 1).unwrap();
        let guest = Party { key, certificate };
        let mut policy = TrustPolicy::with_rules(vec![
            rule("/secret/<>*", "/p/guest/KEY/k/KEY/<>"),
            rule("/p/<>*", "/p/KEY/<>"),
        ]);
        policy.add_anchor(root.certificate.clone());
        let rejection = rejected_with(&mut Verifier::new(policy), &[&guest], guest.data("/secret/x"));
        assert_eq!(rejection.why, RejectionReason::NotAllowed);
    }

    #[test]
    fn rules_without_an_anchor_verify_nothing() {
        let root = Party::root("/p");
        let policy = TrustPolicy::with_rules(vec![rule("/<>*", "/<>*")]);
        assert_eq!(rejected(&mut Verifier::new(policy), root.data("/p/x")).why, RejectionReason::NoAnchor);
    }
}

#[test]
fn prepared_signatures_are_judged_alike() {
    for key_type in [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::Rsa] {
        let root = Party::root_of("/p", key_type);
        // A signature check prepared with another key of the same name must not be used.
        let impostor = Party::root_of("/p", key_type);
        let mut verifier = verifier(&[&root]);
        let good = root.data("/p/file");
        let mut packets = vec![good.clone(), root.data("/q/file"), impostor.data("/p/file"), vec![6, 1]];
        packets.extend((0..good.len()).map(|i| {
            let mut tampered = good.clone();
            tampered[i] ^= 1;
            tampered
        }));
        let reason = verified(&mut verifier, good).reason().clone();
        let preparation = verifier.preparation(&reason).unwrap();
        assert_eq!(preparation, Preparation::Signatures(root.certificate.clone()));
        let others = [
            Preparation::Signatures(impostor.certificate.clone()),
            Preparation::Digests(ManifestHash::Sha256),
            Preparation::Digests(ManifestHash::Blake3),
        ];
        for preparation in [preparation].iter().chain(&others) {
            let prepared = Prepared::each(preparation, packets.clone());
            for (packet, prepared) in packets.iter().zip(prepared) {
                let alone = format!("{:?}", verifier.verify(packet.clone(), NOW_NS));
                assert_eq!(format!("{:?}", verifier.verify_prepared(prepared, NOW_NS)), alone);
            }
        }
    }
}

#[test]
fn prepared_digests_are_judged_alike() {
    let mut verifier = Verifier::new(TrustPolicy::digest_only());
    let name = name("/p/file");
    let good = sign_data(&DataBuilder::new(name.as_name()), b"content", &Signer::digest_sha256()).unwrap();
    let reason = verified(&mut verifier, good.clone()).reason().clone();
    let preparation = verifier.preparation(&reason).unwrap();
    for i in 0..good.len() {
        let mut packet = good.clone();
        packet[i] ^= (i > 0) as u8;
        let alone = format!("{:?}", verifier.verify(packet.clone(), NOW_NS));
        let prepared = Prepared::each(&preparation, [packet]).remove(0);
        assert_eq!(format!("{:?}", verifier.verify_prepared(prepared, NOW_NS)), alone);
    }
}

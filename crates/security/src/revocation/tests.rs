use std::sync::Arc;

use namely_wire::DataView;

use super::*;
use crate::certificate::new_key_name;
use crate::crypto::{KeyType, PrivateKey};
use crate::trust::TrustPolicy;
use crate::validity::ALWAYS;
use crate::verifier::{Verdict, Verifier};

/// An identity's key, a session's key that it issued, and a policy that trusts the identity.
struct World {
    issuer: Signer,
    session: Signer,
    certificate: Certificate,
    verifier: Verifier,
}

fn world() -> World {
    let key = || Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let identity: Name = "/alice".parse().unwrap();
    let (root, root_name) = (key(), new_key_name(identity.as_name()).unwrap());
    let anchor = Certificate::self_signed(root_name.as_name(), &root, ALWAYS, 1).unwrap();
    let issuer = Signer::new(anchor.name().to_name(), root);
    let prefix: Name = "/alice/video".parse().unwrap();
    let (own, own_name) = (key(), new_key_name(prefix.as_name()).unwrap());
    let certificate =
        Certificate::issue(own_name.as_name(), own.public(), &issuer, "session", ALWAYS, 7).unwrap();
    let mut policy = TrustPolicy::hierarchical();
    policy.add_anchor(anchor);
    let mut verifier = Verifier::new(policy);
    verifier.supply(certificate.wire()).unwrap();
    World { issuer, session: Signer::new(certificate.name().to_name(), own), certificate, verifier }
}

impl World {
    fn verified(&mut self, wire: Vec<u8>) -> Verified {
        match self.verifier.verify(wire, 0) {
            Verdict::Verified(data) => data,
            other => panic!("{other:?}"),
        }
    }

    fn read(&mut self, wire: Vec<u8>) -> Result<RevocationStatement, RevocationError> {
        let data = self.verified(wire);
        RevocationStatement::read(&data, &self.certificate.clone())
    }
}

const REVOKED: RevocationStatement =
    RevocationStatement { status: RevocationStatus::Revoked(RevocationReason::Superseded), time_ms: 1_000 };
const GOOD: RevocationStatement = RevocationStatement { status: RevocationStatus::Good, time_ms: 2_000 };

#[test]
fn a_revocation_record_matches_ndnrevoke_names() {
    let mut world = world();
    let wire = REVOKED.sign(&world.certificate, 5_000, &world.issuer).unwrap();
    let data = DataView::parse(&wire).unwrap();
    let name = data.name.to_string();
    assert!(name.starts_with("/alice/video/REVOKE/") && name.ends_with("/session/v=7/session"), "{name}");
    assert_eq!(data.content_type, ContentType::Blob);
    assert!(is_about_revocation(data.name, "/alice/video".parse::<Name>().unwrap().as_name()));
    assert!(!is_about_revocation(world.certificate.name(), world.certificate.identity()));
    assert_eq!(world.read(wire), Ok(REVOKED));

    let wire = GOOD.sign(&world.certificate, 5_000, &world.issuer).unwrap();
    let name = DataView::parse(&wire).unwrap().name.to_string();
    assert!(name.contains("/session/v=7/session/nack/"), "{name}");
    assert_eq!(world.read(wire), Ok(GOOD));
}

#[test]
fn a_key_may_only_revoke_itself() {
    let mut world = world();
    let wire = REVOKED.sign(&world.certificate, 5_000, &world.session).unwrap();
    assert_eq!(world.read(wire), Ok(REVOKED));
    let wire = GOOD.sign(&world.certificate, 5_000, &world.session).unwrap();
    let key = world.certificate.key_name().to_name();
    assert_eq!(world.read(wire), Err(RevocationError::OtherSigner(key)));
}

#[test]
fn another_sessions_key_cannot_revoke_this_one() {
    let mut world = world();
    let other = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let name = new_key_name(world.certificate.identity()).unwrap();
    let certificate =
        Certificate::issue(name.as_name(), other.public(), &world.issuer, "session", ALWAYS, 8).unwrap();
    world.verifier.supply(certificate.wire()).unwrap();
    let stranger = Signer::new(certificate.name().to_name(), other);
    for statement in [REVOKED, GOOD] {
        let wire = statement.sign(&world.certificate, 5_000, &stranger).unwrap();
        assert_eq!(world.read(wire), Err(RevocationError::OtherSigner(name.clone())));
    }
    // A record of the other certificate is no statement about this one.
    let wire = REVOKED.sign(&certificate, 5_000, &world.issuer.clone()).unwrap();
    assert!(matches!(world.read(wire), Err(RevocationError::OtherName(_))));
}

#[test]
fn an_inconsistent_revocation_record_is_refused() {
    let mut world = world();
    let name = revocation_prefix(world.certificate.name()).unwrap().join_generic("session");
    let mut sign = |content_type, content: &[u8]| {
        let builder = DataBuilder::new(name.as_name()).content_type(content_type).freshness_ms(1);
        let wire = sign_data(&builder, content, &world.issuer.clone()).unwrap();
        world.read(wire)
    };
    assert!(matches!(sign(ContentType::Nack, &[201, 1, 1, 204, 1, 0]), Err(RevocationError::OtherName(_))));
    assert!(matches!(sign(ContentType::Blob, &[201, 1, 1, 204, 1, 0]), Err(RevocationError::OtherName(_))));
    let missing = Err(RevocationError::Encoding(DecodeError::Missing(TLV_TIMESTAMP)));
    assert_eq!(sign(ContentType::Blob, &[203, 1, 0]), missing);
    assert_eq!(sign(ContentType::Blob, &[201, 1, 1, 202, 1, 9, 203, 1, 0]), Err(RevocationError::OtherKey));
    assert_eq!(
        sign(ContentType::Blob, &[201, 1, 1, 203, 1, 9]).map(|said| said.status),
        Ok(RevocationStatus::Revoked(RevocationReason::Other(9)))
    );
}

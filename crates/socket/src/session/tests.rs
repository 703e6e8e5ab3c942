use namely_security::validity::ALWAYS;
use namely_security::{KeyType, NewKey};
use namely_wire::{CertificateName, ValidityPeriod};

use super::*;

/// A key chain with a key for `/p`, whose certificate is valid for the given number of seconds from
/// now on.
struct World {
    dir: tempfile::TempDir,
    now_s: u64,
}

impl World {
    fn new(seconds: u64) -> Self {
        let world = World { dir: tempfile::tempdir().unwrap(), now_s: unix_ms() / 1_000 };
        let identity: Name = "/p".parse().unwrap();
        let new = NewKey {
            identity: identity.as_name(),
            key_type: KeyType::Ed25519,
            validity: world.validity(seconds),
            version: 1,
            passphrase: None,
        };
        world.chain().generate(&new).unwrap();
        world
    }

    fn chain(&self) -> KeyChain {
        KeyChain::open(self.dir.path().join("keys")).unwrap()
    }

    fn validity(&self, seconds: u64) -> ValidityPeriod {
        ValidityPeriod { not_before_s: self.now_s - 1, not_after_s: self.now_s + seconds }
    }

    /// Adds a certificate of the identity to the key chain.
    fn renew(&self, version: u64, validity: ValidityPeriod) {
        let entry = self.chain().key(None).unwrap();
        let key = Arc::new(self.chain().private_key(entry.name.as_name(), None).unwrap());
        let certificate = Certificate::self_signed(entry.name.as_name(), &key, validity, version).unwrap();
        self.chain().add_certificate(&certificate).unwrap();
    }

    fn options(&self) -> ProducerOptions {
        ProducerOptions { keychain: Some(self.dir.path().join("keys")), ..ProducerOptions::default() }
    }

    fn open(&self, options: &ProducerOptions) -> Result<Session, BindError> {
        let store = self.dir.path().join("store");
        Session::open(&"/p/s".parse().unwrap(), options, options.reliable.then_some(&store))
    }

    /// The time `seconds` after the key chain was created, ms since the Unix epoch.
    fn after(&self, seconds: u64) -> u64 {
        (self.now_s + seconds) * 1_000
    }
}

fn versions(session: &Session) -> Vec<Option<u64>> {
    let version = |c: &Certificate| CertificateName::parse(c.name()).unwrap().version();
    session.state().keys.iter().flat_map(|key| &key.certificates).map(|i| version(&i.certificate)).collect()
}

#[test]
fn a_session_renews_after_two_thirds() {
    let world = World::new(900);
    let session = world.open(&world.options()).unwrap();
    assert_eq!(session.renew_at(world.after(590)), Renewal::NotDue);
    assert!(session.rest() > Duration::from_secs(50) && session.rest() <= LOOK_MAX);
    // There is no newer certificate. The session checks again when a third of the remaining
    // lifetime has passed, and each second at the end.
    let mut looks = Vec::new();
    for seconds in 600..=905 {
        if session.renew_at(world.after(seconds)) == Renewal::Missing {
            looks.push(seconds);
        }
    }
    // The session began a third of a second later for each second that this thread stalled.
    assert!((600..=610).contains(&looks[0]), "{looks:?}");
    assert!((10..30).contains(&looks.len()), "{looks:?}");
    assert!(looks.ends_with(&[902, 903, 904, 905]), "{looks:?}");
    // A certificate added after the end is found at the next check. The one that has ended is
    // removed.
    world.renew(2, ALWAYS);
    assert_eq!(session.renew_at(world.after(906)), Renewal::Renewed);
    assert_eq!(session.certificate().unwrap().validity().not_after_s, ALWAYS.not_after_s);
    assert_eq!(versions(&session).len(), 1);
    assert_eq!(session.renew_at(world.after(2_000)), Renewal::NotDue);
}

#[test]
fn a_closed_session_revokes_all_its_certificates() {
    let world = World::new(900);
    let session = world.open(&world.options()).unwrap();
    let (first, signer) = (session.certificate().unwrap(), session.signer(Suite::Ed25519).unwrap());
    assert_eq!(signer.key_name().unwrap().as_name(), first.key_name(), "whichever certificate is valid");
    world.renew(2, world.validity(90_000));
    assert_eq!(session.renew_at(world.after(700)), Renewal::Renewed);
    let second = session.certificate().unwrap();
    assert_eq!((second.key_name(), second.identity()), (first.key_name(), first.identity()));
    assert_eq!(second.validity(), world.validity(90_000));
    let issuer: Name = world.chain().key(None).unwrap().certificates[0].name().to_name();
    assert_eq!(second.signer_name(), Some(issuer.as_name()), "the newer one vouches");
    assert_eq!(session.certificates()[..2], [second.clone(), first.clone()], "the newest first");
    // The session states that both certificates are good, until it ends.
    for certificate in [&first, &second] {
        let prefix = revocation_prefix(certificate.name()).unwrap();
        let said = session.statement(prefix.as_name()).unwrap();
        assert!(prefix.is_prefix_of(DataView::parse(&said).unwrap().name));
    }
    let records = session.revoke();
    let about = |record: &Vec<u8>| DataView::parse(record).unwrap().name.without_last(1).to_name();
    let revoked: Vec<Name> = records.iter().map(about).collect();
    assert_eq!(revoked, [&first, &second].map(|c| revocation_prefix(c.name()).unwrap()));
}

#[test]
fn an_expired_identity_signs_nothing() {
    let world = World::new(900);
    let session = world.open(&world.options()).unwrap();
    let (identity, key) = {
        let mut state = session.state();
        (state.identity.take().unwrap(), state.keys.pop().unwrap())
    };
    for check in [identity.check(world.after(900)), key.check(world.after(900) + 999)] {
        check.unwrap();
    }
    for check in [identity.check(world.after(901)), key.check(world.after(901))] {
        let error = check.unwrap_err();
        assert_eq!(error.errno(), crate::errno::KEYEXPIRED);
        assert!(error.hint().unwrap().contains("`namely cert import FILE`"), "{error}");
    }
    // A key chain in which all certificates of the identity have ended.
    let past = ValidityPeriod { not_before_s: 1, not_after_s: 2 };
    let world = World::new(0);
    world.renew(2, past);
    world.renew(1, past);
    let error = world.open(&world.options()).unwrap_err();
    assert!(matches!(error, BindError::Ended { not_after_s: 2, .. }), "{error}");
    // A valid certificate is preferred to the default certificate if that one has ended.
    world.renew(3, ALWAYS);
    world.renew(2, past);
    let session = world.open(&world.options()).unwrap();
    assert_eq!(session.certificate().unwrap().validity(), ALWAYS);
}

#[test]
fn an_expired_kept_session_keeps_its_key() {
    let world = World::new(900);
    let options = ProducerOptions { reliable: true, ..world.options() };
    let session = world.open(&options).unwrap();
    let first = session.certificate().unwrap();
    world.renew(2, world.validity(90_000));
    assert_eq!(session.renew_at(world.after(700)), Renewal::Renewed);
    let second = session.certificate().unwrap();
    drop(session);
    // The resumed session has both certificates, so that its end revokes both.
    let session = world.open(&options).unwrap();
    assert_eq!(session.certificates()[..2], [second.clone(), first.clone()]);
    drop(session);
    // Simulates passed time: the store has only a certificate that has ended.
    let kept = KeyChain::open(world.dir.path().join("store").join(KEPT_FOLDER)).unwrap();
    let past = ValidityPeriod { not_before_s: 1, not_after_s: 2 };
    let key = kept.private_key(first.key_name(), None).unwrap();
    let signer = world.chain().signer(None, None).unwrap();
    let ended = Certificate::issue(first.key_name(), key.public(), &signer, ISSUER_ID, past, 7).unwrap();
    kept.add_certificate(&ended).unwrap();
    kept.delete(first.name()).unwrap();
    kept.delete(second.name()).unwrap();
    let session = world.open(&options).unwrap();
    let third = session.certificate().unwrap();
    assert_eq!((third.key_name(), third.validity()), (first.key_name(), world.validity(90_000)));
    assert_eq!(versions(&session).len(), 1);
    session.revoke();
    assert!(kept.list().unwrap().keys.is_empty());
}

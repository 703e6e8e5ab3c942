//! Sessions (HT-06, HT-10, HT-11): a producer's namespace, route, key and certificate from bind to
//! close.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use common::{World, content, name};
use namely_messages::{Dataset, RibEntry, Scope, blocks};
use namely_security::{
    Certificate, HmacKey, KeyChain, KeyType, PrivateKey, RevocationReason, RevocationStatement,
    RevocationStatus, TrustPolicy, Verifier, new_key_name, revocation_prefix,
};
use namely_socket::{
    BindError, Consumer, ConsumerOptions, Datagram, Producer, ProducerOptions, PublishOptions, Suite, Trust,
    application_name, network_name,
};
use namely_testkit::{PATIENCE, eventually, until};
use namely_transport::connection::{Connection, Options};
use namely_transport::object::{Discovery, ReadOptions};
use namely_wire::ValidityPeriod;
use namely_wire::{ContentType, InterestBuilder, Name};

fn connection(world: &World) -> Connection {
    Connection::find(Some(&world.uri()), Options::default()).unwrap()
}

/// The revocation status of `certificate` for a consumer that trusts the user's keys; `None`
/// without an answer.
fn status(world: &World, certificate: &Certificate) -> Option<RevocationStatus> {
    let chain = KeyChain::open(world.keychain()).unwrap();
    let mut verifier = Verifier::new(chain.hierarchical_policy().unwrap().0);
    let mut connection = connection(world);
    let options = ReadOptions { attempts: 1, lifetime_ms: 20_000, ..ReadOptions::default() };
    let mut discovery = Discovery::new(&mut connection, &mut verifier, options);
    let prefix = revocation_prefix(certificate.name()).unwrap();
    let interest = InterestBuilder::new(prefix.clone()).can_be_prefix().must_be_fresh().lifetime_ms(20_000);
    let data = discovery.packet(&interest, prefix.as_name()).ok()?;
    Some(RevocationStatement::read(&data, certificate).unwrap().status)
}

#[test]
fn a_session_key_signs_below_its_prefix() {
    let world = World::new();
    let producer = world.producer("/p/video");
    let certificate = producer.certificate().unwrap();
    assert_eq!(certificate.identity(), name("/p/video").as_name());
    assert!(certificate.name().to_string().contains("/session/v="), "{}", certificate.name());
    assert!(name("/p/KEY").is_prefix_of(certificate.signer_name().unwrap()));
    producer.publish(&name("/p/video/1"), &content(20_000), &PublishOptions::default()).unwrap();
    // The consumer knows the identity, and fetches the certificate of the session.
    assert_eq!(world.consumer("/p").fetch(&name("/p/video/1")).unwrap(), content(20_000));
    assert!(producer.stats().certificates >= 1);
}

#[test]
fn a_key_of_another_identity_is_refused() {
    let world = World::new();
    world.add_key("/other", KeyType::Ed25519);
    let options = ProducerOptions { identity: Some(name("/other")), ..world.producer_options() };
    let producer = Producer::bind(name("/p/x"), options).unwrap();
    producer.publish(&name("/p/x/1"), b"forged", &PublishOptions::default()).unwrap();
    let refused = world.consumer("/p").fetch(&name("/p/x/1")).unwrap_err();
    assert_eq!(refused.errno(), 129, "{refused}");
    drop(producer);
    let nobody = Producer::bind(name("/nobody"), world.producer_options()).err().unwrap();
    assert!(matches!(nobody, BindError::NoKey { .. }), "{nobody}");
}

#[test]
fn closing_publishes_the_revocation() {
    let world = World::new();
    let producer = world.producer("/p/s");
    let certificate = producer.certificate().unwrap();
    assert_eq!(status(&world, &certificate), Some(RevocationStatus::Good));
    assert_eq!(producer.stats().misses, 0, "the application is not asked");
    producer.close();
    let revoked = until("it is revoked", || {
        status(&world, &certificate).filter(|status| *status != RevocationStatus::Good)
    });
    assert_eq!(revoked, RevocationStatus::Revoked(RevocationReason::Superseded));
    // The next session of the same namespace has another key, and the record is still there.
    let next = world.producer("/p/s");
    let new = next.certificate().unwrap();
    assert_ne!(new.key_name(), certificate.key_name());
    assert_eq!(status(&world, &new), Some(RevocationStatus::Good));
    assert_eq!(status(&world, &certificate), Some(RevocationStatus::Revoked(RevocationReason::Superseded)));
}

#[test]
fn revocation_refuses_previously_verified_data() {
    let world = World::new();
    let producer = world.producer("/p/s");
    let published = producer.publish(&name("/p/s/o"), &content(20_000), &PublishOptions::default()).unwrap();
    let fetch = || world.consumer("/p").fetch(&published.name);
    assert_eq!(fetch().unwrap(), content(20_000));
    producer.close();
    // The router's cache has all of it still, until a consumer reports it as refused.
    let careless = world.consumer("/p");
    careless.set_option("revocation", "off").unwrap();
    assert_eq!(careless.fetch(&published.name).unwrap(), content(20_000));
    let refused = until("it is refused", || fetch().err());
    assert_eq!(refused.errno(), 128, "{refused}");
}

/// A producer's session that ends, and the next one below the same prefix.
fn next_session(world: &World, first: &Producer) -> Producer {
    let certificate = first.certificate().unwrap();
    first.close();
    until("it is revoked", || status(world, &certificate).filter(|status| *status != RevocationStatus::Good));
    world.producer("/p/s")
}

#[test]
fn a_copy_by_a_revoked_key_is_replaced() {
    let world = World::new();
    let how = PublishOptions { version: Some(7), freshness_ms: Some(3_600_000), ..PublishOptions::default() };
    let object = name("/p/s/o").join_version(7);
    let first = world.producer("/p/s");
    first.publish(&name("/p/s/o"), &content(20_000), &how).unwrap();
    assert_eq!(world.consumer("/p").fetch(&object).unwrap(), content(20_000));
    let second = next_session(&world, &first);
    second.publish(&name("/p/s/o"), &content(20_000), &how).unwrap();
    let careful = world.consumer("/p");
    careful.set_option("revocation", "require").unwrap();
    let fetched = until("the second session's copy comes", || careful.fetch(&object).ok());
    assert_eq!(fetched, content(20_000));
}

#[test]
fn a_reply_by_a_revoked_key_is_replaced() {
    let world = World::new();
    let how = PublishOptions { freshness_ms: Some(3_600_000), ..PublishOptions::default() };
    let datagram = Datagram::new(name("/p/s/now"));
    let serve = |producer: &Producer, content: &[u8]| {
        while let Ok(request) = producer.recv_timeout(PATIENCE) {
            producer.reply(&request, content, &how).unwrap();
        }
    };
    let first = world.producer("/p/s");
    std::thread::scope(|scope| {
        scope.spawn(|| serve(&first, b"old"));
        assert_eq!(world.consumer("/p").request(&datagram).unwrap().content, b"old");
        let second = Arc::new(next_session(&world, &first));
        let (serving, serve) = (second.clone(), &serve);
        scope.spawn(move || serve(&serving, b"new"));
        let ask = || world.consumer("/p").request(&datagram).ok().filter(|reply| reply.content == b"new");
        until("the second session replies", ask);
        second.close();
    });
}

#[test]
fn a_reliable_session_persists_in_its_store() {
    let world = World::new();
    let options = ProducerOptions {
        reliable: true,
        store: Some(world.dir.path().join("store")),
        ..world.producer_options()
    };
    let bind = || Producer::bind(name("/p/r"), options.clone()).unwrap();
    let first = bind();
    let certificate = first.certificate().unwrap();
    drop(first);
    let second = bind();
    assert_eq!(second.certificate().unwrap(), certificate);
    assert_eq!(status(&world, &certificate), Some(RevocationStatus::Good));
    second.revoke();
    let revoked = until("it is revoked", || {
        status(&world, &certificate).filter(|status| *status != RevocationStatus::Good)
    });
    assert_eq!(revoked, RevocationStatus::Revoked(RevocationReason::Superseded));
    let third = bind();
    assert_ne!(third.certificate().unwrap(), certificate);
    assert_eq!(status(&world, &certificate), Some(RevocationStatus::Revoked(RevocationReason::Superseded)));
}

fn unix_s() -> u64 {
    namely_host::clock::since_epoch().as_secs()
}

/// A certificate by `/p` for the key of `/p/site`, which is made if there is none.
fn site_certificate(world: &World, version: u64, not_after_s: u64) -> Certificate {
    let chain = KeyChain::open(world.keychain()).unwrap();
    let known = chain.key(Some(name("/p/site").as_name()));
    let (key_name, key) = match &known {
        Ok(entry) => (entry.name.clone(), chain.private_key(entry.name.as_name(), None).unwrap()),
        Err(_) => (
            new_key_name(name("/p/site").as_name()).unwrap(),
            PrivateKey::generate(KeyType::Ed25519).unwrap(),
        ),
    };
    let validity = ValidityPeriod { not_before_s: unix_s() - 1, not_after_s };
    let issued =
        Certificate::issue(key_name.as_name(), key.public(), &world.signer("/p"), "test", validity, version);
    let certificate = issued.unwrap();
    match known {
        Ok(_) => chain.add_certificate(&certificate).unwrap(),
        Err(_) => chain.insert(&key, &certificate, None).unwrap(),
    }
    certificate
}

#[test]
fn a_bound_socket_renews_its_certificate() {
    let world = World::new();
    // Two thirds of it suffice for a busy machine until the newer certificate is there.
    let ends_s = unix_s() + 20;
    site_certificate(&world, 1, ends_s);
    let producer = world.producer("/p/site/s");
    let first = producer.certificate().unwrap();
    assert_eq!((first.validity().not_after_s, producer.certificate_ends_s()), (ends_s, Some(ends_s)));
    let before =
        producer.publish(&name("/p/site/s/1"), &content(20_000), &PublishOptions::default()).unwrap();
    let early = world.consumer("/p");
    assert_eq!(early.fetch(&before.name).unwrap(), content(20_000));
    site_certificate(&world, 2, unix_s() + 100_000);
    eventually("it is renewed", || producer.certificate() != Some(first.clone()));
    let second = producer.certificate().unwrap();
    assert_eq!(second.key_name(), first.key_name());
    assert_eq!(producer.option("certificate_ends_s").unwrap(), second.validity().not_after_s.to_string());
    // The renewal is counted after the certificate is in place.
    eventually("it is counted", || producer.stats().renewals == 1);
    assert_eq!(producer.stats().renewals_missing, 0);
    for certificate in [&first, &second] {
        assert_eq!(status(&world, certificate), Some(RevocationStatus::Good));
    }
    // Caches still have the first certificate, and do not return it for MustBeFresh.
    eventually("the first has ended", || unix_s() > ends_s);
    let after = producer.publish(&name("/p/site/s/2"), &content(30_000), &PublishOptions::default()).unwrap();
    for consumer in [early, world.consumer("/p")] {
        assert_eq!(consumer.fetch(&before.name).unwrap(), content(20_000));
        assert_eq!(consumer.fetch(&after.name).unwrap(), content(30_000));
    }
    producer.close();
    until("the second is revoked", || {
        status(&world, &second).filter(|status| *status != RevocationStatus::Good)
    });
    assert_eq!(status(&world, &first), Some(RevocationStatus::Revoked(RevocationReason::Superseded)));
    for published in [before, after] {
        let refused = until("it is refused", || world.consumer("/p").fetch(&published.name).err());
        assert_eq!(refused.errno(), 128, "{refused}");
    }
}

#[test]
fn signing_resumes_with_a_newer_certificate() {
    let world = World::new();
    // Long enough for a busy machine to bind and publish meanwhile.
    site_certificate(&world, 1, unix_s() + 10);
    let producer = world.producer("/p/site/s");
    let publish = |version| {
        let how = PublishOptions { version: Some(version), ..PublishOptions::default() };
        producer.publish(&name("/p/site/s/o"), &content(20_000), &how)
    };
    publish(1).unwrap();
    until("it is refused", || publish(1).err());
    let refused = publish(2).unwrap_err();
    assert_eq!(refused.errno(), 127, "{refused}");
    assert!(refused.hint().unwrap().contains("`namely cert import FILE`"), "{refused}");
    let consumer = world.consumer("/p");
    assert_eq!(consumer.fetch(&name("/p/site/s/o").join_version(1)).unwrap_err().errno(), 127);
    consumer.set_option("timeout_ms", "1000").unwrap();
    assert_eq!(consumer.fetch(&name("/p/site/s/o").join_version(2)).unwrap_err().errno(), 110, "not there");
    eventually("a renewal is missing", || producer.stats().renewals_missing > 0);
    let late = Producer::bind(name("/p/site/late"), world.producer_options()).err().unwrap();
    assert!(matches!(&late, BindError::Ended { .. }) && late.errno() == 127, "{late}");
    site_certificate(&world, 2, unix_s() + 100_000);
    until("it publishes again", || publish(2).ok());
    // The first version too: its key has a certificate again.
    for version in [1, 2] {
        let object = name("/p/site/s/o").join_version(version);
        assert_eq!(world.consumer("/p").fetch(&object).unwrap(), content(20_000));
    }
}

#[test]
fn a_route_lasts_from_bind_to_close() {
    let world = World::new();
    let routes = || {
        let mut connection = connection(&world);
        let mut verifier = Verifier::new(TrustPolicy::insecure_accept_all());
        let mut discovery = Discovery::new(&mut connection, &mut verifier, ReadOptions::default());
        let dataset = Dataset::RibList.prefix(Scope::Localhost);
        let object = discovery.find_by_prefix(dataset.as_name()).unwrap();
        let trust = Trust::Policy(TrustPolicy::insecure_accept_all().into());
        let consumer = Consumer::bind(Name::new(), ConsumerOptions { trust, ..world.consumer_options() });
        let content = consumer.unwrap().fetch(&object.name).unwrap();
        blocks::<RibEntry>(&content).map(|entry| entry.unwrap().prefix.to_string()).collect::<Vec<_>>()
    };
    let prefix = "/p/route".to_owned();
    let producer = world.producer(&prefix);
    assert!(routes().contains(&prefix));
    producer.close();
    assert!(!routes().contains(&prefix));
}

#[test]
fn overlapping_prefixes_in_a_process_are_refused() {
    let world = World::new();
    let first = world.producer("/p/a");
    for prefix in ["/p/a", "/p/a/b", "/p"] {
        let refused = Producer::bind(name(prefix), world.producer_options()).err().unwrap();
        assert!(matches!(&refused, BindError::InUse { by } if *by == name("/p/a")), "{refused}");
        assert_eq!(refused.errno(), 98);
    }
    world.producer("/p/b");
    first.close();
    world.producer("/p/a/b");
}

#[test]
fn producers_never_evict_each_others_packets() {
    let world = World::without_cache();
    let small = ProducerOptions { buffer_octets: 150_000, ..world.producer_options() };
    let [first, second] = ["/p/a", "/p/b"].map(|prefix| Producer::bind(name(prefix), small.clone()).unwrap());
    let kept = first.publish(&name("/p/a/kept"), &content(100_000), &PublishOptions::default()).unwrap();
    for i in 0..20 {
        second.publish(&name(&format!("/p/b/{i}")), &content(100_000), &PublishOptions::default()).unwrap();
    }
    assert!(second.stats().evicted > 200 && first.stats().evicted == 0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let consumer = world.consumer("/p");
                assert_eq!(consumer.fetch(&kept.name).unwrap(), content(100_000));
                assert_eq!(consumer.fetch(&name("/p/b/19")).unwrap(), content(100_000));
            });
        }
    });
}

#[test]
fn local_ip_routers_accept_their_users_prefix() {
    let world = World::over_ip();
    let uris: Vec<String> = world.router.listening().iter().map(ToString::to_string).collect();
    assert_eq!(uris.len(), 3, "{uris:?}");
    let options =
        |router: &String| ProducerOptions { router: Some(router.clone()), ..world.producer_options() };
    for (i, uri) in uris.iter().enumerate() {
        // A name of its own, because a cache may have Data that the earlier, revoked session
        // signed.
        let object = name(&format!("/p/x/{i}"));
        let producer = Producer::bind(name("/p/x"), options(uri)).unwrap_or_else(|e| panic!("{uri}: {e}"));
        producer.publish(&object, &content(100_000), &PublishOptions::default()).unwrap();
        for router in &uris {
            let options = ConsumerOptions { router: Some(router.clone()), ..world.consumer_options() };
            let consumer = Consumer::bind(name("/p"), options).unwrap();
            assert_eq!(consumer.fetch(&object).unwrap(), content(100_000), "{uri} to {router}");
        }
        let certificate = producer.certificate().unwrap();
        producer.close();
        until("it is revoked", || {
            status(&world, &certificate).filter(|status| *status != RevocationStatus::Good)
        });
    }
    // The router identifies the user, as over a Unix socket, so it requires no key of its own.
    world.add_key("/other", KeyType::Ed25519);
    for uri in &uris {
        Producer::bind(name("/other"), options(uri)).unwrap_or_else(|e| panic!("{uri}: {e}")).close();
    }
}

#[test]
fn closing_never_waits_for_a_gone_router() {
    let world = World::new();
    let producer = world.producer("/p");
    world.router.stop();
    let (closed, waits) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        producer.close();
        let _ = closed.send(());
    });
    waits.recv_timeout(namely_testkit::PATIENCE).expect("it closes without the router");
}

#[test]
fn publish_options_apply_to_one_publication() {
    let world = World::new();
    let key = HmacKey::new(b"a secret of both");
    let shared_key = (name("/p/KEY/shared"), key.clone());
    let options = ProducerOptions { shared_key: Some(shared_key.clone()), ..world.producer_options() };
    let producer = Producer::bind(name("/p"), options).unwrap();
    let consumer = world.consumer("/p");
    let mut policy = TrustPolicy::hierarchical();
    policy.add_shared_key(shared_key.0, shared_key.1);
    let trust = Trust::Policy(policy.into());
    let with_key = ConsumerOptions { trust, ..world.consumer_options() };
    let with_key = Consumer::bind(name("/p"), with_key).unwrap();
    let trust = Trust::Policy(TrustPolicy::digest_only().into());
    let of_digests = ConsumerOptions { trust, ..world.consumer_options() };
    let of_digests = Consumer::bind(name("/p"), of_digests).unwrap();
    let suites = [Suite::Ed25519, Suite::EcdsaP256, Suite::Rsa2048, Suite::Hmac, Suite::DigestSha256];
    for (i, suite) in suites.into_iter().enumerate() {
        for manifest in ["off", "sha256", "blake3"] {
            if suite == Suite::DigestSha256 && manifest == "blake3" {
                continue; // Without digests nothing authenticates the segments.
            }
            let object = name(&format!("/p/{i}/{manifest}"));
            let mut how = PublishOptions {
                suite: Some(suite),
                freshness_ms: Some(1 + i as u64),
                version: Some(5),
                ..PublishOptions::default()
            };
            how.set("manifest", manifest).unwrap();
            let published = producer.publish(&object, &content(30_000), &how).unwrap();
            assert_eq!(published.name, object.join_version(5));
            let consumer = match suite {
                Suite::Hmac => &with_key,
                Suite::DigestSha256 => &of_digests,
                _ => &consumer,
            };
            let fetched = consumer.fetch(&object).unwrap_or_else(|e| panic!("{suite:?} {manifest}: {e}"));
            assert_eq!(fetched, content(30_000));
        }
    }
    let mut connection = connection(&world);
    let interest = InterestBuilder::new(name("/p/2/off").join_version(5).join_segment(0));
    let namely_transport::connection::Answer::Data(reply) = connection.express(&interest).unwrap() else {
        panic!("no answer");
    };
    let data = namely_wire::DataView::parse(&reply.wire).unwrap();
    assert_eq!((data.freshness_ms, data.content_type), (3, ContentType::Blob));
    assert_eq!(data.signature_type, namely_wire::SignatureType::Sha256WithRsa);
}

#[test]
fn application_names_stay_separate_under_one_prefix() {
    let world = World::new();
    let producer = world.producer("/p");
    let consumer = world.consumer("/p");
    let names = ["https://example.org/a/b?c", "doi:10.1000/182", "a"];
    for application in names {
        let network = network_name(&name("/p"), application).unwrap();
        producer.publish(&network, application.as_bytes(), &PublishOptions::default()).unwrap();
    }
    for application in names {
        let network = network_name(consumer.local_prefix(), application).unwrap();
        assert_eq!(consumer.fetch(&network).unwrap(), application.as_bytes());
    }
    // For an object that is not published yet, the application receives a request by its own name.
    std::thread::scope(|scope| {
        let asker =
            scope.spawn(|| consumer.fetch(&network_name(&name("/p"), "urn:x:late").unwrap()).unwrap());
        let request = producer.recv_timeout(Duration::from_secs(20)).unwrap();
        let application = application_name(producer.local_prefix(), request.name());
        assert_eq!(application.as_deref(), Some("urn:x:late"));
        producer.reply(&request, b"late", &PublishOptions::default()).unwrap();
        assert_eq!(asker.join().unwrap(), b"late");
    });
    let unused: Name = name("/p/x");
    assert_eq!(application_name(&name("/p"), unused.as_name()), None);
}

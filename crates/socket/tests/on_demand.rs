//! Synchronous production (HT-22, HT-25): a request that no publication answers reaches the
//! application, and its answer goes to the consumers that wait.

use crate::common;

use std::collections::BTreeSet;
use std::future::Future;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use common::{World, content, name};
use namely_security::{KeyChain, KeyType, has_right_parameters_digest, sha256};
use namely_socket::{
    BindError, CallError, Consumer, ConsumerOptions, Datagram, FetchError, Producer, ProducerOptions,
    PublishError, PublishOptions, RecvError,
};
use namely_testkit::{PATIENCE, asleep, eventually};
use namely_transport::connection::{Answer, Connection, Options};
use namely_transport::object::ObjectError;
use namely_wire::{ContentType, DataView, InterestBuilder, NackReason};
use rustix::event::{PollFd, PollFlags, Timespec};

fn connection(world: &World) -> Connection {
    Connection::find(Some(&world.uri()), Options::default()).unwrap()
}

/// An Interest that no thread of a busy machine drops as late.
fn interest(uri: &str) -> InterestBuilder {
    InterestBuilder::new(name(uri)).lifetime_ms(60_000)
}

/// Sends an Interest without waiting for its answer, which comes over the returned connection.
fn sent(world: &World, interest: InterestBuilder) -> Connection {
    let mut connection = connection(world);
    connection.outbox().send(&Default::default(), &interest.nonce([1; 4]).build());
    connection.turn(connection.now_ns(), &mut |_, _| {}).unwrap();
    connection
}

fn is_readable(producer: &Producer, wait: Duration) -> bool {
    let wait = Timespec::try_from(wait).unwrap();
    rustix::event::poll(&mut [PollFd::new(&producer.as_fd(), PollFlags::IN)], Some(&wait)).unwrap() == 1
}

#[test]
fn a_miss_is_answered_by_the_application() {
    let world = World::new();
    let producer = world.producer("/p");
    assert!(!is_readable(&producer, Duration::ZERO));
    assert!(matches!(producer.try_recv(), Err(CallError::WouldBlock)));
    let refused = producer.recv_timeout(Duration::from_millis(10)).unwrap_err();
    assert_eq!(refused, CallError::TimedOut);
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut connection = connection(&world);
            let wire = interest("/p/sum").build_with_parameters(b"2+3", sha256);
            connection.express_wire(&wire, &mut |_, _| {}).unwrap()
        });
        assert!(is_readable(&producer, PATIENCE));
        let request = producer.recv().unwrap();
        assert!(!is_readable(&producer, Duration::ZERO));
        assert!(name("/p/sum").is_prefix_of(request.name()));
        assert_eq!(request.parameters(), Some(&b"2+3"[..]));
        producer.reply(&request, b"5", &PublishOptions::default()).unwrap();
        let Answer::Data(reply) = asker.join().unwrap() else { panic!("no answer") };
        let data = DataView::parse(&reply.wire).unwrap();
        assert_eq!((data.name, data.content), (request.name(), &b"5"[..]));
    });
    let stats = producer.stats();
    assert_eq!((stats.misses, stats.answered_late, stats.pending), (1, 1, 0));
}

/// HT-18: a consumer signs its request, and the application sees the signer before it answers.
#[test]
fn signed_requests_are_unique_and_authorized() {
    let world = World::new();
    world.add_key("/operator", KeyType::EcdsaP256);
    let key_of = |identity: &str| {
        let chain = KeyChain::open(world.keychain()).unwrap();
        chain.key(Some(name(identity).as_name())).unwrap().certificates[0].clone()
    };
    let (operator, other) = (key_of("/operator"), key_of("/p"));
    let producer = world.producer("/p");
    let identity = Some(name("/operator"));
    let signing =
        Consumer::bind(name("/p"), ConsumerOptions { identity, ..world.consumer_options() }).unwrap();
    let plain = world.consumer("/p");
    let set = Datagram::new(name("/p/set")).with_parameters(*b"on");
    let state = Datagram::new(name("/p/state"));
    let mut names = BTreeSet::new();
    std::thread::scope(|scope| {
        for (consumer, datagram, is_signed) in
            [(&signing, &set, true), (&signing, &set, true), (&signing, &state, true), (&plain, &set, false)]
        {
            let requesting = scope.spawn(move || consumer.request(datagram).unwrap().content);
            let request = producer.recv_timeout(PATIENCE).unwrap();
            assert_eq!(request.signer(), is_signed.then(|| operator.name()), "{request:?}");
            assert_eq!(request.is_signed_by(operator.public_key()), is_signed);
            assert!(!request.is_signed_by(other.public_key()));
            assert!(!is_signed || has_right_parameters_digest(&request.interest()));
            assert!(names.insert(request.name().to_name()), "another SignatureNonce and time");
            let answer = if is_signed { "done" } else { "who are you?" };
            producer.reply(&request, answer.as_bytes(), &PublishOptions::default()).unwrap();
            assert_eq!(requesting.join().unwrap(), answer.as_bytes());
        }
    });
    let identity = Some(name("/nobody"));
    let options = ConsumerOptions { identity, ..world.consumer_options() };
    assert!(matches!(Consumer::bind(name("/p"), options), Err(BindError::KeyChain(_))));
}

#[test]
fn a_discovery_interest_gets_the_replied_object() {
    let world = World::new();
    let producer = world.producer("/p");
    let consumer = world.consumer("/p");
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| consumer.fetch(&name("/p/report")).unwrap());
        let request = producer.recv_timeout(PATIENCE).unwrap();
        assert!(request.is_discovery());
        assert_eq!(request.object(), name("/p/report"));
        producer.reply(&request, &content(50_000), &PublishOptions::default()).unwrap();
        assert_eq!(asker.join().unwrap(), content(50_000));
    });
    // It is published already, so the application receives no second request.
    assert_eq!(consumer.fetch(&name("/p/report")).unwrap(), content(50_000));
    assert!(matches!(producer.try_recv(), Err(CallError::WouldBlock)));
}

#[test]
fn expired_data_is_requested_from_the_application() {
    let world = World::new();
    let producer = world.producer("/p");
    let consumer = world.consumer("/p");
    let object = name("/p/page");
    let expires = Some(Duration::from_millis(1));
    let how = PublishOptions { version: Some(7), expires, ..PublishOptions::default() };
    let first = producer.publish(&object, &content(20_000), &how).unwrap();
    assert_eq!(consumer.fetch(&first.name).unwrap(), content(20_000), "segments stay");
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| consumer.fetch(&object).unwrap());
        let request = producer.recv_timeout(PATIENCE).unwrap();
        assert_eq!((request.is_discovery(), request.object()), (true, object.clone()));
        let again = PublishOptions { expires: None, ..how };
        assert_eq!(producer.publish(&object, &content(20_000), &again).unwrap(), first);
        assert_eq!(asker.join().unwrap(), content(20_000));
    });
    let changed = producer.publish(&object, b"something else", &how).unwrap_err();
    assert!(matches!(&changed, PublishError::Exists(name) if *name == first.name), "{changed}");
    assert_eq!(changed.errno(), 17);
    assert_eq!(consumer.fetch(&first.name).unwrap(), content(20_000), "names are immutable");
}

#[test]
fn buffered_answers_never_wake_the_application() {
    let world = World::without_cache();
    let producer = world.producer("/p");
    let consumer = world.consumer("/p");
    producer.publish(&name("/p/o"), &content(100_000), &PublishOptions::default()).unwrap();
    // The application waits for requests all the time.
    let mut waiting = producer.recv_async().unwrap();
    let mut poll = || Pin::new(&mut waiting).poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    for _ in 0..3 {
        assert_eq!(consumer.fetch(&name("/p/o")).unwrap(), content(100_000));
    }
    let stats = producer.stats();
    assert!(stats.hits_memory >= 3 * 13, "{stats:?}");
    assert_eq!((stats.wakeups, stats.misses), (0, 0));
    assert!(poll().is_pending());
    // A miss does wake it.
    let _missing = sent(&world, interest("/p/missing"));
    eventually("it wakes", || producer.stats().wakeups == 1);
}

#[test]
fn an_interest_racing_its_publication_is_answered() {
    let world = World::new();
    let producer = world.producer("/p");
    let rounds = 120u64;
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut connection = connection(&world);
                loop {
                    let round = next.fetch_add(1, Ordering::Relaxed);
                    if round >= rounds {
                        return;
                    }
                    let object = name(&format!("/p/race/{round}"));
                    let first = object.join_version(1).join_segment(0);
                    std::thread::scope(|scope| {
                        scope.spawn(|| {
                            if round.is_multiple_of(3) {
                                std::thread::sleep(Duration::from_micros(round * 7));
                            }
                            let how = PublishOptions { version: Some(1), ..PublishOptions::default() };
                            producer.publish(&object, &round.to_be_bytes(), &how).unwrap();
                        });
                        let interest = InterestBuilder::new(first.clone()).lifetime_ms(20_000);
                        match connection.express(&interest).unwrap() {
                            Answer::Data(reply) => {
                                assert_eq!(
                                    DataView::parse(&reply.wire).unwrap().content,
                                    round.to_be_bytes()
                                );
                            }
                            other => panic!("round {round}: {other:?}"),
                        }
                    });
                }
            });
        }
    });
    let stats = producer.stats();
    assert_eq!(stats.hits_memory + stats.answered_late, rounds, "{stats:?}");
    assert_eq!(stats.pending, 0);
}

#[test]
fn a_denied_request_is_reported_to_the_consumer() {
    let world = World::new();
    let producer = world.producer("/p");
    let consumer = world.consumer("/p");
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| connection(&world).express(&interest("/p/busy")).unwrap());
        let request = producer.recv_timeout(PATIENCE).unwrap();
        producer.refuse(request, NackReason::NoRoute).unwrap();
        assert_eq!(asker.join().unwrap(), Answer::Nack(NackReason::NoRoute));

        let asker = scope.spawn(|| consumer.fetch(&name("/p/absent")).unwrap_err());
        let request = producer.recv_timeout(PATIENCE).unwrap();
        producer.deny(&request).unwrap();
        let error = asker.join().unwrap();
        assert!(matches!(&error, FetchError::Object(ObjectError::NotFound { .. })), "{error}");
        assert_eq!(error.errno(), 2);

        let asker = scope.spawn(|| consumer.request(&Datagram::new(name("/p/none"))).unwrap_err());
        producer.deny(&producer.recv_timeout(PATIENCE).unwrap()).unwrap();
        let error = asker.join().unwrap();
        assert!(matches!(&error, RecvError::Failed { name, .. } if name.to_string() == "/p/none"), "{error}");
        assert_eq!(error.errno(), 2);
    });
    assert_eq!(producer.stats().refused, 1);
}

/// Answers each request with the number of requests so far, until the producer is closed.
fn count_requests(producer: &Producer, how: &PublishOptions) {
    let mut count = 0;
    while let Ok(request) = producer.recv_timeout(PATIENCE) {
        count += 1;
        producer.reply(&request, format!("{count}").as_bytes(), how).unwrap();
    }
}

#[test]
fn a_stale_reply_is_requested_anew() {
    let world = World::new();
    let producer = world.producer("/p");
    let consumer = world.consumer("/p");
    let how = PublishOptions { freshness_ms: Some(1), ..PublishOptions::default() };
    std::thread::scope(|scope| {
        scope.spawn(|| count_requests(&producer, &how));
        let datagram = Datagram::new(name("/p/count"));
        eventually("another reply comes", || consumer.request(&datagram).unwrap().content != b"1");
        // An application may permit stale replies. This one is in the cache.
        let stale = Datagram { must_be_fresh: Some(false), ..datagram.clone() };
        let cached = consumer.request(&stale).unwrap().content;
        assert_eq!(consumer.request(&stale).unwrap().content, cached);
        producer.close();
    });
}

#[test]
fn a_denied_name_can_be_published() {
    let world = World::without_cache();
    let producer = world.producer("/p");
    let consumer = world.consumer("/p");
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| consumer.fetch(&name("/p/later")).unwrap_err());
        producer.deny(&producer.recv_timeout(PATIENCE).unwrap()).unwrap();
        assert_eq!(asker.join().unwrap().errno(), 2);
    });
    producer.publish(&name("/p/later"), b"now", &PublishOptions::default()).unwrap();
    assert_eq!(consumer.fetch(&name("/p/later")).unwrap(), b"now");
}

#[test]
fn a_slow_application_causes_congestion_nacks() {
    let world = World::new();
    let options = ProducerOptions { requests_max: 4, ..world.producer_options() };
    let producer = Producer::bind(name("/p"), options).unwrap();
    let mut connection = connection(&world);
    for i in 0..4 {
        let wire = interest(&format!("/p/{i}")).nonce([i; 4]).build();
        connection.outbox().send(&Default::default(), &wire);
    }
    connection.turn(connection.now_ns(), &mut |_, _| {}).unwrap();
    eventually("four are pending", || producer.stats().pending == 4);
    let answer = connection.express(&interest("/p/5")).unwrap();
    assert_eq!(answer, Answer::Nack(NackReason::Congestion));
    let stats = producer.stats();
    assert_eq!((stats.pending, stats.dropped_requests_full), (4, 1));
    // Once the application has handled a request, there is room for another.
    drop(producer.recv_timeout(PATIENCE).unwrap());
    let is_answered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let answer = connection.express(&interest("/p/6")).unwrap();
            is_answered.store(matches!(answer, Answer::Data(_)), Ordering::Relaxed);
        });
        let mut names = BTreeSet::new();
        while !names.contains("/p/6") {
            let request = producer.recv_timeout(PATIENCE).unwrap();
            names.insert(request.name().to_string());
            producer.reply(&request, b"now", &PublishOptions::default()).unwrap();
        }
    });
    assert!(is_answered.into_inner());
}

#[test]
fn an_unanswered_miss_expires_with_its_interest() {
    let world = World::new();
    let options = ProducerOptions { pending_ms: Some(30), ..world.producer_options() };
    let producer = Producer::bind(name("/p"), options).unwrap();
    let mut connection = sent(&world, interest("/p/x"));
    eventually("one has expired", || producer.stats().dropped_requests_expired == 1);
    let until_ns = connection.now_ns() + 50_000_000;
    connection.turn(until_ns, &mut |answer, _| panic!("{answer:?}")).unwrap();
    assert_eq!(producer.stats().pending, 0);
    assert!(matches!(producer.try_recv(), Err(CallError::WouldBlock)));
    assert!(!is_readable(&producer, Duration::ZERO));
}

#[test]
fn a_reply_must_fit_one_packet() {
    let world = World::new();
    let producer = world.producer("/p");
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| connection(&world).express(&interest("/p/x")).unwrap());
        let request = producer.recv_timeout(PATIENCE).unwrap();
        let too_long = producer.reply(&request, &content(8800), &PublishOptions::default()).unwrap_err();
        assert!(matches!(too_long, PublishError::TooLong { octets } if octets > 8800));
        assert_eq!(too_long.errno(), 90);
        producer.reply(&request, &content(8000), &PublishOptions::default()).unwrap();
        let Answer::Data(reply) = asker.join().unwrap() else { panic!("no answer") };
        let data = DataView::parse(&reply.wire).unwrap();
        assert_eq!((data.content, data.content_type), (&content(8000)[..], ContentType::Blob));
    });
}

#[test]
fn a_cancelled_receive_still_wakes_the_other() {
    let world = World::new();
    let producer = world.producer("/p");
    let mut first = producer.recv_async().unwrap();
    let mut second = producer.recv_async().unwrap();
    let both_wait = Barrier::new(2);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            struct Unpark(std::thread::Thread);
            impl std::task::Wake for Unpark {
                fn wake(self: std::sync::Arc<Self>) {
                    self.0.unpark();
                }
            }
            let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
            let mut context = Context::from_waker(&waker);
            assert!(Pin::new(&mut first).poll(&mut context).is_pending());
            let mut poll = || Pin::new(&mut second).poll(&mut context);
            assert!(poll().is_pending());
            drop(first);
            both_wait.wait();
            let until = Instant::now() + PATIENCE;
            loop {
                std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
                match poll() {
                    Poll::Ready(request) => {
                        return producer.reply(&request.unwrap(), b"x", &PublishOptions::default()).unwrap();
                    }
                    Poll::Pending => assert!(Instant::now() < until, "not in time"),
                }
            }
        });
        both_wait.wait();
        let answer = connection(&world).express(&interest("/p/x")).unwrap();
        assert!(matches!(answer, Answer::Data(_)), "{answer:?}");
        waiting.join().unwrap();
    });
}

#[test]
fn closing_wakes_waiting_receivers() {
    let world = World::new();
    let producer = world.producer("/p");
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..3).map(|_| asleep(scope, || producer.recv().unwrap_err())).collect();
        producer.close();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), CallError::Closed);
        }
    });
    assert!(is_readable(&producer, Duration::ZERO));
    let refused = producer.publish(&name("/p/o"), b"x", &PublishOptions::default()).unwrap_err();
    assert_eq!(refused.errno(), 125);
}

//! Objects published on one socket are fetched on another, through a router.

use crate::common;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{Read, Seek, SeekFrom};
use std::time::{Duration, Instant};

use common::{World, content, name};
use namely_socket::{
    CallError, Consumer, ConsumerOptions, FetchError, ManifestUse, Producer, PublishOptions, RANGES_WINDOW,
    STREAM_OCTETS_FIRST, errno_name,
};
use namely_testkit::{PATIENCE, asleep, eventually};
use namely_transport::publish::{Options, Publication};

#[test]
fn a_published_object_is_fetched_and_verified() {
    let world = World::new();
    let producer = world.producer("/p");
    fetched_again(&producer, &world.consumer("/p"));
    let shared_memory = ConsumerOptions { router: Some(world.memif_uri()), ..world.consumer_options() };
    let consumer = Consumer::bind(name("/p"), shared_memory).unwrap();
    assert!(consumer.router().starts_with("memif"));
    fetched_again(&producer, &consumer);
}

/// Publishes objects and fetches them; the consumer's thread sleeps before each call.
fn fetched_again(producer: &Producer, consumer: &Consumer) {
    for octets in [0, 1, 100_000, 3_000_000] {
        let object = name("/p/o");
        let published = producer.publish(&object, &content(octets), &PublishOptions::default()).unwrap();
        assert!(object.is_prefix_of(published.name.as_name()));
        assert!(consumer.fetch(&published.name).unwrap() == content(octets));
    }
    let info = consumer.stat(&name("/p/o")).unwrap();
    assert!(info.signer.is_some() && info.octets.is_some(), "{info:?}");
}

#[test]
fn closing_a_socket_ends_its_waiting_calls() {
    let world = World::new();
    let _producer = world.producer("/p");
    let consumer = world.consumer("/p");
    let mut pending = consumer.fetch_async(&name("/p/nothing")).unwrap();
    assert!(matches!(pending.try_take(), Err(FetchError::Call(CallError::WouldBlock))));
    std::thread::scope(|scope| {
        let received = asleep(scope, || consumer.recv());
        let fetched = asleep(scope, || pending.wait(None));
        consumer.close();
        assert_eq!(errno_name(received.join().unwrap().unwrap_err().errno()), Some("ECANCELED"));
        assert_eq!(errno_name(fetched.join().unwrap().unwrap_err().errno()), Some("ECANCELED"));
    });
    let refused = consumer.fetch(&name("/p/nothing")).unwrap_err();
    assert!(matches!(refused, FetchError::Call(CallError::Closed)), "{refused}");
}

#[test]
fn names_outside_the_prefix_are_refused() {
    let world = World::new();
    let _producer = world.producer("/p");
    let consumer = world.consumer("/p");
    let outside = consumer.fetch(&name("/q/o")).unwrap_err();
    assert_eq!(errno_name(outside.errno()), Some("EADDRNOTAVAIL"), "{outside}");
    consumer.set_option("timeout_ms", "50").unwrap();
    let late = consumer.fetch(&name("/p/nothing")).unwrap_err();
    assert!(matches!(late, FetchError::Call(CallError::TimedOut)), "{late}");
    let received = consumer.recv().unwrap_err();
    assert_eq!(errno_name(received.errno()), Some("ETIMEDOUT"));
    let unrouted = world.consumer("/q").fetch(&name("/q/o")).unwrap_err();
    assert_eq!(errno_name(unrouted.errno()), Some("ENETUNREACH"), "{unrouted}");
}

/// Interests without retransmissions: a thread of a busy machine may stall until a timeout.
fn requested(consumer: &Consumer) -> u64 {
    let stats = consumer.stats();
    stats.interests - stats.retransmissions
}

/// Returns a count once it does not change any more. No event reports that a fetch sends no more
/// Interests.
fn settled(count: impl Fn() -> u64) -> u64 {
    let (mut seen, until) = (count(), Instant::now() + PATIENCE);
    loop {
        std::thread::sleep(Duration::from_millis(150));
        let now = count();
        if now == seen {
            return now;
        }
        assert!(Instant::now() < until, "it goes on: {now}");
        seen = now;
    }
}

#[test]
fn a_range_requests_only_its_segments() {
    let world = World::new();
    let producer = world.producer("/p");
    producer.set_option("segment_octets", "8000").unwrap();
    let whole = content(5_000_000);
    let published = producer.publish(&name("/p/o"), &whole, &PublishOptions::default()).unwrap();
    let per_packet = PublishOptions { manifest: Some(ManifestUse::Off), ..PublishOptions::default() };
    producer.publish(&name("/p/signed"), &whole, &per_packet).unwrap();
    let consumer = world.consumer("/p");
    let sent_for = |call: &mut dyn FnMut()| {
        let before = requested(&consumer);
        call();
        requested(&consumer) - before
    };
    for (object, manifests) in [("/p/o", 1), ("/p/signed", 0)] {
        let stream = consumer.open(&name(object)).unwrap();
        // Manifest 1 begins with segment 240, at 1,920,000.
        for (from, octets, segments) in [
            (0, 1, 1),
            (7_999, 1, 1),
            (7_999, 2, 2),
            (8_000, 8_000, 1),
            (4_999_990, 100, 1),
            (1_999_999, 40_001, 6),
        ] {
            let interests = sent_for(&mut || {
                let read = stream.read_range(from, octets).unwrap();
                assert!(read == whole[from as usize..whole.len().min(from as usize + octets)]);
            });
            assert_eq!(interests, segments + manifests, "{object}: {octets} octets at {from}");
        }
        let over_manifests = sent_for(&mut || {
            let read = stream.read_range(1_900_000, 100_000).unwrap();
            assert!(read == whole[1_900_000..2_000_000]);
        });
        assert_eq!(over_manifests, 13 + 2 * manifests);
        let nothing = sent_for(&mut || {
            assert!(stream.read_range(5_000_000, 10).unwrap().is_empty());
            assert!(stream.read_range(u64::MAX, 10).unwrap().is_empty());
            assert!(stream.read_range(10, 0).unwrap().is_empty());
        });
        assert_eq!(nothing, 0, "an open stream asks for nothing before it is read");
    }
    // For a version without its metadata the first segment gives the segment size.
    let by_version = consumer.open(&published.name).unwrap();
    for interests in [2 + 2, 2] {
        let now =
            sent_for(&mut || assert_eq!(by_version.read_range(801_000, 9).unwrap(), whole[801_000..801_009]));
        assert_eq!(now, interests);
    }
    let limited = sent_for(&mut || {
        let mut stream = consumer.open(&name("/p/o")).unwrap();
        stream.seek(SeekFrom::Start(800_000)).unwrap();
        stream.set_limit(816_000);
        let mut part = Vec::new();
        stream.read_to_end(&mut part).unwrap();
        assert!(part == whole[800_000..816_000]);
        stream.set_limit(824_000);
        stream.read_to_end(&mut part).unwrap();
        assert!(part == whole[800_000..824_000], "{} octets", part.len());
    });
    assert_eq!(limited, 2 + 1 + 2, "three segments, and their manifest for each fetch");
    consumer.set_option("read_ahead_octets", "80000").unwrap();
    let ahead = sent_for(&mut || {
        let mut stream = consumer.open(&name("/p/o")).unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
        settled(|| requested(&consumer));
        assert_eq!(stream.read_range(0, 10).unwrap(), whole[..10]);
    });
    assert!(ahead <= 30, "{ahead} Interests for 1000 octets and twice 80,000 ahead of them");
}

#[test]
fn overlapping_ranges_are_requested_once() {
    let world = World::new();
    let producer = world.producer("/p");
    producer.set_option("segment_octets", "1000").unwrap();
    let whole = content(3_000_000);
    producer.publish(&name("/p/o"), &whole, &PublishOptions::default()).unwrap();
    producer.publish(&name("/p/small"), &whole[..500], &PublishOptions::default()).unwrap();
    let consumer = world.consumer("/p");
    let expected = |whole: &[u8], (from, octets): &(u64, usize)| {
        let clamped = |at: u64| (at as usize).min(whole.len());
        whole[clamped(*from)..clamped(from.saturating_add(*octets as u64))].to_vec()
    };
    let stream = consumer.open(&name("/p/o")).unwrap();
    // Ranges out of order, empty, nested, with a common segment, and past the end.
    let few = [(2_500_100, 300), (100, 50), (0, 0), (120, 10), (900, 200), (2_999_990, 100), (u64::MAX, 9)];
    let before = requested(&consumer);
    assert_eq!(stream.read_ranges(&few).unwrap(), few.map(|range| expected(&whole, &range)));
    assert_eq!(requested(&consumer) - before, (1 + 1) + (2 + 1) + (1 + 1));
    // As many ranges as the window, and more; each in a segment that no other range touches.
    for count in [RANGES_WINDOW, RANGES_WINDOW + 1, 1000] {
        let many: Vec<_> = (0..count as u64).map(|i| ((i * 7) % 1000 * 3000 + 5, 900)).collect();
        let read = stream.read_ranges(&many).unwrap();
        assert!(read.iter().zip(&many).all(|(read, range)| *read == expected(&whole, range)), "{count}");
    }
    let small = consumer.open(&name("/p/small")).unwrap();
    let two = [(400, 200), (0, 3)];
    assert_eq!(small.read_ranges(&two).unwrap(), two.map(|range| expected(&whole[..500], &range)));
    assert_eq!(small.info().octets, Some(500));
    drop(producer);
    let gone = stream.read_ranges(&[(500_000, 1), (1_000_000, 1)]).unwrap_err();
    // A router may have the segments. They are refused, because a closed producer revokes its key.
    let errors = ["ENETUNREACH", "ETIMEDOUT", "EKEYREVOKED"];
    assert!(errno_name(gone.errno()).is_some_and(|name| errors.contains(&name)), "{gone:?}");
}

/// A retransmission after a timeout waits half a second or more. Threads that stall delay the
/// other retransmissions, too, so a few early ones in some read are enough.
#[test]
fn a_vector_read_detects_losses_across_parts() {
    eventually("losses are detected before a timeout", || {
        let waits = waits_for_retransmissions();
        assert!(waits.len() >= 30, "{waits:?}");
        waits[waits.len() / 10] < Duration::from_millis(450)
    });
}

/// Returns the times between the requests of lost segments in a read of many ranges, sorted.
fn waits_for_retransmissions() -> Vec<Duration> {
    let world = World::new();
    let whole = content(1_000_000);
    let options = Options { packet_octets_max: 1000, ..Options::default() };
    let object = Publication::new(name("/p/o").as_name(), 7, &whole, &options, &world.signer("/p")).unwrap();
    let mut requested: HashMap<u64, Instant> = HashMap::new();
    let (found, took) = std::sync::mpsc::channel();
    // Every tenth segment is lost on its first request, except the last ones.
    let _producer = world.serve("/p", move |interest| {
        let segment = interest.name.last().and_then(|last| last.segment());
        if let Some(segment) = segment.filter(|_| interest.name.len() == object.object().len() + 1) {
            let nth = requested.len();
            match requested.entry(segment) {
                Entry::Vacant(entry) => {
                    entry.insert(Instant::now());
                    if nth % 10 == 5 {
                        return None;
                    }
                }
                Entry::Occupied(entry) => found.send((segment, entry.get().elapsed())).unwrap(),
            }
        }
        object.answer(interest).map(<[u8]>::to_vec)
    });
    let consumer = world.consumer("/p");
    let stream = consumer.open(&name("/p/o")).unwrap();
    let ranges: Vec<_> = (0..300).map(|i| (3000 * i + 5, 100)).collect();
    let read = stream.read_ranges(&ranges).unwrap();
    let same = |(read, (from, octets)): (&Vec<u8>, &(u64, usize))| {
        read[..] == whole[*from as usize..*from as usize + octets]
    };
    assert!(read.iter().zip(&ranges).all(same));
    let mut first = HashMap::new();
    took.try_iter().for_each(|(segment, after)| _ = first.entry(segment).or_insert(after));
    let mut took: Vec<Duration> = first.into_values().collect();
    took.sort();
    took
}

#[test]
fn a_stream_seeks_within_its_read_ahead() {
    let world = World::new();
    let producer = world.producer("/p");
    let whole = content(12_000_000);
    producer.publish(&name("/p/o"), &whole, &PublishOptions::default()).unwrap();
    let consumer = world.consumer("/p");
    let mut stream = consumer.stream(&name("/p/o")).unwrap();
    assert_eq!(stream.octets(), Some(whole.len() as u64));
    let mut start = vec![0; 100_000];
    stream.read_exact(&mut start).unwrap();
    assert!(start == whole[..100_000]);
    // Without a reader, verified octets stop at the read-ahead, and Interests stop a little later.
    let seen = settled(|| consumer.stats().octets);
    let bound = STREAM_OCTETS_FIRST + start.len() + 20_000;
    assert!(seen as usize <= bound, "{seen} octets were verified ahead, {bound} at most may be");
    assert!(seen < whole.len() as u64);
    // The read-ahead may go on after its threads stalled for longer than `settled` waits.
    eventually("to learn the size asks for nothing", || {
        let before = settled(|| requested(&consumer));
        assert_eq!(stream.seek(SeekFrom::End(0)).unwrap(), whole.len() as u64);
        assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0);
        assert_eq!(stream.seek(SeekFrom::Start(start.len() as u64)).unwrap(), 100_000);
        settled(|| requested(&consumer)) == before
    });
    for (to, at) in [
        (SeekFrom::Current(50_000), 150_000),
        (SeekFrom::Start(11_000_000), 11_000_000),
        (SeekFrom::Start(3), 3),
        (SeekFrom::End(-7), whole.len() - 7),
    ] {
        assert_eq!(stream.seek(to).unwrap(), at as u64);
        let mut part = vec![0; 7];
        stream.read_exact(&mut part).unwrap();
        assert_eq!(part, whole[at..at + 7], "{to:?}");
    }
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0, "the end");
    stream.seek(SeekFrom::Start(whole.len() as u64 + 5)).unwrap();
    assert_eq!(stream.read(&mut [0; 10]).unwrap(), 0, "past the end");
    stream.rewind().unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all == whole);
}

#[test]
fn several_threads_fetch_on_one_socket() {
    let world = World::new();
    let producer = world.producer("/p");
    for i in 0..8 {
        let object = name(&format!("/p/{i}"));
        producer.publish(&object, &content(50_000 + i), &PublishOptions::default()).unwrap();
    }
    let consumer = world.consumer("/p");
    std::thread::scope(|scope| {
        for i in 0..8 {
            let consumer = &consumer;
            scope.spawn(move || {
                assert!(consumer.fetch(&name(&format!("/p/{i}"))).unwrap() == content(50_000 + i));
            });
        }
    });
    let stats = consumer.stats();
    assert_eq!(stats.octets, (0..8).map(|i| 50_000 + i).sum::<u64>());
    assert!(stats.interests >= stats.segments && stats.signatures >= 8, "{stats:?}");
}

#[test]
fn sockets_survive_a_router_restart() {
    let world = World::new();
    let producer = world.producer("/p");
    let consumer = world.consumer("/p");
    producer.publish(&name("/p/o"), &content(10_000), &PublishOptions::default()).unwrap();
    assert!(consumer.fetch(&name("/p/o")).unwrap() == content(10_000));
    let _world = world.restart_router();
    // Until the producer has registered again there is no route.
    eventually("the route is back", || consumer.fetch_timeout(&name("/p/o"), Duration::from_secs(5)).is_ok());
}

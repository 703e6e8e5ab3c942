//! Streams over a path that loses or reorders packets. The path is between a socket and a router:
//! real UDP sockets, and a wire between them that is emulated in user space.

use crate::common;

use std::io::Read;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{World, content, name};
use namely_socket::{Consumer, ConsumerOptions, ConsumerStats, PublishOptions};
use namely_testbed::wire::{Link, Reordering, WireSpec};

/// Octets of the object.
const OCTETS: usize = 400_000;

/// A path with a round trip of 20 ms, fast enough that no packet waits.
const PATH: WireSpec = WireSpec {
    rate_bps: Some(100_000_000),
    delay: Duration::from_millis(10),
    queue: Duration::from_millis(200),
    loss: 0.0,
    late: Reordering { share: 0.0, by: Duration::ZERO },
};

/// Reads an object through a stream over the path; returns the consumer's counters, the number of
/// segments, and the wire.
fn read_over(spec: WireSpec) -> (ConsumerStats, u64, Link) {
    let world = World::over_ip();
    let producer = world.producer("/p");
    // A packet fits a datagram: a lost datagram is one segment.
    producer.set_option("packet_octets_max", "1400").unwrap();
    let whole = content(OCTETS);
    let published = producer.publish(&name("/p/o"), &whole, &PublishOptions::default()).unwrap();
    let udp =
        world.router.listening().iter().find_map(|uri| uri.address().filter(|_| uri.scheme() == "udp4"));
    let link = Link::start(spec, udp.expect("the router listens over UDP")).unwrap();
    let router = Some(format!("udp://{}", link.near()));
    let options = ConsumerOptions { router, ..world.consumer_options() };
    let consumer = Consumer::bind(name("/p"), options).unwrap();
    let mut stream = consumer.stream(&published.name).unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).unwrap();
    assert!(read == whole, "{} octets of {OCTETS}, or others", read.len());
    let stats = consumer.stats();
    (stats, stats.interests - stats.retransmissions, link)
}

#[test]
fn a_stream_survives_ten_percent_loss() {
    for loss in [0.05, 0.1] {
        let (stats, pieces, link) = read_over(WireSpec { loss, ..PATH });
        let lost = link.back().lost.load(Ordering::Relaxed);
        assert!(lost > 0 && stats.retransmissions >= lost / 2, "{loss}: {lost} of {pieces}: {stats:?}");
        // If a tenth of the Interests and a tenth of the Data are lost, a fifth of the pieces is
        // requested again.
        assert!(stats.retransmissions <= pieces, "{loss}: {pieces}: {stats:?}");
    }
}

/// Segments overtaken by 5 ms, a quarter of a round trip, do not count as lost; those overtaken by
/// 60 ms are requested again, and come twice at most. A third of the segments is overtaken, as
/// Interest or as Data. A consumer that stalls after it has read the later Data requests some of
/// them again in both cases. `jitter_is_not_taken_for_loss` has a simulated clock.
#[test]
fn a_stream_survives_reordering() {
    for (ms, share_again) in [(5, 0.2), (60, 0.6)] {
        let late = Reordering { share: 0.2, by: Duration::from_millis(ms) };
        let (stats, pieces, link) = read_over(WireSpec { late, ..PATH });
        let late = link.back().late.load(Ordering::Relaxed);
        assert!(late > pieces / 20, "{late} of {pieces} were overtaken");
        let again = stats.retransmissions as f64 / pieces as f64;
        assert!(again <= share_again, "{ms} ms: {again} of {pieces}: {stats:?}");
    }
}

#[test]
fn a_stream_survives_loss_and_reordering() {
    let late = Reordering { share: 0.1, by: Duration::from_millis(15) };
    let (stats, ..) = read_over(WireSpec { loss: 0.05, late, ..PATH });
    assert!(stats.retransmissions > 0, "{stats:?}");
}

//! The virtual plane while applications or a neighbor send as much as they can. The suite
//! `measures` runs these tests too, and counts the slots that the plane misses: beside other tests,
//! it misses those in which it gets no processor.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use namely_testkit::{SetWhenDropped, until};
use namely_vip::limits::REQUESTS_MAX;
use namely_wire::{DataBuilder, SignatureInfo};

use crate::common;
use crate::fake::Fake;
use crate::plane::{PERIOD_MS, Router, join};

/// Sends unsolicited Data without pause, and counts the times when the router could take no more.
fn flood(socket: &Path, is_over: &AtomicBool, full: &AtomicU64) {
    let mut stream = UnixStream::connect(socket).expect("the router listens");
    stream.set_nonblocking(true).expect("a socket");
    let name = common::client::name("/nobody/asked");
    let data = DataBuilder::new(name.as_name()).build(b"", &SignatureInfo::digest_sha256()).finish(&[0; 32]);
    let octets = data.repeat(500);
    let mut at = 0;
    while !is_over.load(Relaxed) {
        match stream.write(&octets[at..]) {
            Ok(count) => at = (at + count) % octets.len(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                full.fetch_add(1, Relaxed);
                std::thread::yield_now();
            }
            Err(error) => panic!("the router closed the connection: {error}"),
        }
    }
}

#[test]
fn vip_slots_continue_under_overload() {
    let (mut a, mut b) = (Router::start("a", "memory = 0"), Router::start("b", "memory = 0"));
    join(&mut a, &mut b);
    until("the neighbor's counts are good", || a.neighbours()[0].fresh_ms.is_some().then_some(()));
    let (socket, is_over) = (a.daemon.socket(), AtomicBool::new(false));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let full: Vec<AtomicU64> = (0..2 * processors).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        let _over = SetWhenDropped(&is_over);
        full.iter().for_each(|full| drop(scope.spawn(|| flood(&socket, &is_over, full))));
        until("every worker is behind", || full.iter().all(|full| full.load(Relaxed) > 100).then_some(()));
        let before = ["slots", "counts_heard", "counts_told"].map(|label| a.count(label));
        let missed = a.count("slots_missed");
        for (label, before) in ["slots", "counts_heard", "counts_told"].iter().zip(before) {
            until(label, || (a.count(label) >= before + 2).then_some(()));
        }
        // On a busy machine the plane may miss a slot once.
        let is_on_time = a.count("slots_missed") <= missed + 1;
        assert!(is_on_time || !crate::MEASURES, "the plane has its share of the processors");
        until("the neighbor's counts arrive", || a.neighbours()[0].fresh_ms.is_some().then_some(()));
    });
}

#[test]
fn a_request_flood_spares_other_neighbors() {
    let mut a = Router::start("a", "memory = 0");
    let mut b = Router::start("b", "memory = 10_000");
    join(&mut a, &mut b);
    let mut fake = Fake::new(&b);
    let key_a = a.status().key;
    let to_a = Router::neighbour(a.daemon.udp().port(), "a", &key_a, "");
    b.reload(&format!("{}{to_a}", fake.config()));
    until("both have faces", || b.neighbours().iter().all(|of| of.face_id.is_some()).then_some(()));
    until("a's counts arrive", || b.neighbours()[1].fresh_ms.is_some().then_some(()));
    let slot = b.status().slot;
    let received = b.count("counts_heard");
    let requests: Vec<Vec<u8>> = (0..10_000).map(|_| fake.request("fake")).collect();
    let answered = b.count("counts_told");
    let began = Instant::now();
    for chunk in requests.chunks(100) {
        chunk.iter().for_each(|request| fake.client.send(request));
        std::thread::sleep(Duration::from_millis(8));
    }
    let took = began.elapsed();
    // The system drops datagrams while the router waits for a processor, so more of them follow.
    until("some were refused", || {
        let refused = b.count("rate_limited") + b.count("queue_full");
        if refused <= 1000 {
            let more: Vec<Vec<u8>> = (0..1000).map(|_| fake.request("fake")).collect();
            more.iter().for_each(|request| fake.client.send(request));
        }
        (refused > 1000).then_some(())
    });
    // Slots began on time, and the honest neighbor's counts arrived in them.
    let slots = took.as_millis() as u64 / PERIOD_MS;
    let is_on_time = b.status().slot + 2 >= slot + slots;
    assert!(is_on_time || !crate::MEASURES, "{} slots of {slots}", b.status().slot - slot);
    until("the honest neighbor's counts arrive", || (b.count("counts_heard") >= received + 3).then_some(()));
    // In this order: an answer in a further slot would be one too many.
    let answered = b.count("counts_told") - answered;
    let slots = b.status().slot - slot + 1;
    assert!(answered <= slots * (u64::from(REQUESTS_MAX) + 2), "{answered} answers in {slots} slots");
}

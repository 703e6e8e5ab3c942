//! Consumers of others take part in congestion control: a mark that a producer's link puts on Data
//! passes `namelyd`, and NDNts asks for less.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use namely_interop::{Link, Peer, Router, World};
use namely_link::stream::packet_octets;
use namely_skip::{Need, or_skip};
use namely_wire::{DataBuilder, InterestView, LpHeaders, LpView, Name, SignatureInfo, encode_lp_packet};

const SEGMENTS: u64 = 3_000;

/// How long the producer takes for each answer, however many it is asked for at once.
const DELAY: Duration = Duration::from_millis(20);

/// What is asked for and not answered yet.
#[derive(Default)]
struct Asked {
    waiting: VecDeque<(Instant, Name, LpHeaders)>,
    most: usize,
    ended: bool,
}

/// Answers what comes, all of it marked or none; returns how many Interests waited at once at most.
fn produce(stream: &TcpStream, is_marked: bool) -> usize {
    let (asked, news) = (Mutex::new(Asked::default()), Condvar::new());
    std::thread::scope(|scope| {
        scope.spawn(|| answer(stream, is_marked, &asked, &news));
        listen(stream, &asked, &news);
    });
    asked.into_inner().unwrap().most
}

fn listen(mut stream: &TcpStream, asked: &Mutex<Asked>, news: &Condvar) {
    let (mut buffer, mut chunk) = (Vec::new(), [0; 65536]);
    loop {
        while let Some(octets) = packet_octets(&buffer).unwrap() {
            let packet: Vec<u8> = buffer.drain(..octets).collect();
            let view = LpView::parse(&packet).unwrap();
            let Some(interest) = view.fragment.and_then(|packet| InterestView::parse(packet).ok()) else {
                continue;
            };
            let mut asked = asked.lock().unwrap();
            asked.waiting.push_back((Instant::now() + DELAY, interest.name.to_name(), view.headers));
            asked.most = asked.most.max(asked.waiting.len());
            news.notify_one();
        }
        match stream.read(&mut chunk) {
            Ok(octets) if octets > 0 => buffer.extend_from_slice(&chunk[..octets]),
            _ => break,
        }
    }
    asked.lock().unwrap().ended = true;
    news.notify_one();
}

fn answer(mut stream: &TcpStream, is_marked: bool, asked: &Mutex<Asked>, news: &Condvar) {
    let last = Name::new().join_segment(SEGMENTS - 1);
    loop {
        let idle = |asked: &mut Asked| asked.waiting.is_empty() && !asked.ended;
        let due = news.wait_while(asked.lock().unwrap(), idle).unwrap().waiting.front().map(|first| first.0);
        let Some(due) = due else { return };
        // The delay of the producer itself.
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let Some((_, name, headers)) = asked.lock().unwrap().waiting.pop_front() else { return };
        let data = DataBuilder::new(name.as_name()).final_block_id(last.as_name().component(0).unwrap());
        let data = data.build(&[7; 100], &SignatureInfo::digest_sha256());
        let digest = namely_security::sha256(data.signed_portion());
        let headers = LpHeaders {
            pit_token: headers.pit_token,
            congestion_mark: is_marked.then_some(1),
            ..LpHeaders::default()
        };
        if stream.write_all(&encode_lp_packet(&headers, &data.finish(&digest))).is_err() {
            return;
        }
    }
}

/// How many Interests of NDNts are under way at most while it fetches through `namelyd`.
fn most_asked(peer: &Peer, is_marked: bool) -> usize {
    let world = World::new();
    let router = Router::namelyd(&world, &[]);
    let uri = router.uri(Link::Unix);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let producer = format!("tcp4://{}", listener.local_addr().unwrap());
    std::thread::scope(|scope| {
        let most = scope.spawn(move || produce(&listener.accept().unwrap().0, is_marked));
        world.namely(["--router", &uri, "route", "add", "/marked", &producer]).success();
        let fetched = peer.run(&world, &["segments", "--router", &uri, "/marked"]).success();
        assert_eq!(fetched.event("fetched")["segments"], SEGMENTS, "{fetched:?}");
        drop(router);
        most.join().unwrap()
    })
}

#[test]
fn ndnts_asks_for_less_when_data_that_passed_namelyd_are_marked() {
    let Some(peer) = or_skip(Need::Node, Peer::ndnts()) else { return };
    let [free, marked] = [false, true].map(|is_marked| most_asked(&peer, is_marked));
    println!("at most {free} under way without marks, {marked} with");
    assert!(marked * 4 < free, "{free} without marks, {marked} with");
}

//! Sending to UDP addresses that may be forged: a victim that never sent anything, and peers that
//! prove that they receive.

use crate::support;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use namely_io::{FaceTag, IoOptions};
use namely_messages::FacePersistency;
use namely_testkit::eventually;
use namely_wire::{
    InterestView, LpFraming, LpHeaders, LpView, NackReason, encode_lp_header, encode_lp_packet,
};
use support::{Loop, PATIENCE, frame, packet, port, push};

/// Duration of a test's flood.
const FLOOD: Duration = Duration::from_secs(1);

/// Octets of a packet that is sent.
const OCTETS: usize = 1200;

/// Packets for each face in one turn of the loop. They are more than the burst of the default rate,
/// so a limit drops some of them, however slow the machine is.
const PACKETS: usize = 128;

const DEFAULT_BPS: f64 = 10e6;

fn listening(options: IoOptions) -> (Loop, SocketAddr) {
    let io = Loop::start(options);
    io.with(|io| io.listen_udp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let address = io.with(|io| io.listeners().find_map(|(local, _)| local.address())).unwrap();
    (io, address)
}

/// A face to an address of this host, as its first datagram makes it.
fn peer(io: &Loop, router: SocketAddr, host: u8) -> (UdpSocket, FaceTag) {
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).unwrap();
    socket.connect(router).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    socket.send(&packet(10, 0)).unwrap();
    let face = io.accepted();
    io.next_frame();
    (socket, face)
}

/// A peer's answers to a link packet.
type Answers = fn(&LpView<'_>) -> Vec<Vec<u8>>;

fn silence(_: &LpView<'_>) -> Vec<Vec<u8>> {
    Vec::new()
}

fn acks(tx_sequence: u64) -> Vec<u8> {
    let framing = LpFraming { acks: &[tx_sequence], ..LpFraming::default() };
    let mut frame = Vec::new();
    encode_lp_header(&LpHeaders::default(), &framing, None, None, &mut frame);
    frame
}

/// Answers as NFD does without the reliability service. It drops IDLE packets, and answers an
/// Interest without a route with a Nack.
fn as_nfd(view: &LpView<'_>) -> Vec<Vec<u8>> {
    let interest = view.fragment.filter(|fragment| InterestView::parse(fragment).is_ok());
    let headers = LpHeaders { nack: Some(NackReason::NoRoute), ..LpHeaders::default() };
    interest.map(|interest| encode_lp_packet(&headers, interest)).into_iter().collect()
}

/// Answers as NFD does with reliability: it acknowledges each link packet with a Fragment.
fn as_reliable_nfd(view: &LpView<'_>) -> Vec<Vec<u8>> {
    view.fragment.and(view.tx_sequence).map(acks).into_iter().collect()
}

/// Answers as namely does: it acknowledges an IDLE packet.
fn as_namely(view: &LpView<'_>) -> Vec<Vec<u8>> {
    if view.fragment.is_none() { view.tx_sequence.map(acks).into_iter().collect() } else { Vec::new() }
}

/// Answers as a forger that receives nothing at the address and guesses the answers.
fn guesses(_: &LpView<'_>) -> Vec<Vec<u8>> {
    let name: namely_wire::Name = "/localhop/namely/proof/0123456789abcdef".parse().unwrap();
    let interest = namely_wire::InterestBuilder::new(name.clone()).nonce([1; 4]).build();
    let headers = LpHeaders { nack: Some(NackReason::NoRoute), ..LpHeaders::default() };
    let builder = namely_wire::DataBuilder::new(name.as_name());
    let data = builder.build(b"", &namely_wire::SignatureInfo::null()).finish(&[]);
    vec![encode_lp_packet(&headers, &interest), data, acks(0), acks(1 << 63), acks(u64::MAX)]
}

/// Sends to the faces as much as they accept, while their peers answer with `answers`. Returns the
/// octets that each peer received, and the time until the last packet left.
fn flood(io: &Loop, peers: &[(UdpSocket, FaceTag)], answers: Answers) -> (Vec<u64>, Duration) {
    flood_each(io, peers, &vec![answers; peers.len()])
}

/// As `flood`, with answers of its own for each peer.
fn flood_each(io: &Loop, peers: &[(UdpSocket, FaceTag)], answers: &[Answers]) -> (Vec<u64>, Duration) {
    let begun = Instant::now();
    let have_all_left = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receive = |socket: &UdpSocket, answers: Answers| {
            let (mut octets, mut frame) = (0, vec![0; 65536]);
            loop {
                // Read before the wait, so that nothing is left when the loop ends.
                let is_last = have_all_left.load(Ordering::Relaxed) || begun.elapsed() > 2 * PATIENCE;
                let Ok(length) = socket.recv(&mut frame) else {
                    if is_last {
                        return octets;
                    }
                    continue;
                };
                octets += length as u64;
                let Ok(view) = LpView::parse(&frame[..length]) else { continue };
                if view.tx_sequence.is_some() || view.fragment.is_none() {
                    for answer in answers(&view) {
                        let _ = socket.send(&answer);
                    }
                }
            }
        };
        let receivers = peers.iter().zip(answers);
        let receivers =
            receivers.map(|((socket, _), answers)| scope.spawn(move || receive(socket, *answers)));
        let receivers: Vec<_> = receivers.collect();
        let faces: Vec<FaceTag> = peers.iter().map(|(_, face)| *face).collect();
        loop {
            let faces = faces.clone();
            io.with(move |io| {
                for face in faces {
                    for _ in 0..PACKETS {
                        let _ = push(io, face, frame(&packet(OCTETS, 7)));
                    }
                }
            });
            if begun.elapsed() >= FLOOD {
                break;
            }
            std::thread::sleep(Duration::from_millis(8));
        }
        let waits = |face: &FaceTag| io.status(*face).is_some_and(|status| status.queue_octets > 0);
        eventually("all packets leave", || !faces.iter().any(waits));
        let lasted = begun.elapsed();
        have_all_left.store(true, Ordering::Relaxed);
        (receivers.into_iter().map(|receiver| receiver.join().unwrap()).collect(), lasted)
    })
}

/// The most octets that pass a limit in that time: its rate, its burst, and one packet.
fn most(bps: f64, lasted: Duration) -> u64 {
    ((lasted.as_secs_f64() + 0.1) * bps / 8.0) as u64 + OCTETS as u64 + 200
}

#[test]
fn a_silent_address_gets_ten_megabits() {
    let (io, router) = listening(IoOptions::default());
    let victim = peer(&io, router, 1);
    let (octets, lasted) = flood(&io, std::slice::from_ref(&victim), silence);
    assert!(octets[0] <= most(DEFAULT_BPS, lasted), "{} octets in {lasted:?}", octets[0]);
    // The burst, which no time refills. `a_rate_limit_passes_its_rate` has the exact rate: here a
    // thread that stalls wastes a part of it.
    assert!(octets[0] >= most(DEFAULT_BPS, Duration::ZERO) / 2, "{} octets in {lasted:?}", octets[0]);
    assert!(io.drops(victim.1, "unproven_address") > 0);
}

#[test]
fn guesses_prove_no_address() {
    let (io, router) = listening(IoOptions::default());
    let victim = peer(&io, router, 1);
    let (octets, lasted) = flood(&io, std::slice::from_ref(&victim), guesses);
    assert!(octets[0] <= most(DEFAULT_BPS, lasted), "{} octets in {lasted:?}", octets[0]);
}

#[test]
fn peers_that_answer_get_everything() {
    for (name, answers) in
        [("NFD", as_nfd as Answers), ("NFD, reliable", as_reliable_nfd), ("namely", as_namely)]
    {
        let (io, router) = listening(IoOptions::default());
        let peer = peer(&io, router, 1);
        // The router may read the answer when the flood has ended.
        eventually(format_args!("{name}: no limit holds any more"), || {
            flood(&io, std::slice::from_ref(&peer), answers);
            let dropped = io.drops(peer.1, "unproven_address");
            flood(&io, std::slice::from_ref(&peer), silence);
            io.drops(peer.1, "unproven_address") == dropped
        });
        // The answer to a proof is delivered to no face. If a peer stalls, it is asked again. NFD's
        // further answers come when the limits have ended, and are packets like others.
        let answered = io.status(peer.1).unwrap().counters.in_frames - 1;
        let further = if name == "NFD" { answered - 1 } else { 0 };
        let delivered = io.frames_seen().len() as u64;
        assert!(delivered <= further, "{name}: {delivered} of {answered}");
    }
}

#[test]
fn silent_addresses_share_a_total_limit() {
    let mut options = IoOptions::default();
    options.unproven.total_bps = 20_000_000;
    let (io, router) = listening(options);
    let victims: Vec<_> = (1..=8).map(|host| peer(&io, router, host)).collect();
    let (octets, lasted) = flood(&io, &victims, silence);
    let all: u64 = octets.iter().sum();
    assert!(all <= most(20e6, lasted), "{all} octets in {lasted:?}");
    assert!(all > 0);
    assert!(victims.iter().any(|(_, face)| io.drops(*face, "unproven_total") > 0));
}

#[test]
fn ports_of_one_address_share_its_limit() {
    let (io, router) = listening(IoOptions::default());
    let victims: Vec<_> = (0..4).map(|_| peer(&io, router, 1)).collect();
    let (octets, lasted) = flood(&io, &victims, silence);
    let all: u64 = octets.iter().sum();
    assert!(all <= most(DEFAULT_BPS, lasted), "{all} octets in {lasted:?}");
}

#[test]
fn a_peer_can_prove_itself_under_load() {
    let mut options = IoOptions::default();
    options.unproven.total_bps = 20_000_000;
    let (io, router) = listening(options);
    let peers: Vec<_> = (1..=8).map(|host| peer(&io, router, host)).collect();
    let mut answers = [silence as Answers; 8];
    flood_each(&io, &peers, &answers);
    answers[7] = as_nfd;
    let dropped = || ["unproven_address", "unproven_total"].map(|label| io.drops(peers[7].1, label));
    // The router may read the answer when the flood has ended.
    eventually("no limit holds for it any more", || {
        let (octets, lasted) = flood_each(&io, &peers, &answers);
        let others: u64 = octets[..7].iter().sum();
        assert!(others <= most(20e6, lasted), "{others} octets in {lasted:?}");
        let before = dropped();
        flood_each(&io, &peers, &answers);
        dropped() == before
    });
}

#[test]
fn configured_faces_have_no_limit() {
    let (io, router) = listening(IoOptions::default());
    let (socket, face) = peer(&io, router, 1);
    io.with(move |_| port(face).unwrap().set_persistency(FacePersistency::Persistent)).unwrap();
    let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let address = far.local_addr().unwrap();
    let made = io.open(move |io| io.open_udp(address, None, FacePersistency::Persistent)).unwrap();
    for peer in [(socket, face), (far, made)] {
        let (octets, _) = flood(&io, std::slice::from_ref(&peer), silence);
        // More leaves in one turn than the limit would pass. The peer's socket holds less.
        let sent = io.status(peer.1).unwrap().counters.out_octets;
        assert!(octets[0] > 0 && sent > most(DEFAULT_BPS, Duration::ZERO), "{sent} octets");
        assert_eq!(io.drops(peer.1, "unproven_address"), 0);
    }
}

#[test]
fn a_small_exchange_requires_no_proof() {
    let (io, router) = listening(IoOptions::default());
    let (socket, face) = peer(&io, router, 1);
    (0..10).for_each(|n| io.send(face, &packet(OCTETS, n)));
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut octets = [0; 2000];
    for n in 0..10 {
        let length = namely_testkit::uninterrupted(|| socket.recv(&mut octets)).unwrap();
        assert_eq!(octets[..length], packet(OCTETS, n));
    }
    // With their headers 16 KiB are sent by then, so the next packet is accompanied by the
    // question.
    (10..16).for_each(|n| io.send(face, &packet(OCTETS, n)));
    let is_question = |octets: &[u8]| LpView::parse(octets).is_ok_and(|view| view.fragment.is_none());
    let comes = (10..18).any(|_| {
        namely_testkit::uninterrupted(|| socket.recv(&mut octets))
            .is_ok_and(|length| is_question(&octets[..length]))
    });
    assert!(comes);
}

#[test]
fn foreign_networks_get_no_face() {
    let io = Loop::start(IoOptions::default());
    let networks: Vec<namely_host::Subnet> =
        vec!["127.0.0.0/30".parse().unwrap(), "192.0.2.0/24".parse().unwrap()];
    io.with(|io| io.listen_udp_from((Ipv4Addr::LOCALHOST, 0).into(), networks.into())).unwrap();
    let router = io.with(|io| io.listeners().find_map(|(local, _)| local.address())).unwrap();
    let (outside, inside) = (Ipv4Addr::new(127, 0, 0, 4), 3);
    UdpSocket::bind((outside, 0)).unwrap().send_to(&packet(10, 0), router).unwrap();
    eventually("the datagram is refused", || io.listener_drops("foreign_network") == 1);
    peer(&io, router, inside);
    assert_eq!(io.listener_drops("foreign_network"), 1);
}

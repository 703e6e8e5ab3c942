//! Two link services over a network that loses, repeats and reorders.

use namely_link::{
    ANNOUNCEMENT_OCTETS_MAX, FRAGMENTS_MAX, Frame, LinkConfig, LinkKind, LinkService, Outbound, Patch,
    ReassemblyTotal, UNACKED_FRAMES_MAX,
};
use namely_wire::tlv::Writer;
use namely_wire::{
    LP_PACKET_OCTETS_MAX, LpFraming, LpHeaders, LpView, NackReason, PACKET_OCTETS_MAX, PitToken,
    encode_lp_header, encode_lp_packet,
};
use proptest::prelude::*;

type Packet = std::sync::Arc<[u8]>;
type Service = LinkService<Packet, u8>;

const MS: u64 = 1_000_000;

/// A packet of `octets` octets, or of 257 for 255 and 256, because no TLV has these sizes.
fn packet(typ: u8, octets: usize, fill: u8) -> Packet {
    let value = if octets <= 254 { octets - 2 } else { octets.max(257) - 4 };
    let mut w = Writer::new();
    w.tlv(u32::from(typ), &vec![fill; value]);
    w.into_vec().into()
}

fn all_headers() -> LpHeaders {
    LpHeaders {
        pit_token: PitToken::new(&[9; 32]),
        nack: None,
        incoming_face_id: Some(u64::MAX),
        next_hop_face_id: None,
        cache_policy: Some(1),
        congestion_mark: Some(1),
        non_discovery: true,
    }
}

fn config(kind: LinkKind) -> LinkConfig {
    LinkConfig { marking: false, ..LinkConfig::new(kind) }
}

fn service(config: LinkConfig) -> Service {
    LinkService::new(config, ReassemblyTotal::new(usize::MAX), 1000)
}

fn datagram(mtu: usize) -> LinkConfig {
    config(LinkKind::Datagram { mtu })
}

fn reliable(mtu: usize) -> LinkConfig {
    LinkConfig { reliability: true, ..datagram(mtu) }
}

fn octets(frame: Frame<Packet>) -> Vec<u8> {
    let octets = frame.slices().concat();
    assert_eq!(octets.len(), frame.octets());
    octets
}

fn send(from: &mut Service, headers: LpHeaders, packet: &Packet, now_ns: u64) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let outbound = Outbound { headers, packet: packet.clone(), hop_limit: None };
    from.send(outbound, now_ns, &mut |frame| frames.push(octets(frame))).unwrap();
    frames
}

fn receive(to: &mut Service, frame: &[u8], now_ns: u64) -> Option<(LpHeaders, Vec<u8>)> {
    let got = to.receive(frame, 0, now_ns, &mut |_| ()).ok().flatten();
    got.map(|delivered| (delivered.headers, delivered.packet.octets(frame).to_vec()))
}

fn drops(service: &Service, label: &str) -> u64 {
    service.counters().drops.of(label)
}

#[test]
fn a_packet_without_headers_goes_bare() {
    let data = packet(6, 8800, 1);
    let frames = send(&mut service(config(LinkKind::Stream)), LpHeaders::default(), &data, 0);
    assert_eq!(frames, [data.to_vec()]);
}

#[test]
fn the_largest_data_with_headers_passes_streams() {
    let settings = LinkConfig { local_fields: true, ..config(LinkKind::Stream) };
    let data = packet(6, 8800, 1);
    let frames = send(&mut service(settings), all_headers(), &data, 0);
    assert!(frames[0].len() > 8800 && frames[0].len() <= LP_PACKET_OCTETS_MAX);
    assert_eq!(namely_link::stream::packet_octets(&frames[0]), Ok(Some(frames[0].len())));
    let (headers, got) = receive(&mut service(settings), &frames[0], 0).unwrap();
    assert_eq!(got, data.to_vec());
    assert_eq!(headers, LpHeaders { incoming_face_id: None, ..all_headers() });
}

#[test]
fn the_right_fragment_patches_the_hop_limit() {
    let interest = packet(5, 300, 7);
    for offset in 4..300 {
        let (mut from, mut to) = (service(datagram(100)), service(datagram(100)));
        let patch = Some(Patch { offset, value: 3 });
        let outbound = Outbound { headers: LpHeaders::default(), packet: interest.clone(), hop_limit: patch };
        let mut got = None;
        from.send(outbound, 0, &mut |frame| got = receive(&mut to, &octets(frame), 0)).unwrap();
        let mut expected = interest.to_vec();
        expected[offset] = 3;
        assert_eq!(got.unwrap().1, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_size_crosses_every_mtu(size in 4usize..8801, mtu in 64usize..9500, full in any::<bool>()) {
        let (mut from, mut to) = (service(datagram(mtu.max(if full { 160 } else { 64 }))), service(datagram(64)));
        let headers = if full { all_headers() } else { LpHeaders::default() };
        let data = packet(6, size, 3);
        let mut got = None;
        for frame in send(&mut from, headers, &data, 0) {
            prop_assert!(frame.len() <= mtu.max(160));
            prop_assert!(full || frame.len() <= mtu);
            prop_assert!(got.is_none());
            got = receive(&mut to, &frame, 0);
        }
        let (received, octets) = got.unwrap();
        prop_assert_eq!(octets, data.to_vec());
        prop_assert_eq!(received, LpHeaders { incoming_face_id: None, ..headers });
    }

    #[test]
    fn random_octets_never_stop_the_face(
        garbage in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..40),
        kind in 0u8..3,
    ) {
        let mut to = service(match kind {
            0 => config(LinkKind::Stream),
            1 => datagram(100),
            _ => reliable(100),
        });
        for wire in &garbage {
            let _ = receive(&mut to, wire, 0);
            // As the fields of an LpPacket, the same octets reach more of the parser.
            let mut lp = vec![100, wire.len() as u8];
            lp.extend_from_slice(wire);
            let _ = receive(&mut to, &lp, 0);
        }
        let data = packet(6, 300, 1);
        prop_assert_eq!(receive(&mut to, &data, 0).unwrap().1, data.to_vec());
    }
}

#[test]
fn a_full_packet_crosses_the_smallest_mtu() {
    let (mut from, mut to) = (service(reliable(64)), service(reliable(64)));
    let data = packet(6, 8800, 3);
    let frames = send(&mut from, LpHeaders::default(), &data, 0);
    assert!(frames.len() as u64 <= FRAGMENTS_MAX);
    let got: Vec<_> = frames.iter().filter_map(|frame| receive(&mut to, frame, 0)).collect();
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].1, data.to_vec());
}

/// Frames of a packet that is sent with an announcement. No frame is longer than the MTU.
fn send_announced(from: &mut Service, packet: &Packet, announcement: &[u8], now_ns: u64) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let headers = LpHeaders { pit_token: PitToken::new(&[9; 8]), ..LpHeaders::default() };
    let outbound = Outbound { headers, packet: packet.clone(), hop_limit: None };
    let emit = &mut |frame| frames.push(octets(frame));
    from.send_announced(outbound, announcement, Packet::from, now_ns, emit).unwrap();
    let mtu = from.mtu().unwrap_or(LP_PACKET_OCTETS_MAX);
    assert!(frames.iter().all(|frame| frame.len() <= mtu), "{:?}", frames.iter().map(Vec::len).max());
    frames
}

/// Passes the frames to the receiver; returns the packet's octets and its announcement.
fn announced(to: &mut Service, frames: &[Vec<u8>], now_ns: u64) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let mut whole = None;
    for frame in frames {
        if let Ok(Some(delivered)) = to.receive(frame, 0, now_ns, &mut |_| ()) {
            assert_eq!(delivered.headers.pit_token, PitToken::new(&[9; 8]));
            let announcement = delivered.announcement.map(|announcement| announcement.into_owned());
            assert!(whole.replace((delivered.packet.octets(frame).to_vec(), announcement)).is_none());
        }
    }
    whole
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn an_announcement_travels_with_the_first_frame(
        size in 100usize..8800, announcement_octets in 1usize..=400, mtu in 64usize..2000,
        is_reliable: bool, is_stream: bool, is_reversed: bool,
    ) {
        let settings = match (is_stream, is_reliable) {
            (true, _) => config(LinkKind::Stream),
            (_, true) => reliable(mtu),
            _ => datagram(mtu),
        };
        let (mut from, mut to) = (service(settings), service(settings));
        let (data, announcement) = (packet(6, size, 7), vec![8; announcement_octets]);
        let mut frames = send_announced(&mut from, &data, &announcement, 0);
        if is_reversed {
            frames.reverse();
        }
        let (got, with) = announced(&mut to, &frames, 0).expect("a packet");
        prop_assert_eq!(&got[..], &data[..]);
        let has_room = if is_stream { size + announcement_octets < 8700 } else { mtu > 500 };
        let is_left_out = drops(&from, "announcement_left_out") == 1;
        prop_assert!(!(has_room && is_left_out), "{} {} {}", size, announcement_octets, mtu);
        prop_assert_eq!(with, (!is_left_out).then_some(announcement));
        prop_assert_eq!(from.counters().fragmented, u64::from(frames.len() > 1));
    }
}

#[test]
fn an_announcement_without_room_is_counted() {
    for (settings, size, announcement_octets) in [
        (datagram(200), 300, 180),
        (reliable(200), 300, 150),
        (config(LinkKind::Stream), 8700, 100),
        (datagram(9000), 100, ANNOUNCEMENT_OCTETS_MAX + 1),
    ] {
        let (mut from, mut to) = (service(settings), service(settings));
        let data = packet(6, size, 7);
        let frames = send_announced(&mut from, &data, &vec![8; announcement_octets], 0);
        assert_eq!(announced(&mut to, &frames, 0).unwrap(), (data.to_vec(), None), "{settings:?}");
        assert_eq!(drops(&from, "announcement_left_out"), 1);
    }
    let (mut from, mut to) = (service(datagram(9000)), service(datagram(9000)));
    let longest = vec![8; ANNOUNCEMENT_OCTETS_MAX];
    let frames = send_announced(&mut from, &packet(6, 100, 7), &longest, 0);
    assert_eq!(announced(&mut to, &frames, 0).unwrap().1, Some(longest));
}

#[test]
fn a_long_announcement_waits_for_no_fragments() {
    for (octets, is_taken) in [(ANNOUNCEMENT_OCTETS_MAX, true), (ANNOUNCEMENT_OCTETS_MAX + 1, false)] {
        let mut to = service(datagram(9000));
        let (data, announcement) = (packet(6, 200, 1), vec![8; octets]);
        let mut whole = None;
        for (index, part) in data.chunks(100).enumerate() {
            let frag_index = index as u64;
            let sequence = Some(5 + frag_index);
            let framing = LpFraming { sequence, frag_index, frag_count: 2, ..LpFraming::default() };
            let with = (index == 0).then_some(&announcement[..]);
            let mut frame = Vec::new();
            encode_lp_header(&LpHeaders::default(), &framing, with, Some(part.len()), &mut frame);
            frame.extend_from_slice(part);
            let delivered = to.receive(&frame, 0, 0, &mut |_| ()).unwrap();
            whole = delivered.map(|whole| whole.announcement.map(|announcement| announcement.into_owned()));
        }
        assert_eq!(whole, Some(is_taken.then_some(announcement)));
        assert_eq!(drops(&to, "announcement_left_out"), u64::from(!is_taken));
    }
}

#[test]
fn a_lost_frame_repeats_its_announcement() {
    for (mtu, is_kept) in [(600, true), (300, false)] {
        let (mut from, mut to) = (service(reliable(600)), service(reliable(600)));
        let (data, announcement) = (packet(6, 2000, 7), vec![8; 350]);
        let frames = send_announced(&mut from, &data, &announcement, 0);
        assert_eq!(announced(&mut to, &frames[1..], 0), None, "the first is lost");
        from.reconfigure(reliable(mtu));
        let mut again = Vec::new();
        while again.is_empty() {
            let due_ns = from.due_ns().expect("a timeout");
            from.tick(due_ns, &mut |frame| again.push(octets(frame)));
        }
        let mut fresh = service(reliable(600));
        let to = if is_kept { &mut to } else { &mut fresh };
        let (got, with) = announced(to, &again, 0).expect("a packet");
        assert_eq!((&got[..], with), (&data[..], is_kept.then_some(announcement)));
        assert_eq!(drops(&from, "announcement_left_out"), u64::from(!is_kept));
    }
}

#[test]
fn headers_filling_the_mtu_are_dropped() {
    let mut from = service(LinkConfig { local_fields: true, ..datagram(64) });
    let outbound = Outbound { headers: all_headers(), packet: packet(6, 300, 1), hop_limit: None };
    assert!(from.send(outbound, 0, &mut |_| panic!("nothing may go out")).is_err());
    assert_eq!(drops(&from, "mtu_too_small"), 1);
}

#[test]
fn fragments_on_a_stream_are_refused() {
    let mut to = service(config(LinkKind::Stream));
    for frame in send(&mut service(datagram(100)), LpHeaders::default(), &packet(6, 150, 1), 0) {
        assert_eq!(receive(&mut to, &frame, 0), None);
    }
    assert_eq!(drops(&to, "fragment_on_stream"), 2);
}

#[test]
fn next_hop_face_id_needs_local_fields() {
    let headers = LpHeaders { next_hop_face_id: Some(7), ..LpHeaders::default() };
    let interest = packet(5, 50, 1);
    let local = LinkConfig { local_fields: true, ..config(LinkKind::Stream) };
    let frame = send(&mut service(local), headers, &interest, 0).remove(0);
    let mut off = service(config(LinkKind::Stream));
    assert_eq!(receive(&mut off, &frame, 0), None);
    assert_eq!(drops(&off, "local_field_refused"), 1);
    assert_eq!(receive(&mut service(local), &frame, 0).unwrap().0, headers);
    let bare = send(&mut service(config(LinkKind::Stream)), headers, &interest, 0).remove(0);
    assert_eq!(bare, interest.to_vec(), "a face without local fields does not send them");
}

#[test]
fn misplaced_header_fields_are_refused() {
    let local = LinkConfig { local_fields: true, ..config(LinkKind::Stream) };
    let nack = LpHeaders { nack: Some(NackReason::NoRoute), ..LpHeaders::default() };
    let next_hop = LpHeaders { next_hop_face_id: Some(7), ..LpHeaders::default() };
    let policy = LpHeaders { cache_policy: Some(1), ..LpHeaders::default() };
    for (headers, typ, passes) in [
        (nack, 5, true),
        (nack, 6, false),
        (next_hop, 5, true),
        (next_hop, 6, false),
        (policy, 6, true),
        (policy, 5, false),
    ] {
        let frame = send(&mut service(local), headers, &packet(typ, 50, 1), 0).remove(0);
        let mut to = service(local);
        assert_eq!(receive(&mut to, &frame, 0).is_some(), passes, "{headers:?} on {typ}");
        assert_eq!(drops(&to, "misplaced_field"), u64::from(!passes));
    }
}

#[test]
fn a_payload_must_be_interest_or_data() {
    let carried = |fragment: &[u8]| {
        let headers = LpHeaders { congestion_mark: Some(1), ..LpHeaders::default() };
        let mut to = service(config(LinkKind::Stream));
        let passes = receive(&mut to, &encode_lp_packet(&headers, fragment), 0).is_some();
        (passes, to.counters().drops.iter().map(|(label, _)| label).collect::<Vec<_>>())
    };
    assert_eq!(carried(&packet(5, 50, 1)), (true, vec![]));
    assert_eq!(carried(&packet(100, 50, 1)), (false, vec!["unexpected_type"]));
    assert_eq!(carried(&[]), (false, vec!["truncated"]));
    assert_eq!(carried(&packet(6, PACKET_OCTETS_MAX, 1)), (true, vec![]));
    assert_eq!(carried(&packet(6, PACKET_OCTETS_MAX + 1, 1)), (false, vec!["message_too_large"]));
    let bare = packet(6, PACKET_OCTETS_MAX + 1, 1);
    assert_eq!(receive(&mut service(datagram(1400)), &bare, 0), None);
}

#[test]
fn idle_packets_are_ignored() {
    let mut idle = Vec::new();
    encode_lp_header(&LpHeaders::default(), &LpFraming::default(), None, None, &mut idle);
    let mut to = service(datagram(100));
    assert_eq!(to.receive(&idle, 0, 0, &mut |_| ()), Ok(None));
}

#[test]
fn each_queue_signal_marks_a_packet() {
    for marking in [true, false] {
        let mut from = service(LinkConfig { marking, ..config(LinkKind::Stream) });
        let mut marked = Vec::new();
        for n in 0..5 {
            if n == 2 {
                from.mark_next(1);
                from.mark_next(1);
            }
            let frames = send(&mut from, LpHeaders::default(), &packet(6, 50, 1), n);
            marked.push(LpView::parse(&frames[0]).unwrap().headers.is_marked());
        }
        assert_eq!(marked, [false, false, marking, marking, false]);
        assert_eq!(from.counters().congestion_marks, 2 * u64::from(marking));
    }
}

/// A link with a delay in one direction and a schedule of faults, driven by the services' own
/// timers.
struct Network {
    ends: [Service; 2],
    /// Frames in flight by time of arrival and order of sending: the receiving end, and the octets.
    flying: std::collections::BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    random: u64,
    order: u64,
    /// Longer frames are lost.
    frame_octets_max: usize,
    loss_percent: u64,
    repeat_percent: u64,
    reorder_ns: u64,
    received: Vec<Vec<u8>>,
    now_ns: u64,
}

impl Network {
    fn new(settings: LinkConfig, seed: u64) -> Self {
        Network {
            ends: [service(settings), service(settings)],
            flying: Default::default(),
            random: seed,
            order: 0,
            frame_octets_max: usize::MAX,
            loss_percent: 0,
            repeat_percent: 0,
            reorder_ns: 0,
            received: Vec::new(),
            now_ns: 0,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.random >> 33) % below.max(1)
    }

    fn launch(&mut self, to: usize, frames: Vec<Vec<u8>>) {
        for frame in frames {
            if self.random(100) < self.loss_percent || frame.len() > self.frame_octets_max {
                continue;
            }
            let copies = 1 + u64::from(self.random(100) < self.repeat_percent);
            for _ in 0..copies {
                let arrives_ns = self.now_ns + 5 * MS + self.random(self.reorder_ns);
                self.order += 1;
                self.flying.insert((arrives_ns, self.order), (to, frame.clone()));
            }
        }
    }

    fn send(&mut self, packet: &Packet) {
        let frames = send(&mut self.ends[0], LpHeaders::default(), packet, self.now_ns);
        self.launch(1, frames);
    }

    /// Runs until no frame is in flight and no timer is set.
    fn run(&mut self) {
        for _ in 0..200_000 {
            let flying = self.flying.first_key_value().map(|((at, _), _)| *at);
            let due = [0, 1].map(|end| self.ends[end].due_ns());
            let Some(next_ns) = [flying, due[0], due[1]].into_iter().flatten().min() else { return };
            self.now_ns = self.now_ns.max(next_ns);
            let mut sent = [Vec::new(), Vec::new()];
            if flying == Some(next_ns) {
                let (_, (to, frame)) = self.flying.pop_first().unwrap();
                let mut emit = |frame| sent[1 - to].push(octets(frame));
                if let Ok(Some(got)) = self.ends[to].receive(&frame, 0, self.now_ns, &mut emit) {
                    assert_eq!(to, 1, "only one end sends packets");
                    self.received.push(got.packet.octets(&frame).to_vec());
                }
            } else {
                for (end, sent) in [1, 0].into_iter().zip(&mut sent) {
                    self.ends[end].tick(self.now_ns, &mut |frame| sent.push(octets(frame)));
                }
            }
            let [to_0, to_1] = sent;
            self.launch(0, to_0);
            self.launch(1, to_1);
        }
        panic!("the services never come to rest");
    }
}

#[test]
fn reliability_delivers_every_packet_once() {
    let (mut lost_frames, mut received) = (0, 0);
    for seed in 0..20 {
        let mut network = Network::new(reliable(127), seed);
        network.loss_percent = 2;
        network.repeat_percent = 2;
        network.reorder_ns = 2 * MS;
        let packets: Vec<Packet> = (0..6).map(|n| packet(6, 8800 - n, n as u8)).collect();
        packets.iter().for_each(|packet| network.send(packet));
        network.run();
        lost_frames += network.ends[0].counters().retransmitted;
        received += network.received.len();
        let mut got = network.received.clone();
        got.sort();
        got.dedup();
        assert_eq!(got.len(), network.received.len(), "a packet came twice");
        assert!(got.iter().all(|octets| packets.iter().any(|packet| **packet == **octets)));
    }
    assert!(lost_frames > 0);
    assert_eq!(received, 120);
}

#[test]
fn overtaken_frames_are_not_retransmitted() {
    for seed in 0..20 {
        let mut network = Network::new(reliable(127), seed);
        network.reorder_ns = MS;
        for burst in 0..5 {
            (0..6).for_each(|n| network.send(&packet(6, 8800 - n, burst)));
            network.run();
        }
        assert_eq!(network.received.len(), 30);
        let counters = network.ends.each_ref().map(Service::counters);
        assert_eq!(counters.each_ref().map(|end| (end.retransmitted, end.drops.total())), [(0, 0); 2]);
    }
}

/// Frames are reordered by more than the initial tolerance, which then grows.
#[test]
fn needless_retransmissions_lengthen_the_wait() {
    let mut again = Vec::new();
    let mut network = Network::new(reliable(127), 3);
    network.reorder_ns = 9 * MS;
    for burst in 0..6 {
        let before = network.ends[0].counters().retransmitted;
        (0..6).for_each(|n| network.send(&packet(6, 8800 - n, burst)));
        network.run();
        again.push(network.ends[0].counters().retransmitted - before);
    }
    let counters = network.ends[0].counters();
    assert_eq!((network.received.len(), counters.drops.total()), (36, 0));
    assert!(counters.needless > 0 && counters.needless <= counters.retransmitted, "{counters:?}");
    assert!(again.iter().skip(1).sum::<u64>() < counters.retransmitted / 2, "{again:?}");
}

#[test]
fn three_later_acks_retransmit_a_frame() {
    for (later, is_again) in [(2, false), (3, true)] {
        let (mut from, mut to) = (service(reliable(1000)), service(reliable(1000)));
        let mut frames = Vec::new();
        for n in 0..=later {
            frames.extend(send(&mut from, LpHeaders::default(), &packet(5, 50, n), 0));
        }
        frames.iter().skip(1).for_each(|frame| drop(receive(&mut to, frame, 10 * MS)));
        to.tick(15 * MS, &mut |acks| drop(receive(&mut from, &octets(acks), 20 * MS)));
        let mut again = 0;
        from.tick(29 * MS, &mut |_| again += 1);
        assert_eq!(again, 0, "it may come yet");
        from.tick(31 * MS, &mut |_| again += 1);
        assert_eq!(again == 1, is_again);
        assert_eq!(from.counters().retransmitted == 1, is_again);
    }
}

/// Frames that are longer than the new MTU are lost, and would be lost with each retransmission.
#[test]
fn a_falling_mtu_loses_no_reliable_packet() {
    for (seed, loss_percent) in (0..20).map(|seed| (seed, seed % 2 * 3)) {
        let mut network = Network::new(reliable(1500), seed);
        network.loss_percent = loss_percent;
        let lengths = [1000, 8800, 300, 1400, 4000, 100];
        let packets: Vec<Packet> = (0..6).map(|n| packet(6, lengths[n as usize], n)).collect();
        packets.iter().for_each(|packet| network.send(packet));
        network.frame_octets_max = 300;
        network.flying.retain(|_, (_, frame)| frame.len() <= 300);
        network.ends.iter_mut().for_each(|end| end.reconfigure(reliable(300)));
        network.send(&packet(6, 2000, 9));
        network.run();
        for sent in &packets {
            assert!(network.received.iter().any(|got| **got == **sent), "{seed}: {} octets", sent.len());
        }
        assert_eq!(drops(&network.ends[0], "retransmissions_exhausted"), 0, "{seed}");
        assert!(network.ends[0].counters().retransmitted > 0);
    }
}

#[test]
fn a_lost_fragment_loses_only_its_packet() {
    let mut network = Network::new(datagram(127), 1);
    network.reorder_ns = MS;
    for n in 0..10 {
        network.loss_percent = if n == 4 { 5 } else { 0 };
        network.send(&packet(6, 8800, n));
    }
    network.run();
    assert_eq!(network.received.len(), 9);
    assert_eq!(drops(&network.ends[1], "reassembly_timeout"), 1);
}

/// The search for other fragments once counted from 0 to the present TxSequence, under the lock.
#[test]
fn the_last_lost_frame_needs_no_search() {
    let mut from = Service::new(reliable(1500), ReassemblyTotal::new(usize::MAX), u64::MAX / 3);
    send(&mut from, LpHeaders::default(), &packet(5, 100, 1), 0);
    while let Some(due_ns) = from.due_ns() {
        from.tick(due_ns, &mut |_| ());
    }
    assert_eq!(drops(&from, "retransmissions_exhausted"), 1);
}

#[test]
fn a_dead_peer_costs_three_retransmissions() {
    let mut network = Network::new(reliable(500), 1);
    network.loss_percent = 100;
    network.send(&packet(6, 400, 1));
    network.run();
    let counters = network.ends[0].counters();
    assert_eq!(counters.retransmitted, 3);
    assert_eq!(counters.drops.of("retransmissions_exhausted"), 1);
}

#[test]
fn an_abandoned_fragment_abandons_its_packet() {
    let mut from = service(reliable(127));
    send(&mut from, LpHeaders::default(), &packet(6, 8800, 1), 0);
    let mut frames = 0;
    while let Some(due_ns) = from.due_ns() {
        from.tick(due_ns, &mut |_| frames += 1);
    }
    assert_eq!(drops(&from, "retransmissions_exhausted"), 1);
    assert_eq!(frames % 3, 0, "each fragment went again three times");
}

#[test]
fn unacknowledged_frames_are_bounded() {
    let mut from = service(reliable(500));
    let interest = packet(5, 50, 1);
    for _ in 0..UNACKED_FRAMES_MAX {
        send(&mut from, LpHeaders::default(), &interest, 0);
    }
    assert_eq!(drops(&from, "unacked_evicted"), 0, "at the limit");
    send(&mut from, LpHeaders::default(), &interest, 0);
    assert_eq!(drops(&from, "unacked_evicted"), 1, "one past it");
}

#[test]
fn one_unacknowledged_frame_holds_bounded_places() {
    let mut from = service(reliable(500));
    let interest = packet(5, 50, 1);
    for n in 0..2 * UNACKED_FRAMES_MAX {
        let frame = send(&mut from, LpHeaders::default(), &interest, 0).remove(0);
        let tx_sequence = LpView::parse(&frame).unwrap().tx_sequence.unwrap();
        if n > 0 {
            let mut ack = Vec::new();
            let framing = LpFraming { acks: &[tx_sequence], ..LpFraming::default() };
            encode_lp_header(&LpHeaders::default(), &framing, None, None, &mut ack);
            receive(&mut from, &ack, 0);
        }
    }
    assert_eq!(drops(&from, "unacked_evicted"), 0, "at the limit");
    send(&mut from, LpHeaders::default(), &interest, 0);
    assert_eq!(drops(&from, "unacked_evicted"), 1, "one past it");
}

#[test]
fn waiting_acknowledgements_are_bounded() {
    let mut to = service(reliable(500));
    let frame = |n: u64| {
        let framing = LpFraming { sequence: Some(n), tx_sequence: Some(n), ..LpFraming::default() };
        let mut out = Vec::new();
        encode_lp_header(&LpHeaders::default(), &framing, None, None, &mut out);
        out
    };
    (0..4096).for_each(|n| assert_eq!(receive(&mut to, &frame(n), 0), None));
    assert_eq!(drops(&to, "ack_evicted"), 0, "at the limit");
    receive(&mut to, &frame(4096), 0);
    assert_eq!(drops(&to, "ack_evicted"), 1, "one past it");
}

#[test]
fn acknowledgements_go_alone_after_5_ms() {
    let (mut from, mut to) = (service(reliable(1000)), service(reliable(1000)));
    let interest = packet(5, 50, 1);
    for frame in send(&mut from, LpHeaders::default(), &interest, 0) {
        receive(&mut to, &frame, 0).unwrap();
    }
    assert_eq!(to.due_ns(), Some(5 * MS));
    let answer = send(&mut to, LpHeaders::default(), &packet(6, 50, 1), MS).remove(0);
    assert_eq!(LpView::parse(&answer).unwrap().acks().count(), 1);
    receive(&mut from, &answer, MS).unwrap();
    assert_eq!(from.due_ns(), Some(6 * MS), "nothing but the answer's acknowledgement is due");
    let mut idle = Vec::new();
    from.tick(6 * MS, &mut |frame| idle.push(octets(frame)));
    assert_eq!(idle.len(), 1);
    let view = LpView::parse(&idle[0]).unwrap();
    assert_eq!((view.fragment, view.acks().count()), (None, 1));
    assert_eq!(to.receive(&idle[0], 0, 6 * MS, &mut |_| ()), Ok(None));
    assert_eq!((from.due_ns(), to.due_ns()), (None, None));
}

#[test]
fn a_peer_without_reliability_gets_plain_frames() {
    let mut plain = service(datagram(1000));
    for frame in send(&mut service(reliable(1000)), LpHeaders::default(), &packet(5, 50, 1), 0) {
        assert!(receive(&mut plain, &frame, 0).is_some());
    }
    assert_eq!(plain.due_ns(), None);
    let answer = send(&mut plain, LpHeaders::default(), &packet(6, 50, 1), 0).remove(0);
    assert_eq!(answer, packet(6, 50, 1).to_vec());
}

#[test]
fn a_changing_mtu_loses_no_packet() {
    for settings in [datagram(1500), reliable(1500)] {
        let mut network = Network::new(settings, 7);
        let packets: Vec<Packet> = (0..300).map(|n| packet(6, 300 + 28 * n, n as u8)).collect();
        for (n, packet) in packets.iter().enumerate() {
            let mtu = [64, 9000, 127, 1500, 1280][n % 5];
            network.ends[0].reconfigure(LinkConfig { kind: LinkKind::Datagram { mtu }, ..settings });
            let frames = send(&mut network.ends[0], LpHeaders::default(), packet, network.now_ns);
            assert!(frames.iter().all(|frame| frame.len() <= mtu), "{mtu}");
            network.launch(1, frames);
        }
        network.run();
        let whole = network.received.iter().zip(&packets).all(|(got, sent)| **got == **sent);
        assert!(whole && network.received.len() == packets.len());
    }
}

/// All fragments of equal packets have the same length, including the last ones. One system call
/// can send a batch of datagrams only then.
#[test]
fn equal_fragments_arrive_as_the_packet() {
    for (mtu, first) in [(1472, LpHeaders::default()), (1200, all_headers()), (600, LpHeaders::default())] {
        for size in (3000..8800).step_by(7) {
            let data = packet(6, size, 1);
            let (mut from, mut to) = (service(datagram(mtu)), service(datagram(mtu)));
            let frames = send(&mut from, first, &data, 0);
            assert!(frames.len() > 1 && frames.iter().all(|frame| frame.len() == frames[0].len()));
            assert!(frames[0].len() <= mtu);
            // No more fragments than if all but the last filled the MTU.
            assert!(frames.len() <= size.div_ceil(mtu - 27 - 80), "{} of {size}", frames.len());
            let got = frames.iter().find_map(|frame| receive(&mut to, frame, 0)).unwrap();
            assert_eq!(got.1, &data[..]);
        }
    }
}

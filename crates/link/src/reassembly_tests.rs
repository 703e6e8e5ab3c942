use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;

use namely_wire::{LpFraming, encode_lp_header};
use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

fn frame(sequence: u64, frag_index: u64, frag_count: u64, fragment: &[u8]) -> Vec<u8> {
    let framing = LpFraming { sequence: Some(sequence), frag_index, frag_count, ..LpFraming::default() };
    let mut out = Vec::new();
    encode_lp_header(&LpHeaders::default(), &framing, None, Some(fragment.len()), &mut out);
    out.extend_from_slice(fragment);
    out
}

fn limits(messages_max: usize, octets_max: usize) -> ReassemblyLimits {
    ReassemblyLimits { messages_max, octets_max, ..ReassemblyLimits::default() }
}

struct Bench {
    reassembler: Reassembler<u8>,
    drops: LinkDrops,
    now_ns: u64,
}

impl Bench {
    fn new(limits: ReassemblyLimits) -> Self {
        let reassembler = Reassembler::new(limits, Share::own(ReassemblyTotal::new(usize::MAX)));
        Bench { reassembler, drops: LinkDrops::default(), now_ns: 0 }
    }

    fn add(&mut self, remote: u8, wire: &[u8]) -> Result<Option<Vec<u8>>, LinkDrop> {
        let view = LpView::parse(wire).unwrap();
        let added = self.reassembler.add(&view, remote, self.now_ns, &mut self.drops);
        self.reassembler.memory_octets();
        added.map(|packet| packet.map(|whole| whole.octets))
    }
}

type Parts = BTreeMap<u64, Vec<u8>>;

/// A simple model of the reassembler: the fragments of a message in a map, joined when it is
/// complete.
#[derive(Default)]
struct Naive {
    /// FragCount and the received fragments, by remote and first Sequence.
    messages: BTreeMap<(u8, u64), (u64, Parts)>,
}

impl Naive {
    fn add(&mut self, remote: u8, sequence: u64, index: u64, count: u64, octets: &[u8]) -> Option<Vec<u8>> {
        if index >= count {
            return None;
        }
        let key = (remote, sequence.wrapping_sub(index));
        let (known_count, parts) = self.messages.entry(key).or_insert((count, BTreeMap::new()));
        if *known_count != count {
            return None;
        }
        parts.entry(index).or_insert(octets.to_vec());
        if parts.len() as u64 != count {
            return None;
        }
        let (_, parts) = self.messages.remove(&key)?;
        Some(parts.into_values().flatten().collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn reassembly_matches_the_naive_model(
        arrivals in prop::collection::vec((0u8..3, 0u64..4, 0u64..6, 1u64..6, 0usize..40), 1..400)
    ) {
        let mut bench = Bench::new(ReassemblyLimits::default());
        let mut naive = Naive::default();
        for (n, (remote, message, index, count, size)) in arrivals.into_iter().enumerate() {
            // Messages near the wrap of Sequence.
            let sequence = (u64::MAX - 8).wrapping_add(message * 6).wrapping_add(index);
            let octets = vec![n as u8; size];
            let got = bench.add(remote, &frame(sequence, index, count, &octets)).ok().flatten();
            prop_assert_eq!(got, naive.add(remote, sequence, index, count, &octets));
        }
        prop_assert_eq!(bench.reassembler.messages.len(), naive.messages.len());
    }
}

#[test]
fn frag_counts_of_any_size_cost_nothing() {
    let mut bench = Bench::new(ReassemblyLimits::default());
    for count in [401, 1 << 28, 1 << 32, 1 << 60, u64::MAX] {
        assert_eq!(bench.add(0, &frame(7, 0, count, &[1; 10])), Err(LinkDrop::TooManyFragments));
        assert_eq!(bench.add(0, &frame(7, count - 1, count, &[1; 10])), Err(LinkDrop::TooManyFragments));
    }
    assert_eq!(bench.reassembler.memory_octets(), 0);
    assert_eq!(bench.add(0, &frame(7, 0, 400, &[1; 10])), Ok(None));
}

#[test]
fn bad_fragments_are_refused_by_reason() {
    let mut bench = Bench::new(ReassemblyLimits::default());
    assert_eq!(bench.add(0, &frame(7, 2, 2, &[1])), Err(LinkDrop::FragIndexOutOfRange));
    let count_zero = [&[100, 16, 81, 8][..], &[0; 8], &[83, 1, 0, 80, 1, 1]].concat();
    assert_eq!(bench.add(0, &count_zero), Err(LinkDrop::FragIndexOutOfRange));
    let mut no_sequence = Vec::new();
    let framing = LpFraming { frag_index: 1, frag_count: 2, ..LpFraming::default() };
    encode_lp_header(&LpHeaders::default(), &framing, None, Some(0), &mut no_sequence);
    assert_eq!(bench.add(0, &no_sequence), Err(LinkDrop::FragmentWithoutSequence));
    assert_eq!(bench.add(0, &frame(20, 0, 3, &[1])), Ok(None));
    assert_eq!(bench.add(0, &frame(20, 0, 3, &[2])), Err(LinkDrop::DuplicateFragment));
    assert_eq!(bench.add(0, &frame(21, 1, 4, &[2])), Err(LinkDrop::FragCountChanged));
    assert_eq!(bench.add(0, &frame(21, 1, 3, &[2])), Ok(None));
    assert_eq!(bench.add(0, &frame(22, 2, 3, &[3])), Ok(Some(vec![1, 2, 3])));
}

#[test]
fn an_oversized_reassembled_packet_is_refused() {
    for (octets, whole) in [(PACKET_OCTETS_MAX, true), (PACKET_OCTETS_MAX + 1, false)] {
        for in_order in [true, false] {
            let mut bench = Bench::new(ReassemblyLimits::default());
            let packet = vec![5; octets];
            let (first, second) = packet.split_at(4400);
            let mut wires = [frame(0, 0, 2, first), frame(1, 1, 2, second)];
            if !in_order {
                wires.reverse();
            }
            assert_eq!(bench.add(0, &wires[0]), Ok(None));
            let expected = if whole { Ok(Some(packet)) } else { Err(LinkDrop::MessageTooLarge) };
            assert_eq!(bench.add(0, &wires[1]), expected);
            assert_eq!(bench.reassembler.memory_octets(), 0, "nothing of it is kept");
        }
    }
}

#[test]
fn a_fragment_flood_keeps_the_newest() {
    let mut bench = Bench::new(limits(usize::MAX, 1 << 20));
    for n in 0..20_000 {
        bench.add(0, &frame(n * 10, 0, 2, &[1; 1000])).unwrap();
        assert!(bench.reassembler.memory_octets() <= 1 << 20);
    }
    assert!(bench.drops.of("reassembly_evicted") > 18_000);
    assert!(bench.add(0, &frame(199_991, 1, 2, &[2])).unwrap().is_some(), "the newest is complete");
    assert_eq!(bench.add(0, &frame(1, 1, 2, &[2])), Ok(None), "the oldest was evicted");
}

#[test]
fn excess_messages_evict_the_longest_waiting() {
    let mut bench = Bench::new(limits(3, usize::MAX));
    for message in 0..3 {
        bench.add(0, &frame(message * 10, 0, 3, &[1])).unwrap();
    }
    assert_eq!(bench.drops.total(), 0, "at the limit");
    bench.add(0, &frame(1, 1, 3, &[1])).unwrap();
    bench.add(0, &frame(30, 0, 3, &[1])).unwrap();
    let kept: BTreeSet<u64> = bench.reassembler.messages.iter().map(|((_, first), _)| *first).collect();
    assert_eq!(kept, BTreeSet::from([0, 20, 30]), "message 10 waited longer than 0, which got a fragment");
    assert_eq!(bench.drops.of("reassembly_evicted"), 1, "one past the limit");
}

#[test]
fn an_oversized_message_does_not_stay() {
    let mut bench = Bench::new(limits(10, 1000));
    bench.add(0, &frame(0, 0, 2, &[1; 2000])).unwrap();
    assert_eq!(bench.reassembler.memory_octets(), 0);
    assert_eq!(bench.drops.of("reassembly_evicted"), 1);
}

#[test]
fn tiny_fragments_are_charged_for_overhead() {
    let mut bench = Bench::new(limits(1000, 100_000));
    for message in 0..1000 {
        for index in 1..400 {
            bench.add(0, &frame(message * 400 + index, index, 400, &[])).unwrap();
            assert!(bench.reassembler.memory_octets() <= 100_000);
        }
    }
}

#[test]
fn the_reassembly_limit_spans_all_faces() {
    let total = ReassemblyTotal::new(10_000);
    let mut faces: Vec<Reassembler<u8>> = (0..10).map(|_| of(&ReassemblyShare::new(total.clone()))).collect();
    let mut drops = LinkDrops::default();
    for n in 0..100u64 {
        let wire = frame(n * 10, 0, 2, &[1; 1000]);
        let view = LpView::parse(&wire).unwrap();
        faces[n as usize % 10].add(&view, 0, 0, &mut drops).unwrap();
        assert!(total.octets() <= 10_000);
    }
    assert!(drops.of("reassembly_evicted") > 0);
    drop(faces);
    assert_eq!(total.octets(), 0);
}

/// Returns the reassembler of a face with this owner's share.
fn of(share: &Arc<ReassemblyShare>) -> Reassembler<u8> {
    Reassembler::new(ReassemblyLimits::default(), Share::Several(share.clone()))
}

/// Adds the first halves of `packets`, of 8800 octets each.
fn begin(face: &mut Reassembler<u8>, packets: std::ops::Range<u64>, drops: &mut LinkDrops) {
    for n in packets {
        let wire = frame(n * 2, 0, 2, &[1; 4400]);
        face.add(&LpView::parse(&wire).unwrap(), 0, 0, drops).unwrap();
    }
}

#[test]
fn a_holder_reassembles_within_a_quarter() {
    let total = ReassemblyTotal::new(64 << 20);
    let share = ReassemblyShare::new(total.clone());
    let mut faces: Vec<_> = (0..1024).map(|_| of(&share)).collect();
    let mut drops = LinkDrops::default();
    for n in 0..4 {
        faces.iter_mut().for_each(|face| begin(face, n * 4..(n + 1) * 4, &mut drops));
        assert!(share.octets() <= 16 << 20, "{} octets", share.octets());
    }
    assert!(share.octets() > 15 << 20);
    assert!(drops.of("reassembly_evicted") > 0);
    drop(faces);
    assert_eq!((share.octets(), total.octets()), (0, 0));
}

#[test]
fn full_reassembly_still_serves_small_peers() {
    let total = ReassemblyTotal::new(16 << 20);
    let mut drops = LinkDrops::default();
    let shares: Vec<_> = (0..64).map(|_| ReassemblyShare::new(total.clone())).collect();
    let mut large: Vec<_> = shares.iter().map(of).collect();
    let honest = ReassemblyShare::new(total.clone());
    let mut honest_faces = [of(&honest), of(&honest)];
    for round in 0..40 {
        large.iter_mut().for_each(|face| begin(face, round * 30..(round + 1) * 30, &mut drops));
        assert!(total.octets() <= 16 << 20 && total.octets() > 8 << 20, "{} octets", total.octets());
        let mut of_honest = LinkDrops::default();
        for face in &mut honest_faces {
            begin(face, round..round + 1, &mut of_honest);
        }
        for face in &mut honest_faces {
            let wire = frame(round * 2 + 1, 1, 2, &[2; 4400]);
            let whole = face.add(&LpView::parse(&wire).unwrap(), 0, 0, &mut of_honest).unwrap();
            assert_eq!(whole.map(|whole| whole.octets.len()), Some(8800), "round {round}");
        }
        assert!(of_honest.is_empty(), "{of_honest:?}");
    }
    // The first owners have no more memory than the last ones.
    let most = shares.iter().map(|share| share.octets()).max().unwrap();
    assert!(most <= 2 * (12 << 20) / 64, "one has {most} octets");
    assert!(drops.of("reassembly_evicted") > 0);
}

#[test]
fn the_reserve_holds_one_longest_packet() {
    let total = ReassemblyTotal::new(4 * REASSEMBLY_RESERVE_OCTETS);
    let mut drops = LinkDrops::default();
    let others = ReassemblyShare::new(total.clone());
    others.charge(3 * REASSEMBLY_RESERVE_OCTETS, 0);
    let share = ReassemblyShare::new(total.clone());
    let mut face = of(&share);
    for index in 0..399u64 {
        let wire = frame(index, index, 400, &[3; PACKET_OCTETS_MAX / 400]);
        face.add(&LpView::parse(&wire).unwrap(), 0, 0, &mut drops).unwrap();
    }
    assert!(drops.is_empty() && share.octets() > PACKET_OCTETS_MAX);
    begin(&mut face, 1000..1008, &mut drops);
    assert!(drops.of("reassembly_evicted") > 0 && share.octets() <= REASSEMBLY_RESERVE_OCTETS);
}

#[test]
fn a_message_times_out_after_500_ms() {
    let mut bench = Bench::new(ReassemblyLimits::default());
    bench.add(0, &frame(0, 0, 3, &[1])).unwrap();
    bench.now_ns = 400 * MS;
    bench.add(0, &frame(1, 1, 3, &[1])).unwrap();
    assert_eq!(bench.reassembler.due_ns(), Some(900 * MS));
    bench.reassembler.expire(900 * MS - 1, &mut bench.drops);
    assert_eq!(bench.reassembler.messages.len(), 1);
    bench.reassembler.expire(900 * MS, &mut bench.drops);
    assert_eq!(bench.reassembler.messages.len(), 0);
    assert_eq!(bench.drops.of("reassembly_timeout"), 1);
    assert_eq!(bench.reassembler.due_ns(), None);
}

/// A process that stalls for longer than the timeout reads the waiting fragments of two messages.
#[test]
fn late_reading_keeps_fragments_that_arrived() {
    let mut bench = Bench::new(ReassemblyLimits::default());
    bench.add(0, &frame(0, 0, 2, &[1])).unwrap();
    bench.add(0, &frame(10, 0, 2, &[3])).unwrap();
    bench.now_ns = 600 * MS;
    assert_eq!(bench.add(0, &frame(11, 1, 2, &[4])), Ok(Some(vec![3, 4])));
    assert_eq!(bench.add(0, &frame(1, 1, 2, &[2])), Ok(Some(vec![1, 2])));
    assert_eq!(bench.drops.total(), 0);
}

#[test]
fn announcements_of_incomplete_messages_are_charged() {
    let framing = LpFraming { sequence: Some(9), frag_count: 2, ..LpFraming::default() };
    let mut wire = Vec::new();
    encode_lp_header(
        &LpHeaders::default(),
        &framing,
        Some(&[8; ANNOUNCEMENT_OCTETS_MAX]),
        Some(2),
        &mut wire,
    );
    wire.extend_from_slice(&[6, 0]);
    let mut bench = Bench::new(limits(10, 1 << 20));
    assert_eq!(bench.add(0, &frame(5, 0, 2, &[6, 0])), Ok(None));
    let without = bench.reassembler.memory_octets();
    assert_eq!(bench.add(0, &wire), Ok(None));
    assert_eq!(bench.reassembler.memory_octets(), 2 * without + ANNOUNCEMENT_OCTETS_MAX);
}

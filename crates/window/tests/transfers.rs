//! Transfers over networks that lose, reorder and repeat, and calls against the rules.

use std::collections::{BTreeMap, BTreeSet};

use namely_window::{
    Fate, Fault, NACKS_MAX, Refusal, Rto, SEGMENTS_MAX, SUPPRESSION_NS, Step, TIMEOUTS_MAX, Transfer, Window,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// The effects of a path, each as the number of affected packets of 1,000.
#[derive(Clone, Copy, Debug)]
struct Path {
    delay_ns: u64,
    lost: u64,
    late: u64,
    marked: u64,
    repeated: u64,
}

const CLEAN: Path = Path { delay_ns: 10 * MS, lost: 0, late: 0, marked: 0, repeated: 0 };

struct Outcome {
    step: Step,
    now_ns: u64,
    interests: u64,
    window_min: u32,
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 16
}

/// Runs a transfer of `segments` to its end; panics if one is taken twice or out of the window.
fn run(path: Path, segments: u64, room: u32, seed: u64) -> Outcome {
    let mut transfer = Transfer::new().expect("memory");
    let mut state = seed | 1;
    let mut arriving: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let (mut now_ns, mut interests, mut window_min) = (MS, 0, u32::MAX);
    loop {
        let until_ns = loop {
            match transfer.next(now_ns, room) {
                Step::Request { segment, lifetime_ms } => {
                    interests += 1;
                    assert!(interests < 1_000_000, "it ends");
                    assert!(lifetime_ms >= 200, "an Interest lives as long as its timer");
                    assert!(segment - transfer.first_missing() < SEGMENTS_MAX as u64);
                    assert!(transfer.outstanding() <= transfer.window().min(SEGMENTS_MAX as u32));
                    if segment >= segments || random(&mut state) % 1000 < path.lost {
                        continue;
                    }
                    let late_ns = if random(&mut state) % 1000 < path.late { path.delay_ns / 2 } else { 0 };
                    let copies = if random(&mut state) % 1000 < path.repeated { 2 } else { 1 };
                    for copy in 0..copies {
                        let at_ns = now_ns + path.delay_ns + late_ns + copy * MS;
                        arriving.insert((at_ns, interests * 2 + copy), segment);
                    }
                }
                Step::Wait { until_ns } => break until_ns,
                step => return Outcome { step, now_ns, interests, window_min },
            }
        };
        window_min = window_min.min(transfer.window());
        let coming = arriving.first_key_value().map(|((at_ns, n), segment)| (*at_ns, *n, *segment));
        match coming {
            Some((at_ns, n, segment)) if at_ns <= until_ns => {
                arriving.remove(&(at_ns, n));
                now_ns = now_ns.max(at_ns);
                let is_marked = random(&mut state) % 1000 < path.marked;
                let last = (segment + 1 == segments || segment % 3 == 0).then_some(segments - 1);
                if transfer.data(segment, last, is_marked, now_ns) == Fate::Taken {
                    assert!(taken.insert(segment), "{segment} is taken once");
                }
                let in_order = taken.iter().enumerate().take_while(|(n, taken)| *n as u64 == **taken).count();
                assert_eq!(transfer.first_missing(), in_order as u64);
            }
            _ => {
                assert!(until_ns < u64::MAX, "something wakes it");
                now_ns = now_ns.max(until_ns);
            }
        }
    }
}

#[test]
fn a_clean_path_needs_one_interest_each() {
    let outcome = run(CLEAN, 1000, 256, 1);
    assert_eq!(outcome.step, Step::Ended);
    // Segments beyond the end were requested before the end was known.
    assert!(outcome.interests < 1000 + SEGMENTS_MAX as u64, "{}", outcome.interests);
    // 1,000 segments in round trips of 10, 20, 40, 80, 160 and 256 segments.
    assert!(outcome.now_ns < 12 * 10 * MS, "{} ms", outcome.now_ns / MS);
}

#[test]
fn a_single_segment_object_ends() {
    assert_eq!(run(CLEAN, 1, 256, 1).step, Step::Ended);
}

#[test]
fn interests_stay_within_the_given_room() {
    let mut transfer = Transfer::new().expect("memory");
    for segment in 0..3 {
        assert!(matches!(transfer.next(0, 3), Step::Request { segment: n, .. } if n == segment));
    }
    assert_eq!(transfer.next(0, 3), Step::Wait { until_ns: Rto::INITIAL_NS });
    transfer.data(0, None, false, MS);
    assert!(matches!(transfer.next(MS, 2), Step::Wait { .. }), "two are outstanding");
    assert!(matches!(transfer.next(MS, 3), Step::Request { segment: 3, .. }));
    assert!(matches!(Transfer::new().expect("memory").next(0, 0), Step::Wait { until_ns: u64::MAX }));
}

#[test]
fn three_later_segments_retransmit_a_loss() {
    let mut transfer = Transfer::new().expect("memory");
    while let Step::Request { .. } = transfer.next(0, 256) {}
    let mut now_ns = 20 * MS;
    for segment in [1, 2] {
        transfer.data(segment, None, false, now_ns);
    }
    let is_again = |step| matches!(step, Step::Request { segment: 0, .. });
    while let step @ Step::Request { .. } = transfer.next(now_ns, 256) {
        assert!(!is_again(step), "two may have overtaken it");
    }
    let before = transfer.window();
    transfer.data(3, None, false, now_ns);
    assert!(transfer.window() >= before, "a loss without a queue is a bad link's");
    now_ns += SUPPRESSION_NS;
    assert!(is_again(transfer.next(now_ns, 256)));
    assert_eq!(transfer.data(0, None, false, now_ns + MS), Fate::Taken);
    assert!(transfer.first_missing() > 3);
}

#[test]
fn a_missing_segment_fails_the_transfer() {
    let mut transfer = Transfer::new().expect("memory");
    let (mut now_ns, mut interests) = (0, 0);
    let step = loop {
        match transfer.next(now_ns, 1) {
            Step::Request { segment: 0, .. } => interests += 1,
            Step::Wait { until_ns } => now_ns = until_ns,
            step => break step,
        }
    };
    assert_eq!(step, Step::Failed(Fault::TimedOut));
    assert_eq!(interests, u32::from(TIMEOUTS_MAX));
    assert_eq!(now_ns, (1 + 2 + 4 + 4 + 4 + 4) * 1000 * MS);
}

#[test]
fn no_route_nacks_fail_sooner_than_congestion() {
    for (why, refusals, fault) in [
        (Refusal::NoRoute, NACKS_MAX, Fault::NoRoute),
        (Refusal::Other, NACKS_MAX, Fault::Refused),
        (Refusal::Duplicate, NACKS_MAX, Fault::Refused),
        (Refusal::Congestion, NACKS_MAX + TIMEOUTS_MAX, Fault::Refused),
    ] {
        let mut transfer = Transfer::new().expect("memory");
        let (mut now_ns, mut refused) = (0, 0);
        let step = loop {
            match transfer.next(now_ns, 1) {
                Step::Request { segment, .. } => {
                    refused += 1;
                    transfer.refused(segment, why, now_ns);
                }
                Step::Wait { until_ns } => now_ns = until_ns,
                step => break step,
            }
        };
        assert_eq!((step, refused), (Step::Failed(fault), refusals), "{why:?}");
    }
}

#[test]
fn a_nack_brings_no_extra_interest() {
    let mut transfer = Transfer::new().expect("memory");
    let (mut now_ns, mut interests) = (0, 0);
    while let step @ (Step::Request { .. } | Step::Wait { .. }) = transfer.next(now_ns, 256) {
        match step {
            Step::Request { segment, .. } => {
                interests += 1;
                transfer.refused(segment, Refusal::NoRoute, now_ns);
            }
            Step::Wait { until_ns } => now_ns = until_ns,
            _ => {}
        }
    }
    assert!(interests <= Window::INITIAL * u32::from(NACKS_MAX), "{interests} Interests");
}

#[test]
fn a_denied_segment_fails_the_transfer() {
    let mut transfer = Transfer::new().expect("memory");
    transfer.denied();
    assert_eq!(transfer.next(0, 1), Step::Failed(Fault::Refused));
}

#[test]
fn the_window_shrinks_once_per_round_trip() {
    let mut transfer = Transfer::new().expect("memory");
    while let Step::Request { .. } = transfer.next(0, 256) {}
    assert_eq!(transfer.window(), Window::INITIAL);
    for segment in 0..5 {
        transfer.data(segment, None, true, 10 * MS);
    }
    // The marks reduce the window by 15 percent once. They also end slow start, so a probe halves
    // the usable part of the window.
    assert_eq!(transfer.window(), 5);
    while let Step::Request { segment, .. } = transfer.next(10 * MS, 256) {
        assert!(segment < 20);
    }
    for segment in 5..15 {
        transfer.data(segment, None, false, 30 * MS);
        while let Step::Request { .. } = transfer.next(30 * MS, 256) {}
    }
    assert!((8..=9).contains(&transfer.window()), "{}", transfer.window());
    assert!(run(Path { marked: 1000, ..CLEAN }, 200, 256, 1).window_min >= Window::MIN);
}

/// The path has no queue. A window that shrank with each loss would have 17, 8 and 5 segments (1.7
/// / sqrt(loss)). A transfer that waited for its timer after each loss would need 200 ms for each.
#[test]
fn lossy_transfers_outperform_additive_increase() {
    for (lost, segments_per_rtt) in [(10, 80), (50, 40), (100, 20)] {
        let outcome = run(Path { lost, ..CLEAN }, 5000, 256, 7);
        assert_eq!(outcome.step, Step::Ended);
        let rtts = outcome.now_ns / CLEAN.delay_ns;
        assert!(rtts * segments_per_rtt < 5000, "{lost} of 1,000 lost: {rtts} round trips for 5,000");
    }
}

#[test]
fn a_full_timeout_leaves_one_segment() {
    let mut transfer = Transfer::new().expect("memory");
    while let Step::Request { .. } = transfer.next(0, 256) {}
    for segment in 0..5 {
        transfer.data(segment, None, false, 10 * MS);
    }
    while let Step::Request { .. } = transfer.next(10 * MS, 256) {}
    assert!(transfer.window() > Window::INITIAL);
    let Step::Wait { until_ns } = transfer.next(10 * MS, 256) else { panic!("all is asked for") };
    assert_eq!(until_ns, 10 * MS + Rto::MIN_NS);
    assert!(matches!(transfer.next(until_ns, 256), Step::Wait { .. }), "five are awaited still");
    assert_eq!((transfer.window(), transfer.outstanding()), (1, 5));
}

/// No answer overtakes the last segment, nor a segment after which the maximum number of further
/// segments was requested.
#[test]
fn a_tail_loss_is_retried_before_timeout() {
    let mut transfer = Transfer::new().expect("memory");
    while let Step::Request { .. } = transfer.next(0, 256) {}
    for segment in 0..9 {
        transfer.data(segment, Some(9), false, 10 * MS);
    }
    let Step::Wait { until_ns } = transfer.next(10 * MS, 256) else { panic!("the last one is awaited") };
    assert!(until_ns < 40 * MS, "{} ms", until_ns / MS);
    assert!(matches!(transfer.next(until_ns, 256), Step::Request { segment: 9, .. }));
    let mut sendings = 2;
    let mut now_ns = until_ns;
    let step = loop {
        match transfer.next(now_ns, 256) {
            Step::Request { .. } => sendings += 1,
            Step::Wait { until_ns } => now_ns = until_ns,
            step => break step,
        }
    };
    assert_eq!(step, Step::Failed(Fault::TimedOut), "it is asked for in vain no more than others");
    assert!(sendings <= 4 + TIMEOUTS_MAX, "{sendings}");
}

#[test]
fn a_reordering_path_is_learned() {
    let outcome = run(Path { late: 200, ..CLEAN }, 5000, 256, 7);
    assert_eq!(outcome.step, Step::Ended);
    assert!(outcome.interests < 5000 + 5000 / 4, "{} Interests", outcome.interests);
}

#[test]
fn the_timer_follows_rfc_6298() {
    let mut rto = Rto::default();
    assert_eq!(rto.wait_ns(0), Rto::INITIAL_NS);
    rto.measured(100 * MS);
    assert_eq!(rto.wait_ns(0), 300 * MS, "100 + 4 x 50");
    rto.measured(180 * MS);
    // Deviation (3 x 50 + 80) / 4 = 57.5, round trip (7 x 100 + 180) / 8 = 110.
    assert_eq!(rto.wait_ns(0), 340 * MS);
    assert_eq!(rto.wait_ns(1), 680 * MS);
    assert_eq!(rto.wait_ns(u8::MAX), Rto::MAX_NS);
    for _ in 0..100 {
        rto.measured(MS);
    }
    assert_eq!(rto.wait_ns(0), Rto::MIN_NS);
    rto.measured(u64::MAX);
    assert!(rto.wait_ns(0) <= Rto::MAX_NS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn each_segment_is_taken_once(
        lost in 0u64..200, late in 0u64..500, marked in 0u64..100, repeated in 0u64..300,
        delay_ms in 1u64..200, segments in 1u64..600, room in 1u32..300, seed: u64,
    ) {
        let path = Path { delay_ns: delay_ms * MS, lost, late, marked, repeated };
        // If a fifth is lost, six consecutive losses of one segment have a probability of 1 in
        // 15,000. The transfer then times out.
        let outcome = run(path, segments, room, seed);
        prop_assert!(matches!(outcome.step, Step::Ended | Step::Failed(Fault::TimedOut)));
        prop_assert!(outcome.step == Step::Ended || lost > 50);
    }

    #[test]
    fn any_order_of_calls_is_safe(
        calls in prop::collection::vec((0u8..6, any::<u64>(), any::<u64>(), any::<bool>()), 1..600),
    ) {
        let mut transfer = Transfer::new().expect("memory");
        let mut now_ns = 0u64;
        for (call, number, other, flag) in calls {
            // Near the window, and anywhere.
            let segment = if flag { number } else { transfer.first_missing() + number % 300 };
            match call {
                0 | 1 => {
                    if let Step::Request { segment, .. } = transfer.next(now_ns, (other % 400) as u32) {
                        prop_assert!(segment >= transfer.first_missing());
                        prop_assert!((1..=transfer.window()).contains(&transfer.outstanding()));
                    }
                }
                2 => {
                    let last = (other % 3 == 0).then_some(if flag { other } else { segment.wrapping_add(other % 9) });
                    transfer.data(segment, last, other % 7 == 0, now_ns);
                }
                3 => transfer.refused(segment, Refusal::Congestion, now_ns),
                4 => now_ns = now_ns.saturating_add(other % (5000 * MS)),
                _ if other % 50 == 0 => now_ns = other,
                _ => transfer.refused(segment, Refusal::NoRoute, now_ns),
            }
            prop_assert!(transfer.outstanding() <= SEGMENTS_MAX as u32);
        }
    }
}

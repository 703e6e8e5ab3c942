//! The N-queue bypass model against published values, closed forms, and the same queues simulated.

use namely_sim::queueing::{Bypass, BypassQueues, Error, QUEUE_STATES_MAX, STATES_MAX, Steady};

fn solved(queues: usize, states: usize, load: f64) -> Steady {
    Bypass::new(queues, states).unwrap().solve(load).unwrap()
}

fn assert_near(what: &str, value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{what}: {value}, not {expected}");
}

/// Queues, states and load, with the mean packets, utilization and loss. An independent program
/// found these by iterating the uniformized chain, to six decimal places. The values at load 1 are
/// the requirement `NB-18`.
const PUBLISHED: [(usize, usize, f64, [f64; 3]); 22] = [
    (1, 11, 0.5, [0.994626, 0.499756, 0.000489]),
    (1, 11, 1.0, [5.000000, 0.909091, 0.090909]),
    (1, 11, 2.0, [9.005374, 0.999511, 0.500244]),
    (1, 11, 4.0, [9.666669, 0.999999, 0.750000]),
    (2, 2, 0.5, [0.461538, 0.230769, 0.076923]),
    (2, 2, 1.0, [0.800000, 0.400000, 0.200000]),
    (2, 2, 2.0, [1.200000, 0.600000, 0.400000]),
    (2, 2, 4.0, [1.538462, 0.769231, 0.615385]),
    (2, 3, 0.5, [0.652745, 0.248052, 0.007791]),
    (2, 3, 1.0, [1.369305, 0.470024, 0.059952]),
    (2, 3, 2.0, [2.421053, 0.749373, 0.250627]),
    (2, 3, 4.0, [3.273089, 0.924744, 0.537628]),
    (3, 2, 0.5, [0.493671, 0.164557, 0.012658]),
    (3, 2, 1.0, [0.937500, 0.312500, 0.062500]),
    (3, 2, 2.0, [1.578947, 0.526316, 0.210526]),
    (3, 3, 0.5, [0.657085, 0.166633, 0.000204]),
    (3, 3, 1.0, [1.437390, 0.331388, 0.005837]),
    (3, 3, 4.0, [4.589720, 0.880371, 0.339722]),
    (5, 3, 0.5, [0.657198, 0.100000, 0.000000]),
    (5, 3, 1.0, [1.444386, 0.199997, 0.000013]),
    (5, 3, 2.0, [3.121025, 0.399075, 0.002313]),
    (5, 3, 4.0, [6.188685, 0.734082, 0.082398]),
];

#[test]
fn bypass_results_match_the_published_ones() {
    for (queues, states, load, [packets, utilisation, loss]) in PUBLISHED {
        let (steady, of) = (solved(queues, states, load), format!("{queues}*{states} at {load}"));
        assert_near(&of, steady.packets_mean(), packets, 0.6e-6);
        assert_near(&of, steady.utilisation(), utilisation, 0.6e-6);
        assert_near(&of, steady.loss(), loss, 0.6e-6);
    }
}

/// Erlang's loss formula for `servers` and `load`, by its recursion.
fn erlang_b(servers: usize, load: f64) -> f64 {
    (1..=servers).fold(1.0, |blocked, servers| load * blocked / (servers as f64 + load * blocked))
}

#[test]
fn queues_without_waiting_match_erlang_b() {
    for queues in 1..=10 {
        for load in [0.01, 0.5, 1.0, 3.0, 20.0] {
            let (loss, expected) = (solved(queues, 2, load).loss(), erlang_b(queues, load));
            assert_near(&format!("{queues} at {load}"), loss, expected, 1e-9 * expected);
        }
    }
}

#[test]
fn one_queue_matches_mm1k() {
    for (packets, load) in [(1, 0.3), (10, 0.5), (10, 2.0), (100, 0.9), (127, 0.1)] {
        let steady = Bypass::dropping(packets).unwrap().solve(load).unwrap();
        let norm: f64 = (0..=packets).map(|k| f64::powi(load, k as i32)).sum();
        for (k, probability) in steady.probabilities().iter().enumerate() {
            let expected = f64::powi(load, k as i32) / norm;
            assert_near(&format!("{k} of {packets} at {load}"), *probability, expected, 1e-8 * expected);
        }
    }
}

#[test]
fn bypass_probabilities_form_a_distribution() {
    for (queues, states, load) in [(1, 2, 0.1), (2, 7, 1.3), (4, 4, 2.5), (5, 3, 9.0)] {
        let steady = solved(queues, states, load);
        assert!(steady.probabilities().iter().all(|p| (0.0..=1.0).contains(p)));
        assert_near("sum", steady.probabilities().iter().sum(), 1.0, 1e-12);
        let served: f64 = (0..queues).map(|queue| steady.utilisation_of(queue)).sum();
        assert_near("served", served, load * (1.0 - steady.loss()), 1e-8);
        let busy: Vec<f64> = (0..queues).map(|queue| steady.utilisation_of(queue)).collect();
        assert!(busy.windows(2).all(|pair| pair[0] > pair[1]), "the first queues have most to do: {busy:?}");
    }
}

#[test]
fn more_load_means_more_loss() {
    let figures = |s: Steady| [s.packets_mean(), s.utilisation(), s.loss()];
    for (queues, states) in [(1, 11), (2, 3), (3, 3), (5, 3)] {
        let of_loads: Vec<[f64; 3]> =
            (1..=20).map(|tenths| figures(solved(queues, states, f64::from(tenths) / 10.0))).collect();
        let grows = of_loads.windows(2).all(|pair| pair[0].iter().zip(pair[1]).all(|(a, b)| *a < b));
        assert!(grows, "{queues}*{states}: {of_loads:?}");
    }
    let losses: Vec<f64> = (1..=5).map(|queues| solved(queues, 3, 1.0).loss()).collect();
    assert!(losses.windows(2).all(|pair| pair[0] > pair[1]), "{losses:?}");
}

/// `NB-20`: five queues for two packets against one for ten.
#[test]
fn more_queues_of_equal_room_lose_less() {
    for twentieths in 2..=40 {
        let load = f64::from(twentieths) / 20.0;
        let (one, five) = (Bypass::dropping(10).unwrap().solve(load).unwrap(), solved(5, 3, load));
        assert!(five.loss() < one.loss() && five.utilisation() < one.utilisation(), "{load}");
        assert!(five.packets_mean() < one.packets_mean(), "{load}");
    }
}

/// `NB-19`.
#[test]
fn simulated_queues_agree_within_one_percent() {
    for (queues, states, load) in [(1, 11, 1.0), (2, 2, 0.5), (2, 3, 1.0), (3, 3, 2.0), (5, 3, 4.0)] {
        let of = Bypass::new(queues, states).unwrap();
        let (steady, measured) =
            (of.solve(load).unwrap(), BypassQueues::run(of, load, 2_000_000, 3).unwrap());
        let packets: f64 = measured.packets_mean.iter().sum();
        let utilisation = measured.utilisation.iter().sum::<f64>() / queues as f64;
        let what = format!("{queues}*{states} at {load}");
        assert_near(&what, packets, steady.packets_mean(), 0.01 * steady.packets_mean());
        assert_near(&what, utilisation, steady.utilisation(), 0.01 * steady.utilisation());
        assert_near(&what, measured.loss(), steady.loss(), 0.01 * steady.loss());
    }
}

#[test]
fn five_queues_of_ten_states_are_solved() {
    let steady = solved(5, 10, 4.0);
    assert_eq!(steady.probabilities().len(), 100_000);
    let served: f64 = (0..5).map(|queue| steady.utilisation_of(queue)).sum();
    assert_near("served", served, 4.0 * (1.0 - steady.loss()), 1e-8);
    assert!((1e-4..0.05).contains(&steady.loss()), "{}", steady.loss());
}

#[test]
fn bypass_sizes_are_limited() {
    assert!(Bypass::new(1, QUEUE_STATES_MAX).is_ok());
    let error = Bypass::new(1, QUEUE_STATES_MAX + 1).unwrap_err();
    assert!(error.to_string().contains("from 2 to 128"), "{error}");
    assert!(Bypass::new(17, 2).is_ok(), "2^17 states");
    assert!(Bypass::new(18, 2).is_err() && Bypass::new(usize::MAX, 2).is_err());
    assert!(11usize.pow(5) <= STATES_MAX && Bypass::new(5, 11).is_ok());
    let error = Bypass::new(5, 12).unwrap_err();
    assert_eq!(error, Error::TooManyStates { queues: 5, states: 12, most: STATES_MAX });
    assert!(error.to_string().contains("fewer"), "{error}");
    for (queues, states) in [(0, 2), (1, 1), (1, 0)] {
        assert!(Bypass::new(queues, states).is_err());
    }
    assert!(Bypass::dropping(usize::MAX).is_err() && Bypass::dropping(0).is_err());
    for load in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Bypass::new(2, 2).unwrap().solve(load).is_err(), "{load}");
        assert!(BypassQueues::run(Bypass::new(2, 2).unwrap(), load, 1, 1).is_err(), "{load}");
    }
}

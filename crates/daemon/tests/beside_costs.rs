//! The rate and the round trip of a producer without discovery, beside a silent, a refusing or a
//! lying neighbour of its consumer.

use crate::beside::{Scene, Station};

/// Fetches in a round.
const FETCHES: usize = 150;
/// Rounds, of which the best of each kind count: other work on the machine only takes away.
const ROUNDS: usize = 8;

#[test]
fn a_producer_without_discovery_keeps_its_rate_and_round_trip_beside_a_useless_neighbour() {
    for station in [Station::Silent, Station::Refusing, Station::Lying] {
        let Some(mut alone) = Scene::new(Station::Bystander) else { return };
        let Some(mut beside) = Scene::new(station) else { return };
        alone.fetch(20);
        // A lying neighbour is found out here: once in half a minute.
        beside.fetch(20);
        let (mut best_alone, mut best_beside) = ((0.0, f64::MAX), (0.0, f64::MAX));
        for _ in 0..ROUNDS {
            for (scene, best) in [(&mut alone, &mut best_alone), (&mut beside, &mut best_beside)] {
                let fetched = scene.fetch(FETCHES);
                assert_eq!((fetched.lost, fetched.wrong), (0, 0), "{station:?}");
                let now = (fetched.per_second(), fetched.median().as_secs_f64());
                *best = (f64::max(best.0, now.0), f64::min(best.1, now.1));
            }
        }
        let (rate, round_trip) = (best_beside.0 / best_alone.0, best_alone.1 / best_beside.1);
        println!(
            "{station:?}: {:.0} of {:.0} fetches/s ({rate:.2}), p50 {:.0} of {:.0} us ({round_trip:.2})",
            best_beside.0,
            best_alone.0,
            best_beside.1 * 1e6,
            best_alone.1 * 1e6,
        );
        assert!(rate > 0.8 && round_trip > 0.8, "{station:?}: {rate:.2}, {round_trip:.2}");
    }
}

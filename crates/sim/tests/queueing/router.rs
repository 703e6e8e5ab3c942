//! The open network against the same five queues simulated.

use namely_sim::queueing::{Rates, Router, RouterQueues, Shares, Stage};

const RATES: Rates =
    Rates { cs_lookup: 4700.0, cs_insert: 3000.0, pit_lookup: 4000.0, pit_match: 4000.0, fib_lookup: 4000.0 };

/// Room that is never full below the knee.
const ROOM: usize = 20_000;

fn router(cs_hit: f64) -> Router {
    Router::new(RATES, Shares { cs_hit, pit_hit: 0.1, ..Shares::default() }).unwrap()
}

/// `NB-01`.
#[test]
fn simulated_stages_match_the_prediction() {
    let router = router(0.3);
    let load = 0.7 * router.bottleneck().1;
    let measured = RouterQueues::run(router, load, ROOM, 1_000_000, 5).unwrap();
    for (place, stage) in router.at(load).unwrap().into_iter().enumerate() {
        let (utilisation, packets) = (measured.utilisation[place], measured.packets_mean[place]);
        assert!(
            (utilisation - stage.utilisation).abs() < 0.01 * stage.utilisation,
            "{stage:?}: {utilisation}"
        );
        assert!((packets - stage.packets_mean).abs() < 0.03 * stage.packets_mean, "{stage:?}: {packets}");
    }
    assert_eq!(measured.lost, 0);
}

/// `NB-02`: below the predicted load nothing is lost, above it the throughput stays where it was.
#[test]
fn the_knee_matches_the_prediction() {
    for (cs_hit, expected) in [(0.0, Stage::CsInsert), (0.3, Stage::CsLookup), (0.9, Stage::CsLookup)] {
        let router = router(cs_hit);
        let (stage, most) = router.bottleneck();
        assert_eq!(stage, expected, "{cs_hit}");
        let run = |share: f64| RouterQueues::run(router, share * most, 500, 400_000, 7).unwrap();
        let (below, above) = (run(0.95), run(1.3));
        assert!(below.loss() < 0.001, "{cs_hit}: {below:?}");
        assert!((above.throughput() / most - 1.0).abs() < 0.01, "{cs_hit}: {above:?}, not {most}");
        let busiest = above.utilisation.iter().copied().fold(0.0, f64::max);
        assert!(above.utilisation[stage as usize] >= busiest - 1e-9 && busiest > 0.99, "{cs_hit}: {above:?}");
    }
}

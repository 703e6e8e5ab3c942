//! The rate and the round trip of a producer without discovery, beside a silent, a refusing or a
//! lying neighbor of its consumer.

use std::time::Instant;

use crate::beside::{Scene, Station};

/// Fetches in a round.
const FETCHES: usize = 150;
/// Rounds in a pair of scenes. The best round of each scene counts, because other work on the
/// machine can only slow a round down.
const ROUNDS: usize = 8;
/// Pairs of scenes, at most. The scheduler places the routers of a scene on the processors once,
/// and one placement is a third slower than another.
const PAIRS: usize = 5;
/// The part of the rate, and of the round trip, that the producer must keep.
const KEPT: f64 = 0.8;

/// The best round of a scene.
#[derive(Clone, Copy)]
struct Best {
    per_second: f64,
    median_s: f64,
}

impl Best {
    const NONE: Best = Best { per_second: 0.0, median_s: f64::MAX };

    fn fetch(&mut self, scene: &mut Scene) -> usize {
        let fetched = scene.fetch(FETCHES);
        assert_eq!(fetched.lost, 0);
        self.per_second = self.per_second.max(fetched.per_second());
        self.median_s = self.median_s.min(fetched.median().as_secs_f64());
        fetched.wrong
    }

    /// The ratio of this scene to `alone`: of the rates, or of the round trips if that is lower.
    fn keeps(&self, alone: &Best) -> f64 {
        f64::min(self.per_second / alone.per_second, alone.median_s / self.median_s)
    }
}

/// Adds the rounds of one pair. Prints the reason and returns `None` if namespaces are not
/// available.
fn pair(station: Station, alone: &mut Best, beside: &mut Best) -> Option<()> {
    let mut scene_alone = Scene::new(Station::Bystander)?;
    let mut scene_beside = Scene::new(station)?;
    scene_alone.fetch(20);
    let began = Instant::now();
    let mut lies = scene_beside.fetch(20).wrong;
    for _ in 0..ROUNDS {
        alone.fetch(&mut scene_alone);
        lies += beside.fetch(&mut scene_beside);
    }
    // A lie is reported, and then the router avoids the liar for half a minute. Whether the first
    // lie arrives before the producer's Data depends on the scheduler.
    let allowed = if station == Station::Lying { 1 + began.elapsed().as_secs() as usize / 30 } else { 0 };
    assert!(lies <= allowed, "{station:?}: {lies} lies");
    Some(())
}

#[test]
fn a_useless_neighbor_costs_the_producer_nothing() {
    for station in [Station::Silent, Station::Refusing, Station::Lying] {
        let (mut alone, mut beside) = (Best::NONE, Best::NONE);
        for number in 1..=PAIRS {
            if pair(station, &mut alone, &mut beside).is_none() {
                return;
            }
            println!(
                "{station:?}: {:.0} of {:.0} fetches/s, p50 {:.0} of {:.0} us, after {number} pairs",
                beside.per_second,
                alone.per_second,
                beside.median_s * 1e6,
                alone.median_s * 1e6,
            );
            if beside.keeps(&alone) > KEPT {
                break;
            }
        }
        assert!(beside.keeps(&alone) > KEPT, "{station:?}: {:.2}", beside.keeps(&alone));
    }
}

//! The rule of the data plane: where an object goes that comes and is in no tier, and what has to
//! leave for it.

use alloc::vec::Vec;

use super::{Given, NOWHERE, cost};
use crate::limits::TIERS_MAX;

/// A step of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The object.
    pub object: usize,
    /// Its tier from now on, or [`NOWHERE`].
    pub tier: u8,
}

/// Lets object `k` arrive: it goes to the tier where most is gained, `rate x score` less the cost
/// of admission where there is room, and otherwise what it is worth more than the worst there less
/// both costs; of equal gains to the tier that is named first. What had to leave is treated in the
/// same way. `at` says where objects are, and is changed; the steps are appended to `steps`, at
/// most two for each tier and one.
pub fn arrive(given: &Given<'_>, k: usize, at: &mut [u8], steps: &mut Vec<Arrival>) {
    let mut object = k;
    for _ in 0..2 * TIERS_MAX {
        let Some((tier, victim)) = best_tier(given, object, at) else { break };
        if let Some(victim) = victim {
            at[victim] = NOWHERE;
        }
        at[object] = tier;
        steps.push(Arrival { object, tier });
        match victim {
            Some(victim) => object = victim,
            None => return,
        }
    }
    steps.push(Arrival { object, tier: NOWHERE });
}

/// The tier where `k` gains most, if anything, and what has to leave it.
fn best_tier(given: &Given<'_>, k: usize, at: &[u8]) -> Option<(u8, Option<usize>)> {
    let left = given.left(at);
    let score = given.scores[k];
    let mut best: Option<(i128, u8, Option<usize>)> = None;
    for (j, tier) in given.tiers.iter().enumerate().take(TIERS_MAX) {
        let missing = given.sizes[k].saturating_sub(left[j]);
        let (gain, victim) = if missing == 0 {
            (tier.reads(score) - cost(given.weight, tier.admit), None)
        } else {
            let held = (0..at.len()).filter(|i| usize::from(at[*i]) == j && given.sizes[*i] >= missing);
            let Some(worst) = held.min_by_key(|i| (given.scores[*i], usize::MAX - i)) else { continue };
            let more = tier.reads(score) - tier.reads(given.scores[worst]);
            (more - cost(given.weight, tier.evict) - cost(given.weight, tier.admit), Some(worst))
        };
        if gain > best.map_or(0, |(gain, ..)| gain) {
            best = Some((gain, j as u8, victim));
        }
    }
    best.map(|(_, tier, victim)| (tier, victim))
}

//! The rule of the data plane: the tier of an arriving object that is in no tier, and the object
//! that is evicted for it.

use alloc::vec::Vec;

use super::{NOWHERE, PlacementInput, cost};
use crate::limits::TIERS_MAX;

/// A step of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The object.
    pub object: usize,
    /// Its new tier, or [`NOWHERE`].
    pub tier: u8,
}

/// Places the arriving object `k` in the tier with the largest gain. The gain is `rate x score`
/// less the cost of admission if the tier has room. Otherwise it is the difference to the value of
/// the worst object there, less the costs of admission and eviction. Equal gains select the first
/// tier. An evicted object is placed by the same rule. `at` contains the tiers of all objects and
/// is updated. At most two steps for each tier and one more are appended to `steps`.
pub fn arrive(given: &PlacementInput<'_>, k: usize, at: &mut [u8], steps: &mut Vec<Arrival>) {
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

/// The tier with the largest positive gain for `k`, and the object to evict there.
fn best_tier(given: &PlacementInput<'_>, k: usize, at: &[u8]) -> Option<(u8, Option<usize>)> {
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

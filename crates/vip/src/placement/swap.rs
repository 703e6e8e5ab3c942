//! Improves tiers with objects of unequal sizes by single moves and swaps.

use super::{NOWHERE, PlacementInput};
use crate::limits::SWAPS_MAX;

/// Improves `at` until nothing gains or [`SWAPS_MAX`] pairs were compared.
pub(super) fn improve(given: &PlacementInput<'_>, at: &mut [u8]) {
    let mut left = given.left(at);
    let mut pairs = 0;
    let mut has_gained = true;
    while has_gained {
        has_gained = false;
        for k in 0..at.len() {
            has_gained |= moves(given, at, &mut left, k);
            for o in 0..at.len() {
                pairs += 1;
                if pairs > SWAPS_MAX {
                    return;
                }
                has_gained |= swaps(given, at, &mut left, k, o);
            }
        }
    }
}

/// Moves `k` to the tier of its largest worth, if it fits.
fn moves(given: &PlacementInput<'_>, at: &mut [u8], left: &mut [u64], k: usize) -> bool {
    let size = given.sizes[k];
    let fits = |tier: &u8| left[usize::from(*tier)] >= size;
    let tiers = (0..given.tiers.len() as u8).filter(|tier| *tier != at[k]).filter(fits);
    let best = tiers.chain([NOWHERE]).max_by_key(|tier| given.worth(k, *tier)).unwrap_or(NOWHERE);
    if given.worth(k, best) <= given.worth(k, at[k]) {
        return false;
    }
    give(left, at[k], size);
    take(left, best, size);
    at[k] = best;
    true
}

/// Swaps the tiers of `k` and `o`, if that gains and both fit.
fn swaps(given: &PlacementInput<'_>, at: &mut [u8], left: &mut [u64], k: usize, o: usize) -> bool {
    let (from, to) = (at[k], at[o]);
    let gain = given.worth(k, to) + given.worth(o, from) - given.worth(k, from) - given.worth(o, to);
    if from == to || gain <= 0 {
        return false;
    }
    let (size, other) = (given.sizes[k], given.sizes[o]);
    let fits = |tier: u8, leaves: u64, comes: u64| {
        left.get(usize::from(tier)).is_none_or(|left| left.saturating_add(leaves) >= comes)
    };
    if !fits(to, other, size) || !fits(from, size, other) {
        return false;
    }
    for (tier, leaves, comes) in [(to, other, size), (from, size, other)] {
        give(left, tier, leaves);
        take(left, tier, comes);
    }
    (at[k], at[o]) = (to, from);
    true
}

fn give(left: &mut [u64], tier: u8, octets: u64) {
    if let Some(left) = left.get_mut(usize::from(tier)) {
        *left += octets;
    }
}

fn take(left: &mut [u64], tier: u8, octets: u64) {
    if let Some(left) = left.get_mut(usize::from(tier)) {
        *left -= octets;
    }
}

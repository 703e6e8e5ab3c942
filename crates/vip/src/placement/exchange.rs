//! The best placement of objects of one size. Each exchange moves objects around the circle of
//! tiers with the largest gain, until no circle gains. A tier with free room and the state outside
//! all tiers also contain empty slots, whose moves gain nothing. A placement in which no circle
//! gains is optimal.

use super::{NOWHERE, PlacementInput};
use crate::limits::{PLACEMENT_STEPS_MAX, TIERS_MAX};

/// All tiers, and the state outside all tiers.
const STATES_MAX: usize = TIERS_MAX + 1;

/// For each pair of states, the largest gain from moving one object of the first to the second, and
/// that object; `None` is an empty slot.
type Gains = [[Option<(i128, Option<usize>)>; STATES_MAX]; STATES_MAX];

/// A circle of states, and the gain of moving around it.
#[derive(Clone, Copy, Default)]
struct Circle {
    gain: i128,
    states: [usize; STATES_MAX],
    length: usize,
}

/// Improves `at` by at most [`PLACEMENT_STEPS_MAX`] exchanges.
pub(super) fn improve(given: &PlacementInput<'_>, size: u64, at: &mut [u8]) {
    let tiers = given.tiers.len().min(TIERS_MAX);
    for _ in 0..PLACEMENT_STEPS_MAX {
        let gains = gains(given, size, at, tiers);
        let mut best = Circle::default();
        for first in 0..=tiers {
            let mut circle = Circle { gain: 0, states: [first; STATES_MAX], length: 1 };
            extend(&gains, tiers, &mut circle, &mut best);
        }
        if best.gain <= 0 {
            return;
        }
        for i in 0..best.length {
            let (from, to) = (best.states[i], best.states[(i + 1) % best.length]);
            if let Some((_, Some(k))) = gains[from][to] {
                at[k] = if to == tiers { NOWHERE } else { to as u8 };
            }
        }
    }
}

/// State of an object: its tier, or the number of tiers if it is in none.
fn state(tier: u8, tiers: usize) -> usize {
    usize::from(tier).min(tiers)
}

fn gains(given: &PlacementInput<'_>, size: u64, at: &[u8], tiers: usize) -> Gains {
    let mut gains: Gains = [[None; STATES_MAX]; STATES_MAX];
    let left = given.left(at);
    for from in 0..=tiers {
        if from == tiers || left[from] >= size {
            gains[from][..=tiers].fill(Some((0, None)));
        }
    }
    for (k, tier) in at.iter().enumerate() {
        let here = given.worth(k, *tier);
        let from = state(*tier, tiers);
        for to in (0..=tiers).filter(|to| *to != from) {
            let gain = if to == tiers { -here } else { given.worth(k, to as u8) - here };
            if gains[from][to].is_none_or(|(most, _)| gain > most) {
                gains[from][to] = Some((gain, Some(k)));
            }
        }
    }
    gains
}

/// Extends `circle` by each state that it does not contain, and closes it.
fn extend(gains: &Gains, tiers: usize, circle: &mut Circle, best: &mut Circle) {
    let (first, last) = (circle.states[0], circle.states[circle.length - 1]);
    if circle.length > 1
        && let Some((gain, _)) = gains[last][first]
        && circle.gain + gain > best.gain
    {
        *best = Circle { gain: circle.gain + gain, ..*circle };
    }
    // The first state of a circle is its smallest, so that each circle is visited once.
    for next in first + 1..=tiers {
        if let Some((gain, _)) = gains[last][next]
            && !circle.states[..circle.length].contains(&next)
        {
            circle.states[circle.length] = next;
            (circle.gain, circle.length) = (circle.gain + gain, circle.length + 1);
            extend(gains, tiers, circle, best);
            (circle.gain, circle.length) = (circle.gain - gain, circle.length - 1);
        }
    }
}

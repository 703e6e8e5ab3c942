//! Random (NFD's version 1): a new Interest goes to any of the next hops, all equally likely. A
//! retransmission tries one that is not waited for, then the one used longest ago, as in best
//! route.

use super::best_route::BestRoute;
use super::suppression::{Retransmission, decide};
use super::{Pending, Strategy, Verdict};
use crate::strategy::hook::{Hook, Memory};

pub(crate) struct Random;

/// It remembers nothing: a record is only how it comes by random numbers.
pub(crate) struct Dice(#[expect(dead_code, reason = "only types with a size have a record")] u8);

impl Memory for Dice {
    fn new(_faces_max: usize) -> Option<Self> {
        Some(Dice(0))
    }
}

impl Strategy for Random {
    type Memory = Dice;

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        BestRoute.after_receive_interest(pending)
    }

    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        _dice: &mut Dice,
        hook: &mut Hook<'_>,
    ) -> Verdict {
        match decide(pending) {
            Retransmission::Suppress => Verdict::Suppress,
            Retransmission::New => (hook.random)()
                .checked_rem(pending.upstreams.len() as u64)
                .map_or(Verdict::NoUpstream, |drawn| Verdict::forward_to(drawn as usize)),
            Retransmission::Forward => pending.unused_or_earliest(),
        }
    }
}

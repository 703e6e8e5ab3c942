//! Random (NFD's version 1): a new Interest is sent to a random next hop, all equally likely. A
//! retransmission is sent to one without a pending answer, then to the one used longest ago, as in
//! best route.

use super::best_route::BestRoute;
use super::suppression::{Retransmission, decide};
use super::{Pending, Strategy, Verdict};
use crate::strategy::hook::{Hook, Memory};

pub(crate) struct Random;

/// It has no state: the record only gives it access to random numbers.
pub(crate) struct RandomMemory(#[expect(dead_code, reason = "only types with a size have a record")] u8);

impl Memory for RandomMemory {
    fn new(_faces_max: usize) -> Option<Self> {
        Some(RandomMemory(0))
    }
}

impl Strategy for Random {
    type Memory = RandomMemory;

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        BestRoute.after_receive_interest(pending)
    }

    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        _dice: &mut RandomMemory,
        hook: &mut Hook<'_>,
    ) -> Verdict {
        match decide(pending) {
            Retransmission::Suppress => Verdict::Suppress,
            // Without upstreams the divisor is 0, which `checked_rem` reports.
            Retransmission::New => (hook.random)()
                .checked_rem(pending.upstreams.len() as u64)
                .map_or(Verdict::NoUpstream, |drawn| Verdict::forward_to(drawn as usize)),
            Retransmission::Forward => pending.unused_or_earliest(),
        }
    }
}

//! Round robin, a baseline (`VI-28`): new Interests of a prefix are sent to its next hops in turn.
//! A retransmission is sent to one without a pending answer, then to the one used longest ago, as
//! in best route.

use super::best_route::BestRoute;
use super::suppression::{Retransmission, decide};
use super::{Pending, Strategy, Verdict};
use crate::strategy::hook::{Hook, Memory};

pub(crate) struct RoundRobin;

/// The memory of round robin for a prefix: the number of Interests sent.
pub(crate) struct RoundRobinMemory(u64);

impl Memory for RoundRobinMemory {
    fn new(_faces_max: usize) -> Option<Self> {
        Some(RoundRobinMemory(0))
    }
}

impl Strategy for RoundRobin {
    type Memory = RoundRobinMemory;

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        BestRoute.after_receive_interest(pending)
    }

    fn after_receive_interest_with(
        &self,
        pending: &mut Pending<'_>,
        turn: &mut RoundRobinMemory,
        _hook: &mut Hook<'_>,
    ) -> Verdict {
        let hops = pending.upstreams.len() as u64;
        match decide(pending) {
            Retransmission::Suppress => Verdict::Suppress,
            Retransmission::New if hops == 0 => Verdict::NoUpstream,
            Retransmission::New => {
                let next = turn.0 % hops;
                turn.0 = turn.0.wrapping_add(1);
                Verdict::forward_to(next as usize)
            }
            Retransmission::Forward => pending.unused_or_earliest(),
        }
    }
}

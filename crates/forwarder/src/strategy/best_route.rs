//! Best route (NFD's version 5): the cheapest next hop first; a retransmission tries the next one
//! that was not used, then the one used longest ago.

use super::suppression::{Retransmission, decide};
use super::{Pending, Strategy, Verdict};

pub(crate) struct BestRoute;

impl Strategy for BestRoute {
    type Memory = ();

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        match decide(pending) {
            Retransmission::Suppress => Verdict::Suppress,
            Retransmission::New if pending.upstreams.is_empty() => Verdict::NoUpstream,
            Retransmission::New => Verdict::forward_to(0),
            Retransmission::Forward => pending.unused_or_earliest(),
        }
    }
}

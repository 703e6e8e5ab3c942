//! Best route (NFD's version 5). A new Interest goes to the cheapest next hop. A retransmission
//! goes to the cheapest next hop without a pending answer, or else to the one used longest ago.

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

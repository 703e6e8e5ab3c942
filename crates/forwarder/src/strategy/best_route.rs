//! Best route (NFD's version 5): the cheapest next hop first; a retransmission tries the next one that was
//! not used, then the one used longest ago.

use super::suppression::{Retransmission, decide};
use super::{Pending, Strategy, Verdict};

pub(crate) struct BestRoute;

impl Strategy for BestRoute {
    type Memory = ();

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        let choice = match decide(pending) {
            Retransmission::Suppress => return Verdict::Suppress,
            Retransmission::New if pending.upstreams.is_empty() => return Verdict::NoUpstream,
            Retransmission::New => Some(0),
            Retransmission::Forward => unused(pending).or_else(|| pending.used_earliest()),
        };
        choice.map_or(Verdict::Suppress, Verdict::forward_to)
    }
}

/// The cheapest upstream that holds no unexpired out-record.
fn unused(pending: &Pending<'_>) -> Option<usize> {
    pending.upstreams.iter().position(|upstream| pending.is_unused(upstream))
}

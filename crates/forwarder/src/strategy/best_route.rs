//! Best route (NFD's version 5): the cheapest next hop first; a retransmission tries the next one
//! that was not used, then the one used longest ago.

use super::suppression::{Retransmission, decide};
use super::{Chosen, Pending, Strategy, Verdict};

pub(crate) struct BestRoute;

impl Strategy for BestRoute {
    fn receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        let choice = match decide(pending) {
            Retransmission::Suppress => return Verdict::Suppress,
            Retransmission::New if pending.upstreams.is_empty() => return Verdict::NoUpstream,
            Retransmission::New => Some(0),
            Retransmission::Forward => unused(pending).or_else(|| used_earliest(pending)),
        };
        let Some(i) = choice else { return Verdict::Suppress };
        let mut chosen = Chosen::new();
        chosen.push(i);
        Verdict::Forward(chosen)
    }
}

/// The cheapest upstream that holds no unexpired out-record.
fn unused(pending: &Pending<'_>) -> Option<usize> {
    pending.upstreams.iter().position(|upstream| {
        pending.out_record(upstream.key()).is_none_or(|record| record.expires_at_ns <= pending.now_ns)
    })
}

/// The upstream whose latest sending is longest ago.
fn used_earliest(pending: &Pending<'_>) -> Option<usize> {
    let sent =
        pending.upstreams.iter().enumerate().filter_map(|(i, upstream)| {
            pending.out_record(upstream.key()).map(|record| (record.sent_at_ns, i))
        });
    sent.min().map(|(_, i)| i)
}

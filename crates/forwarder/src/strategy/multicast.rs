//! Multicast (NFD's version 4): an Interest is sent to every next hop; retransmissions are
//! suppressed per next hop.

use super::{ChosenUpstreams, Pending, Strategy, Verdict};
use crate::strategy::suppression::may_be_sent_again;

pub(crate) struct Multicast;

impl Strategy for Multicast {
    type Memory = ();

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        let now_ns = pending.now_ns;
        let mut chosen = ChosenUpstreams::new();
        for (i, upstream) in pending.upstreams.iter().enumerate() {
            if may_be_sent_again(pending.out_records, upstream.key(), now_ns) {
                chosen.push(i);
            }
        }
        if !chosen.is_empty() {
            Verdict::Forward(chosen)
        } else if pending.has_pending_upstream() {
            Verdict::Suppress
        } else {
            Verdict::NoUpstream
        }
    }
}

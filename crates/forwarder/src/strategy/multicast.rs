//! Multicast (NFD's version 4): it is sent to every next hop; retransmissions are suppressed per
//! next hop.

use super::suppression::{Retransmission, advance};
use super::{Chosen, Pending, Strategy, Verdict};

pub(crate) struct Multicast;

impl Strategy for Multicast {
    type Memory = ();

    fn after_receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        let now_ns = pending.now_ns;
        let mut chosen = Chosen::new();
        for (i, upstream) in pending.upstreams.iter().enumerate() {
            let record = pending.out_records.iter_mut().find(|record| record.face == upstream.key());
            let may_go = record.is_none_or(|record| {
                let since_ns = now_ns.saturating_sub(record.sent_at_ns);
                advance(&mut record.suppression_ns, since_ns) == Retransmission::Forward
            });
            if may_go {
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

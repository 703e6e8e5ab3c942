//! Retransmission suppression with a growing interval: 10 ms after the first sending, doubling up
//! to 250 ms (NFD's constants, which its consumers are tuned to).

use super::Pending;
use crate::face_id::FaceKey;
use crate::pit::entry::OutRecords;

/// The first interval, ns.
pub(super) const SUPPRESSION_NS_FIRST: u32 = 10_000_000;

/// The longest interval, ns.
pub(super) const SUPPRESSION_NS_MAX: u32 = 250_000_000;

/// The kind of an Interest for a pending name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retransmission {
    /// No upstream has a pending answer: it is treated as new.
    New,
    /// It comes long enough after the last sending to be sent again.
    Forward,
    /// It comes too soon.
    Suppress,
}

/// Decides for a pending Interest as a whole, and lengthens its interval when it is sent again.
pub(super) fn decide(pending: &mut Pending<'_>) -> Retransmission {
    if !pending.has_pending_upstream() {
        return Retransmission::New;
    }
    let last_sent_ns = pending.out_records.iter().map(|record| record.sent_at_ns).max().unwrap_or(0);
    advance(pending.suppression_ns, pending.now_ns.saturating_sub(last_sent_ns))
}

/// Decides by one interval: `interval_ns` grows if the Interest may be sent.
pub(super) fn advance(interval_ns: &mut u32, since_sent_ns: u64) -> Retransmission {
    // 0 stands for no retransmission yet.
    let current_ns = (*interval_ns).max(SUPPRESSION_NS_FIRST);
    if since_sent_ns < u64::from(current_ns) {
        return Retransmission::Suppress;
    }
    *interval_ns = current_ns.saturating_mul(2).min(SUPPRESSION_NS_MAX);
    Retransmission::Forward
}

/// Returns true if an Interest was never sent to this upstream, or long enough ago; its interval
/// then grows.
pub(crate) fn may_be_sent_again(out_records: &mut OutRecords, upstream: FaceKey, now_ns: u64) -> bool {
    let record = out_records.iter_mut().find(|record| record.face == upstream);
    record.is_none_or(|record| {
        let since_ns = now_ns.saturating_sub(record.sent_at_ns);
        advance(&mut record.suppression_ns, since_ns) == Retransmission::Forward
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suppression_doubles_from_10_to_250_ms() {
        let mut interval_ns = 0;
        let mut allowed_ms = alloc::vec::Vec::new();
        for _ in 0..7 {
            let since_ms = (1..).find(|ms| {
                let mut probe = interval_ns;
                advance(&mut probe, ms * 1_000_000) == Retransmission::Forward
            });
            let since_ms = since_ms.unwrap();
            assert_eq!(advance(&mut interval_ns, since_ms * 1_000_000 - 1), Retransmission::Suppress);
            assert_eq!(advance(&mut interval_ns, since_ms * 1_000_000), Retransmission::Forward);
            allowed_ms.push(since_ms);
        }
        assert_eq!(allowed_ms, [10, 20, 40, 80, 160, 250, 250]);
    }
}

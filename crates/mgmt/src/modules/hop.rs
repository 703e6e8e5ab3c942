//! Answers to hop-by-hop queries about a name (`namely why NAME --trace`): its route, strategy and
//! next hops. Cached and pending packets are not listed.
//!
//! A query can come from any machine and is unsigned. So queries are answered only if the operator
//! enables the answers, at a limited rate, and with a single packet.

use namely_forwarder::FaceId;
use namely_messages::{ExplainedHop, FaceScope, HopAnswer, HopNext};
use namely_wire::NameRef;

use crate::control::Control;
use crate::management::Now;

/// Queries of hop-by-hop traces that are answered in a second.
///
/// # Limit
/// Further queries are not answered.
/// - Counter: `hop_answers_refused`
/// - Tests: `network_explanations_are_rate_limited`,
///   `hop_answers_are_rate_limited`
pub const HOP_ANSWERS_PER_SECOND_MAX: u32 = 20;

/// Next hops in an answer to a hop-by-hop trace.
///
/// # Limit
/// The most expensive ones are left out.
/// - Tests: `explained_nexthops_have_a_limit`
pub const HOP_NEXT_MAX: usize = 16;

const NS_PER_S: u64 = 1_000_000_000;

/// Number of answers in the current second.
#[derive(Debug, Default)]
pub(crate) struct AnswerRate {
    second: u64,
    count: u32,
}

impl AnswerRate {
    /// Counts an answer. Returns false if the limit is reached.
    pub(crate) fn one_more(&mut self, now_ns: u64) -> bool {
        let second = now_ns / NS_PER_S;
        if second != self.second {
            *self = AnswerRate { second, count: 0 };
        }
        self.count += u32::from(self.count <= HOP_ANSWERS_PER_SECOND_MAX);
        self.count <= HOP_ANSWERS_PER_SECOND_MAX
    }
}

/// The answer about `name` to a query from the face `from`.
pub(crate) fn answer(name: NameRef<'_>, from: u64, control: Control<'_>, now: Now) -> HopAnswer {
    let explained = control.tables.explain(name, now.ns);
    let uri = |id: u64| control.faces.face(FaceId(id)).map(|face| face.uri);
    let next = |hop: &ExplainedHop| {
        let (cost, is_failing) = (hop.cost, hop.is_failing);
        if hop.face_id == FaceId::LOCAL.0 {
            explained.bound?;
            return Some(HopNext { uri: String::new(), cost, is_failing });
        }
        let face = control.faces.face(FaceId(hop.face_id)).filter(|_| hop.face_id != from)?;
        // The socket names of local applications are not disclosed.
        let uri = if face.face_scope == FaceScope::Local { String::new() } else { face.uri };
        Some(HopNext { uri, cost, is_failing })
    };
    HopAnswer {
        from: uri(from).unwrap_or_default(),
        next: explained.next_hops.iter().filter_map(next).take(HOP_NEXT_MAX).collect(),
        leads_back: explained.next_hops.iter().any(|hop| hop.face_id == from),
        prefix: explained.prefix,
        strategy: explained.strategy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_answers_are_rate_limited() {
        let mut answered = AnswerRate::default();
        for second in [0, 1, 7] {
            let now_ns = second * NS_PER_S + 5;
            assert!((0..HOP_ANSWERS_PER_SECOND_MAX).all(|_| answered.one_more(now_ns)));
            assert!(!answered.one_more(now_ns) && !answered.one_more(now_ns + 1));
        }
    }
}

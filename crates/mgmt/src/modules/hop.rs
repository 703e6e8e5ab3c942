//! What this router says of a name to who follows it hop by hop (`namely why NAME --trace`): its
//! route, strategy and next hops, and neither what is cached nor who waits.
//!
//! The question comes from any machine, unsigned. So it is answered only where the operator wants
//! that, a bounded number of times a second, and by one packet.

use namely_forwarder::FaceId;
use namely_wire::NameRef;
use namely_wire::mgmt::{ExplainedHop, FaceScope, HopAnswer, HopNext};

use crate::control::Control;
use crate::management::Now;

/// Questions that are answered in a second.
pub const HOP_ANSWERS_PER_SECOND_MAX: u32 = 20;

/// Next hops that are told: the cheapest.
pub const HOP_NEXT_MAX: usize = 16;

const NS_PER_S: u64 = 1_000_000_000;

/// How many questions were answered in this second.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    second: u64,
    count: u32,
}

impl Answered {
    /// Counts one more; false if there were enough.
    pub(crate) fn one_more(&mut self, now_ns: u64) -> bool {
        let second = now_ns / NS_PER_S;
        if second != self.second {
            *self = Answered { second, count: 0 };
        }
        self.count += u32::from(self.count <= HOP_ANSWERS_PER_SECOND_MAX);
        self.count <= HOP_ANSWERS_PER_SECOND_MAX
    }
}

/// What is said of `name` to who asked by the face `from`.
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
        // What an application's socket is called is nobody's business.
        let uri = if face.face_scope == FaceScope::Local { String::new() } else { face.uri };
        Some(HopNext { uri, cost, is_failing })
    };
    HopAnswer {
        from: uri(from).unwrap_or_default(),
        next: explained.next_hops.iter().filter_map(next).take(HOP_NEXT_MAX).collect(),
        prefix: explained.prefix,
        strategy: explained.strategy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_questions_are_answered_in_a_second_as_may_be_and_one_more_is_not() {
        let mut answered = Answered::default();
        for second in [0, 1, 7] {
            let now_ns = second * NS_PER_S + 5;
            assert!((0..HOP_ANSWERS_PER_SECOND_MAX).all(|_| answered.one_more(now_ns)));
            assert!(!answered.one_more(now_ns) && !answered.one_more(now_ns + 1));
        }
    }
}

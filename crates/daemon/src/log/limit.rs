//! How many lines of one cause are written. A cause is a place in the code: the same event with
//! other circumstances is of the same cause.

use std::collections::HashMap;

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

/// Lines of one cause that are written in [`LOG_WINDOW_S`].
pub(super) const LOG_LINES_MAX: u64 = 50;

/// After so long a cause has its lines again, s.
pub(super) const LOG_WINDOW_S: u64 = 10;

const WINDOW_NS: u64 = LOG_WINDOW_S * 1_000_000_000;

/// What was written of each cause. There are as many as places in the code that log.
#[derive(Debug, Default)]
pub(super) struct Causes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    causes: HashMap<Identifier, Cause>,
    /// When a window ends in which lines were left out; none if there is no such window.
    due_ns: Option<u64>,
}

#[derive(Debug)]
struct Cause {
    about: &'static Metadata<'static>,
    began_ns: u64,
    lines: u64,
    left_out: u64,
    /// Of the first line that was left out.
    message: String,
}

/// Lines of one cause that were not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) cause: &'static Metadata<'static>,
    pub(super) message: String,
    pub(super) count: u64,
}

impl Causes {
    /// Whether a line of this cause is written now, and then how many were left out before it and
    /// not told of. All of level `trace` are: who wants them wants all.
    pub(super) fn admit(
        &self,
        about: &'static Metadata<'static>,
        now_ns: u64,
        message: impl FnOnce() -> String,
    ) -> Option<u64> {
        if *about.level() == Level::TRACE {
            return Some(0);
        }
        let State { causes, due_ns } = &mut *self.0.lock();
        let cause = causes.entry(about.callsite()).or_insert_with(|| Cause {
            about,
            began_ns: now_ns,
            lines: 0,
            left_out: 0,
            message: String::new(),
        });
        if now_ns >= cause.began_ns.saturating_add(WINDOW_NS) {
            (cause.began_ns, cause.lines) = (now_ns, 0);
        }
        if cause.lines < LOG_LINES_MAX {
            cause.lines += 1;
            return Some(std::mem::take(&mut cause.left_out));
        }
        if cause.left_out == 0 {
            cause.message = message();
            let ends_ns = cause.began_ns.saturating_add(WINDOW_NS);
            *due_ns = Some(due_ns.map_or(ends_ns, |due_ns| due_ns.min(ends_ns)));
        }
        cause.left_out += 1;
        None
    }

    /// What was left out of causes that have logged nothing since their window was over. Each is
    /// told once.
    pub(super) fn over(&self, now_ns: u64) -> Vec<LeftOut> {
        let State { causes, due_ns } = &mut *self.0.lock();
        if due_ns.is_none_or(|due_ns| due_ns > now_ns) {
            return Vec::new();
        }
        let (mut told, mut next_ns) = (Vec::new(), None);
        for cause in causes.values_mut().filter(|cause| cause.left_out > 0) {
            let ends_ns = cause.began_ns.saturating_add(WINDOW_NS);
            if ends_ns > now_ns {
                next_ns = Some(next_ns.map_or(ends_ns, |next_ns: u64| next_ns.min(ends_ns)));
                continue;
            }
            let count = std::mem::take(&mut cause.left_out);
            told.push(LeftOut { cause: cause.about, message: std::mem::take(&mut cause.message), count });
        }
        *due_ns = next_ns;
        told
    }
}

#[cfg(test)]
mod tests {
    use tracing::Callsite;

    use super::*;

    fn causes() -> [&'static Metadata<'static>; 2] {
        [
            tracing::callsite! { name: "one", kind: tracing::metadata::Kind::EVENT, level: Level::WARN, fields: message }
                .metadata(),
            tracing::callsite! { name: "two", kind: tracing::metadata::Kind::EVENT, level: Level::WARN, fields: message }
                .metadata(),
        ]
    }

    #[test]
    fn of_one_cause_so_many_lines_are_written_in_a_while_and_the_rest_is_counted() {
        let (limit, [one, two]) = (Causes::default(), causes());
        let admit = |about, now_ns| limit.admit(about, now_ns, || "m".into());
        assert!((0..LOG_LINES_MAX).all(|n| admit(one, n) == Some(0)));
        assert!((0..7).all(|n| admit(one, 100 + n).is_none()), "one more, and others");
        assert_eq!(admit(two, 200), Some(0), "another cause has lines of its own");
        assert_eq!(limit.over(WINDOW_NS - 1), []);
        assert_eq!(admit(one, WINDOW_NS), Some(7), "the next line tells");
        assert_eq!(limit.over(WINDOW_NS), [], "and nothing else does");
    }

    #[test]
    fn what_was_left_out_of_a_cause_that_is_silent_since_is_told_once() {
        let (limit, [one, two]) = (Causes::default(), causes());
        for (about, from_ns) in [(one, 0), (two, 50)] {
            (0..LOG_LINES_MAX + 3).for_each(|_| _ = limit.admit(about, from_ns, || "m".into()));
        }
        let told = limit.over(WINDOW_NS);
        assert_eq!(told, [LeftOut { cause: one, message: "m".into(), count: 3 }]);
        assert_eq!(limit.over(WINDOW_NS + 49), []);
        assert_eq!(limit.over(WINDOW_NS + 50).len(), 1);
        assert_eq!(limit.over(u64::MAX), []);
    }
}

//! Limits the log lines of one cause. A cause is a position in the source code: the same event with
//! other fields has the same cause.

use std::collections::HashMap;

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

/// Log lines of one cause in a window of `LOG_WINDOW_S`.
///
/// # Limit
/// Further lines are left out, and a later line reports their number.
/// - Value: 50 in 10 s
/// - Counter: `left_out` of a later line
/// - Tests: `each_log_cause_has_a_line_limit`
pub(super) const LOG_LINES_MAX: u64 = 50;

/// Length of the window that limits log lines of a cause.
///
/// # Limit
/// A new window resets the limit of a cause.
/// - Value: 10 s
/// - Tests: `each_log_cause_has_a_line_limit`
pub(super) const LOG_WINDOW_S: u64 = 10;

const WINDOW_NS: u64 = LOG_WINDOW_S * 1_000_000_000;

/// The state of each cause. There are at most as many causes as log statements in the code.
#[derive(Debug, Default)]
pub(super) struct Causes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    causes: HashMap<Identifier, Cause>,
    /// End of the next window with suppressed lines, if there is one.
    due_ns: Option<u64>,
}

#[derive(Debug)]
struct Cause {
    about: &'static Metadata<'static>,
    began_ns: u64,
    lines: u64,
    left_out: u64,
    /// The message of the first suppressed line.
    message: String,
}

/// The suppressed lines of one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SuppressedLines {
    pub(super) cause: &'static Metadata<'static>,
    pub(super) message: String,
    pub(super) count: u64,
}

impl Causes {
    /// Returns `None` if a line of this cause is suppressed, otherwise the number of lines
    /// suppressed before it and not reported yet. Lines of level `trace` are never suppressed,
    /// because they are only enabled when all are needed.
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

    /// Returns the suppressed lines of causes that have logged nothing since their window ended.
    /// Each is reported once.
    pub(super) fn over(&self, now_ns: u64) -> Vec<SuppressedLines> {
        let State { causes, due_ns } = &mut *self.0.lock();
        if due_ns.is_none_or(|due_ns| due_ns > now_ns) {
            return Vec::new();
        }
        let (mut suppressed, mut next_ns) = (Vec::new(), None);
        for cause in causes.values_mut().filter(|cause| cause.left_out > 0) {
            let ends_ns = cause.began_ns.saturating_add(WINDOW_NS);
            if ends_ns > now_ns {
                next_ns = Some(next_ns.map_or(ends_ns, |next_ns: u64| next_ns.min(ends_ns)));
                continue;
            }
            let count = std::mem::take(&mut cause.left_out);
            suppressed.push(SuppressedLines {
                cause: cause.about,
                message: std::mem::take(&mut cause.message),
                count,
            });
        }
        *due_ns = next_ns;
        suppressed
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
    fn each_log_cause_has_a_line_limit() {
        let (limit, [one, two]) = (Causes::default(), causes());
        let admit = |about, now_ns| limit.admit(about, now_ns, || "m".into());
        assert!((0..LOG_LINES_MAX).all(|n| admit(one, n) == Some(0)));
        assert!((0..7).all(|n| admit(one, 100 + n).is_none()), "one more, and others");
        assert_eq!(admit(two, 200), Some(0), "another cause has lines of its own");
        assert_eq!(limit.over(WINDOW_NS - 1), []);
        assert_eq!(admit(one, WINDOW_NS), Some(7), "the next line has the count");
        assert_eq!(limit.over(WINDOW_NS), [], "and nothing else does");
    }

    #[test]
    fn omitted_log_lines_are_reported_once() {
        let (limit, [one, two]) = (Causes::default(), causes());
        for (about, from_ns) in [(one, 0), (two, 50)] {
            (0..LOG_LINES_MAX + 3).for_each(|_| _ = limit.admit(about, from_ns, || "m".into()));
        }
        let suppressed = limit.over(WINDOW_NS);
        assert_eq!(suppressed, [SuppressedLines { cause: one, message: "m".into(), count: 3 }]);
        assert_eq!(limit.over(WINDOW_NS + 49), []);
        assert_eq!(limit.over(WINDOW_NS + 50).len(), 1);
        assert_eq!(limit.over(u64::MAX), []);
    }
}

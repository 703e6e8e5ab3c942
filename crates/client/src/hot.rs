//! Prefixes of Interests, from a short sample: routers do not count by prefixes, and a long trace
//! would slow them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use namely_messages::{TraceEntry, TracedKind};
use namely_wire::{Component, Name};

use crate::{Client, ClientError};

/// Duration of the sample.
const MOMENT: Duration = Duration::from_millis(50);

/// Maximum duration of the trace, with the time for reading it.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Number of components of the returned prefixes.
const COMPONENTS: usize = 2;

/// Prefixes that `namely top` and the dashboard's page list.
///
/// # Limit
/// Prefixes with fewer Interests are not listed.
/// - Tests: `hot_prefixes_are_limited`
pub const HOT_PREFIXES_MAX: usize = 10;

/// A prefix, and its share of a sample of Interests.
#[derive(Clone, Debug, PartialEq)]
pub struct HotPrefix {
    /// The prefix.
    pub prefix: Name,
    /// Share of all Interests, from 0 to 1.
    pub part: f64,
}

impl Client {
    /// Samples the Interests of 50 ms, and returns the most frequent prefixes first. The router's
    /// own Interests are excluded. The router traces packets only during the sample.
    ///
    /// # Errors
    /// [`ClientError`]: the caller may not manage the router, which tracing requires; or the router
    /// does not trace, or is gone.
    pub fn hot_prefixes(&mut self) -> Result<Vec<HotPrefix>, ClientError> {
        let id = self.start_trace(&Name::new(), TIME_MAX)?;
        std::thread::sleep(MOMENT);
        let (mut entries, end) = (Vec::new(), Instant::now() + TIME_MAX);
        let read = loop {
            match self.read_trace(id) {
                Ok(part) => {
                    entries.extend(part.entries);
                    if !part.is_more || Instant::now() > end {
                        break Ok(());
                    }
                }
                Err(error) => break Err(error),
            }
        };
        let stopped = self.stop_trace(id);
        read.and(stopped)?;
        Ok(hottest(&entries))
    }
}

fn hottest(entries: &[TraceEntry]) -> Vec<HotPrefix> {
    let is_own =
        |entry: &&TraceEntry| entry.name.as_name().component(0) == Some(Component::generic(b"localhost"));
    let mut counts: HashMap<Name, u64> = HashMap::new();
    for entry in entries.iter().filter(|entry| entry.kind == TracedKind::Interest && !is_own(entry)) {
        let name = entry.name.as_name();
        *counts.entry(name.prefix(COMPONENTS.min(name.len())).to_name()).or_default() += 1;
    }
    let all: u64 = counts.values().sum();
    let mut counts: Vec<(Name, u64)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let hot = counts.into_iter().take(HOT_PREFIXES_MAX);
    hot.map(|(prefix, n)| HotPrefix { prefix, part: n as f64 / all as f64 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(uri: &str, kind: TracedKind) -> TraceEntry {
        TraceEntry { name: uri.parse().unwrap(), kind, ..TraceEntry::default() }
    }

    #[test]
    fn hot_prefixes_exclude_the_routers_own_interests() {
        let interest = |uri: &str| entry(uri, TracedKind::Interest);
        let entries = [
            interest("/a/b/1"),
            interest("/a/b/2"),
            interest("/a"),
            interest("/a/b"),
            interest("/localhost/nfd/status"),
            entry("/z/z", TracedKind::Data),
        ];
        let prefixes: Vec<_> =
            hottest(&entries).into_iter().map(|hot| (hot.prefix.to_string(), hot.part)).collect();
        assert_eq!(prefixes, [("/a/b".to_owned(), 0.75), ("/a".to_owned(), 0.25)]);
        assert_eq!(hottest(&[]), []);
    }

    #[test]
    fn hot_prefixes_are_limited() {
        for n in [HOT_PREFIXES_MAX, HOT_PREFIXES_MAX + 1] {
            let entries: Vec<_> = (0..n).map(|n| entry(&format!("/{n}"), TracedKind::Interest)).collect();
            assert_eq!(hottest(&entries).len(), HOT_PREFIXES_MAX);
        }
    }
}

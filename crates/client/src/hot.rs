//! Which prefixes Interests are for, by a look at those of a moment: routers do not count by
//! prefixes, and a trace that lasts would slow them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use namely_wire::mgmt::{TraceEntry, TracedKind};
use namely_wire::{Component, Name};

use crate::{Client, ClientError};

/// How long Interests are looked at.
const MOMENT: Duration = Duration::from_millis(50);

/// How long that may take in all, with what is read of it.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Components of the prefixes that are told.
const COMPONENTS: usize = 2;

/// Prefixes that are told: those with most Interests.
pub const HOT_PREFIXES_MAX: usize = 10;

/// A prefix, and its part of the Interests of a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct HotPrefix {
    /// The prefix.
    pub prefix: Name,
    /// How much of all Interests, from 0 to 1.
    pub part: f64,
}

impl Client {
    /// Looks at the Interests of 50 ms; the hottest prefix is the first. The router's own are left
    /// out. While it lasts the router traces packets, and at no other time.
    ///
    /// # Errors
    /// [`ClientError`]: who asks may not manage the router, which is what tracing needs, or it
    /// traces nothing, or it is gone.
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
    fn interests_are_counted_by_their_first_components_and_the_router_s_own_are_not() {
        let interest = |uri: &str| entry(uri, TracedKind::Interest);
        let entries = [
            interest("/a/b/1"),
            interest("/a/b/2"),
            interest("/a"),
            interest("/a/b"),
            interest("/localhost/nfd/status"),
            entry("/z/z", TracedKind::Data),
        ];
        let told: Vec<_> =
            hottest(&entries).into_iter().map(|hot| (hot.prefix.to_string(), hot.part)).collect();
        assert_eq!(told, [("/a/b".to_owned(), 0.75), ("/a".to_owned(), 0.25)]);
        assert_eq!(hottest(&[]), []);
    }

    #[test]
    fn as_many_prefixes_are_told_as_may_be_and_one_more_is_not() {
        for n in [HOT_PREFIXES_MAX, HOT_PREFIXES_MAX + 1] {
            let entries: Vec<_> = (0..n).map(|n| entry(&format!("/{n}"), TracedKind::Interest)).collect();
            assert_eq!(hottest(&entries).len(), HOT_PREFIXES_MAX);
        }
    }
}

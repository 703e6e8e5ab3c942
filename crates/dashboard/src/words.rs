//! The meanings of counters, in the words of docs/counters.md, which is compiled in.

use std::collections::BTreeMap;

const COUNTERS: &str = include_str!("../texts/counters.md");

/// The meaning of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// In words.
    pub words: String,
    /// Whether the counter counts drops or refusals.
    pub is_drop: bool,
}

/// The line below the title of a section whose counters are drops.
const DROPS: &str = "Each counted event is a drop or a refusal.";

/// The sections with counters of programs, not of routers.
const PROGRAMS: [&str; 5] =
    ["Client connections", "Fetches", "File server", "Consumer sockets", "Producer sockets"];

/// The section whose counters a router reports below `kernel.`.
const KERNEL: &str = "Kernel module";

/// The meaning of each counter, by its name. Counters of faces and listeners, whose scope precedes
/// the name in a router's report (`link.truncated`), are listed by the name alone.
pub fn meanings() -> BTreeMap<String, Meaning> {
    let mut found = BTreeMap::new();
    let (mut title, mut is_drop) = ("", false);
    for line in COUNTERS.lines() {
        if let Some(next) = line.strip_prefix("## ") {
            (title, is_drop) = (next, false);
        }
        is_drop |= line == DROPS;
        if PROGRAMS.contains(&title) {
            continue;
        }
        let Some((name, words)) = line.strip_prefix("- `").and_then(|item| item.split_once("`: ")) else {
            continue;
        };
        let scope = if title.starts_with(KERNEL) { "kernel." } else { "" };
        let meaning = Meaning { words: words.replace('`', ""), is_drop };
        found.entry(format!("{scope}{name}")).or_insert(meaning);
    }
    found
}

#[cfg(test)]
mod tests {
    use namely_forwarder::DropReason;

    use super::*;

    #[test]
    fn every_drop_reason_has_a_meaning() {
        let meanings = meanings();
        for reason in DropReason::ALL {
            let name = format!("forwarder.{}", reason.label());
            assert!(meanings.contains_key(&name), "{name} is not in docs/counters.md");
        }
        for name in ["queue_full", "truncated", "too_many_faces", "discovery.spoofed", "vip.late", "hits"] {
            assert!(meanings.contains_key(name), "{name}");
        }
        assert!(!meanings.contains_key("wakeups"), "a producer's, not a router's");
        assert!(meanings["codel"].is_drop && !meanings["codel"].words.contains('`'));
        assert!(meanings["forwarder.no_route"].words.starts_with("An Interest has no upstream face"));
        assert!(meanings["kernel.no_face"].words != meanings["no_face"].words);
        for (name, is_drop) in [
            ("forwarder.cs_disk_hits", false),
            ("discovery.hellos_sent", false),
            ("discovery.spoofed", true),
            ("vip.slots", false),
            ("vip.late", true),
            ("kernel.in_task", false),
            ("kernel.socket_full", true),
        ] {
            assert_eq!(meanings[name].is_drop, is_drop, "{name}");
        }
    }
}

//! What counters mean, in the words of docs/counters.md, which is compiled in.

use std::collections::BTreeMap;

const COUNTERS: &str = include_str!("../texts/counters.md");

/// What a counter means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// In words.
    pub words: String,
    /// Whether what it counts was dropped or refused.
    pub is_drop: bool,
}

/// What each counter means, by its name. Those of faces and listeners, whose scope comes before the
/// name in what a router tells (`link.truncated`), are here by the name alone.
pub fn meanings() -> BTreeMap<String, Meaning> {
    let mut found = BTreeMap::new();
    let (mut subject, mut scope) = ("", "");
    for line in COUNTERS.lines() {
        if line.starts_with('#') {
            scope = line.trim_start_matches(['#', ' ']);
        }
        // Counters of programs, not of routers.
        if !line.starts_with('|')
            || scope.contains("client")
            || scope.contains("socket")
            || scope.contains("server")
            || scope.contains("fetch")
        {
            continue;
        }
        let mut cells = line.trim_matches('|').splitn(2, '|').map(str::trim);
        let (Some(names), Some(words)) = (cells.next(), cells.next()) else { continue };
        match names {
            "counter" => subject = words,
            rule if rule.starts_with('-') => {}
            _ => {
                let words = plain(words);
                let is_packet = subject.starts_with("the ");
                let is_drop = is_packet || ["refused", "dropped"].iter().any(|word| words.contains(word));
                // "counts" says nothing before what is counted.
                let words = if is_packet { format!("{subject} {words}") } else { words };
                let meaning = Meaning { words, is_drop: is_drop && !words_of_disk(names) };
                for name in names.split('`').skip(1).step_by(2) {
                    found.entry(name.to_owned()).or_insert_with(|| meaning.clone());
                }
            }
        }
    }
    found
}

/// What a disk does not take goes on to its own place: no packet is lost by it.
fn words_of_disk(names: &str) -> bool {
    names.contains("cs_disk") || names.contains("objects_")
}

/// Markdown without its marks: text of links, no backquotes.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        match after.split_once("](").and_then(|(label, link)| Some((label, link.split_once(')')?.1))) {
            Some((label, after)) => {
                text.push_str(label);
                rest = after;
            }
            None => {
                text.push('[');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text.replace('`', "")
}

#[cfg(test)]
mod tests {
    use namely_forwarder::DropReason;

    use super::*;

    #[test]
    fn every_drop_of_the_forwarder_has_a_meaning() {
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
        assert!(meanings["forwarder.no_route"].words.starts_with("the packet is an Interest"));
        assert!(!meanings["forwarder.cs_disk_hits"].is_drop && meanings["discovery.spoofed"].is_drop);
    }

    #[test]
    fn links_are_their_text() {
        assert_eq!(plain("see [vip.md](vip.md#x) of `a`, [b"), "see vip.md of a, [b");
    }
}

//! Comments, documents and the names of tests are written plainly: few question words that stand
//! for a noun, no "somebody", no machine that tells or hears, and short names of tests.
//!
//! The limits are those of well-read projects of the field, with room for a quotation. A sentence
//! that passes can still be unclear: the rule finds habits, a reader finds sense.

use std::collections::BTreeMap;

use super::root;

/// Kinds of words that a plain sentence rarely has.
const KINDS: [(&str, &[&str]); 3] = [
    ("question words", &["what", "who", "whom", "whoever", "whose", "whatever"]),
    ("nobody and somebody", &["nobody", "somebody", "anybody"]),
    ("tell, hear, say", &["tell", "tells", "told", "hear", "hears", "heard", "say", "says", "said"]),
];

/// Words of a kind among a thousand.
const PER_THOUSAND_MAX: usize = 3;

/// Texts of fewer words are judged with the others of their folder only.
const WORDS_MIN: usize = 400;

/// Words of all documents together.
const DOCUMENT_WORDS_MAX: usize = 80_000;

/// Words in the name of a test: the median, and the longest.
const NAME_WORDS: (usize, usize) = (6, 12);

/// Words, and how many of them are of each kind.
#[derive(Default)]
struct Count {
    words: usize,
    of_kind: [usize; KINDS.len()],
}

impl Count {
    /// Adds a text without its quoted code.
    fn add(&mut self, text: &str) {
        let plain: String = text.split('`').step_by(2).collect();
        for word in plain.split_whitespace() {
            self.words += 1;
            let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            for ((_, words), count) in KINDS.iter().zip(&mut self.of_kind) {
                *count += usize::from(words.contains(&word.as_str()));
            }
        }
    }

    /// The kinds of which there are too many.
    fn faults(&self, whole: &str) -> Vec<String> {
        let is_judged = self.words >= WORDS_MIN;
        let kinds = KINDS.iter().zip(self.of_kind).filter(|_| is_judged);
        let many = kinds.filter(|(_, count)| count * 1000 > self.words * PER_THOUSAND_MAX);
        many.map(|((kind, _), count)| format!("{whole}: {kind}: {count} of {} words", self.words)).collect()
    }
}

/// The tracked files with an extension, by their paths from the root.
fn tracked(extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the sources").flatten() {
            let path = entry.path();
            let is_foreign =
                ["target", ".git", "node_modules", "book"].iter().any(|name| path.ends_with(name));
            if path.is_dir() && !is_foreign {
                folders.push(path);
            } else if path.extension().is_some_and(|of| of == extension) && !path.is_symlink() {
                let text = std::fs::read_to_string(&path).expect("sources are UTF-8");
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                found.push((name, text));
            }
        }
    }
    found.sort();
    found
}

/// The text of the comments of a Rust source.
fn comments(source: &str) -> String {
    let lines = source.lines().map(str::trim_start).filter(|line| line.starts_with("//"));
    lines.map(|line| line.trim_start_matches(['/', '!'])).collect::<Vec<_>>().join("\n")
}

/// A document without its blocks of code.
fn prose(document: &str) -> String {
    document.split("```").step_by(2).collect()
}

/// The folder that is judged as a whole: a crate, or the first folder of the path.
fn whole(path: &str) -> String {
    let depth = if path.starts_with("crates/") { 2 } else { 1 };
    path.split('/').take(depth).collect::<Vec<_>>().join("/")
}

#[test]
fn comments_are_plain() {
    let mut counts = BTreeMap::<String, Count>::new();
    for (path, text) in tracked("rs") {
        counts.entry(whole(&path)).or_default().add(&comments(&text));
    }
    let faults: Vec<_> = counts.iter().flat_map(|(whole, count)| count.faults(whole)).collect();
    assert!(faults.is_empty(), "name the subject of the sentence:\n{}", faults.join("\n"));
}

#[test]
fn documents_are_plain_and_short() {
    let (mut faults, mut words) = (Vec::new(), 0);
    for (path, text) in tracked("md") {
        let mut count = Count::default();
        count.add(&prose(&text));
        faults.extend(count.faults(&path));
        words += text.split_whitespace().count();
    }
    assert!(faults.is_empty(), "name the subject of the sentence:\n{}", faults.join("\n"));
    assert!(words <= DOCUMENT_WORDS_MAX, "the documents have {words} words, {DOCUMENT_WORDS_MAX} at most");
}

/// The names of the tests of a source.
fn test_names(source: &str) -> Vec<&str> {
    let after = source.split("#[test]").skip(1).filter_map(|rest| rest.split_once("fn "));
    after.filter_map(|(_, rest)| rest.split(['(', '<']).next()).collect()
}

#[test]
fn test_names_are_short() {
    let mut lengths = Vec::new();
    for (path, text) in tracked("rs") {
        for name in test_names(&text) {
            let words = name.split('_').count();
            assert!(words <= NAME_WORDS.1, "{path}: {name} has {words} words");
            lengths.push(words);
        }
    }
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!(median <= NAME_WORDS.0, "the names of tests have {median} words in the median");
}

#[test]
fn a_vague_sentence_is_counted() {
    let mut count = Count::default();
    count.add(&"word ".repeat(WORDS_MIN - 6));
    count.add("Nobody tells `who` what is read.");
    assert_eq!((count.words, count.of_kind), (WORDS_MIN - 1, [1, 1, 1]));
    assert_eq!(count.faults("x"), Vec::<String>::new(), "too short to judge");
    count.add("what what");
    assert_eq!(count.faults("x").len(), 1);
    assert_eq!(test_names("#[test]\n#[ignore]\nfn a_b() {}\n#[test] fn c<T>() {}"), ["a_b", "c"]);
    assert_eq!(comments("/// a\nlet b; // c\n  //! d"), " a\n d");
}

//! `namely words`: the terms of messages and pages, from docs/glossary.md.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Text;

const GLOSSARY: &str = include_str!("../../texts/glossary.md");

/// Columns of a line of text.
const COLUMNS: usize = 80;

const INDENT: &str = "    ";

/// Explain the terms of messages and pages, in plain words.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely words\n  namely words interest face\n  namely words --json")]
pub struct Words {
    /// Terms, or parts of terms. Default: all.
    #[arg(value_name = "TERM")]
    terms: Vec<String>,
}

/// A row of the glossary.
struct Entry {
    term: String,
    meaning: String,
    /// The heading above its table.
    topic: &'static str,
}

impl Words {
    /// Prints the terms.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let wanted: Vec<_> = self.terms.iter().map(|term| term.to_lowercase()).collect();
        let is_wanted = |entry: &Entry| {
            let term = entry.term.to_lowercase();
            wanted.is_empty() || wanted.iter().any(|part| term.contains(part))
        };
        let found: Vec<_> = entries().into_iter().filter(is_wanted).collect();
        if found.is_empty() {
            let terms = self.terms.join(", ");
            return Err(Failure::failed(format!("no term contains {terms}")).hint("`namely words` lists all"));
        }
        let object =
            |entry: &Entry| json!({"term": entry.term, "meaning": entry.meaning, "topic": entry.topic});
        ctx.out.answer(
            || Text::laid_out(&laid_out(&found, wanted.is_empty())),
            || json!({"terms": found.iter().map(object).collect::<Vec<_>>()}),
        );
        Ok(())
    }
}

/// The rows of the glossary's tables.
fn entries() -> Vec<Entry> {
    let mut topic = "";
    let mut entries = Vec::new();
    for line in GLOSSARY.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            topic = heading;
        }
        let cells = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |"));
        let Some((term, meaning)) = cells.and_then(|cells| cells.split_once(" | ")) else { continue };
        // Each table begins with a row of titles and a row of dashes.
        if term != "word" && !term.starts_with("---") {
            entries.push(Entry { term: without_links(term), meaning: without_links(meaning), topic });
        }
    }
    entries
}

/// Replaces each link by its text.
fn without_links(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, link)) = rest.split_once('[') {
        let parts = link.split_once("](").and_then(|(shown, link)| Some((shown, link.split_once(')')?.1)));
        let Some((shown, after)) = parts else { break };
        plain += before;
        plain += shown;
        rest = after;
    }
    plain + rest
}

/// The entries for a terminal, each term on its line and its meaning below.
fn laid_out(entries: &[Entry], with_topics: bool) -> String {
    let (mut text, mut topic) = (String::new(), "");
    for entry in entries {
        if with_topics && entry.topic != topic {
            topic = entry.topic;
            text += if text.is_empty() { "" } else { "\n" };
            text += &format!("{}\n", topic.to_uppercase());
        }
        text += &format!("{}\n{}", entry.term, filled(&entry.meaning));
    }
    text
}

/// Breaks a text into indented lines.
fn filled(text: &str) -> String {
    let (mut lines, mut line) = (String::new(), INDENT.to_owned());
    for word in text.split(' ') {
        if line.len() > INDENT.len() {
            if line.len() + 1 + word.len() > COLUMNS {
                lines += &format!("{line}\n");
                line = INDENT.to_owned();
            } else {
                line.push(' ');
            }
        }
        line += word;
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_glossary_is_an_entry() {
        let entries = entries();
        let rows = GLOSSARY.lines().filter(|line| line.starts_with('|')).count();
        let tables = GLOSSARY.lines().filter(|line| line.starts_with("## ")).count();
        assert_eq!(entries.len(), rows - 2 * tables);
        assert!(entries.iter().all(|entry| !entry.topic.is_empty() && !entry.meaning.contains("](")));
        let text = laid_out(&entries, true);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.starts_with("PACKETS AND NAMES\nname\n    the identifier"), "{text}");
    }

    #[test]
    fn links_become_their_text() {
        assert_eq!(without_links("a ([b](c.md)), [d](e) f"), "a (b), d f");
        assert_eq!(without_links("[open"), "[open");
    }
}

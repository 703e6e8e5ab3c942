//! Examples of keys, from the sample file that the documentation shows.

use std::sync::OnceLock;

use toml::Spanned;
use toml::de::DeValue;

use super::document::Document;
use super::error::Step;

/// The sample: each key with its default or an example. A test loads it.
pub(super) const SAMPLE: &str = include_str!("../../texts/namely.toml");

/// The sample with all of its keys in force.
pub(super) fn sample() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| SAMPLE.lines().map(|line| format!("{}\n", in_force(line))).collect())
}

/// The line without the mark of a default (`#= `) or of a key without one (`# `).
fn in_force(line: &str) -> &str {
    let is_key = |text: &&str| {
        let key = text.split_once(" = ").map_or("", |(key, _)| key);
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    let without_default = || line.strip_prefix("# ").filter(is_key);
    line.strip_prefix("#= ").or_else(without_default).unwrap_or(line)
}

/// The examples, by key.
pub(super) struct Examples(Document<'static>);

impl Examples {
    pub(super) fn read() -> Self {
        Examples(Document::parse(sample()).0)
    }

    /// An example of the key at `path`: `key = value`, or the head of a table.
    pub(super) fn of(&self, path: &[Step]) -> Option<String> {
        let (last, above) = path.split_last()?;
        let Step::Key(key) = last else { return self.of(above) };
        let path: Vec<Step> = first_entries(path);
        let Some(value) = self.0.value(&path) else {
            // The keys of this table are names, each as good as any other.
            if !key.starts_with('/') {
                return None;
            }
            let name = (*self.0.keys(&first_entries(above)).first()?).to_owned();
            let path: Vec<Step> = first_entries(above).into_iter().chain([Step::Key(name.clone())]).collect();
            return Some(format!("\"{name}\" = {}", self.text(self.0.value(&path)?)?));
        };
        if self.is_table(&path) {
            Some(self.head(&path))
        } else {
            Some(format!("{key} = {}", self.text(value)?))
        }
    }

    /// Returns true if a table or a list of tables is at `path`.
    fn is_table(&self, path: &[Step]) -> bool {
        !self.keys(path).is_empty()
    }

    /// The head of the table at `path`, with double brackets for a list of tables.
    fn head(&self, path: &[Step]) -> String {
        let is_list = self.0.value(path).is_some_and(|value| value.get_ref().is_array());
        if is_list { format!("[{}]", head(path)) } else { head(path) }
    }

    /// The head of a table that has the key `name`.
    pub(super) fn table_with(&self, name: &str) -> Option<String> {
        let mut found = None;
        self.each_table(&mut Vec::new(), &mut |path: &[Step], keys: &[&str]| {
            if found.is_none() && keys.contains(&name) && !path.is_empty() {
                found = Some(self.head(path));
            }
        });
        found
    }

    /// The keys of the table or of the first entry of the list at `path`.
    pub(super) fn keys(&self, path: &[Step]) -> Vec<&str> {
        let path = first_entries(path);
        let of_list: Vec<Step> = path.iter().cloned().chain([Step::Entry(0)]).collect();
        let keys = self.0.keys(&path);
        if keys.is_empty() { self.0.keys(&of_list) } else { keys }
    }

    /// Calls `call` with the path and the keys of each table below `path`, the outer ones first.
    fn each_table(&self, path: &mut Vec<Step>, call: &mut dyn FnMut(&[Step], &[&str])) {
        let keys = self.keys(path);
        call(path, &keys);
        for key in keys {
            path.push(Step::from(key));
            if self.is_table(path) {
                self.each_table(path, call);
            }
            path.pop();
        }
    }

    /// A value as it is written. Of a list in several lines, the first entry.
    fn text(&self, value: &Spanned<DeValue<'static>>) -> Option<String> {
        match value.get_ref() {
            DeValue::Array(list) if self.0.slice(value.span()).contains('\n') => {
                Some(format!("[{}]", self.0.slice(list.first()?.span())))
            }
            _ => Some(self.0.text_of(value)),
        }
    }
}

/// The same path in the sample, whose lists of tables have their keys in the first entry.
fn first_entries(path: &[Step]) -> Vec<Step> {
    let first = |step: &Step| match step {
        Step::Entry(_) => Step::Entry(0),
        Step::Key(key) => Step::Key(key.clone()),
    };
    path.iter().map(first).collect()
}

/// The head of the table at `path`, with double brackets for an entry of a list.
pub(super) fn head(path: &[Step]) -> String {
    let keys: Vec<&str> = path
        .iter()
        .filter_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Entry(_) => None,
        })
        .collect();
    let name = keys.join(".");
    match path.last() {
        Some(Step::Entry(_)) => format!("[[{name}]]"),
        _ => format!("[{name}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_come_from_the_sample() {
        let (_, errors) = Document::parse(sample());
        assert!(errors.is_empty(), "{errors:?}");
        let examples = Examples::read();
        let of = |path: &[Step]| examples.of(path).unwrap();
        assert_eq!(of(&["tables".into(), "cs_octets_max".into()]), "cs_octets_max = \"256MiB\"");
        assert_eq!(of(&["face".into(), Step::Entry(7), "mtu".into()]), "mtu = 1400");
        assert_eq!(of(&["process".into(), "user".into()]), "user = \"namely\"");
        assert_eq!(of(&["strategy".into(), "/x".into()]), "\"/example/live\" = \"multicast\"");
        assert_eq!(of(&["faces".into(), "listen".into()]), "listen = [\"unix:///run/namely/namely.sock\"]");
        assert_eq!(of(&["faces".into(), "memif".into()]), "[faces.memif]");
        assert_eq!(examples.table_with("cs_packets_max").as_deref(), Some("[tables]"));
        assert_eq!(examples.table_with("remote").as_deref(), Some("[[face]]"));
        assert_eq!(examples.table_with("bogus"), None);
    }
}

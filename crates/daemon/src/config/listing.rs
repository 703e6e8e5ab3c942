//! Lists of the keys of a configuration: those that a file sets, and the defaults of the others.

use std::sync::OnceLock;

use super::document::Document;
use super::error::Step;
use super::examples::SAMPLE;

/// Tables that a router has without a file.
const TABLES: [&str; 12] = [
    "faces",
    "faces.dispatcher",
    "faces.memif",
    "faces.ethernet",
    "tables",
    "cs.disk",
    "authorization",
    "discovery",
    "kernel",
    "process",
    "metrics",
    "log",
];

/// Keys whose default depends on the machine.
const DEPENDENT: [&str; 2] = ["key_chain = ", "octets_max = \"1GiB\""];

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The key with its tables, such as `tables.cs_packets_max` or `face.0.remote`.
    pub(crate) key: String,
    /// The value as TOML.
    pub(crate) value: String,
    /// The line of the value, from 1 on.
    pub(crate) line: usize,
}

/// The keys that `text` sets.
pub(crate) fn written(text: &str) -> Vec<Written> {
    let document = Document::parse(text).0;
    let lines = document.line_starts();
    let leaf = |path: Vec<Step>| {
        let value = document.value(&path)?;
        let key = path.iter().map(|step| match step {
            Step::Key(key) => key.clone(),
            Step::Entry(index) => index.to_string(),
        });
        Some(Written {
            key: key.collect::<Vec<_>>().join("."),
            value: document.text_of(value),
            line: lines.partition_point(|start| *start <= value.span().start),
        })
    };
    document.leaves().into_iter().filter_map(leaf).collect()
}

/// The defaults of the keys in tables that are always there.
pub(crate) fn defaults() -> Vec<Written> {
    static TEXT: OnceLock<String> = OnceLock::new();
    written(TEXT.get_or_init(default_text))
}

/// The lines of the sample that show defaults.
fn default_text() -> String {
    let mut is_always = false;
    let mut text = String::new();
    for line in SAMPLE.lines() {
        let default = line.strip_prefix("#= ");
        let content = default.unwrap_or(line);
        let is_shown = if content.starts_with('[') {
            let name = content.split(']').next().unwrap_or_default().trim_start_matches('[');
            is_always = !content.starts_with("[[") && TABLES.contains(&name);
            is_always
        } else {
            is_always && default.is_some() && !DEPENDENT.iter().any(|key| content.starts_with(key))
        };
        if is_shown {
            text.push_str(content);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_listed_with_values() {
        let text = "[tables]\ncs_packets_max = 7\n[[face]]\nremote = \"udp://a\"\nroutes = [\n  \"/a\", # one\n  \"/b\",\n]\n";
        let listed = written(text);
        let of = |key: &str| listed.iter().find(|of| of.key == key).unwrap();
        let packets = of("tables.cs_packets_max");
        assert_eq!((packets.value.as_str(), packets.line, of("face.0.remote").line), ("7", 2, 4));
        assert_eq!(of("face.0.routes").value, "[\"/a\", \"/b\"]");
        assert_eq!(listed.len(), 3, "{listed:?}");
        let defaults = defaults();
        assert!(defaults.len() > 70, "{}", defaults.len());
        let policy = defaults.iter().find(|of| of.key == "tables.cs_policy").unwrap();
        assert_eq!(policy.value, "\"s3-fifo\"");
        assert!(!defaults.iter().any(|of| of.key.starts_with("vip") || of.key.starts_with("face.")));
    }
}

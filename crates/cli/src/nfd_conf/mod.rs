//! Translates NFD's configuration (nfd.conf of NFD 24.07) to namelyd's. docs/nfd.md has the same as
//! a table.
//!
//! A setting without an equivalent becomes a note with its line. No other file is read, and neither
//! the network nor the devices of this machine are queried.

mod faces;
pub mod info;
mod rights;

use std::fmt::Write;
use std::path::Path;

use self::info::Entry;

/// A configuration of namelyd, and notes on differences.
#[derive(Debug, Default)]
pub struct Migrated {
    /// The configuration's text.
    pub toml: String,
    /// Settings without an exact equivalent.
    pub notes: Vec<Note>,
}

/// A setting of nfd.conf without an exact equivalent in namely.toml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The line of the setting in nfd.conf, from 1 on.
    pub line: usize,
    /// The key of the setting, with the keys of the sections around it.
    pub key: String,
    /// The effect of the difference, and a remedy.
    pub text: String,
}

impl Migrated {
    fn note(&mut self, entry: &Entry, key: &str, text: impl Into<String>) {
        self.notes.push(Note { line: entry.line, key: key.into(), text: text.into() });
    }

    /// Adds a note for each entry of a section whose key is not in `known`.
    fn note_others(&mut self, section: &Entry, path: &str, known: &[&str]) {
        for entry in section.below.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let key = format!("{path}.{}", entry.key).trim_start_matches('.').to_owned();
            self.note(entry, &key, "not known to this version of namely: left out");
        }
    }

    fn line(&mut self, line: impl AsRef<str>) {
        self.toml.push_str(line.as_ref());
        self.toml.push('\n');
    }

    /// Writes the head of a table, after an empty line.
    fn table(&mut self, name: &str) {
        let gap = if self.toml.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.toml, "{gap}{name}");
    }

    fn set(&mut self, key: &str, value: impl Into<toml::Value>) {
        let _ = writeln!(self.toml, "{key} = {}", value.into());
    }
}

/// Translates `config`, which is from `source`. The paths of certificates are relative to `folder`.
pub fn migrate(config: &Entry, source: &str, folder: &Path) -> Migrated {
    let mut to = Migrated::default();
    to.line(format!("# Made from {source} by `namely migrate`."));
    to.note_others(
        config,
        "",
        &["general", "log", "forwarder", "tables", "face_system", "authorizations", "rib"],
    );
    if let Some(general) = config.get("general") {
        general_section(general, &mut to);
    }
    if let Some(log) = config.get("log") {
        log_section(log, &mut to);
    }
    if let Some(forwarder) = config.get("forwarder") {
        to.note_others(forwarder, "forwarder", &["default_hop_limit"]);
        if let Some(limit) = forwarder.get("default_hop_limit").filter(|entry| entry.value != "0") {
            to.note(limit, "forwarder.default_hop_limit", "none: an Interest without HopLimit gets none");
        }
    }
    if let Some(tables) = config.get("tables") {
        tables_section(tables, &mut to);
    }
    faces::section(config.get("face_system").unwrap_or(&Entry::default()), &mut to);
    rights::sections(config, folder, &mut to);
    to
}

fn general_section(general: &Entry, to: &mut Migrated) {
    to.note_others(general, "general", &["user", "group"]);
    if let Some(user) = general.value_of("user") {
        to.table("[process]");
        to.set("user", user);
    }
    if let Some(group) = general.get("group") {
        to.note(group, "general.group", "none: the router has the first group of its user");
    }
}

fn log_section(log: &Entry, to: &mut Migrated) {
    for module in log.below.iter().filter(|entry| entry.key != "default_level") {
        let text = "NFD's modules are not namely's: [log] level takes pairs such as namely_mgmt=debug";
        to.note(module, &format!("log.{}", module.key), text);
    }
    let Some(level) = log.get("default_level") else { return };
    let ours = match level.value.as_str() {
        "NONE" => "off",
        "ERROR" => "error",
        "WARN" => "warn",
        "INFO" => "info",
        "DEBUG" => "debug",
        "TRACE" | "ALL" => "trace",
        _ => return to.note(level, "log.default_level", "not a level of NFD: left out"),
    };
    to.table("[log]");
    to.set("level", ours);
}

fn tables_section(tables: &Entry, to: &mut Migrated) {
    to.note_others(
        tables,
        "tables",
        &["cs_max_packets", "cs_policy", "cs_unsolicited_policy", "strategy_choice", "network_region"],
    );
    to.table("[tables]");
    if let Some(packets) = tables.get("cs_max_packets") {
        match packets.value.parse::<u32>() {
            Ok(n) => to.set("cs_packets_max", i64::from(n)),
            Err(_) => to.note(packets, "tables.cs_max_packets", "not a number: left out"),
        }
    }
    if let Some(policy) = tables.get("cs_policy") {
        match policy.value.as_str() {
            "lru" => to.set("cs_policy", "lru"),
            "priority_fifo" => {
                to.set("cs_policy", "fifo");
                to.note(policy, "tables.cs_policy", "`fifo`, without separate queues for stale Data");
            }
            _ => to.note(policy, "tables.cs_policy", "not a policy of NFD: left out, which means s3-fifo"),
        }
    }
    if let Some(unsolicited) = tables.value_of("cs_unsolicited_policy") {
        to.set("cs_unsolicited", unsolicited);
    }
    if let Some(region) = tables.get("network_region").filter(|region| !region.below.is_empty()) {
        to.table("[network]");
        to.set("regions", names(region));
    }
    if let Some(choices) = tables.get("strategy_choice").filter(|choices| !choices.below.is_empty()) {
        strategies(choices, to);
    }
}

/// Returns the keys below an entry.
fn names(entry: &Entry) -> toml::Value {
    entry.below.iter().map(|entry| toml::Value::from(entry.key.as_str())).collect::<Vec<_>>().into()
}

/// Strategies of NFD that have the same name here.
const STRATEGIES: [&str; 5] = ["best-route", "multicast", "asf", "self-learning", "random"];

fn strategies(choices: &Entry, to: &mut Migrated) {
    to.table("[strategy]");
    for choice in &choices.below {
        let last = choice.value.rsplit("/localhost/nfd/strategy/").next().unwrap_or_default();
        let parts: Vec<&str> = last.split('/').filter(|part| !part.is_empty()).collect();
        let Some((name, more)) = parts.split_first().filter(|(name, _)| STRATEGIES.contains(name)) else {
            let text =
                format!("there is no strategy `{last}`: {} inherits that of the prefix above it", choice.key);
            to.note(choice, "tables.strategy_choice", text);
            continue;
        };
        // NFD's version numbers are left out. Parameters of asf are copied with the full name.
        let parameters: Vec<&str> = more.iter().copied().filter(|part| !part.starts_with("v=")).collect();
        let value = match (parameters.is_empty(), *name) {
            (true, name) => name.to_owned(),
            (false, "asf") => format!("/localhost/nfd/strategy/asf/v=5/{}", parameters.join("/")),
            (false, name) => {
                let text = format!("parameters of {name} have no equivalent: left out");
                to.note(choice, "tables.strategy_choice", text);
                name.to_owned()
            }
        };
        let key = toml::Value::from(choice.key.as_str()).to_string();
        to.set(&key, value);
    }
}

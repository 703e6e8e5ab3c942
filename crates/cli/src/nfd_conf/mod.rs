//! NFD's configuration (nfd.conf of NFD 24.07) as namelyd's: docs/nfd.md has the same as a table.
//!
//! What has no equivalent becomes a note that names its line. It reads no other file, and asks
//! neither the network nor the devices of this machine.

mod faces;
pub mod info;
mod rights;

use std::fmt::Write;
use std::path::Path;

use self::info::Entry;

/// A configuration of namelyd, and what it leaves out.
#[derive(Debug, Default)]
pub struct Migrated {
    /// The configuration's text.
    pub toml: String,
    /// What has no equivalent, or is not quite the same.
    pub notes: Vec<Note>,
}

/// Something of nfd.conf that is not quite so in namely.toml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its line in nfd.conf, from 1 on.
    pub line: usize,
    /// Its key, with those around it.
    pub key: String,
    /// What becomes of it, and what can be done.
    pub text: String,
}

impl Migrated {
    fn note(&mut self, entry: &Entry, key: &str, text: impl Into<String>) {
        self.notes.push(Note { line: entry.line, key: key.into(), text: text.into() });
    }

    /// Notes what of a section's entries is none of these.
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

    /// A table's head, with an empty line before it.
    fn table(&mut self, name: &str) {
        let gap = if self.toml.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.toml, "{gap}{name}");
    }

    fn set(&mut self, key: &str, value: impl Into<toml::Value>) {
        let _ = writeln!(self.toml, "{key} = {}", value.into());
    }
}

/// What the file `config`, which lies at `path`, is in namelyd's words.
pub fn migrate(config: &Entry, path: &Path) -> Migrated {
    let mut to = Migrated::default();
    to.line(format!("# Made from {} by `namely migrate`.", path.display()));
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
    rights::sections(config, path.parent().unwrap_or(Path::new(".")), &mut to);
    to
}

fn general_section(general: &Entry, to: &mut Migrated) {
    to.note_others(general, "general", &["user", "group"]);
    if let Some(user) = general.value_of("user") {
        to.table("[process]");
        to.set("user", user);
    }
    if let Some(group) = general.get("group") {
        to.note(group, "general.group", "none: the router has no group but its user's first");
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
        _ => return to.note(level, "log.default_level", "no level of NFD: left out"),
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
            Err(_) => to.note(packets, "tables.cs_max_packets", "no number: left out"),
        }
    }
    if let Some(policy) = tables.get("cs_policy") {
        match policy.value.as_str() {
            "lru" => to.set("cs_policy", "lru"),
            "priority_fifo" => {
                to.set("cs_policy", "fifo");
                to.note(policy, "tables.cs_policy", "`fifo`, which has no queues of its own for stale Data");
            }
            _ => to.note(policy, "tables.cs_policy", "no policy of NFD: left out, so that it is s3-fifo"),
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

/// The keys below an entry.
fn names(entry: &Entry) -> toml::Value {
    entry.below.iter().map(|entry| toml::Value::from(entry.key.as_str())).collect::<Vec<_>>().into()
}

/// NFD's strategies that are here by the same name.
const STRATEGIES: [&str; 5] = ["best-route", "multicast", "asf", "self-learning", "random"];

fn strategies(choices: &Entry, to: &mut Migrated) {
    to.table("[strategy]");
    for choice in &choices.below {
        let last = choice.value.rsplit("/localhost/nfd/strategy/").next().unwrap_or_default();
        let parts: Vec<&str> = last.split('/').filter(|part| !part.is_empty()).collect();
        let Some((name, more)) = parts.split_first().filter(|(name, _)| STRATEGIES.contains(name)) else {
            let text =
                format!("there is no strategy `{last}`: {} has that of the prefix above it", choice.key);
            to.note(choice, "tables.strategy_choice", text);
            continue;
        };
        // Versions are NFD's own; parameters go along with the full name.
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

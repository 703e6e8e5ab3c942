//! Results of a run: a table for people, JSON for programs.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::network::Carrier;
use crate::run::events;

/// Results of a run.
#[derive(Debug)]
pub struct Report {
    /// Name of the testbed.
    pub name: String,
    /// Folder of logs, datasets and captures.
    pub folder: PathBuf,
    /// Duration of the run in seconds.
    pub seconds: f64,
    /// Whether a signal ended the run.
    pub is_interrupted: bool,
    /// Whether the duration was over before the programs had ended.
    pub is_overdue: bool,
    /// Nodes, in the order of the file.
    pub nodes: Vec<NodeReport>,
    /// Links and segments, and their carriers.
    pub networks: Vec<(String, Carrier)>,
    /// Programs, in the order of the file.
    pub programs: Vec<ProgramReport>,
    /// Time and description of each event.
    pub events: Vec<(Duration, String)>,
}

/// Results of a node.
#[derive(Debug)]
pub struct NodeReport {
    /// Name of the node.
    pub name: String,
    /// Whether the router ended with success; `Some(None)` if it was not running at the end.
    pub end: Option<Option<bool>>,
    /// CPU time of the router.
    pub cpu_s: f64,
    /// Resident memory of the router.
    pub rss_mib: f64,
    /// The router's status before its end.
    pub status: Option<Value>,
}

/// Results of a program.
#[derive(Debug)]
pub struct ProgramReport {
    /// Name of the program.
    pub name: String,
    /// Node that ran it.
    pub node: String,
    /// Its exit status; none if a signal ended it.
    pub exit: Option<i32>,
    /// Time of the first start.
    pub started_s: Option<f64>,
    /// Duration of all tries together.
    pub seconds: Option<f64>,
    /// Number of starts.
    pub tries: u32,
    /// Whether the run did not wait for its end.
    pub background: bool,
    /// File of its output.
    pub log: PathBuf,
}

impl ProgramReport {
    /// Returns true if the program succeeded. A background program need not.
    pub fn is_well(&self) -> bool {
        self.background || self.exit == Some(0)
    }
}

impl Report {
    /// Returns true if the run ended in time and every program succeeded, except background
    /// programs.
    pub fn is_well(&self) -> bool {
        !self.is_overdue && !self.is_interrupted && self.programs.iter().all(ProgramReport::is_well)
    }

    /// Returns the first failure.
    pub fn complaint(&self) -> Option<String> {
        let program = self.programs.iter().find(|program| !program.is_well()).map(|program| {
            let how = match (program.exit, program.started_s) {
                (_, None) => "was never started".to_owned(),
                (Some(code), _) => format!("ended with status {code}"),
                (None, _) => "was ended by a signal".to_owned(),
            };
            format!("{} on {} {how}; see {}", program.name, program.node, program.log.display())
        });
        let overdue = "the testbed's `duration` was over".to_owned();
        program.or_else(|| self.is_overdue.then_some(overdue))
    }

    /// Returns the report as one object.
    pub fn json(&self) -> Value {
        let nodes = self.nodes.iter().map(|node| {
            let router = node.end.map(|end| match end {
                Some(true) => "ended well",
                Some(false) => "failed",
                None => "gone",
            });
            json!({"node": node.name, "router": router, "cpu_s": node.cpu_s, "rss_mib": node.rss_mib, "status": node.status})
        });
        let programs = self.programs.iter().map(|program| {
            json!({
                "program": program.name, "node": program.node, "exit": program.exit, "started_s": program.started_s,
                "seconds": program.seconds, "tries": program.tries, "background": program.background,
                "log": program.log.display().to_string(),
            })
        });
        let networks =
            self.networks.iter().map(|(name, carrier)| json!({"name": name, "carrier": carrier.name()}));
        json!({
            "testbed": self.name, "folder": self.folder.display().to_string(), "seconds": self.seconds,
            "well": self.is_well(), "interrupted": self.is_interrupted, "overdue": self.is_overdue,
            "nodes": nodes.collect::<Value>(), "networks": networks.collect::<Value>(),
            "programs": programs.collect::<Value>(), "events": events(&self.events),
        })
    }
}

impl NodeReport {
    /// Returns a number of the status, by its path, such as `in.interests`.
    pub fn count(&self, path: &str) -> Option<u64> {
        path.split('.').try_fold(self.status.as_ref()?, |value, key| value.get(key))?.as_u64()
    }
}

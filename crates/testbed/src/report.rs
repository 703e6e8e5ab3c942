//! What came of a run: for a person as a table, for a program as JSON.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::network::Carrier;
use crate::run::events;

/// What came of a run.
#[derive(Debug)]
pub struct Report {
    /// The testbed.
    pub name: String,
    /// Where logs, datasets and captures are.
    pub folder: PathBuf,
    /// How long it ran.
    pub seconds: f64,
    /// Whether a signal ended it.
    pub is_interrupted: bool,
    /// Whether its duration was over before its programs were.
    pub is_overdue: bool,
    /// Nodes, in the order of the file.
    pub nodes: Vec<NodeReport>,
    /// Links and segments, and what carried them.
    pub networks: Vec<(String, Carrier)>,
    /// Programs, in the order of the file.
    pub programs: Vec<ProgramReport>,
    /// What happened when.
    pub events: Vec<(Duration, String)>,
}

/// What came of a node.
#[derive(Debug)]
pub struct NodeReport {
    /// What it is called.
    pub name: String,
    /// Whether its router ended well; `Some(None)` for one that was not there at the end.
    pub end: Option<Option<bool>>,
    /// CPU time of the router.
    pub cpu_s: f64,
    /// Its resident memory.
    pub rss_mib: f64,
    /// What it said of itself before.
    pub status: Option<Value>,
}

/// What came of a program.
#[derive(Debug)]
pub struct ProgramReport {
    /// What it is called.
    pub name: String,
    /// Where it ran.
    pub node: String,
    /// Its exit status; none for a signal.
    pub exit: Option<i32>,
    /// When it was first started.
    pub started_s: Option<f64>,
    /// How long it ran, all tries together.
    pub seconds: Option<f64>,
    /// How often it was started.
    pub tries: u32,
    /// Whether nobody waited for its end.
    pub background: bool,
    /// What it said.
    pub log: PathBuf,
}

impl ProgramReport {
    /// Whether it did what it should: nobody asks it of one in the background.
    pub fn is_well(&self) -> bool {
        self.background || self.exit == Some(0)
    }
}

impl Report {
    /// Whether every program that was waited for did well.
    pub fn is_well(&self) -> bool {
        !self.is_overdue && !self.is_interrupted && self.programs.iter().all(ProgramReport::is_well)
    }

    /// The first thing that went wrong.
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

    /// Everything, as one object.
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
    /// A number of its status, as `in.interests`.
    pub fn count(&self, path: &str) -> Option<u64> {
        path.split('.').try_fold(self.status.as_ref()?, |value, key| value.get(key))?.as_u64()
    }
}

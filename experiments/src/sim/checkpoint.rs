//! Checkpoints: the scenario, a virtual time, and the digest of all frames until then.
//!
//! The state itself is not written. A resumed run computes the same events again from the scenario,
//! compares the digest, and goes on.

use std::path::Path;

use namely_bench::error::Error;
use namely_sim::Network;
use serde::{Deserialize, Serialize};

use super::scenario::Scenario;

/// The file in the folder of results.
pub(super) const FILE: &str = "checkpoint.json";

/// Maximum octets of a checkpoint.
const OCTETS_MAX: u64 = 1 << 20;

/// A checkpoint.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checkpoint {
    pub(super) scenario: Scenario,
    pub(super) virtual_ns: u64,
    pub(super) events: u64,
    pub(super) digest: String,
}

impl Checkpoint {
    pub(super) fn of(scenario: &Scenario, network: &Network) -> Self {
        Checkpoint {
            scenario: scenario.clone(),
            virtual_ns: network.now_ns(),
            events: network.events(),
            digest: network.trace_digest().unwrap_or_default(),
        }
    }

    /// Reads the checkpoint in a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let unreadable = |e| Error::environment(format!("cannot read {}", path.display()), e);
        if std::fs::metadata(&path).map_err(unreadable)?.len() > OCTETS_MAX {
            return Err(Error::Usage(format!("{}: no checkpoint, it is too long", path.display())));
        }
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        let read: Result<Checkpoint, _> = serde_json::from_str(&text);
        let refused = |e: serde_json::Error| Error::Usage(format!("{}: {e}", path.display()));
        read.map_err(refused)
    }

    pub(super) fn text(&self) -> String {
        // Numbers and texts always have a form in JSON.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Compares a network that has reached the checkpoint's time.
    pub(super) fn compare(&self, network: &Network) -> Result<(), Error> {
        let now = Checkpoint::of(&self.scenario, network);
        if now == *self {
            return Ok(());
        }
        Err(Error::Subject(format!(
            "the run differs from its checkpoint after {} ns: {} events instead of {}, digest {} instead of {}; \
             was the program or a file of the scenario changed?",
            self.virtual_ns, now.events, self.events, now.digest, self.digest
        )))
    }
}

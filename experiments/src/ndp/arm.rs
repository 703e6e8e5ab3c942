//! The shared parts of the experiments: the two arms that each compares, and the creation of its
//! testbed.

use std::path::Path;

use namely_bench::error::Error;
use namely_testbed::{Interrupt, Testbed, TestbedError};

/// The compared designs: with discovery, or with the group's faces alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    Discovery {
        heartbeat_ms: u64,
    },
    Plain,
    /// The group's faces without learned routes: each Interest is sent to every group.
    Flooding,
}

impl Arm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Arm::Discovery { .. } => "discovery",
            Arm::Plain => "plain",
            Arm::Flooding => "flooding",
        }
    }

    /// The configuration of a router whose devices are eth0 up to `devices`. `more` has further
    /// lines of `[discovery]`: the prefixes that the router announces, or the announcements that it
    /// accepts. Without discovery, `more` is not used.
    pub(super) fn config(self, devices: usize, more: &str) -> String {
        let mut config = String::new();
        match self {
            Arm::Discovery { heartbeat_ms } => {
                config += &format!("[discovery]\nheartbeat_ms = {heartbeat_ms}\nmtu_octets_min = 64\n{more}");
            }
            Arm::Plain | Arm::Flooding => {
                config += "[discovery]\nenabled = false\n";
                for device in 0..devices {
                    config += &format!(
                        "[[faces.multicast]]\ninterface = \"eth{device}\"\ngroup = \"ether://[{GROUP}]\"\n"
                    );
                }
            }
        }
        config
    }

    /// A shell command that succeeds once the router of a node has its peers on each link:
    /// confirmed neighbors, or the faces of groups. The node repeats it until then.
    pub(super) fn links_are_there(self) -> String {
        let count = match self {
            Arm::Discovery { .. } => "namely --json neighbors | grep -c '\"state\":\"neighbour\"'".to_owned(),
            Arm::Plain | Arm::Flooding => format!("namely --json face list | grep -c '{GROUP}'"),
        };
        let are_there = format!("test $({count}) -ge $(grep -c eth /proc/net/dev)");
        match self {
            Arm::Flooding => format!(
                "{are_there} && for face in $({}); do namely route add / $face || exit 1; done",
                group_faces()
            ),
            _ => are_there,
        }
    }

    /// The lines of a testbed's file for a node that learns its routes.
    pub(super) fn learning(self, name: &str, column: usize, row: usize, devices: usize) -> String {
        let strategy = if self == Arm::Flooding { "multicast" } else { "self-learning" };
        let config = self.config(devices, "") + &format!("[strategy]\n\"/\" = \"{strategy}\"\n");
        Self::node(name, column, row, &config)
    }

    pub(super) fn node(name: &str, column: usize, row: usize, config: &str) -> String {
        format!("[[node]]\nname = \"{name}\"\nplace = [{column}, {row}]\nconfig = '''\n{config}'''\n")
    }
}

/// NFD's group on Ethernet.
pub(super) const GROUP: &str = "01:00:5e:00:17:aa";

/// A shell command of a node that prints the numbers of its faces to groups.
pub(super) fn group_faces() -> String {
    format!("namely --json face list | sed -n '/{GROUP}/s/.*\"face_id\":\\([0-9]*\\).*/\\1/p'")
}

/// A testbed of an experiment's own.
pub(super) fn testbed(text: &str) -> Result<Testbed, Error> {
    Testbed::parse(text, Path::new("experiment.toml")).map_err(|e| Error::Usage(e.to_string()))
}

pub(super) fn error(error: TestbedError) -> Error {
    match error {
        TestbedError::Process(error) => error.into(),
        error => Error::Subject(error.to_string()),
    }
}

/// Creates a folder for a run's files, which is removed after the run.
pub(super) fn folder() -> Result<tempfile::TempDir, Error> {
    tempfile::tempdir().map_err(|e| Error::environment("cannot make a folder", e))
}

/// Returns an error once the run is to end.
pub(super) fn check(interrupt: &Interrupt) -> Result<(), Error> {
    interrupt.check().map_err(Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_arm_uses_group_faces() {
        let config = Arm::Plain.config(2, "");
        assert_eq!(config.matches("[[faces.multicast]]").count(), 2, "{config}");
        assert!(config.contains("enabled = false") && config.contains("eth1"));
        let config = Arm::Discovery { heartbeat_ms: 500 }.config(2, "open = true\n");
        assert!(
            config.contains("heartbeat_ms = 500") && config.contains("open") && !config.contains("multicast")
        );
    }
}

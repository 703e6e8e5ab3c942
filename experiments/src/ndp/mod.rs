//! The experiments of NDN-NDP (Chuachan et al., IJNDC 2020): `mtu` (tables 1 and 2; row ND-18),
//! `grid` (figures 10 to 13; ND-19, ND-20) and `heartbeat` (the choice of T_h; ND-21).
//!
//! Each runs real routers on a testbed, with discovery and without: then all there is are faces to
//! NFD's Ethernet group, as in the paper's comparison.

pub mod grid;
pub mod heartbeat;
pub mod mtu;
mod plot;
mod statistics;

use std::path::Path;

use clap::Subcommand;
use namely_bench::error::Error;
use namely_testbed::sandbox::{self, Place};
use namely_testbed::{Interrupt, Testbed, TestbedError};

/// The experiments of NDN-NDP.
#[derive(Debug, Subcommand)]
pub enum Ndp {
    /// Producers and consumers of different MTU on one segment (tables 1 and 2)
    Mtu(mtu::Mtu),
    /// Three producers, nine forwarders, five consumers (figures 10 to 13)
    Grid(grid::Grid),
    /// What the time between hellos costs and gives
    Heartbeat(heartbeat::Heartbeat),
}

/// Runs one of them, in a sandbox.
///
/// # Errors
/// What kept it from being run.
pub fn run(what: &Ndp) -> Result<(), Error> {
    let interrupt = match sandbox::enter().map_err(error)? {
        Place::Inside(interrupt) => interrupt,
        Place::Done(0) => return Ok(()),
        Place::Done(status) => std::process::exit(i32::from(status)),
    };
    match what {
        Ndp::Mtu(options) => mtu::run(options, &interrupt),
        Ndp::Grid(options) => grid::run(options, &interrupt),
        Ndp::Heartbeat(options) => heartbeat::run(options, &interrupt),
    }
}

/// With discovery, or with the group's faces alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    Discovery { heartbeat_ms: u64 },
    Plain,
}

impl Arm {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arm::Discovery { .. } => "discovery",
            Arm::Plain => "plain",
        }
    }

    /// The configuration of a router whose devices are eth0 up to the number given; what it
    /// announces, or that it takes what others do.
    fn config(self, devices: usize, more: &str) -> String {
        let mut config = String::new();
        match self {
            Arm::Discovery { heartbeat_ms } => {
                config += &format!("[discovery]\nheartbeat_ms = {heartbeat_ms}\nmtu_octets_min = 64\n{more}");
            }
            Arm::Plain => {
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

    /// The lines of a testbed's file for a node that learns its routes.
    pub(crate) fn learning(self, name: &str, place: (usize, usize), devices: usize) -> String {
        let config = self.config(devices, "") + "[strategy]\n\"/\" = \"self-learning\"\n";
        Self::node(name, place, &config)
    }

    fn node(name: &str, (column, row): (usize, usize), config: &str) -> String {
        format!("[[node]]\nname = \"{name}\"\nplace = [{column}, {row}]\nconfig = '''\n{config}'''\n")
    }
}

/// NFD's group on Ethernet.
const GROUP: &str = "01:00:5e:00:17:aa";

/// A testbed of an experiment's own.
fn testbed(text: &str) -> Result<Testbed, Error> {
    Testbed::parse(text, Path::new("experiment.toml")).map_err(|e| Error::Usage(e.to_string()))
}

fn error(error: TestbedError) -> Error {
    match error {
        TestbedError::Process(error) => error.into(),
        error => Error::Subject(error.to_string()),
    }
}

/// Where a run's files go: gone after it.
fn folder() -> Result<tempfile::TempDir, Error> {
    tempfile::tempdir().map_err(|e| Error::environment("cannot make a folder", e))
}

/// Returns an error once the run is to end.
fn check(interrupt: &Interrupt) -> Result<(), Error> {
    interrupt.check().map_err(Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_arm_has_a_face_to_the_group_on_each_device_and_no_discovery() {
        let config = Arm::Plain.config(2, "");
        assert_eq!(config.matches("[[faces.multicast]]").count(), 2, "{config}");
        assert!(config.contains("enabled = false") && config.contains("eth1"));
        let config = Arm::Discovery { heartbeat_ms: 500 }.config(2, "open = true\n");
        assert!(
            config.contains("heartbeat_ms = 500") && config.contains("open") && !config.contains("multicast")
        );
    }
}

//! Generated load: `namely perf` as server and client at a subject's router. It is the same for
//! every subject.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::error::Error;
use crate::metric::Metric;
use crate::probe;
use crate::programs::{Program, READY_LIMIT};
use crate::stats::jain;
use crate::subject::{Network, PREFIX, Site};
use namely_testbed::{Process, command};

/// Number of concurrent flows, each with a connection of its own at both ends.
pub const FLOWS: u32 = 4;

/// Outstanding Interests of each flow.
const WINDOW: u32 = 32;

/// Returns a description of the load, for the table.
pub fn mode() -> String {
    format!("namely perf, {FLOWS} flows with a window of {WINDOW} each; nothing signed")
}

/// The program that generates the load.
#[derive(Debug)]
pub struct Load {
    program: Program,
}

/// The results printed by a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Number of correct answers.
    pub exchanges: f64,
    /// The reported samples.
    pub samples: Vec<(Metric, f64)>,
}

impl Load {
    /// Finds the program; an error if it is missing.
    pub fn find() -> Result<Self, Error> {
        let program = Program::find(&["namely"], "NAMELY_BIN_DIR", true);
        match program.missing() {
            Some(missing) => Err(Error::Subject(missing)),
            None => Ok(Load { program }),
        }
    }

    fn command(&self, site: &Site<'_>, router: &str) -> Command {
        let mut command = command(self.program.path(), site.dir);
        command.args(["--router", router, "perf"]);
        command
    }

    /// Starts the server. Returns when it answers.
    pub fn serve(&self, site: &Site<'_>, network: &Network) -> Result<Process, Error> {
        let mut command = self.command(site, &network.producer);
        command.args(["server", "--prefix", PREFIX, "--flows", &FLOWS.to_string()]);
        command.args(["--payload", &site.scenario.segment_octets().to_string()]);
        let server = Process::start("namely perf server", command, site.dir, None)?;
        // The last connection registers last.
        let name = format!("{PREFIX}/{}/ready", FLOWS - 1);
        probe::wait_for_answer(&network.socket, &name, READY_LIMIT, site.interrupt)?;
        Ok(server)
    }

    /// Runs the client for `length`.
    pub fn run(&self, site: &Site<'_>, network: &Network, length: Duration) -> Result<Measured, Error> {
        let output: PathBuf = site.dir.join("load");
        let mut command = self.command(site, &network.consumer);
        command.args(["client", "--json", "--prefix", PREFIX, "--flows", &FLOWS.to_string()]);
        command.args(["--window", &WINDOW.to_string(), "--duration", &length.as_secs().max(1).to_string()]);
        let limit = length + READY_LIMIT;
        Process::run("namely perf client", command, site.dir, Some(&output), limit, site.interrupt)?;
        let printed = std::fs::read_to_string(&output)
            .map_err(|e| Error::environment("cannot read the output of the load", e))?;
        summary(&printed).ok_or_else(|| Error::Subject("namely perf printed no summary".to_owned()))
    }
}

/// Returns the summary among the lines of a client.
fn summary(printed: &str) -> Option<Measured> {
    let mut lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let value = lines.find(|value| value["kind"] == "summary")?;
    let number = |key: &str| value[key].as_f64();
    let flows: Vec<f64> = value["flow_goodput_mbps"].as_array()?.iter().filter_map(Value::as_f64).collect();
    let samples = vec![
        (Metric::Goodput, number("goodput_mbps")?),
        (Metric::Exchanges, number("exchanges_per_second")?),
        (Metric::Fairness, jain(&flows)?),
        (Metric::P50, number("p50_us")?),
        (Metric::P99, number("p99_us")?),
    ];
    Some(Measured { exchanges: number("exchanges")?, samples })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_summary_is_parsed() {
        let printed = concat!(
            r#"{"kind":"second","exchanges":1,"goodput_mbps":1.0}"#,
            "\n",
            r#"{"kind":"summary","exchanges":9,"goodput_mbps":8.0,"exchanges_per_second":3.0,"#,
            r#""p50_us":1.5,"p99_us":2.5,"flow_goodput_mbps":[4.0,4.0]}"#,
            "\n",
        );
        let measured = summary(printed).expect("a summary");
        assert_eq!(measured.exchanges, 9.0);
        assert!(measured.samples.contains(&(Metric::Fairness, 1.0)));
        assert!(measured.samples.contains(&(Metric::P99, 2.5)));
        assert_eq!(summary("{\"kind\":\"second\"}\nnull\n"), None);
    }
}

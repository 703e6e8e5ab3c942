//! The file and ping tools of ndn-tools (ndnputchunks, ndncatchunks, ndnping; newer names ndnserve
//! and ndnget), which work with NFD and NDNd alike.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::site::{Fetch, Network, PREFIX, Publication, Site};
use crate::error::Error;
use crate::files::Object;
use crate::programs::Program;
use crate::scenario::Scenario;
use namely_testbed::{Process, command};

/// The client's control of its outstanding Interests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pipeline {
    /// A fixed number. It is the fastest here, but has to be found by hand.
    Fixed,
    /// CUBIC: the tool's default.
    Cubic,
}

/// The installed tools.
#[derive(Clone, Debug)]
pub(super) struct NdnTools {
    put: Program,
    cat: Program,
    ping: Program,
    ping_server: Program,
}

const VARIABLE: &str = "NDN_TOOLS_DIR";

impl NdnTools {
    pub(super) fn find() -> Self {
        NdnTools {
            put: Program::find(&["ndnputchunks", "ndnserve"], VARIABLE, false),
            cat: Program::find(&["ndncatchunks", "ndnget"], VARIABLE, false),
            ping: Program::find(&["ndnping"], VARIABLE, false),
            ping_server: Program::find(&["ndnpingserver"], VARIABLE, false),
        }
    }

    pub(super) fn missing(&self) -> Option<String> {
        [&self.put, &self.cat, &self.ping, &self.ping_server].into_iter().find_map(Program::missing)
    }

    pub(super) fn programs(&self) -> Vec<PathBuf> {
        [&self.put, &self.cat].map(|program| program.path().to_path_buf()).to_vec()
    }

    pub(super) fn mode(pipeline: Pipeline, scenario: Scenario) -> String {
        match pipeline {
            Pipeline::Fixed => format!("ndncatchunks, fixed window {}; nothing verified", window(scenario)),
            Pipeline::Cubic => "ndncatchunks, its default (CUBIC); nothing verified".to_owned(),
        }
    }

    pub(super) fn publish(
        &self,
        site: &Site<'_>,
        network: &Network,
        object: &Object,
    ) -> Result<Publication, Error> {
        let name = format!("{PREFIX}/object-{}", object.number);
        let content = File::open(&object.path)
            .map_err(|e| Error::environment(format!("cannot open {}", object.path.display()), e))?;
        let mut command = client(self.put.path(), site, &network.producer);
        command.args(["-q", "-s", &site.scenario.segment_octets().to_string(), &name]).stdin(content);
        let producer = Process::start("ndnputchunks", command, site.dir, None)?;
        Publication::of(producer, name, site, network)
    }

    pub(super) fn fetch(&self, site: &Site<'_>, network: &Network, name: &str, pipeline: Pipeline) -> Fetch {
        let mut command = client(self.cat.path(), site, &network.consumer);
        if pipeline == Pipeline::Fixed {
            command.args(["-p", "fixed", "-s", &window(site.scenario).to_string()]);
        }
        command.arg(name);
        Fetch { command, content_on_stdout: true }
    }

    pub(super) fn serve_pings(&self, site: &Site<'_>, network: &Network) -> Result<Process, Error> {
        let mut command = client(self.ping_server.path(), site, &network.producer);
        command.args(["-q", PREFIX]);
        site.start_ping_server("ndnpingserver", network, command)
    }

    pub(super) fn ping(&self, site: &Site<'_>, network: &Network, count: u32, interval_ms: u64) -> Command {
        let mut command = client(self.ping.path(), site, &network.consumer);
        command.args(["-i", &interval_ms.to_string(), "-c", &count.to_string(), PREFIX]);
        command
    }
}

/// Returns the command of a client program that uses the router at `uri`.
pub(super) fn client(program: &Path, site: &Site<'_>, uri: &str) -> Command {
    let mut command = command(program, site.dir);
    command.env("NDN_CLIENT_TRANSPORT", uri);
    command
}

/// Returns the fastest fixed window. On UDP a larger one overruns the sockets' buffers and costs
/// seconds.
fn window(scenario: Scenario) -> u32 {
    if scenario.has_two_routers() { 8 } else { 64 }
}

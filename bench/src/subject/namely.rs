//! namely: `namelyd`, `namely serve`, `namely get`, `namely ping`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::ndn_tools::wait_for_ping_server;
use super::programs::Program;
use super::{Fetch, Network, PREFIX, Publication, READY_LIMIT, Site, Subject, SubjectName};
use crate::error::Error;
use crate::files::Object;
use crate::probe;
use crate::process::{self, Process};
use crate::scenario::{Kind, Scenario};

/// Its content store has a limit in octets too; as with the peers, only the limit in packets shall bind.
const CS_OCTETS_MAX: &str = "1GiB";

/// namely with its own tools.
#[derive(Debug)]
pub(super) struct Namely {
    router: Program,
    client: Program,
}

impl Namely {
    pub(super) fn find() -> Self {
        Namely {
            router: Program::find(&["namelyd"], "NAMELY_BIN_DIR", true),
            client: Program::find(&["namely"], "NAMELY_BIN_DIR", true),
        }
    }

    fn start_router(&self, site: &Site<'_>, index: usize) -> Result<Process, Error> {
        let socket = site.socket(index);
        let mut command = process::command(self.router.path(), site.dir);
        command.args(["--no-config", "--listen", &format!("unix://{}", socket.display())]);
        command.args(["--listen", &format!("tcp://127.0.0.1:{}", site.ports[index])]);
        command.args(["--listen", &site.udp_uri(index, "udp")]);
        command.args(["--cs-packets-max", &site.scenario.cs_packets().to_string()]);
        command.args(["--cs-octets-max", CS_OCTETS_MAX]);
        if site.scenario.has_two_routers() && index == 0 {
            command.args(["--route", &format!("{PREFIX}={}", site.udp_uri(1, "udp"))]);
        }
        let mut router = Process::start(&format!("namelyd {index}"), command, site.dir, None)?;
        probe::wait_for_socket(&socket, READY_LIMIT, site.interrupt)
            .map_err(|e| router.expect_running().err().unwrap_or(e))?;
        Ok(router)
    }

    fn command(&self, site: &Site<'_>, router: &str) -> Command {
        let mut command = process::command(self.client.path(), site.dir);
        command.args(["--router", router]);
        command
    }
}

impl Subject for Namely {
    fn name(&self) -> &'static str {
        "namely"
    }

    fn family(&self) -> SubjectName {
        SubjectName::Namely
    }

    fn mode(&self, scenario: Scenario) -> String {
        match scenario.kind() {
            Kind::Transfer | Kind::Cached | Kind::Memory => "namely get, its default; verified".to_owned(),
            Kind::Ping => "namely ping".to_owned(),
            Kind::Idle => String::new(),
        }
    }

    fn missing(&self) -> Option<String> {
        self.router.missing().or_else(|| self.client.missing())
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec![self.router.path().to_path_buf(), self.client.path().to_path_buf()]
    }

    fn unsupported(&self, _scenario: Scenario) -> Option<&'static str> {
        None
    }

    fn start(&self, site: &Site<'_>) -> Result<Network, Error> {
        let routers =
            (0..site.routers()).map(|i| self.start_router(site, i)).collect::<Result<Vec<_>, _>>()?;
        Ok(Network::new(site, routers, "tcp"))
    }

    fn publish(&self, site: &Site<'_>, network: &Network, object: &Object) -> Result<Publication, Error> {
        let prefix = format!("{PREFIX}/object-{}", object.number);
        let name = format!("{prefix}/{}", Object::FILE_NAME);
        let mut command = self.command(site, &network.producer);
        command.arg("serve").arg(&object.dir).args(["--prefix", &prefix]);
        command.args(["--segment-size", &site.scenario.segment_octets().to_string()]);
        let producer = Process::start("namely serve", command, site.dir, None)?;
        let versioned = probe::versioned_name(&network.socket, &name, READY_LIMIT, site.interrupt)?;
        let publish_time = Some(producer.age());
        Ok(Publication {
            producer: Some(producer),
            name,
            versioned_name: versioned.to_string(),
            publish_time,
        })
    }

    fn fetch(&self, site: &Site<'_>, network: &Network, name: &str, output: &Path) -> Fetch {
        let mut command = self.command(site, &network.consumer);
        command.args(["--quiet", "get", name, "-o"]).arg(output);
        Fetch { command, content_on_stdout: false }
    }

    fn serve_pings(&self, site: &Site<'_>, network: &Network) -> Result<Process, Error> {
        let mut command = self.command(site, &network.producer);
        command.args(["pingserver", PREFIX]);
        let server = Process::start("namely pingserver", command, site.dir, None)?;
        wait_for_ping_server(site, network)?;
        Ok(server)
    }

    fn ping(&self, site: &Site<'_>, network: &Network, count: u32, interval_ms: u64) -> Command {
        let mut command = self.command(site, &network.consumer);
        let (count, interval) = (count.to_string(), interval_ms.to_string());
        command.args(["ping", PREFIX, "--count", &count, "--interval", &interval, "--json"]);
        command
    }
}

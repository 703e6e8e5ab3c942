//! A running testbed: its namespaces and networks, the routers on its nodes, and commands that run
//! a program on a node.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::capture::Capture;
use crate::error::TestbedError;
use crate::file::{EventAction, Listens, Node, Testbed};
use crate::interrupt::Interrupt;
use crate::net::Net;
use crate::network::{self, BuiltNetwork, Device, Kernel};
use crate::process::Process;
use crate::{sandbox, text};

/// Maximum time until routers answer.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Maximum time for a router to send a dataset.
const DATASET_LIMIT: Duration = Duration::from_secs(30);

/// Datasets that are requested from routers at the end: name of the file, and arguments of
/// `namely`.
pub const DATASETS: [(&str, &[&str]); 7] = [
    ("status", &["status"]),
    ("counters", &["status", "--counters"]),
    ("faces", &["face", "list"]),
    ("routes", &["route", "list"]),
    ("strategies", &["strategy", "list"]),
    ("cs", &["cs", "info"]),
    ("neighbors", &["neighbors"]),
];

/// A running testbed. Its processes end before the namespaces are deleted.
#[derive(Debug)]
pub struct Lab {
    captures: Vec<Capture>,
    routers: Vec<(String, Option<Process>)>,
    networks: Vec<BuiltNetwork>,
    net: Net,
    devices: Vec<Device>,
    testbed: Testbed,
    folder: PathBuf,
}

impl Lab {
    /// Builds the networks in the sandbox of this process, starts the routers, and waits until they
    /// answer. All output goes below `folder`, which is created.
    ///
    /// # Errors
    /// A resource that the machine lacks, a router that does not start, or an interruption.
    pub fn build(testbed: Testbed, folder: &Path, interrupt: &Interrupt) -> Result<Self, TestbedError> {
        let folder = made(folder)?;
        let nodes: Vec<&str> = testbed.nodes.iter().map(|node| node.name.get_ref().as_str()).collect();
        let net = Net::new(&nodes).map_err(network::refused)?;
        let (kernel, devices) = (Kernel::look(), network::devices(&testbed));
        for node in &nodes {
            made(&folder.join(node))?;
            made(&Path::new("/run").join(node))?;
            // Addresses are this testbed's own, so duplicate address detection is not needed.
            net.enter(node, || fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0")).ok();
        }
        made(&folder.join("keys"))?;
        let mut networks = Vec::new();
        for (n, found) in testbed.networks().iter().enumerate() {
            interrupt.check()?;
            let own: Vec<Device> = of(&devices, n).cloned().collect();
            networks.push(network::build(&net, n, found, &own, kernel)?);
        }
        let mut lab =
            Lab { captures: Vec::new(), routers: Vec::new(), networks, net, devices, testbed, folder };
        lab.start_captures()?;
        for n in 0..lab.testbed.nodes.len() {
            lab.start_router(n)?;
        }
        lab.wait_for_routers(interrupt)?;
        Ok(lab)
    }

    fn start_captures(&mut self) -> Result<(), TestbedError> {
        for (n, network) in self.testbed.networks().iter().enumerate().filter(|(_, network)| network.capture)
        {
            for Device { node, name, .. } in of(&self.devices, n) {
                let path = self.folder.join(format!("{node}-{name}.pcap"));
                let capture = self.net.enter(node, || Capture::start(name, &path));
                let what = || format!("cannot capture {} at {node}", network.name);
                self.captures.push(capture.map_err(|e| TestbedError::unable(what(), e))?);
            }
        }
        Ok(())
    }

    /// Starts the router of a node, if the node has one.
    fn start_router(&mut self, n: usize) -> Result<(), TestbedError> {
        let Some(node) = self.testbed.nodes.get(n) else { return Ok(()) };
        let name = node.name.get_ref().clone();
        let command = self.router_command(node)?;
        let process = match command {
            Some(command) => {
                let log = self.folder.join(&name).join("router.log");
                Some(Process::start_logged(&format!("the router of {name}"), command, &log)?)
            }
            None => None,
        };
        self.routers.retain(|(known, _)| *known != name);
        self.routers.push((name, process));
        Ok(())
    }

    fn router_command(&self, node: &Node) -> Result<Option<Command>, TestbedError> {
        let (name, settings) = (node.name.get_ref().as_str(), self.testbed.settings(node));
        if settings.router == Some(false) {
            return Ok(None);
        }
        let daemon = program("namelyd").filter(|path| path.is_file());
        let mut command = match daemon {
            Some(daemon) => self.command(name, &daemon),
            None => {
                let mut command = self.command(name, &client()?);
                command.arg("up");
                command
            }
        };
        for (file, text) in &settings.files {
            let path = self.folder.join(name).join(file);
            fs::write(&path, text)
                .map_err(|e| TestbedError::unable(format!("cannot write {}", path.display()), e))?;
        }
        match &settings.config {
            Some(config) => {
                let file = self.folder.join(name).join("namely.toml");
                let config =
                    text::fill(&self.testbed, &self.folder, name, config).map_err(network::refused)?;
                fs::write(&file, config)
                    .map_err(|e| TestbedError::unable(format!("cannot write {}", file.display()), e))?;
                command.arg("--config").arg(file).arg("--only")
            }
            None => command.arg("--no-config"),
        };
        // The state directory outlives the router, as that of a service does: a router that is
        // killed and started again retains its key.
        command.env("STATE_DIRECTORY", self.folder.join(name).join("state"));
        command.args(["--listen", &self.router(name)]);
        let listens = settings.listen.unwrap_or_default();
        if matches!(listens, Listens::Ethernet | Listens::Both) {
            for device in self.devices.iter().filter(|device| device.node == name) {
                command.arg("--listen").arg(format!("dev://{}", device.name));
            }
        }
        if matches!(listens, Listens::Udp | Listens::Both) {
            command.args(["--listen", "udp://0.0.0.0:6363"]);
        }
        for argument in settings.arguments.unwrap_or_default() {
            command.arg(text::fill(&self.testbed, &self.folder, name, &argument).map_err(network::refused)?);
        }
        if let Some(log) = settings.log {
            command.args(["--log", &log]);
        }
        Ok(Some(command))
    }

    fn wait_for_routers(&mut self, interrupt: &Interrupt) -> Result<(), TestbedError> {
        let deadline = Instant::now() + READY_LIMIT;
        for (name, process) in &mut self.routers {
            let Some(process) = process else { continue };
            let socket = socket(name);
            while UnixStream::connect(&socket).is_err() {
                process.expect_running()?;
                interrupt.sleep(Duration::from_millis(5))?;
                if Instant::now() > deadline {
                    let reason =
                        format!("the router of {name} does not answer; see {}", process.log().display());
                    return Err(network::refused(reason));
                }
            }
        }
        Ok(())
    }

    /// Returns the testbed's description.
    pub fn testbed(&self) -> &Testbed {
        &self.testbed
    }

    /// Returns the folder for all output.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns all devices.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Returns the carriers of the networks, in the order of the networks.
    pub fn carriers(&self) -> Vec<network::Carrier> {
        self.networks.iter().map(|built| built.carrier).collect()
    }

    /// Returns the namespaces.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Returns the URI of a node's router.
    pub fn router(&self, node: &str) -> String {
        format!("unix://{}", socket(node).display())
    }

    /// Returns a command that runs `program` on a node, in the node's folder, with the node's
    /// router.
    pub fn command(&self, node: &str, program: &Path) -> Command {
        let home = self.folder.join(node);
        let keys = if self.testbed.testbed.own_keys { home.join("keys") } else { self.folder.join("keys") };
        let own = sandbox::programs().into_iter();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(own.chain(std::env::split_paths(&path))).unwrap_or(path);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.net.name(node)]).arg(program).current_dir(&home);
        command.stdin(Stdio::null()).env("PATH", path).env("HOME", &home).env("NAMELY_HOME", keys);
        command.env("NAMELY_ROUTER", self.router(node)).env("NDN_CLIENT_TRANSPORT", self.router(node));
        command.env_remove("XDG_RUNTIME_DIR").env_remove("XDG_CONFIG_HOME");
        sandbox::forget(&mut command);
        command
    }

    /// Returns a command that runs a shell script on a node.
    ///
    /// # Errors
    /// A placeholder of the script is unknown.
    pub fn shell(&self, node: &str, script: &str) -> Result<Command, TestbedError> {
        let script = text::fill(&self.testbed, &self.folder, node, script).map_err(network::refused)?;
        let mut command = self.command(node, Path::new("/bin/sh"));
        command.args(["-c", &script]);
        Ok(command)
    }

    /// Returns a command that runs `namely` on a node.
    ///
    /// # Errors
    /// The program is not in the folder of this program.
    pub fn namely(&self, node: &str) -> Result<Command, TestbedError> {
        Ok(self.command(node, &client()?))
    }

    /// Returns the process of a node's router; none if it was killed or never existed.
    pub fn router_process(&mut self, node: &str) -> Option<&mut Process> {
        self.routers.iter_mut().find(|(name, _)| name == node)?.1.as_mut()
    }

    /// Returns the process ids of all routers.
    pub(crate) fn router_pids(&self) -> Vec<Pid> {
        let running = self.routers.iter().filter_map(|(_, process)| process.as_ref());
        running.filter_map(|process| process.pid().ok()).collect()
    }

    /// Runs `namely` on a node with `arguments`, and returns its JSON output, one value per line.
    ///
    /// # Errors
    /// The router does not answer.
    pub fn dataset(&self, node: &str, arguments: &[&str]) -> Result<Vec<Value>, TestbedError> {
        let mut command = self.namely(node)?;
        command.arg("--json").args(arguments).stderr(Stdio::piped());
        let output = command.output().map_err(|e| TestbedError::unable("cannot run namely", e))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(network::refused(format!("{node}: {said}")));
        }
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Performs the action of an event.
    ///
    /// # Errors
    /// The system's message.
    pub fn perform(&mut self, deed: EventAction<'_>) -> Result<(), TestbedError> {
        match deed {
            EventAction::Down(name) => self.set(name, false),
            EventAction::Up(name) => self.set(name, true),
            EventAction::Kill(node) => {
                sandbox::signal(self.net.name(node), Signal::KILL);
                self.routers.retain(|(name, _)| name != node);
                Ok(())
            }
            EventAction::Start(node) => {
                let n = self.testbed.nodes.iter().position(|known| known.name.get_ref() == node);
                self.start_router(n.unwrap_or(usize::MAX))
            }
        }
    }

    fn set(&self, name: &str, is_up: bool) -> Result<(), TestbedError> {
        let n = self.testbed.networks().iter().position(|network| network.name == name);
        let Some((n, built)) = n.and_then(|n| Some((n, self.networks.get(n)?))) else { return Ok(()) };
        let devices: Vec<Device> = of(&self.devices, n).cloned().collect();
        built.set(&devices, is_up)
    }

    /// Writes the datasets of the routers into the folders of the nodes.
    pub fn collect(&self, interrupt: &Interrupt) {
        std::thread::scope(|scope| {
            for (name, _) in self.routers.iter().filter(|(_, process)| process.is_some()) {
                scope.spawn(move || {
                    for (file, arguments) in DATASETS {
                        let Ok(mut command) = self.namely(name) else { return };
                        command.arg("--json").args(arguments);
                        let out = self.folder.join(name).join(format!("{file}.json"));
                        let dir = tempfile::tempdir();
                        let Ok(dir) = dir else { return };
                        let what = format!("{file} of {name}");
                        let run =
                            Process::run(&what, command, dir.path(), Some(&out), DATASET_LIMIT, interrupt);
                        // Removes the file of a router that did not answer: an older dataset would
                        // be out of date.
                        if run.is_err() {
                            let _ = fs::remove_file(&out);
                        }
                    }
                });
            }
        });
    }

    /// Ends all processes on the nodes: first the programs and then the routers, with time for an
    /// orderly end. Returns the outcome of each router.
    pub fn stop(&mut self) -> Vec<(String, Option<bool>)> {
        let mut ends = Vec::new();
        for (name, process) in &mut self.routers {
            if let Some(process) = process {
                process.terminate();
            }
            ends.push((name.clone(), None));
        }
        for ((_, process), (_, end)) in self.routers.iter_mut().zip(&mut ends) {
            *end = process.take().map(|mut process| process.end().is_some_and(|status| status.success()));
        }
        for (name, _) in &ends {
            sandbox::signal(self.net.name(name), Signal::KILL);
        }
        self.captures.clear();
        ends
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop();
    }
}

fn of(devices: &[Device], network: usize) -> impl Iterator<Item = &Device> {
    devices.iter().filter(move |device| device.addresses.network == network)
}

/// Returns the path of a router's socket. It is not in the folder, because paths of sockets have to
/// be short.
fn socket(node: &str) -> PathBuf {
    PathBuf::from(format!("/run/{node}/namely.sock"))
}

fn program(name: &str) -> Option<PathBuf> {
    sandbox::programs().map(|folder| folder.join(name))
}

/// Returns the path of `namely`, in the folder of this program.
fn client() -> Result<PathBuf, TestbedError> {
    let found = program("namely").filter(|path| path.is_file());
    found.ok_or_else(|| TestbedError::Unable {
        reason: "namely is not beside this program".to_owned(),
        hint: Some("build it, or set NAMELY_BIN_DIR to its folder".to_owned()),
    })
}

fn made(folder: &Path) -> Result<PathBuf, TestbedError> {
    let made = fs::create_dir_all(folder).and_then(|()| folder.canonicalize());
    made.map_err(|e| TestbedError::unable(format!("cannot make the folder {}", folder.display()), e))
}

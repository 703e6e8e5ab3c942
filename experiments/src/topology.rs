//! `topology`: the setup of the transport's experiments (Sardara et al., ICN'18, section 6.1; row
//! HT-34), built by one command from network namespaces: containers with a router each, joined by a
//! switch, and one of the experiments on it.
//!
//! A container is a namespace with `namelyd` and its applications; the switch is a bridge in one of
//! its own. The experiment is table 1's asynchronous publication: an object that was cut, signed
//! and published before is fetched by every consumer at once, beside a kernel TCP transfer on the
//! same links. Content stores are off, so that each fetch crosses the network. With `--latency N`
//! table 3's requests follow, signed each way, between the producer's and the first consumer's
//! container.
//!
//! The command removes everything when it ends, unless it is ended by SIGKILL.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use clap::{Args, ValueEnum};
use namely_bench::error::Error;
use namely_bench::files::{Object, expect_same};
use namely_bench::machine::Machine;
use namely_bench::output;
use namely_bench::probe;
use namely_bench::programs::{Program, READY_LIMIT};
use namely_bench::stats;
use namely_testbed::{Interrupt, Net, Process, command};

/// Options of `topology`.
#[derive(Debug, Args)]
pub struct Topology {
    /// Containers that fetch at once
    #[arg(long, default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=8))]
    pub consumers: usize,
    /// The carrier of packets between the routers
    #[arg(long, default_value = "udp")]
    pub link: TopologyLink,
    /// MTU of the links, octets
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(576..=9300))]
    pub mtu: u32,
    /// The object, MiB
    #[arg(long = "size", value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub size_mib: u64,
    /// Runs of each row
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Measure N requests of each signature too, answered and verified one at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub latency: Option<u32>,
    /// Only build it, print how to enter the containers, and wait for Ctrl-C
    #[arg(long)]
    pub hold: bool,
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The carrier of packets between routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopologyLink {
    /// UDP over IPv4.
    Udp,
    /// Ethernet frames.
    Ethernet,
}

impl TopologyLink {
    /// Returns the link's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TopologyLink::Udp => "udp",
            TopologyLink::Ethernet => "ethernet",
        }
    }
}

/// The producer's container, the switch, and the consumers' containers, of which a run uses the
/// first ones.
const NODES: [&str; 10] = ["producer", "switch", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"];

/// The network device of each container.
const DEVICE: &str = "eth0";

/// The prefix of published objects.
const PREFIX: &str = "/topology";

const UDP_PORT: u16 = 6363;
const TCP_PORT: u16 = 6000;

/// Maximum time of one fetch.
const FETCH_LIMIT: Duration = Duration::from_secs(300);

/// One of the compared transports.
#[derive(Clone, Copy, Debug)]
enum TransportMode {
    /// The kernel's TCP.
    Tcp,
    Named {
        key_type: &'static str,
        sign: &'static str,
        is_checked: bool,
    },
}

const fn named(key_type: &'static str, sign: &'static str, is_checked: bool) -> TransportMode {
    TransportMode::Named { key_type, sign, is_checked }
}

const WAYS: [(&str, TransportMode); 6] = [
    ("kernel TCP", TransportMode::Tcp),
    ("named, unverified", named("ed25519", "manifest", false)),
    ("Ed25519, manifests", named("ed25519", "manifest", true)),
    ("Ed25519, each packet", named("ed25519", "packet", true)),
    ("ECDSA, manifests", named("ecdsa", "manifest", true)),
    ("ECDSA, each packet", named("ecdsa", "packet", true)),
];

/// The rate of each consumer in one run of a transport.
type Rates = Vec<f64>;

/// Builds the topology, and runs the experiment or waits.
pub fn run(options: &Topology) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let dir = tempfile::tempdir().map_err(|e| Error::environment("cannot make a folder", e))?;
    let lab = Lab::build(options, dir.path(), &interrupt)?;
    if options.hold {
        output::lines(lab.description());
        while interrupt.sleep(Duration::from_secs(1)).is_ok() {}
        return Ok(());
    }
    let object = Object::create(dir.path(), 1, options.size_mib << 20)?;
    let mut rates: Vec<Vec<Rates>> = WAYS.iter().map(|_| Vec::new()).collect();
    for run in 0..options.runs {
        for ((_, way), rates) in WAYS.iter().zip(&mut rates) {
            rates.push(lab.measure(*way, run, &object, &interrupt)?);
        }
    }
    let rows = WAYS.iter().zip(&rates).map(|((what, _), runs)| (*what, runs.as_slice()));
    if options.json {
        rows.for_each(|(what, runs)| output::line(value(what, runs, options)));
        return lab.print_latency(options, &interrupt);
    }
    output::line(format_args!("machine: {}", Machine::read()));
    output::line(format_args!(
        "{} consumers, {} MiB each over {} with an MTU of {}; {} runs, alternating; median (least-most)\n",
        options.consumers,
        options.size_mib,
        options.link.name(),
        options.mtu,
        options.runs
    ));
    output::line(format_args!("{:<22}  {:<22}  fairness", "what", "Mbit/s, all consumers"));
    rows.for_each(|(what, runs)| output::line(line(what, runs)));
    lab.print_latency(options, &interrupt)
}

/// Returns for each run the sum over the consumers, and Jain's index.
fn columns(runs: &[Rates]) -> (Vec<f64>, Vec<f64>) {
    runs.iter().map(|rates| (rates.iter().sum::<f64>(), stats::jain(rates).unwrap_or(0.0))).unzip()
}

fn line(what: &str, runs: &[Rates]) -> String {
    let (sums, fairness) = columns(runs);
    let sum = stats::summarise(&sums)
        .map_or("-".to_owned(), |s| format!("{:.0} ({:.0}-{:.0})", s.median, s.min, s.max));
    let least = fairness.into_iter().fold(1.0, f64::min);
    format!("{what:<22}  {sum:<22}  {least:.3}")
}

fn value(what: &str, runs: &[Rates], options: &Topology) -> Value {
    let (sums, fairness) = columns(runs);
    let sum = stats::summarise(&sums);
    json!({
        "what": what, "consumers": options.consumers, "octets": options.size_mib << 20,
        "link": options.link.name(), "mtu": options.mtu, "runs": runs.len(),
        "goodput_mbps": sum.map(|s| json!({"median": s.median, "min": s.min, "max": s.max})),
        "fairness_least": fairness.into_iter().fold(1.0, f64::min),
    })
}

/// The containers, their routers and their programs. The processes end before the namespaces are
/// removed.
struct Lab<'a> {
    routers: Vec<Process>,
    net: Net,
    dir: &'a Path,
    client: Program,
    consumers: &'static [&'static str],
    link: TopologyLink,
}

impl<'a> Lab<'a> {
    fn build(options: &Topology, dir: &'a Path, interrupt: &Interrupt) -> Result<Self, Error> {
        let router = Program::find(&["namelyd"], "NAMELY_BIN_DIR", true);
        let client = Program::find(&["namely"], "NAMELY_BIN_DIR", true);
        if let Some(missing) = router.missing().or_else(|| client.missing()) {
            return Err(Error::Subject(missing));
        }
        let nodes = &NODES[..2 + options.consumers];
        let net = Net::new(nodes).map_err(Error::Usage)?;
        wire(&net, nodes, options.mtu).map_err(Error::Usage)?;
        let mut lab =
            Lab { routers: Vec::new(), net, dir, client, consumers: &nodes[2..], link: options.link };
        for (n, node) in nodes.iter().enumerate().filter(|(_, node)| **node != "switch") {
            let file = dir.join(format!("{node}.toml"));
            std::fs::write(&file, lab.configuration(node))
                .map_err(|e| Error::environment("cannot write a configuration", e))?;
            let mut command = lab.command(node, router.path());
            command.arg("--config").arg(&file).args(["--cs-packets-max", "0"]);
            lab.routers.push(Process::start(&format!("router {n}"), command, dir, None)?);
            probe::wait_for_socket(&lab.socket(node), READY_LIMIT, interrupt)?;
        }
        Ok(lab)
    }

    fn socket(&self, node: &str) -> std::path::PathBuf {
        self.dir.join(format!("{node}.sock"))
    }

    /// A router that listens to its container's applications and to the network. A consumer's
    /// router forwards Interests to the producer's.
    fn configuration(&self, node: &str) -> String {
        let listen = match self.link {
            TopologyLink::Udp => format!("udp://{}:{UDP_PORT}", address(node)),
            TopologyLink::Ethernet => format!("dev://{DEVICE}"),
        };
        let text = format!("[faces]\nlisten = [\"unix://{}\", \"{listen}\"]\n", self.socket(node).display());
        if node == "producer" {
            return text;
        }
        let face = match self.link {
            TopologyLink::Udp => format!("remote = \"udp://{}:{UDP_PORT}\"\n", address("producer")),
            TopologyLink::Ethernet => {
                format!("remote = \"ether://[{}]\"\nlocal = \"dev://{DEVICE}\"\n", station("producer"))
            }
        };
        format!("{text}[[face]]\n{face}routes = [\"{PREFIX}\"]\n")
    }

    /// A program in a node's container.
    fn command(&self, node: &str, program: &Path) -> Command {
        let mut command = command(Path::new("ip"), self.dir);
        command.args(["netns", "exec", self.net.name(node)]).arg(program);
        command
    }

    /// `namely` in a node's container, at its router.
    fn namely(&self, node: &str) -> Command {
        let mut command = self.command(node, self.client.path());
        command.arg("--router").arg(format!("unix://{}", self.socket(node).display()));
        command
    }

    fn measure(
        &self,
        way: TransportMode,
        run: u32,
        object: &Object,
        interrupt: &Interrupt,
    ) -> Result<Rates, Error> {
        match way {
            TransportMode::Tcp => self.measure_tcp(object, interrupt),
            TransportMode::Named { key_type, sign, is_checked } => {
                let name = format!("{PREFIX}/{key_type}/{sign}/{is_checked}/{run}");
                self.measure_named(&name, key_type, sign, is_checked, object, interrupt)
            }
        }
    }

    fn measure_tcp(&self, object: &Object, interrupt: &Interrupt) -> Result<Rates, Error> {
        let own = std::env::current_exe().map_err(|e| Error::environment("cannot find this program", e))?;
        let endpoint = format!("tcp://{}:{TCP_PORT}", address("producer"));
        let mut command = self.command("producer", &own);
        command.args(["plain", "source", "--listen", &endpoint, "--file"]).arg(&object.path);
        let ready = self.dir.join("source");
        let mut source = Process::start("source", command, self.dir, Some(&ready))?;
        while !std::fs::read_to_string(&ready).is_ok_and(|said| said.contains(namely_bench::plain::READY)) {
            source.expect_running()?;
            interrupt.sleep(Duration::from_millis(10))?;
        }
        self.fetch(object, interrupt, |node, out| {
            let mut command = self.command(node, &own);
            command.args(["plain", "sink", "--connect", &endpoint, "--output"]).arg(out);
            command
        })
    }

    fn measure_named(
        &self,
        name: &str,
        key_type: &str,
        sign: &str,
        is_checked: bool,
        object: &Object,
        interrupt: &Interrupt,
    ) -> Result<Rates, Error> {
        let mut command = command(self.client.path(), self.dir);
        command.args(["key", "new", name, "--type", key_type]);
        Process::run("key", command, self.dir, None, READY_LIMIT, interrupt)?;
        let mut command = self.namely("producer");
        let content =
            File::open(&object.path).map_err(|e| Error::environment("cannot open the object", e))?;
        command.args(["put", name, "--sign", sign]).stdin(content);
        let _producer = Process::start("producer", command, self.dir, None)?;
        for node in self.consumers {
            probe::versioned_name(&self.socket(node), name, FETCH_LIMIT, interrupt)?;
        }
        self.fetch(object, interrupt, |node, out| {
            let mut command = self.namely(node);
            command.args(["--quiet", "get", name, "-o"]).arg(out);
            if !is_checked {
                command.arg("--insecure");
            }
            command
        })
    }

    /// Every consumer fetches the object at once, by the command that `command` returns for its
    /// node and its output. Returns the rates, Mbit/s.
    fn fetch(
        &self,
        object: &Object,
        interrupt: &Interrupt,
        command: impl Fn(&str, &Path) -> Command,
    ) -> Result<Rates, Error> {
        let mut running = Vec::new();
        for node in self.consumers {
            let out = self.dir.join(format!("{node}.out"));
            running.push((Process::start(node, command(node, &out), self.dir, None)?, out));
        }
        let mut rates = Vec::new();
        for (process, out) in running {
            let outcome = process.wait(FETCH_LIMIT, interrupt)?;
            expect_same(&object.path, &out)?;
            std::fs::remove_file(&out).map_err(|e| Error::environment("cannot remove an output", e))?;
            rates.push(object.octets as f64 * 8.0 / 1e6 / outcome.elapsed.as_secs_f64());
        }
        Ok(rates)
    }

    /// Prints the latency of requests between two containers, if the option is set. One process has
    /// the sockets of both ends. Each socket connects to the router of its container.
    fn print_latency(&self, options: &Topology, interrupt: &Interrupt) -> Result<(), Error> {
        let Some(count) = options.latency else { return Ok(()) };
        let mut command = command(self.client.path(), self.dir);
        let router = |node| format!("unix://{}", self.socket(node).display());
        command.args(["--router", &router(self.consumers[0])]);
        command.args(if options.json { &["--json", "perf", "request"][..] } else { &["perf", "request"] });
        command.args(["--producer-router", &router("producer"), "--prefix", PREFIX]);
        command.args(["--suite", "none,rsa,ecdsa,ed25519", "--count", &count.to_string()]);
        let said = self.dir.join("latency");
        Process::run("latency", command, self.dir, Some(&said), FETCH_LIMIT, interrupt)?;
        let said =
            std::fs::read_to_string(&said).map_err(|e| Error::environment("cannot read a table", e))?;
        output::lines(format_args!("{}{said}", if options.json { "" } else { "\n" }));
        Ok(())
    }

    /// Instructions for a person who works in the containers.
    fn description(&self) -> String {
        let mut text =
            format!("{PREFIX} leads from every consumer's router to the producer's; Ctrl-C ends all\n");
        for node in ["producer"].iter().chain(self.consumers) {
            let (namespace, socket) = (self.net.name(node), self.socket(node));
            text += &format!(
                "{node:<8}  {}  {}  ip netns exec {namespace} env NAMELY_ROUTER=unix://{} sh\n",
                address(node),
                station(node),
                socket.display()
            );
        }
        text
    }
}

/// The index of a node. Its addresses derive from it.
fn index(node: &str) -> usize {
    NODES.iter().position(|known| *known == node).unwrap_or(0)
}

fn address(node: &str) -> String {
    format!("10.83.0.{}", index(node) + 1)
}

fn station(node: &str) -> String {
    format!("02:00:00:00:53:{:02x}", index(node) + 1)
}

/// Joins every container with the switch.
fn wire(net: &Net, nodes: &[&str], mtu: u32) -> Result<(), String> {
    net.ip("-n {switch} link add br0 type bridge")?;
    net.ip(&format!("-n {{switch}} link set br0 mtu {mtu} up"))?;
    for node in nodes.iter().filter(|node| **node != "switch") {
        let (port, mac) = (format!("p-{node}"), station(node));
        for step in [
            format!(
                "-n {{{node}}} link add {DEVICE} address {mac} mtu {mtu} type veth peer name {port} mtu {mtu} netns {{switch}}"
            ),
            format!("-n {{switch}} link set {port} master br0 up"),
            format!("-n {{{node}}} addr add {}/24 dev {DEVICE}", address(node)),
            format!("-n {{{node}}} link set {DEVICE} up"),
        ] {
            net.ip(&step)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_row_has_sum_and_minimum_fairness() {
        let runs = [vec![100.0, 100.0], vec![100.0, 300.0], vec![50.0, 50.0]];
        assert_eq!(line("x", &runs), "x                       200 (100-400)           0.800");
    }

    #[test]
    fn every_topology_node_has_unique_addresses() {
        let all: std::collections::HashSet<String> =
            NODES.iter().flat_map(|node| [address(node), station(node)]).collect();
        assert_eq!(all.len(), 2 * NODES.len());
    }
}

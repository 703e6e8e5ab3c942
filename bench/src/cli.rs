//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::instructions::Work;
use crate::plain::PlainCommand;
use crate::scenario::{Plan, Scenario};
use crate::subject::SubjectName;
use crate::tables::TablesScenario;

/// Side-by-side benchmarks of namely and its peers.
#[derive(Debug, Parser)]
#[command(name = "namely-bench", version, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure subjects beside one another, alternating in one run
    #[command(after_help = HELP)]
    Compare(Compare),
    /// Measure the forwarding core alone: its tables, without sockets
    #[command(after_help = TABLES_HELP)]
    Tables(Tables),
    /// Count the instructions of fixed work under valgrind and compare them with a snapshot
    #[command(after_help = INSTRUCTIONS_HELP)]
    Instructions(Instructions),
    /// Fetches that share an emulated link: use, fairness, queue
    #[command(after_help = EMULATED_HELP)]
    Emulated(Emulated),
    /// The experiments of iStack on this machine: cores, payload, many consumers
    #[command(after_help = ISTACK_HELP)]
    Istack(Istack),
    /// Containers with routers around a switch, built of network namespaces, and the transport's experiment on them
    #[command(after_help = TOPOLOGY_HELP)]
    Topology(Topology),
    /// Draw bars from what `istack` or `namely perf` printed with --json
    #[command(after_help = PLOT_HELP)]
    Plot(Plot),
    /// Hit ratios of the content store's policies on traces
    #[command(after_help = POLICIES_HELP)]
    Policies(Policies),
    /// One scenario of `tables` in a process of its own
    #[command(hide = true)]
    TablesCase(TablesCase),
    /// What `instructions` counts
    #[command(hide = true)]
    InstructionsWork(InstructionsWork),
    /// One plain process of the relay subject
    #[command(subcommand, hide = true)]
    Plain(PlainCommand),
}

const HELP: &str =
    "Programs are looked for on PATH and in these environment variables (a file or its directory):
  NAMELY_BIN_DIR  namelyd and namely (otherwise beside namely-bench first)
  NFD_BIN         nfd                NFDC_BIN  nfdc
  NDND_BIN        ndnd               NDN_TOOLS_DIR  ndnputchunks, ndncatchunks, ndnping, ndnpingserver
A subject whose programs are absent is named and left out.

Example:
  cargo build --release && cargo run --release -p namely-bench -- compare --subject namely,nfd,ndnd";

const EMULATED_HELP: &str = "Programs are found as by `compare`.

Example:
  cargo run --release -p namely-bench -- emulated --congestion cubic --flows 2 --loss 0";

const ISTACK_HELP: &str = "Programs are found as by `compare`.

Example:
  cargo run --release -p namely-bench -- istack --runs 5";

const PLOT_HELP: &str = "Example:
  namely --json perf crypto > crypto.jsonl && namely-bench plot crypto.jsonl --to crypto.svg";

const TABLES_HELP: &str = "Packets are written into a pool's buffers outside the timed part; timed is what the core does with them.
exchanges/s is over wall time in the core (each worker's added up); ns/exchange and ns/lookup are CPU time, which other
programs on the machine change less.
octets/entry is growth of resident memory beyond the packets, divided by the entries.

Example:
  cargo run --release -p namely-bench -- tables --scenario core-4c-1M,core-2workers --runs 3";

const POLICIES_HELP: &str = "Example:
  cargo run --release -p namely-bench -- policies --json";

/// Options of `policies`.
#[derive(Debug, Args)]
pub struct Policies {
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Requests of each trace [default: 2000000, all of them]
    #[arg(long, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=2_000_000))]
    pub requests: Option<usize>,
}

const INSTRUCTIONS_HELP: &str = "Counts depend on the compiler and its profile: use a release build.

Example:
  cargo run --release -p namely-bench -- instructions
  cargo run --release -p namely-bench -- instructions --renew";

/// Options of `tables`.
#[derive(Debug, Args)]
pub struct Tables {
    /// Which scenarios; all when not given
    #[arg(long, value_delimiter = ',')]
    pub scenario: Vec<TablesScenario>,
    /// Runs of each scenario [default: 5; with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Small tables and one short run: shows that everything works, not how fast it is
    #[arg(long)]
    pub quick: bool,
}

impl Tables {
    /// How many runs.
    pub fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// Which scenarios, each once.
    pub fn scenarios(&self) -> impl Iterator<Item = TablesScenario> {
        let wanted = |s: &TablesScenario| self.scenario.is_empty() || self.scenario.contains(s);
        TablesScenario::value_variants().iter().copied().filter(wanted)
    }
}

/// Options of `instructions`.
#[derive(Debug, Args)]
pub struct Instructions {
    /// The file of counts to compare with
    #[arg(long, default_value = "bench/instructions.json")]
    pub snapshot: PathBuf,
    /// Write the counts to the file instead of comparing them
    #[arg(long)]
    pub renew: bool,
}

/// Options of one scenario's process.
#[derive(Debug, Args)]
pub struct TablesCase {
    /// The scenario
    pub scenario: TablesScenario,
    /// Runs
    #[arg(long)]
    pub runs: u32,
    /// Small
    #[arg(long)]
    pub quick: bool,
}

/// Options of counted work.
#[derive(Debug, Args)]
pub struct InstructionsWork {
    /// Which work
    pub work: Work,
    /// How often it is done
    pub times: u64,
}

/// Options of `emulated`.
#[derive(Debug, Args)]
pub struct Emulated {
    /// Congestion control of the fetches
    #[arg(long, value_delimiter = ',', default_value = "cubic,raaqm,bbr")]
    pub congestion: Vec<String>,
    /// Fetches at once
    #[arg(long, value_delimiter = ',', default_value = "2,3", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub flows: Vec<u32>,
    /// Datagrams lost in each direction, percent
    #[arg(long, value_delimiter = ',', default_value = "0,0.1,1")]
    pub loss: Vec<f64>,
    /// Rate, Mbit/s
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rate_mbps: u64,
    /// Delay of each direction, ms
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub delay_ms: u64,
    /// What the queue holds, ms
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub queue_ms: u64,
    /// How long is counted, seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

const TOPOLOGY_HELP: &str = "Needs root and `ip` of iproute2. Everything that it makes is gone when it ends.

Examples:
  namely-bench topology --consumers 2 --size 32
  namely-bench topology --link ethernet --mtu 9000
  namely-bench topology --consumers 3 --hold";

/// Options of `topology`.
#[derive(Debug, Args)]
pub struct Topology {
    /// Containers that fetch at once
    #[arg(long, default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=8))]
    pub consumers: usize,
    /// What carries packets between the routers
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
    /// Only build it, say how to get into the containers, and wait for Ctrl-C
    #[arg(long)]
    pub hold: bool,
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What carries packets between routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopologyLink {
    /// UDP over IPv4.
    Udp,
    /// Ethernet frames.
    Ethernet,
}

impl TopologyLink {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            TopologyLink::Udp => "udp",
            TopologyLink::Ethernet => "ethernet",
        }
    }
}

/// Options of `istack`.
#[derive(Debug, Args)]
pub struct Istack {
    /// Runs of each row
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Length of each run, seconds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// One JSON object a line instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// What to compare
    #[arg(long, value_delimiter = ',', default_value = "namely,nfd,ndnd,relay")]
    pub subject: Vec<SubjectName>,
    /// Which scenarios; all when not given
    #[arg(long, value_delimiter = ',')]
    pub scenario: Vec<Scenario>,
    /// Runs of each subject in each scenario [default: 5; with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// One JSON object a line instead of tables
    #[arg(long)]
    pub json: bool,
    /// Small objects and one run: shows that everything works, not how fast it is
    #[arg(long)]
    pub quick: bool,
    /// Object size of the file scenarios, MiB (a quarter of it in unix-1200 and memory)
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=480))]
    pub object_mib: u64,
    /// How long one fetch may take, seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Where objects, outputs and sockets go; memory (/dev/shm) when not given, so that no disk is measured
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Stay in the present network namespace even if root
    #[arg(long)]
    pub no_namespace: bool,
}

impl Compare {
    /// How many runs.
    pub fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// How large everything is.
    pub fn plan(&self) -> Plan {
        if self.quick { Plan::quick() } else { Plan::full(self.object_mib) }
    }
}

/// Options of `plot`.
#[derive(Args, Debug)]
pub struct Plot {
    /// Files with JSON lines.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The SVG file to write.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn subjects_and_scenarios_are_lists() {
        let words = ["namely-bench", "compare", "--subject", "namely,nfd", "--scenario", "unix-8000,idle"];
        let cli = Cli::try_parse_from(words).expect("valid");
        let Command::Compare(options) = cli.command else { panic!("another command") };
        assert_eq!(options.subject, [SubjectName::Namely, SubjectName::Nfd]);
        assert_eq!(options.scenario, [Scenario::Unix8000, Scenario::Idle]);
        assert_eq!(options.runs(), 5);
    }
}

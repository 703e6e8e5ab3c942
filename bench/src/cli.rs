//! The command line.

use clap::{Parser, Subcommand};

use crate::attacker::{Attacker, Spinner};
use crate::attacks::Attacks;
use crate::idle::Idle;
use crate::instructions::{Instructions, InstructionsWork};
use crate::links::Links;
use crate::options::Compare;
use crate::paths::Paths;
use crate::plain::PlainCommand;
use crate::saturated::Saturated;
use crate::soak::Soak;
use crate::store::Store;
use crate::store_tables::StoreTables;
use crate::tables::{Tables, TablesCase};
use crate::trees::Trees;

/// Side-by-side benchmarks of namely and its peers.
#[derive(Debug, Parser)]
#[command(name = "namely-bench", version, max_term_width = 110)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure subjects beside one another, alternating in one run
    #[command(after_help = HELP)]
    Compare(Compare),
    /// Attack a router at its default limits and measure the honest clients
    #[command(after_help = ATTACKS_HELP)]
    Attacks(Attacks),
    /// Attack and fetch for hours, and check for leaks
    #[command(after_help = SOAK_HELP)]
    Soak(Soak),
    /// Measure the memory and processor time of many routers without traffic
    #[command(after_help = IDLE_HELP)]
    Idle(Idle),
    /// One attacker of `attacks`
    #[command(hide = true)]
    Attacker(Attacker),
    /// A process that uses an attacker's processor time and sends nothing
    #[command(hide = true)]
    Spin(Spinner),
    /// Measure the links between two routers beside one another, and windows
    #[command(after_help = LINKS_HELP)]
    Links(Links),
    /// Compare congestion controls over forty simulated paths; a repeated command resumes
    #[command(after_help = PATHS_HELP)]
    Paths(Paths),
    /// Copy a tree of small files beside an rsync daemon
    #[command(after_help = TREES_HELP)]
    Trees(Trees),
    /// Measure the forwarding core alone: its tables, without sockets
    #[command(after_help = TABLES_HELP)]
    Tables(Tables),
    /// Measure the content store's disk tier alone, beside fio on the same files
    #[command(after_help = STORE_HELP)]
    Store(Store),
    /// Table threads beside io_uring, and orders of reads and writes, of the disk tier alone
    #[command(after_help = STORE_TABLES_HELP)]
    StoreTables(StoreTables),
    /// Measure a router's throughput while its content store's disk is idle and saturated
    #[command(after_help = SATURATED_HELP)]
    Saturated(Saturated),
    /// Count the instructions of fixed work under valgrind and compare them with a snapshot
    #[command(after_help = INSTRUCTIONS_HELP)]
    Instructions(Instructions),
    /// One scenario of `tables` in a process of its own
    #[command(hide = true)]
    TablesCase(TablesCase),
    /// The work that `instructions` counts
    #[command(hide = true)]
    InstructionsWork(InstructionsWork),
    /// One plain process of the relay subject
    #[command(subcommand, hide = true)]
    Plain(PlainCommand),
}

const STORE_HELP: &str = "Example: namely-bench store --dir /var/tmp --records 1000000\n
fio is looked for on PATH; without it the tier is measured alone.";

const STORE_TABLES_HELP: &str = "Example: namely-bench store-tables --dir /var/tmp --table threads";

const SATURATED_HELP: &str =
    "Example: cargo build --release && target/release/namely-bench saturated --runs 5";

const HELP: &str =
    "Programs are looked for on PATH and in these environment variables (a file or its directory):
  NAMELY_BIN_DIR  namelyd and namely (otherwise beside namely-bench first)
  NFD_BIN         nfd                NFDC_BIN  nfdc
  NDND_BIN        ndnd               NDN_TOOLS_DIR  ndnputchunks, ndncatchunks, ndnping, ndnpingserver
A subject whose programs are absent is reported and skipped.

Example:
  cargo build --release && target/release/namely-bench compare --subject namely,nfd,ndnd";

const ATTACKS_HELP: &str = "Honest consumers fetch and compare what they got, by Unix socket and by UDP; an application pings; `namely status` is
timed. Attackers, consumers and the router share the machine: the ratio has in it what the attackers themselves take;
with --spin that alone is shown, too.
Programs are looked for as by `compare`. As root everything runs in a network namespace of its own, and local attackers
are another user (65534).

Example:
  cargo build --release && target/release/namely-bench attacks --runs 3
  target/release/namely-bench attacks --attack pit,all --subject namely,nfd,ndnd --spin";

const SOAK_HELP: &str = "The attacks of `attacks` follow one another while honest consumers fetch. At the end all clients close, and the router's
memory, descriptors, faces and PIT entries must be what they were; a fetch that failed is a failure too.

Example:
  target/release/namely-bench soak --hours 8";

const IDLE_HELP: &str = "Each router has the default configuration, a folder and a Unix socket of its own. The command fails if a router
exceeds a limit: 6 MiB of private memory, 0.01 % of a processor. Programs are looked for as by `compare`.

Example:
  cargo build --release && target/release/namely-bench idle --routers 300 --minutes 10";

const PATHS_HELP: &str = "\
Examples:
  cargo build --release && target/release/namely-bench paths --results paths.txt --threads 2
  target/release/namely-bench paths --only '400M-100ms-0%-1BDP-tail'";

const LINKS_HELP: &str = "A file is fetched through two routers in network namespaces of their own, with a pair of virtual devices between them:
needs root and `ip` of iproute2. `kernel-tcp` is two plain processes over the same devices, `unix` one router
without a network. Goodput is the file's size over the wall time of the client process; every file that came is compared
with its source. Programs are looked for as by `compare`.

Example:
  cargo build --release && target/release/namely-bench links
  target/release/namely-bench links --link unix,tcp,udp --mtu 1500 --window default,16,32,64,128,256,512";

const TREES_HELP: &str = "Both serve the same tree and copy it within the same file system: rsync's daemon and client over loopback, and a router,
`namely serve` and `namely get --recursive` over Unix sockets. `copy` is into an empty place, `again` with everything there.
Copies are compared with their source, names, octets and times, outside the timed part. System calls are counted by strace,
if there is one, in a run that is not timed. rsync, too, is left out where it is not installed.
  RSYNC_BIN  rsync      STRACE_BIN  strace      NAMELY_BIN_DIR  namelyd and namely

Example:
  cargo build --release && target/release/namely-bench trees
  target/release/namely-bench trees --files 5000 --dir /dev/shm,/home --runs 3";

const TABLES_HELP: &str = "Packets are written into a pool's buffers outside the timed part; timed is what the core does with them.
exchanges/s is over wall time in the core (each worker's added up); ns/exchange and ns/lookup are CPU time, which other
programs on the machine change less.
octets/entry is growth of resident memory beyond the packets, divided by the entries.

Example:
  cargo run --release -p namely-bench -- tables --scenario core-4c-1M,core-2workers --runs 3";

const INSTRUCTIONS_HELP: &str =
    "Counts depend on the compiler and its profile: use the profile of the figures.

Example:
  cargo run --release -p namely-bench -- instructions
  cargo run --release -p namely-bench -- instructions --renew";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::subject::SubjectName;
    use clap::CommandFactory;

    #[test]
    fn the_bench_command_line_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn subjects_and_scenarios_are_lists() {
        let words = ["namely-bench", "compare", "--subject", "namely,nfd", "--scenario", "unix-8000,idle"];
        let cli = Cli::try_parse_from(words).expect("valid");
        let Command::Compare(options) = cli.command else { panic!("another command") };
        assert_eq!(options.subject, [SubjectName::Namely, SubjectName::Nfd]);
        assert_eq!(options.scenario, [Scenario::Unix8000, Scenario::Idle]);
        assert_eq!(options.repeats.runs(), 5);
    }
}

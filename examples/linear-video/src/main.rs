//! Live video to many viewers, over TCP and over names: what the server has to do (HT-32; figures 7 and 8 of Sardara,
//! Muscariello and Compagno, ICN'18, scaled). docs/experiments/linear-video.md has the results and how to make them.
//!
//! Every part is a process of its own: the origin, the server (a caching HTTP proxy, or the egress gateway with a
//! producer socket for each channel), the router, the audience.
#![forbid(unsafe_code)]

mod audience;
mod experiment;
mod live;
mod origin;
mod plot;
mod viewers;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use namely_bench::interrupt::Interrupt;
use namely_bench::machine::Machine;

use crate::audience::Habits;
use crate::experiment::{Mode, Outcome, Programs};
use crate::viewers::Via;

/// What went wrong; the environment's fault, or a program's that was run.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<namely_bench::error::Error> for Failure {
    fn from(error: namely_bench::error::Error) -> Self {
        Failure(error.to_string())
    }
}

/// Live video to many viewers, over TCP and over names: what the server has to do.
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  linear-video --viewers 50,100,150 --seconds 60 --plot linear-video.svg")]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    experiment: Experiment,
    /// Populations to run, each over TCP and over names.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "50,100,150")]
    viewers: Vec<u64>,
    /// Write the plot to this SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print JSON, an object a run.
    #[arg(long)]
    json: bool,
    /// Ask the origin itself over TCP, though a caching proxy is installed.
    #[arg(long)]
    no_proxy: bool,
}

/// What an audience watches.
#[derive(Args, Clone, Debug)]
pub(crate) struct Experiment {
    /// Channels on air, each in four qualities.
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) channels: u64,
    /// Exponent of the channels' popularity (Zipf).
    #[arg(long, value_name = "ALPHA", default_value_t = 1.4)]
    pub(crate) zipf: f64,
    /// Length of each run, s.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(2..=86_400))]
    pub(crate) seconds: u64,
    /// How long a viewer stays with a channel, s.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) stay: u64,
    /// Factor of the bit rates (1, 2.5, 4 and 6 Mbit/s).
    #[arg(long, value_name = "FACTOR", default_value_t = 0.2)]
    pub(crate) scale: f64,
    /// How many qualities viewers are spread over: with 1 all have the bandwidth for the best, as adaptive players take it.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4))]
    pub(crate) qualities: u64,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Make the channels: an HTTP server
    #[command(hide = true)]
    Origin {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        scale: f64,
    },
    /// Watch: many viewers in one process
    #[command(hide = true)]
    Audience {
        #[command(flatten)]
        experiment: Experiment,
        #[arg(long = "viewers")]
        population: u64,
        #[arg(long, conflicts_with = "router", required_unless_present = "router")]
        http: Option<SocketAddr>,
        #[arg(long)]
        router: Option<String>,
    },
}

impl Experiment {
    fn habits(&self) -> Habits {
        Habits {
            channels: self.channels as usize,
            zipf: self.zipf,
            stay: Duration::from_secs(self.stay),
            length: Duration::from_secs(self.seconds),
            scale: self.scale,
            qualities: self.qualities as usize,
        }
    }

    /// The options that make another process do the same.
    pub(crate) fn habits_args(&self) -> Vec<String> {
        [
            ("--channels", self.channels.to_string()),
            ("--zipf", self.zipf.to_string()),
            ("--seconds", self.seconds.to_string()),
            ("--stay", self.stay.to_string()),
            ("--scale", self.scale.to_string()),
            ("--qualities", self.qualities.to_string()),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value])
        .collect()
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.role {
        Some(Role::Origin { listen, scale }) => {
            origin::run(*listen, *scale).map_err(|e| Failure(format!("the origin at {listen} fails: {e}")))
        }
        Some(Role::Audience { experiment, population, http, router }) => {
            watch(experiment, *population, *http, router.as_deref())
        }
        None => compare(&cli),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("linear-video: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn watch(
    experiment: &Experiment,
    population: u64,
    http: Option<SocketAddr>,
    router: Option<&str>,
) -> Result<(), Failure> {
    let via = match (http, router) {
        (Some(server), _) => Via::Http(server),
        (None, router) => Via::Names {
            router: router.unwrap_or_default().to_owned(),
            prefix: "/http".parse().map_err(|_| Failure("no prefix".into()))?,
        },
    };
    let seen = viewers::run(population, experiment.habits(), &via).map_err(Failure)?;
    println!("{}", serde_json::to_string(&seen).map_err(|e| Failure(e.to_string()))?);
    Ok(())
}

fn compare(cli: &Cli) -> Result<(), Failure> {
    let interrupt = Interrupt::on_signals()?;
    let programs = programs(cli.no_proxy)?;
    let mut outcomes = Vec::new();
    if !cli.json {
        println!("machine: {}", Machine::read());
        let proxy = if programs.varnishd.is_some() {
            "varnishd, cache of 1 GiB"
        } else {
            "none: viewers ask the origin itself"
        };
        println!("caching proxy over TCP: {proxy}");
        println!("{}", HEADER);
    }
    for viewers in &cli.viewers {
        for mode in [Mode::Tcp, Mode::Names] {
            let outcome = experiment::run(mode, *viewers, &cli.experiment, &programs, &interrupt)?;
            if cli.json {
                println!("{}", serde_json::to_string(&outcome).map_err(|e| Failure(e.to_string()))?);
            } else {
                println!("{}", line(&outcome));
            }
            outcomes.push(outcome);
        }
    }
    if let Some(path) = &cli.plot {
        plot::write(path, &outcomes).map_err(|e| Failure(format!("cannot write {}: {e}", path.display())))?;
    }
    Ok(())
}

/// The programs, beside this one or on PATH.
fn programs(no_proxy: bool) -> Result<Programs, Failure> {
    let own = std::env::current_exe().map_err(|e| Failure(format!("where is this program? {e}")))?;
    let beside = |name: &str| {
        let dir =
            std::env::var_os("NAMELY_BIN_DIR").map(PathBuf::from).or_else(|| own.parent().map(PathBuf::from));
        let found = dir.map(|dir| dir.join(name)).filter(|path| path.is_file());
        found.ok_or_else(|| {
            Failure(format!("{name} is not beside this program: build it, or set NAMELY_BIN_DIR"))
        })
    };
    let on_path = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
        places.map(|dir| dir.join(name)).find(|path| path.is_file())
    };
    let varnishd = if no_proxy { None } else { on_path("varnishd") };
    Ok(Programs { namely: beside("namely")?, namelyd: beside("namelyd")?, varnishd, own })
}

const HEADER: &str = "viewers  over    requests at the server  of the viewers' %  at the origin  server MiB  server CPU s  router MiB  router CPU s  \
                      segments  stalls  failed  tuning in ms  Mbit/s to viewers";

fn line(o: &Outcome) -> String {
    let share = o.server_requests as f64 / o.seen.requests.max(1) as f64 * 100.0;
    let dash = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    let mode = if o.mode == Mode::Tcp { "TCP" } else { "names" };
    format!(
        "{:>7}  {mode:<6}  {:>22}  {share:>17.1}  {:>13}  {:>10.1}  {:>12.1}  {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>12}  {:>17.1}",
        o.viewers,
        o.server_requests,
        o.origin_requests,
        o.server_mib,
        o.server_cpu_s,
        dash(o.router_mib),
        dash(o.router_cpu_s),
        o.seen.segments,
        o.seen.stalls,
        o.seen.failed + o.seen.wrong,
        o.seen.tuning_ms / o.seen.tuned.max(1),
        o.seen.octets as f64 * 8.0 / 1e6 / o.seconds,
    )
}

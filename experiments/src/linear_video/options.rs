//! The options of the experiment, and the command lines of its processes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::audience::Habits;

/// Options of `linear-video`.
#[derive(Args, Debug)]
pub struct LinearVideo {
    #[command(subcommand)]
    pub(super) role: Option<Role>,
    #[command(flatten)]
    pub(super) experiment: Experiment,
    /// Populations to run, each over TCP and over names.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "50,100,150")]
    pub(super) viewers: Vec<u64>,
    /// Write the plot to this SVG file.
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// Print JSON, an object a run.
    #[arg(long)]
    pub(super) json: bool,
    /// Ask the origin itself over TCP, though a caching proxy is installed.
    #[arg(long)]
    pub(super) no_proxy: bool,
}

/// The channels of an audience.
#[derive(Args, Clone, Debug)]
pub(super) struct Experiment {
    /// Channels on air, each in four qualities.
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) channels: u64,
    /// Exponent of the channels' popularity (Zipf).
    #[arg(long, value_name = "ALPHA", default_value_t = 1.4)]
    pub(super) zipf: f64,
    /// Length of each run, s.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(2..=86_400))]
    pub(super) seconds: u64,
    /// Time for which a viewer stays with a channel, s.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) stay: u64,
    /// Factor of the bit rates (1, 2.5, 4 and 6 Mbit/s).
    #[arg(long, value_name = "FACTOR", default_value_t = 0.2)]
    pub(super) scale: f64,
    /// Number of qualities over which the viewers are spread: with 1 all have the bandwidth for the
    /// best, as adaptive players take it.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4))]
    pub(super) qualities: u64,
}

/// A process of the experiment.
#[derive(Debug, Subcommand)]
pub(super) enum Role {
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
    /// The habits of viewers under these options.
    pub(super) fn habits(&self) -> Habits {
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
    pub(super) fn habits_args(&self) -> Vec<String> {
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

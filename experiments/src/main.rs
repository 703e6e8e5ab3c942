//! `namely-experiments`: see the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use namely_bench::{output, plain};
use namely_experiments::cli::{Cli, Command};
use namely_experiments::{
    emulated, istack, linear_video, nb_cache, ndise, ndise_ping, ndise_routers, ndp, plot, policies, sim,
    topology,
};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Emulated(options) => emulated::run(&options),
        Command::Istack(options) => istack::run(&options),
        Command::LinearVideo(options) => linear_video::run(&options),
        Command::Topology(options) => topology::run(&options),
        Command::Ndise(options) => ndise::run(&options),
        Command::NdiseRouters(options) => ndise_routers::run(&options),
        Command::NdisePing(options) => ndise_ping::run(&options),
        Command::NdiseNeighbours(options) => ndise_ping::neighbours::run(&options),
        Command::Ndp(what) => ndp::run(&what),
        Command::NbCache(options) => nb_cache::run(&options),
        Command::NbCacheRouter(options) => nb_cache::router::run(&options),
        Command::Plot(options) => plot::run(&options),
        Command::Policies(options) => policies::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::SimQueues(options) => sim::queues::run(&options),
        Command::Plain(command) => plain::run(&command),
    };
    match result.and_then(|()| output::finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(format_args!("namely-experiments: {error}"));
            ExitCode::from(error.exit_status())
        }
    }
}

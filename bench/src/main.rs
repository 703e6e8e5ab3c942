//! `namely-bench`: see the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use namely_bench::cli::{Cli, Command};
use namely_bench::{compare, plain};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Compare(options) => compare::run(&options),
        Command::Plain(command) => plain::run(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("namely-bench: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

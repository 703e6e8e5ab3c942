//! `namely-bench`: see the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use namely_bench::cli::{Cli, Command};
use namely_bench::{
    attacker, attacks, compare, idle, instructions, links, output, paths, plain, saturated, soak, store,
    store_tables, tables, trees,
};

/// The tables are large. They use huge pages, as in the router.
#[global_allocator]
static MEMORY: namely_host::HugePages = namely_host::HugePages;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Compare(options) => compare::run(&options),
        Command::Attacks(options) => attacks::run(&options),
        Command::Attacker(options) => attacker::run(&options),
        Command::Spin(options) => {
            attacker::spin(&options);
            Ok(())
        }
        Command::Idle(options) => idle::run(&options),
        Command::Soak(options) => soak::run(&options),
        Command::Store(options) => store::run(&options),
        Command::StoreTables(options) => store_tables::run(&options),
        Command::Saturated(options) => saturated::run(&options),
        Command::Links(options) => links::run(&options),
        Command::Paths(options) => paths::run(&options),
        Command::Trees(options) => trees::run(&options),
        Command::Tables(options) => tables::run(&options),
        Command::TablesCase(options) => tables::run_case(&options),
        Command::Instructions(options) => instructions::run(&options),
        Command::InstructionsWork(options) => instructions::work(&options),
        Command::Plain(command) => plain::run(&command),
    };
    match result.and_then(|()| output::finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(format_args!("namely-bench: {error}"));
            ExitCode::from(error.exit_status())
        }
    }
}

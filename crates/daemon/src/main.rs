//! `namelyd`: the router as a separate program. The library contains its functions.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use namely_daemon::CommandLine;

/// Huge pages, because the tables are large.
#[global_allocator]
static MEMORY: namely_host::HugePages = namely_host::HugePages;

fn main() -> ExitCode {
    namely_host::keep_little_memory();
    match namely_daemon::run(&CommandLine::parse().daemon) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report("namelyd");
            ExitCode::from(failure.exit as u8)
        }
    }
}

//! `namelyd`: the router as a separate program. The library contains its functions.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Huge pages, because the tables are large.
#[global_allocator]
static MEMORY: namely_host::HugePages = namely_host::HugePages;

fn main() -> ExitCode {
    namely_host::keep_little_memory();
    let command_line = match namely_daemon::command_line() {
        Ok(command_line) => command_line,
        Err(status) => return status,
    };
    match namely_daemon::run(&command_line.daemon) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.end("namelyd"),
    }
}

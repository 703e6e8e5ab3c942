//! `namely`, the one command people type.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    namely::main()
}

//! `namely`, the command for users.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    namely::main()
}

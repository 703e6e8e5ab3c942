//! `namelyd`: the router as a program of its own. What it does is in the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use namely_daemon::DaemonArgs;

/// The tables are large.
#[global_allocator]
static MEMORY: namely_host::HugePages = namely_host::HugePages;

const EXAMPLES: &str = "\
Examples:
  namelyd
      serve this machine: the user's Unix socket, TCP and UDP on 127.0.0.1:6363
  namelyd --listen unix:///tmp/a.sock --listen udp://0.0.0.0:6363 --route /=udp://192.0.2.1
      also take neighbours in, and send what is not here to one of them
  namelyd --config /etc/namely/namely.toml --check
      say what is wrong with a configuration, without starting

Signals: HUP reads the configuration again, TERM and INT stop the router.
Exit status: 0 stopped, 1 failed, 2 wrong options, 69 cannot listen, 78 wrong configuration.";

/// A router for Named Data Networking.
#[derive(Debug, Parser)]
#[command(name = "namelyd", version, after_help = EXAMPLES)]
struct CommandLine {
    #[command(flatten)]
    daemon: DaemonArgs,
}

fn main() -> ExitCode {
    match namely_daemon::run(&CommandLine::parse().daemon) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("namelyd: {failure}");
            ExitCode::from(failure.exit as u8)
        }
    }
}

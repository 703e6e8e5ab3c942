//! `namely up`: the router, under the same options as `namelyd`.

use clap::Args;
use namely_daemon::DaemonArgs;

use super::Context;
use crate::failure::{Exit, Failure};

/// Start a router.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely up\n  namely up --listen unix:///tmp/a.sock --listen udp://127.0.0.1:6363\n  namely up --config namely.toml --check"
)]
pub struct Up {
    #[command(flatten)]
    daemon: DaemonArgs,
}

impl Up {
    /// Runs the router until it is stopped.
    pub fn run(&self, _: &Context<'_>) -> Result<(), Failure> {
        namely_daemon::run(&self.daemon).map_err(|failure| Failure {
            exit: Exit::Failed,
            message: failure.message,
            hint: failure.hint,
        })
    }
}

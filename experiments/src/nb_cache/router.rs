//! A router in this program, which waits for its disk: `namelyd` has no such option, because no
//! router should. What is compared with it is `namelyd` itself.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use namely_bench::error::Error;
use namely_daemon::{Failure, Router, config::Config};
use namely_testbed::Interrupt;

/// Options of the hosted router.
#[derive(Debug, Args)]
pub struct BlockingRouter {
    /// Its configuration, as of namelyd
    #[arg(long)]
    pub config: PathBuf,
}

/// Runs the router until a signal ends it.
///
/// # Errors
/// What keeps it from running.
pub fn run(options: &BlockingRouter) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let mut config = Config::load(&options.config).map_err(|e| Error::Usage(e.to_string()))?;
    config.cs.disk.blocks = true;
    let router = Router::start(config).map_err(|failure: Failure| Error::Subject(failure.to_string()))?;
    while interrupt.sleep(Duration::from_millis(100)).is_ok() {}
    router.stop();
    Ok(())
}

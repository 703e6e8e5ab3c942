//! A router in this program, with a disk that works as that of NB-Cache's prototype: `namelyd` has
//! no such option, because no router should. What is compared with it is `namelyd` itself.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use namely_bench::error::Error;
use namely_daemon::{
    Failure, Router,
    config::{Config, Prototype},
};
use namely_testbed::Interrupt;

/// Options of the hosted router.
#[derive(Debug, Args)]
pub struct HostedRouter {
    /// Its configuration, as of namelyd
    #[arg(long)]
    pub config: PathBuf,
    /// It waits for its disk
    #[arg(long)]
    pub blocks: bool,
    /// It writes each Data by a request of its own
    #[arg(long)]
    pub writes_alone: bool,
    /// It hears so much later of a read than it is done, us
    #[arg(long, default_value_t = 0)]
    pub heard_late_us: u64,
}

/// Runs the router until a signal ends it.
///
/// # Errors
/// What keeps it from running.
pub fn run(options: &HostedRouter) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let mut config = Config::load(&options.config).map_err(|e| Error::Usage(e.to_string()))?;
    config.cs.disk.prototype = Prototype {
        blocks: options.blocks,
        writes_alone: options.writes_alone,
        heard_late: Duration::from_micros(options.heard_late_us),
    };
    let router = Router::start(config).map_err(|failure: Failure| Error::Subject(failure.to_string()))?;
    while interrupt.sleep(Duration::from_millis(100)).is_ok() {}
    router.stop();
    Ok(())
}

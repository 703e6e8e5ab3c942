//! A router in this program that uses its disk as NB-Cache's prototype does. `namelyd` has no such
//! option, because no production router needs it. The prototype is compared with `namelyd`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use namely_bench::error::Error;
use namely_daemon::{
    Failure, Router,
    config::{Config, Variant},
};
use namely_testbed::Interrupt;

use super::prototype::Prototype;

/// Options of the hosted router.
#[derive(Debug, Args)]
pub struct HostedRouter {
    /// Configuration file of the router, as for namelyd
    #[arg(long)]
    pub config: PathBuf,
    /// Workers wait for each disk request
    #[arg(long)]
    pub blocks: bool,
    /// Write each Data by a separate request
    #[arg(long)]
    pub writes_alone: bool,
    /// Delay between the end of a read and its report, us
    #[arg(long, default_value_t = 0)]
    pub heard_late_us: u64,
}

/// Runs the router until a signal ends it.
///
/// # Errors
/// The signal handler, the configuration or the router fails.
pub fn run(options: &HostedRouter) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let mut config = Config::load(&options.config).map_err(|e| Error::Usage(e.to_string()))?;
    let prototype = Prototype {
        blocks: options.blocks,
        writes_alone: options.writes_alone,
        report_delay: Duration::from_micros(options.heard_late_us),
    };
    config.cs.disk.variant = Variant(Some(Arc::new(prototype)));
    let router = Router::start(config).map_err(|failure: Failure| Error::Subject(failure.to_string()))?;
    while interrupt.sleep(Duration::from_millis(100)).is_ok() {}
    router.stop();
    Ok(())
}

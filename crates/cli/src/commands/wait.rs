//! `namely wait`: for scripts that start a router or a producer and then use it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use namely_wire::Name;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::options::name;
use crate::router::known_prefixes;

/// Interval of the checks.
const LOOK: Duration = Duration::from_millis(50);

/// Wait until the router runs, and until prefixes are registered.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  namely up &\n  namely wait\n  namely serve data --prefix /lab/data &\n  namely wait /lab/data"
)]
pub struct Wait {
    /// Prefixes to wait for: registered or bound by a program, or with a route.
    #[arg(value_name = "PREFIX", value_parser = name)]
    prefixes: Vec<Name>,
    /// How long to wait, s.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

impl Wait {
    /// Returns when the router runs and all prefixes are registered.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let end = Instant::now() + Duration::from_secs(self.timeout);
        loop {
            let missing = match known_prefixes(ctx).map(|known| self.missing(&known)) {
                Ok(None) => return Ok(()),
                Ok(Some(prefix)) => Failure::new(
                    Exit::Timeout,
                    format!("{prefix} was not registered or bound in {} s", self.timeout),
                )
                .hint("`namely route list` and `namely bind list` list the known prefixes"),
                Err(failure) if failure.exit != Exit::NoRouter => return Err(failure),
                Err(failure) => failure,
            };
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::new(Exit::Interrupted, "the wait has ended"));
            }
            if Instant::now() >= end {
                return Err(missing);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the first prefix that is not among `known`.
    fn missing(&self, known: &[Name]) -> Option<&Name> {
        self.prefixes.iter().find(|prefix| !known.contains(prefix))
    }
}

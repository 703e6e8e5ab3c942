//! `namely wait`: for scripts that start a router or a producer and then use it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use namely_transport::connection::{Answer, Options};
use namely_wire::{FaceUri, InterestBuilder, Name};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::options::name;
use crate::router::{connection_failure, known_prefixes, open};

/// Interval of the checks.
const LOOK: Duration = Duration::from_millis(50);

/// Lifetime of the Interest that a remote router answers, ms.
const PROBE_LIFETIME_MS: u64 = 1_000;

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
            let missing = match self.look(ctx) {
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

    /// Returns the first missing prefix, once the router answers.
    fn look(&self, ctx: &Context<'_>) -> Result<Option<Name>, Failure> {
        if self.prefixes.is_empty() && is_answered_remotely(ctx)? {
            return Ok(None);
        }
        let known = known_prefixes(ctx)?;
        Ok(self.missing(&known).cloned())
    }

    /// Returns the first prefix that is not among `known`.
    fn missing(&self, known: &[Name]) -> Option<&Name> {
        self.prefixes.iter().find(|prefix| !known.contains(prefix))
    }
}

/// Returns true if a router that may be on another host answers an Interest. Any answer counts: it
/// does not report its datasets to other hosts, but refuses the name of this Interest, which no
/// router forwards further.
fn is_answered_remotely(ctx: &Context<'_>) -> Result<bool, Failure> {
    let router = ctx.global.router.as_deref().and_then(|uri| uri.parse::<FaceUri>().ok());
    if !matches!(router, Some(FaceUri::Tcp(_) | FaceUri::Udp(_) | FaceUri::Station { .. })) {
        return Ok(false);
    }
    let mut connection = open(ctx, Options { reconnect: Duration::ZERO, ..Options::default() })?;
    let name = Name::new().join_generic("localhop").join_generic("namely-wait");
    let interest = InterestBuilder::new(name).lifetime_ms(PROBE_LIFETIME_MS);
    let answer = connection.express(&interest).map_err(connection_failure)?;
    Ok(!matches!(answer, Answer::Timeout))
}

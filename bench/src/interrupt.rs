//! Ctrl-C: noticed by everything that waits, so that what was started can be ended in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::Error;

/// How long a wait may take to notice an interruption.
pub const NOTICE: Duration = Duration::from_millis(100);

/// Says whether somebody wants this run to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// One that SIGINT and SIGTERM set. A second signal ends the process at once.
    pub fn on_signals() -> Result<Self, Error> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM] {
            let flag = &interrupt.0;
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
                .map_err(|e| Error::environment("cannot watch for signals", e))?;
        }
        Ok(interrupt)
    }

    /// An error once interrupted.
    pub fn check(&self) -> Result<(), Error> {
        if self.0.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Sleeps for `time` unless interrupted.
    pub fn sleep(&self, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(NOTICE));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_sleep_ends_early() {
        let interrupt = Interrupt::default();
        interrupt.0.store(true, Ordering::Relaxed);
        let started = Instant::now();
        assert!(matches!(interrupt.sleep(Duration::from_secs(60)), Err(Error::Interrupted)));
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}

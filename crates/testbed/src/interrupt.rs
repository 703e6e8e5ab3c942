//! Interruption by Ctrl-C. Every wait checks for an interruption, so that a run can end the
//! processes that it started.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::ProcessError;

/// Maximum delay until a wait notices an interruption.
pub(crate) const NOTICE: Duration = Duration::from_millis(100);

/// A flag that ends the run once it is set.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Returns an interrupt that SIGINT and SIGTERM set. A second signal ends the process at once.
    ///
    /// # Errors
    /// The system's error if a signal handler cannot be installed.
    pub fn on_signals() -> Result<Self, ProcessError> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM] {
            let flag = &interrupt.0;
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
                .map_err(|e| ProcessError::environment("cannot watch for signals", e))?;
        }
        Ok(interrupt)
    }

    /// Interrupts the run.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns an error once the run is interrupted.
    ///
    /// # Errors
    /// [`ProcessError::Interrupted`].
    pub fn check(&self) -> Result<(), ProcessError> {
        if self.0.load(Ordering::Relaxed) { Err(ProcessError::Interrupted) } else { Ok(()) }
    }

    /// Sleeps for `time`.
    ///
    /// # Errors
    /// [`ProcessError::Interrupted`], soon after the interruption.
    pub fn sleep(&self, time: Duration) -> Result<(), ProcessError> {
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
        interrupt.set();
        let started = Instant::now();
        assert!(interrupt.sleep(Duration::from_secs(60)).is_err());
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}

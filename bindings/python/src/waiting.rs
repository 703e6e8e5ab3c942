//! The wait of a thread, which releases the interpreter and checks for signals.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rustix::io::Errno;

use crate::failure::Failure;

/// Maximum time for which a thread waits before it checks for signals of Python. A signal that
/// arrives just before the wait does not end the wait.
const SIGNALS_AFTER: Duration = Duration::from_millis(500);

/// Repeats `attempt` until it has a result. `attempt` receives the time that it may take, and
/// returns `None` when that has passed or a signal has arrived. Without `timeout` there is no
/// limit.
pub(crate) fn waited<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut attempt: impl FnMut(Duration) -> Option<Result<T, Failure>> + Send,
) -> PyResult<T> {
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let slice = left.unwrap_or(SIGNALS_AFTER).min(SIGNALS_AFTER);
        if let Some(result) = py.detach(|| attempt(slice)) {
            return Ok(result?);
        }
        py.check_signals()?;
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(Failure::new(Errno::TIMEDOUT, "not in time").into());
        }
    }
}

/// Returns the result of `call`, which runs on a thread of its own because no signal ends it. After
/// a signal the thread continues alone.
pub(crate) fn on_a_thread<T: Send + 'static>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("namely-call".into());
    thread
        .spawn(move || {
            // The receiver may be gone.
            let _ = sender.send(call());
        })
        .map_err(|error| Failure::new(Errno::AGAIN, format!("no thread to be had: {error}")))?;
    waited(py, None, move |slice| match receiver.recv_timeout(slice) {
        Ok(result) => Some(result),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Err(Failure::new(Errno::CANCELED, "the call ended"))),
    })
}

/// Seconds from Python; `None` for a time too long to wait for.
pub(crate) fn seconds(timeout: Option<f64>, default: Option<Duration>) -> Option<Duration> {
    match timeout {
        Some(seconds) => Duration::try_from_secs_f64(seconds.max(0.0)).ok(),
        None => default,
    }
}

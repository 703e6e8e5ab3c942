//! The service manager (systemd): it is told of ready, reload and stop, and that the router is
//! well; and it may hand over sockets.
//!
//! Without one, all of this does nothing.

#[allow(unsafe_code, reason = "descriptors come as numbers; see ARCHITECTURE.md, Invariants")]
mod given;

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use sd_notify::NotifyState;

use crate::router::Health;

pub(crate) use given::{GivenSocket, take};

/// The router answers.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The configuration is being read again; [`ready`] ends it.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(time) => notify(&[NotifyState::Reloading, time]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// The router stops.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Notifies the manager at half its interval that the router is well, as long as both of its
/// threads answer: one that hangs is then started again by the manager. Dropping it ends the
/// telling; nobody waits for it.
pub(crate) struct Watchdog {
    _stop: SyncSender<()>,
}

impl Watchdog {
    /// Starts to tell, if the manager wants to hear it and there is a thread to do so.
    pub(crate) fn start(health: Health) -> Option<Self> {
        let half = sd_notify::watchdog_enabled()? / 2;
        let (stop, stopped) = sync_channel(1);
        let tell = move || {
            while stopped.recv_timeout(half) == Err(RecvTimeoutError::Timeout) {
                if health.is_well(half) {
                    notify(&[NotifyState::Watchdog]);
                }
            }
        };
        let thread = std::thread::Builder::new().name("namely-watchdog".into()).spawn(tell);
        thread.inspect_err(|error| tracing::error!("no watchdog thread: {error}")).ok()?;
        Some(Watchdog { _stop: stop })
    }
}

/// A manager that does not listen is none.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("the service manager does not hear: {error}");
    }
}

/// Returns true if whoever is given the sender by `ask` answers within `patience`.
pub(crate) fn is_answered(patience: Duration, ask: impl FnOnce(SyncSender<()>)) -> bool {
    let (answer, answered) = sync_channel(1);
    ask(answer);
    answered.recv_timeout(patience).is_ok()
}

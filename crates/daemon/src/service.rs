//! The service manager (systemd): it is told of ready, reload and stop, and that the router is
//! well.
//!
//! Without one, all of this does nothing.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use sd_notify::NotifyState;

use crate::router::Router;

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
/// threads answer: one that hangs is then started again by the manager.
pub(crate) struct Watchdog<'scope> {
    stop: SyncSender<()>,
    thread: ScopedJoinHandle<'scope, ()>,
}

impl<'scope> Watchdog<'scope> {
    /// Starts to tell, if the manager wants to hear it.
    pub(crate) fn start<'env>(scope: &'scope Scope<'scope, 'env>, router: &'scope Router) -> Option<Self> {
        let half = sd_notify::watchdog_enabled()? / 2;
        let (stop, stopped) = sync_channel(1);
        let thread = scope.spawn(move || {
            while stopped.recv_timeout(half) == Err(RecvTimeoutError::Timeout) {
                if router.is_well(half) {
                    notify(&[NotifyState::Watchdog]);
                }
            }
        });
        Some(Watchdog { stop, thread })
    }

    /// Ends the telling.
    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the watchdog thread ended by a panic");
        }
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

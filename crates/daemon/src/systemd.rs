//! The service manager (systemd): it is notified of start, reload, stop and health, and it may pass
//! sockets.
//!
//! Without a service manager, all of this does nothing.

#[allow(unsafe_code, reason = "descriptors come as numbers; see ARCHITECTURE.md, Invariants")]
mod activation;

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use sd_notify::NotifyState;

use crate::router::Health;

pub(crate) use activation::{ActivationSocket, take};

/// Notifies that the router is ready.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Notifies of a reload; [`ready`] ends it.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(time) => notify(&[NotifyState::Reloading, time]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// Notifies that the router stops.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Notifies that the router drains, and stops within `left`.
pub(crate) fn draining(status: &str, left: Duration) {
    let left_us = u32::try_from(left.as_micros()).unwrap_or(u32::MAX);
    notify(&[NotifyState::Stopping, NotifyState::Status(status), NotifyState::ExtendTimeoutUsec(left_us)]);
}

/// Notifies the manager at half its interval, as long as both threads of the router respond. The
/// manager restarts a router that hangs. Dropping this ends the notifications without waiting for
/// the thread.
pub(crate) struct Watchdog {
    _stop: SyncSender<()>,
}

impl Watchdog {
    /// Starts the notifications, if the manager requests them and a thread is available.
    pub(crate) fn start(health: Health) -> Option<Self> {
        let half = sd_notify::watchdog_enabled()? / 2;
        let (stop, stopped) = sync_channel(1);
        let run = move || {
            while stopped.recv_timeout(half) == Err(RecvTimeoutError::Timeout) {
                if health.is_well(half) {
                    notify(&[NotifyState::Watchdog]);
                }
            }
        };
        let thread = std::thread::Builder::new().name("namely-watchdog".into()).spawn(run);
        thread.inspect_err(|error| tracing::error!("no watchdog thread: {error}")).ok()?;
        Some(Watchdog { _stop: stop })
    }
}

/// Errors are only logged, because the router does not depend on the manager.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("no message to the service manager: {error}");
    }
}

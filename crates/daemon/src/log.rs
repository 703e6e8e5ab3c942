//! Logs: to standard error, with a level that can change while the router runs. Nothing is logged
//! per packet above `trace`.

use std::sync::OnceLock;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt};

static FILTER: OnceLock<Handle<EnvFilter, Registry>> = OnceLock::new();

/// Logs what `level` lets through from now on. A process that has set up its own logs keeps them.
pub(crate) fn set_level(level: &str) {
    let Ok(filter) = level.parse::<EnvFilter>() else { return };
    if let Some(handle) = FILTER.get() {
        // The only failure is that the subscriber is gone, which ends all logs anyway.
        handle.reload(filter).ok();
        return;
    }
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    // A service manager adds the time itself.
    let done = if under_service_manager() {
        tracing_subscriber::registry().with(filter).with(lines.without_time().with_ansi(false)).try_init()
    } else {
        tracing_subscriber::registry().with(filter).with(lines).try_init()
    };
    if done.is_ok() {
        FILTER.set(handle).ok();
    }
}

fn under_service_manager() -> bool {
    std::env::var_os("JOURNAL_STREAM").is_some()
}

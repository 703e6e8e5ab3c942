//! What the system's clock says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Since the Unix epoch.
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since the Unix epoch.
pub(crate) fn unix_ms() -> u64 {
    since_epoch().as_millis() as u64
}

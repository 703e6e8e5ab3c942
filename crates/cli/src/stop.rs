//! Ctrl-C and SIGTERM: a flag that long-running commands check.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;

/// Returns a flag that the first signal sets. A second signal ends the process at once.
pub fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The handlers run in this order. At the first signal, the shutdown finds the flag clear
        // before the other handler sets it. At the second signal, the shutdown finds the flag set.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|e| Failure::failed(format!("cannot handle signals: {e}")))?;
    }
    Ok(stop)
}

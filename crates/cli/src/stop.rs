//! Ctrl-C and SIGTERM: a flag that commands which run until stopped look at.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;

/// A flag that becomes true when the process shall stop. A second signal ends it at once.
pub fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order, so that the first signal sets the flag and only the second finds it set.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|e| Failure::failed(format!("cannot handle signals: {e}")))?;
    }
    Ok(stop)
}

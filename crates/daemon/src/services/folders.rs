//! Makes the sockets of the configuration whose folders were missing at the start, once the folders
//! are there.

use std::sync::atomic::{AtomicU64, Ordering};

use namely_mgmt::Now;

use super::Service;
use crate::home::RouterHandle;

/// Time between two checks for missing folders, ns. No event reports each way in which a folder may
/// come, such as a mount. A check costs one system call per folder.
const CHECK_NS: u64 = 1_000_000_000;

/// The checks as a service.
#[derive(Default)]
pub(super) struct SocketFolders {
    /// The time of the next check, ns. Only the control thread uses it.
    due_ns: AtomicU64,
}

impl Service for SocketFolders {
    fn tick(&self, home: &RouterHandle, now: Now) -> Option<u64> {
        if !home.awaited.awaits_folders() {
            return None;
        }
        // Relaxed: one thread makes all calls.
        let mut due_ns = self.due_ns.load(Ordering::Relaxed);
        if now.ns >= due_ns {
            home.awaited.listen(&home.plane);
            due_ns = now.ns + CHECK_NS;
            self.due_ns.store(due_ns, Ordering::Relaxed);
        }
        Some(due_ns)
    }
}

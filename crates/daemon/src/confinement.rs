//! Whether this process may open the configured files only, and the failures that result.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::Access;

/// The resolver's configuration. The system's network management replaces it, often by a link to a
/// folder of its own: /run/NetworkManager, /run/netconfig, /mnt/wsl.
pub(crate) const RESOLVER: &str = "/etc/resolv.conf";

/// The setting that refuses a folder, and the remedy.
const ADVICE: &str = "process.confine_files refuses: restart the router";

static IS_CONFINED: AtomicBool = AtomicBool::new(false);

/// Records that the access to files is restricted from now on.
pub(crate) fn begin() {
    // Relaxed: no other thread runs yet.
    IS_CONFINED.store(true, Ordering::Relaxed);
}

/// Returns the reason for which host names cannot be looked up, if it is the restriction of files.
/// The system's functions report only that the name server does not answer.
pub(crate) fn lookup_refusal() -> Option<String> {
    if !IS_CONFINED.load(Ordering::Relaxed) {
        return None;
    }
    refusal(Path::new(RESOLVER))
}

/// Adds the restriction of files to the `reason` for which `socket` was not made, if that is its
/// cause.
pub(crate) fn explain_socket(socket: &Path, reason: String) -> String {
    let folder = socket.parent().unwrap_or(socket);
    // access(2) judges the mode of the folder alone.
    let is_permitted = rustix::fs::access(folder, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK);
    let is_refused = File::open(folder).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    if IS_CONFINED.load(Ordering::Relaxed) && is_permitted.is_ok() && is_refused {
        return format!("{reason}: it was added after the start, which {ADVICE}");
    }
    reason
}

/// The reason for which this process may not read `resolver`. The restriction of a running process
/// never widens (landlock(7)), so a link to another folder is followed at the next start.
pub(crate) fn refusal(resolver: &Path) -> Option<String> {
    let error = File::open(resolver).err().filter(|error| error.kind() == ErrorKind::PermissionDenied)?;
    Some(format!(
        "{}: {error}: it leads to a folder that was added after the start, which {ADVICE}",
        resolver.display()
    ))
}

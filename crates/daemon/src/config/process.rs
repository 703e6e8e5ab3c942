//! As whom the router runs, and what it gives up.

use serde::Deserialize;

/// As whom the router runs when root starts it, and what it gives up in any case. All of it is for
/// the programs; a router in another program changes nothing of that.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    /// The user that a router becomes which root starts; `root` stays root. Without this: `namely`,
    /// if there is such a user.
    pub user: Option<String>,
    /// Whether a crash may write the memory to a file, for debugging: secrets are in it.
    pub core_dumps: bool,
    /// Whether only files are opened that the configuration and the look-up of names need.
    pub confine_files: bool,
    /// Whether system calls are refused that a router does not make.
    pub confine_calls: bool,
}

impl Default for Process {
    fn default() -> Self {
        Process { user: None, core_dumps: false, confine_files: true, confine_calls: true }
    }
}

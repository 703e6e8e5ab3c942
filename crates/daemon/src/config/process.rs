//! The user of the process, and its restrictions.

use serde::Deserialize;

/// The user of a router that root starts, and the restrictions of any router. Only `namelyd` and
/// `namely up` apply them. A router that another program embeds leaves that program's rights
/// unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    /// The user of a router that root starts; `root` keeps root. The default is `namely`, if there
    /// is such a user.
    pub user: Option<String>,
    /// Whether a crash may dump memory to a file, for debugging. A dump contains secrets.
    pub core_dumps: bool,
    /// Whether access is restricted to the files that the configuration and name resolution need.
    pub confine_files: bool,
    /// Whether system calls that a router does not use are refused.
    pub confine_calls: bool,
}

impl Default for Process {
    fn default() -> Self {
        Process { user: None, core_dumps: false, confine_files: true, confine_calls: true }
    }
}

//! The user of the process, its restrictions and its end.

use serde::Deserialize;

/// The user of a router that root starts, the restrictions and the end of any router. Only
/// `namelyd` and `namely up` apply them. A router that another program embeds leaves that program's
/// rights unchanged.
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
    /// Time in which a router that stops answers pending Interests, ms.
    ///
    /// 0 switches the drain off.
    ///
    /// # Limit
    /// The router ends, and logs the number of pending Interests.
    /// - Value: 3000 ms
    /// - Setting: `process.drain_ms`
    /// - Tests: `a_drain_ends_with_the_last_interest`, `a_drain_ends_at_its_bound`
    pub drain_ms: u64,
}

impl Default for Process {
    fn default() -> Self {
        Process { user: None, core_dumps: false, confine_files: true, confine_calls: true, drain_ms: 3000 }
    }
}

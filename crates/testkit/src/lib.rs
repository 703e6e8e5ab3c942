//! Helpers for the tests of all crates. No other code uses them.
//!
//! Skips: a test calls [`skip`] and returns if the machine lacks something that the test needs.
//! [`skip`] prints one line, `skipped: <need>: <why>`, which `.ci/tests` gathers. If [`VARIABLE`]
//! has the need, the test fails instead.
//!
//! Waits: for a condition ([`eventually`], [`until`]), and until a thread sleeps ([`asleep`]). No
//! test depends on when a thread or a process runs. [`SetWhenDropped`] ends the threads of a
//! test that fails.
//!
//! Snapshots: results as text in the repository ([`snapshot`]).
//!
//! Names and packets that many tests need: [`name`], [`names`], `signed`, [`hash`]. The feature
//! `hostile` adds peers that attack. [`SelfSigned`]: a certificate for a TLS server.
#![forbid(unsafe_code)]

mod certificate;
#[cfg(feature = "disk")]
mod faulty_disk;
mod folder;
#[cfg(feature = "hostile")]
pub mod hostile;
mod packets;
mod port;
mod snapshot;
mod stop;
mod wait;

pub use certificate::SelfSigned;
#[cfg(feature = "disk")]
pub use faulty_disk::{on_faulty_disk, survivals};
pub use folder::copy_private;
#[cfg(feature = "signed")]
pub use packets::signed;
pub use packets::{hash, name, names};
pub use port::{bound_again, free_address, free_port};
pub use snapshot::{compare_snapshot, renew_snapshots, snapshot};
pub use stop::SetWhenDropped;
pub use wait::{PATIENCE, asleep, eventually, found_within, uninterrupted, until, wait_until_true};

use std::fmt::Display;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Environment variable with the needs that this machine must meet: names, separated by commas or
/// blanks. `all` stands for every need.
pub const VARIABLE: &str = "NAMELY_REQUIRED";

/// A need of a test that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Root: to become other users, and to change the owner of files.
    Root,
    /// Network namespaces: root, `ip`, and a kernel that permits them.
    Namespaces,
    /// `tc` and netem, which drops and delays packets.
    Netem,
    /// `unshare`, and mounting a small disk.
    Mount,
    /// `setpriv`, which drops capabilities.
    Setpriv,
    /// `systemd-analyze`.
    Systemd,
    /// AF_XDP.
    Xdp,
    /// Something else of the kernel or of this machine's limits.
    Kernel,
    /// A guest that has the forwarder in its kernel: `kernel/run --tools` boots one.
    Guest,
    /// Python with python-ndn from the package index.
    Python,
    /// Node.js with NDNts from the npm registry.
    Node,
    /// Go with NDNgo from the module proxy.
    Go,
    /// A C compiler, `pkg-config` and `nm`.
    Cc,
    /// A C++ compiler and CMake.
    Cxx,
    /// XRootD 5: its server, its clients and the headers of its server.
    Xrootd,
    /// `valgrind`.
    Valgrind,
    /// `mandoc`, which checks manual pages.
    Mandoc,
    /// `openssl`.
    Openssl,
    /// `curl`.
    Curl,
    /// `promtool` and `prometheus`.
    Prometheus,
    /// NFD, NDNd and their tools: no package registry has them.
    Peers,
    /// NLSR.
    Nlsr,
    /// The sample configuration that NFD's sources install.
    NfdSample,
    /// The sources of VPP, which libmemif is part of.
    Vpp,
    /// Programs of the workspace beside the test: `cargo test --workspace` builds them.
    Programs,
    /// The list of requirements beside the checkout.
    Requirements,
}

impl Need {
    /// All needs.
    pub const ALL: [Need; 26] = [
        Need::Root,
        Need::Namespaces,
        Need::Netem,
        Need::Mount,
        Need::Setpriv,
        Need::Systemd,
        Need::Xdp,
        Need::Kernel,
        Need::Guest,
        Need::Python,
        Need::Node,
        Need::Go,
        Need::Cc,
        Need::Cxx,
        Need::Xrootd,
        Need::Valgrind,
        Need::Mandoc,
        Need::Openssl,
        Need::Curl,
        Need::Prometheus,
        Need::Peers,
        Need::Nlsr,
        Need::NfdSample,
        Need::Vpp,
        Need::Programs,
        Need::Requirements,
    ];

    /// Its name in [`VARIABLE`] and in `.ci/tests`.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Prints that a test is skipped because `need` is missing.
///
/// # Panics
/// If [`VARIABLE`] has `need`, or a word that is not a need.
#[track_caller]
pub fn skip(need: Need, why: impl Display) {
    let required = std::env::var(VARIABLE).unwrap_or_default();
    if is_required(&required, need) {
        panic!("{why}; {VARIABLE} names {}, so no test may be skipped for want of it", need.name());
    }
    // On one line: `.ci/tests` gathers lines.
    println!("skipped: {}: {}", need.name(), why.to_string().trim().replace('\n', "; "));
}

/// Returns the value. If there is none, skips the test because `need` is missing, and returns
/// `None`.
///
/// # Panics
/// As [`skip`] does.
#[track_caller]
pub fn or_skip<T>(need: Need, what: Result<T, impl Display>) -> Option<T> {
    what.map_err(|why| skip(need, why)).ok()
}

/// Runs a command that sets a test up. Returns true if the command succeeds. Otherwise it skips the
/// test, because `need` is missing or the kernel was built without it.
///
/// # Panics
/// As [`skip`] does.
#[track_caller]
pub fn succeeds_or_skip(need: Need, command: &mut Command) -> bool {
    let (need, why) = match command.output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            (if is_of_the_kernel(&said) { Need::Kernel } else { need }, said)
        }
        Err(error) => (need, error.to_string()),
    };
    skip(need, format_args!("{command:?}: {why}"));
    false
}

/// Returns true if this process may create network namespaces that last. Root may, except in some
/// containers.
///
/// # Panics
/// As [`skip`] does.
#[track_caller]
pub fn namespaces() -> bool {
    if !rustix::process::geteuid().is_root() {
        skip(Need::Namespaces, "network namespaces need root");
        return false;
    }
    let mut trial = Command::new("unshare");
    // `ip netns add` mounts each below /run.
    trial.args(["--net", "--mount", "sh", "-c", "mount -t tmpfs none /run && ip netns add trial"]);
    succeeds_or_skip(Need::Namespaces, &mut trial)
}

/// Runs `ip` (of iproute2) with the words of `command`, as [`succeeds_or_skip`] does.
///
/// # Panics
/// As [`skip`] does.
#[track_caller]
pub fn ip(command: &str) -> bool {
    succeeds_or_skip(Need::Namespaces, Command::new("ip").args(command.split_whitespace()))
}

/// Raises this process's soft limit on descriptors, usually 1,024, to `count`. Returns false after
/// a skip if the hard limit is lower.
///
/// # Panics
/// As [`skip`] does.
#[track_caller]
pub fn descriptors(count: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= count) {
        return true;
    }
    // The limit only rises: other tests of this process may rely on a raised limit.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(count), ..limit });
    or_skip(Need::Kernel, raised.map_err(|error| format!("{count} descriptors: {error}"))).is_some()
}

/// True if `ip` or `tc` reported that the kernel lacks the feature.
fn is_of_the_kernel(said: &str) -> bool {
    ["Unknown device type", "Specified qdisc kind is unknown", "Operation not supported"]
        .iter()
        .any(|words| said.contains(words))
}

/// True if the list `required` has `need` in it.
fn is_required(required: &str, need: Need) -> bool {
    let mut words = required.split([',', ' ']).filter(|word| !word.is_empty());
    let unknown = words.clone().find(|word| *word != "all" && Need::ALL.iter().all(|n| n.name() != *word));
    assert!(unknown.is_none(), "{VARIABLE} names {:?}, which no test needs", unknown.unwrap_or_default());
    words.any(|word| word == "all" || word == need.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_needs_are_never_skipped() {
        assert!(is_required("root, python", Need::Python) && is_required("all", Need::Peers));
        assert!(!is_required("root python", Need::Node) && !is_required("", Need::Root));
        assert!(std::panic::catch_unwind(|| is_required("pyton", Need::Python)).is_err());
        let names: std::collections::BTreeSet<String> = Need::ALL.map(Need::name).into();
        assert_eq!(names.len(), Need::ALL.len(), "each has a name of its own");
    }

    #[test]
    fn missing_kernel_features_are_distinguished() {
        assert!(succeeds_or_skip(Need::Mount, &mut Command::new("true")));
        assert!(is_of_the_kernel("Error: Unknown device type.\n"));
        assert!(!is_of_the_kernel("Cannot find device \"eth0\"\n"));
    }
}

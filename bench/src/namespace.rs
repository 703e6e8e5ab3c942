//! A network namespace of this run, without other listeners and senders.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::error::Error;

/// Set in a process that runs inside the namespace.
const MARK: &str = "NAMELY_BENCH_NAMESPACE";

/// Network of the measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkScope {
    /// In a network namespace of its own.
    OwnNamespace,
    /// On the machine's loopback, with the reason.
    Loopback(String),
}

/// Starts this program again inside a network namespace of its own. This requires root, unshare
/// (util-linux) and ip (iproute2). Otherwise returns the reason why the process stays in the
/// present namespace.
pub fn enter() -> NetworkScope {
    if env::var_os(MARK).is_some() {
        return match bring_up_loopback() {
            Ok(()) => NetworkScope::OwnNamespace,
            Err(e) => NetworkScope::Loopback(format!("its own namespace has no loopback ({e})")),
        };
    }
    if !rustix::process::geteuid().is_root() {
        return NetworkScope::Loopback("a namespace of its own needs root".to_owned());
    }
    // A harmless command is tried first: root in a container may lack the permission.
    if let Err(e) = run(&["unshare", "--net", "ip", "link", "set", "lo", "up"]) {
        return NetworkScope::Loopback(format!("no namespace of its own ({e})"));
    }
    match env::current_exe() {
        Ok(program) => {
            let mut command = Command::new("unshare");
            command.arg("--net").arg(program).args(env::args_os().skip(1)).env(MARK, "1");
            NetworkScope::Loopback(format!("cannot start again in a namespace ({})", command.exec()))
        }
        Err(e) => NetworkScope::Loopback(format!("cannot find its own program ({e})")),
    }
}

/// Returns true in a process that [`enter`] has moved into a namespace of its own.
pub(crate) fn is_own() -> bool {
    env::var_os(MARK).is_some()
}

fn bring_up_loopback() -> Result<(), Error> {
    run(&["ip", "link", "set", "lo", "up"])
}

pub(crate) fn run(words: &[&str]) -> Result<(), Error> {
    let doing = || words.join(" ");
    let output =
        Command::new(words[0]).args(&words[1..]).output().map_err(|e| Error::environment(doing(), e))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Usage(format!("{}: {said}", doing())))
}

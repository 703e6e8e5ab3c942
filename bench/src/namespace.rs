//! A network namespace of this run's own, where nobody else listens or sends.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::error::Error;

/// Set in a process that runs inside the namespace.
const MARK: &str = "NAMELY_BENCH_NAMESPACE";

/// Where the measurement runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a network namespace of its own.
    OwnNamespace,
    /// On the machine's loopback, and why.
    Loopback(String),
}

/// Moves this process into a network namespace of its own by starting it again inside one, when it
/// may (root) and can (unshare from util-linux, ip from iproute2). Otherwise returns why it stays
/// where it is.
pub fn enter() -> Place {
    if env::var_os(MARK).is_some() {
        return match bring_up_loopback() {
            Ok(()) => Place::OwnNamespace,
            Err(e) => Place::Loopback(format!("its own namespace has no loopback ({e})")),
        };
    }
    if !rustix::process::geteuid().is_root() {
        return Place::Loopback("a namespace of its own needs root".to_owned());
    }
    // Tried first on something harmless: a container may be root and still not allowed to.
    if let Err(e) = run(&["unshare", "--net", "ip", "link", "set", "lo", "up"]) {
        return Place::Loopback(format!("no namespace of its own ({e})"));
    }
    match env::current_exe() {
        Ok(program) => {
            let mut command = Command::new("unshare");
            command.arg("--net").arg(program).args(env::args_os().skip(1)).env(MARK, "1");
            Place::Loopback(format!("cannot start again in a namespace ({})", command.exec()))
        }
        Err(e) => Place::Loopback(format!("cannot find its own program ({e})")),
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

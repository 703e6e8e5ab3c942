//! A network namespace of the test's own.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use namely_testkit::{Need, ip, skip, succeeds_or_skip};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A network namespace. The drop removes it with its devices.
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// Prints the reason and returns none if a namespace is not available.
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Namespaces, "network namespaces need root");
            return None;
        }
        let name = format!("namely-io-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let namespace = Namespace { name };
        ip(&format!("netns add {}", namespace.name)).then_some(namespace)
    }

    #[allow(dead_code, reason = "some files use it")]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with the words of `command`, in this namespace. Returns false and prints the
    /// reason if that fails.
    pub(crate) fn ip(&self, command: &str) -> bool {
        ip(&format!("-n {} {command}", self.name))
    }

    /// Returns true if the output of `ip` with the words of `command` in this namespace contains
    /// `word`.
    #[allow(dead_code, reason = "some files use it")]
    pub(crate) fn shows(&self, command: &str, word: &str) -> bool {
        let printed = Command::new("ip").args(["-n", &self.name]).args(command.split_whitespace()).output();
        printed.is_ok_and(|printed| String::from_utf8_lossy(&printed.stdout).contains(word))
    }

    /// Runs `tc` as [`Namespace::ip`] runs `ip`.
    #[allow(dead_code, reason = "some files use it")]
    pub(crate) fn tc(&self, command: &str) -> bool {
        let mut tc = Command::new("tc");
        tc.args(["-n", &self.name]).args(command.split_whitespace());
        succeeds_or_skip(Need::Netem, &mut tc)
    }

    /// Runs `work` on a thread in this namespace; threads that it starts are in it too.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.name)).unwrap();
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

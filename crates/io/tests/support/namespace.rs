//! A network namespace of the test's own.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use namely_skip::{Need, skip};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Gone when dropped, with the devices in it.
pub(crate) struct Namespace {
    name: String,
}

impl Namespace {
    /// None, with the reason printed, where there cannot be one.
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Namespaces, "network namespaces need root");
            return None;
        }
        let name = format!("namely-io-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let namespace = Namespace { name };
        namespace.run("ip", &["netns", "add", &namespace.name]).then_some(namespace)
    }

    #[allow(dead_code, reason = "some files use it")]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with the words of `command`, in this namespace. False, with the reason printed,
    /// when it fails.
    pub(crate) fn ip(&self, command: &str) -> bool {
        let arguments: Vec<&str> = ["-n", &self.name].into_iter().chain(command.split_whitespace()).collect();
        self.run("ip", &arguments)
    }

    /// The same with `tc`.
    #[allow(dead_code, reason = "some files use it")]
    pub(crate) fn tc(&self, command: &str) -> bool {
        let arguments: Vec<&str> = ["-n", &self.name].into_iter().chain(command.split_whitespace()).collect();
        self.run("tc", &arguments)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let need = if program == "tc" { Need::Netem } else { Need::Namespaces };
        match Command::new(program).args(arguments).output() {
            Ok(output) if output.status.success() => true,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                // A kind of device that the kernel was built without.
                let need = if said.contains("Unknown device type") { Need::Kernel } else { need };
                skip(need, format_args!("{program} {arguments:?}: {said}"));
                false
            }
            Err(error) => {
                skip(need, format_args!("there is no command {program}: {error}"));
                false
            }
        }
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

//! Network namespaces with names that `ip netns` knows.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sandbox;

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Network namespaces. Dropping the value deletes them with their devices.
#[derive(Debug)]
pub struct Net {
    /// The caller's name and the system's name of each namespace.
    nodes: Vec<(String, String)>,
}

impl Net {
    /// Creates a namespace with a loopback for each of `nodes`. In a sandbox it has the name of the
    /// node. Elsewhere its name is unique to this process.
    ///
    /// # Errors
    /// The reason why namespaces cannot be created.
    pub fn new(nodes: &[impl AsRef<str>]) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces need root".into());
        }
        let run = match sandbox::is_inside() {
            true => String::new(),
            false => format!("nmle-{}-{}-", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)),
        };
        let mut net = Net { nodes: Vec::new() };
        for node in nodes.iter().map(AsRef::as_ref) {
            let name = format!("{run}{node}");
            ip(&format!("netns add {name}"))?;
            net.nodes.push((node.to_owned(), name));
            net.ip(&format!("-n {{{node}}} link set lo up"))?;
        }
        Ok(net)
    }

    /// Returns the name of a node's namespace for `ip netns`.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn name(&self, node: &str) -> &str {
        let found = self.nodes.iter().find(|(known, _)| *known == node);
        found.map(|(_, name)| name.as_str()).expect("a node of this network")
    }

    /// Runs `ip` with the words of `command`, in which `{a}` stands for the namespace of the node
    /// `a`.
    ///
    /// # Errors
    /// The command's output.
    pub fn ip(&self, command: &str) -> Result<(), String> {
        ip(&self.filled(command))
    }

    /// Runs `tc` in the same way.
    ///
    /// # Errors
    /// The command's output.
    pub fn tc(&self, command: &str) -> Result<(), String> {
        run("tc", &self.filled(command))
    }

    fn filled(&self, command: &str) -> String {
        let fill = |text: String, (node, name): &(String, String)| text.replace(&format!("{{{node}}}"), name);
        self.nodes.iter().fold(command.to_owned(), fill)
    }

    /// Joins two nodes with a pair of devices. Each end is a node, the name of its device, and its
    /// address in the form of `ip addr add`.
    ///
    /// # Errors
    /// The output of `ip`.
    pub fn join(&self, ends: [(&str, &str, &str); 2]) -> Result<(), String> {
        let [(a, device_a, address_a), (b, device_b, address_b)] = ends;
        self.ip(&format!("-n {{{a}}} link add {device_a} type veth peer name {device_b} netns {{{b}}}"))?;
        for (node, device, address) in [(a, device_a, address_a), (b, device_b, address_b)] {
            self.ip(&format!("-n {{{node}}} addr add {address} dev {device}"))?;
            self.ip(&format!("-n {{{node}}} link set {device} up"))?;
        }
        Ok(())
    }

    /// Runs `work` on a thread in the namespace of a node. Processes that it starts run there, too.
    pub fn enter<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.name(node))).expect("a namespace of ip netns");
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter a namespace");
                work()
            });
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|(_, name)| drop(ip(&format!("netns del {name}"))));
    }
}

fn ip(command: &str) -> Result<(), String> {
    run("ip", command)
}

fn run(program: &str, command: &str) -> Result<(), String> {
    match Command::new(program).args(command.split_whitespace()).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program} {command}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("there is no {program} command (of iproute2): {error}")),
    }
}

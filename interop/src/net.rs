//! Networks of a test's own: namespaces, and links between them.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Network namespaces, gone with the value, and the devices in them too.
#[derive(Debug)]
pub struct Net {
    /// What the test calls each, and its name.
    nodes: Vec<(&'static str, String)>,
}

impl Net {
    /// A namespace for each of `nodes`, with a loopback.
    ///
    /// # Errors
    /// Why there can be none here.
    pub fn new(nodes: &[&'static str]) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces need root".into());
        }
        let run = format!("nmle-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut net = Net { nodes: Vec::new() };
        for node in nodes {
            let name = format!("{run}-{node}");
            ip(&format!("netns add {name}"))?;
            net.nodes.push((node, name));
            net.ip(&format!("-n {{{node}}} link set lo up"))?;
        }
        Ok(net)
    }

    /// The name of a namespace, as `ip netns` has it.
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
    /// What it said.
    pub fn ip(&self, command: &str) -> Result<(), String> {
        let filled = |text: String, (node, name): &(&str, String)| text.replace(&format!("{{{node}}}"), name);
        ip(&self.nodes.iter().fold(command.to_owned(), filled))
    }

    /// Joins two nodes: a device with the name and the address, which `ip addr add` knows, at each.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn join(&self, ends: [(&str, &str, &str); 2]) -> Result<(), String> {
        let [(a, device_a, address_a), (b, device_b, address_b)] = ends;
        self.ip(&format!("-n {{{a}}} link add {device_a} type veth peer name {device_b} netns {{{b}}}"))?;
        for (node, device, address) in [(a, device_a, address_a), (b, device_b, address_b)] {
            self.ip(&format!("-n {{{node}}} addr add {address} dev {device}"))?;
            self.ip(&format!("-n {{{node}}} link set {device} up"))?;
        }
        Ok(())
    }

    /// Runs `work` on a thread in the namespace of a node; what that starts is there too.
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
    match Command::new("ip").args(command.split_whitespace()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("ip {command}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("there is no ip command: {error}")),
    }
}

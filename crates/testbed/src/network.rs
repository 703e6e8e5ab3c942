//! Links and segments of a testbed. The kernel shapes traffic where it can; otherwise a thread of
//! this program does.

use std::os::fd::OwnedFd;
use std::time::Duration;

use namely_datagrams::ethernet::{monitor, ring};

use crate::error::TestbedError;
use crate::file::{Addresses, Network, Rate, Shape, Span, Testbed};
use crate::net::Net;
use crate::sandbox::tool;
use crate::wire::{Frames, Reordering, Wire, WireSpec};

/// Default queue before a rate limit, as the time to send it.
const QUEUE: Duration = Duration::from_millis(50);

/// A node's device on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The node.
    pub node: String,
    /// Name in the node's namespace.
    pub name: String,
    /// Its addresses.
    pub addresses: Addresses,
    /// Its MTU.
    pub mtu: u32,
}

/// Returns all devices, network by network. The devices of a node are named eth0, eth1 and so on.
pub fn devices(testbed: &Testbed) -> Vec<Device> {
    let mut all: Vec<Device> = Vec::new();
    for (network, found) in testbed.networks().iter().enumerate() {
        for (station, (node, mtu)) in found.nodes.iter().zip(&found.mtus).enumerate() {
            let place = all.iter().filter(|device| device.node == *node).count();
            all.push(Device {
                node: (*node).to_owned(),
                name: format!("eth{place}"),
                addresses: Addresses { network, station },
                mtu: *mtu,
            });
        }
    }
    all
}

/// The mechanism that carries a network's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The kernel, without shaping.
    Plain,
    /// The kernel's token bucket (tbf).
    Bucket,
    /// The kernel's emulator (netem).
    Netem,
    /// A thread of the testbed.
    Thread,
}

impl Carrier {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Plain => "plain",
            Carrier::Bucket => "tbf",
            Carrier::Netem => "netem",
            Carrier::Thread => "user space",
        }
    }
}

/// The kernel's support for shaping on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    has_bucket: bool,
    has_netem: bool,
}

impl Kernel {
    /// Determines the kernel's support with commands on this namespace's loopback.
    pub(crate) fn look() -> Self {
        let has = |words: &str| {
            let add: Vec<&str> = "qdisc add dev lo root".split(' ').chain(words.split(' ')).collect();
            let has = tool("tc", &add).is_ok();
            let _ = has.then(|| tool("tc", &["qdisc", "del", "dev", "lo", "root"]));
            has
        };
        Kernel {
            has_bucket: has("tbf rate 100mbit burst 32k latency 50ms"),
            has_netem: has("netem delay 1ms loss 1% rate 100mbit limit 100"),
        }
    }

    fn carrier(self, shape: &Shape) -> Carrier {
        let is_rate_only = shape.delay.is_none() && shape.loss.is_none();
        match shape.rate {
            None if is_rate_only => Carrier::Plain,
            Some(_) if is_rate_only && self.has_bucket => Carrier::Bucket,
            _ if self.has_netem => Carrier::Netem,
            _ => Carrier::Thread,
        }
    }
}

/// A network that was built.
#[derive(Debug)]
pub(crate) struct BuiltNetwork {
    pub(crate) carrier: Carrier,
    /// The bridge's ends of the device pairs, in the sandbox's own namespace.
    ports: Vec<String>,
    /// Devices in the sandbox's own namespace, which are not deleted with the nodes' namespaces.
    own: Vec<String>,
    wires: Vec<Wire>,
}

impl Drop for BuiltNetwork {
    fn drop(&mut self) {
        self.wires.clear();
        // Ignore errors: a device may have been deleted with its peer.
        self.own.iter().for_each(|device| drop(tool("ip", &["link", "del", device])));
    }
}

impl BuiltNetwork {
    /// Removes or restores the carrier of a network's devices.
    pub(crate) fn set(&self, devices: &[Device], is_up: bool) -> Result<(), TestbedError> {
        let state = if is_up { "up" } else { "down" };
        for port in &self.ports {
            tool("ip", &["link", "set", port, state])?;
        }
        if self.ports.is_empty() {
            for device in devices {
                tool("ip", &["-n", &device.node, "link", "set", &device.name, state])?;
            }
        }
        Ok(())
    }
}

/// Builds one network. `devices` are those of this network.
pub(crate) fn build(
    net: &Net,
    n: usize,
    network: &Network<'_>,
    devices: &[Device],
    kernel: Kernel,
) -> Result<BuiltNetwork, TestbedError> {
    let carrier = kernel.carrier(&network.shape);
    let mut built = BuiltNetwork { carrier, ports: Vec::new(), own: Vec::new(), wires: Vec::new() };
    let mtu_max = devices.iter().map(|device| device.mtu).max().unwrap_or(1500);
    if network.is_segment {
        bridge(n, devices, mtu_max, &network.shape, &mut built)?;
    } else if carrier == Carrier::Thread {
        let ends = [0, 1].map(|end| format!("w{n}.{end}"));
        for (device, end) in devices.iter().zip(&ends) {
            pair(device, end, mtu_max)?;
            built.own.push(end.clone());
        }
        built.wires.push(wire(&ends[0], &ends[1], &network.shape)?);
    } else if let [a, b] = devices {
        let (mac_a, mac_b) = (a.addresses.ethernet(), b.addresses.ethernet());
        net.ip(&format!(
            "-n {{{}}} link add {} address {mac_a} mtu {} type veth peer name {} address {mac_b} mtu {} netns {{{}}}",
            a.node, a.name, a.mtu, b.name, b.mtu, b.node
        ))
        .map_err(refused)?;
    }
    for device in devices {
        let Device { node, name, .. } = device;
        if let Some(words) = discipline(carrier, &network.shape, device.mtu) {
            net.tc(&format!("-n {{{node}}} qdisc add dev {name} root {words}")).map_err(refused)?;
        }
        net.ip(&format!("-n {{{node}}} addr add {}/24 dev {name}", device.addresses.ipv4()))
            .map_err(refused)?;
        net.ip(&format!("-n {{{node}}} link set {name} up")).map_err(refused)?;
    }
    Ok(built)
}

/// Creates a bridge, and a pair of devices between it and each node.
fn bridge(
    n: usize,
    devices: &[Device],
    mtu: u32,
    shape: &Shape,
    built: &mut BuiltNetwork,
) -> Result<(), TestbedError> {
    let name = format!("br{n}");
    ip(&format!("link add {name} type bridge mcast_snooping 0 forward_delay 0"))?;
    built.own.push(name.clone());
    for (station, device) in devices.iter().enumerate() {
        let port = format!("p{n}.{station}");
        built.own.push(port.clone());
        if built.carrier == Carrier::Thread {
            let (end, other) = (format!("w{n}.{station}"), format!("x{n}.{station}"));
            pair(device, &end, mtu)?;
            built.own.push(end.clone());
            ip(&format!("link add {port} mtu {mtu} type veth peer name {other} mtu {mtu}"))?;
            ip(&format!("link set {other} up"))?;
            built.wires.push(wire(&end, &other, shape)?);
            built.ports.push(end);
        } else {
            pair(device, &port, mtu)?;
            if let Some(words) = discipline(built.carrier, shape, mtu) {
                let words = format!("qdisc add dev {port} root {words}");
                tool("tc", &words.split(' ').collect::<Vec<_>>())?;
            }
            built.ports.push(port.clone());
        }
        ip(&format!("link set {port} master {name} up"))?;
    }
    ip(&format!("link set {name} mtu {mtu} up"))
}

/// Creates a node's device, whose peer is in this namespace.
fn pair(device: &Device, end: &str, mtu: u32) -> Result<(), TestbedError> {
    let Device { node, name, addresses, mtu: own } = device;
    let mac = addresses.ethernet();
    ip(&format!("link add {end} mtu {mtu} type veth peer name {name} address {mac} mtu {own} netns {node}"))?;
    ip(&format!("link set {end} up"))
}

fn wire(a: &str, b: &str, shape: &Shape) -> Result<Wire, TestbedError> {
    let spec = WireSpec {
        rate_bps: shape.rate.map(|Rate(rate)| rate),
        delay: shape.delay.map_or(Duration::ZERO, |Span(delay)| delay),
        queue: shape.queue.map_or(QUEUE, |Span(queue)| queue),
        loss: shape.loss.map_or(0.0, |share| share.0),
        late: Reordering::default(),
    };
    let ends = [tap(a)?, tap(b)?].map(Frames::new);
    Wire::start(spec, ends).map_err(|e| TestbedError::unable(format!("cannot emulate {a}"), e))
}

fn tap(device: &str) -> Result<OwnedFd, TestbedError> {
    let unable = |e| TestbedError::unable(format!("cannot open {device}"), e);
    let found = monitor::device(device).map_err(unable)?;
    let index = found.map_or(0, |device| device.index);
    ring::tap_socket(index).map_err(unable)
}

/// Returns the arguments of `tc` that shape the traffic of a device.
fn discipline(carrier: Carrier, shape: &Shape, mtu: u32) -> Option<String> {
    let rate = shape.rate.map_or(0, |Rate(rate)| rate);
    let queue = shape.queue.map_or(QUEUE, |Span(queue)| queue);
    match carrier {
        Carrier::Plain | Carrier::Thread => None,
        Carrier::Bucket => {
            // Burst: the octets of one tick of the kernel's clock, and at least two frames.
            let burst = (rate / 8 / 250).max(2 * u64::from(mtu) + 100).max(10_000);
            Some(format!("tbf rate {rate}bit burst {burst} latency {}us", queue.as_micros()))
        }
        Carrier::Netem => {
            let delay = shape.delay.map_or(Duration::ZERO, |Span(delay)| delay);
            let limit = (queue + delay).as_secs_f64() * rate as f64 / 8.0 / f64::from(mtu.max(256));
            let mut words = format!("netem delay {}us limit {}", delay.as_micros(), (limit as u64).max(1000));
            if let Some(share) = shape.loss {
                words += &format!(" loss {}%", share.0 * 100.0);
            }
            if rate > 0 {
                words += &format!(" rate {rate}bit");
            }
            Some(words)
        }
    }
}

fn ip(words: &str) -> Result<(), TestbedError> {
    tool("ip", &words.split(' ').collect::<Vec<_>>())
}

pub(crate) fn refused(reason: String) -> TestbedError {
    TestbedError::Unable { reason, hint: None }
}

//! A bridge in a namespace of its own, with routers in others, and a station that sends any
//! packets.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this module")]

use std::fs::File;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use namely_datagrams::ethernet::frame;
use namely_datagrams::ethernet::ring::{ReceivedFrame, Ring};
use namely_datagrams::ethernet::{DEFAULT_GROUP, FrameSender};
use namely_messages::{Counter, Dataset, NeighborState, NeighborStatus, blocks};
use namely_testkit::hostile::HostilePeer;
use namely_testkit::{Need, eventually, ip, skip, until};
use namely_wire::{InterestView, MacAddress};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::common::{Client, Daemon, namelyd};

/// Interval of hellos. A router that is silent for three of them is removed, and on a busy machine
/// it may be silent for seconds.
pub const HEARTBEAT_MS: u64 = if crate::MEASURES { 1000 } else { 2000 };

static COUNT: AtomicU32 = AtomicU32::new(0);

/// The address of station `i`.
pub fn mac(i: usize) -> String {
    format!("02:00:00:00:00:{i:02x}")
}

/// Namespaces, each with `eth0` on one bridge. Dropping this removes them.
pub struct Net {
    name: String,
    stations: usize,
}

/// A router in one of them.
pub struct Router {
    pub daemon: Daemon,
    pub client: Client,
}

impl Net {
    /// A station for each MTU. Prints the reason and returns `None` if that is not possible.
    pub fn new(mtus: &[usize]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Namespaces, "network namespaces need root");
            return None;
        }
        let name = format!("nmlyn-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let net = Net { name, stations: mtus.len() };
        let bridge = &net.name;
        let is_there = ip(&format!("netns add {bridge}"))
            && ip(&format!("-n {bridge} link add br0 mtu 9000 type bridge mcast_snooping 0"))
            && ip(&format!("-n {bridge} link set br0 up"))
            && mtus
                .iter()
                .enumerate()
                .all(|(i, mtu)| ip(&format!("netns add {}", net.of(i))) && net.plug(i, *mtu));
        is_there.then_some(net)
    }

    fn of(&self, i: usize) -> String {
        format!("{}-{i}", self.name)
    }

    /// Connects station `i` to the bridge.
    pub fn plug(&self, i: usize, mtu: usize) -> bool {
        let (bridge, station) = (&self.name, self.of(i));
        [
            format!(
                "-n {bridge} link add p{i} mtu 9000 type veth peer name eth0 address {} netns {station}",
                mac(i)
            ),
            format!("-n {bridge} link set p{i} master br0"),
            format!("-n {bridge} link set p{i} up"),
            format!("-n {station} link set eth0 mtu {mtu}"),
            format!("-n {station} link set eth0 up"),
        ]
        .iter()
        .all(|step| ip(step))
    }

    /// Runs `ip` in the namespace of station `i`. Prints the reason and returns false if that
    /// fails.
    pub fn ip(&self, i: usize, command: &str) -> bool {
        ip(&format!("-n {} {command}", self.of(i)))
    }

    /// Returns true if station `i` has a usable address of IPv6.
    pub fn has_link_local(&self, i: usize) -> bool {
        let mut show = Command::new("ip");
        show.args(["-n", &self.of(i), "-6", "addr", "show", "dev", "eth0", "scope", "link", "-tentative"]);
        show.output().is_ok_and(|output| output.stdout.windows(5).any(|octets| octets == b"fe80:"))
    }

    /// Octets that the device of station `i` has sent.
    pub fn sent_octets(&self, i: usize) -> u64 {
        let mut show = Command::new("ip");
        show.args(["netns", "exec", &self.of(i), "cat", "/sys/class/net/eth0/statistics/tx_bytes"]);
        let output = show.output().expect("ip runs");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
    }

    /// A router without any configuration.
    pub fn plain_router(&self, i: usize) -> Router {
        let dir = tempfile::tempdir().unwrap();
        self.start(i, dir, &["--no-config"])
    }

    /// A router with lines of `[discovery]`, this heartbeat, and further options.
    pub fn router(&self, i: usize, discovery: &str, options: &[&str]) -> Router {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("namely.toml");
        std::fs::write(&file, settings(discovery)).unwrap();
        let file = file.to_str().unwrap().to_owned();
        self.start(i, dir, &[&["--config", &file][..], options].concat())
    }

    /// The error of a router that does not start with these lines of `[discovery]`.
    pub fn refused(&self, i: usize, discovery: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("namely.toml");
        std::fs::write(&file, format!("[discovery]\n{discovery}\n")).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.of(i)]).arg(namelyd().get_program());
        command.arg("--config").arg(&file).args(["--only", "--listen", "dev://eth0"]);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "it starts");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// A router on a port of UDP, with lines of configuration.
    pub fn udp_router(&self, i: usize, config: &str, listen: &str) -> Router {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("namely.toml");
        std::fs::write(&file, settings(config)).unwrap();
        let file = file.to_str().unwrap().to_owned();
        self.start_on(i, dir, &["--config", &file], listen)
    }

    fn start(&self, i: usize, dir: tempfile::TempDir, options: &[&str]) -> Router {
        self.start_on(i, dir, options, "dev://eth0")
    }

    fn start_on(&self, i: usize, dir: tempfile::TempDir, options: &[&str], listen: &str) -> Router {
        let socket = format!("unix://{}", dir.path().join("x.sock").display());
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.of(i)]).arg(namelyd().get_program()).args(options);
        command.args(["--listen", &socket, "--listen", listen, "--workers", "2"]);
        command.env_remove("NAMELY_LOG").env("HOME", "/nonexistent");
        let daemon = Daemon::spawn(command, dir).unwrap_or_else(|why| panic!("namelyd did not start: {why}"));
        let client = daemon.connect();
        Router { daemon, client }
    }

    /// Waits until a router has `count` neighbors.
    pub fn wait_for_neighbours(&self, router: &mut Router, count: usize) -> Vec<NeighborStatus> {
        until("the neighbors", || {
            let all = neighbours(router);
            let are_proven = all.iter().all(|n| n.state == NeighborState::Proven && n.face_id.is_some());
            (all.len() == count && are_proven).then_some(all)
        })
    }

    /// Runs `work` on a thread in the namespace of station `i`.
    pub fn enter<T: Send>(&self, i: usize, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.of(i))).unwrap();
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let names = (0..self.stations).map(|i| self.of(i)).chain([self.name.clone()]);
        for name in names {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

/// A configuration with lines of `[discovery]`.
pub fn settings(discovery: &str) -> String {
    format!("[discovery]\nheartbeat_ms = {HEARTBEAT_MS}\n{discovery}\n")
}

/// The neighbors in `neighbors/list`.
pub fn neighbours(router: &mut Router) -> Vec<NeighborStatus> {
    let content = router.client.dataset(Dataset::NeighborsList);
    let all = blocks::<NeighborStatus>(&content).map(Result::unwrap);
    all.filter(|n| !matches!(n.state, NeighborState::Own | NeighborState::OwnOpen)).collect()
}

/// A counter of discovery.
pub fn counter(router: &mut Router, label: &str) -> u64 {
    any_counter(router, &format!("discovery.{label}"))
}

/// A counter of the whole router.
pub fn any_counter(router: &mut Router, label: &str) -> u64 {
    let content = router.client.dataset(Dataset::StatusCounters);
    let mut all = blocks::<Counter>(&content).map(Result::unwrap);
    all.find(|counter| counter.label == label && counter.face_id.is_none()).map_or(0, |counter| counter.value)
}

/// A hostile station; an action that fails ends the test.
pub struct Attacker(HostilePeer);

impl Attacker {
    pub fn new() -> Self {
        Self::on("eth0")
    }

    pub fn on(device: &str) -> Self {
        Attacker(HostilePeer::on(device).unwrap())
    }

    /// A hello, well signed.
    pub fn hello(&self, station: &str, mtu: &str, prefix: Option<&str>) -> Vec<u8> {
        self.0.identity.hello(station, mtu, prefix).unwrap()
    }

    /// A reply to a hello, well signed, of this station.
    pub fn reply(&self, hello: &[u8], station: &str) -> Vec<u8> {
        self.0.identity.reply(hello, station).unwrap()
    }

    /// Sends `packet` to all routers, from the address `from`.
    pub fn multicast(&self, from: &str, packet: &[u8]) {
        self.0.multicast(from, packet).unwrap();
    }

    /// Sends `packet` to one station.
    pub fn unicast(&self, to: &str, from: &str, packet: &[u8]) {
        self.0.unicast(to, from, packet).unwrap();
    }

    /// Sends `packet` to one station `count` times.
    pub fn flood(&self, to: &str, from: &str, packet: &[u8], count: usize) {
        self.0.flood(to, from, packet, count).unwrap();
    }

    /// Returns the next `count` packets that `from` multicasts.
    pub fn overhear(&self, from: &str, count: usize) -> Vec<Vec<u8>> {
        let device = &self.0.device;
        let _member = FrameSender::open(device.index, DEFAULT_GROUP, device.address).unwrap();
        let mut ring = Ring::open(device.index, device.mtu, 1 << 20).unwrap();
        let from: MacAddress = from.parse().unwrap();
        let mut packets = Vec::new();
        eventually("it multicasts", || {
            let mut take = |arrived: ReceivedFrame<'_>| {
                if let Ok(frame) = frame::parse(arrived.octets)
                    && frame.source == from
                    && InterestView::parse(frame.packet).is_ok()
                {
                    packets.push(frame.packet.to_vec());
                }
            };
            while ring.receive(&mut take) {}
            packets.len() >= count
        });
        packets
    }
}

//! Two namespaces with a pair of virtual devices between them, and a router with its defaults in
//! each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use namely_testbed::{Interrupt, Net, Outcome, Process, command};
use serde_json::Value;

use super::figures::Figures;
use super::options::{Carrier, Row, Window};
use crate::error::Error;
use crate::files::{Object, expect_same};
use crate::plain;
use crate::probe;
use crate::programs::{Program, READY_LIMIT};

/// The consumer's node, and the producer's.
const NODES: [&str; 2] = ["near", "far"];

/// Their devices and addresses.
const DEVICES: [&str; 2] = ["eth0", "eth0"];
const ADDRESSES: [&str; 2] = ["10.84.0.1", "10.84.0.2"];
const STATIONS: [&str; 2] = ["02:00:00:00:54:01", "02:00:00:00:54:02"];

const PORT: u16 = 6363;
const PLAIN_PORT: u16 = 6000;

/// Prefix of the served object.
const PREFIX: &str = "/links";

/// Maximum time of one fetch.
const FETCH_LIMIT: Duration = Duration::from_secs(180);

/// Everything that a run starts. It ends when dropped: processes before the namespaces.
pub(super) struct Lab<'a> {
    routers: Vec<Process>,
    net: Net,
    row: Row,
    dir: &'a Path,
    client: Program,
    interrupt: &'a Interrupt,
}

impl<'a> Lab<'a> {
    /// Joins two namespaces for one run of `row`. All files are in `dir`.
    pub(super) fn build(row: Row, dir: &'a Path, interrupt: &'a Interrupt) -> Result<Self, Error> {
        let net = Net::new(&NODES).map_err(Error::Usage)?;
        let ends = [0, 1].map(|n| (NODES[n], DEVICES[n], format!("{}/24", ADDRESSES[n])));
        net.join(ends.each_ref().map(|(node, device, address)| (*node, *device, address.as_str())))
            .map_err(Error::Usage)?;
        for n in 0..NODES.len() {
            let set = format!("-n {{{}}} link set {} address {}", NODES[n], DEVICES[n], STATIONS[n]);
            let mtu = row.mtu.map_or(String::new(), |mtu| format!(" mtu {mtu}"));
            net.ip(&(set + &mtu)).map_err(Error::Usage)?;
        }
        let client = Program::find(&["namely"], "NAMELY_BIN_DIR", true);
        let mut lab = Lab { routers: Vec::new(), net, row, dir, client, interrupt };
        let routers = match row.link {
            Carrier::KernelTcp => 0..0,
            Carrier::Unix => 0..1,
            Carrier::Tcp | Carrier::Udp | Carrier::Ether => 0..2,
        };
        for n in routers {
            let router = lab.start_router(n)?;
            lab.routers.push(router);
        }
        Ok(lab)
    }

    fn start_router(&self, n: usize) -> Result<Process, Error> {
        let program = Program::find(&["namelyd"], "NAMELY_BIN_DIR", true);
        if let Some(missing) = program.missing().or_else(|| self.client.missing()) {
            return Err(Error::Usage(missing));
        }
        let socket = self.socket(n);
        let file = self.dir.join(format!("router{n}.toml"));
        fs::write(&file, self.configuration(n))
            .map_err(|e| Error::environment(format!("cannot write {}", file.display()), e))?;
        let mut command = command(program.path(), self.dir);
        command.arg("--config").arg(&file).arg("--only");
        command.args(["--listen", &format!("unix://{}", socket.display())]);
        match self.row.link {
            Carrier::Tcp => command.args(["--listen", &format!("tcp://{}:{PORT}", ADDRESSES[n])]),
            Carrier::Udp => command.args(["--listen", &format!("udp://{}:{PORT}", ADDRESSES[n])]),
            Carrier::Ether => command.args(["--listen", &format!("dev://{}", DEVICES[n])]),
            Carrier::KernelTcp | Carrier::Unix => &mut command,
        };
        let mut router = self.start(&format!("router {n}"), n, command)?;
        probe::wait_for_socket(&socket, READY_LIMIT, self.interrupt)
            .map_err(|e| router.expect_running().err().map_or(e, Error::from))?;
        Ok(router)
    }

    /// Returns the configuration of router `n`: the consumer's router has a route to the
    /// producer's. All else is the default.
    fn configuration(&self, n: usize) -> String {
        let face = match self.row.link {
            Carrier::Tcp => format!("remote = \"tcp://{}:{PORT}\"", ADDRESSES[1]),
            Carrier::Udp => format!("remote = \"udp://{}:{PORT}\"", ADDRESSES[1]),
            Carrier::Ether => {
                format!("remote = \"ether://[{}]\"\nlocal = \"dev://{}\"", STATIONS[1], DEVICES[0])
            }
            Carrier::KernelTcp | Carrier::Unix => return String::new(),
        };
        if n == 0 { format!("[[face]]\n{face}\nroutes = [\"{PREFIX}\"]\n") } else { String::new() }
    }

    fn socket(&self, n: usize) -> PathBuf {
        self.dir.join(format!("router{n}.sock"))
    }

    /// Starts a program in a node's namespace.
    fn start(&self, what: &str, n: usize, command: Command) -> Result<Process, Error> {
        Ok(self.net.enter(NODES[n], || Process::start(what, command, self.dir, None))?)
    }

    /// Returns the command `namely` at router `n`.
    fn namely(&self, n: usize) -> Command {
        let mut command = command(self.client.path(), self.dir);
        command.arg("--router").arg(format!("unix://{}", self.socket(n).display()));
        command
    }

    /// Fetches the object once and compares the copy.
    pub(super) fn measure(&self, object: &Object) -> Result<Figures, Error> {
        let before = self.kernel();
        let mut figures = match self.row.link {
            Carrier::KernelTcp => self.copy(object)?,
            _ => self.fetch(object)?,
        };
        let after = self.kernel();
        figures.kernel_lost = after.0.saturating_sub(before.0) as f64;
        figures.tcp_retransmitted = after.1.saturating_sub(before.1) as f64;
        Ok(figures)
    }

    fn fetch(&self, object: &Object) -> Result<Figures, Error> {
        // The producer is at the last router, the consumer at the first.
        let last = self.routers.len() - 1;
        let mut command = self.namely(last);
        command.arg("serve").arg(&object.dir).args(["--prefix", PREFIX]);
        let producer = self.start("serve", last, command)?;
        let name = format!("{PREFIX}/{}", Object::FILE_NAME);
        probe::versioned_name(&self.socket(0), &name, READY_LIMIT, self.interrupt)?;
        let (output, printed) = (self.dir.join("output"), self.dir.join("printed"));
        let mut command = self.namely(0);
        command.args(["--quiet", "--json", "get", &name, "-o"]).arg(&output);
        if let Window::Fixed(packets) = self.row.window {
            command.args(["--congestion", &format!("fixed:{packets}")]);
            command.args(["--window", &packets.to_string()]);
        }
        let cpu = || [Some(&producer), self.routers.get(last), self.routers.first()].map(cpu_s);
        let before = cpu();
        let start = || Process::start("get", command, self.dir, Some(&printed));
        let outcome = self.net.enter(NODES[0], start)?.wait(FETCH_LIMIT, self.interrupt)?;
        let after = cpu();
        expect_same(&object.path, &output)?;
        let said = fs::read_to_string(&printed).unwrap_or_default();
        let said: Value = serde_json::from_str(said.trim()).unwrap_or_default();
        let mut figures = rate(object, &outcome);
        for (n, (after, before)) in after.into_iter().zip(before).enumerate() {
            // With one router, consumer and producer share it.
            if n < 2 || last > 0 {
                figures.cpu_s_per_gib[n] = Some((after - before) / gib(object));
            }
        }
        figures.retransmissions = said["retransmissions"].as_f64();
        figures.timeouts = said["timeouts"].as_f64();
        figures.marks = said["marks"].as_f64();
        figures.dropped =
            (0..=last).map(|n| self.dropped(n)).sum::<Result<u64, Error>>().ok().map(|n| n as f64);
        Ok(figures)
    }

    /// Copies the same octets by the kernel's TCP from one process to another.
    fn copy(&self, object: &Object) -> Result<Figures, Error> {
        let own = std::env::current_exe().map_err(|e| Error::environment("cannot find this program", e))?;
        let (output, endpoint) = (self.dir.join("output"), format!("tcp://{}:{PLAIN_PORT}", ADDRESSES[1]));
        let unit = (64 << 10).to_string();
        let mut source = command(&own, self.dir);
        source.args(["plain", "source", "--listen", &endpoint, "--unit", &unit, "--file"]).arg(&object.path);
        let ready = self.dir.join("source");
        let start = || Process::start("source", source, self.dir, Some(&ready));
        let mut source = self.net.enter(NODES[1], start)?;
        while !fs::read_to_string(&ready).is_ok_and(|said| said.contains(plain::READY)) {
            source.expect_running()?;
            self.interrupt.sleep(Duration::from_millis(10))?;
        }
        let mut sink = command(&own, self.dir);
        sink.args(["plain", "sink", "--connect", &endpoint, "--unit", &unit, "--output"]).arg(&output);
        let before = cpu_s(Some(&source));
        let outcome = self.start("sink", 0, sink)?.wait(FETCH_LIMIT, self.interrupt)?;
        let after = cpu_s(Some(&source));
        expect_same(&object.path, &output)?;
        let mut figures = rate(object, &outcome);
        figures.cpu_s_per_gib[0] = Some((after - before) / gib(object));
        Ok(figures)
    }

    /// Returns the number of packets dropped at a router's faces.
    fn dropped(&self, n: usize) -> Result<u64, Error> {
        let mut command = self.namely(n);
        command.args(["--json", "status", "--counters"]);
        let output = self.dir.join("counters");
        Process::run("status", command, self.dir, Some(&output), READY_LIMIT, self.interrupt)?;
        Ok(dropped_in(&fs::read_to_string(&output).unwrap_or_default()))
    }

    /// Returns the datagrams for which there was no buffer, and the segments that TCP
    /// retransmitted, in both namespaces.
    fn kernel(&self) -> (u64, u64) {
        let read = |node: &&str| {
            self.net.enter(node, || fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default())
        };
        let both = NODES.iter().map(read).map(|text| {
            let of = |group, field| snmp(&text, group, field).unwrap_or(0);
            (of("Udp:", "RcvbufErrors"), of("Tcp:", "RetransSegs"))
        });
        both.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

fn cpu_s(process: Option<&Process>) -> f64 {
    process.map_or(0.0, |process| process.cpu_time().as_secs_f64())
}

fn gib(object: &Object) -> f64 {
    object.octets as f64 / f64::from(1u32 << 30)
}

fn rate(object: &Object, outcome: &Outcome) -> Figures {
    let consumer_s = outcome.cpu.as_secs_f64() / gib(object);
    Figures {
        goodput_mbps: object.octets as f64 * 8.0 / 1e6 / outcome.elapsed.as_secs_f64(),
        cpu_s_per_gib: [None, None, None, Some(consumer_s)],
        ..Figures::default()
    }
}

/// Returns the sum of a router's counters of drops at its faces.
fn dropped_in(printed: &str) -> u64 {
    let lines = printed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_faces = |line: &Value| {
        line["face_id"].is_null() && line["counter"].as_str().is_some_and(|label| label.starts_with("link."))
    };
    lines.filter(of_faces).filter_map(|line| line["value"].as_u64()).sum()
}

/// Returns a field of `/proc/net/snmp`. A group has a line of headings and a line of values.
fn snmp(text: &str, group: &str, field: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let column = lines.next()?.split_ascii_whitespace().position(|heading| heading == field)?;
    lines.next()?.split_ascii_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_counter_is_found_by_name() {
        let text = "Ip: Forwarding InErrors\nIp: 1 3\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\n\
                    Udp: 5 0 2 7 42\nUdpLite: InDatagrams\nUdpLite: 9\n";
        assert_eq!(snmp(text, "Udp:", "RcvbufErrors"), Some(42));
        assert_eq!(snmp(text, "Tcp:", "RetransSegs"), None);
    }

    #[test]
    fn dropped_packets_count_once() {
        let printed = "{\"counter\":\"link.codel\",\"face_id\":null,\"value\":3}\n\
                       {\"counter\":\"link.codel\",\"face_id\":260,\"value\":3}\n\
                       {\"counter\":\"forwarder.no_route\",\"face_id\":null,\"value\":9}\n\
                       {\"counter\":\"link.queue_full\",\"face_id\":null,\"value\":4}\n";
        assert_eq!(dropped_in(printed), 7);
    }
}

//! The router of `ndise-ping`, its neighbors, and its own reports.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use namely_bench::error::Error;
use namely_bench::probe;
use namely_bench::programs::{Program, READY_LIMIT};
use namely_client::{Client, ClientError};
use namely_messages::VipObject;
use namely_security::Signer;
use namely_testbed::{Interrupt, Process, command};
use namely_wire::Name;
use tempfile::TempDir;

use super::load;
use super::neighbours::{LINK_OCTETS_PER_S, OBJECT_OCTETS, ROUTER, UNANSWERED, neighbour, object};
use super::{NdisePing, Share};
use crate::ndise_routers::key;

/// Octets of the content of a packet.
const SEGMENT_OCTETS: u64 = 100;

/// The object that leaves, and the object that takes its place. The second object has one packet
/// for `NEXT_SHARE` packets of the first. So it needs more than the free memory beside the first.
const BIG: &str = "/big";
const NEXT: &str = "/next";
const NEXT_SHARE: u64 = 16;

/// Number of packets of the second object that exceed the free memory beside the first. The router
/// has room for 5 extra packets for each object that can be in memory at once. Of the smallest
/// size, these are `NEXT_SHARE` objects.
const NEXT_FIRST: u64 = 5 * NEXT_SHARE + 20;

/// Number of neighbors to which routes lead.
const ROUTES: u64 = 4;

/// Interval between two polls of the router's status.
const LOOK: Duration = Duration::from_millis(20);

/// A router, and the neighbors that exchange VIPs with it.
pub(super) struct Router {
    pub(super) uri: String,
    client: Client,
    has_vip: bool,
    process: Process,
    _neighbours: Option<Process>,
    _dir: TempDir,
}

/// The exchange of a router with VIP: counts since its start, or rates per second from `since`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) slots: f64,
    pub(super) counts_heard: f64,
    pub(super) counts_told: f64,
    pub(super) offers_heard: f64,
    /// Objects with counts at the router.
    pub(super) objects: usize,
}

impl Exchange {
    /// The exchange since `before`, per second.
    pub(super) fn since(self, before: &Exchange, length: Duration) -> Exchange {
        let rate = |after: f64, before: f64| (after - before) / length.as_secs_f64();
        Exchange {
            slots: rate(self.slots, before.slots),
            counts_heard: rate(self.counts_heard, before.counts_heard),
            counts_told: rate(self.counts_told, before.counts_told),
            offers_heard: rate(self.offers_heard, before.offers_heard),
            objects: self.objects,
        }
    }
}

impl Router {
    /// Starts the router, with VIP and its neighbors if it has them. Returns once it has received
    /// from all of them.
    pub(super) fn start(options: &NdisePing, has_vip: bool, interrupt: &Interrupt) -> Result<Self, Error> {
        let failed = |what: &'static str| move |e: std::io::Error| Error::environment(what, e);
        let dir = tempfile::tempdir().map_err(failed("cannot make a folder"))?;
        let folder = dir.path();
        let program = Program::find(&["namelyd"], "NAMELY_BIN_DIR", true);
        if let Some(missing) = program.missing() {
            return Err(Error::Usage(missing));
        }
        let ports = free_ports(options.neighbours as usize + 1).map_err(failed("cannot find free ports"))?;
        let (own, ports) = ports.split_first().ok_or_else(|| Error::Usage("no ports".into()))?;
        let keys = folder.join("keys");
        let of_router = key(&keys.join(ROUTER))?;
        let config = configuration(options, folder, ports, has_vip)?;
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text);
        write("namely.toml", &config).map_err(failed("cannot write the configuration"))?;
        write("blocks.tsv", &catalogue(options)).map_err(failed("cannot write the catalogue"))?;
        let socket = folder.join("r.sock");
        let (uri, address) =
            (format!("unix://{}", socket.display()), SocketAddr::from((Ipv4Addr::LOCALHOST, *own)));
        let mut router = command(program.path(), folder);
        router.arg("--config").arg(folder.join("namely.toml")).args(["--only", "--listen", &uri]);
        router.args(["--listen", &format!("udp://{address}")]);
        let mut process = Process::start("namelyd", router, folder, None)?;
        probe::wait_for_socket(&socket, READY_LIMIT, interrupt)
            .map_err(|e| process.expect_running().err().map_or(e, Error::from))?;
        let neighbours = has_vip.then(|| neighbours(options, folder, address, &of_router, ports));
        let client = Client::find(Some(&uri), Signer::digest_sha256()).map_err(refused)?;
        let _neighbours = neighbours.transpose()?;
        let mut router = Router { uri, client, has_vip, process, _neighbours, _dir: dir };
        if has_vip {
            let (neighbours, objects) = (options.neighbours as usize, options.objects as usize);
            router.until("counts of all neighbors and VIPs of all objects arrived", interrupt, |router| {
                let fresh = router.client.vip_neighbours().map_err(refused)?;
                let fresh = fresh.iter().filter(|one| one.fresh_ms.is_some()).count();
                let counts = router.exchange()?.map_or(0, |exchange| exchange.objects);
                Ok(fresh == neighbours && counts >= objects)
            })?;
        }
        Ok(router)
    }

    /// The exchange so far, of a router with VIP.
    pub(super) fn exchange(&mut self) -> Result<Option<Exchange>, Error> {
        if !self.has_vip {
            return Ok(None);
        }
        let Some(status) = self.client.vip_status().map_err(refused)? else { return Ok(None) };
        let objects = self.client.vip_objects().map_err(refused)?;
        let count = |label: &str| {
            let counter = status.counters.iter().find(|counter| counter.label == label);
            counter.map_or(0.0, |counter| counter.value as f64)
        };
        Ok(Some(Exchange {
            slots: count("slots"),
            counts_heard: count("counts_heard"),
            counts_told: count("counts_told"),
            offers_heard: count("offers_heard"),
            objects: objects.iter().filter(|object| object.count > 0).count(),
        }))
    }

    /// Returns the router's CPU time so far.
    pub(super) fn cpu_time(&self) -> Duration {
        self.process.cpu_time()
    }

    /// Fills the store with the first object.
    pub(super) fn fill(&mut self, packets: u64, interrupt: &Interrupt) -> Result<(), Error> {
        // The store does not cache Data that arrives before the router plans for the object.
        load::read(&self.uri, &file(BIG), (packets / 100).max(1), interrupt)?;
        self.until("it is planned for", interrupt, |router| Ok(router.object(BIG)?.tier.is_some()))?;
        load::read(&self.uri, &file(BIG), packets, interrupt)?;
        self.until("it is kept", interrupt, |router| Ok(router.object(BIG)?.held >= packets * SEGMENT_OCTETS))
    }

    /// Makes the router plan for the second object in place of the first. The second object
    /// receives twice the demand. Its Interests are not answered, so no Data arrives that needs
    /// room.
    pub(super) fn displace(&mut self, packets: u64, interrupt: &Interrupt) -> Result<(), Error> {
        load::want(&self.uri, &file(NEXT).join_generic(UNANSWERED), 2 * next_packets(packets))?;
        self.until("the other one is planned for", interrupt, |router| {
            Ok(router.object(NEXT)?.tier.is_some() && router.object(BIG)?.tier.is_none())
        })?;
        let held = self.object(BIG)?.held;
        if held < packets * SEGMENT_OCTETS {
            return Err(Error::Subject(format!("{held} octets were left before any had to leave")));
        }
        Ok(())
    }

    /// Starts the eviction of the first object. It fetches more packets of the second object than
    /// the free memory can hold, so they need the room of the first.
    pub(super) fn begin_leaving(&mut self) -> Result<(), Error> {
        load::read(&self.uri, &file(NEXT), NEXT_FIRST, &Interrupt::default())
    }

    /// Waits until the first object has left the store.
    pub(super) fn expect_left(&mut self, interrupt: &Interrupt) -> Result<(), Error> {
        self.until("the object has left", interrupt, |router| Ok(router.object(BIG)?.held == 0))
    }

    fn object(&mut self, name: &str) -> Result<VipObject, Error> {
        let objects = self.client.vip_objects().map_err(refused)?;
        let object = objects.into_iter().find(|object| object.name == name);
        object.ok_or_else(|| Error::Subject(format!("the router does not know {name}")))
    }

    fn until(
        &mut self,
        what: &str,
        interrupt: &Interrupt,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        while !is_so(self)? {
            self.process.expect_running()?;
            if begun.elapsed() > READY_LIMIT {
                return Err(Error::TimedOut { what: what.to_owned(), after: READY_LIMIT });
            }
            interrupt.sleep(LOOK)?;
        }
        Ok(())
    }
}

fn refused(error: ClientError) -> Error {
    Error::Subject(error.to_string())
}

/// The name of an object's one file.
fn file(object: &str) -> Name {
    Name::new().join_generic("store").join_generic(object.trim_start_matches('/')).join_generic("f")
}

fn next_packets(packets: u64) -> u64 {
    (packets / NEXT_SHARE).max(1)
}

/// The objects that neighbors know, and the two objects that only the router knows. Requests for
/// those two come from this program.
fn catalogue(options: &NdisePing) -> String {
    let block = |name: &str, octets: u64| format!("{name}\t{octets}\n\t{name}/f\t{octets}\n");
    let shared: String = (0..options.objects as usize).map(|k| block(&object(k), OBJECT_OCTETS)).collect();
    let octets = options.packets.max(1) * SEGMENT_OCTETS;
    let own = [block(BIG, octets), block(NEXT, next_packets(options.packets) * SEGMENT_OCTETS)].concat();
    format!("catalogue\t1\n{shared}{own}")
}

fn configuration(options: &NdisePing, folder: &Path, ports: &[u16], has_vip: bool) -> Result<String, Error> {
    let keys = folder.join("keys");
    let mut text = format!("[discovery]\nenabled = false\nkey_chain = \"{}\"\n", keys.join(ROUTER).display());
    if has_vip {
        text += &format!(
            "[vip]\nrouter = \"{ROUTER}\"\ncatalogue = \"{}\"\nprefix = \"/store\"\nperiod_ms = {}\n\
             segment_octets = {SEGMENT_OCTETS}\nmemory = \"{}B\"\n",
            folder.join("blocks.tsv").display(),
            options.period_ms,
            options.packets.max(1) * SEGMENT_OCTETS
        );
    }
    for (n, port) in ports.iter().enumerate() {
        let face = format!("udp4://127.0.0.1:{port}");
        text += &format!("[[face]]\nremote = \"{face}\"\n");
        if (n as u64) < ROUTES {
            text += &format!("[[route]]\nprefix = \"/store\"\nto = \"{face}\"\ncost = {}\n", n + 1);
        }
        if has_vip {
            text += &format!(
                "[[vip.neighbour]]\nface = \"{face}\"\nrouter = \"{}\"\nkey = \"{}\"\n\
                 octets_per_s = {LINK_OCTETS_PER_S}\n",
                neighbour(n),
                key(&keys.join(neighbour(n)))?
            );
        }
    }
    Ok(text)
}

/// Starts the neighbors.
fn neighbours(
    options: &NdisePing,
    folder: &Path,
    router: SocketAddr,
    key: &str,
    ports: &[u16],
) -> Result<Process, Error> {
    let own = std::env::current_exe().map_err(|e| Error::environment("cannot find this program", e))?;
    let policy = match options.neighbours_share {
        Share::Idle => Some("--idle"),
        Share::Other => Some("--other"),
        Share::Same => None,
    };
    let mut command = match policy {
        None => command(&own, folder),
        Some(policy) => {
            let chrt = Program::find(&["chrt"], "CHRT_BIN", false);
            if let Some(missing) = chrt.missing() {
                return Err(Error::Usage(missing));
            }
            let mut command = command(chrt.path(), folder);
            command.args([policy, "0"]).arg(own);
            command
        }
    };
    command.args(["ndise-neighbours", "--key", key]);
    command.args(["--router", &router.to_string()]).arg("--keys").arg(folder.join("keys"));
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    command.args(["--ports", &ports.join(","), "--objects", &options.objects.to_string()]);
    command.args(["--period-ms", &options.period_ms.to_string()]);
    Ok(Process::start("neighbours", command, folder, None)?)
}

/// UDP ports that are free now.
fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let sockets = (0..count).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
    let sockets: Vec<UdpSocket> = sockets.collect::<Result<_, _>>()?;
    sockets.iter().map(|socket| Ok(socket.local_addr()?.port())).collect()
}

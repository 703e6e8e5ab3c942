//! A link with three stations: the router under attack, the router of a producer without neighbor
//! discovery, and a hostile station. The last two have network namespaces of their own.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use namely_testbed::{Interrupt, Net, Process, command};

use super::kind::{Attack, Segment};
use crate::error::Error;
use crate::namespace;
use crate::probe;
use crate::programs::{Program, READY_LIMIT};

/// The device of the router under attack.
pub(super) const DEVICE: &str = "nattack0";

/// The device of each other station.
const OTHER_DEVICE: &str = "eth0";

/// The namespaces: of the bridge, of the producer, of the hostile station.
const NODES: [&str; 3] = ["bridge", "producer", "station"];

const ROUTER_STATION: &str = "02:00:00:00:55:01";
const STATIONS: [&str; 2] = ["02:00:00:00:55:02", "02:00:00:00:55:03"];

/// The addresses of the router under attack and of the hostile station in the link's network.
const ADDRESSES: [&str; 2] = ["10.85.0.1", "10.85.0.3"];

/// The group of Ethernet.
pub(super) const GROUP: &str = "ether://[01:00:5e:00:17:aa]";

/// The group of UDP, and its port.
const UDP_GROUP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(224, 0, 23, 170)), 56363);

/// An address of the hostile station outside the link's network (RFC 5737).
const OUTSIDE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 9)), 6363);

/// The prefix of the producer.
pub(super) const PREFIX: &str = "/beside";

/// Octets of a segment of the producer: one frame carries it.
pub(super) const SEGMENT_OCTETS: usize = 1000;

/// The link. The producer and its router end before the namespaces.
pub(crate) struct Lan {
    producer: Vec<Process>,
    net: Net,
}

impl Lan {
    /// Creates the link if one of `attacks` needs it and this process has a namespace of its own.
    pub(super) fn make(attacks: &[Attack]) -> Result<Option<Self>, Error> {
        if !attacks.iter().any(|attack| attack.is_on_link()) || !namespace::is_own() {
            return Ok(None);
        }
        let net = Net::new(&NODES).map_err(Error::Usage)?;
        let [near, far] = ADDRESSES;
        let own =
            format!("link add {DEVICE} address {ROUTER_STATION} type veth peer name p0 netns {{bridge}}");
        for step in
            ["-n {bridge} link add br0 type bridge mcast_snooping 0", "-n {bridge} link set br0 up", &own]
        {
            net.ip(step).map_err(Error::Usage)?;
        }
        for (number, (node, station)) in NODES[1..].iter().zip(STATIONS).enumerate() {
            let port = number + 1;
            net.ip(&format!(
                "-n {{bridge}} link add p{port} type veth peer name {OTHER_DEVICE} address {station} netns {{{node}}}"
            ))
            .map_err(Error::Usage)?;
            net.ip(&format!("-n {{{node}}} link set {OTHER_DEVICE} up")).map_err(Error::Usage)?;
        }
        for port in 0..NODES.len() {
            net.ip(&format!("-n {{bridge}} link set p{port} master br0 up")).map_err(Error::Usage)?;
        }
        let steps = [
            format!("link set {DEVICE} up"),
            format!("addr add {near}/24 dev {DEVICE}"),
            format!("route add {}/32 dev {DEVICE}", OUTSIDE.ip()),
            format!("-n {{station}} addr add {far}/24 dev {OTHER_DEVICE}"),
            format!("-n {{station}} addr add {}/32 dev {OTHER_DEVICE}", OUTSIDE.ip()),
        ];
        steps.iter().try_for_each(|step| net.ip(step)).map_err(Error::Usage)?;
        Ok(Some(Lan { producer: Vec::new(), net }))
    }

    /// Returns the link as known to the hostile station.
    pub(super) fn segment() -> Segment {
        Segment {
            device: OTHER_DEVICE.to_owned(),
            router: ROUTER_STATION.to_owned(),
            group: UDP_GROUP,
            outside: OUTSIDE,
        }
    }

    /// Returns the lines about the link for the configuration of the router under attack.
    pub(super) fn settings() -> String {
        format!("[[faces.multicast]]\ninterface = \"{DEVICE}\"\ngroup = \"udp://{UDP_GROUP}\"\n")
    }

    /// Returns the endpoints of the link on which that router listens.
    pub(super) fn listens() -> [String; 2] {
        [format!("dev://{DEVICE}"), format!("udp://{}:6363", ADDRESSES[0])]
    }

    /// Starts the producer, which serves the files in `folder`, and its router. Returns when the
    /// router under attack, whose socket is `router`, reaches them through the link.
    pub(super) fn serve(
        &mut self,
        client: &Path,
        router: &Path,
        folder: &Path,
        dir: &Path,
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        let program = Program::find(&["namelyd"], "NAMELY_BIN_DIR", true);
        let (socket, file) = (dir.join("producer.sock"), dir.join("producer.toml"));
        let settings = format!("[[faces.multicast]]\ninterface = \"{OTHER_DEVICE}\"\ngroup = \"{GROUP}\"\n");
        fs::write(&file, settings)
            .map_err(|e| Error::environment(format!("cannot write {}", file.display()), e))?;
        let mut namelyd = command(program.path(), dir);
        namelyd.arg("--config").arg(&file).args(["--only", "--no-discovery"]);
        namelyd.args(["--listen", &format!("unix://{}", socket.display())]);
        namelyd.args(["--listen", &format!("dev://{OTHER_DEVICE}")]);
        let start = || Process::start("producer's router", namelyd, dir, None);
        let started = self.net.enter("producer", start)?;
        self.producer.push(started);
        probe::wait_for_socket(&socket, READY_LIMIT, interrupt)?;
        let mut serve = command(client, dir);
        serve.args(["--router", &format!("unix://{}", socket.display()), "serve"]).arg(folder);
        serve.args(["--prefix", PREFIX, "--segment-size", &SEGMENT_OCTETS.to_string()]);
        // The producer is dropped before its router.
        self.producer.insert(0, Process::start("producer", serve, dir, None)?);
        probe::versioned_name(router, &format!("{PREFIX}/0"), READY_LIMIT, interrupt).map(|_| ())
    }

    /// Runs `work` in the hostile station's namespace; its processes start there too.
    pub(super) fn as_station<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.net.enter("station", work)
    }
}

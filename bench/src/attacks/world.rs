//! The router under attack, and the honest producers at it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use namely_testbed::{Interrupt, Process, command};

use super::kind::{Attack, RouterAddresses};
use super::lan::{self, Lan};
use super::plane::Neighbors;
use super::tree;
use crate::error::Error;
use crate::files::Object;
use crate::probe;
use crate::programs::{Program, READY_LIMIT};
use crate::scenario::Scenario;
use crate::subject::{self, Site, SubjectName, free_ports};

/// Prefix of the served files.
const FILES: &str = "/attacked/files";

/// Prefix below which pings are answered.
pub(crate) const PINGS: &str = "/attacked/pings";

/// Prefix with a route to a neighbor that never answers.
const SILENT: &str = "/attacked/silent";

/// Number of objects that are each fetched once.
const FRESH_OBJECTS: u64 = 1000;

/// Size of each of them, octets.
const FRESH_OCTETS: u64 = 100_000;

/// The folder of the objects that are each fetched once.
const FRESH: &str = "fresh";

/// Number of requested segments per object of the producer on the link.
const BESIDE_SEGMENTS: u64 = 16;

/// Time for which an attacker may exceed its duration. Then it is stopped.
pub(super) const ATTACKER_GRACE: Duration = Duration::from_secs(20);

/// Octets of a segment.
const SEGMENT_OCTETS: u64 = 8192;

/// A router with producers. All of it ends when dropped.
pub(crate) struct World {
    /// The router.
    pub(crate) router: Process,
    /// Its addresses and names.
    pub(crate) addresses: RouterAddresses,
    /// The object that is fetched repeatedly.
    pub(crate) object: Object,
    /// The file of every object that is fetched once.
    pub(crate) fresh: PathBuf,
    /// The neighbors on the virtual plane, if it runs one.
    pub(super) neighbors: Option<Arc<Neighbors>>,
    client: PathBuf,
    dir: PathBuf,
    _producers: [Process; 2],
    _silent: UdpSocket,
    lan: Option<Lan>,
}

/// The settings of the router under attack that differ from its defaults.
pub(crate) struct Setting<'a> {
    /// The attacks. The world has a link and the virtual plane if one of them needs it.
    pub(crate) attacks: &'a [Attack],
    /// Lines of namelyd's configuration file.
    pub(crate) lines: &'a str,
    /// Size of the object that is fetched repeatedly.
    pub(crate) object_octets: u64,
}

impl World {
    /// Starts the router `name` at its default limits, and the producers. All files are in `dir`.
    pub(crate) fn start(
        name: SubjectName,
        setting: &Setting<'_>,
        dir: &Path,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        // Attackers of another user have to reach the router's sockets. Keys and files stay
        // unreadable.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o711))
            .map_err(|e| Error::environment(format!("cannot open {} to others", dir.display()), e))?;
        let client = Program::find(&["namely"], "NAMELY_BIN_DIR", true);
        if let Some(missing) = client.missing() {
            return Err(Error::Usage(missing));
        }
        let [port, websocket_port] = free_ports()?;
        let [liar_port, _] = free_ports()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let is_namely = name == SubjectName::Namely;
        let attacks = if is_namely { setting.attacks } else { &[] };
        let mut lan = Lan::make(attacks)?;
        let neighbors = Neighbors::make(attacks, address)?;
        let mut addresses = RouterAddresses {
            unix: dir.join("router0.sock"),
            memif: is_namely.then(|| dir.join("router0.memif")),
            udp: address,
            tcp: address,
            websocket: is_namely.then(|| SocketAddr::from((Ipv4Addr::LOCALHOST, websocket_port))),
            object: String::new(),
            segments: setting.object_octets.div_ceil(SEGMENT_OCTETS),
            fresh: format!("{FILES}/{FRESH}"),
            fresh_version: String::new(),
            fresh_objects: FRESH_OBJECTS,
            shared: dir.join("shared"),
            outside: dir.join("outside"),
            silent: SILENT.to_owned(),
            segment: lan.as_ref().map(|_| Lan::segment()),
            plane: neighbors.as_ref().map(|neighbors| neighbors.plane.clone()),
            liar: SocketAddr::from((Ipv4Addr::LOCALHOST, liar_port)),
        };
        let router = if is_namely {
            let link = lan.as_ref().map(|_| Lan::settings()).unwrap_or_default();
            let plane = neighbors.as_ref().map_or(Ok(String::new()), |neighbors| neighbors.settings(dir))?;
            start_namelyd(&addresses, &[setting.lines, &link, &plane].concat(), dir, interrupt)?
        } else {
            start_other(name, dir, [port, websocket_port], interrupt)?
        };
        let object = Object::create(&dir.join("files"), 1, setting.object_octets)?;
        let fresh = fresh_objects(&object.dir)?;
        tree::prepare(&object.dir, &addresses.shared, &addresses.outside)?;
        tree::prepare_strange(&object.dir)?;
        let start = |what: &str, arguments: &[&str]| {
            let mut command = command(client.path(), dir);
            command.args(["--router", &format!("unix://{}", addresses.unix.display())]).args(arguments);
            Process::start(what, command, dir, None)
        };
        let folder = object.dir.to_string_lossy();
        let size = SEGMENT_OCTETS.to_string();
        let serve = start("serve", &["serve", &folder, "--prefix", FILES, "--segment-size", &size])?;
        let pings = start("pingserver", &["pingserver", PINGS])?;
        let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(|e| Error::environment("cannot bind a UDP socket", e))?;
        let neighbour = silent.local_addr().map_err(|e| Error::environment("cannot read an address", e))?;
        start("route add", &["route", "add", SILENT, &format!("udp://{neighbour}")])?
            .wait(READY_LIMIT, interrupt)?;
        let versioned = |name: String| probe::versioned_name(&addresses.unix, &name, READY_LIMIT, interrupt);
        let object_name = versioned(format!("{FILES}/{}", Object::FILE_NAME))?.to_string();
        let fresh_name = versioned(format!("{}/0", addresses.fresh))?.to_string();
        addresses.object = object_name;
        addresses.fresh_version = fresh_name.rsplit('/').next().unwrap_or_default().to_owned();
        probe::wait_for_answer(&addresses.unix, &format!("{PINGS}/ping/ready"), READY_LIMIT, interrupt)?;
        if let Some(lan) = &mut lan {
            lan.serve(client.path(), &addresses.unix, &object.dir.join(FRESH), dir, interrupt)?;
        }
        let (client, dir, neighbors) =
            (client.path().to_path_buf(), dir.to_path_buf(), neighbors.map(Arc::new));
        let producers = [serve, pings];
        let mut world = World {
            router,
            addresses,
            object,
            fresh,
            neighbors,
            client,
            dir,
            _producers: producers,
            _silent: silent,
            lan,
        };
        world.learn_objects(interrupt);
        Ok(world)
    }

    /// Returns `namely` at the router, reached by `link`.
    pub(crate) fn namely(&self, link: Link) -> Namely {
        let router = match link {
            Link::Unix => format!("unix://{}", self.addresses.unix.display()),
            Link::Udp => format!("udp://{}", self.addresses.udp),
            Link::Memif => {
                let path = self.addresses.memif.as_deref().unwrap_or(&self.addresses.unix);
                format!("memif://{}", path.display())
            }
        };
        Namely { client: self.client.clone(), dir: self.dir.clone(), router }
    }

    /// Returns `namely` at another router.
    pub(super) fn at(&self, router: String) -> Namely {
        Namely { router, ..self.namely(Link::Unix) }
    }

    /// Reads the objects of the virtual plane, which attackers know, too.
    fn learn_objects(&mut self, interrupt: &Interrupt) {
        let namely = self.namely(Link::Unix);
        let Some(plane) = &mut self.addresses.plane else { return };
        let output = self.dir.join("objects");
        let printed = namely.query(&["--json", "vip", "objects"], &output, ATTACKER_GRACE, interrupt);
        let lines = printed.unwrap_or_default();
        let values = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        plane.objects =
            values.filter_map(|object| u64::from_str_radix(object["id"].as_str()?, 16).ok()).collect();
    }

    /// Runs `work` at the location of the attackers of `attack`: on the link, or on this machine.
    pub(super) fn as_attacker<T: Send>(&self, attack: Attack, work: impl FnOnce() -> T + Send) -> T {
        match &self.lan {
            Some(lan) if attack.is_on_link() => lan.as_station(work),
            _ => work(),
        }
    }

    /// Returns the producer beside the attackers on the link, if there is one: the names of its
    /// segments in order, and the octets of each.
    pub(super) fn beside(&self) -> Option<Producer> {
        self.lan.as_ref()?;
        Some(Producer { version: self.addresses.fresh_version.clone(), file: fs::read(&self.fresh).ok()? })
    }

    /// Returns the name of the folder of files with escape sequences in their names.
    pub(super) fn strange(&self) -> String {
        format!("{FILES}/{}", tree::STRANGE)
    }

    /// Returns the name of a tree of a few files.
    pub(super) fn tree(&self) -> String {
        format!("{FILES}/{}", tree::TREE)
    }

    /// Returns the name of the object without its version, and the names of the objects that are
    /// fetched once.
    pub(crate) fn names(&self) -> (String, impl Iterator<Item = String> + Clone + use<>) {
        let fresh = self.addresses.fresh.clone();
        // The first has been requested already.
        let once = (1..FRESH_OBJECTS).map(move |n| format!("{fresh}/{n}"));
        (format!("{FILES}/{}", Object::FILE_NAME), once)
    }
}

/// The producer on the link. All its objects have the same content.
pub(super) struct Producer {
    version: String,
    file: Vec<u8>,
}

impl Producer {
    /// Returns the name and the content of segment `number`, of successive objects. Few segments of
    /// each object are requested. So the router searches for a producer often, but below the rate
    /// limit of a face.
    pub(super) fn segment(&self, number: u64) -> (String, &[u8]) {
        let (object, segment) = (number / BESIDE_SEGMENTS % FRESH_OBJECTS, number % BESIDE_SEGMENTS);
        let name = format!("{}/{object}/{}/seg={segment}", lan::PREFIX, self.version);
        let begin = segment as usize * lan::SEGMENT_OCTETS;
        (name, &self.file[begin..begin + lan::SEGMENT_OCTETS])
    }
}

/// The client's connection to the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Unix,
    Udp,
    Memif,
}

/// The client command.
#[derive(Clone, Debug)]
pub(crate) struct Namely {
    client: PathBuf,
    dir: PathBuf,
    router: String,
}

impl Namely {
    /// Runs it to its end. It must succeed within `limit`. The error has the text of its log.
    pub(crate) fn run(
        &self,
        arguments: &[&str],
        output: Option<&Path>,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Result<(), Error> {
        let mut command: Command = command(&self.client, &self.dir);
        command.args(["--router", &self.router]).args(arguments);
        let process = Process::start(arguments[0], command, &self.dir, output)?;
        let log = process.log().to_path_buf();
        let result = process.wait(limit, interrupt);
        // There are thousands of logs per hour.
        let _ = fs::remove_file(log);
        Ok(result.map(|_| ())?)
    }

    /// Returns its output, if it succeeds within `limit`. The file `output` holds the output, too.
    pub(crate) fn query(
        &self,
        arguments: &[&str],
        output: &Path,
        limit: Duration,
        interrupt: &Interrupt,
    ) -> Option<String> {
        self.run(arguments, Some(output), limit, interrupt).ok()?;
        fs::read_to_string(output).ok()
    }

    /// Returns its output on both streams, whether it succeeds or not.
    pub(super) fn output_of(&self, arguments: &[&str], limit: Duration, interrupt: &Interrupt) -> String {
        let mut command: Command = command(&self.client, &self.dir);
        command.args(["--router", &self.router]).args(arguments);
        let output = self.dir.join("told");
        let Ok(process) = Process::start(arguments[0], command, &self.dir, Some(&output)) else {
            return String::new();
        };
        let log = process.log().to_path_buf();
        let _ = process.wait(limit, interrupt);
        let parts = [&output, &log].map(|path| fs::read(path).unwrap_or_default());
        let _ = fs::remove_file(log);
        String::from_utf8_lossy(&parts.concat()).into_owned()
    }

    /// Returns its working directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Starts `namelyd` with only these settings and its listeners.
fn start_namelyd(
    addresses: &RouterAddresses,
    settings: &str,
    dir: &Path,
    interrupt: &Interrupt,
) -> Result<Process, Error> {
    let program = Program::find(&["namelyd"], "NAMELY_BIN_DIR", true);
    if let Some(missing) = program.missing() {
        return Err(Error::Usage(missing));
    }
    let mut listen = vec![
        format!("unix://{}", addresses.unix.display()),
        format!("udp://{}", addresses.udp),
        format!("tcp://{}", addresses.tcp),
    ];
    listen.extend(addresses.memif.iter().map(|path| format!("memif://{}", path.display())));
    listen.extend(addresses.segment.iter().flat_map(|_| Lan::listens()));
    listen.extend(addresses.websocket.iter().map(|address| format!("ws://{address}")));
    let mut command = command(program.path(), dir);
    let configuration = dir.join("namelyd.toml");
    fs::write(&configuration, settings)
        .map_err(|e| Error::environment(format!("cannot write {}", configuration.display()), e))?;
    command.arg("--config").arg(&configuration);
    for uri in &listen {
        command.args(["--listen", uri]);
    }
    let mut router = Process::start("namelyd", command, dir, None)?;
    probe::wait_for_socket(&addresses.unix, READY_LIMIT, interrupt)
        .map_err(|e| router.expect_running().err().map_or(e, Error::from))?;
    Ok(router)
}

/// Starts another router as `compare` does: its defaults, except for its listeners and the capacity
/// of its content store, which equals NFD's default.
fn start_other(
    name: SubjectName,
    dir: &Path,
    ports: [u16; 2],
    interrupt: &Interrupt,
) -> Result<Process, Error> {
    let subjects = subject::subjects(name);
    let subject = subjects.first().ok_or_else(|| Error::Usage("no such router".to_owned()))?;
    let site = Site { dir, scenario: Scenario::Unix8000, object: None, ports, interrupt };
    let network = subject.start(&site)?;
    network.routers.into_iter().next().ok_or_else(|| Error::Subject("no router was started".to_owned()))
}

/// Creates many names for one file. Each is an object of its own to a consumer.
fn fresh_objects(dir: &Path) -> Result<PathBuf, Error> {
    let source = Object::create(dir, 2, FRESH_OCTETS)?;
    let folder = dir.join(FRESH);
    let link_all = || {
        fs::create_dir(&folder)?;
        (0..FRESH_OBJECTS).try_for_each(|n| fs::hard_link(&source.path, folder.join(n.to_string())))
    };
    link_all().map_err(|e| Error::environment(format!("cannot make names in {}", folder.display()), e))?;
    Ok(source.path)
}

/// Returns the maximum of a router's values of this counter in the JSON output of `namely status
/// --counters`.
pub(super) fn most_of(printed: &str, counter: &str) -> Option<f64> {
    let lines = printed.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let is_it = |label: &str| label.rsplit('.').next() == Some(counter);
    let of_workers = lines.filter(|line| line["counter"].as_str().is_some_and(is_it));
    of_workers.filter_map(|line| line["value"].as_f64()).max_by(f64::total_cmp)
}

/// Returns a counter of the whole router in the JSON of `namely status --counters`.
pub(super) fn counter_in(printed: &[serde_json::Value], label: &str) -> Option<u64> {
    let is_it = |line: &&serde_json::Value| line["counter"] == label && line["face_id"].is_null();
    printed.iter().find(is_it)?["value"].as_u64()
}

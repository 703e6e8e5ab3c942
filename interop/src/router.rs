//! Routers: `namelyd`, NFD and NDNd, each on sockets of its own in one test's world.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use namely_testkit::{free_port, wait_until_true};

use crate::running::Running;
use crate::world::{World, program, text};

/// Number of attempts to start a router: another process may have bound the port since it was found
/// free.
const STARTS: usize = 3;

/// The kind of connection to a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A Unix socket.
    Unix,
    /// Shared memory. `namelyd` only.
    Memif,
    /// TCP on 127.0.0.1.
    Tcp,
    /// UDP on 127.0.0.1, which routers treat as not local. `namelyd` identifies the user if it is
    /// configured to.
    Udp,
    /// WebSocket on 127.0.0.1, which routers treat as not local. `namelyd` only.
    WebSocket,
}

/// A running router; ended when dropped.
#[derive(Debug)]
pub struct Router {
    process: Running,
    socket: PathBuf,
    port: u16,
    websocket_port: u16,
}

impl Router {
    /// Starts `namelyd` with a Unix socket, shared memory, TCP, UDP and WebSocket. Owners of the
    /// keys of `certificates` may register any prefix and manage. Users of the Unix socket may
    /// register any prefix, as by default.
    pub fn namelyd(world: &World, certificates: &[&Path]) -> Self {
        Self::namelyd_everywhere(world, "", &authorization(certificates))
    }

    /// Starts `namelyd` likewise, without a limit for sending to UDP addresses. The programs of a
    /// test have one address, and a shared limit would drop packets when several start together.
    pub fn namelyd_without_udp_limits(world: &World, certificates: &[&Path]) -> Self {
        let faces = "unproven_address_mbit_s = 0\nunproven_total_mbit_s = 0\n";
        Self::namelyd_everywhere(world, faces, &authorization(certificates))
    }

    /// Starts `namelyd` likewise, with this limit for sending to a UDP address that has not proven
    /// that it receives.
    pub fn namelyd_limiting_udp(world: &World, mbit_s: u32) -> Self {
        let faces = format!("unproven_address_mbit_s = {mbit_s}\n");
        Self::namelyd_everywhere(world, &faces, &authorization(&[]))
    }

    /// Starts `namelyd` likewise. Its users manage it over TCP and UDP of loopback, too.
    pub fn namelyd_managed_over_loopback(world: &World) -> Self {
        Self::namelyd_everywhere(world, "", &(authorization(&[]) + "loopback = \"manage\"\n"))
    }

    /// Starts `namelyd` with all links of a host, further lines of the section `faces`, and further
    /// sections.
    fn namelyd_everywhere(world: &World, faces: &str, sections: &str) -> Self {
        let socket = world.path("namely.sock");
        start(
            |ports| {
                let config = world.path("namely.toml");
                std::fs::write(&config, all_links(&socket, ports) + faces + sections)
                    .expect("a file in the temporary directory");
                let mut command = world.command(program("namelyd"));
                command.arg("--config").arg(config);
                (command, socket.clone())
            },
            world,
        )
    }

    /// Starts NFD with a Unix socket, if it is installed (on the PATH, or at NFD_BIN).
    pub fn nfd(world: &World) -> Result<Self, String> {
        let nfd = find_router("nfd", "NFD_BIN")?;
        let socket = world.path("nfd.sock");
        let config = world.path("nfd.conf");
        Ok(start(
            |[port, _]| {
                let text =
                    NFD_CONFIGURATION.replace("SOCKET", text(&socket)).replace("PORT", &port.to_string());
                std::fs::write(&config, text).expect("a file in the temporary directory");
                let mut command = world.command(&nfd);
                command.arg("--config").arg(&config);
                (command, socket.clone())
            },
            world,
        ))
    }

    /// Starts `namelyd` in a network namespace, with a Unix socket, and Ethernet on a device:
    /// unicast, and NFD's group. Owners of the keys of `certificates` may register any prefix and
    /// manage. If `xdp` is set, AF_XDP reads the device.
    pub fn namelyd_on_ethernet(
        world: &World,
        namespace: &str,
        device: &str,
        certificates: &[&Path],
        xdp: &str,
    ) -> Self {
        let group = format!(
            "[faces.ethernet]\nxdp = \"{xdp}\"\n\
             [[faces.multicast]]\ninterface = \"{device}\"\ngroup = \"ether://[{ETHER_GROUP}]\"\n"
        );
        // Self-learning would flood Interests without a route. These tests need the router to
        // refuse them.
        let more = group + "[discovery]\nenabled = false\n" + &authorization(certificates);
        Self::namelyd_listening(world, Some(namespace), &format!("dev://{device}"), &more)
    }

    /// Starts `namelyd` in a network namespace, with a Unix socket, and UDP on all its addresses.
    /// Owners of the keys of `certificates` may register any prefix and manage.
    pub fn namelyd_on_udp(world: &World, namespace: &str, certificates: &[&Path]) -> Self {
        let more = authorization(certificates);
        Self::namelyd_listening(world, Some(namespace), "udp://0.0.0.0:6363", &more)
    }

    /// Starts `namelyd` with a Unix socket, and with further lines of configuration.
    pub fn namelyd_with(world: &World, more: &str) -> Self {
        Self::namelyd_listening(world, None, "tcp://127.0.0.1:0", more)
    }

    /// Starts `namelyd` with a Unix socket and shared memory. Returns the path of the latter's
    /// control socket, too.
    pub fn namelyd_with_memif(world: &World) -> (Self, PathBuf) {
        let memif = world.path("namely.memif");
        let router = Self::namelyd_listening(world, None, &format!("memif://{}", memif.display()), "");
        (router, memif)
    }

    fn namelyd_listening(world: &World, namespace: Option<&str>, uri: &str, more: &str) -> Self {
        let (socket, config) = (world.path("namely.sock"), world.path("namely.toml"));
        let text = format!("[faces]\nlisten = [\"unix://{}\", \"{uri}\"]\n{more}", socket.display());
        std::fs::write(&config, text).expect("a file in the temporary directory");
        let start_one = |_| {
            let namelyd = program("namelyd");
            let mut command = match namespace {
                Some(namespace) => in_namespace(world, namespace, &namelyd),
                None => world.command(namelyd),
            };
            command.arg("--config").arg(&config);
            (command, socket.clone())
        };
        start(start_one, world)
    }

    /// Starts `namelyd` in a network namespace, with a Unix socket, a listener at `uri`, and
    /// further lines of configuration.
    pub fn namelyd_on_link(world: &World, namespace: &str, uri: &str, more: &str) -> Self {
        Self::namelyd_listening(world, Some(namespace), uri, more)
    }

    /// Starts NFD likewise with Ethernet, if it is installed and was built with libpcap.
    pub fn nfd_on_ethernet(world: &World, namespace: &str) -> Result<Self, String> {
        Self::nfd_on_link(world, namespace, &ethernet_of_nfd(), "best-route")
    }

    /// Starts NFD in a network namespace, with a Unix socket, a section of its `face_system`, and
    /// its strategy for `/`. Returns an error only if NFD is missing or was built without libpcap.
    /// If it does not start for another reason, the test fails.
    pub fn nfd_on_link(world: &World, namespace: &str, faces: &str, strategy: &str) -> Result<Self, String> {
        let nfd = find_router("nfd", "NFD_BIN")?;
        let socket = world.path("nfd.sock");
        let config = world.path("nfd.conf");
        let configuration = NFD_CONFIGURATION
            .replace("SOCKET", text(&socket))
            .replace("udp { listen no mcast no port PORT }", faces)
            .replace(
                "strategy/best-route\n    /localhost ",
                &format!("strategy/{strategy}\n    /localhost "),
            );
        std::fs::write(&config, configuration).expect("a file in the temporary directory");
        let mut command = in_namespace(world, namespace, &nfd);
        command.arg("--config").arg(&config);
        let mut process = Running::start("nfd", command, world.dir());
        if listens(&mut process, &socket) {
            return Ok(Router { process, socket, port: 0, websocket_port: 0 });
        }
        let said = process.errors_text();
        // `Unrecognized option face_system.ether`.
        assert!(said.contains("face_system.ether"), "NFD does not start: {said}");
        Err(format!("this NFD was built without libpcap: {}", said.trim()))
    }

    /// Starts NDNd with a Unix socket, if it is installed (on the PATH, or at NDND_BIN). It always
    /// listens on all addresses, so it runs in a network namespace of its own.
    pub fn ndnd(world: &World) -> Result<Self, String> {
        let ndnd = find_router("ndnd", "NDND_BIN")?;
        let isolation = isolation()?;
        let socket = world.path("ndnd.sock");
        let config = world.path("ndnd.yml");
        std::fs::write(&config, NDND_CONFIGURATION.replace("SOCKET", text(&socket)))
            .expect("a file in the temporary directory");
        Ok(start(
            |_| {
                let mut command = world.command("unshare");
                command.args(isolation).args(["/bin/sh", "-c", LOOPBACK_UP, "sh"]);
                command.arg(&ndnd).args(["fw", "run"]).arg(&config);
                (command, socket.clone())
            },
            world,
        ))
    }

    /// Returns the router's URI over `link`. NFD and NDNd have a Unix socket only.
    pub fn uri(&self, link: Link) -> String {
        match link {
            Link::Unix => format!("unix://{}", self.socket.display()),
            Link::Memif => format!("memif://{}", self.socket.with_extension("memif").display()),
            Link::Tcp => format!("tcp://127.0.0.1:{}", self.port),
            Link::Udp => format!("udp://127.0.0.1:{}", self.port),
            Link::WebSocket => format!("ws://127.0.0.1:{}", self.websocket_port),
        }
    }

    /// Ends the router with SIGTERM and returns whether it ended cleanly by itself.
    pub fn stop(mut self) -> bool {
        self.process.stop().is_some_and(|status| status.success())
    }

    /// Returns the log of the router so far.
    pub fn log(&self) -> String {
        self.process.errors_text()
    }
}

fn start(command: impl Fn([u16; 2]) -> (Command, PathBuf), world: &World) -> Router {
    let mut said = String::new();
    for _ in 0..STARTS {
        let [port, websocket_port] = [free_port(), free_port()];
        let (command, socket) = command([port, websocket_port]);
        let mut process = Running::start("router", command, world.dir());
        if listens(&mut process, &socket) {
            return Router { process, socket, port, websocket_port };
        }
        said = process.errors_text();
    }
    panic!("the router does not listen; it said: {said}");
}

fn listens(process: &mut Running, socket: &Path) -> bool {
    let mut listens = false;
    wait_until_true(|| {
        listens = UnixStream::connect(socket).is_ok();
        listens || !process.is_running()
    });
    listens
}

/// Returns the section `faces` with a listener of each kind.
fn all_links(socket: &Path, [port, websocket_port]: [u16; 2]) -> String {
    format!(
        "[faces]\nlisten = [\"unix://{}\", \"memif://{}\", \"tcp://127.0.0.1:{port}\", \"udp://127.0.0.1:{port}\", \
         \"ws://127.0.0.1:{websocket_port}\"]\n",
        socket.display(),
        socket.with_extension("memif").display()
    )
}

fn authorization(certificates: &[&Path]) -> String {
    let mut text = String::from("[authorization]\nlocalhop_rib = true\nloopback_udp = true\n");
    for certificate in certificates {
        text += &format!(
            "[[authorization.key]]\ncertificate = \"{}\"\nregister = [\"/\"]\nmanage = true\n",
            certificate.display()
        );
    }
    text
}

/// Returns the router named by an environment variable, or found by [`find_tool`].
pub fn find_router(name: &str, variable: &str) -> Result<PathBuf, String> {
    match std::env::var_os(variable).map(PathBuf::from) {
        Some(path) if path.is_file() => Ok(path),
        Some(path) => Err(format!("{variable}={} is no file", path.display())),
        None => find_tool(name),
    }
}

/// Returns a third-party program from the folder named by NDN_TOOLS_DIR or from the PATH.
pub fn find_tool(name: &str) -> Result<PathBuf, String> {
    let folder = std::env::var_os("NDN_TOOLS_DIR").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    folder
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("{name} not found (on the PATH or in NDN_TOOLS_DIR)"))
}

/// Returns a command in a network namespace of `ip netns`.
fn in_namespace(world: &World, namespace: &str, program: &Path) -> Command {
    let mut command = world.command("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

/// Returns the options of `unshare` by which this user may have a network namespace.
fn isolation() -> Result<&'static [&'static str], String> {
    let works = |options: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(options).args(["/bin/sh", "-c", LOOPBACK_UP, "sh", "true"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    [&["--net"][..], &["--user", "--map-root-user", "--net"][..]]
        .into_iter()
        .find(|options| works(options))
        .ok_or_else(|| "no network namespace for NDNd, which listens on every address".to_owned())
}

/// In a new network namespace: enables the loopback interface, then runs the arguments.
const LOOPBACK_UP: &str = "ip link set lo up && exec \"$@\"";

/// NFD's group on Ethernet.
pub const ETHER_GROUP: &str = "01:00:5e:00:17:aa";

/// NFD's group over UDP.
pub const UDP_GROUP: &str = "224.0.23.170:56363";

/// Returns NFD's `face_system` section for Ethernet: unicast and the group, on each device.
pub fn ethernet_of_nfd() -> String {
    format!("ether {{ listen yes mcast yes mcast_group {ETHER_GROUP} }}")
}

/// Any local application may do everything, because the tests are about namely's tools.
const NFD_CONFIGURATION: &str = "\
log { default_level WARN }
tables {
  cs_max_packets 1000
  strategy_choice {
    / /localhost/nfd/strategy/best-route
    /localhost /localhost/nfd/strategy/multicast
    /localhost/nfd /localhost/nfd/strategy/best-route
  }
}
face_system { unix { path SOCKET } udp { listen no mcast no port PORT } }
authorizations {
  authorize {
    certfile any
    privileges {
      faces
      fib
      cs
      strategy-choice
    }
  }
}
rib {
  localhost_security { trust-anchor { type any } }
  prefix_announcement_validation { trust-anchor { type any } }
}
";

const NDND_CONFIGURATION: &str = "\
core: { log_level: WARN }
faces:
  udp: { enabled_multicast: false }
  tcp: { enabled: false }
  unix: { enabled: true, socket_path: SOCKET }
  websocket: { enabled: false }
  http3: { enabled: false }
fw: { threads: 1 }
tables:
  rib: { readvertise_nlsr: false }
";

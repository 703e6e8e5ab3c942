//! A running router: the data plane, the control thread, and what they share.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use namely_host::disk::Folder;
use namely_io::ethernet::DEFAULT_GROUP;
use namely_mgmt::{Now, Policy};
use namely_transport::memif_beside;
use namely_wire::mgmt::Scope;
use namely_wire::{FaceUri, MacAddress};

use crate::config::{Config, default_listeners, default_socket};
use crate::control::{ControlThread, Order, OrderSender, Reload, management};
use crate::disk::Disk;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::kernel::{self, Kernel, Opened};
use crate::key::RouterKey;
use crate::service::GivenSocket;
use crate::services::{self, Services, Start};
use crate::taken::TakenFile;
use crate::threads::start_beside;
use namely_dataplane::{Core, DataPlane, DataPlaneOptions, ListenSpec, MulticastOptions, spill};

/// How long a router that was told to stop has for that. A service manager that gives it less kills
/// it.
const STOP_MAX: Duration = Duration::from_millis(900);

/// How much of that is for what the content store has in memory and its disk is to have.
const SPILL_MAX: Duration = Duration::from_millis(400);

/// A running router. Dropping it stops it.
pub struct Router {
    orders: OrderSender,
    control: Option<JoinHandle<()>>,
    home: Home,
    /// The content store's disk, where it has one, to which it is spilled at the end.
    disk: Option<Arc<Disk>>,
    services: Services,
    listening: Vec<FaceUri>,
}

impl Router {
    /// Starts a router. When this returns, it listens.
    ///
    /// # Errors
    /// [`Failure`] says what is wrong and with which exit status a program should end.
    pub fn start(config: Config) -> Result<Router, Failure> {
        Self::start_with(config, || {})
    }

    /// Starts a router that calls `ended` when it no longer runs: it was stopped, or it cannot go
    /// on.
    ///
    /// # Errors
    /// As [`Router::start`].
    pub fn start_with(config: Config, ended: impl FnOnce() + Send + 'static) -> Result<Router, Failure> {
        let key = RouterKey::read(&config)?;
        Self::start_keyed(config, key, None, Vec::new(), ended)
    }

    /// The same with the key that was read before, the file of commands that were taken, and
    /// sockets that listen already.
    pub(crate) fn start_keyed(
        config: Config,
        key: RouterKey,
        taken: Option<TakenFile>,
        given: Vec<GivenSocket>,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Router, Failure> {
        Self::start_services(services::list::all(), config, key, taken, given, ended)
    }

    /// The same with these services.
    pub(crate) fn start_services(
        services: Services,
        config: Config,
        key: RouterKey,
        taken: Option<TakenFile>,
        given: Vec<GivenSocket>,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Router, Failure> {
        // Before anybody can connect: whoever signs a command then signs it after the start.
        let time = crate::control::now();
        let policy = policy(&config)?;
        let opened = Opened::of(&config)?;
        let core: Arc<Core> = Arc::new(config.forwarder(seed()?).map_err(wrong_configuration)?);
        let disk = Disk::open(&config.cs.disk)?;
        let (plane, inbox) =
            DataPlane::start_with(options(&config), core.clone(), disk.as_deref().map(Disk::shared))
                .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        route_management(&config, &core, &plane)?;
        plane.explain_to_network(config.authorization.explain_to_network);
        let plane = Arc::new(plane);
        let kernel = opened.map(|opened| opened.join(&config, &plane, &core)).transpose()?.map(Arc::new);
        let (orders, received) = OrderSender::new(&inbox);
        // From here on a failure drops `router`, which stops every part that has started.
        let mut router = Router {
            orders: orders.clone(),
            control: None,
            home: Home { plane, core, kernel },
            disk,
            services,
            listening: Vec::new(),
        };
        router.listening = router.begin(&config, &key, given, time)?;
        let (home, services) = (router.home.clone(), router.services.clone());
        let mut control =
            ControlThread::new(home, services, inbox, orders, received, config, management(policy, time));
        if let Some(taken) = taken {
            control.keep_taken(taken, time);
        }
        let thread = start_beside("namely-control", move || {
            let _ended = Ended(Some(ended));
            control.run();
        })
        .map_err(|error| Failure::new(Exit::Failed, format!("no control thread: {error}")))?;
        router.control = Some(thread);
        Ok(router)
    }

    /// Starts services and listens; returns the addresses.
    fn begin(
        &self,
        config: &Config,
        key: &RouterKey,
        given: Vec<GivenSocket>,
        time: Now,
    ) -> Result<Vec<FaceUri>, Failure> {
        let Router { home, orders, services, .. } = self;
        let start = Start { config, home, disk: self.disk.as_ref(), key, orders, services, time };
        services.iter().try_for_each(|service| service.prepare(&start))?;
        let listening = listen(config, home, given)?;
        services.iter().try_for_each(|service| service.start(&start))?;
        Ok(listening)
    }

    /// What is wrong with a configuration beyond its form: limits, strategies, users, certificates.
    ///
    /// # Errors
    /// [`Failure`] names the key.
    pub fn check(config: &Config) -> Result<(), Failure> {
        policy(config)?;
        kernel::check(config).map_err(wrong_configuration)?;
        let services = services::list::all();
        services.iter().try_for_each(|service| service.check(config)).map_err(wrong_configuration)?;
        let core: Result<Core, String> = config.forwarder(0);
        core.map(drop).map_err(wrong_configuration)
    }

    /// The addresses on which it listens, with the ports that were given where 0 was asked for.
    pub fn listening(&self) -> &[FaceUri] {
        &self.listening
    }

    /// Where metrics are served, if they are, with the port that was given where 0 was asked for.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.services.iter().find_map(|service| service.address())
    }

    /// Switches to another configuration, as far as that is possible without a restart.
    ///
    /// # Errors
    /// When the configuration is wrong; the present one then stays in force.
    pub fn reload(&self, config: Config) -> Result<(), Failure> {
        let policy = policy(&config)?;
        let core: Result<Core, String> = config.forwarder(0);
        core.map(drop).map_err(wrong_configuration)?;
        self.services.iter().try_for_each(|service| service.check(&config)).map_err(wrong_configuration)?;
        self.orders.send(Order::Reload(Box::new(Reload { config, policy })));
        Ok(())
    }

    /// Returns true if both threads, the control thread and the data plane, answer within
    /// `patience`.
    pub fn is_well(&self, patience: Duration) -> bool {
        self.health().is_well(patience)
    }

    /// What tells whether the router is well, from any thread.
    pub(crate) fn health(&self) -> Health {
        Health(self.orders.clone())
    }

    /// Stops: sockets are closed and removed.
    pub fn stop(mut self) {
        self.halt();
    }

    /// Stops within [`STOP_MAX`]. False if threads were left behind that had not ended then, which
    /// only the end of the process ends.
    pub(crate) fn stop_in_time(self) -> bool {
        let (ended, is_ended) = sync_channel(1);
        // Without a thread there is nobody to look at the clock.
        let stopping = std::thread::Builder::new().name("namely-stop".into()).spawn(move || {
            self.stop();
            ended.send(()).ok();
        });
        stopping.is_ok() && is_ended.recv_timeout(STOP_MAX).is_ok()
    }

    fn halt(&mut self) {
        self.services.stop();
        self.orders.send(Order::Stop);
        // The control thread may be waiting for a worker.
        self.home.plane.request_stop();
        if let Some(control) = self.control.take()
            && control.join().is_err()
        {
            tracing::error!("the control thread ended by a panic");
        }
        if let Some(kernel) = &self.home.kernel {
            kernel.leave();
        }
        self.home.plane.stop();
        if let Some(disk) = self.disk.take() {
            spill(&self.home.core, disk.shared(), SPILL_MAX);
            // The list holds the disk, and so would keep it open.
            self.services = Services::default();
            disk.close();
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Whether a router is well.
pub(crate) struct Health(OrderSender);

impl Health {
    /// As [`Router::is_well`].
    pub(crate) fn is_well(&self, patience: Duration) -> bool {
        crate::service::is_answered(patience, |answer| self.0.send(Order::Answer(answer)))
    }
}

/// Signals that the control thread has ended, however it did.
struct Ended<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Ended<F> {
    fn drop(&mut self) {
        if let Some(ended) = self.0.take() {
            ended();
        }
    }
}

fn policy(config: &Config) -> Result<Policy, Failure> {
    config.authorization.policy().map_err(|error| Failure::new(Exit::Configuration, error.to_string()))
}

fn wrong_configuration(why: String) -> Failure {
    Failure::new(Exit::Configuration, why)
}

/// The secret that keys the name hashes.
fn seed() -> Result<u128, Failure> {
    let octets = namely_host::random().map_err(|errno| {
        Failure::new(Exit::Failed, format!("the system gives no random numbers: {errno}"))
    })?;
    Ok(u128::from_ne_bytes(octets))
}

fn options(config: &Config) -> DataPlaneOptions {
    let workers = std::num::NonZeroUsize::new(config.faces.workers);
    let mut options = DataPlaneOptions { workers, ..DataPlaneOptions::default() };
    options.io.faces_max = config.faces.faces_max;
    options.io.queue_octets_total_max =
        usize::try_from(config.faces.queue_octets_total_max).unwrap_or(usize::MAX);
    options.io.stall_ns = config.faces.stall_timeout_s.saturating_mul(1_000_000_000);
    options.io.face_shares = config.faces.shares();
    options.io.udp.idle_ns = config.faces.idle_timeout_s.saturating_mul(1_000_000_000);
    options.io.udp.unanswered_idle_ns = config.faces.idle_unanswered_s.saturating_mul(1_000_000_000);
    options.io.unproven = config.faces.unproven();
    options.interests_from = config.faces.interests_from.as_slice().into();
    options.io.read_octets_per_turn = config.faces.read_octets_per_turn as usize;
    options.io.read_datagrams_per_turn = config.faces.read_datagrams_per_turn;
    options.io.busy_poll_us = config.faces.busy_poll_us;
    options.io.memif = config.faces.memif.options();
    options.io.ethernet = config.faces.ethernet.options();
    if config.kernel.enabled {
        // Each face has a socket in the kernel.
        options.kernel = true;
        options.io = options.io.for_two_sockets_each();
    }
    options.dispatcher = config.faces.dispatcher.options();
    options.loopback_udp = config.authorization.loopback_udp;
    let threshold = usize::try_from(config.faces.congestion_threshold_octets).unwrap_or(usize::MAX);
    options.codel.target_ns = config.faces.codel_target_us.saturating_mul(1000);
    options.codel.interval_ns = config.faces.codel_interval_ms.saturating_mul(1_000_000);
    // 0 means never: no queue is so long.
    options.codel.threshold_octets = if threshold == 0 { usize::MAX } else { threshold };
    options
}

/// Leads management's names to the router's own face.
fn route_management(config: &Config, core: &Core, plane: &DataPlane) -> Result<(), Failure> {
    let mut scopes = vec![Scope::Localhost];
    // Programs of this machine that have a UDP face for remote ask there.
    if config.authorization.localhop_rib || config.authorization.loopback_udp {
        scopes.push(Scope::Localhop);
    }
    for scope in scopes {
        core.fib()
            .add_nexthop(scope.prefix().as_name(), plane.internal_face(), 0)
            .map_err(|error| Failure::new(Exit::Failed, format!("no route for management: {error}")))?;
    }
    Ok(())
}

fn listen(config: &Config, home: &Home, given: Vec<GivenSocket>) -> Result<Vec<FaceUri>, Failure> {
    let Home { plane, kernel, .. } = home;
    let mut listening = Vec::new();
    // Also where the configuration does not name them: who hands them over wants them served.
    for GivenSocket { uri, socket } in given {
        let spec = ListenSpec::Given { uri, socket };
        listening.push(plane.listen(spec).map_err(|error| cannot_listen(error.to_string()))?);
    }
    let given = listening.clone();
    let of_kernel = |name: &str, kernel: &Kernel, group: MacAddress| {
        let face = kernel.listen_on(name, group);
        face.map(|_| FaceUri::Device(name.to_owned()))
            .map_err(|error| cannot_listen(format!("listening on dev://{name}: {error}")))
    };
    for uri in config.faces.listen.iter().filter(|uri| !given.contains(uri)) {
        if let (FaceUri::Device(name), Some(kernel)) = (uri, kernel) {
            listening.push(of_kernel(name, kernel, DEFAULT_GROUP)?);
            continue;
        }
        let spec = listen_spec(uri, config)?;
        match plane.listen(spec) {
            Ok(local) => listening.push(local),
            // Nobody asked for these by name, and there is one such port for all users.
            Err(error) if is_dispensable(uri, config) => {
                tracing::warn!("{error}: this router does without, and has its local sockets");
            }
            Err(error) => return Err(cannot_listen(error.to_string())),
        }
    }
    for group in &config.faces.multicast {
        let interface = group.interface.clone();
        if let (FaceUri::Ether(group), Some(kernel)) = (&group.group, kernel) {
            listening.push(of_kernel(&interface, kernel, *group)?);
            continue;
        }
        let spec = match (&group.group, group.group.address()) {
            (FaceUri::Ether(group), _) => ListenSpec::EthernetGroup { interface, group: *group },
            (_, Some(address)) => {
                let same_host = group.same_host;
                ListenSpec::Multicast(MulticastOptions { group: address, interface, same_host })
            }
            _ => continue,
        };
        plane.listen(spec).map_err(|error| cannot_listen(error.to_string()))?;
        listening.push(FaceUri::Device(group.interface.clone()));
    }
    Ok(listening)
}

/// Whether a router starts without listening on `uri`: a port or shared memory that nobody asked
/// for.
fn is_dispensable(uri: &FaceUri, config: &Config) -> bool {
    matches!(uri, FaceUri::Tcp(_) | FaceUri::Udp(_) | FaceUri::Memif { .. })
        && config.faces.listen == default_listeners()
}

fn listen_spec(uri: &FaceUri, config: &Config) -> Result<ListenSpec, Failure> {
    let spec = ListenSpec::new(uri, config.faces.unix_mode)
        .ok_or_else(|| wrong_configuration(format!("cannot listen on {uri}")))?;
    if let Some(path) = spec.path().filter(is_default) {
        make_default_directory(path, rustix::process::geteuid().as_raw())
            .map_err(|why| cannot_listen(format!("listening on {uri}: {why}")))?;
    }
    Ok(spec)
}

fn is_default(path: &&Path) -> bool {
    *path == default_socket() || *path == memif_beside(default_socket())
}

/// Makes the directories of the default sockets that `config` listens on, for the user `uid` if the
/// router is to become that.
///
/// # Errors
/// [`Failure`]: they cannot be made, or are somebody else's.
pub(crate) fn make_default_directories(config: &Config, uid: Option<u32>) -> Result<(), Failure> {
    let owner = uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    for uri in &config.faces.listen {
        let (FaceUri::Unix(path) | FaceUri::Memif { path, .. }) = uri else { continue };
        if is_default(&Path::new(path)) {
            make_default_directory(Path::new(path), owner)
                .map_err(|why| cannot_listen(format!("listening on {uri}: {why}")))?;
        }
    }
    Ok(())
}

/// Makes the directory of the default socket, which is to be `uid`'s. In a place where everybody
/// may write, another user's directory of that name would let that user take the socket's place.
fn make_default_directory(socket: &Path, uid: u32) -> Result<(), String> {
    let Some(directory) = socket.parent() else { return Ok(()) };
    let (above, Some(name)) = (directory.parent().unwrap_or(Path::new("")), directory.file_name()) else {
        return Ok(());
    };
    let fault = |error| format!("cannot make {}: {error}", directory.display());
    let above = Folder::open(above).map_err(|error| fault(error.into()))?;
    match above.make_folder(name, 0o755) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(fault(error)),
        _ => {}
    }
    // What is looked at is what is given away, whatever anybody puts in its place.
    let opened = above.below(Path::new(name)).map_err(fault)?;
    let owner = opened.stat().map_err(fault)?.st_uid;
    let own = rustix::process::geteuid().as_raw();
    if owner != uid && owner != own && owner != 0 {
        return Err(format!("{} belongs to user {owner}: remove it, or use --listen", directory.display()));
    }
    if owner != uid && own == 0 {
        // Whoever the router becomes makes and removes sockets there.
        let given = rustix::fs::fchown(&opened, Some(rustix::process::Uid::from_raw(uid)), None);
        given.map_err(|errno| format!("cannot give {} to user {uid}: {errno}", directory.display()))?;
    }
    Ok(())
}

fn cannot_listen(why: String) -> Failure {
    Failure::new(Exit::CannotListen, why).hint("`--listen URI` chooses other addresses")
}

#[cfg(test)]
mod tests {
    use namely_skip::{Need, eventually, skip};
    use namely_wire::Name;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_router_does_without_what_nobody_asked_for_but_not_without_its_socket() {
        let mut config = Config::default();
        for uri in &config.faces.listen {
            let is_socket = matches!(uri, FaceUri::Unix(_));
            assert_eq!(is_dispensable(uri, &config), !is_socket, "{uri}");
        }
        let port: FaceUri = "tcp4://127.0.0.1:6363".parse().unwrap();
        config.faces.listen = vec![port.clone()];
        assert!(!is_dispensable(&port, &config), "asked for");
    }

    #[test]
    fn the_default_directory_is_made_and_may_be_there_already() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("namely/namely.sock");
        for _ in 0..2 {
            make_default_directory(&socket, rustix::process::geteuid().as_raw()).unwrap();
        }
        let mode = socket.parent().unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o022, 0, "nobody else may put a socket there");
    }

    #[test]
    fn the_default_directory_is_given_to_the_user_that_the_router_becomes() {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Root, "only root can give a directory away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("namely/namely.sock");
        for _ in 0..2 {
            make_default_directory(&socket, 65534).unwrap();
            assert_eq!(socket.parent().unwrap().metadata().unwrap().uid(), 65534);
        }
    }

    #[test]
    fn a_default_directory_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Root, "only root can make a directory of another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        rustix::fs::chown(dir.path(), Some(rustix::process::Uid::from_raw(65534)), None).unwrap();
        let why = make_default_directory(&dir.path().join("namely.sock"), 0).unwrap_err();
        assert!(why.contains("belongs to user 65534"), "{why}");
    }

    /// Interests come in, all of which stay pending: whenever they have reached the middle of the
    /// last chunk of the PIT, the control thread makes the next one.
    #[test]
    fn the_control_thread_makes_chunks_before_packets_need_them() {
        use std::io::Write;
        use std::os::unix::net::UnixStream;

        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("router.sock");
        let text = format!("[faces]\nlisten = [\"unix://{}\"]\n", socket.display());
        let router = Router::start(Config::parse(&text, Path::new("namely.toml")).unwrap()).unwrap();
        let core = &router.home.core;
        let faces = core.faces().snapshot().len();
        let [mut consumer, _silent] = [(); 2].map(|()| UnixStream::connect(&socket).unwrap());
        eventually("two faces", || core.faces().snapshot().len() == faces + 2);
        let silent = core.faces().snapshot().iter().map(|face| face.id).max().unwrap();
        core.fib().add_nexthop(Name::new().as_name(), silent, 0).unwrap();
        for step in 1..=24usize {
            for i in 0..128u64 {
                let name = Name::new().join_generic("a").join_number(50, (step as u64) * 128 + i);
                let interest = namely_wire::InterestBuilder::new(name).nonce([1; 4]).lifetime_ms(60_000);
                consumer.write_all(&interest.build()).unwrap();
            }
            eventually("all are pending", || core.table_sizes().pit == step * 128);
            eventually("the next chunk is made", || !core.is_growth_due());
        }
        assert!(!core.grow().unwrap(), "nothing is left to be made");
    }
}

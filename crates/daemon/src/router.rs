//! A running router: the data plane, the control thread, and their shared parts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use namely_io::ethernet::DEFAULT_GROUP;
use namely_messages::Scope;
use namely_mgmt::{Now, Policy};
use namely_wire::{FaceUri, MacAddress};

use crate::accepted_commands::AcceptedCommandsFile;
use crate::awaited::AwaitedTarget;
use crate::config::{Config, ConfigError, default_listeners};
use crate::control::{ControlThread, Order, OrderSender, Reload, management};
use crate::disk::Disk;
use crate::exit::{Exit, Failure};
use crate::home::RouterHandle;
use crate::kernel::{self, Kernel, KernelHandle};
use crate::key::RouterKey;
use crate::services::{self, Services, StartContext};
use crate::socket_folders;
use crate::systemd::ActivationSocket;
use crate::threads::start_beside;
use namely_dataplane::{Core, DataPlane, DataPlaneOptions, ListenError, ListenSpec, MulticastOptions, spill};

/// Time from SIGTERM to the end of the router, without a drain.
///
/// A service manager with a shorter limit kills the process.
///
/// # Limit
/// Threads that still run are logged and end with the process.
/// - Tests: `sigterm_ends_the_router_immediately`
const STOP_MAX: Duration = Duration::from_millis(900);

/// Part of this limit for writing the content store's memory to its disk.
const SPILL_MAX: Duration = Duration::from_millis(400);

/// A running router. Dropping it stops it.
pub struct Router {
    orders: OrderSender,
    control: Option<JoinHandle<()>>,
    home: RouterHandle,
    /// The content store's disk, if it has one. The memory is written to it at the stop.
    disk: Option<Arc<Disk>>,
    services: Services,
    listening: Vec<FaceUri>,
}

impl Router {
    /// Starts a router. It listens when this returns.
    ///
    /// # Errors
    /// [`Failure`] contains the error and the exit status for a program.
    pub fn start(config: Config) -> Result<Router, Failure> {
        Self::start_with(config, || {})
    }

    /// Starts a router that calls `ended` when it no longer runs: after a stop, or after a fatal
    /// error.
    ///
    /// # Errors
    /// As [`Router::start`].
    pub fn start_with(config: Config, ended: impl FnOnce() + Send + 'static) -> Result<Router, Failure> {
        let key = RouterKey::read(&config)?;
        Self::start_keyed(config, key, None, Vec::new(), ended)
    }

    /// As `start_with`, with a key read before, the file of accepted commands, and
    /// listening sockets.
    pub(crate) fn start_keyed(
        config: Config,
        key: RouterKey,
        taken: Option<AcceptedCommandsFile>,
        given: Vec<ActivationSocket>,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Router, Failure> {
        Self::start_services(services::list::all(), config, key, taken, given, ended)
    }

    /// As `start_keyed`, with these services.
    pub(crate) fn start_services(
        services: Services,
        config: Config,
        key: RouterKey,
        taken: Option<AcceptedCommandsFile>,
        given: Vec<ActivationSocket>,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Router, Failure> {
        // Taken before the first connection, so that commands for this router are signed after it.
        let time = crate::control::now();
        let policy = policy(&config)?;
        let opened = KernelHandle::of(&config)?;
        let seed = seed()?;
        let core: Core = config.forwarder(seed).map_err(|error| config.located(error))?;
        let core = Arc::new(core);
        let disk = Disk::open(&config.cs.disk)?;
        let (plane, inbox) =
            DataPlane::start_with(options(&config), core.clone(), disk.as_deref().map(Disk::shared))
                .map_err(Failure::failed)?;
        route_management(&config, &core, &plane)?;
        plane.explain_to_network(config.authorization.explain_to_network);
        let plane = Arc::new(plane);
        let kernel = opened.map(|opened| opened.join(&config, &plane, &core)).transpose()?.map(Arc::new);
        let (orders, received) = OrderSender::new(&inbox);
        // From here on, an error drops `router`, which stops all parts that have started.
        let mut router = Router {
            orders: orders.clone(),
            control: None,
            home: RouterHandle { plane, core, kernel, awaited: Arc::default() },
            disk,
            services,
            listening: Vec::new(),
        };
        router.listening = router.begin(&config, &key, given, time)?;
        let (home, services) = (router.home.clone(), router.services.clone());
        let mut control =
            ControlThread::new(home, services, inbox, orders, received, config, management(policy, time));
        if let Some(taken) = taken {
            control.record_accepted(taken, time);
        }
        let thread = start_beside("namely-control", move || {
            let _ended = EndNotifier(Some(ended));
            control.run();
        })
        .map_err(Failure::system("no control thread"))?;
        router.control = Some(thread);
        Ok(router)
    }

    /// Starts the services and the listeners. Returns the addresses.
    fn begin(
        &self,
        config: &Config,
        key: &RouterKey,
        given: Vec<ActivationSocket>,
        time: Now,
    ) -> Result<Vec<FaceUri>, Failure> {
        let Router { home, orders, services, .. } = self;
        let start = StartContext { config, home, disk: self.disk.as_ref(), key, orders, services, time };
        services.iter().try_for_each(|service| service.prepare(&start))?;
        let listening = listen(config, home, given)?;
        services.iter().try_for_each(|service| service.start(&start))?;
        Ok(listening)
    }

    /// Checks a configuration beyond its syntax: limits, strategies, users, certificates.
    ///
    /// # Errors
    /// [`Failure`] contains all errors with their keys.
    pub fn check(config: &Config) -> Result<(), Failure> {
        check(&services::list::all(), config)
    }

    /// The listening addresses, with the assigned ports if 0 was configured.
    pub fn listening(&self) -> &[FaceUri] {
        &self.listening
    }

    /// The address of metrics, if they are served, with the assigned port if 0 was configured.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.services.iter().find_map(|service| service.address())
    }

    /// Applies another configuration, as far as that is possible without a restart.
    ///
    /// # Errors
    /// The configuration is wrong; the current one stays in force.
    pub fn reload(&self, config: Config) -> Result<(), Failure> {
        check(&self.services, &config)?;
        let policy = policy(&config)?;
        self.orders.send(Order::Reload(Box::new(Reload { config, policy })));
        Ok(())
    }

    /// Returns true if the control thread and the data plane both respond within `patience`.
    pub fn is_well(&self, patience: Duration) -> bool {
        self.health().is_well(patience)
    }

    /// A handle that checks the router's health from any thread.
    pub(crate) fn health(&self) -> Health {
        Health(self.orders.clone())
    }

    /// Begins to drain, and stops the control thread afterwards. Returns false if the router has
    /// nothing to drain, so that it may stop now.
    pub(crate) fn drain(&self) -> bool {
        let now_ns = crate::control::now().ns;
        let is_needed = self.services.iter().any(|service| service.needs_drain(&self.home, now_ns));
        if is_needed {
            self.orders.send(Order::Drain);
        }
        is_needed
    }

    /// Stops the router: closes and removes its sockets.
    pub fn stop(mut self) {
        self.halt();
    }

    /// Stops within [`STOP_MAX`]. Returns false if threads are still running then; they end with
    /// the process.
    pub(crate) fn stop_in_time(self) -> bool {
        let (ended, is_ended) = sync_channel(1);
        // A separate thread, because the stop itself may block.
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
            // The services hold the disk, and would keep it open.
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

/// Checks the health of a router.
pub(crate) struct Health(OrderSender);

impl Health {
    /// As [`Router::is_well`].
    pub(crate) fn is_well(&self, patience: Duration) -> bool {
        self.0.is_answered(patience)
    }
}

/// Signals the end of the control thread, even after a panic.
struct EndNotifier<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for EndNotifier<F> {
    fn drop(&mut self) {
        if let Some(ended) = self.0.take() {
            ended();
        }
    }
}

fn policy(config: &Config) -> Result<Policy, Failure> {
    config.authorization.policy().map_err(|error| config.located(error.into()).into())
}

/// Checks `config` for these services, and for the forwarder and management.
fn check(services: &Services, config: &Config) -> Result<(), Failure> {
    let rights = |config: &Config| -> Result<(), ConfigError> {
        config.authorization.policy().map(drop).map_err(ConfigError::from)
    };
    let core = |config: &Config| config.forwarder(0).map(|_: Core| ());
    let mut checked = vec![config.check_all(&rights), config.check_all(&kernel::check)];
    for service in services.iter() {
        checked.push(config.check_all(&|config: &Config| service.check(config)));
    }
    checked.push(config.check_all(&core));
    ConfigError::all(checked).map_err(Failure::from)
}

/// The secret key of the name hashes.
fn seed() -> Result<u128, Failure> {
    let octets = namely_host::random().map_err(Failure::system("the system gives no random numbers"))?;
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
        // Each face has a socket in the kernel, too.
        options.kernel = true;
        options.io = options.io.for_two_sockets_each();
    }
    options.dispatcher = config.faces.dispatcher.options();
    options.loopback_udp = config.authorization.loopback_udp;
    let threshold = usize::try_from(config.faces.congestion_threshold_octets).unwrap_or(usize::MAX);
    options.codel.target_ns = config.faces.codel_target_us.saturating_mul(1000);
    options.codel.interval_ns = config.faces.codel_interval_ms.saturating_mul(1_000_000);
    // 0 means never: no queue reaches this length.
    options.codel.threshold_octets = if threshold == 0 { usize::MAX } else { threshold };
    options
}

/// Routes management's names to the router's own face.
fn route_management(config: &Config, core: &Core, plane: &DataPlane) -> Result<(), Failure> {
    let mut scopes = vec![Scope::Localhost];
    // Local programs that treat their UDP face as remote use this prefix.
    if config.authorization.localhop_rib || config.authorization.loopback_udp {
        scopes.push(Scope::Localhop);
    }
    for scope in scopes {
        core.fib()
            .add_nexthop(scope.prefix().as_name(), plane.internal_face(), 0)
            .map_err(Failure::system("no route for management"))?;
    }
    Ok(())
}

fn listen(
    config: &Config,
    home: &RouterHandle,
    given: Vec<ActivationSocket>,
) -> Result<Vec<FaceUri>, Failure> {
    let RouterHandle { plane, kernel, .. } = home;
    let mut listening = Vec::new();
    // They are served even if the configuration does not contain them, because the service manager
    // passed them for that.
    for ActivationSocket { uri, socket } in given {
        let spec = ListenSpec::Given { uri, socket };
        listening.push(plane.listen(spec).map_err(|error| Failure::cannot_listen(error.to_string()))?);
    }
    let given = listening.clone();
    for uri in config.faces.listeners().iter().filter(|uri| !given.contains(uri)) {
        if let (FaceUri::Device(name), Some(kernel)) = (uri, kernel) {
            listening.push(listen_in_kernel(name, kernel, DEFAULT_GROUP)?);
            continue;
        }
        let spec = listen_spec(uri, config)?;
        if let Some((target, why)) = AwaitedTarget::of_missing_folder(&spec) {
            home.awaited.add(plane, target, why);
            continue;
        }
        match plane.listen(spec) {
            Ok(local) => listening.push(local),
            // These are defaults, and all users share this port.
            Err(error) if is_dispensable(uri, config) => {
                tracing::warn!(%uri, %error, "not listening: this router continues with its local sockets");
            }
            Err(ListenError::NoDevice(why)) => {
                if let FaceUri::Device(name) = uri {
                    home.awaited.add(plane, AwaitedTarget::Device(name.clone()), why);
                }
            }
            Err(error) => return Err(Failure::cannot_listen(error.to_string())),
        }
    }
    join_groups(config, home, &mut listening)?;
    Ok(listening)
}

/// Listens on a device by the kernel's forwarder.
fn listen_in_kernel(name: &str, kernel: &Kernel, group: MacAddress) -> Result<FaceUri, Failure> {
    let face = kernel.listen_on(name, group);
    face.map(|_| FaceUri::Device(name.to_owned()))
        .map_err(|error| Failure::cannot_listen(format!("listening on dev://{name}: {error}")))
}

/// Makes the faces of the configured groups, except those that wait for their device.
fn join_groups(config: &Config, home: &RouterHandle, listening: &mut Vec<FaceUri>) -> Result<(), Failure> {
    let RouterHandle { plane, kernel, .. } = home;
    for group in &config.faces.multicast {
        let interface = group.interface.clone();
        if let (FaceUri::Ether(group), Some(kernel)) = (&group.group, kernel) {
            listening.push(listen_in_kernel(&interface, kernel, *group)?);
            continue;
        }
        let target = match (&group.group, group.group.address()) {
            (FaceUri::Ether(group), _) => AwaitedTarget::EthernetGroup { interface, group: *group },
            (_, Some(address)) => {
                let same_host = group.same_host;
                AwaitedTarget::Group(MulticastOptions { group: address, interface, same_host })
            }
            _ => continue,
        };
        match plane.listen(target.spec()) {
            Ok(_) => listening.push(FaceUri::Device(group.interface.clone())),
            Err(ListenError::NoDevice(why)) => home.awaited.add(plane, target, why),
            Err(error) => return Err(Failure::cannot_listen(error.to_string())),
        }
    }
    Ok(())
}

/// Returns true if the router starts without listening on `uri`: a port or shared memory from the
/// defaults.
pub(crate) fn is_dispensable(uri: &FaceUri, config: &Config) -> bool {
    matches!(uri, FaceUri::Tcp(_) | FaceUri::Udp(_) | FaceUri::Memif { .. })
        && config.faces.listen == default_listeners()
        && !config.faces.listen_also.contains(uri)
}

fn listen_spec(uri: &FaceUri, config: &Config) -> Result<ListenSpec, Failure> {
    let spec = ListenSpec::new(uri, config.faces.unix_mode)
        .ok_or_else(|| Failure::new(Exit::Configuration, format!("cannot listen on {uri}")))?;
    if let Some(path) = spec.path() {
        socket_folders::prepare(path, rustix::process::geteuid().as_raw())
            .map_err(|why| Failure::cannot_listen(format!("listening on {uri}: {why}")))?;
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use namely_testkit::eventually;
    use namely_wire::Name;

    use super::*;

    #[test]
    fn default_listeners_are_optional_except_the_socket() {
        let mut config = Config::default();
        for uri in &config.faces.listen {
            let is_socket = matches!(uri, FaceUri::Unix(_));
            assert_eq!(is_dispensable(uri, &config), !is_socket, "{uri}");
        }
        let port: FaceUri = "tcp4://127.0.0.1:6363".parse().unwrap();
        config.faces.listen_also = vec![port.clone()];
        assert!(!is_dispensable(&port, &config), "asked for");
        config.faces = crate::config::Faces { listen: vec![port.clone()], ..Config::default().faces };
        assert!(!is_dispensable(&port, &config), "asked for");
    }

    /// All received Interests stay pending. Each time they fill half of the last chunk of the PIT,
    /// the control thread makes the next one.
    #[test]
    fn pit_chunks_are_allocated_in_advance() {
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

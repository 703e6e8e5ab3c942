//! The thread of neighbor discovery. It carries out the actions of the state machine of
//! `namely_discovery`.
//!
//! It owns the router's link key and watches the network devices. Only this thread checks the
//! signatures of discovery messages, so neither a worker nor the control thread waits for a check.
//! The state machine is behind a lock, so that the control thread can read its state. The lock is
//! not held while a signature is made or checked, or while a face is made.

mod faces;
mod home;
mod identity;
mod kernel;
mod link;
mod notes;
mod stall;
mod start;
mod view;

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use namely_datagrams::ethernet::monitor::Monitor;
use namely_discovery::limits::ASKED_ONE_BY_ONE_MAX;
use namely_discovery::{
    Action, Discovery, InterfaceId, LinkAddress, NeighbourFace, Proof, ReceivedPacket, Recipient,
};
use namely_forwarder::FaceId;
use namely_host::{Waker, clock};
use namely_wire::FaceUri;
use parking_lot::Mutex;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use self::home::DiscoveryHost;
use self::identity::Identity;
pub(crate) use self::link::WatchedLink;
use self::link::{Link, Medium};
use self::stall::StallGuard;
pub(crate) use self::start::NeighborDiscovery;
use self::view::View;
use crate::exit::Failure;
use crate::key::{RouterKey, is_signed_by};
use crate::threads::Thread;
use namely_dataplane::{CaptureQueue, CapturedPacket};

/// Interval between queries for a missing address, ns.
const LOOK_AGAIN_NS: u64 = 250_000_000;

/// Orders to the thread of discovery. Each closed face adds at most one order.
enum Order {
    /// A face was closed.
    FaceGone(u64),
    /// Apply these settings.
    Configure(Box<namely_discovery::Config>),
    /// Announce no prefixes any more. The faces of neighbors remain, because pending Interests need
    /// them until the goodbye.
    Withdraw,
    /// Send a goodbye and stop.
    Stop,
}

/// The handle of the thread.
struct Running {
    orders: Sender<Order>,
    waker: Waker,
    view: View,
    thread: Thread,
}

impl Running {
    /// Starts discovery on `links`. `tap` must capture the packets of these links.
    ///
    /// # Errors
    /// [`Failure`]: an error of the system.
    fn start(
        home: Box<dyn DiscoveryHost>,
        tap: Arc<CaptureQueue>,
        links: Vec<Link>,
        config: namely_discovery::Config,
        key: &RouterKey,
    ) -> Result<Self, Failure> {
        let identity = Identity::new(key)?;
        let random = namely_host::random().map_err(Failure::system("no random numbers"))?;
        let now_ns = clock::monotonic_ns();
        let machine = Discovery::new(config, identity.key(), u64::from_ne_bytes(random), now_ns);
        let machine = Arc::new(Mutex::new(machine));
        let system = |errno| Failure::failed(format!("watching network devices: {errno}"));
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(system)?;
        let monitor = Monitor::new().map_err(system)?;
        let watch = |fd: std::os::fd::BorrowedFd<'_>| {
            epoll::add(&epoll, fd, EventData::new_u64(0), EventFlags::IN).map_err(system)
        };
        watch(monitor.as_fd())?;
        watch(tap.waker().as_fd())?;
        let (sender, orders) = channel();
        let waker = tap.waker().clone();
        let names: Vec<String> = links.iter().map(|link| link.watched.device.clone()).collect();
        warn_if_open(machine.lock().config());
        let view = View::new(machine.clone(), names, identity.key(), tap.clone());
        let thread =
            DiscoveryThread { machine, identity, home, tap, epoll, monitor, orders, links, aimed: 0 };
        let thread = Thread::start("namely-discovery", move || thread.run())
            .map_err(Failure::system("no thread for discovery"))?;
        Ok(Running { orders: sender, waker, view, thread })
    }

    fn send(&self, order: Order) {
        // If the thread has stopped, the order is dropped.
        if self.orders.send(order).is_ok() {
            self.waker.wake();
        }
    }

    fn stop(&self) {
        self.send(Order::Stop);
        self.thread.join();
    }
}

fn warn_if_open(config: &namely_discovery::Config) {
    if config.open {
        tracing::warn!("neighbor discovery is OPEN: every prefix that a neighbor announces becomes a route");
    }
}

/// The thread's state.
struct DiscoveryThread {
    machine: Arc<Mutex<Discovery>>,
    identity: Identity,
    home: Box<dyn DiscoveryHost>,
    tap: Arc<CaptureQueue>,
    epoll: std::os::fd::OwnedFd,
    monitor: Monitor,
    orders: Receiver<Order>,
    links: Vec<Link>,
    /// The state machine's generation of faces at the last update of the faces that receive
    /// Interests without a route.
    aimed: u64,
}

impl DiscoveryThread {
    fn run(mut self) {
        self.home.begin(&self.links);
        let (mut actions, mut stalls, mut due_ns) = (Vec::new(), StallGuard::default(), None);
        self.poll_devices(&mut actions);
        loop {
            // The clock is read before the queue, so the timers run at a time whose packets were
            // all processed. A stall of this thread is therefore no silence of its neighbors.
            let now_ns = clock::monotonic_ns();
            self.receive(&mut actions);
            if self.handle_orders(&mut actions).is_break() {
                return self.send_goodbye(actions);
            }
            due_ns = stalls.grace_ns(due_ns, now_ns).or_else(|| self.run_timers(now_ns, &mut actions));
            let look_ns = self.awaits_address().then(|| now_ns.saturating_add(LOOK_AGAIN_NS));
            self.wait(due_ns.into_iter().chain(look_ns).min());
            self.tap.waker().reset();
            if self.monitor.take_changes() || look_ns.is_some() {
                self.poll_devices(&mut actions);
            }
        }
    }

    /// Runs the timers that are due. Returns the time of the next one, ns.
    fn run_timers(&mut self, now_ns: u64, actions: &mut Vec<Action>) -> Option<u64> {
        let due_ns = self.machine.lock().tick(now_ns, actions);
        self.carry_out(actions);
        self.aim_discoveries();
        let retry_ns = self.home.retry(now_ns);
        due_ns.into_iter().chain(retry_ns).min()
    }

    /// Processes the packets that wait in the queue.
    fn receive(&mut self, actions: &mut Vec<Action>) {
        self.carry_out(actions);
        let from_home = self.home.received();
        for overheard in self.tap.take().into_iter().chain(from_home) {
            let Some(link) = self.link_of(&overheard) else { continue };
            let received = ReceivedPacket {
                interface: InterfaceId(link as u32),
                source: overheard.source,
                is_unicast: overheard.is_unicast,
                packet: &overheard.packet,
            };
            self.machine.lock().receive(received, clock::monotonic_ns(), actions);
            self.carry_out(actions);
        }
    }

    /// Executes the orders of other threads. Breaks at the order to stop.
    fn handle_orders(&mut self, actions: &mut Vec<Action>) -> ControlFlow<()> {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::FaceGone(face) => {
                    self.machine.lock().face_closed(face, clock::monotonic_ns(), actions);
                    self.home.gone(face);
                }
                Order::Configure(config) => {
                    warn_if_open(&config);
                    self.machine.lock().reconfigure(*config, clock::monotonic_ns(), actions);
                }
                Order::Withdraw => {
                    let mut machine = self.machine.lock();
                    let config = machine.config().clone();
                    let config = namely_discovery::Config { prefixes: Vec::new(), ..config };
                    machine.reconfigure(config, clock::monotonic_ns(), actions);
                }
                Order::Stop => return ControlFlow::Break(()),
            }
            self.carry_out(actions);
        }
        ControlFlow::Continue(())
    }

    fn send_goodbye(mut self, mut actions: Vec<Action>) {
        self.machine.lock().goodbye(&mut actions);
        self.carry_out(&mut actions);
        self.home.settle();
        self.home.leave();
    }

    /// Updates the faces that receive Interests without a route. With few neighbors on a link,
    /// each of them receives the Interest by unicast, so that Data returns by unicast and the
    /// strategy learns a unicast face. The group also receives it, for nodes without discovery.
    /// Packets to the group are copied by unicast to neighbors with a smaller MTU.
    fn aim_discoveries(&mut self) {
        let machine = self.machine.lock();
        if machine.changes() == std::mem::replace(&mut self.aimed, machine.changes()) {
            return;
        }
        let mut faces: Vec<Vec<NeighbourFace>> = vec![Vec::new(); self.links.len()];
        for neighbour in machine.faces() {
            if let Some(of_link) = faces.get_mut(neighbour.interface.0 as usize) {
                of_link.push(neighbour);
            }
        }
        drop(machine);
        for (link, neighbours) in self.links.iter_mut().zip(faces) {
            let is_few = neighbours.len() <= ASKED_ONE_BY_ONE_MAX;
            let discovery_faces: Vec<u64> = neighbours.iter().filter(|_| is_few).map(|n| n.face).collect();
            let small: Vec<u64> = neighbours.iter().filter(|n| n.is_small).map(|n| n.face).collect();
            // It is not an error if the face was closed meanwhile.
            for face in link.discovery_faces.iter().filter(|face| !discovery_faces.contains(face)) {
                self.home.set_discovery_face(FaceId(*face), false);
            }
            for face in discovery_faces.iter().filter(|face| !link.discovery_faces.contains(face)) {
                self.home.add_discovery_face(FaceId(*face), link.group);
            }
            if small != link.small {
                self.home.copy_to(link.group, &small);
            }
            (link.discovery_faces, link.small) = (discovery_faces, small);
        }
    }

    /// Sleeps until an event or the next timer.
    fn wait(&self, due_ns: Option<u64>) {
        let now_ns = clock::monotonic_ns();
        let wait = due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)));
        let timeout = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 2];
        // All sources are polled after an interruption, too.
        let _ = epoll::wait(&self.epoll, &mut events, timeout.as_ref());
    }

    /// Reports changes of the devices to the state machine.
    fn poll_devices(&mut self, actions: &mut Vec<Action>) {
        let now_ns = clock::monotonic_ns();
        for (number, link) in self.links.iter_mut().enumerate() {
            // If the query fails, the state stays as it is until the next change.
            let Ok(now) = link.look() else { continue };
            if now == link.seen {
                continue;
            }
            let id = InterfaceId(number as u32);
            if let Some(group) = self.home.seen(number, link, now, self.epoll.as_fd()) {
                link.group = group;
            }
            if link.group == FaceId::NONE && now.is_some() {
                // The face of the group is not made yet, so the device counts as absent.
                continue;
            }
            let mut machine = self.machine.lock();
            if link.seen.zip(now).is_some_and(|(before, now)| before.index != now.index) {
                machine.interface(id, None, now_ns, actions);
            }
            machine.interface(id, now.map(|seen| seen.state), now_ns, actions);
            link.seen = now;
        }
    }

    /// Returns true if a link has no address yet. The monitor does not report a new address.
    fn awaits_address(&self) -> bool {
        let is_udp = |link: &Link| matches!(link.watched.medium, Medium::Udp { .. });
        self.links.iter().any(|link| link.seen.is_none() && is_udp(link))
    }

    /// The link that received a packet.
    fn link_of(&self, overheard: &CapturedPacket) -> Option<usize> {
        match overheard.source {
            _ if overheard.link.is_some() => overheard.link,
            LinkAddress::Udp(peer) => self.links.iter().position(|link| link.reaches(peer)),
            LinkAddress::Ether(_) => None,
        }
    }

    /// Carries out the actions, and further actions that result from them.
    fn carry_out(&mut self, actions: &mut Vec<Action>) {
        while !actions.is_empty() {
            for action in std::mem::take(actions) {
                self.act(action, actions);
            }
        }
    }

    /// Sends a packet over a neighbor's face, or directly to a peer without one.
    fn send_to(&mut self, interface: InterfaceId, to: Recipient, packet: Vec<u8>) {
        let number = interface.0 as usize;
        match (to.face, self.links.get(number)) {
            (Some(face), _) => self.home.send(FaceId(face), packet),
            (None, Some(link)) => {
                let to = Recipient { station: link.with_zone(to.station), ..to };
                self.home.send_past_faces(number, link, to, packet);
            }
            (None, None) => {}
        }
    }

    fn act(&mut self, action: Action, more: &mut Vec<Action>) {
        let now_ns = clock::monotonic_ns;
        match action {
            Action::SendHello { interface, to, hello } => {
                let group = self.links.get(interface.0 as usize).map(|link| link.group);
                let Some((packet, digest)) = self.identity.hello(&hello) else { return };
                let station = to.map(|to| to.station);
                self.machine.lock().hello_sent(interface, station, digest, now_ns());
                match (to, group) {
                    (Some(to), _) => self.send_to(interface, to, packet),
                    (None, Some(group)) => self.home.send(group, packet),
                    (None, None) => {}
                }
            }
            Action::SendReply { interface, to, reply } => {
                if let Some(packet) = self.identity.reply(&reply) {
                    self.send_to(interface, to, packet);
                }
            }
            Action::Verify { ticket, key, packet } => {
                let is_right = is_signed_by(&packet, &key);
                let proof = if is_right { Proof::Valid } else { Proof::Invalid };
                self.machine.lock().verified(ticket, proof, now_ns(), more);
            }
            Action::MakeFace { interface, station, mtu } => {
                let link = self.links.get(interface.0 as usize);
                let made = link.and_then(|link| {
                    let local = FaceUri::Device(link.watched.device.clone());
                    self.home.make(interface.0 as usize, local, link.with_zone(station), mtu)
                });
                self.machine.lock().face_made(interface, station, made, more);
            }
            Action::DestroyFace { face } => self.home.destroy(face),
            Action::SetMtu { face, mtu } => self.home.set_mtu(face, mtu, now_ns()),
            Action::SetGroupMtu { interface, mtu } => {
                if let Some(link) = self.links.get(interface.0 as usize) {
                    // Packets sent before must be fragmented by the previous MTU.
                    self.home.settle();
                    self.home.set_mtu(link.group.0, mtu, now_ns());
                }
            }
            Action::AddRoute { face, prefix } => self.home.add_route(face, &prefix, now_ns()),
            Action::RemoveRoute { face, prefix } => self.home.remove_route(face, &prefix),
            Action::Note { interface, station, note } => {
                if let Some(link) = self.links.get(interface.0 as usize) {
                    notes::log(&link.watched.device, station, &note);
                }
            }
        }
    }
}

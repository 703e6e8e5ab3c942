//! The control thread: management, faces and routes of the configuration, reload.
//!
//! It sleeps until something comes: an Interest for management, a change of a face, a face that was
//! made, a reload, the stop. Nothing of this runs on the data-plane thread, and nothing there waits
//! for it.

mod autoreg;
mod face_maker;
mod leftovers;
mod neighbours;
mod readvertise;
mod traces;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::time::Duration;

use namely_forwarder::FaceId;
use namely_host::clock;
use namely_mgmt::{Announced, Control, CreateFaceError, Incoming, Management, Now, Policy, Requester};
use namely_wire::mgmt::{Counter, FaceEventKind, FaceEventNotification, FaceStatus, RouteOrigin};
use namely_wire::{CACHE_POLICY_NO_CACHE, LpHeaders};

use self::face_maker::FaceMaker;
use self::leftovers::Leftovers;
use self::neighbours::Neighbours;
use self::readvertise::Readvertiser;
use self::traces::Traces;
use crate::config::Config;
use crate::disk::Disk;
use crate::kernel::{Heard, Kernel, Listening};
use crate::taken::TakenFile;
use namely_dataplane::{ControlEvent, ControlPacket, Core, DataPlane, Inbox, InboxError, InboxWaker, Shown};

/// The longest sleep; nothing is due then, it only bounds the wait.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// The control thread's state.
pub(crate) struct ControlThread {
    home: Home,
    inbox: Inbox,
    orders: Receiver<Order>,
    sender: OrderSender,
    management: Management,
    neighbours: Neighbours,
    maker: FaceMaker,
    /// What happens in the kernel, where that forwards.
    listening: Option<Listening>,
    /// What is found on links, where that is looked for.
    links: Option<Links>,
    /// The content store's disk, where it has one.
    disk: Option<Arc<Disk>>,
    /// The virtual plane of VIP, where it runs.
    vip: Option<VipPlane>,
    leftovers: Leftovers,
    readvertiser: Readvertiser,
    traces: Traces,
    config: Config,
}

/// Where what management does is done.
#[derive(Clone)]
pub(super) struct Home {
    plane: Arc<DataPlane>,
    core: Arc<Core>,
    /// The kernel's forwarder, where that forwards.
    kernel: Option<Arc<Kernel>>,
}

/// The thread of neighbour discovery, as the control thread sees it.
struct Links {
    orders: crate::discovery::Orders,
    view: crate::discovery::View,
}

/// The thread of VIP, as the control thread sees it.
struct VipPlane {
    orders: crate::vip::Orders,
    view: crate::vip::View,
}

/// Something that another thread wants of the control thread.
pub(crate) enum Order {
    /// Switch to this configuration, with its policy and what it says of neighbours.
    Reload(Box<Reload>),
    /// A face for management or a neighbour was made.
    Made(Asker, Box<Result<FaceStatus, CreateFaceError>>),
    /// Tell what management has counted.
    Counters(SyncSender<Vec<Counter>>),
    /// Confirm that the control thread and the data plane are well.
    Answer(SyncSender<()>),
    /// End.
    Stop,
}

/// What a reload brings.
pub(crate) struct Reload {
    pub(crate) config: Config,
    pub(crate) policy: Policy,
    /// Of neighbour discovery.
    pub(crate) neighbours: namely_discovery::Config,
    /// Of the virtual plane of VIP.
    pub(crate) vip: Option<crate::vip::Settings>,
}

/// Who asked for a face.
pub(crate) enum Asker {
    /// A `faces/create` command, by its ticket.
    Command(u64),
    /// A neighbour of the configuration, by its key.
    Neighbour(String),
}

/// Sends orders to the control thread. As many wait as faces are being made, signals came and
/// reloads were asked for: few.
#[derive(Clone)]
pub(crate) struct OrderSender {
    orders: Sender<Order>,
    waker: InboxWaker,
}

impl OrderSender {
    /// Sends an order; a control thread that has ended takes none.
    pub(crate) fn send(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            self.waker.wake();
        }
    }
}

impl ControlThread {
    /// From now on commands that are taken are noted in this file.
    pub(crate) fn keep_taken(&mut self, taken: TakenFile, start: Now) {
        let (store, former) = taken.into_parts();
        if let Err(error) = self.management.keep_taken(store, &former, start) {
            tracing::warn!("which commands were taken is not kept: {error}");
        }
    }

    /// The control thread of a router that runs under `config` since `start`.
    pub(crate) fn new(
        plane: Arc<DataPlane>,
        core: Arc<Core>,
        inbox: Inbox,
        config: Config,
        policy: Policy,
        start: Now,
    ) -> Self {
        let (sender, orders) = channel();
        let version = concat!("namely-", env!("CARGO_PKG_VERSION"));
        ControlThread {
            management: Management::new(version, policy, start),
            maker: FaceMaker::default(),
            neighbours: Neighbours::default(),
            leftovers: Leftovers::default(),
            readvertiser: Readvertiser::default(),
            traces: Traces::new(plane.clone()),
            sender: OrderSender { orders: sender, waker: inbox.waker() },
            home: Home { plane, core, kernel: None },
            inbox,
            orders,
            links: None,
            listening: None,
            disk: None,
            vip: None,
            config,
        }
    }

    /// From now on tells the thread of neighbour discovery of faces, and shows what it knows.
    pub(crate) fn set_discovery(&mut self, discovery: &crate::discovery::Running) {
        self.links = Some(Links { orders: discovery.orders(), view: discovery.view() });
    }

    /// From now on shows the content store's disk, and changes it.
    pub(crate) fn set_disk(&mut self, disk: Arc<Disk>) {
        self.disk = Some(disk);
    }

    /// From now on acts on the kernel's forwarder, and hears what happens there.
    ///
    /// # Errors
    /// What is not to be had for that, in words.
    pub(crate) fn set_kernel(&mut self, kernel: Arc<Kernel>) -> Result<(), String> {
        let waker = self.inbox.waker();
        self.listening = Some(Listening::start(move || waker.wake())?);
        self.home.kernel = Some(kernel);
        Ok(())
    }

    /// From now on tells the thread of VIP of other settings, and shows what it knows.
    pub(crate) fn set_vip(&mut self, vip: &crate::vip::Running) {
        self.vip = Some(VipPlane { orders: vip.orders(), view: vip.view() });
    }

    /// Where other threads send orders.
    pub(crate) fn orders(&self) -> OrderSender {
        self.sender.clone()
    }

    /// Runs until it is told to stop, or the data plane has stopped.
    pub(crate) fn run(mut self) {
        self.neighbours.configure(&self.config, self.home.control(), now().ns);
        self.grow();
        loop {
            let sleep = self.sleep();
            let next = self.inbox.next(sleep);
            if matches!(next, Ok(ControlEvent::Packet(_) | ControlEvent::Face(_))) {
                self.leftovers.note(now().ns);
            }
            match next {
                Ok(ControlEvent::Packet(packet)) => self.packet(&packet),
                Ok(ControlEvent::Face(event)) => self.face_event(&event),
                Ok(ControlEvent::Learned(shown)) => self.learn(&shown),
                Ok(ControlEvent::Woken) => {
                    if self.handle_orders().is_break() || self.hear_kernel().is_break() {
                        break;
                    }
                    self.grow();
                }
                Err(InboxError::TimedOut) => {}
                Err(InboxError::Stopped) => break,
            }
            self.produce();
        }
        tracing::debug!(counters = ?self.management.counters(), "management ends");
        for (reason, count) in self.management.refusals() {
            tracing::debug!("{count} commands refused: {reason}");
        }
    }

    /// Takes in what has happened in the kernel.
    fn hear_kernel(&mut self) -> std::ops::ControlFlow<()> {
        while let (Some(kernel), Some(listening)) = (&self.home.kernel, &self.listening)
            && let Some(heard) = kernel.take(listening, now().ns)
        {
            match heard {
                Some(Heard::Face(event)) => self.kernel_face(&event),
                Some(Heard::Stopped(why)) => {
                    tracing::error!("the kernel's forwarder has stopped: {why}");
                    return std::ops::ControlFlow::Break(());
                }
                None => {}
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    /// A face of a device has come or gone in the kernel.
    fn kernel_face(&mut self, event: &FaceEventNotification) {
        let mut replies = Vec::new();
        self.management.face_event(event, now(), &mut replies);
        self.reply(replies);
        if event.kind == FaceEventKind::Destroyed {
            self.neighbours.face_gone(event.face_id, now().ns);
            if let Some(links) = &self.links {
                links.orders.face_gone(event.face_id);
            }
        }
    }

    /// Makes the next chunks of the core's tables, so that no worker waits until one is cleared.
    fn grow(&self) {
        loop {
            match self.home.core.grow() {
                Ok(true) => {}
                Ok(false) => break,
                // Then packets that need one are dropped and counted.
                Err(error) => {
                    tracing::debug!("tables do not grow: {error}");
                    break;
                }
            }
        }
    }

    /// Makes a part of a dataset that is asked for; more of it after what has come meanwhile.
    fn produce(&mut self) {
        if self.management.is_producing() {
            self.inbox.handled();
            let mut replies = Vec::new();
            self.management.produce(self.home.control(), now(), &mut replies);
            self.reply(replies);
        }
    }

    /// Does what is due; returns how long nothing will be.
    fn sleep(&mut self) -> Duration {
        let (maker, sender, home) = (&self.maker, &self.sender, &self.home);
        let now_ns = now().ns;
        let next_ns = self.neighbours.tick(now_ns, &mut |key, spec| {
            let (sender, asker) = (sender.clone(), Asker::Neighbour(key.to_owned()));
            maker.make(home, spec, move |made| sender.send(Order::Made(asker, Box::new(made))))
        });
        let traces_ns = self.traces.tick(now_ns);
        let kernel_ns = self.home.kernel.as_ref().and_then(|kernel| kernel.tick(now_ns));
        let (have_gone, states_ns) = self.management.forget_states(now_ns);
        if have_gone {
            self.leftovers.note(now_ns);
        }
        let packets = || {
            let packets = self.home.core.counters().packets;
            packets.in_interests.wrapping_add(packets.in_data)
        };
        let leftovers_ns = self.leftovers.tick(now_ns, packets, || self.home.plane.wake_workers());
        let (origins, tables) = (&self.config.readvertise.origins, &*self.home.core);
        let later_ns = self.readvertiser.tick(origins, tables, now(), |command| {
            self.home.plane.inject(command, LpHeaders::default());
        });
        if self.management.is_producing() {
            return Duration::ZERO;
        }
        next_ns
            .into_iter()
            .chain(leftovers_ns)
            .chain(states_ns)
            .chain(later_ns)
            .chain(kernel_ns)
            .chain(traces_ns)
            .min()
            .map_or(SLEEP_MAX, |next_ns| Duration::from_nanos(next_ns.saturating_sub(now_ns)).min(SLEEP_MAX))
    }

    /// A packet for the router: an Interest of management, or a routing daemon's answer.
    fn packet(&mut self, packet: &ControlPacket) {
        if self.readvertiser.take_answer(&packet.packet, now().ns) {
            return;
        }
        let Some(face) = packet.incoming else { return };
        let requester = match packet.credentials {
            Some(peer) => Requester::User(peer.uid),
            None => match self.home.plane.owner(face) {
                Some(Ok(uid)) => Requester::Loopback(uid),
                Some(Err(why)) => Requester::Nameless(why),
                None => Requester::Unknown,
            },
        };
        let is_local = packet.is_local;
        let incoming =
            Incoming { interest: &packet.packet, face_id: self.home.number(face), is_local, requester };
        let mut replies = Vec::new();
        let neighbors = self.links.as_ref().map(|links| &links.view as &dyn namely_mgmt::Neighbors);
        let disk = self.disk.as_deref().map(|disk| disk as &dyn namely_mgmt::CsDisk);
        let vip = self.vip.as_ref().map(|plane| &plane.view as &dyn namely_mgmt::Vip);
        // The kernel's packets pass no worker.
        let traces = self.home.kernel.is_none().then_some(&self.traces as &dyn namely_mgmt::Traces);
        let control = Control { neighbors, disk, vip, traces, ..self.home.control() };
        let new_face = self.management.handle(incoming, control, now(), &mut replies);
        if let Some(new_face) = new_face {
            let (sender, ticket) = (self.sender.clone(), new_face.ticket);
            let done = move |made| sender.send(Order::Made(Asker::Command(ticket), Box::new(made)));
            if !self.maker.make(&self.home, new_face.spec, done) {
                let busy =
                    CreateFaceError::Failed("too many faces are being made just now: try again later".into());
                self.management.face_made(ticket, Err(busy), &mut replies);
            }
        }
        self.reply(replies);
        self.readvertiser.changed(now().ns);
    }

    fn face_event(&mut self, event: &FaceEventNotification) {
        let mut replies = Vec::new();
        self.management.face_event(event, now(), &mut replies);
        self.reply(replies);
        match event.kind {
            FaceEventKind::Created => {
                let control = self.home.control();
                autoreg::register(&self.config.autoreg, event, control, now().ns);
            }
            FaceEventKind::Destroyed => {
                self.traces.face_gone(event.face_id);
                if let Some(kernel) = &self.home.kernel {
                    kernel.face_gone(event.face_id, now().ns);
                }
                self.neighbours.face_gone(event.face_id, now().ns);
                if let Some(links) = &self.links {
                    links.orders.face_gone(event.face_id);
                }
                self.readvertiser.changed(now().ns);
            }
            FaceEventKind::Up | FaceEventKind::Down => {}
        }
    }

    /// Data has shown a route to its object, which its worker has entered. An announcement that is
    /// believed makes that a route to a whole prefix. What finds no room is shown again by later
    /// Data.
    fn learn(&mut self, Shown { face, object, announcement }: &Shown) {
        let (now, face) = (now(), *face);
        tracing::debug!(%object, face = face.0, "a route was learned");
        let is_announced = !announcement.is_empty();
        let announced = is_announced.then(|| self.management.shown(announcement, object, now)).flatten();
        if let Some(Announced { prefix, lifetime_ms }) = announced {
            match self.home.core.learn_announced(&prefix, face, lifetime_ms, now.ns) {
                // One route is enough.
                Ok(()) if prefix != *object => {
                    self.home.core.rib_unregister(object, face, RouteOrigin::PREFIX_ANNOUNCEMENT);
                }
                Ok(()) => {}
                Err(error) => tracing::debug!(%prefix, face = face.0, "no route was learned: {error}"),
            }
            self.home.plane.refresh_timers();
        }
    }

    /// Carries out the orders of other threads.
    fn handle_orders(&mut self) -> std::ops::ControlFlow<()> {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Stop => return std::ops::ControlFlow::Break(()),
                Order::Reload(reload) => {
                    let Reload { config, policy, neighbours, vip } = *reload;
                    self.reload(config, policy);
                    if let Some(links) = &self.links {
                        links.orders.configure(neighbours);
                    }
                    if let (Some(plane), Some(settings)) = (&self.vip, vip) {
                        plane.orders.exchange(settings);
                    }
                }
                Order::Counters(answer) => {
                    answer.try_send(self.management.own_counters()).ok();
                }
                Order::Answer(answer) => {
                    self.home.plane.answers();
                    // Whoever asked may have stopped waiting.
                    answer.try_send(()).ok();
                }
                Order::Made(Asker::Command(ticket), made) => {
                    let mut replies = Vec::new();
                    self.management.face_made(ticket, *made, &mut replies);
                    self.reply(replies);
                }
                Order::Made(Asker::Neighbour(key), made) => {
                    self.neighbours.made(&key, *made, self.home.control(), now().ns);
                }
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    fn reload(&mut self, config: Config, policy: Policy) {
        crate::log::set(&config.log.level, config.log.format);
        match &self.home.kernel {
            Some(kernel) => kernel.apply(&self.config, &config),
            None => config.apply(&self.config, &self.home.core),
        }
        if let Some(disk) = &self.disk {
            disk.apply(&config.cs.disk);
        }
        self.management.set_policy(policy);
        self.home.plane.explain_to_network(config.authorization.explain_to_network);
        self.neighbours.configure(&config, self.home.control(), now().ns);
        let restart = self.config.restart_needed(&config);
        tracing::info!("configuration reloaded");
        if !restart.is_empty() {
            tracing::warn!("these take effect with a restart only: {}", restart.join(", "));
        }
        self.config = config;
    }

    /// Sends answers on their way. They are not cached: the next request is to see the present
    /// state.
    fn reply(&self, replies: Vec<Vec<u8>>) {
        let headers = LpHeaders { cache_policy: Some(CACHE_POLICY_NO_CACHE), ..LpHeaders::default() };
        for reply in replies {
            self.home.plane.inject(reply, headers);
        }
    }
}

impl Home {
    /// What management acts on: the kernel's, where that forwards.
    fn control(&self) -> Control<'_> {
        match &self.kernel {
            Some(kernel) => {
                Control { faces: &**kernel, tables: &**kernel, ..nothing_else(&self.plane, &self.core) }
            }
            None => nothing_else(&self.plane, &self.core),
        }
    }

    /// The number by which everybody knows a face of the core.
    fn number(&self, face: FaceId) -> u64 {
        self.kernel.as_ref().and_then(|kernel| kernel.number(face)).unwrap_or(face.0)
    }
}

/// Faces and tables, and nothing that some routers have only.
fn nothing_else<'a>(faces: &'a DataPlane, tables: &'a Core) -> Control<'a> {
    Control { faces, tables, neighbors: None, disk: None, vip: None, traces: None }
}

/// The time on both clocks. The first is the data plane's.
pub(crate) fn now() -> Now {
    Now { ns: clock::monotonic_ns(), unix_ms: clock::unix_ms() }
}

//! The control thread: runs management, the configured faces and routes, and reloads.
//!
//! It sleeps until an event: an Interest for management, a change of a face, a new face, a reload,
//! or the stop. None of this runs on a data-plane thread, and no such thread waits for it.

mod autoreg;
mod face_maker;
mod leftovers;
mod neighbours;
mod orders;

use std::sync::mpsc::Receiver;
use std::time::Duration;

use namely_host::clock;
use namely_messages::{FaceEventKind, FaceEventNotification, RouteOrigin};
use namely_mgmt::{Announced, CreateFaceError, Incoming, Management, Now, Policy, Requester};
use namely_wire::{CACHE_POLICY_NO_CACHE, LpHeaders};

use self::face_maker::FaceMaker;
use self::leftovers::SpareReclaimer;
use self::neighbours::Neighbours;
use self::orders::FaceRequester;
pub(crate) use self::orders::{Order, OrderSender, Reload};
use crate::accepted_commands::AcceptedCommandsFile;
use crate::config::Config;
use crate::home::RouterHandle;
use crate::services::{Notice, Services};
use namely_dataplane::{ControlEvent, ControlPacket, Inbox, InboxError, LearnedRoute};

/// Maximum duration of one sleep. No timer depends on it; it only bounds the wait.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// The control thread's state.
pub(crate) struct ControlThread {
    home: RouterHandle,
    inbox: Inbox,
    orders: Receiver<Order>,
    sender: OrderSender,
    management: Management,
    neighbours: Neighbours,
    maker: FaceMaker,
    leftovers: SpareReclaimer,
    services: Services,
    config: Config,
}

impl ControlThread {
    /// Starts to record accepted commands in this file.
    pub(crate) fn record_accepted(&mut self, taken: AcceptedCommandsFile, start: Now) {
        let (store, former) = taken.into_parts();
        if let Err(error) = self.management.record_accepted(store, &former, start) {
            tracing::warn!(%error, "accepted commands are not recorded");
        }
    }

    /// The control thread of a router with `config`; `sender` sends to `orders`.
    pub(crate) fn new(
        home: RouterHandle,
        services: Services,
        inbox: Inbox,
        sender: OrderSender,
        orders: Receiver<Order>,
        config: Config,
        management: Management,
    ) -> Self {
        ControlThread {
            management,
            maker: FaceMaker::default(),
            neighbours: Neighbours::default(),
            leftovers: SpareReclaimer::default(),
            home,
            services,
            inbox,
            orders,
            sender,
            config,
        }
    }

    /// Runs until the stop order, or until the data plane has stopped.
    pub(crate) fn run(mut self) {
        self.neighbours.configure(&self.config, self.home.control(), now().ns);
        self.grow();
        // The start has freed much: the arguments, the configuration, the checks of both.
        self.leftovers.note(now().ns);
        loop {
            let sleep = self.sleep();
            let next = self.inbox.next(sleep);
            if matches!(next, Ok(ControlEvent::Packet(_) | ControlEvent::Face(_))) {
                self.leftovers.note(now().ns);
            }
            match next {
                Ok(ControlEvent::Packet(packet)) => self.packet(&packet),
                Ok(ControlEvent::Face(event)) => self.face_event(&event),
                Ok(ControlEvent::Learned(route)) => self.learn(&route),
                Ok(ControlEvent::Woken) => {
                    if self.handle_orders().is_break() || self.handle_notices().is_break() {
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

    fn notice(&self) -> Option<Notice> {
        self.services.iter().find_map(|service| service.notice(&self.home, now().ns))
    }

    /// Handles the notices of services.
    fn handle_notices(&mut self) -> std::ops::ControlFlow<()> {
        while let Some(notice) = self.notice() {
            match notice {
                Notice::Face(event) => self.face_changed(&event),
                Notice::Fatal(why) => {
                    tracing::error!("{why}");
                    return std::ops::ControlFlow::Break(());
                }
                Notice::Drained => return std::ops::ControlFlow::Break(()),
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    /// Grows the core's tables in advance, so that no worker waits until a new chunk is cleared.
    fn grow(&self) {
        loop {
            match self.home.core.grow() {
                Ok(true) => {}
                Ok(false) => break,
                // Packets that need a new chunk are then dropped and counted.
                Err(error) => {
                    tracing::debug!("tables do not grow: {error}");
                    break;
                }
            }
        }
    }

    /// Produces the next part of a requested dataset. Waiting events are handled before the part
    /// after it.
    fn produce(&mut self) {
        if self.management.is_producing() {
            self.inbox.handled();
            let mut replies = Vec::new();
            self.management.produce(self.home.control(), now(), &mut replies);
            self.reply(replies);
        }
    }

    /// Runs the timers that are due. Returns the time until the next one.
    fn sleep(&mut self) -> Duration {
        let (maker, sender, home) = (&self.maker, &self.sender, &self.home);
        let now_ns = now().ns;
        let next_ns = self.neighbours.tick(now_ns, &mut |key, spec| {
            let (sender, asker) = (sender.clone(), FaceRequester::Neighbour(key.to_owned()));
            maker.make(home, spec, move |made| sender.send(Order::Made(asker, Box::new(made))))
        });
        let control = self.home.control();
        let names_ns = self.neighbours.check_names(now_ns, control, &mut |key, endpoint| {
            let (sender, key) = (sender.clone(), key.to_owned());
            maker.look_up(endpoint, move |found| sender.send(Order::LookedUp(key, found)))
        });
        let services_ns = self.services.iter().filter_map(|service| service.tick(home, now())).min();
        let (have_gone, states_ns) = self.management.forget_states(now_ns);
        if have_gone {
            self.leftovers.note(now_ns);
        }
        let packets = || {
            let packets = self.home.core.counters().packets;
            packets.in_interests.wrapping_add(packets.in_data)
        };
        let leftovers_ns = self.leftovers.tick(now_ns, packets, || self.home.plane.wake_workers());
        if self.management.is_producing() {
            return Duration::ZERO;
        }
        next_ns
            .into_iter()
            .chain(leftovers_ns)
            .chain(names_ns)
            .chain(states_ns)
            .chain(services_ns)
            .min()
            .map_or(SLEEP_MAX, |next_ns| Duration::from_nanos(next_ns.saturating_sub(now_ns)).min(SLEEP_MAX))
    }

    /// Handles a packet for the router: an Interest for management, or an answer of a routing
    /// daemon.
    fn packet(&mut self, packet: &ControlPacket) {
        if self.services.iter().any(|service| service.take_packet(&packet.packet, now().ns)) {
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
        let control = self.services.control(&self.home);
        let new_face = self.management.handle(incoming, control, now(), &mut replies);
        if let Some(new_face) = new_face {
            let (sender, ticket) = (self.sender.clone(), new_face.ticket);
            let done = move |made| sender.send(Order::Made(FaceRequester::Command(ticket), Box::new(made)));
            if !self.maker.make(&self.home, new_face.spec, done) {
                let busy =
                    CreateFaceError::Failed("too many faces are being made just now: try again later".into());
                self.management.face_made(ticket, Err(busy), &mut replies);
            }
        }
        self.reply(replies);
        self.services.iter().for_each(|service| service.management_handled(now().ns));
    }

    fn face_event(&mut self, event: &FaceEventNotification) {
        self.face_changed(event);
        if event.kind == FaceEventKind::Created {
            autoreg::register(&self.config.autoreg, event, self.home.control(), now().ns);
        }
    }

    /// Handles a new, closed or changed face. Management reports it, and the control thread checks
    /// again that every configured face exists.
    fn face_changed(&mut self, event: &FaceEventNotification) {
        let mut replies = Vec::new();
        self.management.face_event(event, now(), &mut replies);
        self.reply(replies);
        self.services.iter().for_each(|service| service.face_event(&self.home, event, now().ns));
        if event.kind == FaceEventKind::Destroyed {
            self.management.face_closed(event.face_id, self.home.control().tables);
            self.neighbours.face_closed(event.face_id, now().ns);
        }
    }

    /// Handles a route learned from Data. The worker has already entered the route to the object. A
    /// trusted announcement replaces it by a route to a whole prefix. If the table refuses a route,
    /// later Data is reported again.
    fn learn(&mut self, LearnedRoute { face, object, announcement }: &LearnedRoute) {
        let (now, face) = (now(), *face);
        tracing::debug!(%object, face = face.0, "a route was learned");
        let is_announced = !announcement.is_empty();
        let announced = is_announced.then(|| self.management.shown(announcement, object, now)).flatten();
        if let Some(Announced { prefix, lifetime_ms }) = announced {
            match self.home.core.learn_announced(&prefix, face, lifetime_ms, now.ns) {
                // The route to the whole prefix is sufficient.
                Ok(()) if prefix != *object => {
                    self.home.core.rib_unregister(object, face, RouteOrigin::PREFIX_ANNOUNCEMENT);
                }
                Ok(()) => {}
                Err(error) => tracing::debug!(%prefix, face = face.0, "no route was learned: {error}"),
            }
            self.home.plane.refresh_timers();
        }
    }

    /// Executes the orders of other threads.
    fn handle_orders(&mut self) -> std::ops::ControlFlow<()> {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Stop => return std::ops::ControlFlow::Break(()),
                Order::Drain => {
                    self.services.iter().for_each(|service| service.drain(&self.home, now().ns));
                }
                Order::Reload(reload) => self.reload(*reload),
                Order::Counters(answer) => {
                    answer.try_send(self.management.own_counters()).ok();
                }
                Order::Answer(answer) => {
                    self.home.plane.answers();
                    // The requester may have stopped waiting.
                    answer.try_send(()).ok();
                }
                Order::Made(FaceRequester::Command(ticket), made) => {
                    let mut replies = Vec::new();
                    self.management.face_made(ticket, *made, &mut replies);
                    self.reply(replies);
                }
                Order::LookedUp(key, found) => {
                    self.neighbours.looked_up(&key, found, self.home.control());
                }
                Order::Made(FaceRequester::Neighbour(key), made) => {
                    self.neighbours.made(&key, *made, self.home.control(), now().ns);
                }
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    fn reload(&mut self, Reload { config, policy }: Reload) {
        crate::log::set(&config.log.level, config.log.format);
        self.home.apply(&self.config, &config);
        self.management.set_policy(policy);
        self.home.plane.explain_to_network(config.authorization.explain_to_network);
        self.neighbours.configure(&config, self.home.control(), now().ns);
        let restart = self.config.restart_needed(&config);
        tracing::info!("configuration reloaded");
        if !restart.is_empty() {
            tracing::warn!("these take effect only after a restart: {}", restart.join(", "));
        }
        // The services' log lines about their changes follow the line above. This thread also runs
        // management, so no command meets a partly applied configuration.
        self.services.iter().for_each(|service| service.apply(&config));
        self.config = config;
    }

    /// Sends answers. They are not cached, because the next request must receive the current state.
    fn reply(&self, replies: Vec<Vec<u8>>) {
        let headers = LpHeaders { cache_policy: Some(CACHE_POLICY_NO_CACHE), ..LpHeaders::default() };
        for reply in replies {
            self.home.plane.inject(reply, headers);
        }
    }
}

/// Management of a router that started at `start`.
pub(crate) fn management(policy: Policy, start: Now) -> Management {
    Management::new(concat!("namely-", env!("CARGO_PKG_VERSION")), policy, start)
}

/// The time on both clocks. The first is the data plane's.
pub(crate) fn now() -> Now {
    Now { ns: clock::monotonic_ns(), unix_ms: clock::unix_ms() }
}

//! The thread of VIP. It carries out the actions of the state machine of `namely_vip`.
//!
//! It has its own face. Only this thread makes and checks signatures; neither a worker nor the
//! control thread waits for that, or for a slot. Management reads a copy of the state, which is
//! updated after changes.

mod catalogue;
mod disk;
mod plane;
mod view;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use namely_forwarder::FaceId;
use namely_host::clock;
use namely_messages::Counter;
use namely_mgmt::Control;
use namely_security::{Signer, sign_data, sign_interest};
use namely_vip::{Action, PacketDecision};
use namely_wire::{CACHE_POLICY_NO_CACHE, DataBuilder, InterestBuilder, LpHeaders, Name};

use self::plane::Settings;
use self::plane::VipState;
use self::view::View;
use crate::config::{Config, ConfigError, Trust};
use crate::exit::Failure;
use crate::home::RouterHandle;
use crate::key::{folder, is_signed_by};
use crate::services::{Service, ServiceCounters, StartContext};
use crate::threads::Thread;
use namely_dataplane::{DataPlane, VipEvent, VipInbox};
use parking_lot::Mutex;

/// HopLimit of this thread's requests. The router decrements it once, so the neighbor receives 1.
const HOP_LIMIT: u8 = 2;

/// Minimum time between two copies for management, ns.
const SHOW_PAUSE_NS: u64 = 50_000_000;

/// Orders to the thread of VIP.
enum Order {
    /// Continue with other settings.
    Exchange(Box<Settings>),
    /// Stop.
    Stop,
}

/// The handle of the thread.
struct Running {
    orders: Sender<Order>,
    inbox: Arc<VipInbox>,
    view: View,
    thread: Thread,
}

/// Reads the files of `[vip]`.
///
/// # Errors
/// [`ConfigError`]: contains the file, the line and a hint.
fn read(config: &Config) -> Result<Option<Settings>, ConfigError> {
    let Some(vip) = &config.vip else { return Ok(None) };
    if vip.trust == Trust::Signed && folder(config).is_none() {
        return Err(
            "vip: neighbours could not know a key that is new with each start: name a folder that keeps it, \
             `key_chain` under [discovery] (or `trust = \"open\"` under [vip], in a lab)"
                .to_owned()
                .into(),
        );
    }
    vip.check_disk(&config.cs.disk)?;
    Settings::read(vip).map(Some)
}

/// VIP as a service.
#[derive(Default)]
pub(crate) struct VirtualPlane {
    running: OnceLock<Running>,
    /// Settings of the configuration that was checked last and is not applied yet.
    read: Mutex<Option<Settings>>,
}

impl Service for VirtualPlane {
    /// Reads the catalogue on the caller's thread, because it would block the control thread for
    /// too long.
    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        *self.read.lock() = read(config)?;
        Ok(())
    }

    fn start(&self, start: &StartContext<'_>) -> Result<(), Failure> {
        self.check(start.config)?;
        if let Some(settings) = self.read.lock().take() {
            let _ = self.running.set(Running::start(settings, start)?);
        }
        Ok(())
    }

    fn apply(&self, _: &Config) {
        if let (Some(running), Some(settings)) = (self.running.get(), self.read.lock().take()) {
            running.send(Order::Exchange(Box::new(settings)));
        }
    }

    fn datasets<'a>(&'a self, control: &mut Control<'a>) {
        control.vip = self.running.get().map(|running| &running.view as &dyn namely_mgmt::Vip);
    }

    fn measure(&self, measures: &mut ServiceCounters) {
        let counters = self
            .running
            .get()
            .into_iter()
            .flat_map(|running| namely_mgmt::Vip::status(&running.view).counters);
        measures.counters.extend(counters.map(|of| Counter::new(format!("vip.{}", of.label), of.value)));
    }

    fn stop(&self) {
        if let Some(running) = self.running.get() {
            running.send(Order::Stop);
            running.thread.join();
        }
    }
}

impl Running {
    /// Starts the plane.
    ///
    /// # Errors
    /// [`Failure`]: the catalogue is wrong, or an error of the system.
    fn start(settings: Settings, start: &StartContext<'_>) -> Result<Self, Failure> {
        let RouterHandle { plane, core, .. } = start.home;
        let (key, signer) = start.key.signer()?;
        let boot = namely_host::random().map_err(Failure::system("no random numbers"))?;
        let inbox = plane.make_vip_face().map_err(Failure::system("no face for VIP"))?;
        let prefix =
            ["localhop", "ndn", "vip"].iter().fold(Name::new(), |name, part| name.join_generic(part));
        core.fib()
            .add_nexthop(prefix.as_name(), inbox.face(), 0)
            .map_err(Failure::system("no route for VIP"))?;
        let boot = u64::from_ne_bytes(boot);
        let machine = VipState::new(settings, boot, core.clone(), plane.clone(), start.disk)?;
        warn_if_open(machine.settings.config.trust);
        let view = View::new(&machine, key, inbox.clone());
        let (sender, orders) = channel();
        let counts = vec![RefusalCounts::default(); machine.faces.len()];
        let thread = VipThread {
            machine,
            plane: plane.clone(),
            inbox: inbox.clone(),
            signer,
            orders,
            view: view.clone(),
            time_ms: 0,
            refused: counts,
        };
        let thread = Thread::start("namely-vip", move || thread.run())
            .map_err(Failure::system("no thread for VIP"))?;
        Ok(Running { orders: sender, inbox, view, thread })
    }

    fn send(&self, order: Order) {
        // If the thread has stopped, the order is dropped.
        if self.orders.send(order).is_ok() {
            self.inbox.wake();
        }
    }
}

fn warn_if_open(trust: Trust) {
    if trust == Trust::Open {
        tracing::warn!("VIP is OPEN: unsigned messages on a neighbor's face are accepted");
    }
}

/// Number of refused packets of a neighbor.
#[derive(Clone, Copy, Debug, Default)]
struct RefusalCounts {
    /// Packets refused before the check of the signature.
    dropped: u64,
    /// Packets refused for their signature.
    bad_signature: u64,
}

/// The thread's state.
struct VipThread {
    machine: VipState,
    plane: Arc<DataPlane>,
    inbox: Arc<VipInbox>,
    signer: Signer,
    orders: Receiver<Order>,
    view: View,
    /// The last signing time. The next one is later even if the clock goes backwards.
    time_ms: u64,
    refused: Vec<RefusalCounts>,
}

impl VipThread {
    fn run(mut self) {
        let mut actions = Vec::new();
        let mut published_ns = 0;
        self.update_routes();
        loop {
            let now_ns = clock::monotonic_ns();
            self.machine.read_demand();
            if let Err(error) = self.machine.choose(now_ns) {
                tracing::error!(%error, "the old blocks stay registered");
            }
            let due_ns = self.machine.vip.tick(now_ns, wall_us(), &mut actions);
            if self.machine.follow() {
                self.update_routes();
            }
            self.carry_out(&mut actions);
            self.show();
            let due = Instant::now() + Duration::from_nanos(due_ns.saturating_sub(clock::monotonic_ns()));
            loop {
                match self.inbox.next(due) {
                    VipEvent::Packet(neighbour, packet) => {
                        self.receive(neighbour, &packet, &mut actions);
                        self.carry_out(&mut actions);
                        if clock::monotonic_ns().saturating_sub(published_ns) >= SHOW_PAUSE_NS {
                            self.show();
                            published_ns = clock::monotonic_ns();
                        }
                    }
                    VipEvent::Woken => {
                        if self.handle_orders().is_break() {
                            return;
                        }
                        break;
                    }
                    VipEvent::Due => break,
                }
            }
        }
    }

    fn handle_orders(&mut self) -> std::ops::ControlFlow<()> {
        while let Ok(order) = self.orders.try_recv() {
            let settings = match order {
                Order::Stop => return std::ops::ControlFlow::Break(()),
                Order::Exchange(settings) => settings,
            };
            let (version, blocks) = (settings.loaded.version, settings.loaded.blocks().len());
            match self.machine.exchange(*settings) {
                Ok(()) => tracing::info!(version, blocks, "the catalogue is in force"),
                Err(error) => tracing::error!(%error, "the old catalogue stays in force"),
            }
            warn_if_open(self.machine.settings.config.trust);
            self.refused = vec![RefusalCounts::default(); self.machine.faces.len()];
            self.update_routes();
        }
        std::ops::ControlFlow::Continue(())
    }

    fn update_routes(&mut self) {
        self.machine.update_routes();
        self.inbox.set_neighbours(&self.machine.faces);
    }

    fn show(&self) {
        self.view.show(&self.machine, &self.refused);
    }

    fn receive(&mut self, neighbour: usize, packet: &[u8], actions: &mut Vec<Action>) {
        let VipState { vip, settings, .. } = &mut self.machine;
        let Some(refused) = self.refused.get_mut(neighbour) else { return };
        match vip.look(neighbour, packet, clock::monotonic_ns()) {
            PacketDecision::Drop => return refused.dropped += 1,
            PacketDecision::Accept => {}
            PacketDecision::Verify => {
                let is_open = settings.config.trust == Trust::Open;
                let key = settings.keys.get(neighbour).and_then(Option::as_ref);
                if !key.map_or(is_open, |key| is_signed_by(packet, key)) {
                    refused.bad_signature += 1;
                    return vip.bad_signature();
                }
            }
        }
        vip.receive(neighbour, packet, clock::monotonic_ns(), wall_us(), actions);
    }

    fn carry_out(&mut self, actions: &mut Vec<Action>) {
        for action in actions.drain(..) {
            // If the library fails to sign, nothing is sent, and the neighbor repeats its request.
            match action {
                Action::Request { neighbour, name, parameters, lifetime_ms } => {
                    let Some(face) = self.machine.faces.get(neighbour).copied().flatten() else { continue };
                    if let Some(packet) = self.request(name, parameters, lifetime_ms) {
                        self.send(packet, Some(face));
                    }
                }
                Action::Answer { name, content, last_segment, .. } => {
                    let mut builder = DataBuilder::new(name.as_name());
                    let last = last_segment.map(|last| Name::new().join_segment(last));
                    if let Some(last) = last.as_ref().and_then(|last| last.as_name().last()) {
                        builder = builder.final_block_id(last);
                    }
                    if let Ok(packet) = sign_data(&builder, &content, &self.signer) {
                        self.send(packet, None);
                    }
                }
            }
        }
    }

    fn request(&mut self, name: Name, parameters: Option<Vec<u8>>, lifetime_ms: u64) -> Option<Vec<u8>> {
        let builder = InterestBuilder::new(name).lifetime_ms(lifetime_ms).hop_limit(HOP_LIMIT);
        let builder = builder.nonce(namely_host::random().ok()?);
        self.time_ms = clock::unix_ms().max(self.time_ms + 1);
        match parameters {
            Some(parameters) => sign_interest(&builder, &parameters, &self.signer, self.time_ms).ok(),
            None => Some(builder.build()),
        }
    }

    fn send(&self, packet: Vec<u8>, to: Option<FaceId>) {
        let headers = LpHeaders {
            next_hop_face_id: to.map(|face| face.0),
            cache_policy: to.is_none().then_some(CACHE_POLICY_NO_CACHE),
            ..LpHeaders::default()
        };
        self.plane.inject_from(self.inbox.face(), packet, headers);
    }
}

/// The time since 1970, us.
fn wall_us() -> u64 {
    clock::unix_ns() / 1000
}

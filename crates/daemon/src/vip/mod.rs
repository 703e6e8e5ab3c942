//! The thread of VIP: what the state machine of `namely_vip` wants, it carries out.
//!
//! It has a face of its own. Signatures are made and checked here and nowhere else; neither a
//! worker nor the control thread waits for that, or for a slot. What management shows is a copy,
//! made when something has changed.

mod catalogue;
mod disk;
mod plane;
mod view;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use namely_forwarder::FaceId;
use namely_host::clock;
use namely_mgmt::Control;
use namely_security::{Signer, sign_data, sign_interest};
use namely_vip::{Action, Look};
use namely_wire::mgmt::Counter;
use namely_wire::{CACHE_POLICY_NO_CACHE, DataBuilder, InterestBuilder, LpHeaders, Name};

use self::plane::Machine;
use self::plane::Settings;
use self::view::View;
use crate::config::{Config, Trust};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::key::{folder, is_signed_by};
use crate::services::{Measures, Service, Start};
use crate::threads::Thread;
use namely_dataplane::{DataPlane, VipEvent, VipInbox};
use parking_lot::Mutex;

/// HopLimit of a request as it leaves the thread: the router takes one away, and one is left for
/// the neighbour.
const HOP_LIMIT: u8 = 2;

/// Shortest time between two copies for management, ns.
const SHOW_PAUSE_NS: u64 = 50_000_000;

/// What other threads tell the thread of VIP.
enum Order {
    /// Go on with other settings.
    Exchange(Box<Settings>),
    /// End.
    Stop,
}

/// The thread, seen from others.
struct Running {
    orders: Sender<Order>,
    inbox: Arc<VipInbox>,
    view: View,
    thread: Thread,
}

/// Reads the files that `[vip]` names.
///
/// # Errors
/// The file, the line and the remedy, as text.
fn read(config: &Config) -> Result<Option<Settings>, String> {
    let Some(vip) = &config.vip else { return Ok(None) };
    if vip.trust == Trust::Signed && folder(config).is_none() {
        return Err("vip: neighbours could not know a key that is new with each start: name a folder that \
                    keeps it, `key_chain` under [discovery] (or `trust = \"open\"` under [vip], in a lab)"
            .into());
    }
    vip.check_disk(&config.cs.disk)?;
    Settings::read(vip).map(Some)
}

/// VIP as a service.
#[derive(Default)]
pub(crate) struct VirtualPlane {
    running: OnceLock<Running>,
    /// Settings of the configuration that was checked last and is not in force yet.
    read: Mutex<Option<Settings>>,
}

impl Service for VirtualPlane {
    /// Reads the catalogue, which the control thread has no time for.
    fn check(&self, config: &Config) -> Result<(), String> {
        *self.read.lock() = read(config)?;
        Ok(())
    }

    fn start(&self, start: &Start<'_>) -> Result<(), Failure> {
        self.check(start.config).map_err(|why| Failure::new(Exit::Configuration, why))?;
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

    fn measure(&self, measures: &mut Measures) {
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
    /// [`Failure`]: its catalogue is wrong, or the system refuses.
    fn start(settings: Settings, start: &Start<'_>) -> Result<Self, Failure> {
        let failed = |why: String| Failure::new(Exit::Failed, why);
        let Home { plane, core, .. } = start.home;
        let (key, signer) = start.key.signer().map_err(failed)?;
        let boot = namely_host::random().map_err(|errno| failed(format!("no random numbers: {errno}")))?;
        let inbox = plane.make_vip_face().map_err(|error| failed(format!("no face for VIP: {error}")))?;
        let prefix =
            ["localhop", "ndn", "vip"].iter().fold(Name::new(), |name, part| name.join_generic(part));
        core.fib()
            .add_nexthop(prefix.as_name(), inbox.face(), 0)
            .map_err(|error| failed(format!("no route for VIP: {error}")))?;
        let boot = u64::from_ne_bytes(boot);
        let machine = Machine::new(settings, boot, core.clone(), plane.clone(), start.disk)
            .map_err(|why| Failure::new(Exit::Configuration, why))?;
        warn_if_open(machine.settings.config.trust);
        let view = View::new(&machine, key, inbox.clone());
        let (sender, orders) = channel();
        let counts = vec![Refused::default(); machine.faces.len()];
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
            .map_err(|error| failed(format!("no thread for VIP: {error}")))?;
        Ok(Running { orders: sender, inbox, view, thread })
    }

    fn send(&self, order: Order) {
        // A thread that has ended takes none.
        if self.orders.send(order).is_ok() {
            self.inbox.wake();
        }
    }
}

fn warn_if_open(trust: Trust) {
    if trust == Trust::Open {
        tracing::warn!("VIP is OPEN: what comes by a neighbour's face is believed without a signature");
    }
}

/// What of a neighbour's packets was refused.
#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    /// Before the signature was looked at.
    dropped: u64,
    /// Because of it.
    bad_signature: u64,
}

/// The thread's state.
struct VipThread {
    machine: Machine,
    plane: Arc<DataPlane>,
    inbox: Arc<VipInbox>,
    signer: Signer,
    orders: Receiver<Order>,
    view: View,
    /// The time of what was signed last: the next is later, whatever the clock does.
    time_ms: u64,
    refused: Vec<Refused>,
}

impl VipThread {
    fn run(mut self) {
        let mut actions = Vec::new();
        let mut shown_ns = 0;
        self.look_at_routes();
        loop {
            let now_ns = clock::monotonic_ns();
            self.machine.read_demand();
            if let Err(error) = self.machine.choose(now_ns) {
                tracing::error!("the blocks before stay registered: {error}");
            }
            let due_ns = self.machine.vip.tick(now_ns, wall_us(), &mut actions);
            if self.machine.follow() {
                self.look_at_routes();
            }
            self.carry_out(&mut actions);
            self.show();
            let due = Instant::now() + Duration::from_nanos(due_ns.saturating_sub(clock::monotonic_ns()));
            loop {
                match self.inbox.next(due) {
                    VipEvent::Packet(neighbour, packet) => {
                        self.hear(neighbour, &packet, &mut actions);
                        self.carry_out(&mut actions);
                        if clock::monotonic_ns().saturating_sub(shown_ns) >= SHOW_PAUSE_NS {
                            self.show();
                            shown_ns = clock::monotonic_ns();
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
                Ok(()) => tracing::info!("catalogue version {version} is in force: {blocks} blocks"),
                Err(error) => tracing::error!("the catalogue before stays: {error}"),
            }
            warn_if_open(self.machine.settings.config.trust);
            self.refused = vec![Refused::default(); self.machine.faces.len()];
            self.look_at_routes();
        }
        std::ops::ControlFlow::Continue(())
    }

    fn look_at_routes(&mut self) {
        self.machine.look_at_routes();
        self.inbox.set_neighbours(&self.machine.faces);
    }

    fn show(&self) {
        self.view.show(&self.machine, &self.refused);
    }

    fn hear(&mut self, neighbour: usize, packet: &[u8], actions: &mut Vec<Action>) {
        let Machine { vip, settings, .. } = &mut self.machine;
        let Some(refused) = self.refused.get_mut(neighbour) else { return };
        match vip.look(neighbour, packet, clock::monotonic_ns()) {
            Look::Drop => return refused.dropped += 1,
            Look::Take => {}
            Look::Verify => {
                let is_open = settings.config.trust == Trust::Open;
                let key = settings.keys.get(neighbour).and_then(Option::as_ref);
                if !key.map_or(is_open, |key| is_signed_by(packet, key)) {
                    refused.bad_signature += 1;
                    return vip.bad_signature();
                }
            }
        }
        vip.hear(neighbour, packet, clock::monotonic_ns(), wall_us(), actions);
    }

    fn carry_out(&mut self, actions: &mut Vec<Action>) {
        for action in actions.drain(..) {
            // What the library refuses to sign is not sent: the neighbour asks again.
            match action {
                Action::Ask { neighbour, name, parameters, lifetime_ms } => {
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

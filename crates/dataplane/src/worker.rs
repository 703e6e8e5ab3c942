//! A worker's thread: it handles frames, events and commands.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

use namely_forwarder::{Batch, FaceId, Received};
use namely_host::shares::Owner;
use namely_io::{CloseReason, DropCounters, Event, FaceSnapshot, FaceTag, Faces, Handler, OpenError};
use namely_link::{CodelConfig, LinkConfig, LinkKind, LinkSender, Outbound};
use namely_messages::{FaceEventKind, FacePersistency, FaceStatus};
use namely_mgmt::{CreateFaceError, FaceSettings, FaceSpec};
use namely_nnet::Socket;
use namely_wire::{FaceUri, LpHeaders};

use crate::command::{Command, Reply};
use crate::disk::{DiskAccess, WorkerDisk};
use crate::dispatcher::{Dispatched, Dispatcher, Queue};
use crate::labels::listener;
use crate::relay;
use crate::shared::{DataPlaneShared, FaceSender};
use crate::sink::{Egress, Sink};
use crate::trace::{self, PacketTrace, Traces};
use crate::variant::{QueueFull, TAKEN_PER_ITERATION, WorkerVariant};
use crate::{ListenError, ListenSpec, Packet, packet};

pub(super) type Io = Faces<Worker>;

/// Time for which a worker leaves the core's due work to another worker, ns. A pending Interest
/// outlives its lifetime by at most this.
const EXPIRY_SLACK_NS: u64 = 1_000_000;

/// Interval at which an active worker shares its spare buffers, ns.
const SHARE_PAUSE_NS: u64 = 1_000_000_000;

pub(super) struct Worker {
    shared: Arc<DataPlaneShared>,
    /// Persistent faces that wait for their peer.
    connecting: Vec<ConnectingFace>,
    egress: Egress,
    dispatcher: Dispatcher,
    /// Room for packets that others have dispatched here.
    taken: Vec<Dispatched>,
    /// Packets that were read in this iteration and are not processed yet.
    batch: Batch<Packet>,
    /// The time for which this worker has set its timer for the core's work.
    expire_due_ns: Option<u64>,
    /// Whether packets were forwarded since the core last reported its due time.
    is_expire_stale: bool,
    /// When this worker, if it is active, next shares its spare buffers.
    share_ns: u64,
    /// The content store's disk, if it has one.
    disk: Option<WorkerDisk>,
    /// Whether some packets are not passed to the forwarder at once, or are traced.
    is_diverted: bool,
    /// The active traces.
    traces: Traces,
    /// The ports to the kernel of the faces whose packets were relayed, if the kernel forwards.
    to_kernel: HashMap<FaceId, Arc<FaceSender>>,
}

struct ConnectingFace {
    port: Arc<FaceSender>,
    spec: FaceSpec,
    reply: Reply<Result<FaceStatus, CreateFaceError>>,
}

impl Worker {
    pub(super) fn new(
        shared: Arc<DataPlaneShared>,
        dispatcher: Dispatcher,
        disk: Option<WorkerDisk>,
    ) -> Self {
        Worker {
            connecting: Vec::new(),
            is_diverted: diverts(&shared, &dispatcher, disk.as_ref()),
            traces: Traces::new(),
            to_kernel: HashMap::new(),
            egress: Egress::new(shared.clone()),
            shared,
            dispatcher,
            taken: Vec::new(),
            batch: Batch::new(),
            expire_due_ns: None,
            is_expire_stale: false,
            share_ns: 0,
            disk,
        }
    }

    /// Returns the worker that the dispatcher chooses for a packet; `None` for this worker. Packets
    /// of a face that is not dispatched stay with this worker.
    fn dispatched_to(&mut self, face: FaceId, packet: &Packet) -> Option<usize> {
        let is_dispatched = self.egress.ports.get(face).is_some_and(|port| port.is_dispatched());
        if is_dispatched { self.dispatcher.choose(packet) } else { None }
    }

    /// Handles a packet if some packets are handed to another worker, or wait for this one.
    fn divert(&mut self, io: &mut Io, face: FaceId, received: Received<Packet>) {
        if self.shared.relay.is_some() {
            return self.relay(io, face, received);
        }
        if self.dispatcher.is_on()
            && let Some(worker) = self.dispatched_to(face, &received.packet)
        {
            let ports = &mut self.egress.ports;
            let packet = (face, received);
            self.dispatcher.add(&self.shared.queues, worker, packet, &mut |face| ports.drop_one(face));
            return;
        }
        let put = match self.variant() {
            Some(variant) => variant.put(face, received),
            None => Ok(Some(received)),
        };
        match put {
            Ok(Some(received)) => self.pass(io, face, received),
            Ok(None) => {}
            Err(QueueFull) => self.egress.ports.drop_one(face),
        }
    }

    /// Relays a packet if the kernel forwards: to the kernel, or from the kernel to its face.
    fn relay(&mut self, io: &mut Io, face: FaceId, received: Received<Packet>) {
        let Received { packet, headers } = received;
        let outbound = |packet| Outbound { headers, packet, hop_limit: None };
        // Packets that find no room are counted at the port.
        if let Some(face) = relay::face_of(face) {
            if let Some(port) = self.egress.ports.get(face) {
                let _ = io.send(port, outbound(packet));
            }
            return;
        }
        match self.kernel_face_sender(face).filter(|_| !relay::is_for_management(&packet)) {
            Some(port) => drop(io.send(&port, outbound(packet))),
            // A packet for management, or from the face by which the kernel's applications reach
            // it.
            None => self.forward(io, face, Received { packet, headers }),
        }
    }

    fn kernel_face_sender(&mut self, face: FaceId) -> Option<Arc<FaceSender>> {
        if let Some(port) = self.to_kernel.get(&face).filter(|port| !port.is_closed()) {
            return Some(port.clone());
        }
        let port = self.shared.relay.as_ref()?.port(face)?;
        // Cached, because the relay has a lock that all workers share.
        self.to_kernel.insert(face, port.clone());
        Some(port)
    }

    /// Serves the kernel's socket of a new face.
    fn join_kernel(&mut self, io: &mut Io, face: FaceId, holder: Owner) -> Result<(), CreateFaceError> {
        let Some(relay) = &self.shared.relay else { return Ok(()) };
        let Some(socket) = relay.to_serve(face) else { return Ok(()) };
        let port = io.open_packets(socket, holder).map_err(failure)?;
        let options = &self.shared.options;
        let config = LinkConfig {
            // The link to the kernel loses no packet.
            codel: CodelConfig { drops: false, ..options.codel },
            reassembly: options.io.reassembly,
            ..LinkConfig::new(LinkKind::Stream)
        };
        port.set_link(LinkSender::new(config, 0));
        port.set_tag(relay::tag(face));
        if relay.serve(face, &port) {
            return Ok(());
        }
        io.close(&port);
        Err(CreateFaceError::Failed("it went at the same moment".into()))
    }

    fn variant(&mut self) -> Option<&mut Box<dyn WorkerVariant>> {
        self.disk.as_mut().and_then(|disk| disk.variant.as_mut())
    }

    /// Forwards the packets in the queue of a variant, until the worker has waited for the disk
    /// once. Then sockets are served and the results are sent. Returns true if more packets wait.
    fn forward_queued(&mut self, io: &mut Io) -> bool {
        for _ in 0..TAKEN_PER_ITERATION {
            let Some((face, received)) = self.variant().and_then(|variant| variant.take()) else { break };
            self.pass(io, face, received);
            self.forward_batch(io);
            if self.variant().is_some_and(|variant| variant.take_has_waited()) {
                break;
            }
        }
        self.disk.iter().for_each(WorkerDisk::show_queue);
        self.variant().is_some_and(|variant| !variant.is_empty())
    }

    /// Hands over the packets that were dispatched in this iteration, and forwards those that other
    /// workers have dispatched here. Returns true if more of the latter wait.
    fn forward_dispatched(&mut self, io: &mut Io) -> bool {
        let ports = &mut self.egress.ports;
        // First, so that the other workers begin at once.
        self.dispatcher.flush(&self.shared.queues, &mut |face| ports.drop_one(face));
        if !self.shared.queues.get(io.worker()).is_some_and(Queue::has_some) {
            return false;
        }
        let shared = self.shared.clone();
        let Some(queue) = shared.queues.get(io.worker()) else { return false };
        // Taken out and put back, so that its memory is reused in each turn.
        let mut taken = std::mem::take(&mut self.taken);
        queue.take(&mut taken);
        for (face, received) in taken.drain(..) {
            self.pass(io, face, received);
        }
        self.taken = taken;
        queue.has_some()
    }

    /// Forwards a packet that may be traced. A traced packet is forwarded alone, after those that
    /// arrived before it.
    fn pass(&mut self, io: &mut Io, face: FaceId, received: Received<Packet>) {
        if self.traces.is_empty() || !trace::is_traced(&self.traces, &received.packet) {
            return self.forward(io, face, received);
        }
        self.forward_batch(io);
        let entry = trace::arrived(face, &received);
        self.forward(io, face, received);
        let now_ns = io.now_ns();
        let Worker { shared, batch, egress, disk, traces, .. } = self;
        let trace = PacketTrace::new(traces, io.worker(), Some(entry));
        let disk = disk.as_mut().map(|disk| DiskAccess::new(disk, now_ns));
        let mut sink = Sink::<true, true>::new(io, egress, disk, Some(trace));
        shared.core.receive_batch(batch, now_ns, &mut sink);
        sink.end_trace();
        self.after_batch();
    }

    /// Runs a packet through the forwarder, together with others of this turn.
    #[inline]
    fn forward(&mut self, io: &mut Io, face: FaceId, received: Received<Packet>) {
        // A full batch is processed at once, so there is room.
        let is_in = self.batch.push(face, received).is_ok();
        debug_assert!(is_in, "a full batch waits");
        if self.batch.is_full() {
            self.forward_batch(io);
        }
    }

    /// Runs the waiting packets through the forwarder and sends the results. Must run before the
    /// incoming faces can change, and before the worker sleeps.
    fn forward_batch(&mut self, io: &mut Io) {
        if self.batch.is_empty() {
            return;
        }
        let now_ns = io.now_ns();
        let Worker { shared, batch, egress, disk, .. } = self;
        match disk {
            None => {
                let mut sink = Sink::<false, false>::new(io, egress, None, None);
                shared.core.receive_batch(batch, now_ns, &mut sink);
            }
            Some(disk) => {
                let disk = DiskAccess::timed(disk, now_ns);
                let mut sink = Sink::<true, false>::new(io, egress, Some(disk), None);
                shared.core.receive_batch(batch, now_ns, &mut sink);
            }
        }
        self.after_batch();
    }

    #[inline]
    fn after_batch(&mut self) {
        self.egress.end_call();
        self.is_expire_stale = true;
        // The control thread grows the tables, because a worker must not wait for memory.
        if self.shared.core.is_growth_due() {
            self.shared.outbox.wake();
        }
    }

    /// Passes completed reads of the disk to the forwarder.
    fn complete_reads(&mut self, io: &mut Io) {
        let Worker { shared, egress, disk, is_expire_stale, traces, .. } = self;
        let Some(disk) = disk else { return };
        let now_ns = io.now_ns();
        while let Some((ticket, completion)) = disk.completed(now_ns) {
            let trace = PacketTrace::new(traces, io.worker(), Some(trace::disk_read()));
            let trace = Some(trace).filter(|_| !traces.is_empty());
            let disk = DiskAccess::new(disk, now_ns);
            let mut sink = Sink::<true, true>::new(io, egress, Some(disk), trace);
            shared.core.tier_completed(ticket, completion, now_ns, &mut sink);
            sink.end_trace();
            *is_expire_stale = true;
        }
        egress.end_call();
    }

    /// Creates the face of a port that this worker reads. Closes the port on failure.
    fn open_face(
        &mut self,
        io: &mut Io,
        port: &Arc<FaceSender>,
        settings: &FaceSettings,
        is_requested: bool,
    ) -> Result<FaceStatus, CreateFaceError> {
        let opened = self.shared.open_face(port, settings, is_requested, io.now_ns());
        let face = opened.inspect_err(|_| io.close(port))?;
        let id = FaceId(face.face_id);
        let joined = self.join_kernel(io, id, port.holder());
        // The face is destroyed, because all its packets would be lost without a socket of the
        // kernel.
        joined.inspect_err(|_| {
            let _ = self.shared.destroy_face(id);
        })?;
        Ok(face)
    }

    /// Removes and returns the request for which this port was opened, if the request still waits
    /// for the peer.
    fn take_connecting(&mut self, port: &Arc<FaceSender>) -> Option<ConnectingFace> {
        let index = self.connecting.iter().position(|connecting| Arc::ptr_eq(&connecting.port, port))?;
        Some(self.connecting.swap_remove(index))
    }

    fn on_accepted(&mut self, io: &mut Io, port: &Arc<FaceSender>) {
        if !self.shared.outbox.has_room(port.holder()) {
            self.shared.count(listener::CONTROL_BUSY);
            io.close(port);
        } else if let Err(error) = self.open_face(io, port, &FaceSettings::default(), false) {
            tracing::debug!("a peer is refused: {error}");
            let has_face = matches!(error, CreateFaceError::Exists(_));
            self.shared.count(if has_face { listener::FACE_EXISTS } else { listener::TOO_MANY_FACES });
        }
    }

    fn on_up(&mut self, io: &mut Io, port: &Arc<FaceSender>) {
        let Some(ConnectingFace { spec, reply, .. }) = self.take_connecting(port) else {
            if port.status().persistency != FacePersistency::OnDemand {
                tracing::info!("the face to {} is up", port.remote());
            }
            return self.report_state(port, FaceEventKind::Up);
        };
        answer(reply, self.open_face(io, port, &spec.settings, true));
    }

    fn report_state(&self, port: &FaceSender, kind: FaceEventKind) {
        if let Some(FaceTag(number)) = port.tag() {
            self.shared.report_state(FaceId(number), kind);
        }
    }

    fn on_closed(&mut self, port: &Arc<FaceSender>, reason: CloseReason, status: FaceSnapshot, now_ns: u64) {
        if let Some(ConnectingFace { spec, reply, .. }) = self.take_connecting(port) {
            let why = format!("connecting to {}: {reason}", spec.remote);
            answer(reply, Err(CreateFaceError::Failed(why)));
            return;
        }
        tracing::debug!(remote = %status.remote, "face closed: {reason}");
        if let Some(FaceTag(number)) = port.tag() {
            if let Some(face) = relay::face_of(FaceId(number)) {
                tracing::error!("the kernel's forwarder takes nothing any more: {reason}");
                // The face may have closed before its socket.
                let _ = self.shared.destroy_face(face);
                return;
            }
            self.shared.close_face(FaceId(number), port, status, now_ns);
            self.is_expire_stale = true;
        }
    }

    fn handle_command(&mut self, io: &mut Io, command: Command) -> ControlFlow<()> {
        match command {
            Command::Listen(spec, reply) => answer(reply, self.listen(io, spec)),
            Command::StopListening(local, reply) => {
                answer(reply, io.stop_listening(&local));
            }
            Command::Channels(reply) => {
                answer(reply, io.listeners().map(|(local, _)| local.clone()).collect());
            }
            Command::ListenerDrops(reply) => {
                let mut drops = DropCounters::default();
                io.listeners().for_each(|(_, listener)| drops.merge(listener));
                answer(reply, drops);
            }
            Command::CreateFace(spec, reply) => self.create_face(io, spec, reply),
            Command::Manage(socket, reply) => answer(reply, self.manage(io, socket)),
            Command::Inject(face, packet, headers) => {
                self.pass(io, face, Received { packet, headers });
                self.forward_batch(io);
            }
            Command::Send(face, packet) => {
                if let Some(port) = self.egress.ports.get(face) {
                    let headers = LpHeaders::default();
                    // Packets that find no room are counted at the port.
                    let _ = io.send(port, Outbound { headers, packet, hop_limit: None });
                }
            }
            Command::RefreshTimers => self.is_expire_stale = true,
            Command::AddressesChanged => io.addresses_changed(self),
            Command::Trace(traces, reply) => {
                self.traces = traces;
                self.is_diverted =
                    !self.traces.is_empty() || diverts(&self.shared, &self.dispatcher, self.disk.as_ref());
                answer(reply, ());
            }
            Command::Answer(reply) => answer(reply, ()),
            Command::Stop => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn listen(&mut self, io: &mut Io, spec: ListenSpec) -> Result<FaceUri, ListenError> {
        match spec {
            ListenSpec::Multicast(options) => self.open_group(io, |io| io.open_multicast(&options)),
            ListenSpec::EthernetGroup { interface, group } => {
                self.open_group(io, |io| io.open_ethernet(&interface, group, FacePersistency::Permanent))
            }
            listener => {
                let networks = &self.shared.options.interests_from;
                let opened =
                    listener.open(io, networks).ok_or_else(|| ListenError::Refused("no listener".into()))?;
                opened.map_err(ListenError::from)
            }
        }
    }

    /// Creates the face through which the kernel's applications reach management.
    fn manage(&mut self, io: &mut Io, socket: Arc<Socket>) -> Result<FaceStatus, CreateFaceError> {
        let number = socket.face().map_err(|errno| CreateFaceError::Failed(errno.to_string()))?;
        let port = io.open_packets(socket, Owner::Root).map_err(failure)?;
        let face = self.open_face(io, &port, &FaceSettings::default(), false)?;
        if let Some(relay) = &self.shared.relay {
            relay.know(FaceId(face.face_id), number);
        }
        Ok(face)
    }

    /// Makes the face of a group.
    fn open_group(
        &mut self,
        io: &mut Io,
        open: impl FnOnce(&mut Io) -> Result<Arc<FaceSender>, OpenError>,
    ) -> Result<FaceUri, ListenError> {
        let port = open(io).map_err(ListenError::from)?;
        let opened = self.open_face(io, &port, &FaceSettings::default(), false);
        opened.map(|_| port.status().local).map_err(|error| ListenError::Refused(error.to_string()))
    }

    fn create_face(
        &mut self,
        io: &mut Io,
        spec: FaceSpec,
        reply: Reply<Result<FaceStatus, CreateFaceError>>,
    ) {
        // Checked before a socket is opened. `open_face` checks again under its lock.
        if let Some(face) = self.shared.by_remote(&spec.remote, spec.local.as_ref()) {
            return answer(reply, Err(CreateFaceError::Exists(Box::new(face))));
        }
        match open_face_sender(io, &spec) {
            Ok(port) if is_asynchronous(&spec) => self.connecting.push(ConnectingFace { port, spec, reply }),
            Ok(port) => answer(reply, self.open_face(io, &port, &spec.settings, true)),
            Err(error) => answer(reply, Err(error)),
        }
    }

    /// Does the core's due work, unless another worker does it or has set its timer for it.
    fn expire(&mut self, io: &mut Io) {
        let now_ns = io.now_ns();
        let is_due = self.expire_due_ns.is_some_and(|due_ns| due_ns <= now_ns);
        if !self.is_expire_stale && !is_due {
            return;
        }
        let shared = self.shared.clone();
        let Some(mut expiry) = shared.try_expiry() else {
            // The other worker may have started before this worker forwarded its packets. So this
            // worker checks again after the slack.
            self.expire_due_ns = Some(now_ns.saturating_add(EXPIRY_SLACK_NS));
            return;
        };
        // A time that has passed does not count: the other worker may be in a long iteration.
        let is_left_to_another = expiry
            .armed_ns
            .is_some_and(|armed_ns| armed_ns > now_ns && armed_ns <= now_ns.saturating_add(EXPIRY_SLACK_NS));
        if !is_left_to_another {
            let Worker { egress, disk, traces, .. } = self;
            expiry.armed_ns = if disk.is_none() && traces.is_empty() {
                shared.core.expire(now_ns, &mut Sink::<false, false>::new(io, egress, None, None))
            } else {
                let trace = PacketTrace::new(traces, io.worker(), None);
                let disk = disk.as_mut().map(|disk| DiskAccess::new(disk, now_ns));
                let mut sink = Sink::<true, true>::new(io, egress, disk, Some(trace));
                shared.core.expire(now_ns, &mut sink)
            };
            egress.end_call();
            self.expire_due_ns = expiry.armed_ns;
        } else if is_due {
            self.expire_due_ns = None;
        }
        self.is_expire_stale = false;
    }
}

impl Handler for Worker {
    type Packet = Packet;
    type Command = Command;

    #[inline]
    fn packet(&mut self, io: &mut Io, face: FaceTag, headers: LpHeaders, packet: Packet) {
        let (face, received) = (FaceId(face.0), Received { packet, headers });
        if self.is_diverted {
            return self.divert(io, face, received);
        }
        self.forward(io, face, received);
    }

    #[cold]
    fn announced(&mut self, packet: &Packet, announcement: &[u8]) {
        if !self.egress.announced.keep(packet, announcement) {
            self.shared.count(listener::ANNOUNCEMENT_DROPPED);
        }
    }

    fn watched(&mut self, face: FaceTag, remote: Option<SocketAddr>, packet: &[u8]) -> bool {
        let tap = self.shared.tap.get().filter(|_| namely_discovery::concerns_discovery(packet));
        tap.map(|tap| tap.capture(FaceId(face.0), remote, packet)).is_some()
    }

    fn event(&mut self, io: &mut Io, event: Event<Packet>) {
        // The batch may have packets of the face that closes.
        self.forward_batch(io);
        match event {
            Event::Accepted(port) => self.on_accepted(io, &port),
            Event::Up(port) => self.on_up(io, &port),
            Event::Down(port, reason) => {
                // Logged once for each change, because a face that is down reports no further
                // failure. A device can have thousands of on-demand faces.
                if port.status().persistency == FacePersistency::OnDemand {
                    tracing::debug!("face down: {reason}");
                } else {
                    tracing::warn!("the face to {} is down: {reason}", port.remote());
                }
                self.report_state(&port, FaceEventKind::Down);
            }
            Event::Closed { port, reason, status } => self.on_closed(&port, reason, *status, io.now_ns()),
        }
    }

    fn command(&mut self, io: &mut Io, command: Command) -> ControlFlow<()> {
        self.forward_batch(io);
        self.handle_command(io, command)
    }

    fn tick(&mut self, io: &mut Io) -> Option<u64> {
        // Must precede `sweep`, which updates `swept`.
        if self.is_diverted && self.egress.ports.swept != io.closed() {
            self.to_kernel.retain(|_, port| !port.is_closed());
        }
        self.egress.ports.sweep(io.closed());
        let mut is_more = self.forward_dispatched(io);
        self.forward_batch(io);
        if self.is_diverted {
            is_more |= self.forward_queued(io);
        }
        self.complete_reads(io);
        self.expire(io);
        if self.share_ns <= io.now_ns() {
            self.share_ns = io.now_ns().saturating_add(SHARE_PAUSE_NS);
            packet::share_spares();
        }
        let read_due_ns = self.disk.as_ref().and_then(WorkerDisk::due_ns);
        if is_more { Some(0) } else { self.expire_due_ns.into_iter().chain(read_due_ns).min() }
    }
}

/// Answers a command. The caller may have stopped waiting, so a failure to send is ignored.
fn answer<T>(reply: Reply<T>, value: T) {
    let _ = reply.send(value);
}

/// Returns true if a worker does not pass all its packets to the forwarder at once.
fn diverts(shared: &DataPlaneShared, dispatcher: &Dispatcher, disk: Option<&WorkerDisk>) -> bool {
    dispatcher.is_on() || shared.relay.is_some() || disk.is_some_and(has_queue)
}

/// Returns true if the variant has a queue in front of the worker.
fn has_queue(disk: &WorkerDisk) -> bool {
    disk.variant.as_ref().is_some_and(|variant| variant.has_queue())
}

/// Returns true if the face is created only once the peer has answered.
fn is_asynchronous(spec: &FaceSpec) -> bool {
    // A permanent face is made at once, because its peer may be absent for any time.
    matches!(spec.remote, FaceUri::Tcp(_) | FaceUri::Memif { .. })
        && spec.persistency() != FacePersistency::Permanent
}

fn open_face_sender(io: &mut Io, spec: &FaceSpec) -> Result<Arc<FaceSender>, CreateFaceError> {
    let unsupported = || {
        CreateFaceError::Unsupported(format!(
            "no face can be made to {}: use tcp4://, tcp6://, udp4://, udp6:// or ether:// with the address of one host, or \
             memif:///path",
            spec.remote
        ))
    };
    if spec.persistency() == FacePersistency::OnDemand {
        return Err(CreateFaceError::BadSetting(
            "only peers make on-demand faces: use persistent or permanent",
        ));
    }
    if let FaceUri::Ether(station) = spec.remote {
        let Some(FaceUri::Device(device)) = &spec.local else {
            return Err(CreateFaceError::BadSetting(
                "an ether:// face needs its device: LocalUri dev://NAME",
            ));
        };
        if station.is_group() {
            return Err(unsupported());
        }
        return io.open_ethernet(device, station, spec.persistency()).map_err(failure);
    }
    if let FaceUri::Memif { path, id } = &spec.remote {
        if spec.local.is_some() {
            return Err(CreateFaceError::BadSetting("a shared-memory face has no LocalUri"));
        }
        return io.connect_memif(path.as_ref(), *id, spec.persistency()).map_err(failure);
    }
    let peer = spec.remote.address().ok_or_else(unsupported)?;
    let local = match &spec.local {
        None => None,
        Some(uri) => Some(uri.address().ok_or(CreateFaceError::BadSetting("LocalUri must be an address"))?),
    };
    if peer.ip().is_multicast() || peer.ip().is_unspecified() || peer.port() == 0 {
        return Err(unsupported());
    }
    let opened = match &spec.remote {
        FaceUri::Tcp(_) => io.connect_tcp(peer, local, spec.persistency()),
        _ => io.open_udp(peer, local, spec.persistency()),
    };
    opened.map_err(failure)
}

fn failure(error: OpenError) -> CreateFaceError {
    match error {
        OpenError::TooManyFaces => CreateFaceError::TooManyFaces,
        error => CreateFaceError::Failed(error.to_string()),
    }
}

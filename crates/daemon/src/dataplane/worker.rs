//! A worker's thread: what it does with frames, events and commands.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use namely_forwarder::{Batch, FaceId, Outgoing, Output, Received};
use namely_io::{
    CloseReason, Event, Handler, OpenError, Remote, TransportId, TransportStatus, Transports, Unread,
};
use namely_link::{DropCounters, LinkReceiver, Outbound, Patch};
use namely_mgmt::{CreateFaceError, FaceSettings, FaceSpec};
use namely_wire::mgmt::{FaceEventKind, FacePersistency, FaceStatus};
use namely_wire::{FaceUri, LpHeaders};

use super::command::{Command, Reply};
use super::dispatcher::{self, Dispatched, Dispatcher, Queue};
use super::inbox::ControlPacket;
use super::plane::{Plane, Port};
use super::{ListenError, ListenSpec, Packet};

type Io = Transports<Packet>;

/// How long a worker leaves to another what is due in the core, ns: no pending Interest is held longer past its
/// time than that.
const EXPIRY_SLACK_NS: u64 = 1_000_000;

pub(super) struct Worker {
    plane: Arc<Plane>,
    commands: Receiver<Command>,
    /// The receiving halves of the faces that are read here, by the transport's place.
    readers: Vec<Option<Box<Reader>>>,
    /// Those of faces that another worker reads, on links whose senders are shared out among workers.
    foreign: HashMap<TransportId, Box<Reader>>,
    /// When incomplete messages are given up.
    timers: BTreeSet<(u64, Place)>,
    /// Persistent TCP faces that wait for their peer.
    connecting: HashMap<TransportId, Connecting>,
    ports: Ports,
    dispatcher: Dispatcher,
    /// Packets that others have dispatched here.
    taken: Vec<Dispatched>,
    /// Packets that were read in this turn and are not processed yet.
    batch: Batch<Packet>,
    /// What the forwarder sent to the control thread, at most what one batch makes: given to it when the batch has ended and its
    /// counters are added up, so that whoever asks for them finds his own Interest counted.
    internal: Vec<ControlPacket>,
    /// The time for which this worker has set its timer for the core's sake.
    expire_due_ns: Option<u64>,
    /// Whether packets were forwarded since the core last said what is due.
    is_expire_stale: bool,
}

/// Where a reader is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// The place of a transport that is read here.
    Own(usize),
    Foreign(TransportId),
}

/// The receiving half of a face.
struct Reader {
    id: FaceId,
    port: Arc<Port>,
    link: LinkReceiver<Remote>,
    /// Its packets go through the dispatcher.
    is_dispatched: bool,
    timer_ns: Option<u64>,
}

struct Connecting {
    spec: FaceSpec,
    reply: Reply<Result<FaceStatus, CreateFaceError>>,
}

/// The ports that this worker has sent on, so that no lock but the port's own is taken for a packet.
struct Ports {
    plane: Arc<Plane>,
    by_number: Vec<Option<Arc<Port>>>,
    departures: u64,
}

impl Ports {
    fn new(plane: Arc<Plane>) -> Self {
        Ports { plane, by_number: Vec::new(), departures: 0 }
    }

    #[inline]
    fn get(&mut self, id: FaceId) -> Option<&Arc<Port>> {
        let place = usize::try_from(id.0.checked_sub(FaceId::FIRST.0)?).ok()?;
        let is_known = matches!(self.by_number.get(place), Some(Some(port)) if !port.is_closed());
        if !is_known {
            self.look_up(id, place);
        }
        self.by_number.get(place)?.as_ref()
    }

    #[cold]
    fn look_up(&mut self, id: FaceId, place: usize) {
        let port = self.plane.port(id);
        // Numbers are dense: they are places in the core's table of faces.
        if port.is_some() && self.by_number.len() <= place {
            self.by_number.resize_with(place + 1, || None);
        }
        if let Some(slot) = self.by_number.get_mut(place) {
            *slot = port;
        }
    }

    /// Counts a packet that found no room at another worker.
    fn drop_one(&mut self, id: FaceId) {
        if let Some(port) = self.get(id) {
            port.count_receive_drop(dispatcher::FULL);
        }
    }

    /// Lets go of the ports of faces that have gone. Returns whether some have.
    fn sweep(&mut self) -> bool {
        let departures = self.plane.departures();
        let has_gone = departures != self.departures;
        if has_gone {
            self.departures = departures;
            self.by_number.iter_mut().for_each(|slot| drop(slot.take_if(|port| port.is_closed())));
        }
        has_gone
    }
}

impl Worker {
    pub(super) fn new(plane: Arc<Plane>, commands: Receiver<Command>, dispatcher: Dispatcher) -> Self {
        Worker {
            commands,
            readers: Vec::new(),
            foreign: HashMap::new(),
            timers: BTreeSet::new(),
            connecting: HashMap::new(),
            ports: Ports::new(plane.clone()),
            plane,
            dispatcher,
            taken: Vec::new(),
            batch: Batch::new(),
            internal: Vec::new(),
            expire_due_ns: None,
            is_expire_stale: false,
        }
    }

    /// Does what must be done with a packet that arrived: here, or at the worker that the dispatcher chooses.
    #[inline]
    fn take_up(&mut self, io: &mut Io, face: FaceId, is_dispatched: bool, received: Received<Packet>) {
        if is_dispatched && let Some(worker) = self.dispatcher.choose(&received.packet) {
            let ports = &mut self.ports;
            let packet = (face, received);
            return self.dispatcher.add(&self.plane.queues, worker, packet, &mut |face| ports.drop_one(face));
        }
        self.forward(io, face, received);
    }

    /// Hands over what was dispatched in this turn, and forwards what others have dispatched here. Returns whether
    /// more of that waits.
    fn exchange(&mut self, io: &mut Io) -> bool {
        let ports = &mut self.ports;
        self.dispatcher.flush(&self.plane.queues, &mut |face| ports.drop_one(face));
        if !self.plane.queues.get(io.worker()).is_some_and(Queue::has_some) {
            return false;
        }
        let plane = self.plane.clone();
        let Some(queue) = plane.queues.get(io.worker()) else { return false };
        let mut taken = std::mem::take(&mut self.taken);
        queue.take(&mut taken);
        for (face, received) in taken.drain(..) {
            self.forward(io, face, received);
        }
        self.taken = taken;
        queue.has_some()
    }

    /// Runs a packet through the forwarder, together with others of this turn.
    #[inline]
    fn forward(&mut self, io: &mut Io, face: FaceId, received: Received<Packet>) {
        self.batch.push(face, received);
        if self.batch.is_full() {
            self.forward_batch(io);
        }
    }

    /// Runs the packets that wait through the forwarder and sends what comes of them. Done before anything else may
    /// change the faces that they came from, and before the worker sleeps.
    fn forward_batch(&mut self, io: &mut Io) {
        if self.batch.is_empty() {
            return;
        }
        let now_ns = io.now_ns();
        let mut sink = Sink { io, ports: &mut self.ports, internal: &mut self.internal };
        self.plane.core.receive_batch(&mut self.batch, now_ns, &mut sink);
        self.internal.drain(..).for_each(|packet| self.plane.send_internal(packet));
        self.is_expire_stale = true;
    }

    /// Makes a face of a transport that is read here.
    fn open_face(
        &mut self,
        io: &mut Io,
        transport: TransportId,
        settings: &FaceSettings,
        is_asked: bool,
    ) -> Result<FaceStatus, CreateFaceError> {
        let port =
            io.port(transport).ok_or(CreateFaceError::Failed("the connection is gone".into()))?.clone();
        let status = self.plane.open_face(&port, settings, is_asked, io.now_ns())?;
        let reader = self.reader(FaceId(status.face_id), port);
        let place = transport.index();
        if self.readers.len() <= place {
            self.readers.resize_with(place + 1, || None);
        }
        // Whoever had the place before was closed by the control thread.
        self.forget(place);
        self.readers[place] = Some(reader);
        Ok(status)
    }

    /// A new receiving half of a face.
    fn reader(&self, id: FaceId, port: Arc<Port>) -> Box<Reader> {
        let link = LinkReceiver::new(self.plane.options.reassembly, self.plane.reassembly_total.clone());
        let is_dispatched = self.plane.is_dispatched(&port);
        Box::new(Reader { id, port, link, is_dispatched, timer_ns: None })
    }

    /// Gives up the receiving half of a face.
    fn forget(&mut self, place: usize) -> Option<Box<Reader>> {
        let reader = self.readers.get_mut(place)?.take()?;
        if let Some(timer_ns) = reader.timer_ns {
            self.timers.remove(&(timer_ns, Place::Own(place)));
        }
        Some(reader)
    }

    /// Gives up the receiving halves of other workers' faces that have gone.
    fn sweep_foreign(&mut self) {
        let timers = &mut self.timers;
        self.foreign.retain(|transport, reader| {
            let stays = !reader.port.is_closed();
            if let Some(timer_ns) = reader.timer_ns.filter(|_| !stays) {
                timers.remove(&(timer_ns, Place::Foreign(*transport)));
            }
            stays
        });
    }

    fn on_up(&mut self, io: &mut Io, transport: TransportId) {
        let Some(Connecting { spec, reply }) = self.connecting.remove(&transport) else {
            return self.tell_state(transport, FaceEventKind::Up);
        };
        let opened = self.open_face(io, transport, &spec.settings, true);
        if opened.is_err() {
            io.close(transport);
        }
        answer(reply, opened);
    }

    fn tell_state(&mut self, transport: TransportId, kind: FaceEventKind) {
        if let Some(Some(reader)) = self.readers.get(transport.index()) {
            self.plane.tell_state(reader.id, kind);
        }
    }

    fn on_closed(
        &mut self,
        transport: TransportId,
        reason: CloseReason,
        status: TransportStatus,
        now_ns: u64,
    ) {
        if let Some(Connecting { spec, reply }) = self.connecting.remove(&transport) {
            let why = format!("connecting to {}: {reason}", spec.remote);
            answer(reply, Err(CreateFaceError::Failed(why)));
            return;
        }
        tracing::debug!(remote = %status.remote, "face closed: {reason}");
        if let Some(reader) = self.forget(transport.index()) {
            self.plane.close_face(reader.id, &reader.port, status, now_ns);
            self.is_expire_stale = true;
        }
    }

    fn obey(&mut self, io: &mut Io, command: Command) -> ControlFlow<()> {
        match command {
            Command::Listen(spec, reply) => answer(reply, self.listen(io, &spec)),
            Command::StopListening(local, reply) => {
                let listener = io.listeners().find(|(_, uri, _)| **uri == local).map(|(id, ..)| id);
                if let Some(listener) = listener {
                    io.close(listener);
                }
                answer(reply, listener.is_some());
            }
            Command::Channels(reply) => {
                answer(reply, io.listeners().map(|(_, local, _)| local.clone()).collect());
            }
            Command::ListenerDrops(reply) => {
                let mut drops = DropCounters::default();
                io.listeners().for_each(|(_, _, listener)| drops.merge(listener));
                answer(reply, drops);
            }
            Command::CreateFace(spec, reply) => self.create_face(io, spec, reply),
            Command::Inject(packet, headers) => {
                self.forward(io, self.plane.internal_face, Received { packet, headers });
                self.forward_batch(io);
            }
            Command::RefreshTimers => self.is_expire_stale = true,
            Command::Answer(reply) => answer(reply, ()),
            Command::Stop => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn listen(&mut self, io: &mut Io, spec: &ListenSpec) -> Result<FaceUri, ListenError> {
        let opened = match spec {
            ListenSpec::Unix { path, mode } => io.listen_unix(path, *mode),
            ListenSpec::Memif { path, mode } => io.listen_memif(path, *mode),
            ListenSpec::Tcp(address) => io.listen_tcp(*address),
            ListenSpec::Udp(address) => io.listen_udp(*address),
            ListenSpec::WebSocket(address) => io.listen_websocket(*address),
            ListenSpec::Ethernet(interface) => io.listen_ethernet(interface),
            ListenSpec::Multicast(options) => return self.open_group(io, |io| io.open_multicast(options)),
            ListenSpec::EthernetGroup { interface, group } => {
                return self
                    .open_group(io, |io| io.open_ethernet(interface, *group, FacePersistency::Permanent));
            }
        };
        let id = opened.map_err(|error| ListenError(error.to_string()))?;
        let local = io.listeners().find(|(listener, ..)| *listener == id).map(|(_, local, _)| local.clone());
        local.ok_or(ListenError("the listener is gone".into()))
    }

    /// Makes the face of a group.
    fn open_group(
        &mut self,
        io: &mut Io,
        open: impl FnOnce(&mut Io) -> Result<TransportId, OpenError>,
    ) -> Result<FaceUri, ListenError> {
        let transport = open(io).map_err(|error| ListenError(error.to_string()))?;
        let local = io.port(transport).map(|port| port.status().local);
        self.open_face(io, transport, &FaceSettings::default(), false)
            .map_err(|error| ListenError(error.to_string()))?;
        local.ok_or(ListenError("the face is gone".into()))
    }

    fn create_face(
        &mut self,
        io: &mut Io,
        spec: FaceSpec,
        reply: Reply<Result<FaceStatus, CreateFaceError>>,
    ) {
        if let Some(face) = self.plane.by_remote(&spec.remote, spec.local.as_ref()) {
            return answer(reply, Err(CreateFaceError::Exists(Box::new(face))));
        }
        match open_transport(io, &spec) {
            Ok(transport) if is_waited_for(&spec) => {
                self.connecting.insert(transport, Connecting { spec, reply });
            }
            Ok(transport) => {
                let opened = self.open_face(io, transport, &spec.settings, true);
                if opened.is_err() {
                    io.close(transport);
                }
                answer(reply, opened);
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    /// Gives up incomplete messages whose time is over.
    fn tick_readers(&mut self, now_ns: u64) {
        while let Some((due_ns, place)) = self.timers.first().copied()
            && due_ns <= now_ns
        {
            self.timers.pop_first();
            let reader = match place {
                Place::Own(place) => self.readers.get_mut(place).and_then(Option::as_mut),
                Place::Foreign(transport) => self.foreign.get_mut(&transport),
            };
            let Some(reader) = reader else { continue };
            reader.timer_ns = None;
            reader.link.tick(now_ns);
            reader.count_drops();
            reader.arm(place, &mut self.timers);
        }
    }

    /// Does what is due in the core, unless another worker is at it or has set its timer for it.
    fn expire(&mut self, io: &mut Io) {
        let now_ns = io.now_ns();
        let is_due = self.expire_due_ns.is_some_and(|due_ns| due_ns <= now_ns);
        if !self.is_expire_stale && !is_due {
            return;
        }
        let plane = self.plane.clone();
        let Some(mut expiry) = plane.try_expiry() else {
            self.expire_due_ns = Some(now_ns.saturating_add(EXPIRY_SLACK_NS));
            return;
        };
        let is_left_to_another = expiry
            .armed_ns
            .is_some_and(|armed_ns| armed_ns > now_ns && armed_ns <= now_ns.saturating_add(EXPIRY_SLACK_NS));
        if !is_left_to_another {
            let mut sink = Sink { io, ports: &mut self.ports, internal: &mut self.internal };
            expiry.armed_ns = plane.core.expire(now_ns, &mut sink);
            self.internal.drain(..).for_each(|packet| plane.send_internal(packet));
            self.expire_due_ns = expiry.armed_ns;
        } else if is_due {
            self.expire_due_ns = None;
        }
        self.is_expire_stale = false;
    }
}

impl Reader {
    /// Runs a frame through the link service. What `keep` makes of the network packet, and its headers.
    #[inline]
    fn read<T>(
        &mut self,
        io: &mut Io,
        (place, remote): (Place, Remote),
        frame: &[u8],
        timers: &mut BTreeSet<(u64, Place)>,
        keep: impl FnOnce(&[u8]) -> T,
    ) -> Option<(T, LpHeaders)> {
        if self.port.is_closed() {
            return None;
        }
        let Reader { port, link, .. } = self;
        let now_ns = io.now_ns();
        // Drops are counted by the link service.
        let delivered = link.receive(frame, remote, port.accepts(), now_ns, |view| io.on_arrival(port, view));
        let received = delivered.ok().flatten().map(|packet| (keep(packet.packet), packet.headers));
        self.count_drops();
        self.arm(place, timers);
        received
    }

    /// Counts at the port what the link service dropped.
    fn count_drops(&mut self) {
        if self.link.has_drops() {
            self.port.count_receive_drops(&self.link.take_drops());
        }
    }

    /// Sees to it that incomplete messages are given up in time. A timer that is set too early is harmless, so that
    /// it need not follow each packet.
    #[inline]
    fn arm(&mut self, place: Place, timers: &mut BTreeSet<(u64, Place)>) {
        let Some(due_ns) = self.link.due_ns() else { return };
        if self.timer_ns.is_some_and(|timer_ns| timer_ns <= due_ns) {
            return;
        }
        if let Some(timer_ns) = self.timer_ns.replace(due_ns) {
            timers.remove(&(timer_ns, place));
        }
        timers.insert((due_ns, place));
    }
}

impl Handler<Packet> for Worker {
    fn frame(&mut self, io: &mut Io, transport: TransportId, remote: Remote, frame: &[u8]) {
        let place = transport.index();
        let Some(Some(reader)) = self.readers.get_mut(place) else { return };
        let (id, is_dispatched) = (reader.id, reader.is_dispatched);
        let from = (Place::Own(place), remote);
        if let Some((packet, headers)) =
            reader.read(io, from, frame, &mut self.timers, |packet| packet.into())
        {
            self.take_up(io, id, is_dispatched, Received { packet, headers });
        }
    }

    fn unread(&mut self, io: &mut Io, transport: TransportId, frame: Unread<'_>) {
        let place = transport.index();
        let Some(Some(reader)) = self.readers.get_mut(place) else { return };
        let (id, is_dispatched) = (reader.id, reader.is_dispatched);
        let whole = Packet::filled(frame.octets(), |room| frame.copy_to(room));
        let from = (Place::Own(place), None);
        let part = reader.read(io, from, &whole, &mut self.timers, |packet| whole.part(packet));
        if let Some((part, headers)) = part {
            self.take_up(io, id, is_dispatched, Received { packet: whole.into_part(part), headers });
        }
    }

    fn foreign(&mut self, io: &mut Io, port: &Arc<Port>, remote: Remote, frame: &[u8]) {
        let Some(transport) = port.id() else { return };
        if !self.foreign.contains_key(&transport) {
            // Its face is not made yet, or has gone.
            let Some(id) = self.plane.face_of(port) else { return port.count_receive_drop("no_face") };
            self.foreign.insert(transport, self.reader(id, port.clone()));
        }
        let Some(reader) = self.foreign.get_mut(&transport) else { return };
        let id = reader.id;
        let from = (Place::Foreign(transport), remote);
        if let Some((packet, headers)) =
            reader.read(io, from, frame, &mut self.timers, |packet| packet.into())
        {
            self.forward(io, id, Received { packet, headers });
        }
    }

    fn event(&mut self, io: &mut Io, event: Event) {
        self.forward_batch(io);
        match event {
            Event::Accepted { transport, .. } => {
                if !self.plane.outbox.has_room() {
                    self.plane.count("control_busy");
                    io.close(transport);
                } else if let Err(error) = self.open_face(io, transport, &FaceSettings::default(), false) {
                    tracing::debug!("a peer is refused: {error}");
                    self.plane.count("too_many_faces");
                    io.close(transport);
                }
            }
            Event::Up(transport) => self.on_up(io, transport),
            Event::Down(transport, reason) => {
                tracing::debug!("face down: {reason}");
                self.tell_state(transport, FaceEventKind::Down);
            }
            Event::Closed { transport, reason, status } => {
                self.on_closed(transport, reason, *status, io.now_ns());
            }
        }
    }

    fn woken(&mut self, io: &mut Io) -> ControlFlow<()> {
        self.forward_batch(io);
        while let Ok(command) = self.commands.try_recv() {
            self.obey(io, command)?;
        }
        ControlFlow::Continue(())
    }

    fn tick(&mut self, io: &mut Io) -> Option<u64> {
        if self.ports.sweep() {
            self.sweep_foreign();
        }
        let is_more = self.exchange(io);
        self.forward_batch(io);
        self.tick_readers(io.now_ns());
        self.expire(io);
        if is_more {
            return Some(0);
        }
        self.timers.first().map(|(due_ns, _)| *due_ns).into_iter().chain(self.expire_due_ns).min()
    }
}

/// Answers a command. Whoever asked may have stopped waiting; an answer that nobody takes is no fault.
fn answer<T>(reply: Reply<T>, value: T) {
    let _ = reply.send(value);
}

/// Takes what the forwarder sends to the faces' ports.
struct Sink<'a> {
    io: &'a mut Io,
    ports: &'a mut Ports,
    internal: &'a mut Vec<ControlPacket>,
}

impl Output<Packet> for Sink<'_> {
    #[inline]
    fn send(&mut self, id: FaceId, outgoing: Outgoing<Packet>) {
        let Some(port) = self.ports.get(id) else {
            if id == self.ports.plane.internal_face {
                self.send_internal(outgoing);
            }
            return;
        };
        let Outgoing { packet, headers, hop_limit } = outgoing;
        let hop_limit = hop_limit.map(|(offset, value)| Patch { offset, value });
        // What does not get in is counted at the port.
        let _ = self.io.send(port, Outbound { headers, packet, hop_limit });
    }
}

impl Sink<'_> {
    fn send_internal(&mut self, outgoing: Outgoing<Packet>) {
        let headers = outgoing.headers;
        let incoming = headers.incoming_face_id.map(FaceId);
        let credentials = incoming.and_then(|id| self.ports.get(id)).and_then(|port| port.credentials());
        self.internal.push(ControlPacket { packet: outgoing.packet, headers, incoming, credentials });
    }
}

/// Whether making the face ends only when the peer has answered.
fn is_waited_for(spec: &FaceSpec) -> bool {
    matches!(spec.remote, FaceUri::Tcp(_) | FaceUri::Memif { .. })
        && spec.persistency() != FacePersistency::Permanent
}

fn open_transport(io: &mut Io, spec: &FaceSpec) -> Result<TransportId, CreateFaceError> {
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
        OpenError::TooManyTransports => CreateFaceError::TooManyFaces,
        error => CreateFaceError::Failed(error.to_string()),
    }
}

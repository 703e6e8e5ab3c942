//! The data plane's thread: what it does with frames, events and commands.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use namely_forwarder::{
    FaceId, FaceLayer, FaceScope, FaceSpec as CoreFaceSpec, LinkType, Outgoing, Output, Received,
};
use namely_io::{
    CloseReason, Event, Handler, OpenError, Persistency, Remote, TransportId, TransportStatus, Transports,
};
use namely_link::{DropCounters, LinkConfig, LinkService, Outbound, Patch, ReassemblyTotal};
use namely_wire::{FaceUri, LpHeaders};

use super::command::{Command, FaceAndInode, Reply};
use super::faces::{self, Face, Faces};
use super::inbox::{ControlPacket, Outbox};
use super::{
    Core, CreateFaceError, DataPlaneOptions, FaceEvent, FaceEventKind, FaceSpec, FaceStatus, FaceUpdate,
    ListenError, ListenSpec, Packet, UpdateFaceError,
};

type Io = Transports<Packet>;

pub(super) struct Worker {
    options: DataPlaneOptions,
    core: Arc<Core>,
    commands: Receiver<Command>,
    faces: Faces,
    /// Persistent TCP faces that wait for their peer.
    connecting: HashMap<TransportId, Connecting>,
    internal: Internal,
    reassembly_total: Arc<ReassemblyTotal>,
    /// Where the Sequence of the next link begins.
    next_sequence: u64,
    expire_due_ns: Option<u64>,
    /// Whether packets were forwarded since pending Interests were last looked through.
    is_expire_stale: bool,
    /// Drops of faces that are gone.
    retired_drops: DropCounters,
}

struct Connecting {
    spec: FaceSpec,
    reply: Reply<Result<FaceStatus, CreateFaceError>>,
}

/// The face of the router itself.
struct Internal {
    id: FaceId,
    outbox: Outbox,
    drops: u64,
}

impl Worker {
    pub(super) fn new(
        options: DataPlaneOptions,
        core: Arc<Core>,
        internal_face: FaceId,
        commands: Receiver<Command>,
        outbox: Outbox,
    ) -> Result<Self, String> {
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| format!("the system gives no random numbers: {errno}"))?;
        Ok(Worker {
            reassembly_total: ReassemblyTotal::new(options.reassembly_octets_total_max),
            options,
            core,
            commands,
            faces: Faces::default(),
            connecting: HashMap::new(),
            internal: Internal { id: internal_face, outbox, drops: 0 },
            next_sequence: u64::from_ne_bytes(random),
            expire_due_ns: None,
            is_expire_stale: true,
            retired_drops: DropCounters::default(),
        })
    }

    /// Runs a packet through the forwarder and sends what comes of it.
    fn forward(&mut self, io: &mut Io, face: FaceId, received: Received<Packet>) {
        let now_ns = io.now_ns();
        let mut sink = Sink { io, faces: &mut self.faces, internal: &mut self.internal, now_ns };
        self.core.receive(face, received, now_ns, &mut sink);
        self.is_expire_stale = true;
    }

    /// Makes a face of a transport.
    fn open_face(
        &mut self,
        io: &mut Io,
        transport: TransportId,
        options: &super::FaceOptions,
    ) -> Result<FaceStatus, CreateFaceError> {
        let status = io.status(transport).ok_or(CreateFaceError::Failed("the connection is gone".into()))?;
        let config = LinkConfig {
            marking: Some(self.options.marking),
            reassembly: self.options.reassembly,
            ..LinkConfig::new(faces::link_kind(&status, self.options.udp_mtu))
        };
        let config = faces::configure(config, options, faces::reach(&status), &self.options)
            .map_err(CreateFaceError::BadOption)?;
        let id = self
            .core
            .face_register(core_spec(&status, &config))
            .map_err(|_| CreateFaceError::TooManyFaces)?;
        // Far enough apart that no two links' numbers meet.
        self.next_sequence = self.next_sequence.wrapping_add(1 << 40);
        let link = LinkService::new(config, self.reassembly_total.clone(), self.next_sequence);
        let face = Face::new(id, transport, link, &status);
        let status = face.status(status, io.now_ns());
        self.faces.insert(face);
        self.tell(FaceEventKind::Created, status.clone());
        Ok(status)
    }

    /// Ends the face of a transport that is gone.
    fn close_face(&mut self, transport: TransportId, status: TransportStatus, now_ns: u64) {
        let Some(face) = self.faces.remove(transport) else { return };
        // It is there: faces are released nowhere else.
        let _ = self.core.face_release(face.id);
        let status = face.status(status, now_ns);
        status.counters.drops.iter().for_each(|(label, n)| self.retired_drops.add(label, *n));
        self.tell(FaceEventKind::Destroyed, status);
    }

    fn tell(&self, kind: FaceEventKind, face: FaceStatus) {
        tracing::debug!(face = face.face_id.0, remote = %face.remote, ?kind, "face");
        self.internal.outbox.face(FaceEvent { kind, face });
    }

    fn status_of(&mut self, io: &Io, id: FaceId) -> Option<FaceAndInode> {
        if id == self.internal.id {
            return Some((faces::internal_status(id, self.internal.drops), None));
        }
        let face = self.faces.by_id(id)?;
        let transport = io.status(face.transport)?;
        let inode = transport.socket_inode;
        Some((face.status(transport, io.now_ns()), inode))
    }

    fn on_up(&mut self, io: &mut Io, transport: TransportId) {
        let Some(Connecting { spec, reply }) = self.connecting.remove(&transport) else {
            return self.tell_state(io, transport, FaceEventKind::Up);
        };
        let opened = self.open_face(io, transport, &spec.options);
        if opened.is_err() {
            io.close(transport);
        }
        answer(reply, opened);
    }

    fn tell_state(&mut self, io: &Io, transport: TransportId, kind: FaceEventKind) {
        let Some(face) = self.faces.by_transport(transport) else { return };
        let id = face.id;
        if let Some((status, _)) = self.status_of(io, id) {
            self.tell(kind, status);
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
        self.close_face(transport, status, now_ns);
    }

    fn obey(&mut self, io: &mut Io, command: Command) -> ControlFlow<()> {
        match command {
            Command::Listen(spec, reply) => answer(reply, self.listen(io, &spec)),
            Command::StopListening(local, reply) => {
                let listener = io.listeners().find(|(_, uri, _)| **uri == local).map(|(id, ..)| id);
                answer(reply, listener.map(|id| io.close(id)).is_some());
            }
            Command::Channels(reply) => answer(reply, channels(io)),
            Command::CreateFace(spec, reply) => self.create_face(io, spec, reply),
            Command::UpdateFace(id, update, reply) => answer(reply, self.update_face(io, id, &update)),
            Command::DestroyFace(id, reply) => answer(reply, self.destroy_face(io, id)),
            Command::Face(id, reply) => answer(reply, self.status_of(io, id)),
            Command::Faces(reply) => answer(reply, self.all_faces(io)),
            Command::Drops(reply) => answer(reply, self.all_drops(io)),
            Command::Inject(packet, headers) => {
                self.forward(io, self.internal.id, Received { packet, headers });
            }
            Command::RefreshTimers => self.is_expire_stale = true,
            Command::Stop => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn listen(&mut self, io: &mut Io, spec: &ListenSpec) -> Result<FaceUri, ListenError> {
        let opened = match spec {
            ListenSpec::Unix { path, mode } => io.listen_unix(path, *mode),
            ListenSpec::Tcp(address) => io.listen_tcp(*address),
            ListenSpec::Udp(address) => io.listen_udp(*address),
            ListenSpec::Multicast(options) => {
                let transport = io.open_multicast(options).map_err(|error| ListenError(error.to_string()))?;
                let face = self.open_face(io, transport, &super::FaceOptions::default());
                let face = face.map_err(|error| ListenError(error.to_string()))?;
                return Ok(face.local);
            }
        };
        let id = opened.map_err(|error| ListenError(error.to_string()))?;
        let local = io.listeners().find(|(listener, ..)| *listener == id).map(|(_, local, _)| local.clone());
        local.ok_or(ListenError("the listener is gone".into()))
    }

    fn create_face(
        &mut self,
        io: &mut Io,
        spec: FaceSpec,
        reply: Reply<Result<FaceStatus, CreateFaceError>>,
    ) {
        if let Some(face) = self.faces.by_remote(&spec.remote) {
            let id = face.id;
            let existing =
                self.status_of(io, id).map(|(status, _)| CreateFaceError::Exists(Box::new(status)));
            answer(reply, Err(existing.unwrap_or(CreateFaceError::Stopped)));
            return;
        }
        match open_transport(io, &spec) {
            Ok(transport) if is_waited_for(&spec) => {
                self.connecting.insert(transport, Connecting { spec, reply });
            }
            Ok(transport) => {
                let opened = self.open_face(io, transport, &spec.options);
                if opened.is_err() {
                    io.close(transport);
                }
                answer(reply, opened);
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    fn update_face(
        &mut self,
        io: &mut Io,
        id: FaceId,
        update: &FaceUpdate,
    ) -> Result<FaceStatus, UpdateFaceError> {
        if id == self.internal.id {
            return Err(UpdateFaceError::BadOption("the router's own face cannot be changed"));
        }
        let face = self.faces.by_id(id).ok_or(UpdateFaceError::NoSuchFace)?;
        let config = faces::configure(*face.link.config(), &update.options, face.reach, &self.options)
            .map_err(UpdateFaceError::BadOption)?;
        if let Some(persistency) = update.persistency {
            io.set_persistency(face.transport, persistency).map_err(UpdateFaceError::BadOption)?;
        }
        face.link.reconfigure(config);
        let _ = self.core.face_set_local_fields(id, config.local_fields);
        self.status_of(io, id).map(|(status, _)| status).ok_or(UpdateFaceError::NoSuchFace)
    }

    fn destroy_face(&mut self, io: &mut Io, id: FaceId) -> Result<(), UpdateFaceError> {
        if id == self.internal.id {
            return Err(UpdateFaceError::BadOption("the router's own face cannot be destroyed"));
        }
        let transport = self.faces.by_id(id).ok_or(UpdateFaceError::NoSuchFace)?.transport;
        let status = io.close(transport).ok_or(UpdateFaceError::NoSuchFace)?;
        self.close_face(transport, status, io.now_ns());
        Ok(())
    }

    fn all_faces(&mut self, io: &Io) -> Vec<FaceAndInode> {
        let ids: Vec<FaceId> = self.faces.iter().map(|face| face.id).chain([self.internal.id]).collect();
        ids.into_iter().filter_map(|id| self.status_of(io, id)).collect()
    }

    fn all_drops(&self, io: &Io) -> DropCounters {
        let mut drops = self.retired_drops.clone();
        drops.merge(&io.totals().drops);
        io.listeners().for_each(|(_, _, listener)| drops.merge(listener));
        self.faces.iter().for_each(|face| drops.merge(&face.link.counters().drops));
        if self.internal.drops > 0 {
            drops.add("internal_queue_full", self.internal.drops);
        }
        drops
    }

    /// Serves the link services whose timers are due.
    fn tick_links(&mut self, io: &mut Io) {
        let now_ns = io.now_ns();
        while let Some(face) = self.faces.take_due(now_ns) {
            let transport = face.transport;
            face.link.tick(now_ns, &mut |frame| {
                if io.admit(transport).is_ok() {
                    io.push(transport, frame);
                }
            });
            self.faces.arm(transport);
        }
    }

    /// Ends pending Interests and routes whose time is over.
    fn expire(&mut self, io: &mut Io) {
        let now_ns = io.now_ns();
        if !self.is_expire_stale && self.expire_due_ns.is_none_or(|due_ns| due_ns > now_ns) {
            return;
        }
        let mut sink = Sink { io, faces: &mut self.faces, internal: &mut self.internal, now_ns };
        self.expire_due_ns = self.core.expire(now_ns, &mut sink);
        self.is_expire_stale = false;
    }
}

impl Handler<Packet> for Worker {
    fn frame(&mut self, io: &mut Io, transport: TransportId, remote: Remote, frame: &[u8]) {
        let now_ns = io.now_ns();
        let Some(face) = self.faces.by_transport(transport) else { return };
        let delivered = face.link.receive(frame, remote, now_ns, &mut |frame| {
            if io.admit(transport).is_ok() {
                io.push(transport, frame);
            }
        });
        // Drops are counted by the link service.
        let delivered = delivered.ok().flatten();
        let received =
            delivered.map(|packet| Received { packet: Packet::from(packet.packet), headers: packet.headers });
        let id = face.id;
        self.faces.arm(transport);
        if let Some(received) = received {
            self.forward(io, id, received);
        }
    }

    fn event(&mut self, io: &mut Io, event: Event) {
        match event {
            Event::Accepted { transport, .. } => {
                if !self.internal.outbox.has_room() {
                    self.retired_drops.count("control_busy");
                    io.close(transport);
                } else if let Err(error) = self.open_face(io, transport, &super::FaceOptions::default()) {
                    tracing::debug!("a peer is refused: {error}");
                    self.retired_drops.count("too_many_faces");
                    io.close(transport);
                }
            }
            Event::Up(transport) => self.on_up(io, transport),
            Event::Down(transport, reason) => {
                tracing::debug!("face down: {reason}");
                self.tell_state(io, transport, FaceEventKind::Down);
            }
            Event::Closed { transport, reason, status } => {
                self.on_closed(transport, reason, *status, io.now_ns());
            }
        }
    }

    fn woken(&mut self, io: &mut Io) -> ControlFlow<()> {
        while let Ok(command) = self.commands.try_recv() {
            self.obey(io, command)?;
        }
        ControlFlow::Continue(())
    }

    fn tick(&mut self, io: &mut Io) -> Option<u64> {
        self.tick_links(io);
        self.expire(io);
        self.faces.due_ns().into_iter().chain(self.expire_due_ns).min()
    }
}

/// Answers a command. Whoever asked may have stopped waiting; an answer that nobody takes is no fault.
fn answer<T>(reply: Reply<T>, value: T) {
    let _ = reply.send(value);
}

/// Takes what the forwarder sends to the faces' links.
struct Sink<'a> {
    io: &'a mut Io,
    faces: &'a mut Faces,
    internal: &'a mut Internal,
    now_ns: u64,
}

impl Output<Packet> for Sink<'_> {
    fn send(&mut self, id: FaceId, outgoing: Outgoing<Packet>) {
        let Some(face) = self.faces.by_id(id) else {
            if id == self.internal.id {
                self.send_internal(outgoing);
            }
            return;
        };
        let transport = face.transport;
        // What is not admitted is counted there.
        let Ok(queue_octets) = self.io.admit(transport) else { return };
        let Outgoing { packet, headers, hop_limit } = outgoing;
        let hop_limit = hop_limit.map(|(offset, value)| Patch { offset, value });
        let outbound = Outbound { headers, packet, hop_limit };
        let io = &mut *self.io;
        let sent =
            face.link.send(outbound, queue_octets, self.now_ns, &mut |frame| io.push(transport, frame));
        if sent.is_ok() {
            self.faces.arm(transport);
        }
    }
}

impl Sink<'_> {
    fn send_internal(&mut self, outgoing: Outgoing<Packet>) {
        let headers: LpHeaders = outgoing.headers;
        let incoming = headers.incoming_face_id.map(FaceId);
        let credentials = incoming.and_then(|id| self.faces.by_id(id)).and_then(|face| face.credentials);
        let packet = ControlPacket { packet: outgoing.packet, headers, incoming, credentials };
        if !self.internal.outbox.packet(packet) {
            self.internal.drops += 1;
        }
    }
}

/// How the forwarder sees a transport.
fn core_spec(status: &TransportStatus, config: &LinkConfig) -> CoreFaceSpec {
    let is_local = faces::is_local(status);
    CoreFaceSpec {
        layer: if is_local { FaceLayer::Upper } else { FaceLayer::Lower },
        scope: if is_local { FaceScope::Local } else { FaceScope::NonLocal },
        link_type: if faces::is_multi_access(status) {
            LinkType::MultiAccess
        } else {
            LinkType::PointToPoint
        },
        local_fields: config.local_fields,
    }
}

fn channels(io: &Io) -> Vec<FaceUri> {
    io.listeners().map(|(_, local, _)| local.clone()).collect()
}

/// Whether making the face ends only when the peer has answered.
fn is_waited_for(spec: &FaceSpec) -> bool {
    matches!(spec.remote, FaceUri::Tcp(_)) && spec.persistency != Persistency::Permanent
}

fn open_transport(io: &mut Io, spec: &FaceSpec) -> Result<TransportId, CreateFaceError> {
    let unsupported = || {
        CreateFaceError::Unsupported(format!(
            "no face can be made to {}: use tcp4://, tcp6://, udp4:// or udp6:// with the address of one host",
            spec.remote
        ))
    };
    if spec.persistency == Persistency::OnDemand {
        return Err(CreateFaceError::BadOption(
            "only peers make on-demand faces: use persistent or permanent",
        ));
    }
    let peer = spec.remote.address().ok_or_else(unsupported)?;
    let local = match &spec.local {
        None => None,
        Some(uri) => Some(uri.address().ok_or(CreateFaceError::BadOption("LocalUri must be an address"))?),
    };
    if peer.ip().is_multicast() || peer.ip().is_unspecified() || peer.port() == 0 {
        return Err(unsupported());
    }
    let opened = match &spec.remote {
        FaceUri::Tcp(_) => io.connect_tcp(peer, local, spec.persistency),
        _ => io.open_udp(peer, local, spec.persistency),
    };
    opened.map_err(|error| match error {
        OpenError::TooManyTransports => CreateFaceError::TooManyFaces,
        error => CreateFaceError::Failed(error.to_string()),
    })
}

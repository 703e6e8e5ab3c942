//! The worker's side of one call of the core: the ports that packets go to, the disk below the
//! content store in memory, and the traces.

use std::sync::Arc;

use namely_forwarder::{FaceId, Learned, Leaving, Outgoing, Output, Tier, TierAnswer, TierWrite, Wanted};
use namely_host::shares::Holder;
use namely_io::Reach;
use namely_link::{Outbound, Patch};
use namely_wire::NameRef;

use crate::Packet;
use crate::announced::Announced;
use crate::disk::DiskAccess;
use crate::dispatcher;
use crate::inbox::ControlPacket;
use crate::shared::{DataPlaneShared, Port};
use crate::trace::PacketTrace;
use crate::worker::Io;

/// The ports that this worker has sent on, so that no lock but the port's own is taken for a
/// packet.
pub(super) struct Ports {
    shared: Arc<DataPlaneShared>,
    by_number: Vec<Option<Arc<Port>>>,
    /// How many faces were closed when this was last swept.
    pub(super) swept: u64,
}

impl Ports {
    pub(super) fn new(shared: Arc<DataPlaneShared>) -> Self {
        Ports { shared, by_number: Vec::new(), swept: 0 }
    }

    #[inline]
    pub(super) fn get(&mut self, id: FaceId) -> Option<&Arc<Port>> {
        let place = usize::try_from(id.0.checked_sub(FaceId::FIRST.0)?).ok()?;
        let is_known = matches!(self.by_number.get(place), Some(Some(port)) if !port.is_closed());
        if !is_known {
            self.look_up(id, place);
        }
        self.by_number.get(place)?.as_ref()
    }

    #[cold]
    fn look_up(&mut self, id: FaceId, place: usize) {
        let port = self.shared.port(id);
        // Numbers are dense: they are places in the core's table of faces.
        if port.is_some() && self.by_number.len() <= place {
            self.by_number.resize_with(place + 1, || None);
        }
        if let Some(slot) = self.by_number.get_mut(place) {
            *slot = port;
        }
    }

    /// Counts a packet that found no room at another worker.
    pub(super) fn drop_one(&mut self, id: FaceId) {
        if let Some(port) = self.get(id) {
            port.count_receive_drop(dispatcher::FULL);
        }
    }

    /// Releases the ports of faces that have gone. `closed` is read before the ports' flags: a face
    /// that is closed later changes it again.
    pub(super) fn sweep(&mut self, closed: u64) {
        if closed != self.swept {
            self.swept = closed;
            self.by_number.iter_mut().for_each(|slot| drop(slot.take_if(|port| port.is_closed())));
        }
    }
}

/// The sending half, which every sink of a worker has.
pub(super) struct Egress {
    shared: Arc<DataPlaneShared>,
    pub(super) ports: Ports,
    /// Packets of one call to the control thread. The worker hands them over after the call, when
    /// its counters are added up: a client that reads counters finds its own Interest counted.
    internal: Vec<ControlPacket>,
    /// Announcements that came with packets of the batch.
    pub(super) announced: Announced,
}

impl Egress {
    pub(super) fn new(shared: Arc<DataPlaneShared>) -> Self {
        let ports = Ports::new(shared.clone());
        Egress { shared, ports, internal: Vec::new(), announced: Announced::default() }
    }

    /// A call of the core has ended.
    #[inline]
    pub(super) fn end_call(&mut self) {
        self.announced.clear();
        self.internal.drain(..).for_each(|packet| self.shared.send_internal(packet));
    }
}

/// Takes packets of the forwarder to the faces' ports. With `DISK` the worker may have a disk, and
/// with `TRACE` packets may be traced; without them, the compiler removes these calls. So the
/// pipelines exist three times: without either, with a disk, and with both for the few packets that
/// are traced.
pub(super) struct Sink<'a, const DISK: bool, const TRACE: bool> {
    io: &'a mut Io,
    egress: &'a mut Egress,
    disk: Option<DiskAccess<'a>>,
    trace: Option<PacketTrace<'a>>,
}

impl<'a, const DISK: bool, const TRACE: bool> Output<Packet> for Sink<'a, DISK, TRACE> {
    type Tier = Self;
    type Tracer = PacketTrace<'a>;

    #[inline]
    fn send(&mut self, id: FaceId, outgoing: Outgoing<Packet>) {
        if TRACE && let Some(trace) = &mut self.trace {
            trace.sent(id, &outgoing);
        }
        if let Some(faces) = self.egress.shared.copies.of(id) {
            faces.iter().for_each(|face| self.send_one(*face, outgoing.clone()));
        }
        self.send_one(id, outgoing);
        if DISK && let Some(disk) = &mut self.disk {
            disk.sent();
        }
    }

    #[inline(always)]
    fn tier(&mut self) -> Option<&mut Self> {
        (DISK && self.disk.is_some()).then_some(self)
    }

    #[inline(always)]
    fn tracer(&mut self) -> Option<&mut PacketTrace<'a>> {
        if TRACE { self.trace.as_mut() } else { None }
    }

    #[cold]
    fn learned(&mut self, learned: Learned<'_>) {
        let announcement = self.egress.announced.with(learned.wire).unwrap_or_default();
        self.egress.shared.learned(learned, announcement, self.io.now_ns());
    }

    #[cold]
    fn offered(&mut self, face: FaceId, data: NameRef<'_>, packet: &Packet) {
        let shared = &self.egress.shared;
        if self.egress.announced.with(packet).is_some() {
            return;
        }
        if let Some(announcement) = shared.offered(face, data, self.io.now_ns())
            && !self.egress.announced.keep(packet, &announcement)
        {
            shared.count("announcement_dropped");
        }
    }
}

/// The disk, on behalf of the owner of the packet's face.
impl<const DISK: bool, const TRACE: bool> Tier<Packet> for Sink<'_, DISK, TRACE> {
    const MAY_BE: bool = DISK;

    fn read(&mut self, wanted: &Wanted<'_>) -> TierAnswer {
        // The face may have gone; the router itself asks then.
        let holder = self.egress.ports.get(wanted.face).map_or(Holder::Root, |port| port.holder());
        self.disk.as_mut().map_or(TierAnswer::NoTier, |disk| disk.read_for(wanted, holder))
    }

    fn is_busy(&self) -> bool {
        self.disk.as_ref().is_some_and(DiskAccess::is_busy)
    }

    fn write(&mut self, leaving: Leaving<Packet>) -> TierWrite {
        self.disk.as_mut().map_or(TierWrite::NoTier, |disk| disk.write(leaving))
    }

    #[inline]
    fn packet_begins(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.packet_begins();
        }
    }

    #[inline]
    fn answers_from_memory(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.answers_from_memory();
        }
    }
}

impl<'a, const DISK: bool, const TRACE: bool> Sink<'a, DISK, TRACE> {
    pub(super) fn new(
        io: &'a mut Io,
        egress: &'a mut Egress,
        disk: Option<DiskAccess<'a>>,
        trace: Option<PacketTrace<'a>>,
    ) -> Self {
        Sink { io, egress, disk, trace }
    }

    /// The packet is over: its record goes to its traces.
    pub(super) fn end_trace(self) {
        if let Some(trace) = self.trace {
            trace.end();
        }
    }

    #[inline]
    fn send_one(&mut self, id: FaceId, outgoing: Outgoing<Packet>) {
        let Some(port) = self.egress.ports.get(id) else {
            if id == self.egress.shared.internal_face {
                self.send_internal(outgoing);
            } else if let Some(vip) = self.egress.shared.vip.get().filter(|vip| vip.face() == id) {
                vip.hear(outgoing);
            }
            return;
        };
        let Outgoing { packet, headers, hop_limit } = outgoing;
        let hop_limit = hop_limit.map(|(offset, value)| Patch { offset, value });
        // The port counts announcements that find no room. Applications learn no routes.
        if !self.egress.announced.is_empty()
            && let Some(announcement) = self.egress.announced.with(&packet)
            && port.reach() != Reach::Local
        {
            let _ = self.io.send_announced(port, Outbound { headers, packet, hop_limit }, announcement);
            return;
        }
        let _ = self.io.send(port, Outbound { headers, packet, hop_limit });
    }

    fn send_internal(&mut self, outgoing: Outgoing<Packet>) {
        let headers = outgoing.headers;
        let incoming = headers.incoming_face_id.map(FaceId);
        let port = incoming.and_then(|id| self.egress.ports.get(id));
        let credentials = port.and_then(|port| port.credentials());
        let owned = |port: &Arc<Port>| port.owner().map_or(port.holder(), Holder::uid);
        let holder = port.map_or(Holder::Root, owned);
        let is_local = port.is_some_and(|port| port.reach() == Reach::Local);
        let packet = outgoing.packet;
        self.egress.internal.push(ControlPacket { packet, headers, incoming, is_local, credentials, holder });
    }
}

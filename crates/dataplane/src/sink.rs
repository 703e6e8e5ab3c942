//! The worker's side of one call of the core: the ports for outgoing packets, the disk below the
//! content store in memory, and the traces.

use std::sync::Arc;

use namely_forwarder::{
    EvictedData, FaceId, Learned, Outgoing, Output, Tier, TierAnswer, TierRequest, TierWrite,
};
use namely_host::shares::Owner;
use namely_io::RemoteKind;
use namely_link::{Outbound, Patch};
use namely_wire::NameRef;

use crate::Packet;
use crate::disk::DiskAccess;
use crate::inbox::ControlPacket;
use crate::labels::{DISPATCHER_FULL, listener};
use crate::pending_announcements::PendingAnnouncements;
use crate::shared::{DataPlaneShared, FaceSender};
use crate::trace::PacketTrace;
use crate::worker::Io;

/// The ports on which this worker has sent. For a cached port, a packet takes only the port's own
/// lock.
pub(super) struct SenderCache {
    shared: Arc<DataPlaneShared>,
    by_number: Vec<Option<Arc<FaceSender>>>,
    /// Number of faces that had closed by the last sweep.
    pub(super) swept: u64,
}

impl SenderCache {
    pub(super) fn new(shared: Arc<DataPlaneShared>) -> Self {
        SenderCache { shared, by_number: Vec::new(), swept: 0 }
    }

    #[inline]
    pub(super) fn get(&mut self, id: FaceId) -> Option<&Arc<FaceSender>> {
        // Lower numbers are assigned to no face with a port.
        let index = usize::try_from(id.0.checked_sub(FaceId::FIRST.0)?).ok()?;
        // Numbers of faces are reused, so a closed port may belong to a former face.
        let is_known = matches!(self.by_number.get(index), Some(Some(port)) if !port.is_closed());
        if !is_known {
            self.look_up(id, index);
        }
        self.by_number.get(index)?.as_ref()
    }

    #[cold]
    fn look_up(&mut self, id: FaceId, index: usize) {
        let port = self.shared.port(id);
        // Numbers are dense: they are indices in the core's table of faces.
        if port.is_some() && self.by_number.len() <= index {
            self.by_number.resize_with(index + 1, || None);
        }
        if let Some(slot) = self.by_number.get_mut(index) {
            *slot = port;
        }
    }

    /// Counts a packet that was dropped because the queue of a worker was full.
    pub(super) fn drop_one(&mut self, id: FaceId) {
        if let Some(port) = self.get(id) {
            port.count_receive_drop(DISPATCHER_FULL);
        }
    }

    /// Releases the ports of closed faces. `closed` counts closed faces, and is read before the
    /// ports' flags. So a face that closes later changes the count, and the next call sweeps again.
    pub(super) fn sweep(&mut self, closed: u64) {
        if closed != self.swept {
            self.swept = closed;
            self.by_number.iter_mut().for_each(|slot| drop(slot.take_if(|port| port.is_closed())));
        }
    }
}

/// The sending half, common to all sinks of a worker.
pub(super) struct Egress {
    shared: Arc<DataPlaneShared>,
    pub(super) ports: SenderCache,
    /// Packets of one call to the control thread. The worker hands them over after the call, when
    /// its counters are added up, so a client that reads counters finds its own Interest counted.
    internal: Vec<ControlPacket>,
    /// Announcements of the packets of the batch.
    pub(super) announced: PendingAnnouncements,
}

impl Egress {
    pub(super) fn new(shared: Arc<DataPlaneShared>) -> Self {
        let ports = SenderCache::new(shared.clone());
        Egress { shared, ports, internal: Vec::new(), announced: PendingAnnouncements::default() }
    }

    /// Ends a call of the core: hands over the packets to the control thread.
    #[inline]
    pub(super) fn end_call(&mut self) {
        self.announced.clear();
        self.internal.drain(..).for_each(|packet| self.shared.send_internal(packet));
    }
}

/// Passes packets of the forwarder to the faces' ports. With `DISK` the worker may have a disk, and
/// with `TRACE` packets may be traced. Without them the compiler removes these calls. The pipelines
/// are therefore compiled three times: without either, with a disk, and with both for the few
/// traced packets.
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
        // An announcement that arrived with the Data takes precedence.
        if self.egress.announced.with(packet).is_some() {
            return;
        }
        if let Some(announcement) = shared.offered(face, data, self.io.now_ns())
            && !self.egress.announced.keep(packet, &announcement)
        {
            shared.count(listener::ANNOUNCEMENT_DROPPED);
        }
    }
}

/// The disk, on behalf of the owner of the packet's face.
impl<const DISK: bool, const TRACE: bool> Tier<Packet> for Sink<'_, DISK, TRACE> {
    const MAY_BE: bool = DISK;

    fn read(&mut self, wanted: &TierRequest<'_>) -> TierAnswer {
        // If the face is closed, the router itself counts as the reader.
        let holder = self.egress.ports.get(wanted.face).map_or(Owner::Root, |port| port.holder());
        self.disk.as_mut().map_or(TierAnswer::NoTier, |disk| disk.read_for(wanted, holder))
    }

    fn is_busy(&self) -> bool {
        self.disk.as_ref().is_some_and(DiskAccess::is_busy)
    }

    fn write(&mut self, leaving: EvictedData<Packet>) -> TierWrite {
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

    /// Ends the packet. Its record is added to its traces.
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
                vip.push(outgoing);
            }
            return;
        };
        let Outgoing { packet, headers, hop_limit } = outgoing;
        let hop_limit = hop_limit.map(|(offset, value)| Patch { offset, value });
        // The port counts announcements that it cannot send. Applications learn no routes, so they
        // receive none.
        if !self.egress.announced.is_empty()
            && let Some(announcement) = self.egress.announced.with(&packet)
            && port.reach() != RemoteKind::Local
        {
            let _ = self.io.send_announced(port, Outbound { headers, packet, hop_limit }, announcement);
            return;
        }
        // The port counts a packet that it refuses.
        let _ = self.io.send(port, Outbound { headers, packet, hop_limit });
    }

    fn send_internal(&mut self, outgoing: Outgoing<Packet>) {
        let headers = outgoing.headers;
        let incoming = headers.incoming_face_id.map(FaceId);
        let port = incoming.and_then(|id| self.egress.ports.get(id));
        let credentials = port.and_then(|port| port.credentials());
        // Once the user of a loopback connection is known, the user is charged instead of the
        // address.
        let owned = |port: &Arc<FaceSender>| port.owner().map_or(port.holder(), Owner::uid);
        let holder = port.map_or(Owner::Root, owned);
        let is_local = port.is_some_and(|port| port.reach() == RemoteKind::Local);
        let packet = outgoing.packet;
        self.egress.internal.push(ControlPacket { packet, headers, incoming, is_local, credentials, holder });
    }
}

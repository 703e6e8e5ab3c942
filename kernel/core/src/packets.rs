//! The path of packets: from the module through a link service and the forwarder, and back.

use alloc::boxed::Box;
use alloc::vec::Vec;

use lock_api::Mutex;
use namely_forwarder::{
    Batch, EvictedData, FaceId, Outgoing, Output, PacketBuf, Received, Tier, TierAnswer, TierRequest,
    TierWrite,
};
use namely_link::{
    Frame, LinkConfig, LinkKind, LinkService, MTU_OCTETS_MIN, Outbound, PacketLocation, Patch,
    stream::packet_octets,
};
use namely_wire::LpView;
use namely_wire::tlv::read_tlv;
use namely_wire::types::NAME;

use crate::home::{Embedder, Lock, Part, allocate};
use crate::instance::{Answer, EXPIRED_PER_CALL, Instance, Refused};
use crate::skb::Skb;
use crate::store;

/// The Ethernet address of a frame's sender, on a link with several peers.
pub(crate) type LinkAddress = [u8; 6];

/// The link service of a face.
pub(crate) type Link = Mutex<Lock, LinkService<Skb, LinkAddress>>;

/// The working memory of one processor.
pub(crate) struct Workspace {
    pub(crate) batch: Batch<Skb>,
    pub(crate) queue: Queue,
}

/// Packets that the forwarder sends, until the end of the round.
pub(crate) struct Queue(Vec<(FaceId, Outgoing<Skb>)>);

/// Maximum number of packets that one round sends. Packets beyond it are dropped and counted
/// (`out_full`). A batch has 64 packets, each of which may be sent to several faces.
const OUT_MAX: usize = 1024;

impl Workspace {
    #[inline(never)]
    pub(crate) fn new() -> Result<Box<Self>, Refused> {
        let mut queue = Vec::new();
        queue.try_reserve_exact(OUT_MAX).map_err(|_| Refused::NoMemory)?;
        let batch = Batch::with_room(Batch::<Skb>::PACKETS_MAX).map_err(|_| Refused::NoMemory)?;
        Ok(Box::write(allocate()?, Workspace { batch, queue: Queue(queue) }))
    }

    /// Takes in a frame that a face received; `run` processes it. Returns the time at which the
    /// link is due, ns.
    #[inline(never)]
    pub(crate) fn take(
        &mut self,
        link: &Link,
        face: FaceId,
        frame: Skb,
        from: LinkAddress,
        now_ns: u64,
    ) -> u64 {
        let mut link = link.lock();
        let octets = without_padding(frame.as_ref());
        // The link service has counted the packets that it dropped.
        if let Ok(Some(delivered)) = link.receive(octets, from, now_ns, &mut |_| ()) {
            let packet = match delivered.packet {
                // `octets` begins at the start of `frame`, so the range is valid in both.
                PacketLocation::InFrame(range) => frame.part(range.start, range.len()),
                PacketLocation::Reassembled(octets) => {
                    let packet = Skb::build(octets.len(), |packet| packet.copy_from_slice(&octets));
                    link.recycle(octets);
                    packet
                }
            };
            if let Some(packet) = packet {
                // The module passes at most one batch of packets at a time.
                let _ = self.batch.push(face, Received { packet, headers: delivered.headers });
            }
        }
        link.due_ns().unwrap_or(u64::MAX)
    }

    /// Processes the packets that were taken in, and the work that is due. Returns the time at
    /// which work is due again, ns.
    #[inline(never)]
    pub(crate) fn run(&mut self, instance: &Instance, home: Embedder, has_store: bool, now_ns: u64) -> u64 {
        let store = has_store.then_some(now_ns);
        instance.core.receive_batch(&mut self.batch, now_ns, &mut self.queue.output(home, store));
        let due_ns = self.queue.expire(instance, home, now_ns);
        self.queue.send(home, now_ns);
        due_ns
    }
}

/// Minimum payload of an Ethernet frame, octets. The sender pads a shorter one.
const ETHERNET_PAYLOAD_OCTETS_MIN: usize = 46;

/// Returns the frame without its padding.
fn without_padding(frame: &[u8]) -> &[u8] {
    if frame.len() > ETHERNET_PAYLOAD_OCTETS_MIN {
        return frame;
    }
    match packet_octets(frame) {
        Ok(Some(octets)) => frame.get(..octets).unwrap_or(frame),
        Ok(None) | Err(_) => frame,
    }
}

/// The position of the packet's name in a frame: the offset of its VALUE in the upper half of the
/// number, its length in the lower. 0 if there is no name, or no whole packet.
#[inline(never)]
pub(crate) fn whole_name(frame: &[u8]) -> u64 {
    let found =
        LpView::parse(without_padding(frame)).ok().filter(|view| view.frag_count == 1).and_then(|view| {
            let name = read_tlv(view.fragment?).ok()?.children().require(NAME).ok()?.value;
            Some((name.as_ptr().addr().wrapping_sub(frame.as_ptr().addr()), name.len()))
        });
    found.map_or(0, |(offset, len)| (offset as u64) << 32 | len as u64)
}

/// Does the work that is due on a link. Returns the time at which work is due again, ns.
pub(crate) fn tick(link: &Link, now_ns: u64) -> u64 {
    let mut link = link.lock();
    link.tick(now_ns, &mut |_| ());
    link.due_ns().unwrap_or(u64::MAX)
}

/// Sets the maximum frame length of a link.
pub(crate) fn set_mtu(link: &Link, mtu: u64) -> Answer {
    let mtu = usize::try_from(mtu).ok().filter(|mtu| *mtu >= MTU_OCTETS_MIN).ok_or(Refused::Invalid)?;
    let mut link = link.lock();
    let config = LinkConfig { kind: LinkKind::Datagram { mtu }, ..*link.config() };
    link.reconfigure(config);
    Ok(0)
}

impl Queue {
    /// The sink for the forwarder's output. `store` is the current time, ns, if the instance has an
    /// external store.
    pub(crate) fn output(&mut self, home: Embedder, store: Option<u64>) -> Collect<'_> {
        Collect { queue: &mut self.0, home, store }
    }

    /// Does a bounded part of the work that is due. Returns the time at which work is due again,
    /// ns.
    #[inline(never)]
    pub(crate) fn expire(&mut self, instance: &Instance, home: Embedder, now_ns: u64) -> u64 {
        let expiry = instance.core.expire_within(now_ns, EXPIRED_PER_CALL, &mut self.output(home, None));
        if expiry.is_more { now_ns } else { expiry.next_ns.unwrap_or(u64::MAX) }
    }

    /// Encodes the queued packets as frames and hands them to the home.
    #[inline(never)]
    pub(crate) fn send(&mut self, home: Embedder, now_ns: u64) {
        for (face, outgoing) in self.0.drain(..) {
            send_one(home, face, outgoing, now_ns);
        }
    }
}

/// The forwarder's output. One type serves with and without an external store, and checks at run
/// time: a second type would put the generic core into the object twice.
pub(crate) struct Collect<'a> {
    queue: &'a mut Vec<(FaceId, Outgoing<Skb>)>,
    home: Embedder,
    store: Option<u64>,
}

impl Output<Skb> for Collect<'_> {
    type Tier = Self;
    type Tracer = ();

    fn send(&mut self, face: FaceId, packet: Outgoing<Skb>) {
        if self.queue.len() < OUT_MAX { self.queue.push((face, packet)) } else { self.home.count_out_full() }
    }

    #[inline]
    fn tier(&mut self) -> Option<&mut Self> {
        self.store.is_some().then_some(self)
    }
}

impl Tier<Skb> for Collect<'_> {
    fn read(&mut self, wanted: &TierRequest<'_>) -> TierAnswer {
        store::read(self.home, wanted)
    }

    fn write(&mut self, leaving: EvictedData<Skb>) -> TierWrite {
        store::write(self.home, &leaving, self.store.unwrap_or_default())
    }
}

#[inline(never)]
fn send_one(home: Embedder, face: FaceId, outgoing: Outgoing<Skb>, now_ns: u64) {
    // A face that has been removed since has no link: the packet is dropped.
    let Some(link) = home.link_of(face) else { return };
    let packet = outgoing.packet.clone();
    let hop_limit = outgoing.hop_limit.map(|(offset, value)| Patch { offset, value });
    let outbound = Outbound { headers: outgoing.headers, packet: outgoing.packet, hop_limit };
    // The link service counts a packet for which the MTU is too small.
    let _ = link.lock().send(outbound, now_ns, &mut |frame| emit(home, face, &packet, &frame));
}

/// A frame is a header and a range of the packet, which is passed by reference.
fn emit(home: Embedder, face: FaceId, packet: &Skb, frame: &Frame<Skb>) {
    let [header, before, patched, after] = frame.slices();
    let offset = before.as_ptr().addr().wrapping_sub(packet.as_ref().as_ptr().addr()) as u32;
    let len = (before.len() + patched.len() + after.len()) as u32;
    if u64::from(offset) + u64::from(len) > packet.as_ref().len() as u64 {
        // The frame is no range of this packet. Only reliability and path probes send such frames,
        // and both are off.
        return;
    }
    let patch = patched.first().map(|value| (before.len() as u32, *value));
    home.emit(face, header, packet, Part { offset, len, patch });
}

//! The way of packets: from the home through a link service and the forwarder, and back.

use alloc::boxed::Box;
use alloc::vec::Vec;

use lock_api::Mutex;
use namely_forwarder::{
    Batch, FaceId, Leaving, Outgoing, Output, PacketBuf, Received, Tier, TierAnswer, TierWrite, Wanted,
};
use namely_link::{
    Carried, Frame, LinkConfig, LinkKind, LinkService, MTU_OCTETS_MIN, Outbound, Patch, stream::packet_octets,
};
use namely_wire::LpView;
use namely_wire::tlv::read_tlv;
use namely_wire::types::NAME;

use crate::home::{Home, Lock, Part, place_for};
use crate::instance::{Answer, EXPIRED_PER_CALL, Instance, Refused};
use crate::skb::Skb;
use crate::store;

/// Who sent a frame, on a link with several: its Ethernet address.
pub(crate) type Station = [u8; 6];

/// The link service of a face.
pub(crate) type Link = Mutex<Lock, LinkService<Skb, Station>>;

/// What one processor works with.
pub(crate) struct Workspace {
    pub(crate) batch: Batch<Skb>,
    pub(crate) queue: Queue,
}

/// Packets that the forwarder sends, until their turn ends.
pub(crate) struct Queue(Vec<(FaceId, Outgoing<Skb>)>);

/// Maximum number of packets that one turn sends; what is beyond is dropped and counted
/// (`out_full`). A batch has 64 packets, each of which may go to several faces.
const OUT_MAX: usize = 1024;

impl Workspace {
    #[inline(never)]
    pub(crate) fn new() -> Result<Box<Self>, Refused> {
        let mut queue = Vec::new();
        queue.try_reserve_exact(OUT_MAX).map_err(|_| Refused::NoMemory)?;
        let batch = Batch::with_room(Batch::<Skb>::PACKETS_MAX).map_err(|_| Refused::NoMemory)?;
        Ok(Box::write(place_for()?, Workspace { batch, queue: Queue(queue) }))
    }

    /// Takes in what a face received; `run` processes it. Returns when the link is due, ns.
    #[inline(never)]
    pub(crate) fn take(&mut self, link: &Link, face: FaceId, frame: Skb, from: Station, now_ns: u64) -> u64 {
        let mut link = link.lock();
        let octets = without_padding(frame.as_ref());
        // What is dropped has been counted by the link service.
        if let Ok(Some(delivered)) = link.receive(octets, from, now_ns, &mut |_| ()) {
            let packet = match delivered.packet {
                // The octets begin where the frame does.
                Carried::Whole(range) => frame.part(range.start, range.len()),
                Carried::Completed(octets) => {
                    let packet = Skb::build(octets.len(), |packet| packet.copy_from_slice(&octets));
                    link.recycle(octets);
                    packet
                }
            };
            if let Some(packet) = packet {
                // The module brings no more at a time than a batch holds.
                let _ = self.batch.push(face, Received { packet, headers: delivered.headers });
            }
        }
        link.due_ns().unwrap_or(u64::MAX)
    }

    /// Processes what was taken in, and what is due. Returns when something is again, ns.
    #[inline(never)]
    pub(crate) fn run(&mut self, instance: &Instance, home: Home, has_store: bool, now_ns: u64) -> u64 {
        let store = has_store.then_some(now_ns);
        instance.core.receive_batch(&mut self.batch, now_ns, &mut self.queue.output(home, store));
        let due_ns = self.queue.expire(instance, home, now_ns);
        self.queue.send(home, now_ns);
        due_ns
    }
}

/// Octets of the shortest payload of an Ethernet frame: shorter ones are filled up.
const ETHERNET_PAYLOAD_OCTETS_MIN: usize = 46;

/// What of a frame is not filling.
fn without_padding(frame: &[u8]) -> &[u8] {
    if frame.len() > ETHERNET_PAYLOAD_OCTETS_MIN {
        return frame;
    }
    match packet_octets(frame) {
        Ok(Some(octets)) => frame.get(..octets).unwrap_or(frame),
        Ok(None) | Err(_) => frame,
    }
}

/// Where in a frame the name of its packet lies: the offset of its VALUE in the upper half of the
/// number, how many octets in the lower. 0 if there is no name, or no whole packet.
#[inline(never)]
pub(crate) fn whole_name(frame: &[u8]) -> u64 {
    let found =
        LpView::parse(without_padding(frame)).ok().filter(|view| view.frag_count == 1).and_then(|view| {
            let name = read_tlv(view.fragment?).ok()?.children().require(NAME).ok()?.value;
            Some((name.as_ptr().addr().wrapping_sub(frame.as_ptr().addr()), name.len()))
        });
    found.map_or(0, |(offset, len)| (offset as u64) << 32 | len as u64)
}

/// Does what is due on a link; answers when it is again, ns.
pub(crate) fn tick(link: &Link, now_ns: u64) -> u64 {
    let mut link = link.lock();
    link.tick(now_ns, &mut |_| ());
    link.due_ns().unwrap_or(u64::MAX)
}

/// The longest frame has changed.
pub(crate) fn set_mtu(link: &Link, mtu: u64) -> Answer {
    let mtu = usize::try_from(mtu).ok().filter(|mtu| *mtu >= MTU_OCTETS_MIN).ok_or(Refused::Invalid)?;
    let mut link = link.lock();
    let config = LinkConfig { kind: LinkKind::Datagram { mtu }, ..*link.config() };
    link.reconfigure(config);
    Ok(0)
}

impl Queue {
    /// What the forwarder sends to, of an instance that has a store outside if `store` is the time.
    pub(crate) fn output(&mut self, home: Home, store: Option<u64>) -> Collect<'_> {
        Collect { queue: &mut self.0, home, store }
    }

    /// Ends what is due, a bounded part of it; returns when something is again, ns.
    #[inline(never)]
    pub(crate) fn expire(&mut self, instance: &Instance, home: Home, now_ns: u64) -> u64 {
        let expiry = instance.core.expire_within(now_ns, EXPIRED_PER_CALL, &mut self.output(home, None));
        if expiry.is_more { now_ns } else { expiry.next_ns.unwrap_or(u64::MAX) }
    }

    /// Makes frames of what waits, and hands them to the home.
    #[inline(never)]
    pub(crate) fn send(&mut self, home: Home, now_ns: u64) {
        for (face, outgoing) in self.0.drain(..) {
            send_one(home, face, outgoing, now_ns);
        }
    }
}

/// One kind for all, so that the core is in the object once: whether there is a store outside is
/// known when it runs.
pub(crate) struct Collect<'a> {
    queue: &'a mut Vec<(FaceId, Outgoing<Skb>)>,
    home: Home,
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
    fn read(&mut self, wanted: &Wanted<'_>) -> TierAnswer {
        store::read(self.home, wanted)
    }

    fn write(&mut self, leaving: Leaving<Skb>) -> TierWrite {
        store::write(self.home, &leaving, self.store.unwrap_or_default())
    }
}

#[inline(never)]
fn send_one(home: Home, face: FaceId, outgoing: Outgoing<Skb>, now_ns: u64) {
    // A face that has gone since takes nothing: the packet is dropped.
    let Some(link) = home.link_of(face) else { return };
    let packet = outgoing.packet.clone();
    let hop_limit = outgoing.hop_limit.map(|(offset, value)| Patch { offset, value });
    let outbound = Outbound { headers: outgoing.headers, packet: outgoing.packet, hop_limit };
    // An MTU that is too small is counted by the link service.
    let _ = link.lock().send(outbound, now_ns, &mut |frame| emit(home, face, &packet, &frame));
}

/// A frame is a header and a range of the packet, which goes along by reference.
fn emit(home: Home, face: FaceId, packet: &Skb, frame: &Frame<Skb>) {
    let [header, before, patched, after] = frame.slices();
    let offset = before.as_ptr().addr().wrapping_sub(packet.as_ref().as_ptr().addr()) as u32;
    let len = (before.len() + patched.len() + after.len()) as u32;
    if u64::from(offset) + u64::from(len) > packet.as_ref().len() as u64 {
        // Not of this packet: only reliability and probes of a path send such, and both are off.
        return;
    }
    let patch = patched.first().map(|value| (before.len() as u32, *value));
    home.emit(face, header, packet, Part { offset, len, patch });
}

//! An allocation that fails drops a packet, which is counted, and has no other effect. Each
//! allocation of the receiving and of the sending path fails once, by the allocator of this test.
#![deny(unsafe_code)]

use std::sync::{Arc, OnceLock};

use namely_link::{
    Frame, LinkConfig, LinkKind, LinkService, Outbound, PacketLocation, Patch, ReassemblyTotal,
};
use namely_wire::{LpHeaders, PitToken};

use refusing::{allocations, refusing};

#[allow(unsafe_code)]
mod refusing {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    thread_local! {
        static COUNTS: Cell<bool> = const { Cell::new(false) };
        static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
        /// The number of the allocation that fails.
        static REFUSED: Cell<u64> = const { Cell::new(u64::MAX) };
    }

    /// Returns true if an allocation must succeed.
    fn count() -> bool {
        if !COUNTS.get() {
            return true;
        }
        let number = ALLOCATIONS.get();
        ALLOCATIONS.set(number + 1);
        number != REFUSED.get()
    }

    struct Refusing;

    // SAFETY: every call is passed on to the system's allocator unchanged, or fails. Counting
    // accesses only thread-local numbers.
    unsafe impl GlobalAlloc for Refusing {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if !count() {
                return std::ptr::null_mut();
            }
            // SAFETY: the caller guarantees the conditions that `System` requires.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
            // SAFETY: as above.
            unsafe { System.dealloc(ptr, layout) }
        }

        unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            if !count() {
                return std::ptr::null_mut();
            }
            // SAFETY: as above.
            unsafe { System.realloc(ptr, layout, size) }
        }
    }

    #[global_allocator]
    static REFUSING: Refusing = Refusing;

    /// Makes this thread's allocation of that number within [`allocations`] fail.
    pub(super) fn refusing(number: u64) {
        ALLOCATIONS.set(0);
        REFUSED.set(number);
    }

    /// Runs a function whose allocations may fail. Returns its value, and the number of allocations
    /// so far.
    pub(super) fn allocations<T>(run: impl FnOnce() -> T) -> (T, u64) {
        COUNTS.set(true);
        let value = run();
        COUNTS.set(false);
        (value, ALLOCATIONS.get())
    }
}

type Packet = Arc<[u8]>;

const MS: u64 = 1_000_000;

/// Maximum number of frames that one call emits.
const FRAMES_MAX: usize = 64;

struct End {
    link: LinkService<Packet, u8>,
    total: Arc<ReassemblyTotal>,
    /// The emitted frames. It has room for the frames of a call, so that only the link service
    /// allocates.
    emitted: Vec<Frame<Packet>>,
    delivered: Vec<Vec<u8>>,
}

impl End {
    fn new(is_reliable: bool) -> Self {
        let total = ReassemblyTotal::new(1 << 20);
        let config = LinkConfig {
            reliability: is_reliable,
            local_fields: true,
            ..LinkConfig::new(LinkKind::Datagram { mtu: 500 })
        };
        let mut link = LinkService::new(config, total.clone(), 0);
        link.discover_path(true);
        End { link, total, emitted: Vec::with_capacity(FRAMES_MAX), delivered: Vec::new() }
    }

    /// The emitted frames, as they are sent.
    fn frames(&mut self) -> Vec<Vec<u8>> {
        assert!(self.emitted.capacity() == FRAMES_MAX, "the test's own memory sufficed");
        self.emitted.drain(..).map(|frame| frame.slices().concat()).collect()
    }

    fn send(&mut self, packet: &Packet, n: u8, now_ns: u64) -> Vec<Vec<u8>> {
        // Every other packet has header fields of its own.
        let headers =
            LpHeaders { pit_token: PitToken::new(&[n; 9][..usize::from(n % 2) * 9]), ..LpHeaders::default() };
        let hop_limit = n.is_multiple_of(3).then_some(Patch { offset: 5, value: packet[5] });
        let outbound = Outbound { headers, packet: packet.clone(), hop_limit };
        let End { link, emitted, .. } = self;
        let (sent, _) = allocations(|| link.send(outbound, now_ns, &mut |frame| emitted.push(frame)));
        assert_eq!(sent.is_err(), self.emitted.is_empty(), "all of a packet or nothing");
        self.frames()
    }

    fn receive(&mut self, frame: &[u8], remote: u8, now_ns: u64) -> Vec<Vec<u8>> {
        let End { link, emitted, delivered, .. } = self;
        let (got, _) = allocations(|| link.receive(frame, remote, now_ns, &mut |frame| emitted.push(frame)));
        if let Ok(Some(got)) = got {
            delivered.push(got.packet.octets(frame).to_vec());
            if let PacketLocation::Reassembled(buffer) = got.packet {
                link.recycle(buffer);
            }
        }
        self.frames()
    }

    fn tick(&mut self, now_ns: u64) -> Vec<Vec<u8>> {
        let End { link, emitted, .. } = self;
        allocations(|| link.tick(now_ns, &mut |frame| emitted.push(frame)));
        self.frames()
    }

    fn no_memory(&self) -> u64 {
        self.link.counters().drops.of("no_memory")
    }
}

/// Returns a Data of `octets` octets, filled with `n`.
fn packet(n: u8, octets: usize) -> Packet {
    let mut packet = vec![6, 253, ((octets - 4) >> 8) as u8, (octets - 4) as u8];
    packet.resize(octets, n);
    packet.into()
}

/// Runs `story` once for each of its allocations, which then fails, and once without a failure. The
/// argument of `story` is true if an allocation fails.
fn each_refused(least: u64, story: impl Fn(bool)) {
    let refused = (0..)
        .find(|number| {
            refusing(*number);
            story(true);
            let ((), all) = allocations(|| ());
            all <= *number
        })
        .unwrap();
    assert!(refused >= least, "{refused} allocations are not all there are");
    refusing(u64::MAX);
    story(false);
}

/// A kernel creates a link service for each face and has no memory to spare for it, so this
/// allocates nothing.
#[test]
fn a_link_service_needs_no_memory() {
    static TOTAL: OnceLock<ReassemblyTotal> = OnceLock::new();
    let total = TOTAL.get_or_init(|| ReassemblyTotal::unshared(1 << 20));
    for kind in [LinkKind::Stream, LinkKind::Datagram { mtu: 1500 }] {
        let (link, allocations) =
            allocations(|| LinkService::<Packet, u8>::new(LinkConfig::new(kind), total, 0));
        assert_eq!(allocations, 0, "{:?}", link.config());
    }
}

/// Fragments in order, in reverse order, and of two remotes alternately.
#[test]
fn a_refused_fragment_costs_only_its_packet() {
    const PACKETS: usize = 12;
    let packets: Vec<Packet> = (0..PACKETS as u8).map(|n| packet(n, 1800)).collect();
    let mut from = End::new(false);
    let frames: Vec<Vec<Vec<u8>>> = packets.iter().map(|packet| from.send(packet, 1, 0)).collect();
    each_refused(8, |_| {
        let mut to = End::new(false);
        for (n, pair) in frames.chunks(2).enumerate() {
            let indices: Vec<usize> = (0..pair[0].len()).collect();
            for index in if n % 2 == 0 { indices } else { indices.into_iter().rev().collect() } {
                to.receive(&pair[0][index], 0, 1);
                to.receive(&pair[1][index], 1, 1);
            }
        }
        let lost = to.no_memory() as usize;
        assert!(lost <= 1);
        assert_eq!(to.delivered.len(), PACKETS - lost);
        assert!(to.delivered.iter().all(|got| packets.iter().any(|packet| packet[..] == got[..])));
        to.tick(1000 * MS);
        assert_eq!(to.total.octets(), 0);
        frames[0].iter().for_each(|frame| drop(to.receive(frame, 0, 1001 * MS)));
        assert_eq!(to.delivered.last().map(|got| &got[..]), Some(&packets[0][..]), "it goes on");
    });
}

/// Packets in one frame and in several, with fields and without, in both directions. With
/// reliability, one frame of each packet of several frames is lost first.
#[test]
fn a_refused_frame_costs_only_its_packet() {
    const PACKETS: u8 = 12;
    for is_reliable in [false, true] {
        each_refused(if is_reliable { 8 } else { 2 }, |is_refused| {
            let mut ends = [End::new(is_reliable), End::new(is_reliable)];
            let mut now_ns = 0;
            for n in 0..PACKETS {
                let from = usize::from(n % 2);
                let sent = ends[from].send(&packet(n, if n < 4 { 300 } else { 1800 }), n, now_ns);
                let is_lost = |index: usize| is_reliable && n >= 4 && index == 1;
                let arriving = sent.into_iter().enumerate().filter(|(index, _)| !is_lost(*index));
                let mut wire: Vec<(usize, Vec<u8>)> = arriving.map(|(_, frame)| (1 - from, frame)).collect();
                // Until no frame is in flight.
                for _ in 0..if is_reliable { 400 } else { 1 } {
                    now_ns += 5 * MS;
                    for (to, frame) in std::mem::take(&mut wire) {
                        let answers = ends[to].receive(&frame, 0, now_ns);
                        wire.extend(answers.into_iter().map(|frame| (1 - to, frame)));
                    }
                    for (from, end) in ends.iter_mut().enumerate() {
                        wire.extend(end.tick(now_ns).into_iter().map(|frame| (1 - from, frame)));
                    }
                }
            }
            let refused: u64 = ends.iter().map(End::no_memory).sum();
            let delivered: usize = ends.iter().map(|end| end.delivered.len()).sum();
            assert!(refused <= u64::from(is_refused));
            // A fragment is acknowledged even if its receiver has no memory for it. A failed record
            // of late or repeated frames loses nothing.
            let lost = u64::from(PACKETS) - delivered as u64;
            assert!(lost <= refused, "{lost} lost, {refused} refused");
            for end in &mut ends {
                end.tick(now_ns + 10_000 * MS);
                assert_eq!(end.total.octets(), 0);
            }
        });
    }
}

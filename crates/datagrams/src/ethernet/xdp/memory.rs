//! An XDP socket's memory, which it shares with the kernel: chunks for frames, and four rings that
//! record the owner of each chunk.
//!
//! The first chunks are for received frames, the others for sent frames; no chunk ever changes
//! sides. A chunk for receiving belongs to the kernel from its entry in the fill ring until its
//! entry in the receive ring. A chunk for sending belongs to the kernel from its entry in the
//! transmit ring until its entry in the completion ring. [`Receive`] and [`Transmit`] have two
//! rings each, so they need no lock between them.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpOptionsFlags, XdpRingFlags, XdpRingOffset,
    XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::super::ring::ReceivedFrame;
use super::FRAME_OCTETS_MAX;

/// The headroom that the kernel keeps free before each received frame (`XDP_PACKET_HEADROOM`).
const HEADROOM_OCTETS: usize = 256;

/// The layout of a socket's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// 2048 or 4096, as the kernel has it.
    chunk_octets: usize,
    /// Chunks for frames that arrive, a power of two.
    receive_chunks: usize,
    /// Chunks for frames that leave, a power of two.
    transmit_chunks: usize,
    /// Whether a frame may take several chunks.
    is_split: bool,
}

impl Layout {
    /// Minimum number of chunks of one side.
    const CHUNKS_MIN: usize = 64;

    /// Chunks of memory for one direction of a receive queue by AF_XDP.
    ///
    /// # Limit
    /// The queue has less memory than its setting.
    /// - Value: 16,384 of 2048 or 4096 octets
    /// - Tests: `chunks_fit_the_longest_frame`
    const CHUNKS_MAX: usize = 16 << 10;

    /// Creates the layout for frames of up to `frame_octets`, with about `receive_octets` for
    /// received and `transmit_octets` for sent frames.
    pub fn new(frame_octets: usize, receive_octets: usize, transmit_octets: usize) -> Self {
        let fits = |chunk: usize| frame_octets + HEADROOM_OCTETS <= chunk;
        let chunk_octets = if fits(2048) { 2048 } else { 4096 };
        let chunks = |octets: usize| {
            let chunks = (octets / chunk_octets).clamp(Self::CHUNKS_MIN, Self::CHUNKS_MAX);
            1 << chunks.ilog2()
        };
        Layout {
            chunk_octets,
            receive_chunks: chunks(receive_octets),
            transmit_chunks: chunks(transmit_octets),
            is_split: !fits(chunk_octets),
        }
    }

    fn chunks(&self) -> usize {
        self.receive_chunks + self.transmit_chunks
    }

    fn octets(&self) -> usize {
        self.chunks() * self.chunk_octets
    }
}

/// A mapping of this process.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    octets: usize,
}

// SAFETY: apart from the kernel, only this value accesses the memory. It is not tied to a thread.
// Access through a shared reference follows further rules, which the rest of this module observes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory of zeros.
    fn anonymous(octets: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses, replaces no existing one.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), octets, protection, MapFlags::PRIVATE)?
        };
        Ok(Mapping { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, octets })
    }

    /// A ring of a socket.
    fn ring(socket: &OwnedFd, octets: usize, page: u64) -> Result<Self, Errno> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: as in `anonymous`.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), octets, protection, flags, socket, page)? };
        Ok(Mapping { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, octets })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing that points into it outlives this
        // value.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.octets) };
    }
}

/// One end of a ring whose other end is the kernel's. `T` is the type of its entries: integers for
/// which any octets are a value.
#[derive(Debug)]
struct Ring<T> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    flags: Option<usize>,
    first: usize,
    entries: u32,
    /// The entry that this end produces or consumes next. Both ends count up and wrap around; the
    /// remainder is the index.
    next: u32,
    entry: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn new(socket: &OwnedFd, offsets: &XdpRingOffset, entries: usize, page: u64) -> Result<Self, Errno> {
        let first = offsets.desc as usize;
        let mapping = Mapping::ring(socket, first + entries * size_of::<T>(), page)?;
        let word = |offset: u64| {
            let offset = offset as usize;
            (offset.is_multiple_of(4) && offset + 4 <= mapping.octets).then_some(offset).ok_or(Errno::INVAL)
        };
        if !first.is_multiple_of(align_of::<T>()) {
            return Err(Errno::INVAL);
        }
        let (producer, consumer) = (word(offsets.producer)?, word(offsets.consumer)?);
        let flags = offsets.flags.map(word).transpose()?;
        let entry = std::marker::PhantomData;
        Ok(Ring { mapping, producer, consumer, flags, first, entries: entries as u32, next: 0, entry })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `new` has checked that the word is aligned and within the mapping. The mapping
        // lives as long as the reference. Both sides access the word as an atomic.
        unsafe { AtomicU32::from_ptr(self.mapping.start.add(offset).cast().as_ptr()) }
    }

    /// Entries that the kernel has produced and this end has not consumed.
    fn available(&self) -> u32 {
        self.word(self.producer).load(Ordering::Acquire).wrapping_sub(self.next).min(self.entries)
    }

    /// Entries that this end has produced and the kernel has not consumed.
    fn pending(&self) -> u32 {
        self.next.wrapping_sub(self.word(self.consumer).load(Ordering::Acquire))
    }

    fn slot(&self) -> NonNull<T> {
        let index = (self.next & (self.entries - 1)) as usize;
        // SAFETY: the index is below the number of entries (a power of two). `new` mapped room for
        // all of them behind `first`, where `T` is aligned.
        unsafe { self.mapping.start.add(self.first).cast::<T>().add(index) }
    }

    /// Takes the next entry. May be called only if [`Ring::available`] has reported one.
    fn take(&mut self) -> T {
        let slot = self.slot();
        self.next = self.next.wrapping_add(1);
        // SAFETY: the entry is within the ring. The kernel does not write to a produced entry until
        // we publish its consumption, which happens later. In any case, any octets are a value of
        // `T`.
        unsafe { slot.read() }
    }

    /// Adds an entry. There is always room, because each ring has as many entries as its side has
    /// chunks.
    fn put(&mut self, entry: T) {
        let slot = self.slot();
        self.next = self.next.wrapping_add(1);
        // SAFETY: the entry is within the ring, and the kernel reads it only after it was
        // published.
        unsafe { slot.write(entry) };
    }

    /// Publishes the taken entries to the kernel.
    fn publish_taken(&self) {
        self.word(self.consumer).store(self.next, Ordering::Release);
    }

    /// Publishes the new entries to the kernel. Returns true if it must be notified.
    fn publish_put(&self) -> bool {
        self.word(self.producer).store(self.next, Ordering::Release);
        // The kernel sets the flag before it reads the ring a last time. The fence ensures that it
        // either sees the new entries, or that we see the flag.
        fence(Ordering::SeqCst);
        let flags = self.flags.map_or(0, |flags| self.word(flags).load(Ordering::Relaxed));
        flags & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }
}

/// An XDP socket that is bound to a queue of a device: its two halves.
///
/// # Errors
/// The system's error; [`Errno::INVAL`] if there is no such queue.
pub fn open(index: u32, queue: u32, layout: Layout) -> Result<(Receive, Transmit), Errno> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?;
    let umem = Mapping::anonymous(layout.octets())?;
    let region = XdpUmemReg {
        addr: umem.start.as_ptr().expose_provenance() as u64,
        len: umem.octets as u64,
        chunk_size: layout.chunk_octets as u32,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(&socket, region)?;
    let (receive, transmit) = (layout.receive_chunks, layout.transmit_chunks);
    sockopt::set_xdp_umem_fill_ring_size(&socket, receive as u32)?;
    sockopt::set_xdp_rx_ring_size(&socket, receive as u32)?;
    sockopt::set_xdp_umem_completion_ring_size(&socket, transmit as u32)?;
    sockopt::set_xdp_tx_ring_size(&socket, transmit as u32)?;
    let offsets = sockopt::xdp_mmap_offsets(&socket)?;
    let mut fill = Ring::new(&socket, &offsets.fr, receive, XDP_UMEM_PGOFF_FILL_RING)?;
    let rx = Ring::new(&socket, &offsets.rx, receive, XDP_PGOFF_RX_RING)?;
    let completion = Ring::new(&socket, &offsets.cr, transmit, XDP_UMEM_PGOFF_COMPLETION_RING)?;
    let tx = Ring::new(&socket, &offsets.tx, transmit, XDP_PGOFF_TX_RING)?;
    (0..receive).for_each(|chunk| fill.put((chunk * layout.chunk_octets) as u64));
    fill.publish_put();
    let split = if layout.is_split { SocketAddrXdpFlags::XDP_USE_SG } else { SocketAddrXdpFlags::empty() };
    let flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP | split;
    rustix::net::bind(&socket, &SocketAddrXdp::new(flags, index, queue))?;
    let (socket, umem) = (Arc::new(socket), Arc::new(umem));
    let free = (receive..layout.chunks()).map(|chunk| (chunk * layout.chunk_octets) as u64).collect();
    let transmit = Transmit { socket: socket.clone(), umem: umem.clone(), layout, tx, completion, free };
    let assembly = Assembly::default();
    Ok((Receive { socket, umem, layout, rx, fill, assembly, drops: 0 }, transmit))
}

/// A frame in several pieces.
#[derive(Debug, Default)]
struct Assembly {
    octets: Vec<u8>,
    is_cut: bool,
}

impl Assembly {
    /// Passes a frame to `take` when its last piece is there.
    fn add(&mut self, piece: &[u8], goes_on: bool, mut take: impl FnMut(ReceivedFrame<'_>)) {
        let whole = |octets, is_cut| ReceivedFrame { octets, is_cut, vlan: None, is_losing: false };
        if !goes_on && !self.is_cut && self.octets.is_empty() {
            return take(whole(piece, false));
        }
        self.is_cut |= self.octets.len() + piece.len() > FRAME_OCTETS_MAX;
        if !self.is_cut {
            self.octets.extend_from_slice(piece);
        }
        if !goes_on {
            take(whole(&self.octets, self.is_cut));
            self.octets.clear();
            self.is_cut = false;
        }
    }
}

/// The half that receives.
#[derive(Debug)]
pub struct Receive {
    socket: Arc<OwnedFd>,
    umem: Arc<Mapping>,
    layout: Layout,
    rx: Ring<XdpDesc>,
    fill: Ring<u64>,
    assembly: Assembly,
    /// The kernel's counters at the last call; they only increase.
    drops: u64,
}

impl Receive {
    /// Passes frames to `take`, at most `max` pieces. Returns the number of pieces.
    pub fn receive(&mut self, max: usize, mut take: impl FnMut(ReceivedFrame<'_>)) -> usize {
        let count = (self.rx.available() as usize).min(max);
        if count == 0 {
            return 0;
        }
        for _ in 0..count {
            let XdpDesc { addr, len, options } = self.rx.take();
            let chunk = addr & !(self.layout.chunk_octets as u64 - 1);
            let (start, octets) = (addr as usize, len as usize);
            let is_ours = (chunk as usize) < self.layout.receive_chunks * self.layout.chunk_octets;
            if !is_ours || octets > chunk as usize + self.layout.chunk_octets - start {
                // The kernel returns only chunks that it was given. Any other chunk must not enter
                // the fill ring.
                debug_assert!(false, "the kernel named {addr} with {len} octets");
                continue;
            }
            // SAFETY: the piece is within a chunk for receiving, as checked above, hence within the
            // mapping. The kernel writes nothing there until the chunk is in the fill ring again.
            // The fill ring is published below, after the last use. No other code here reads or
            // writes chunks for receiving.
            let piece = unsafe { std::slice::from_raw_parts(self.umem.start.add(start).as_ptr(), octets) };
            self.assembly.add(piece, options.contains(XdpDescOptions::XDP_PKT_CONTD), &mut take);
            self.fill.put(chunk);
        }
        self.rx.publish_taken();
        if self.fill.publish_put() {
            // This call receives nothing. It makes a driver that ran out of chunks read the fill
            // ring again.
            let _ = rustix::net::recv(&*self.socket, &mut [0; 0], RecvFlags::DONTWAIT);
        }
        count
    }

    /// The number of frames that the kernel dropped since the last call because no chunk was free.
    pub fn drops(&mut self) -> u64 {
        let Ok(statistics) = sockopt::xdp_statistics(&*self.socket) else { return 0 };
        let drops = statistics.rx_dropped + statistics.rx_ring_full.unwrap_or(0);
        drops.saturating_sub(std::mem::replace(&mut self.drops, drops))
    }

    /// Returns true if the device writes into the chunks itself.
    pub fn is_zero_copy(&self) -> bool {
        sockopt::xdp_options(&*self.socket)
            .is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// The socket, for [`super::Program::lead`].
    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }
}

impl AsFd for Receive {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The half that sends.
#[derive(Debug)]
pub struct Transmit {
    socket: Arc<OwnedFd>,
    umem: Arc<Mapping>,
    layout: Layout,
    tx: Ring<XdpDesc>,
    completion: Ring<u64>,
    /// Chunks for sending that the kernel does not own.
    free: Vec<u64>,
}

impl Transmit {
    /// Takes back the chunks of frames that were sent.
    pub fn reap(&mut self) {
        let count = self.completion.available();
        for _ in 0..count {
            let chunk = self.completion.take() & !(self.layout.chunk_octets as u64 - 1);
            let is_ours = chunk as usize >= self.layout.receive_chunks * self.layout.chunk_octets
                && (chunk as usize) < self.layout.octets();
            debug_assert!(is_ours && self.free.len() < self.layout.transmit_chunks);
            if is_ours {
                self.free.push(chunk);
            }
        }
        if count > 0 {
            self.completion.publish_taken();
        }
    }

    /// Copies a frame into chunks for the kernel. Returns false, without copying, if there are not
    /// enough.
    pub fn put(&mut self, parts: &[&[u8]]) -> bool {
        let octets: usize = parts.iter().map(|part| part.len()).sum();
        let chunks = octets.div_ceil(self.layout.chunk_octets);
        if chunks > self.free.len() {
            return false;
        }
        let mut parts = parts.iter().copied();
        let mut part: &[u8] = &[];
        for number in 0..chunks {
            let Some(chunk) = self.free.pop() else { return false };
            let len = (octets - number * self.layout.chunk_octets).min(self.layout.chunk_octets);
            let mut at = 0;
            while at < len {
                if part.is_empty() {
                    let Some(next) = parts.next() else { break };
                    part = next;
                    continue;
                }
                let (now, later) = part.split_at(part.len().min(len - at));
                // SAFETY: `at` and the copied octets end within the chunk. The chunk is within the
                // mapping, because `open` or `reap` put its address on the list of free chunks. It
                // is for sending and free, so the kernel does not access it, and because of `&mut
                // self` no other code does. `now` is the caller's memory.
                unsafe {
                    let to = self.umem.start.add(chunk as usize + at);
                    std::ptr::copy_nonoverlapping(now.as_ptr(), to.as_ptr(), now.len());
                }
                at += now.len();
                part = later;
            }
            let goes_on = number + 1 < chunks;
            let options = if goes_on { XdpDescOptions::XDP_PKT_CONTD } else { XdpDescOptions::empty() };
            self.tx.put(XdpDesc { addr: chunk, len: len as u32, options });
        }
        true
    }

    /// Publishes the new entries to the kernel. Returns the socket if the kernel must be notified
    /// ([`kick`]).
    pub fn publish(&self) -> Option<Arc<OwnedFd>> {
        self.tx.publish_put().then(|| self.socket.clone())
    }

    /// Pieces that the kernel has not taken yet.
    pub fn pending(&self) -> u32 {
        self.tx.pending()
    }
}

/// Makes the kernel send the entries of the transmit ring, or a part of them.
///
/// # Errors
/// [`Errno::AGAIN`] or [`Errno::NOBUFS`] when some entries remain; [`Errno::BUSY`] when the device
/// refused a frame, which is lost; [`Errno::NETDOWN`] and [`Errno::NXIO`] when there is no device
/// to send.
pub fn kick(socket: &OwnedFd) -> Result<(), Errno> {
    rustix::net::send(socket, &[], SendFlags::DONTWAIT).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_pieces_are_joined_up_to_the_maximum() {
        let mut assembly = Assembly::default();
        let mut seen = Vec::new();
        let mut add = |piece: &[u8], goes_on| {
            assembly.add(piece, goes_on, |arrived| seen.push((arrived.octets.len(), arrived.is_cut)));
        };
        add(&[1; 60], false);
        add(&vec![1; FRAME_OCTETS_MAX - 10], true);
        add(&[1; 10], false);
        add(&vec![1; FRAME_OCTETS_MAX], true);
        add(&[1], true);
        add(&[1], false);
        add(&[1; 60], false);
        let cut = (FRAME_OCTETS_MAX, true);
        assert_eq!(seen, [(60, false), (FRAME_OCTETS_MAX, false), cut, (60, false)]);
    }

    #[test]
    fn chunks_fit_the_longest_frame() {
        for (mtu, chunk_octets, is_split) in [
            (1500, 2048, false),
            (1774, 2048, false),
            (1775, 4096, false),
            (3822, 4096, false),
            (3823, 4096, true),
        ] {
            let layout = Layout::new(mtu + 18, 8 << 20, 1 << 20);
            assert_eq!((layout.chunk_octets, layout.is_split), (chunk_octets, is_split), "{mtu}");
            assert!(layout.octets() <= 9 << 20);
            assert!(layout.receive_chunks.is_power_of_two() && layout.transmit_chunks.is_power_of_two());
        }
        let (least, most) = (Layout::new(1518, 0, 0), Layout::new(1518, usize::MAX, usize::MAX));
        assert_eq!((least.receive_chunks, least.transmit_chunks), (64, 64));
        assert_eq!((most.receive_chunks, most.transmit_chunks), (16 << 10, 16 << 10));
    }
}

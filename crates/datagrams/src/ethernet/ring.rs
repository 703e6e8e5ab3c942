//! A socket for the frames of one device, whose memory the kernel shares: packet(7) with a receive
//! ring (`TPACKET_V2`).
//!
//! The kernel writes each frame into a slot and marks the slot as ours. We read the frame and mark
//! the slot as the kernel's again. No system call is made while there are frames. `TPACKET_V3` is
//! not used: it delivers frames by blocks, when a block is full or its timer fires. That would
//! delay the last frame of each burst by up to a millisecond, and by more on older kernels.
#![allow(unsafe_code)]

use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use namely_wire::MacAddress;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::ETHERTYPE;

/// The size of the kernel's memory blocks, octets. Each block must be contiguous.
const BLOCK_OCTETS: usize = 64 << 10;

/// The octets before a frame in its slot: the slot's header, a link address, and alignment, as the
/// kernel computes it.
const SLOT_HEADER_OCTETS: usize = align(libc::TPACKET2_HDRLEN + 16);

/// Ethernet header and a VLAN tag.
const FRAME_HEADER_OCTETS: usize = 18;

/// Options and values of `linux/if_packet.h`.
const PACKET_FANOUT: libc::c_int = 18;
const PACKET_FANOUT_DATA: libc::c_int = 22;
const PACKET_FANOUT_CBPF: libc::c_int = 6;
const PACKET_FANOUT_FLAG_UNIQUEID: libc::c_int = 0x2000;

/// An instruction of a packet filter.
pub type Instruction = libc::sock_filter;

const fn align(octets: usize) -> usize {
    octets.next_multiple_of(libc::TPACKET_ALIGNMENT)
}

/// The positions of the slots in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    slot_octets: usize,
    slots_per_block: usize,
    blocks: usize,
}

impl Layout {
    /// The layout for frames of a device with an MTU of `mtu_octets`, in about `ring_octets` of
    /// memory.
    fn new(mtu_octets: usize, ring_octets: usize) -> Self {
        let slot_octets = align(SLOT_HEADER_OCTETS + FRAME_HEADER_OCTETS + mtu_octets).min(BLOCK_OCTETS);
        let blocks = (ring_octets / BLOCK_OCTETS).max(1);
        Layout { slot_octets, slots_per_block: BLOCK_OCTETS / slot_octets, blocks }
    }

    fn slots(&self) -> usize {
        self.slots_per_block * self.blocks
    }

    fn octets(&self) -> usize {
        self.blocks * BLOCK_OCTETS
    }

    /// Returns the offset of a slot.
    fn offset(&self, slot: usize) -> usize {
        slot / self.slots_per_block * BLOCK_OCTETS + slot % self.slots_per_block * self.slot_octets
    }
}

/// Options of <linux/if_packet.h> that the library lacks.
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// Octets of the header before a frame of [`tap_socket`].
pub const TAP_OCTETS: usize = 10;

/// A frame in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedFrame<'a> {
    /// From the destination address on, without a checksum, perhaps with padding.
    pub octets: &'a [u8],
    /// It is longer than its slot.
    pub is_cut: bool,
    /// The VLAN it was tagged with.
    pub vlan: Option<u16>,
    /// Frames were dropped since the drops were last read.
    pub is_losing: bool,
}

/// A device's receiving socket.
#[derive(Debug)]
pub struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    layout: Layout,
    next: usize,
}

// SAFETY: apart from the kernel, only this value accesses the memory. It is not tied to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a ring of the NDN frames that the device with the given index receives.
    ///
    /// # Errors
    /// Environment: the system refused; `PERM` without CAP_NET_RAW.
    pub fn open(index: u32, mtu_octets: usize, ring_octets: usize) -> Result<Self, Errno> {
        let ring = Self::new(mtu_octets, ring_octets)?;
        bind(&ring.socket, index, ETHERTYPE)?;
        Ok(ring)
    }

    /// Opens the ring, but nothing is received before [`Ring::listen`].
    ///
    /// # Errors
    /// Environment: the system refused; `PERM` without CAP_NET_RAW.
    pub fn open_deaf(index: u32, mtu_octets: usize, ring_octets: usize) -> Result<Self, Errno> {
        let ring = Self::new(mtu_octets, ring_octets)?;
        // "Return 0": no octet of any frame is accepted.
        let nothing = Instruction { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
        set_program(&ring.socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &[nothing])?;
        bind(&ring.socket, index, ETHERTYPE)?;
        Ok(ring)
    }

    /// Opens a ring of the NDN frames from the link address `peer` to the link address `own`. While
    /// the ring exists, the device accepts frames to `own` beside its own address. A device without
    /// a filter for several addresses accepts all frames meanwhile; this ring still receives no
    /// others.
    ///
    /// # Errors
    /// Environment: the system refused; `PERM` without CAP_NET_RAW.
    pub fn open_address(
        index: u32,
        mtu_octets: usize,
        ring_octets: usize,
        peer: MacAddress,
        own: MacAddress,
    ) -> Result<Self, Errno> {
        let ring = Self::new(mtu_octets, ring_octets)?;
        set_program(&ring.socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &between(peer, own))?;
        member(&ring.socket, index, libc::PACKET_MR_UNICAST, own)?;
        bind(&ring.socket, index, ETHERTYPE)?;
        Ok(ring)
    }

    /// Ends the deafness of [`Ring::open_deaf`].
    ///
    /// # Errors
    /// Environment: the system refused.
    pub fn listen(&self) -> Result<(), Errno> {
        set(&self.socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
    }

    /// Makes a group of rings that share the device's frames by the result of `program` for each.
    /// The ring is its first member. Returns the group's number.
    ///
    /// # Errors
    /// ENETDOWN or EINVAL when the device is down.
    pub fn found_group(&self, program: &[Instruction]) -> Result<u16, Errno> {
        let kind = (PACKET_FANOUT_CBPF | PACKET_FANOUT_FLAG_UNIQUEID) << 16;
        set(&self.socket, libc::SOL_PACKET, PACKET_FANOUT, &kind)?;
        set_program(&self.socket, libc::SOL_PACKET, PACKET_FANOUT_DATA, program)?;
        let group: libc::c_int = get(&self.socket, PACKET_FANOUT)?;
        Ok((group & 0xffff) as u16)
    }

    /// Enters a group.
    ///
    /// # Errors
    /// As [`Ring::found_group`].
    pub fn join_group(&self, number: u16, program: &[Instruction]) -> Result<(), Errno> {
        let group = PACKET_FANOUT_CBPF << 16 | libc::c_int::from(number);
        set(&self.socket, libc::SOL_PACKET, PACKET_FANOUT, &group)?;
        // If all other members have left meanwhile, the group is a new one without a program.
        set_program(&self.socket, libc::SOL_PACKET, PACKET_FANOUT_DATA, program)
    }

    /// Makes a ring whose socket is not bound.
    fn new(mtu_octets: usize, ring_octets: usize) -> Result<Self, Errno> {
        let socket = socket()?;
        set(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as libc::c_int),
        )?;
        let layout = Layout::new(mtu_octets, ring_octets);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_OCTETS as libc::c_uint,
            tp_block_nr: layout.blocks as libc::c_uint,
            tp_frame_size: layout.slot_octets as libc::c_uint,
            tp_frame_nr: layout.slots() as libc::c_uint,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping, at an address that the kernel chooses, replaces no existing one.
        let memory = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                layout.octets(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &socket,
                0,
            )?
        };
        let memory = NonNull::new(memory.cast()).ok_or(Errno::NOMEM)?;
        Ok(Ring { socket, memory, layout, next: 0 })
    }

    /// Passes the next frame to `take`, and returns its slot to the kernel. Returns false if there
    /// is none.
    pub fn receive(&mut self, take: impl FnOnce(ReceivedFrame<'_>)) -> bool {
        let offset = self.layout.offset(self.next);
        // SAFETY: `offset` is the offset of a slot. So a `tpacket2_hdr` lies there, within the
        // mapping, and it is aligned, because mappings and slots are. Its first field is the
        // status, which both sides access as an atomic.
        let (header, status) = unsafe {
            let header = self.memory.add(offset).cast::<libc::tpacket2_hdr>();
            (header, AtomicU32::from_ptr(header.cast::<u32>().as_ptr()))
        };
        let flags = status.load(Ordering::Acquire);
        if flags & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the status makes the slot ours. The kernel writes nothing into it until we set
        // the status back. Any octets are a value of this structure of integers.
        let header = unsafe { header.read() };
        let start = usize::from(header.tp_mac).min(self.layout.slot_octets);
        let octets = (header.tp_snaplen as usize).min(self.layout.slot_octets - start);
        // SAFETY: `start` and `octets` are within the slot. The slot is ours until the status is
        // set back below, after the last use.
        let octets = unsafe { std::slice::from_raw_parts(self.memory.add(offset + start).as_ptr(), octets) };
        take(ReceivedFrame {
            octets,
            is_cut: octets.len() < header.tp_len as usize,
            vlan: (flags & libc::TP_STATUS_VLAN_VALID != 0).then_some(header.tp_vlan_tci & 0xfff),
            is_losing: flags & libc::TP_STATUS_LOSING != 0,
        });
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.layout.slots();
        true
    }

    /// The number of frames that the kernel dropped since the last call because no slot was free.
    pub fn drops(&self) -> u64 {
        let statistics: Result<[libc::c_uint; 2], Errno> = get(&self.socket, libc::PACKET_STATISTICS);
        // `tpacket_stats`: packets, drops.
        statistics.map_or(0, |[_, drops]| u64::from(drops))
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing that points into it outlives this
        // value.
        let _ = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), self.layout.octets()) };
    }
}

/// A socket that receives nothing and sends whole frames, with their Ethernet headers, on a device.
///
/// # Errors
/// Environment: the system refused; `PERM` without CAP_NET_RAW.
pub fn sending_socket(index: u32) -> Result<OwnedFd, Errno> {
    let socket = socket()?;
    bind(&socket, index, 0)?;
    Ok(socket)
}

/// A socket that sends whole frames on a device and receives those with NDN's EtherType by read(2),
/// without shared memory.
///
/// # Errors
/// Environment: the system refused; `PERM` without CAP_NET_RAW.
pub fn plain_socket(index: u32) -> Result<OwnedFd, Errno> {
    let socket = socket()?;
    bind(&socket, index, ETHERTYPE)?;
    Ok(socket)
}

/// A socket for the frames that a program accepts, up to the octets that it accepts.
///
/// # Errors
/// Environment: the system refused; `PERM` without CAP_NET_RAW.
pub(super) fn filtered_socket(index: u32, program: &[Instruction]) -> Result<OwnedFd, Errno> {
    let socket = socket()?;
    set_program(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)?;
    bind(&socket, index, ETHERTYPE)?;
    Ok(socket)
}

/// A socket that receives each frame of a device by read(2), including frames that other programs
/// of this machine send.
///
/// # Errors
/// Environment: the system refused; `PERM` without CAP_NET_RAW.
pub fn watching_socket(index: u32) -> Result<OwnedFd, Errno> {
    let socket = socket()?;
    member(&socket, index, libc::PACKET_MR_PROMISC, MacAddress([0; 6]))?;
    bind(&socket, index, libc::ETH_P_ALL as u16)?;
    Ok(socket)
}

/// A socket at one end of a wire that a program emulates. It receives each frame from the device,
/// regardless of its destination, and sends frames into the device. Each frame is preceded by the
/// kernel's header of its pending offloads (`virtio_net_hdr`, [`TAP_OCTETS`]): missing checksums,
/// uncut segments. The header must be passed on with the frame.
///
/// # Errors
/// Environment: the system refused; `PERM` without CAP_NET_RAW.
pub fn tap_socket(index: u32) -> Result<OwnedFd, Errno> {
    let socket = socket()?;
    let on: libc::c_int = 1;
    set(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, &on)?;
    set(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &on)?;
    member(&socket, index, libc::PACKET_MR_PROMISC, MacAddress([0; 6]))?;
    bind(&socket, index, libc::ETH_P_ALL as u16)?;
    Ok(socket)
}

/// Accepts the frames from one link address to another, and no octet of any other frame.
fn between(peer: MacAddress, own: MacAddress) -> [Instruction; 10] {
    use libc::{BPF_ABS, BPF_H, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    /// Number of instructions. The last one accepts nothing.
    const COUNT: u8 = 10;
    let load =
        |size: u32, at: u32| Instruction { code: (BPF_LD | size | BPF_ABS) as u16, jt: 0, jf: 0, k: at };
    let want = |at: u8, k: u32| {
        let jf = COUNT - 2 - at;
        Instruction { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 0, jf, k }
    };
    let end = |octets: u32| Instruction { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: octets };
    let words = |MacAddress([a, b, c, d, e, f]): MacAddress| {
        (u32::from_be_bytes([a, b, c, d]), u32::from(u16::from_be_bytes([e, f])))
    };
    let ((own_high, own_low), (peer_high, peer_low)) = (words(own), words(peer));
    [
        load(BPF_W, 0),
        want(1, own_high),
        load(BPF_H, 4),
        want(3, own_low),
        load(BPF_W, 6),
        want(5, peer_high),
        load(BPF_H, 10),
        want(7, peer_low),
        end(u32::MAX),
        end(0),
    ]
}

/// Makes the device receive a group for as long as the socket is open.
///
/// # Errors
/// Environment: the system refused, or the device was removed (`NODEV`).
pub fn join(socket: &OwnedFd, index: u32, group: MacAddress) -> Result<(), Errno> {
    member(socket, index, libc::PACKET_MR_MULTICAST, group)
}

/// Makes the device receive an address for as long as the socket is open.
fn member(socket: &OwnedFd, index: u32, kind: libc::c_int, mac: MacAddress) -> Result<(), Errno> {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&mac.0);
    let membership = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: kind as libc::c_ushort,
        mr_alen: 6,
        mr_address: address,
    };
    set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// A packet socket that does not receive yet.
fn socket() -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: it takes integers only; the returned descriptor is open and has no other owner.
    unsafe {
        let descriptor = libc::socket(libc::AF_PACKET, kind, 0);
        if descriptor < 0 { Err(last_error()) } else { Ok(OwnedFd::from_raw_fd(descriptor)) }
    }
}

/// Binds to a device and a protocol; protocol 0 receives nothing.
fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> Result<(), Errno> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as libc::c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let octets = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is live and of the length given.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), octets) })
}

/// Sets a socket option. `T` is the structure of integers that the option takes.
fn set<T: Copy>(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> Result<(), Errno> {
    let octets = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is live and of the length given; the kernel only reads it.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), octets) })
}

/// Sets a socket option that takes a program.
fn set_program(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    program: &[Instruction],
) -> Result<(), Errno> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // The kernel copies the `len` instructions behind the pointer, which the caller lends, and
    // writes nothing there.
    set(socket, level, option, &program)
}

/// Reads an option of packet(7), which consists of one or several integers.
fn get<T: Copy + Default>(socket: &OwnedFd, option: libc::c_int) -> Result<T, Errno> {
    let mut value = T::default();
    let mut octets = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: value and length are live, and the kernel writes no more than the length states. In
    // each call of this module, `T` consists of integers, for which any octets are a value.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            (&raw mut value).cast(),
            &raw mut octets,
        )
    })?;
    Ok(value)
}

fn check(result: libc::c_int) -> Result<(), Errno> {
    if result < 0 { Err(last_error()) } else { Ok(()) }
}

pub(super) fn last_error() -> Errno {
    let errno = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(errno.unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_slots_fit_the_longest_frame() {
        for mtu in [1280, 1500, 9000, 65_000] {
            for ring in [1, 1 << 20, 8 << 20] {
                let layout = Layout::new(mtu, ring);
                assert!(layout.slot_octets >= SLOT_HEADER_OCTETS + FRAME_HEADER_OCTETS + mtu);
                assert!(layout.slots() > 0 && layout.octets() <= ring.max(BLOCK_OCTETS));
                for slot in 0..layout.slots() {
                    let (start, end) = (layout.offset(slot), layout.offset(slot) + layout.slot_octets);
                    assert_eq!((start / BLOCK_OCTETS, start % 16), ((end - 1) / BLOCK_OCTETS, 0));
                    assert!(end <= layout.octets());
                    assert!(slot == 0 || start >= layout.offset(slot - 1) + layout.slot_octets);
                }
            }
        }
    }
}

//! The four requests of bpf(2) for a program and its map of sockets. Nothing is pinned: program,
//! map and the link to the device are descriptors, so all of them are released when this process
//! ends, for any reason.
#![allow(unsafe_code)]

use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use namely_wire::MacAddress;
use rustix::io::Errno;

use super::QUEUES_MAX;
use super::program::{Instruction, redirect_ndn};

/// Requests and values of `linux/bpf.h`.
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;

/// The hook in which a program runs (`XDP_FLAGS_*` of `linux/if_link.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the device's driver, before the kernel has made a packet of the frame.
    Native = 4,
    /// In the kernel's network stack, for drivers without support.
    Generic = 2,
}

/// The members of `union bpf_attr` for one request each, in order.
#[repr(C)]
#[derive(Clone, Copy)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct MapUpdate {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct ProgramLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// A program on a device, and the sockets that it hands frames to.
#[derive(Debug)]
pub struct Program {
    map: OwnedFd,
    _program: OwnedFd,
    /// Closing this detaches the program from the device.
    _link: OwnedFd,
}

impl Program {
    /// Attaches a program to a device, which redirects NDN frames to sockets. Without sockets, all
    /// frames pass as before.
    ///
    /// # Errors
    /// The system's error: this process lacks the right, the driver lacks support, or the device
    /// has another program.
    pub fn attach(index: u32, address: MacAddress, mode: Mode) -> Result<Self, Errno> {
        let map =
            MapCreate { map_type: BPF_MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: QUEUES_MAX };
        // SAFETY: the kernel only reads the structure, which has no pointers.
        let map = unsafe { descriptor(BPF_MAP_CREATE, &map)? };
        let program = load(&redirect_ndn(address, map.as_raw_fd()))?;
        let link = LinkCreate {
            prog_fd: program.as_raw_fd() as u32,
            target_ifindex: index,
            attach_type: BPF_XDP,
            flags: mode as u32,
        };
        // SAFETY: as above.
        let link = unsafe { descriptor(BPF_LINK_CREATE, &link)? };
        Ok(Program { map, _program: program, _link: link })
    }

    /// Hands the frames of a receive queue to a socket of this device and queue, until that is
    /// closed.
    ///
    /// # Errors
    /// The system's error.
    pub fn lead(&self, queue: u32, socket: &OwnedFd) -> Result<(), Errno> {
        let value = socket.as_raw_fd();
        let update = MapUpdate {
            map_fd: self.map.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const queue).expose_provenance() as u64,
            value: (&raw const value).expose_provenance() as u64,
            flags: 0,
        };
        // SAFETY: key and value are live during the call, which reads four octets of each, as the
        // map was created for.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &update) }.map(drop)
    }
}

fn load(program: &[Instruction]) -> Result<OwnedFd, Errno> {
    let mut name = [0; 16];
    name[..10].copy_from_slice(b"namely_xdp");
    let request = ProgramLoad {
        prog_type: BPF_PROG_TYPE_XDP,
        insn_cnt: program.len() as u32,
        insns: program.as_ptr().expose_provenance() as u64,
        license: c"MIT".as_ptr().expose_provenance() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        // The program reads nothing behind the header, so it accepts frames in several pieces, too.
        prog_flags: BPF_F_XDP_HAS_FRAGS,
        prog_name: name,
        prog_ifindex: 0,
        expected_attach_type: BPF_XDP,
    };
    // SAFETY: instructions and license are live during the call, which copies as many instructions
    // as the request states and the string up to its zero.
    unsafe { descriptor(BPF_PROG_LOAD, &request) }
}

/// Makes a request with a new descriptor as its answer.
///
/// # Safety
/// As for [`bpf`]. The kernel must answer this request with a new descriptor.
unsafe fn descriptor<T: Copy>(request: libc::c_long, attributes: &T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller keeps both promises above. A descriptor that the kernel has just made is
    // open and has no other owner.
    unsafe { bpf(request, attributes).map(|answer| OwnedFd::from_raw_fd(answer as libc::c_int)) }
}

/// # Safety
/// `T` is the member of `union bpf_attr` for the request, up to some field. The targets of its
/// pointers are live and have the lengths that the request states. The kernel takes missing fields
/// for zero.
unsafe fn bpf<T: Copy>(request: libc::c_long, attributes: &T) -> Result<libc::c_long, Errno> {
    // SAFETY: the structure is live and of the length given. The caller guarantees the rest.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, request, &raw const *attributes, mem::size_of::<T>()) };
    if answer < 0 { Err(super::super::ring::last_error()) } else { Ok(answer) }
}

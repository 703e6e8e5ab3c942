//! Workers that share the frames of one device. Each has its own ring, and the kernel chooses by
//! the sender (`PACKET_FANOUT` of packet(7)).
//!
//! The kernel's own hash covers addresses and ports of IP only, so all NDN frames would have the
//! same value. A program of seven instructions hashes the source address instead. All frames of one
//! sender thus arrive at one worker, in order, and the fragments of a packet meet there.

use rustix::io::Errno;

use super::monitor::Device;
use super::ring::{Instruction, Ring};

/// Offset of the source address, counted from the link header.
const SOURCE_AT: u32 = 6;

/// 2^32 divided by the golden ratio, as in Fibonacci hashing. It spreads addresses that differ in
/// their last bits only.
const MULTIPLIER: u32 = 0x9e37_79b9;

/// The rings that share a device's frames.
#[derive(Debug, Default)]
pub struct Group {
    /// The device's index and the group's number there.
    known: Option<(u32, u16)>,
}

impl Group {
    /// Opens one more ring for a device that is up. The ring joins the group before it receives its
    /// first frame.
    ///
    /// # Errors
    /// Environment: the system refused; `PERM` without CAP_NET_RAW. `NETDOWN` if the device is not
    /// up.
    pub fn open(&mut self, device: &Device, ring_octets: usize) -> Result<Ring, Errno> {
        let ring = Ring::open_deaf(device.index, device.mtu, ring_octets)?;
        match self.known {
            Some((index, number)) if index == device.index => ring.join_group(number, &by_source())?,
            _ => {
                let number = ring.found_group(&by_source())?;
                self.known = Some((device.index, number));
            }
        }
        ring.listen()?;
        Ok(ring)
    }
}

/// Hashes the source address of a frame. The kernel takes the result modulo the number of rings.
fn by_source() -> [Instruction; 7] {
    use libc::{
        BPF_ABS, BPF_ALU, BPF_H, BPF_K, BPF_LD, BPF_MISC, BPF_MUL, BPF_RET, BPF_RSH, BPF_TAX, BPF_W, BPF_X,
        BPF_XOR,
    };
    let at = |octet: u32| (libc::SKF_LL_OFF as u32).wrapping_add(octet);
    let a = |code: u32, k: u32| Instruction { code: code as u16, jt: 0, jf: 0, k };
    [
        a(BPF_LD | BPF_H | BPF_ABS, at(SOURCE_AT)),
        a(BPF_MISC | BPF_TAX, 0),
        a(BPF_LD | BPF_W | BPF_ABS, at(SOURCE_AT + 2)),
        a(BPF_ALU | BPF_XOR | BPF_X, 0),
        a(BPF_ALU | BPF_MUL | BPF_K, MULTIPLIER),
        a(BPF_ALU | BPF_RSH | BPF_K, 16),
        a(BPF_RET | libc::BPF_A, 0),
    ]
}

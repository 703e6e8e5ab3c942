//! A socket for the messages of a protocol that a program exchanges beside the forwarder in the
//! kernel. The messages are few, and another program reads the device, too.
//!
//! The kernel copies only frames with an Interest or Data whose name begins with the protocol's
//! component, without NDNLPv2 headers. Any other frame on the device costs a few instructions of a
//! packet filter.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namely_wire::MacAddress;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::frame::{self, NdnFrame};
use super::ring::{self, Instruction};

/// Octets of the longest frame that is read. Longer frames are truncated.
const FRAME_OCTETS_MAX: usize = 16 << 10;

/// A received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The sender's link address.
    pub source: MacAddress,
    /// It was sent to this device's address.
    pub is_unicast: bool,
    /// The Interest or Data.
    pub packet: &'a [u8],
}

/// The socket.
#[derive(Debug)]
pub struct Messages {
    socket: OwnedFd,
    own: MacAddress,
    buffer: Box<[u8]>,
}

impl Messages {
    /// Listens on the device with this number and the address `own`, for names that begin with a
    /// generic component of three octets. Joins NDN's group as well.
    ///
    /// # Errors
    /// Environment: the system refused; `PERM` without CAP_NET_RAW.
    pub fn open(index: u32, own: MacAddress, component: [u8; 3]) -> Result<Self, Errno> {
        let socket = ring::filtered_socket(index, &beginning_with(component))?;
        ring::join(&socket, index, super::DEFAULT_GROUP)?;
        Ok(Messages { socket, own, buffer: vec![0; FRAME_OCTETS_MAX].into() })
    }

    /// Sends a packet to a peer or group.
    ///
    /// # Errors
    /// Environment: the device does not accept it (`NOBUFS`, `NETDOWN`, `MSGSIZE`, `AGAIN`).
    pub fn send(&self, to: MacAddress, packet: &[u8]) -> Result<(), Errno> {
        let header = frame::header(to, self.own);
        let whole = [&header[..], packet, frame::padding(packet.len())].concat();
        rustix::net::send(&self.socket, &whole, SendFlags::DONTWAIT).map(drop)
    }

    /// Returns the next message; `None` if none waits. Other frames are skipped.
    ///
    /// # Errors
    /// Environment: the state of the device (`NETDOWN`).
    pub fn receive(&mut self) -> Result<Option<Message<'_>>, Errno> {
        let octets = loop {
            match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((octets, _)) if frame::parse(&self.buffer[..octets]).is_ok() => break octets,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno),
            }
        };
        let NdnFrame { source, destination, packet } =
            frame::parse(&self.buffer[..octets]).map_err(|_| Errno::BADMSG)?;
        Ok(Some(Message { source, is_unicast: destination == self.own, packet }))
    }
}

impl AsFd for Messages {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Accepts frames with an Interest or Data whose name begins with a generic component of these
/// three octets. TYPE and LENGTH of packet and Name take two or four octets each.
fn beginning_with([a, b, c]: [u8; 3]) -> [Instruction; 24] {
    use libc::{
        BPF_ABS, BPF_ADD, BPF_ALU, BPF_B, BPF_IMM, BPF_IND, BPF_JA, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX,
        BPF_MISC, BPF_RET, BPF_TAX, BPF_TXA, BPF_W,
    };
    /// Index of the last instruction, which accepts nothing.
    const NOTHING: u8 = 23;
    /// Offset of the packet.
    const AT: u32 = frame::HEADER_OCTETS as u32;
    const LONG: u32 = 0xfd;
    let plain = |code: u32, k: u32| Instruction { code: code as u16, jt: 0, jf: 0, k };
    let jump = |k: u32, jt: u8, jf: u8| Instruction { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt, jf, k };
    // The jump from the index of an instruction to the one that accepts nothing.
    let else_none = |index: u8| NOTHING - index - 1;
    let octet = plain(BPF_LD | BPF_B | BPF_ABS, AT);
    let at_x = |size: u32, k: u32| plain(BPF_LD | size | BPF_IND, k);
    let set_x = |k: u32| plain(BPF_LDX | BPF_IMM, k);
    let ahead = |by: u32| plain(BPF_JMP | BPF_JA, by);
    let (x_to_a, a_to_x) = (plain(BPF_MISC | BPF_TXA, 0), plain(BPF_MISC | BPF_TAX, 0));
    let add = |k: u32| plain(BPF_ALU | BPF_ADD | BPF_K, k);
    [
        octet,
        jump(5, 1, 0),
        jump(6, 0, else_none(2)),
        plain(BPF_LD | BPF_B | BPF_ABS, AT + 1),
        jump(LONG, 0, 2),
        set_x(AT + 4),
        ahead(1),
        set_x(AT + 2),
        at_x(BPF_B, 0),
        jump(7, 0, else_none(9)),
        at_x(BPF_B, 1),
        jump(LONG, 0, 3),
        x_to_a,
        add(4),
        ahead(2),
        x_to_a,
        add(2),
        a_to_x,
        at_x(BPF_W, 0),
        jump(u32::from_be_bytes([8, 3, a, b]), 0, else_none(19)),
        at_x(BPF_B, 4),
        jump(u32::from(c), 0, else_none(21)),
        plain(BPF_RET | BPF_K, u32::MAX),
        plain(BPF_RET | BPF_K, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of a program for a frame, as the kernel runs it.
    fn runs(program: &[Instruction], frame: &[u8]) -> bool {
        let (mut a, mut x, mut at) = (0u32, 0u32, 0usize);
        for _ in 0..program.len() {
            let Instruction { code, jt, jf, k } = program[at];
            let code = u32::from(code);
            at += 1;
            let load = |from: usize, octets: usize| {
                let octets = frame.get(from..from + octets)?;
                Some(octets.iter().fold(0u32, |all, octet| all << 8 | u32::from(*octet)))
            };
            let size = if code & 0x18 == libc::BPF_B { 1 } else { 4 };
            match code & 0x07 {
                libc::BPF_LD => {
                    let base = if code & 0xe0 == libc::BPF_IND { x } else { 0 };
                    // A load beyond the frame ends the program with nothing.
                    let Some(value) = load((base + k) as usize, size) else { return false };
                    a = value;
                }
                libc::BPF_LDX => x = k,
                libc::BPF_ALU => a = a.wrapping_add(k),
                libc::BPF_MISC if code & 0xf8 == libc::BPF_TXA => a = x,
                libc::BPF_MISC => x = a,
                libc::BPF_JMP if code & 0xf0 == libc::BPF_JA => at += k as usize,
                libc::BPF_JMP => at += usize::from(if a == k { jt } else { jf }),
                _ => return k > 0,
            }
        }
        false
    }

    #[test]
    fn the_filter_passes_only_its_first_component() {
        let program = beginning_with(*b"ndp");
        let ndp = b"\x08\x03ndp\x08\x01x";
        let name = |value: &[u8]| [&[7, value.len() as u8], value].concat();
        let long_name = |value: &[u8]| [&[7, 0xfd, 0, value.len() as u8], value].concat();
        let frame = |packet: &[u8]| [&[0; 14], packet].concat();
        for typ in [5, 6] {
            for name in [name(ndp), long_name(ndp)] {
                let short = [&[typ, name.len() as u8], &name[..]].concat();
                let long = [&[typ, 0xfd, 1, 0], &name[..]].concat();
                for packet in [short, long] {
                    assert!(runs(&program, &frame(&packet)), "{packet:?}");
                    let needed = packet.len() - 3;
                    (0..needed).for_each(|octets| assert!(!runs(&program, &frame(&packet[..octets]))));
                }
            }
        }
        for packet in [
            &b"\x05\x09\x07\x07\x08\x03ndq\x08\x00"[..],
            b"\x05\x09\x07\x07\x08\x03nlp\x08\x00",
            b"\x05\x09\x07\x07\x09\x03ndp\x08\x00",
            b"\x05\x0a\x07\x08\x08\x04ndp2\x08\x00",
            b"\x64\x09\x07\x07\x08\x03ndp\x08\x00",
            b"\x05\x09\x08\x07\x08\x03ndp\x08\x00",
        ] {
            assert!(!runs(&program, &frame(packet)), "{packet:?}");
        }
    }
}

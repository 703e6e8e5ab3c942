//! Link packets to one peer or group, many frames by one system call.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namely_wire::MacAddress;
use rustix::io::Errno;

use super::frame::{self, HEADER_OCTETS};
use super::ring;
use crate::mmsg::{self, MESSAGES_OUT_MAX, Outgoing};
use crate::udp::Datagram;

/// Slices of one frame: the Ethernet header, the packet's slices, and padding.
const FRAME_SLICES: usize = 6;

/// A socket that sends frames and receives none.
#[derive(Debug)]
pub struct FrameSender {
    socket: OwnedFd,
    header: [u8; HEADER_OCTETS],
}

impl FrameSender {
    /// Sends to `to` from the address `from` on the device with the given index. If `to` is a
    /// group, the device receives it as long as this lives.
    ///
    /// # Errors
    /// [`Errno::PERM`] without the right to open packet sockets, or another error of the system.
    pub fn open(index: u32, to: MacAddress, from: MacAddress) -> Result<Self, Errno> {
        let socket = ring::sending_socket(index)?;
        if to.is_group() {
            ring::join(&socket, index, to)?;
        }
        Ok(FrameSender { socket, header: frame::header(to, from) })
    }

    /// Sends packets from the front of `packets`, a frame each, as far as the socket accepts them
    /// in one system call. Returns the number of accepted packets.
    ///
    /// # Errors
    /// The reason for which the first packet was not sent.
    pub fn send<'a, D: Datagram + ?Sized + 'a>(
        &self,
        packets: impl Iterator<Item = &'a D>,
    ) -> Result<usize, Errno> {
        let mut slices = [[IoSlice::new(&[]); FRAME_SLICES]; MESSAGES_OUT_MAX];
        let mut count = 0;
        for (packet, [header, rest @ ..]) in packets.take(MESSAGES_OUT_MAX).zip(&mut slices) {
            *header = IoSlice::new(&self.header);
            let [a, b, c, d] = packet.slices();
            *rest = [a, b, c, d, frame::padding(packet.octets())].map(IoSlice::new);
            count += 1;
        }
        let messages = slices[..count].iter().map(|slices| Outgoing { slices, segment_octets: None });
        mmsg::send(&self.socket, messages)
    }
}

impl AsFd for FrameSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

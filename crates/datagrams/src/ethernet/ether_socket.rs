//! A link address on a device that exchanges link packets with one peer.
//!
//! The address differs from the device's own, so that several processes of a machine are distinct
//! on the link. The kernel delivers only frames from the peer.

use std::os::fd::{AsFd, BorrowedFd};

use namely_wire::MacAddress;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::frame::{self, NdnFrame};
use super::ring::Ring;
use super::{FrameSender, monitor};
use crate::udp::Datagram;

/// A link address on a device, with its peer.
#[derive(Debug)]
pub struct EtherSocket {
    ring: Ring,
    sender: FrameSender,
    mtu_octets: usize,
}

/// The result of one call of `EtherSocket::receive`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveReport {
    /// Packets passed to the caller.
    pub packets: usize,
    /// Frames without a link packet, or of another VLAN.
    pub malformed: u64,
    /// Frames that the kernel dropped since the last report, because the ring was full.
    pub lost: u64,
}

impl EtherSocket {
    /// Opens the address `own` for frames to and from `peer` on the device `name`. Frames wait in a
    /// ring of about `ring_octets`.
    ///
    /// # Errors
    /// [`Errno::NODEV`]: there is no such device with Ethernet addresses. [`Errno::NETDOWN`]: it is
    /// down. [`Errno::PERM`]: packet sockets need CAP_NET_RAW. Otherwise the system's error.
    pub fn open(name: &str, peer: MacAddress, own: MacAddress, ring_octets: usize) -> Result<Self, Errno> {
        let device = monitor::device(name)?.ok_or(Errno::NODEV)?;
        if !device.is_up {
            return Err(Errno::NETDOWN);
        }
        let ring = Ring::open_address(device.index, device.mtu, ring_octets, peer, own)?;
        let sender = FrameSender::open(device.index, peer, own)?;
        Ok(EtherSocket { ring, sender, mtu_octets: device.mtu })
    }

    /// Octets of the longest link packet that fits into a frame.
    pub fn mtu_octets(&self) -> usize {
        self.mtu_octets
    }

    /// The descriptor that becomes readable when frames arrive, and that reports failures of the
    /// device.
    pub fn receiving(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// The descriptor that becomes writable when frames are accepted again.
    pub fn sending(&self) -> BorrowedFd<'_> {
        self.sender.as_fd()
    }

    /// Sends packets as [`FrameSender::send`] does.
    ///
    /// # Errors
    /// The reason for which the first packet was not sent.
    pub fn send<'a, D: Datagram + ?Sized + 'a>(
        &self,
        packets: impl Iterator<Item = &'a D>,
    ) -> Result<usize, Errno> {
        self.sender.send(packets)
    }

    /// Passes received packets to `take`, until none is left, `take` returns false, or
    /// `packets_max` were passed.
    ///
    /// # Errors
    /// [`Errno::MSGSIZE`]: a frame is longer than the device's MTU was when this socket was opened.
    pub fn receive(
        &mut self,
        packets_max: usize,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<ReceiveReport, Errno> {
        let mut report = ReceiveReport::default();
        let (mut is_cut, mut is_losing, mut continues) = (false, false, true);
        while continues && !is_cut && report.packets < packets_max {
            let has_frame = self.ring.receive(|arrived| {
                is_cut = arrived.is_cut;
                is_losing |= arrived.is_losing;
                // Priority tags have VLAN 0.
                let is_ours = arrived.vlan.is_none_or(|vlan| vlan == 0);
                match frame::parse(arrived.octets) {
                    Ok(NdnFrame { packet, .. }) if is_ours && !is_cut => {
                        report.packets += 1;
                        continues = take(packet);
                    }
                    _ => report.malformed += 1,
                }
            });
            if !has_frame {
                break;
            }
        }
        if is_losing {
            report.lost = self.ring.drops();
        }
        if is_cut { Err(Errno::MSGSIZE) } else { Ok(report) }
    }

    /// Returns the pending error of the device. The system reports each error once.
    ///
    /// # Errors
    /// The pending error, such as [`Errno::NETDOWN`].
    pub fn check(&self) -> Result<(), Errno> {
        sockopt::socket_error(&self.ring)?
    }
}

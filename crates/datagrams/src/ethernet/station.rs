//! A station of its own on a device: exchanges link packets with one other station.
//!
//! It has an address of its own beside the device's, so that the processes of a machine are several
//! stations. The kernel hands over only what that other station sent to it.

use std::os::fd::{AsFd, BorrowedFd};

use namely_wire::MacAddress;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::frame::{self, NdnFrame};
use super::ring::Ring;
use super::{FrameSender, monitor};
use crate::udp::Datagram;

/// A station of its own on a device.
#[derive(Debug)]
pub struct Station {
    ring: Ring,
    sender: FrameSender,
    mtu_octets: usize,
}

/// What a look at the frames that came found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Packets handed over.
    pub packets: usize,
    /// Frames without a link packet, or of another VLAN.
    pub malformed: u64,
    /// Frames that the kernel dropped before, for want of room in the ring.
    pub lost: u64,
}

impl Station {
    /// A station with the address `own` that speaks with `peer` on the device `name`. Frames wait
    /// in a ring of about `ring_octets`.
    ///
    /// # Errors
    /// [`Errno::NODEV`]: there is no such device with Ethernet addresses. [`Errno::NETDOWN`]: it is
    /// down. [`Errno::PERM`]: packet sockets need CAP_NET_RAW. Otherwise what the system says.
    pub fn open(name: &str, peer: MacAddress, own: MacAddress, ring_octets: usize) -> Result<Self, Errno> {
        let device = monitor::device(name)?.ok_or(Errno::NODEV)?;
        if !device.is_up {
            return Err(Errno::NETDOWN);
        }
        let ring = Ring::open_station(device.index, device.mtu, ring_octets, (peer, own))?;
        let sender = FrameSender::open(device.index, peer, own)?;
        Ok(Station { ring, sender, mtu_octets: device.mtu })
    }

    /// Octets of the longest link packet that fits into a frame.
    pub fn mtu_octets(&self) -> usize {
        self.mtu_octets
    }

    /// What becomes readable when frames come, and tells failures of the device.
    pub fn receiving(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// What becomes writable when frames are taken again.
    pub fn sending(&self) -> BorrowedFd<'_> {
        self.sender.as_fd()
    }

    /// Sends packets as [`FrameSender::send`] does.
    ///
    /// # Errors
    /// Why the first was not taken.
    pub fn send<'a, D: Datagram + ?Sized + 'a>(
        &self,
        packets: impl Iterator<Item = &'a D>,
    ) -> Result<usize, Errno> {
        self.sender.send(packets)
    }

    /// Hands the packets that came to `take`, at most `packets_max` and as long as it says that
    /// there may be more.
    ///
    /// # Errors
    /// [`Errno::MSGSIZE`]: a frame is longer than the device's were when this was opened.
    pub fn receive(
        &mut self,
        packets_max: usize,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Looked, Errno> {
        let mut looked = Looked::default();
        let (mut is_cut, mut is_losing, mut goes_on) = (false, false, true);
        while goes_on && !is_cut && looked.packets < packets_max {
            let is_there = self.ring.receive(|arrived| {
                is_cut = arrived.is_cut;
                is_losing |= arrived.is_losing;
                // Priority tags have VLAN 0.
                let is_ours = arrived.vlan.is_none_or(|vlan| vlan == 0);
                match frame::parse(arrived.octets) {
                    Ok(NdnFrame { packet, .. }) if is_ours && !is_cut => {
                        looked.packets += 1;
                        goes_on = take(packet);
                    }
                    _ => looked.malformed += 1,
                }
            });
            if !is_there {
                break;
            }
        }
        if is_losing {
            looked.lost = self.ring.drops();
        }
        if is_cut { Err(Errno::MSGSIZE) } else { Ok(looked) }
    }

    /// What has become of the device: forgotten by the system once it told.
    ///
    /// # Errors
    /// [`Errno::NETDOWN`], for one.
    pub fn check(&self) -> Result<(), Errno> {
        sockopt::socket_error(&self.ring)?
    }
}

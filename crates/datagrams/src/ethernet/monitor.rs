//! The kernel's state of a network device: rtnetlink(7).
//!
//! A notification only means that something may have changed; the state is queried afterwards. A
//! lost burst of notifications therefore loses no change.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};

use namely_nnet::netlink::{Message, Request, RequestError, Socket, u32_at};
use namely_wire::MacAddress;
use rustix::io::Errno;
use rustix::net::RecvFlags;

/// Octets of `ifinfomsg` and `ifaddrmsg`.
const LINK_HEADER_OCTETS: usize = 16;
const ADDRESS_HEADER_OCTETS: usize = 8;

/// Notifications read in one turn. Only their arrival matters.
const NOTIFICATIONS_PER_TURN_MAX: usize = 64;

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// It changes when the device is removed and added again.
    pub index: u32,
    /// Octets of the longest payload of a frame.
    pub mtu: usize,
    /// Its link address.
    pub address: MacAddress,
    /// Whether frames can pass: it is up and has a carrier.
    pub is_up: bool,
}

/// Receives notifications about changes of any device, and of addresses if requested.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
}

impl Monitor {
    /// Makes a monitor. Earlier changes are not reported.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> Result<Self, Errno> {
        Ok(Monitor { socket: Socket::open(None, libc::RTMGRP_LINK as u32)? })
    }

    /// Makes a monitor that also receives notifications about the addresses of this machine.
    ///
    /// # Errors
    /// The system's error.
    pub fn with_addresses() -> Result<Self, Errno> {
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        Ok(Monitor { socket: Socket::open(None, groups as u32)? })
    }

    /// Returns true if anything may have changed since the last call.
    pub fn take_changes(&self) -> bool {
        let mut is_changed = false;
        let mut octets = [0; 64];
        for _ in 0..NOTIFICATIONS_PER_TURN_MAX {
            match rustix::net::recv(&self.socket, &mut octets, RecvFlags::DONTWAIT) {
                Ok(_) | Err(Errno::NOBUFS) => is_changed = true,
                Err(Errno::INTR) => (),
                Err(_) => break,
            }
        }
        is_changed
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The device with this name, if there is one that has Ethernet addresses.
///
/// # Errors
/// Environment: the system does not answer. A missing device is no error.
pub fn device(name: &str) -> Result<Option<Device>, Errno> {
    let mut found = None;
    let answer = Socket::open(None, 0)?.exchange(request(name), RecvFlags::DONTWAIT, &mut |message| {
        found = found_device(message);
        ControlFlow::Continue(())
    });
    match answer {
        Ok(()) => Ok(found),
        Err(RequestError::Refused(Errno::NODEV | Errno::NXIO | Errno::INVAL | Errno::RANGE, _)) => Ok(None),
        Err(error) => Err(error.errno()),
    }
}

/// Returns the length of the network prefix of its address `own` on the device with this number;
/// `None` if the device does not have that address.
///
/// # Errors
/// Environment: the system does not answer.
pub fn network_bits(index: u32, own: IpAddr) -> Result<Option<u8>, Errno> {
    // Of all devices.
    let request = Request::new(libc::RTM_GETADDR, true, &[0; ADDRESS_HEADER_OCTETS]);
    let mut found = None;
    let answer = Socket::open(None, 0)?.exchange(request, RecvFlags::DONTWAIT, &mut |message| {
        found = found.or(network_of(message, index, own));
        ControlFlow::Continue(())
    });
    answer.map(|()| found).map_err(|error| error.errno())
}

/// Returns the length of the prefix if this message holds that address. The length is 0 for a
/// point-to-point device, because its network is only the other end. Its message has the address of
/// that end beside the local one.
fn network_of(message: Message<'_>, index: u32, own: IpAddr) -> Option<u8> {
    if message.kind != libc::RTM_NEWADDR || u32_at(message.payload, 4)? != index {
        return None;
    }
    let bits = *message.payload.get(1)?;
    let attributes = message.attributes(ADDRESS_HEADER_OCTETS);
    let (local, address) = (attributes.octets(libc::IFA_LOCAL), attributes.octets(libc::IFA_ADDRESS));
    let is_own = |value: &[u8]| match own {
        IpAddr::V4(own) => value == own.octets(),
        IpAddr::V6(own) => value == own.octets(),
    };
    let is_between_two = local.is_some() && address.is_some_and(|address| local != Some(address));
    local.or(address).filter(|value| is_own(value)).map(|_| if is_between_two { 0 } else { bits })
}

/// `RTM_GETLINK` by name.
fn request(name: &str) -> Request {
    Request::new(libc::RTM_GETLINK, false, &[0; LINK_HEADER_OCTETS])
        .with(libc::IFLA_IFNAME, format!("{name}\0").as_bytes())
}

/// The device that this message describes, if it has an Ethernet address.
fn found_device(message: Message<'_>) -> Option<Device> {
    let (index, flags) = (u32_at(message.payload, 4)?, u32_at(message.payload, 8)?);
    let attributes = message.attributes(LINK_HEADER_OCTETS);
    let mtu = attributes.u32(libc::IFLA_MTU)? as usize;
    let address = MacAddress(attributes.octets(libc::IFLA_ADDRESS)?.try_into().ok()?);
    let needed = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    Some(Device { index, mtu, address, is_up: flags & needed == needed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_is_found() {
        let device = device("lo").unwrap().unwrap();
        assert!(device.index > 0 && device.mtu > 0);
        assert_eq!(device.address, MacAddress([0; 6]));
        assert_eq!(super::device("namely-none").unwrap(), None);
        assert_eq!(super::device("a name longer than any device has").unwrap(), None);
    }

    #[test]
    fn the_loopback_network_is_127() {
        let index = device("lo").unwrap().unwrap().index;
        let bits = |address: &str| network_bits(index, address.parse().unwrap()).unwrap();
        assert_eq!((bits("127.0.0.1"), bits("192.0.2.1")), (Some(8), None));
        assert_eq!(network_bits(u32::MAX, "127.0.0.1".parse().unwrap()), Ok(None));
    }

    #[test]
    fn truncated_address_lists_name_no_network() {
        let own: IpAddr = "10.9.7.1".parse().unwrap();
        let mut payload = vec![2, 24, 0, 0];
        payload.extend(7u32.to_ne_bytes());
        payload.extend(8u16.to_ne_bytes());
        payload.extend(libc::IFA_LOCAL.to_ne_bytes());
        payload.extend([10, 9, 7, 1]);
        let bits =
            |payload: &[u8], index| network_of(Message { kind: libc::RTM_NEWADDR, payload }, index, own);
        assert_eq!((bits(&payload, 7), bits(&payload, 8)), (Some(24), None));
        for end in 0..payload.len() {
            assert_eq!(bits(&payload[..end], 7), None, "{end}");
        }
        assert_eq!(network_of(Message { kind: libc::RTM_NEWLINK, payload: &payload }, 7, own), None);
        // A length of 0 ends the attributes.
        let mut endless = payload;
        endless[8..10].copy_from_slice(&0u16.to_ne_bytes());
        assert_eq!(bits(&endless, 7), None);
    }

    #[test]
    fn truncated_device_answers_are_ignored() {
        let mut payload = Vec::new();
        let mut socket = Socket::open(None, 0).unwrap();
        let answer = socket.exchange(request("lo"), RecvFlags::DONTWAIT, &mut |message| {
            payload = message.payload.to_vec();
            ControlFlow::Continue(())
        });
        assert_eq!(answer, Ok(()));
        let found = |end: usize| found_device(Message { kind: libc::RTM_NEWLINK, payload: &payload[..end] });
        assert!(found(payload.len()).is_some());
        for end in 0..payload.len() {
            let _ = found(end);
        }
        assert_eq!((found(24), found(4)), (None, None));
    }
}

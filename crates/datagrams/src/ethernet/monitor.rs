//! The kernel's state of a network device: rtnetlink(7).
//!
//! A notification only means that something may have changed; the state is queried afterwards. A
//! lost burst of notifications therefore loses no change.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namely_wire::MacAddress;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Octets of the headers `nlmsghdr` and `ifinfomsg`.
const MESSAGE_HEADER_OCTETS: usize = 16;
const LINK_HEADER_OCTETS: usize = 16;

/// Octets of `ifaddrmsg`.
const ADDRESS_HEADER_OCTETS: usize = 8;

/// Longest answer that is read. The kernel's answers, with statistics, have less than 4 KiB.
const ANSWER_OCTETS: usize = 32 << 10;

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
    socket: OwnedFd,
}

impl Monitor {
    /// Makes a monitor. Earlier changes are not reported.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> Result<Self, Errno> {
        Ok(Monitor { socket: open(libc::RTMGRP_LINK as u32)? })
    }

    /// Makes a monitor that also receives notifications about the addresses of this machine.
    ///
    /// # Errors
    /// The system's error.
    pub fn with_addresses() -> Result<Self, Errno> {
        let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
        Ok(Monitor { socket: open(groups as u32)? })
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
    let socket = open(0)?;
    rustix::net::send(&socket, &request(name), SendFlags::empty())?;
    let mut octets = vec![0; ANSWER_OCTETS];
    // The kernel has answered by the time that the call of send returns.
    let (length, _) = rustix::net::recv(&socket, &mut *octets, RecvFlags::DONTWAIT)?;
    parse(&octets[..length])
}

/// Returns the length of the network prefix of its address `own` on the device with this number;
/// `None` if the device does not have that address.
///
/// # Errors
/// Environment: the system does not answer.
pub fn network_bits(index: u32, own: IpAddr) -> Result<Option<u8>, Errno> {
    let socket = open(0)?;
    rustix::net::send(&socket, &addresses_request(), SendFlags::empty())?;
    let mut octets = vec![0; ANSWER_OCTETS];
    loop {
        let (length, _) = rustix::net::recv(&socket, &mut *octets, RecvFlags::DONTWAIT)?;
        match find_network(&octets[..length], index, own) {
            Addresses::More => {}
            Addresses::Found(bits) => return Ok(Some(bits)),
            Addresses::End => return Ok(None),
        }
    }
}

/// `RTM_GETADDR`, of all devices.
fn addresses_request() -> Vec<u8> {
    let mut octets = Vec::new();
    octets.extend_from_slice(&((MESSAGE_HEADER_OCTETS + ADDRESS_HEADER_OCTETS) as u32).to_ne_bytes());
    octets.extend_from_slice(&libc::RTM_GETADDR.to_ne_bytes());
    octets.extend_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    octets.resize(MESSAGE_HEADER_OCTETS + ADDRESS_HEADER_OCTETS, 0);
    octets
}

/// The result of one part of the list of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addresses {
    Found(u8),
    More,
    End,
}

/// Searches a part of the list for an address of a device.
fn find_network(part: &[u8], index: u32, own: IpAddr) -> Addresses {
    let mut rest = part;
    while let Some(length) = rest.first_chunk().map(|length| u32::from_ne_bytes(*length) as usize) {
        let Some(message) = rest.get(..length).filter(|_| length >= MESSAGE_HEADER_OCTETS) else {
            return Addresses::End;
        };
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        if kind != libc::RTM_NEWADDR {
            return Addresses::End;
        }
        if let Some(bits) = network_of(&message[MESSAGE_HEADER_OCTETS..], index, own) {
            return Addresses::Found(bits);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Addresses::More
}

/// Returns the length of the prefix if this message holds that address. The length is 0 for a
/// point-to-point device, because its network is only the other end. Its message has the address of
/// that end beside the local one.
fn network_of(message: &[u8], index: u32, own: IpAddr) -> Option<u8> {
    let [_, bits, _, _, a, b, c, d, attributes @ ..] = message else { return None };
    if u32::from_ne_bytes([*a, *b, *c, *d]) != index {
        return None;
    }
    let (mut local, mut address) = (None, None);
    let mut rest = attributes;
    while let [a, b, c, d, ..] = *rest {
        let (length, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        let value = rest.get(4..length)?;
        match kind {
            libc::IFA_LOCAL => local = Some(value),
            libc::IFA_ADDRESS => address = Some(value),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    let is_own = |value: &[u8]| match own {
        IpAddr::V4(own) => value == own.octets(),
        IpAddr::V6(own) => value == own.octets(),
    };
    let is_between_two = local.is_some() && address.is_some_and(|address| local != Some(address));
    local.or(address).filter(|value| is_own(value)).map(|_| if is_between_two { 0 } else { *bits })
}

fn open(groups: u32) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// `RTM_GETLINK` by name.
fn request(name: &str) -> Vec<u8> {
    let attribute = 4 + name.len() + 1;
    let length = MESSAGE_HEADER_OCTETS + LINK_HEADER_OCTETS + attribute.next_multiple_of(4);
    let mut octets = Vec::with_capacity(length);
    octets.extend_from_slice(&(length as u32).to_ne_bytes());
    octets.extend_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    octets.extend_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    octets.resize(MESSAGE_HEADER_OCTETS + LINK_HEADER_OCTETS, 0);
    octets.extend_from_slice(&(attribute as u16).to_ne_bytes());
    octets.extend_from_slice(&libc::IFLA_IFNAME.to_ne_bytes());
    octets.extend_from_slice(name.as_bytes());
    octets.resize(length, 0);
    octets
}

/// Reads the answer: a device, or an error.
fn parse(answer: &[u8]) -> Result<Option<Device>, Errno> {
    let u32_at = |at: usize| -> Option<u32> { Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?)) };
    let u16_at = |at: usize| -> Option<u16> { Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?)) };
    let kind = u16_at(4).ok_or(Errno::BADMSG)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        let errno = u32_at(MESSAGE_HEADER_OCTETS).map_or(0, |errno| (errno as i32).unsigned_abs());
        return match Errno::from_raw_os_error(errno as i32) {
            Errno::NODEV | Errno::NXIO | Errno::INVAL | Errno::RANGE => Ok(None),
            errno => Err(errno),
        };
    }
    let end = u32_at(0).map_or(0, |length| length as usize).min(answer.len());
    let (Some(index), Some(flags)) = (u32_at(MESSAGE_HEADER_OCTETS + 4), u32_at(MESSAGE_HEADER_OCTETS + 8))
    else {
        return Err(Errno::BADMSG);
    };
    let (mut mtu, mut address) = (None, None);
    let mut at = MESSAGE_HEADER_OCTETS + LINK_HEADER_OCTETS;
    while let (Some(length), Some(kind)) = (u16_at(at), u16_at(at + 2)) {
        let length = usize::from(length);
        if length < 4 || at + length > end {
            break;
        }
        let value = &answer[at + 4..at + length];
        match kind {
            libc::IFLA_MTU => mtu = value.first_chunk().map(|octets| u32::from_ne_bytes(*octets) as usize),
            libc::IFLA_ADDRESS => address = <[u8; 6]>::try_from(value).ok().map(MacAddress),
            _ => (),
        }
        at += length.next_multiple_of(4);
    }
    let needed = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    let is_up = flags & needed == needed;
    Ok(mtu.zip(address).map(|(mtu, address)| Device { index, mtu, address, is_up }))
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
        let mut message = vec![0u8; MESSAGE_HEADER_OCTETS];
        message[..4].copy_from_slice(&32u32.to_ne_bytes());
        message[4..6].copy_from_slice(&libc::RTM_NEWADDR.to_ne_bytes());
        message.extend([2, 24, 0, 0]);
        message.extend(7u32.to_ne_bytes());
        message.extend(8u16.to_ne_bytes());
        message.extend(libc::IFA_LOCAL.to_ne_bytes());
        message.extend([10, 9, 7, 1]);
        let list = [&message[..], &message].concat();
        assert_eq!(find_network(&list, 7, own), Addresses::Found(24));
        assert_eq!(find_network(&list, 8, own), Addresses::More);
        for end in 0..message.len() {
            assert_ne!(find_network(&message[..end], 7, own), Addresses::Found(24), "{end}");
        }
        // A length of 0 ends the list.
        assert_eq!(find_network(&[0; 64], 7, own), Addresses::End);
        let mut endless = message;
        endless[24..26].copy_from_slice(&0u16.to_ne_bytes());
        assert_eq!(find_network(&endless, 7, own), Addresses::More);
    }

    #[test]
    fn truncated_device_answers_are_ignored() {
        let socket = open(0).unwrap();
        rustix::net::send(&socket, &request("lo"), SendFlags::empty()).unwrap();
        let mut answer = vec![0; ANSWER_OCTETS];
        let (length, _) = rustix::net::recv(&socket, &mut *answer, RecvFlags::DONTWAIT).unwrap();
        assert!(parse(&answer[..length]).unwrap().is_some());
        for end in 0..length {
            let _ = parse(&answer[..end]);
        }
        assert_eq!(parse(&answer[..40]), Ok(None));
        assert_eq!(parse(&answer[..20]), Err(Errno::BADMSG));
    }
}

//! Many datagrams in one system call: `recvmmsg(2)` and `sendmmsg(2)`, and several datagrams in one
//! buffer: `UDP_SEGMENT` and `UDP_GRO` of udp(7). Also the time at which the kernel received a
//! datagram: `SIOCGSTAMPNS` of socket(7).
//!
//! It never keeps memory of its own: received octets lie in the caller's buffer, octets to send in
//! the caller's slices.
#![allow(unsafe_code)]

use std::io::IoSlice;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;

/// Messages received by one call; each may hold several datagrams.
const MESSAGES_IN_MAX: usize = 16;

/// Messages sent by one call.
pub const MESSAGES_OUT_MAX: usize = 64;

/// Room for one message: no datagram and no coalesced run is longer.
const MESSAGE_OCTETS: usize = 64 << 10;

/// The distance between the buffers of two messages. A little more than a buffer, so that the
/// beginnings of short messages do not all map to one set of the processor's cache.
const STRIDE_OCTETS: usize = MESSAGE_OCTETS + 128;

/// The buffer that [`receive`] fills completely.
pub const RECEIVE_OCTETS: usize = receive_octets(MESSAGES_IN_MAX);

/// The octets of the buffer into which [`receive`] receives `messages` messages.
pub const fn receive_octets(messages: usize) -> usize {
    messages * STRIDE_OCTETS
}

/// One control message with an integer.
#[repr(C)]
#[derive(Clone, Copy)]
struct Control {
    header: libc::cmsghdr,
    value: [u8; 8],
}

/// Length of a control message with a value of `value_octets` octets, as `CMSG_LEN` computes it.
const fn control_octets(value_octets: usize) -> usize {
    mem::offset_of!(Control, value) + value_octets
}

/// An address as the kernel writes it: `sockaddr_in` or `sockaddr_in6`, the longer of the two.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Name([u8; 28]);

const _: () = {
    assert!(mem::size_of::<libc::sockaddr_in6>() == mem::size_of::<[u8; 28]>());
    // SAFETY: these compute with their argument only.
    unsafe {
        assert!(libc::CMSG_LEN(4) as usize == control_octets(4));
        assert!(libc::CMSG_LEN(2) as usize == control_octets(2));
        assert!(libc::CMSG_SPACE(4) as usize <= mem::size_of::<Control>());
    }
};

/// The result of one receiving call.
#[derive(Debug)]
pub struct Received {
    messages: [Message; MESSAGES_IN_MAX],
    count: usize,
    room: usize,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    octets: usize,
    /// Octets of each datagram in it but the last, which may be shorter.
    datagram_octets: usize,
    from: Option<SocketAddr>,
}

impl Received {
    /// Returns the range of each datagram in the buffer, and its sender if requested.
    pub fn datagrams(&self) -> impl Iterator<Item = (Range<usize>, Option<SocketAddr>)> + '_ {
        self.messages[..self.count].iter().enumerate().flat_map(|(index, message)| {
            let (start, end) = (index * STRIDE_OCTETS, index * STRIDE_OCTETS + message.octets);
            // A datagram without octets counts, too.
            let count = message.octets.div_ceil(message.datagram_octets).max(1);
            (0..count).map(move |n| {
                let at = start + n * message.datagram_octets;
                (at..end.min(at + message.datagram_octets), message.from)
            })
        })
    }

    /// Returns true if the socket had no more.
    pub fn is_last(&self) -> bool {
        self.count < self.room
    }
}

/// Lets the kernel deliver several datagrams of one peer as one message, split by
/// [`Received::datagrams`]. Without effect on kernels that lack this.
pub fn coalesce(socket: impl AsFd) {
    let on: libc::c_int = 1;
    // SAFETY: the value is a live integer of the length given; the descriptor is borrowed, hence
    // open.
    let _ = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_GRO,
            (&raw const on).cast(),
            mem::size_of_val(&on) as libc::socklen_t,
        )
    };
}

/// Receives waiting datagrams, as many as `buffer` has room for, without waiting. A buffer of
/// [`RECEIVE_OCTETS`] holds the most that one call receives. Senders are reported `with_names`
/// only.
///
/// # Errors
/// [`Errno::AGAIN`] when nothing waits; otherwise the system's error.
pub fn receive(socket: impl AsFd, buffer: &mut [u8], with_names: bool) -> Result<Received, Errno> {
    let room = (buffer.len() / STRIDE_OCTETS).min(MESSAGES_IN_MAX);
    // SAFETY: zeros are a value of each of these structures of integers and pointers.
    let (mut headers, mut controls): ([libc::mmsghdr; MESSAGES_IN_MAX], [Control; MESSAGES_IN_MAX]) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let mut names = [Name([0; 28]); MESSAGES_IN_MAX];
    let mut slices = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MESSAGES_IN_MAX];
    for (index, chunk) in buffer.chunks_exact_mut(STRIDE_OCTETS).take(room).enumerate() {
        slices[index] = libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: MESSAGE_OCTETS };
        let header = &mut headers[index].msg_hdr;
        header.msg_iov = &raw mut slices[index];
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut controls[index]).cast();
        header.msg_controllen = mem::size_of::<Control>() as _;
        if with_names {
            header.msg_name = (&raw mut names[index]).cast();
            header.msg_namelen = mem::size_of::<Name>() as _;
        }
    }
    // SAFETY: the first `room` headers point to slices, controls and names that live until the end
    // of this function and have the lengths given; each slice points into its own chunk of
    // `buffer`, borrowed mutably all the while. The kernel writes into nothing else, and any octets
    // are a value of the types that it writes.
    let count = check(unsafe {
        libc::recvmmsg(
            socket.as_fd().as_raw_fd(),
            headers.as_mut_ptr(),
            room as libc::c_uint,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    })?;
    let message = |index: usize| -> Message {
        let (header, control) = (&headers[index], &controls[index]);
        let octets = (header.msg_len as usize).min(MESSAGE_OCTETS);
        Message {
            octets,
            datagram_octets: coalesced_octets(&header.msg_hdr, control).unwrap_or(octets).max(1),
            from: if with_names { names[index].address() } else { None },
        }
    };
    Ok(Received { messages: std::array::from_fn(message), count, room })
}

/// Octets of each datagram in a message that contains several.
fn coalesced_octets(header: &libc::msghdr, control: &Control) -> Option<usize> {
    let is_there = header.msg_controllen >= control_octets(mem::size_of::<libc::c_int>()) as _
        && (control.header.cmsg_level, control.header.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO);
    let [a, b, c, d, ..] = control.value;
    is_there.then(|| usize::try_from(i32::from_ne_bytes([a, b, c, d])).ok()).flatten().filter(|n| *n > 0)
}

impl Name {
    fn address(&self) -> Option<SocketAddr> {
        let octets = &self.0;
        let port = u16::from_be_bytes([octets[2], octets[3]]);
        match libc::c_int::from(u16::from_ne_bytes([octets[0], octets[1]])) {
            libc::AF_INET => {
                let address: [u8; 4] = octets[4..8].try_into().ok()?;
                Some((Ipv4Addr::from(address), port).into())
            }
            libc::AF_INET6 => {
                let address: [u8; 16] = octets[8..24].try_into().ok()?;
                let scope = u32::from_ne_bytes(octets[24..28].try_into().ok()?);
                Some(SocketAddrV6::new(Ipv6Addr::from(address), port, 0, scope).into())
            }
            _ => None,
        }
    }
}

/// A message to send to the peer of a connected socket.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Its octets.
    pub slices: &'a [IoSlice<'a>],
    /// If it is several datagrams: the octets of each but the last, which may be shorter.
    pub segment_octets: Option<u16>,
}

/// Sends the first [`MESSAGES_OUT_MAX`] messages, as far as the socket takes them, without waiting.
/// Returns the number of accepted messages.
///
/// # Errors
/// The reason for which the first message was not sent.
pub fn send<'a>(socket: impl AsFd, messages: impl Iterator<Item = Outgoing<'a>>) -> Result<usize, Errno> {
    // SAFETY: zeros are a value of each of these structures of integers and pointers.
    let (mut headers, mut controls): ([libc::mmsghdr; MESSAGES_OUT_MAX], [Control; MESSAGES_OUT_MAX]) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let mut count = 0;
    for (message, (header, control)) in messages.zip(headers.iter_mut().zip(&mut controls)) {
        let header = &mut header.msg_hdr;
        // An `IoSlice` has the layout of an `iovec`; the kernel only reads what they point to.
        header.msg_iov = message.slices.as_ptr().cast_mut().cast();
        header.msg_iovlen = message.slices.len() as _;
        if let Some(octets) = message.segment_octets {
            control.header.cmsg_level = libc::SOL_UDP;
            control.header.cmsg_type = libc::UDP_SEGMENT;
            control.header.cmsg_len = control_octets(mem::size_of::<u16>()) as _;
            control.value[..2].copy_from_slice(&octets.to_ne_bytes());
            header.msg_control = (&raw mut *control).cast();
            header.msg_controllen = mem::size_of::<Control>() as _;
        }
        count += 1;
    }
    // SAFETY: the first `count` headers point to slices, borrowed for `'a`, and to controls that
    // live until the end of this function, with their lengths; neither was moved since. The kernel
    // writes the lengths sent into the headers only.
    check(unsafe {
        libc::sendmmsg(
            socket.as_fd().as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    })
}

/// Returns the time that the last received datagram of this socket waited, by the system's clock,
/// which may be set meanwhile. Datagrams that arrived before the first call, or soon after it, have
/// no waiting time: the kernel begins to record times with that call.
///
/// # Errors
/// Caller: nothing was received yet (`NOENT`). Environment: the socket records no time (`NOTTY`).
pub fn waited(socket: impl AsFd) -> Result<Duration, Errno> {
    /// The request of socket(7), the same on every processor; `libc` has it for some only.
    const SIOCGSTAMPNS: u32 = 0x8907;
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the request writes one timespec, which lives until after the call, and reads nothing.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCGSTAMPNS as _, &mut at) })?;
    let since = Duration::new(at.tv_sec.try_into().unwrap_or(0), at.tv_nsec.try_into().unwrap_or(0));
    let at = SystemTime::UNIX_EPOCH + since;
    Ok(SystemTime::now().duration_since(at).unwrap_or_default())
}

fn check(result: libc::c_int) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| {
        let errno = std::io::Error::last_os_error().raw_os_error();
        Errno::from_raw_os_error(errno.unwrap_or(libc::EIO))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Instant;

    fn pair(address: &str) -> (UdpSocket, UdpSocket) {
        let (a, b) = (UdpSocket::bind(address).unwrap(), UdpSocket::bind(address).unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        (a, b)
    }

    fn all(socket: &UdpSocket, buffer: &mut [u8], with_names: bool) -> Vec<(Vec<u8>, Option<SocketAddr>)> {
        let received = receive(socket, buffer, with_names).unwrap();
        received.datagrams().map(|(range, from)| (buffer[range].to_vec(), from)).collect()
    }

    #[test]
    fn one_call_receives_datagrams_of_several_senders() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(to) = UdpSocket::bind(address) else { continue };
            let senders: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind(address).unwrap()).collect();
            let mut expected = Vec::new();
            for (n, octets) in [0usize, 1, 8800, 65507, 17].into_iter().enumerate() {
                let sender = &senders[n % 3];
                sender.send_to(&vec![n as u8; octets], to.local_addr().unwrap()).unwrap();
                expected.push((vec![n as u8; octets], sender.local_addr().ok()));
            }
            let mut buffer = vec![0; RECEIVE_OCTETS];
            assert_eq!(all(&to, &mut buffer, true), expected);
            assert_eq!(receive(&to, &mut buffer, true).unwrap_err(), Errno::AGAIN);
        }
    }

    #[test]
    fn reads_are_limited_by_the_buffer() {
        let (from, to) = pair("127.0.0.1:0");
        for n in 0..5 {
            from.send(&[n]).unwrap();
        }
        let mut buffer = vec![0; 2 * STRIDE_OCTETS];
        for (count, is_last) in [(2, false), (2, false), (1, true)] {
            let received = receive(&to, &mut buffer, false).unwrap();
            assert_eq!((received.datagrams().count(), received.is_last()), (count, is_last));
        }
    }

    #[test]
    fn a_run_arrives_as_separate_datagrams() {
        for (is_coalesced, sizes) in [(true, [500, 500, 500, 20]), (false, [500, 500, 500, 500])] {
            let (from, to) = pair("127.0.0.1:0");
            if is_coalesced {
                coalesce(&to);
            }
            let datagrams: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(n, s)| vec![n as u8; *s]).collect();
            let slices: Vec<IoSlice<'_>> =
                datagrams.iter().flat_map(|d| [IoSlice::new(&d[..3]), IoSlice::new(&d[3..])]).collect();
            let run = Outgoing { slices: &slices, segment_octets: Some(500) };
            let single = Outgoing { slices: &slices[..2], segment_octets: None };
            assert_eq!(send(&from, [run, single].into_iter()), Ok(2));
            let mut buffer = vec![0; RECEIVE_OCTETS];
            let received: Vec<Vec<u8>> = all(&to, &mut buffer, false).into_iter().map(|(d, _)| d).collect();
            let expected: Vec<Vec<u8>> = datagrams.iter().chain(datagrams.first()).cloned().collect();
            assert_eq!(received, expected);
        }
    }

    #[test]
    fn the_socket_delay_is_measured() {
        let (from, to) = pair("127.0.0.1:0");
        assert_eq!(waited(&to).unwrap_err(), Errno::NOENT);
        let mut delays = Vec::new();
        // The kernel begins to record times soon after the first request.
        for _ in 0..50 {
            let before = Instant::now();
            from.send(&[0]).unwrap();
            let sent = Instant::now();
            std::thread::sleep(Duration::from_millis(30));
            let lay = sent.elapsed();
            assert_eq!(to.recv(&mut [0; 8]).unwrap(), 1);
            delays.push(waited(&to).unwrap());
            let slack = Duration::from_millis(5);
            if (lay.saturating_sub(slack)..=before.elapsed() + slack).contains(&delays[delays.len() - 1]) {
                return;
            }
        }
        panic!("{delays:?}");
    }

    #[test]
    fn socket_errors_are_returned() {
        let (from, to) = pair("127.0.0.1:0");
        drop(to);
        let octets = vec![0; 70_000];
        let long = [IoSlice::new(&octets)];
        let outgoing = Outgoing { slices: &long, segment_octets: None };
        assert_eq!(send(&from, [outgoing].into_iter()), Err(Errno::MSGSIZE));
        from.send(&[0]).unwrap();
        let mut buffer = vec![0; RECEIVE_OCTETS];
        assert_eq!(receive(&from, &mut buffer, false).unwrap_err(), Errno::CONNREFUSED);
    }
}

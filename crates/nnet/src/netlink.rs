//! netlink(7): requests, answers and attributes of any family.
//!
//! A message consists of a header of 16 octets, a header of its family, and attributes. An
//! attribute has a length and a type of 16 bits each, and a value that is padded to four octets.
//! All numbers are in the processor's byte order.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Octets of `nlmsghdr`.
const HEADER_OCTETS: usize = 16;

/// Octets of an attribute's header.
const ATTRIBUTE_HEADER_OCTETS: usize = 4;

/// Bits of an attribute's type that are the type itself, without the flags of its encoding.
const TYPE_BITS: u16 = 0x3fff;

/// Octets of the longest datagram that the kernel sends.
const DATAGRAM_OCTETS: usize = 64 << 10;

/// The greatest error number (include/linux/err.h, MAX_ERRNO).
const ERRNO_MAX: i32 = 4095;

const ERROR: u16 = libc::NLMSG_ERROR as u16;
const DONE: u16 = libc::NLMSG_DONE as u16;

/// The reason for which a request has no complete answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Environment: the request could not be sent, or the answer not be received.
    #[error("netlink: {0}")]
    System(#[source] Errno),
    /// Caller: the kernel refused the request, with its message if there is one.
    #[error("the kernel refuses: {0}")]
    Refused(#[source] Errno, Option<String>),
}

impl RequestError {
    /// The system's error, or that of the kernel's refusal.
    pub fn errno(&self) -> Errno {
        match self {
            RequestError::System(errno) | RequestError::Refused(errno, _) => *errno,
        }
    }
}

/// A request under construction.
#[derive(Debug)]
pub struct Request(Vec<u8>);

impl Request {
    /// Creates a request of the type `kind` with the header of its family: a listing, or a single
    /// request with an acknowledgement at its end.
    pub fn new(kind: u16, is_listing: bool, header: &[u8]) -> Self {
        let more = if is_listing { libc::NLM_F_DUMP } else { libc::NLM_F_ACK };
        let mut octets = vec![0; 4];
        octets.extend_from_slice(&kind.to_ne_bytes());
        octets.extend_from_slice(&((libc::NLM_F_REQUEST | more) as u16).to_ne_bytes());
        octets.resize(HEADER_OCTETS, 0);
        octets.extend_from_slice(header);
        Request(octets)
    }

    /// Adds an attribute. The kernel accepts no value of more than 65,531 octets.
    #[must_use]
    pub fn with(mut self, attribute: u16, value: &[u8]) -> Self {
        let octets = u16::try_from(ATTRIBUTE_HEADER_OCTETS + value.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&octets.to_ne_bytes());
        self.0.extend_from_slice(&attribute.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// The message with this sequence number.
    pub(crate) fn build(mut self, sequence: u32) -> Vec<u8> {
        let octets = self.0.len() as u32;
        self.0[..4].copy_from_slice(&octets.to_ne_bytes());
        self.0[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.0
    }
}

/// A socket of a netlink protocol.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// The number of the latest request.
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket of a protocol (`None` is rtnetlink), which receives the notifications of
    /// `groups`, a bit for each.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(protocol: Option<Protocol>, groups: u32) -> Result<Self, Errno> {
        let family = AddressFamily::NETLINK;
        let fd = rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        rustix::net::bind(&fd, &SocketAddrNetlink::new(0, groups))?;
        Ok(Socket { fd, sequence: 0, buffer: Vec::new() })
    }

    /// Sends a request, and passes each message of its answer to `take` until the answer ends or
    /// `take` breaks. Answers to earlier requests are skipped.
    ///
    /// The kernel answers before the request returns, and produces further parts of an answer as
    /// they are read. So with [`RecvFlags::DONTWAIT`] no answer is missed, and nothing waits.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn exchange(
        &mut self,
        request: Request,
        flags: RecvFlags,
        take: &mut dyn FnMut(Message<'_>) -> ControlFlow<()>,
    ) -> Result<(), RequestError> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        rustix::net::send(&self.fd, &request.build(sequence), SendFlags::empty())
            .map_err(RequestError::System)?;
        loop {
            let datagram = self.receive(flags).map_err(RequestError::System)?;
            for reply in replies(datagram, Some(sequence)) {
                match reply {
                    Reply::Message(message) if take(message).is_continue() => {}
                    Reply::Message(_) | Reply::End => return Ok(()),
                    Reply::Refused(errno, text) => {
                        return Err(RequestError::Refused(errno, text.map(str::to_owned)));
                    }
                }
            }
        }
    }

    /// Receives a datagram.
    pub(crate) fn receive(&mut self, flags: RecvFlags) -> Result<&[u8], Errno> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; DATAGRAM_OCTETS];
        }
        loop {
            match rustix::net::recv(&self.fd, &mut self.buffer[..], flags) {
                Ok((octets, _)) => return Ok(&self.buffer[..octets]),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A message of an answer or a notification, without its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its type.
    pub kind: u16,
    /// The header of its family, and its attributes.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The attributes after a header of the family of `octets` octets.
    pub fn attributes(self, octets: usize) -> Attributes<'a> {
        Attributes(self.payload.get(octets..).unwrap_or_default())
    }
}

/// One message of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// A message of the family.
    Message(Message<'a>),
    /// The end of the replies.
    End,
    /// The request was refused, with the kernel's message if there is one.
    Refused(Errno, Option<&'a str>),
}

/// The messages in a datagram that answer the request with the number `sequence`; all of them
/// without a number. Ends at the first invalid message.
pub(crate) fn replies(datagram: &[u8], sequence: Option<u32>) -> impl Iterator<Item = Reply<'_>> {
    let is_answer = move |number: u32| sequence.is_none_or(|sequence| sequence == number);
    messages(datagram).filter(move |(number, _)| is_answer(*number)).map(|(_, message)| reply(message))
}

/// Each message of a datagram, with its sequence number.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = (u32, Message<'_>)> {
    std::iter::from_fn(move || {
        let octets = usize::try_from(u32_at(rest, 0)?).ok()?;
        let (message, payload) = (rest.get(..octets)?, rest.get(HEADER_OCTETS..octets)?);
        rest = rest.get(octets.next_multiple_of(4)..).unwrap_or_default();
        Some((u32_at(message, 8)?, Message { kind: u16_at(message, 4)?, payload }))
    })
}

fn reply(message: Message<'_>) -> Reply<'_> {
    match message.kind {
        ERROR => ended(message.payload),
        DONE => match u32_at(message.payload, 0).map(|errno| errno as i32) {
            Some(errno) if errno < 0 => Reply::Refused(refusal(errno), None),
            _ => Reply::End,
        },
        _ => Reply::Message(message),
    }
}

/// An acknowledgement, or a refusal with the kernel's message.
fn ended(payload: &[u8]) -> Reply<'_> {
    /// Attribute of an extended acknowledgement with its text.
    const TEXT: u16 = 1;
    let errno = u32_at(payload, 0).map_or(-libc::EBADMSG, |errno| errno as i32);
    if errno == 0 {
        return Reply::End;
    }
    // The header of the request follows, without its payload (NETLINK_CAP_ACK).
    let more = Attributes(payload.get(4 + HEADER_OCTETS..).unwrap_or_default());
    let text = more.octets(TEXT).and_then(|text| std::str::from_utf8(text).ok());
    Reply::Refused(refusal(errno), text.map(|text| text.trim_end_matches('\0')))
}

/// The error that the kernel reports as a negative number.
fn refusal(errno: i32) -> Errno {
    match errno.saturating_neg() {
        errno @ 1..=ERRNO_MAX => Errno::from_raw_os_error(errno),
        _ => Errno::BADMSG,
    }
}

/// Attributes after a message's headers, or in an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Attributes<'a> {
    /// Each attribute's type and value; ends at the first invalid one.
    pub fn all(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let octets = usize::from(u16_at(rest, 0)?);
            let kind = u16_at(rest, 2)? & TYPE_BITS;
            let value = rest.get(ATTRIBUTE_HEADER_OCTETS..octets)?;
            rest = rest.get(octets.next_multiple_of(4)..).unwrap_or_default();
            Some((kind, value))
        })
    }

    /// The value of the first attribute of this type.
    pub fn octets(self, attribute: u16) -> Option<&'a [u8]> {
        self.all().find(|(kind, _)| *kind == attribute).map(|(_, value)| value)
    }

    /// An attribute of 16 bits.
    pub fn u16(self, attribute: u16) -> Option<u16> {
        Some(u16::from_ne_bytes(self.octets(attribute)?.try_into().ok()?))
    }

    /// An attribute of 32 bits.
    pub fn u32(self, attribute: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(self.octets(attribute)?.try_into().ok()?))
    }

    /// An attribute of 64 bits.
    pub fn u64(self, attribute: u16) -> Option<u64> {
        Some(u64::from_ne_bytes(self.octets(attribute)?.try_into().ok()?))
    }
}

/// The number of 16 bits at an index of a message.
pub fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*octets.get(at..)?.first_chunk()?))
}

/// The number of 32 bits at an index of a message.
pub fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*octets.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of generic netlink, whose header has four octets.
    fn message(kind: u16) -> Request {
        Request::new(kind, false, &[4, 1, 0, 0])
    }

    #[test]
    fn netlink_attributes_survive_a_round_trip() {
        let request = message(31)
            .with(6, b"\x08\x01a")
            .with(2, &5_u64.to_ne_bytes())
            .with(4, &9_u32.to_ne_bytes())
            .build(7);
        assert_eq!(request.len() % 4, 0);
        let found: Vec<_> = replies(&request, Some(7)).collect();
        let [Reply::Message(message)] = found[..] else { panic!("{found:?}") };
        assert_eq!((message.kind, message.payload.first()), (31, Some(&4)));
        let attributes = message.attributes(4);
        assert_eq!(attributes.octets(6), Some(&b"\x08\x01a"[..]));
        assert_eq!((attributes.u64(2), attributes.u32(4)), (Some(5), Some(9)));
        assert_eq!((attributes.u64(4), attributes.octets(9)), (None, None), "of another length, not there");
    }

    #[test]
    fn answers_to_earlier_requests_are_skipped() {
        let both = [message(31).with(1, b"old").build(1), message(31).with(1, b"new").build(2)].concat();
        let values = |sequence| {
            let value = |reply| match reply {
                Reply::Message(message) => message.attributes(4).octets(1),
                Reply::End | Reply::Refused(..) => None,
            };
            replies(&both, sequence).filter_map(value).collect::<Vec<_>>()
        };
        assert_eq!(values(Some(2)), [b"new"]);
        assert_eq!(values(None), [b"old", b"new"], "notifications have no request");
        // The end of an earlier answer does not end this one.
        let late = [Request::new(DONE, false, &[0; 4]).build(1), message(31).build(2)].concat();
        let found: Vec<_> = replies(&late, Some(2)).collect();
        assert!(matches!(found[..], [Reply::Message(_)]), "{found:?}");
    }

    #[test]
    fn a_netlink_refusal_has_a_reason() {
        let mut header = (-libc::EINVAL).to_ne_bytes().to_vec();
        header.extend_from_slice(&[0; HEADER_OCTETS]);
        let answer = Request::new(ERROR, false, &header).with(1, b"why?\0").build(1);
        assert_eq!(replies(&answer, Some(1)).next(), Some(Reply::Refused(Errno::INVAL, Some("why?"))));
        let listing = Request::new(DONE, false, &(-libc::EBUSY).to_ne_bytes()).build(1);
        assert_eq!(replies(&listing, Some(1)).next(), Some(Reply::Refused(Errno::BUSY, None)));
        for errno in [i32::MIN, -ERRNO_MAX - 1, 1] {
            let answer = Request::new(ERROR, false, &errno.to_ne_bytes()).build(1);
            let found = replies(&answer, Some(1)).next();
            assert_eq!(found, Some(Reply::Refused(Errno::BADMSG, None)), "{errno}");
        }
    }

    #[test]
    fn a_truncated_netlink_message_ends_the_parsing() {
        let whole = message(31).with(6, b"abcd").with(2, &5_u64.to_ne_bytes()).build(7);
        for octets in 0..whole.len() {
            assert!(replies(&whole[..octets], None).count() <= 1);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                for reply in replies(&changed, None).take(64) {
                    if let Reply::Message(message) = reply {
                        assert!(message.attributes(4).all().take(64).count() < 64);
                    }
                }
            }
        }
    }

    #[test]
    fn the_kernel_ends_each_netlink_answer() {
        let mut socket = Socket::open(None, 0).unwrap();
        let mut links = |request| {
            let mut count = 0;
            let ended = socket.exchange(request, RecvFlags::DONTWAIT, &mut |message| {
                count += usize::from(message.kind == libc::RTM_NEWLINK);
                ControlFlow::Continue(())
            });
            (ended, count)
        };
        let loopback =
            |name: &[u8]| Request::new(libc::RTM_GETLINK, false, &[0; 16]).with(libc::IFLA_IFNAME, name);
        assert_eq!(links(loopback(b"lo\0")), (Ok(()), 1));
        let (refused, none) = links(loopback(b"namely-none\0"));
        assert!(matches!(refused, Err(RequestError::Refused(..))) && none == 0, "{refused:?}");
        let (ended, count) = links(Request::new(libc::RTM_GETLINK, true, &[0; 16]));
        assert!(ended == Ok(()) && count > 0, "{ended:?} {count}");
    }
}

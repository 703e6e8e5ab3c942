//! Messages of generic netlink: netlink(7) and the kernel's genetlink.
//!
//! A message consists of a header of 16 octets, a header of four octets, and attributes. An
//! attribute has a length and a type of 16 bits each, and a value that is padded to four octets.
//! All numbers are in the processor's byte order.

use rustix::io::Errno;

/// Octets of `nlmsghdr` and of both headers.
const HEADER_OCTETS: usize = 16;
const HEADERS_OCTETS: usize = 20;

/// Octets of an attribute's header.
const ATTRIBUTE_HEADER_OCTETS: usize = 4;

/// Bits of an attribute's type that are the type itself, without the flags of its encoding.
const TYPE_BITS: u16 = 0x3fff;

const ERROR: u16 = libc::NLMSG_ERROR as u16;
const DONE: u16 = libc::NLMSG_DONE as u16;

/// A request under construction.
#[derive(Debug)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// Creates a request of `command` to `family`: a listing, or a single request with an
    /// acknowledgement at its end.
    pub(crate) fn new(family: u16, command: u8, is_listing: bool, sequence: u32) -> Self {
        let more = if is_listing { libc::NLM_F_DUMP } else { libc::NLM_F_ACK };
        let mut octets = vec![0; 4];
        octets.extend_from_slice(&family.to_ne_bytes());
        octets.extend_from_slice(&((libc::NLM_F_REQUEST | more) as u16).to_ne_bytes());
        octets.extend_from_slice(&sequence.to_ne_bytes());
        octets.extend_from_slice(&[0; 4]);
        octets.extend_from_slice(&[command, 1, 0, 0]);
        Request(octets)
    }

    /// Adds an attribute. The kernel accepts no value of more than 65,531 octets.
    pub(crate) fn with(mut self, attribute: u16, value: &[u8]) -> Self {
        let octets = u16::try_from(ATTRIBUTE_HEADER_OCTETS + value.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&octets.to_ne_bytes());
        self.0.extend_from_slice(&attribute.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// The message.
    pub(crate) fn build(mut self) -> Vec<u8> {
        let octets = self.0.len() as u32;
        self.0[..4].copy_from_slice(&octets.to_ne_bytes());
        self.0
    }
}

/// One message of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// A message of the family, with its attributes.
    Message(Attributes<'a>),
    /// The end of the replies.
    End,
    /// The request was refused, with the kernel's message if there is one.
    Refused(Errno, Option<&'a str>),
}

/// The messages in a datagram; ends at the first invalid one.
pub(crate) fn replies(datagram: &[u8]) -> impl Iterator<Item = Reply<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let octets = usize::try_from(u32_at(rest, 0)?).ok().filter(|octets| *octets >= HEADER_OCTETS)?;
        let message = rest.get(..octets)?;
        rest = rest.get(octets.next_multiple_of(4)..).unwrap_or_default();
        Some(match u16_at(message, 4)? {
            ERROR => ended(message),
            DONE => match u32_at(message, HEADER_OCTETS).map(|errno| errno as i32) {
                Some(errno) if errno < 0 => Reply::Refused(Errno::from_raw_os_error(-errno), None),
                _ => Reply::End,
            },
            _ => Reply::Message(Attributes {
                command: message.get(HEADER_OCTETS).copied().unwrap_or(0),
                octets: message.get(HEADERS_OCTETS..).unwrap_or_default(),
            }),
        })
    })
}

/// An acknowledgement, or a refusal with the kernel's message.
fn ended(message: &[u8]) -> Reply<'_> {
    /// Attribute of an extended acknowledgement with its text.
    const TEXT: u16 = 1;
    let errno = u32_at(message, HEADER_OCTETS).map_or(-libc::EBADMSG, |errno| errno as i32);
    if errno == 0 {
        return Reply::End;
    }
    // The header of the request follows, without its payload (NETLINK_CAP_ACK).
    let more = Attributes::of(message.get(HEADER_OCTETS + 4 + HEADER_OCTETS..).unwrap_or_default());
    let text = more.octets(TEXT).and_then(|text| std::str::from_utf8(text).ok());
    Reply::Refused(Errno::from_raw_os_error(errno.saturating_neg()), text.map(|t| t.trim_end_matches('\0')))
}

/// Attributes after a message's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    command: u8,
    octets: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Attributes that are not in a message of the family.
    pub(crate) fn of(octets: &'a [u8]) -> Self {
        Attributes { command: 0, octets }
    }

    /// The command of their message.
    pub(crate) fn command(self) -> u8 {
        self.command
    }

    /// Each attribute's type and value; ends at the first invalid one.
    pub(crate) fn all(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.octets;
        std::iter::from_fn(move || {
            let octets = usize::from(u16_at(rest, 0)?);
            let kind = u16_at(rest, 2)? & TYPE_BITS;
            let value = rest.get(ATTRIBUTE_HEADER_OCTETS..octets)?;
            rest = rest.get(octets.next_multiple_of(4)..).unwrap_or_default();
            Some((kind, value))
        })
    }

    pub(crate) fn octets(self, attribute: u16) -> Option<&'a [u8]> {
        self.all().find(|(kind, _)| *kind == attribute).map(|(_, value)| value)
    }

    pub(crate) fn u16(self, attribute: u16) -> Option<u16> {
        Some(u16::from_ne_bytes(self.octets(attribute)?.try_into().ok()?))
    }

    pub(crate) fn u32(self, attribute: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(self.octets(attribute)?.try_into().ok()?))
    }

    pub(crate) fn u64(self, attribute: u16) -> Option<u64> {
        Some(u64::from_ne_bytes(self.octets(attribute)?.try_into().ok()?))
    }
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*octets.get(at..)?.first_chunk()?))
}

fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*octets.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netlink_attributes_survive_a_round_trip() {
        let request = Request::new(31, 4, false, 7)
            .with(6, b"\x08\x01a")
            .with(2, &5_u64.to_ne_bytes())
            .with(4, &9_u32.to_ne_bytes())
            .build();
        assert_eq!(request.len() % 4, 0);
        let found: Vec<_> = replies(&request).collect();
        let [Reply::Message(attributes)] = found[..] else { panic!("{found:?}") };
        assert_eq!(attributes.octets(6), Some(&b"\x08\x01a"[..]));
        assert_eq!((attributes.u64(2), attributes.u32(4)), (Some(5), Some(9)));
        assert_eq!((attributes.u64(4), attributes.octets(9)), (None, None), "of another length, not there");
    }

    #[test]
    fn a_netlink_refusal_has_a_reason() {
        let mut answer = Request::new(ERROR, 0, false, 1).build();
        answer.truncate(HEADER_OCTETS);
        answer.extend_from_slice(&(-libc::EINVAL).to_ne_bytes());
        answer.extend_from_slice(&[0; HEADER_OCTETS]);
        answer.extend_from_slice(&[9, 0, 1, 0]);
        answer.extend_from_slice(b"why?\0\0\0\0");
        let octets = answer.len() as u32;
        answer[..4].copy_from_slice(&octets.to_ne_bytes());
        assert_eq!(replies(&answer).next(), Some(Reply::Refused(Errno::INVAL, Some("why?"))));
    }

    #[test]
    fn a_truncated_netlink_message_ends_the_parsing() {
        let whole = Request::new(31, 4, false, 7).with(6, b"abcd").with(2, &5_u64.to_ne_bytes()).build();
        for octets in 0..whole.len() {
            assert!(replies(&whole[..octets]).count() <= 1);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                for reply in replies(&changed).take(64) {
                    if let Reply::Message(attributes) = reply {
                        assert!(attributes.all().take(64).count() < 64);
                    }
                }
            }
        }
    }
}

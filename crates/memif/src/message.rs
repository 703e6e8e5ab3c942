//! The messages of the control channel (memif 2.0): 128 octets each, fields unaligned and in the
//! host's byte order.
//!
//! A file descriptor is passed with ADD_REGION (the memory) and with ADD_RING (the eventfd), and
//! with no other message.

use std::fmt;

/// Octets of a message of any type.
pub const MESSAGE_OCTETS: usize = 128;

/// The only version of the protocol: 2.0.
pub const VERSION: u16 = 0x0200;

/// The word at the start of each ring.
pub const COOKIE: u32 = 0x03E3_1F20;

/// Text of a fixed size, filled up with NUL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Text<const OCTETS: usize>(pub [u8; OCTETS]);

impl<const OCTETS: usize> Text<OCTETS> {
    /// Creates a text of as much of `text` as fits before a final NUL.
    pub fn new(text: &str) -> Self {
        let mut octets = [0; OCTETS];
        let mut length = text.len().min(OCTETS - 1);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        octets[..length].copy_from_slice(&text.as_bytes()[..length]);
        Text(octets)
    }

    /// Returns the octets before the first NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|octet| *octet == 0).next().unwrap_or_default()
    }
}

impl<const OCTETS: usize> fmt::Display for Text<OCTETS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

impl<const OCTETS: usize> fmt::Debug for Text<OCTETS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The kind of packets. Every NDN peer uses [`Mode::ETHERNET`] and sends NDN packets without an
/// Ethernet header (NDN-DPDK `iface/memifface`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u8);

impl Mode {
    /// `MEMIF_INTERFACE_MODE_ETHERNET`.
    pub const ETHERNET: Mode = Mode(0);
    /// `MEMIF_INTERFACE_MODE_IP`.
    pub const IP: Mode = Mode(1);
}

/// The server's first message: its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The server's name.
    pub name: Text<32>,
    /// Lowest version.
    pub min_version: u16,
    /// Highest version.
    pub max_version: u16,
    /// Highest number of a region.
    pub region_max: u16,
    /// Highest number of a ring from server to client.
    pub m2s_ring_max: u16,
    /// Highest number of a ring from client to server.
    pub s2m_ring_max: u16,
    /// Largest ring, log2 of its slots.
    pub ring_size_log2_max: u8,
}

/// The client's first message: the interface that it requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// Its version.
    pub version: u16,
    /// The interface's number on this socket.
    pub id: u32,
    /// The kind of packets.
    pub mode: Mode,
    /// A secret that the server may require.
    pub secret: Text<24>,
    /// The client's name.
    pub name: Text<32>,
}

/// From the client: a ring, with its eventfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddRing {
    /// Whether it leads from the client to the server.
    pub is_s2m: bool,
    /// Its number in that direction.
    pub index: u16,
    /// The region of the ring.
    pub region: u16,
    /// Its offset in the region.
    pub offset: u32,
    /// log2 of its slots.
    pub ring_size_log2: u8,
    /// Octets before each packet that are no part of the packet.
    pub private_header_octets: u16,
}

/// A message of the control channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The server has accepted the last message.
    Ack,
    /// The server's first message.
    Hello(Hello),
    /// The client's first message.
    Init(Init),
    /// Memory of the client.
    AddRegion {
        /// Its number.
        index: u16,
        /// Its octets.
        octets: u64,
    },
    /// A ring of the client.
    AddRing(AddRing),
    /// The client has sent all regions and rings.
    Connect {
        /// Its interface's name.
        name: Text<32>,
    },
    /// The server is ready: packets may flow.
    Connected {
        /// Its interface's name.
        name: Text<32>,
    },
    /// The end of the channel.
    Disconnect {
        /// A number without a defined meaning.
        code: u32,
        /// The reason.
        reason: Text<96>,
    },
}

/// The reason why octets are no message. The fault is the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not [`MESSAGE_OCTETS`] octets.
    #[error("a message has {MESSAGE_OCTETS} octets")]
    BadLength,
    /// No such type.
    #[error("a message of an unknown type")]
    UnknownType,
}

const RING_FLAG_S2M: u16 = 1;

/// Writes fields one after another.
struct Fields {
    octets: [u8; MESSAGE_OCTETS],
    at: usize,
}

impl Fields {
    fn put(mut self, field: &[u8]) -> Self {
        self.octets[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
        self
    }

    fn u16(self, value: u16) -> Self {
        self.put(&value.to_ne_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.put(&value.to_ne_bytes())
    }
}

/// Returns `OCTETS` octets of a message at `at`. Callers pass constants within the message.
fn take<const OCTETS: usize>(octets: &[u8; MESSAGE_OCTETS], at: usize) -> [u8; OCTETS] {
    let mut field = [0; OCTETS];
    field.copy_from_slice(&octets[at..at + OCTETS]);
    field
}

impl Message {
    fn number(&self) -> u16 {
        match self {
            Message::Ack => 1,
            Message::Hello(_) => 2,
            Message::Init(_) => 3,
            Message::AddRegion { .. } => 4,
            Message::AddRing(_) => 5,
            Message::Connect { .. } => 6,
            Message::Connected { .. } => 7,
            Message::Disconnect { .. } => 8,
        }
    }

    /// Encodes the message.
    pub fn encode(&self) -> [u8; MESSAGE_OCTETS] {
        let fields = Fields { octets: [0; MESSAGE_OCTETS], at: 0 }.u16(self.number());
        let fields = match self {
            Message::Ack => fields,
            Message::Hello(hello) => fields
                .put(&hello.name.0)
                .u16(hello.min_version)
                .u16(hello.max_version)
                .u16(hello.region_max)
                .u16(hello.m2s_ring_max)
                .u16(hello.s2m_ring_max)
                .put(&[hello.ring_size_log2_max]),
            Message::Init(init) => fields
                .u16(init.version)
                .u32(init.id)
                .put(&[init.mode.0])
                .put(&init.secret.0)
                .put(&init.name.0),
            Message::AddRegion { index, octets } => fields.u16(*index).put(&octets.to_ne_bytes()),
            Message::AddRing(ring) => fields
                .u16(if ring.is_s2m { RING_FLAG_S2M } else { 0 })
                .u16(ring.index)
                .u16(ring.region)
                .u32(ring.offset)
                .put(&[ring.ring_size_log2])
                .u16(ring.private_header_octets),
            Message::Connect { name } | Message::Connected { name } => fields.put(&name.0),
            Message::Disconnect { code, reason } => fields.u32(*code).put(&reason.0),
        };
        fields.octets
    }

    /// Decodes the message in `octets`.
    ///
    /// # Errors
    /// The peer's: see [`MessageError`].
    pub fn decode(octets: &[u8]) -> Result<Self, MessageError> {
        let octets: &[u8; MESSAGE_OCTETS] = octets.try_into().map_err(|_| MessageError::BadLength)?;
        let u16_at = |at| u16::from_ne_bytes(take(octets, at));
        let u32_at = |at| u32::from_ne_bytes(take(octets, at));
        Ok(match u16_at(0) {
            1 => Message::Ack,
            2 => Message::Hello(Hello {
                name: Text(take(octets, 2)),
                min_version: u16_at(34),
                max_version: u16_at(36),
                region_max: u16_at(38),
                m2s_ring_max: u16_at(40),
                s2m_ring_max: u16_at(42),
                ring_size_log2_max: octets[44],
            }),
            3 => Message::Init(Init {
                version: u16_at(2),
                id: u32_at(4),
                mode: Mode(octets[8]),
                secret: Text(take(octets, 9)),
                name: Text(take(octets, 33)),
            }),
            4 => Message::AddRegion { index: u16_at(2), octets: u64::from_ne_bytes(take(octets, 4)) },
            5 => Message::AddRing(AddRing {
                is_s2m: u16_at(2) & RING_FLAG_S2M != 0,
                index: u16_at(4),
                region: u16_at(6),
                offset: u32_at(8),
                ring_size_log2: octets[12],
                private_header_octets: u16_at(13),
            }),
            6 => Message::Connect { name: Text(take(octets, 2)) },
            7 => Message::Connected { name: Text(take(octets, 2)) },
            8 => Message::Disconnect { code: u32_at(2), reason: Text(take(octets, 6)) },
            _ => return Err(MessageError::UnknownType),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Message> {
        let name = Text::new("namely");
        vec![
            Message::Ack,
            Message::Hello(Hello {
                name,
                min_version: VERSION,
                max_version: VERSION,
                region_max: 3,
                m2s_ring_max: 0x0102,
                s2m_ring_max: 0x0304,
                ring_size_log2_max: 14,
            }),
            Message::Init(Init {
                version: VERSION,
                id: 0x0102_0304,
                mode: Mode::IP,
                secret: Text::new("sesame"),
                name,
            }),
            Message::AddRegion { index: 1, octets: 0x0102_0304_0506_0708 },
            Message::AddRing(AddRing {
                is_s2m: true,
                index: 2,
                region: 3,
                offset: 0x0405_0607,
                ring_size_log2: 9,
                private_header_octets: 0x0a0b,
            }),
            Message::Connect { name },
            Message::Connected { name },
            Message::Disconnect { code: 7, reason: Text::new("over") },
        ]
    }

    #[test]
    fn memif_messages_survive_a_round_trip() {
        for message in examples() {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
    }

    /// Offsets of the packed structures of `memif.h`.
    #[cfg(target_endian = "little")]
    #[test]
    fn message_fields_match_libmemif() {
        let octets: Vec<_> = examples().iter().map(Message::encode).collect();
        assert_eq!(octets[0][..3], [1, 0, 0]);
        assert_eq!(octets[1][..8], *b"\x02\x00namely");
        assert_eq!(octets[1][34..46], [0, 2, 0, 2, 3, 0, 2, 1, 4, 3, 14, 0]);
        assert_eq!(octets[2][..9], [3, 0, 0, 2, 4, 3, 2, 1, 1]);
        assert_eq!(octets[2][9..16], *b"sesame\0");
        assert_eq!(octets[2][33..40], *b"namely\0");
        assert_eq!(octets[3][..13], [4, 0, 1, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(octets[4][..16], [5, 0, 1, 0, 2, 0, 3, 0, 7, 6, 5, 4, 9, 0x0b, 0x0a, 0]);
        assert_eq!(octets[5][..9], *b"\x06\x00namely\x00");
        assert_eq!(octets[6][..9], *b"\x07\x00namely\x00");
        assert_eq!(octets[7][..11], *b"\x08\x00\x07\x00\x00\x00over\x00");
    }

    #[test]
    fn a_message_of_invalid_type_is_refused() {
        let octets = Message::Ack.encode();
        assert_eq!(Message::decode(&octets[..127]), Err(MessageError::BadLength));
        assert_eq!(Message::decode(&[&octets[..], &[0]].concat()), Err(MessageError::BadLength));
        for number in [0u16, 9, 0xffff] {
            let mut octets = octets;
            octets[..2].copy_from_slice(&number.to_ne_bytes());
            assert_eq!(Message::decode(&octets), Err(MessageError::UnknownType));
        }
    }

    #[test]
    fn message_text_ends_before_its_last_nul() {
        assert_eq!(Text::<4>::new("abcd").as_bytes(), b"abc");
        assert_eq!(Text::<4>::new("abü").as_bytes(), b"ab");
        assert_eq!(Text::<4>([1; 4]).as_bytes(), [1; 4], "a peer may leave the NUL out");
    }
}

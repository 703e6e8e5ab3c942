//! The contents of an Ethernet frame: addresses, EtherType, one link packet, padding.
//!
//! NDN over Ethernet has EtherType 0x8624. A frame with a shorter packet is padded to 60 octets.
//! The packet ends where its own TLV-LENGTH says.

use namely_link::stream::packet_octets;
use namely_wire::MacAddress;

use super::ETHERTYPE;

/// Destination, source, EtherType.
pub const HEADER_OCTETS: usize = 14;

/// Least octets behind the header (IEEE 802.3). Network cards pad shorter payloads; virtual devices
/// do not, and NFD drops shorter frames.
const PAYLOAD_OCTETS_MIN: usize = 46;

/// Returns the padding behind a packet of `octets` octets.
pub fn padding(octets: usize) -> &'static [u8] {
    const ZEROS: [u8; PAYLOAD_OCTETS_MIN] = [0; PAYLOAD_OCTETS_MIN];
    &ZEROS[octets.min(PAYLOAD_OCTETS_MIN)..]
}

/// A frame that carries a link packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdnFrame<'a> {
    /// The peer or group to which it is addressed.
    pub destination: MacAddress,
    /// The sender's link address.
    pub source: MacAddress,
    /// The link packet, without padding.
    pub packet: &'a [u8],
}

/// The reason for which a frame carries no link packet. The fault is the peer's, or that of a
/// device on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// An Ethernet frame is shorter than its header.
    TooShort,
    /// An Ethernet frame has another EtherType, as behind a further tag.
    EtherType,
    /// The source of an Ethernet frame is a group.
    GroupSource,
    /// The payload does not begin with a whole TLV.
    NotAPacket,
}

impl FrameError {
    /// The counter's name.
    pub fn label(self) -> &'static str {
        match self {
            FrameError::TooShort => "ether_too_short",
            FrameError::EtherType => "ether_type",
            FrameError::GroupSource => "ether_group_source",
            FrameError::NotAPacket => "not_a_packet",
        }
    }
}

/// Reads a frame, from its destination address on.
///
/// # Errors
/// Peer: [`FrameError`], whose label names the counter of the drop.
pub fn parse(frame: &[u8]) -> Result<NdnFrame<'_>, FrameError> {
    let (header, payload) = frame.split_first_chunk::<HEADER_OCTETS>().ok_or(FrameError::TooShort)?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
    let (destination, source) = (MacAddress([d0, d1, d2, d3, d4, d5]), MacAddress([s0, s1, s2, s3, s4, s5]));
    if u16::from_be_bytes([t0, t1]) != ETHERTYPE {
        return Err(FrameError::EtherType);
    }
    if source.is_group() {
        return Err(FrameError::GroupSource);
    }
    match packet_octets(payload) {
        Ok(Some(octets)) => {
            let packet = payload.get(..octets).ok_or(FrameError::NotAPacket)?;
            Ok(NdnFrame { destination, source, packet })
        }
        _ => Err(FrameError::NotAPacket),
    }
}

/// The header of a frame.
pub fn header(destination: MacAddress, source: MacAddress) -> [u8; HEADER_OCTETS] {
    let mut header = [0; HEADER_OCTETS];
    header[..6].copy_from_slice(&destination.0);
    header[6..12].copy_from_slice(&source.0);
    header[12..].copy_from_slice(&ETHERTYPE.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const B: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

    fn frame(payload: &[u8]) -> Vec<u8> {
        [&header(A, B), payload].concat()
    }

    #[test]
    fn ethernet_padding_is_stripped() {
        for padding in [0, 1, 43, 1000] {
            let octets = frame(&[b"\x05\x01a".as_slice(), &vec![0; padding]].concat());
            assert_eq!(parse(&octets), Ok(NdnFrame { destination: A, source: B, packet: b"\x05\x01a" }));
        }
    }

    #[test]
    fn a_frame_without_a_packet_is_rejected() {
        let mut tagged = frame(b"\x05\x00");
        tagged[12..14].copy_from_slice(&[0x81, 0]);
        let group = [header(A, MacAddress([1, 0, 0, 0, 0, 0])).as_slice(), b"\x05\x00"].concat();
        for (octets, error) in [
            (vec![0; 13], FrameError::TooShort),
            (tagged, FrameError::EtherType),
            (group, FrameError::GroupSource),
            (frame(b""), FrameError::NotAPacket),
            (frame(b"\x05\x02a"), FrameError::NotAPacket),
            (frame(&[0; 46]), FrameError::NotAPacket),
            (frame(b"\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff"), FrameError::NotAPacket),
        ] {
            assert_eq!(parse(&octets), Err(error), "{octets:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn arbitrary_octets_never_panic_the_frame_parser(octets in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(read) = parse(&octets) {
                prop_assert!(octets[HEADER_OCTETS..].starts_with(read.packet));
            }
        }
    }
}

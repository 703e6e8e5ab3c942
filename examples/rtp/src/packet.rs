//! RTP packets (RFC 3550, section 5.1) with the fixed header and a payload, without a CSRC list and
//! extensions.

/// Octets of the fixed header.
pub(crate) const HEADER_OCTETS: usize = 12;

/// Ticks of the timestamp in a second: RFC 3551's clock for video.
pub(crate) const CLOCK_HZ: u64 = 90_000;

/// Version 2, nothing else set.
const VERSION: u8 = 2 << 6;

/// A dynamic payload type (RFC 3551, section 3).
const PAYLOAD_TYPE: u8 = 96;

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The sequence number; it wraps.
    pub(crate) sequence: u16,
    /// The creation time of the payload, in ticks of [`CLOCK_HZ`]. It wraps.
    pub(crate) timestamp: u32,
    /// The source.
    pub(crate) ssrc: u32,
}

impl Header {
    /// A packet with this header and `payload_octets` octets of payload.
    pub(crate) fn packet(&self, payload_octets: usize) -> Vec<u8> {
        let mut packet = vec![VERSION, PAYLOAD_TYPE];
        packet.extend_from_slice(&self.sequence.to_be_bytes());
        packet.extend_from_slice(&self.timestamp.to_be_bytes());
        packet.extend_from_slice(&self.ssrc.to_be_bytes());
        packet.resize(HEADER_OCTETS + payload_octets, 0);
        packet
    }

    /// Returns the header of `packet`. Returns `None` if it is not such a packet.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let (header, _) = packet.split_first_chunk::<HEADER_OCTETS>()?;
        let [VERSION, kind, s0, s1, t0, t1, t2, t3, c0, c1, c2, c3] = *header else { return None };
        (kind & 0x7f == PAYLOAD_TYPE).then_some(Header {
            sequence: u16::from_be_bytes([s0, s1]),
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            ssrc: u32::from_be_bytes([c0, c1, c2, c3]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rtp_header_survives_a_round_trip() {
        let header = Header { sequence: 65_535, timestamp: 0xfedc_ba98, ssrc: 7 };
        let packet = header.packet(100);
        assert_eq!(packet.len(), 112);
        assert_eq!(Header::parse(&packet), Some(header));
        assert_eq!(Header::parse(&packet[..11]), None);
        assert_eq!(Header::parse(&[0; 12]), None);
    }
}

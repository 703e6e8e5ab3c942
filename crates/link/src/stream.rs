//! Framing of link packets on a stream. Only their own LENGTH marks their end.

use namely_wire::tlv::read_header;
use namely_wire::{DecodeError, LP_PACKET_OCTETS_MAX};

/// Returns the octets of the packet at the start of `buf`, once all of it is there; `None` while
/// more must be read.
///
/// # Errors
/// Peer: the stream is out of sync, or its packet exceeds the maximum size. The stream cannot be
/// resynchronized: the connection must be closed.
///
/// ```
/// use namely_link::stream::packet_octets;
/// assert_eq!(packet_octets(&[6, 2, 7]), Ok(None));
/// assert_eq!(packet_octets(&[6, 2, 7, 0, 5, 9]), Ok(Some(4)));
/// assert!(packet_octets(&[6, 254, 255, 0, 0, 0]).is_err());
/// ```
pub fn packet_octets(buf: &[u8]) -> Result<Option<usize>, DecodeError> {
    match read_header(buf) {
        Ok((_, length, _)) if length > LP_PACKET_OCTETS_MAX => Err(DecodeError::LengthTooLarge),
        Ok((_, length, header)) if header + length > LP_PACKET_OCTETS_MAX => Err(DecodeError::LengthTooLarge),
        Ok((_, length, header)) => Ok((buf.len() >= header + length).then_some(header + length)),
        Err(DecodeError::Truncated) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_wire::tlv::Writer;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn header(typ: u32, length: u64) -> Vec<u8> {
        let mut w = Writer::new();
        w.var_number(u64::from(typ)).var_number(length);
        w.into_vec()
    }

    #[test]
    fn an_oversized_stream_packet_is_refused() {
        let fits = (LP_PACKET_OCTETS_MAX - 4) as u64;
        assert_eq!(packet_octets(&header(100, fits)), Ok(None));
        assert_eq!(packet_octets(&header(100, fits + 1)), Err(DecodeError::LengthTooLarge));
    }

    #[test]
    fn impossible_lengths_are_refused_at_once() {
        for length in [1u64 << 20, 1 << 32, 1 << 40, 1 << 60, u64::MAX] {
            assert_eq!(packet_octets(&header(6, length)), Err(DecodeError::LengthTooLarge), "{length}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn stream_packets_ignore_read_boundaries(
            sizes in prop::collection::vec(0usize..600, 1..12),
            chunk in 1usize..400,
        ) {
            let mut stream = Vec::new();
            for size in &sizes {
                let mut w = Writer::from_vec(core::mem::take(&mut stream));
                w.tlv(6, &std::vec![7; *size]);
                stream = w.into_vec();
            }
            let (mut cut, mut kept) = (Vec::new(), Vec::new());
            for piece in stream.chunks(chunk) {
                kept.extend_from_slice(piece);
                while let Some(octets) = packet_octets(&kept).unwrap() {
                    cut.push(kept.drain(..octets).count());
                }
            }
            prop_assert!(kept.is_empty());
            let expected: Vec<usize> = sizes.iter().map(|s| namely_wire::tlv::tlv_octets(6, *s)).collect();
            prop_assert_eq!(cut, expected);
        }
    }
}

//! An outgoing link packet: header octets, then a range of a network packet.

use core::fmt;
use core::ops::Range;

use namely_wire::{
    LP_PACKET_OCTETS_MAX, LpFraming, LpHeaders, encode_lp_announced_header, encode_lp_header, encode_lp_probe,
};

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

/// Capacity of the scratch buffer for headers, octets: more than any header with its padding.
pub(crate) const SCRATCH_OCTETS: usize = 512;

/// Capacity for the header of a frame, octets. All fields of NDNLPv2 except acknowledgements take
/// at most 144, and the rest carries acknowledgements.
pub const FRAME_HEADER_OCTETS_MAX: usize = 176;

const _: () = assert!(FRAME_HEADER_OCTETS_MAX <= u8::MAX as usize);

/// The octets of a link packet before its fragment.
#[derive(Clone, Copy)]
pub struct FrameHeader {
    length: u8,
    octets: [u8; FRAME_HEADER_OCTETS_MAX],
}

impl FrameHeader {
    /// No header: the packet is sent bare.
    pub const EMPTY: FrameHeader = FrameHeader { length: 0, octets: [0; FRAME_HEADER_OCTETS_MAX] };

    fn from_slice(slice: &[u8]) -> Option<Self> {
        let mut header = FrameHeader::EMPTY;
        header.octets.get_mut(..slice.len())?.copy_from_slice(slice);
        header.length = slice.len() as u8;
        Some(header)
    }

    /// The octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}

impl fmt::Debug for FrameHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// One changed octet of an outgoing packet (HopLimit), so that the shared packet itself stays
/// unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Offset from the packet's start.
    pub offset: usize,
    /// The octet to send.
    pub value: u8,
}

/// A link packet that is ready to be written: [`Frame::slices`] in order.
#[derive(Clone, Debug)]
pub struct Frame<P> {
    header: FrameHeader,
    /// Number of zeros after the header, if there is no payload.
    padding_octets: u16,
    payload: Option<Payload<P>>,
}

/// Source of padding, as long as the longest frame.
static PADDING: [u8; LP_PACKET_OCTETS_MAX] = [0; LP_PACKET_OCTETS_MAX];

/// A part of a network packet.
#[derive(Clone, Debug)]
pub struct Payload<P> {
    /// The whole packet, shared.
    pub packet: P,
    /// The range of its octets to send.
    pub range: Range<u32>,
    /// The octet to change, if it is in that range.
    pub patch: Option<Patch>,
}

impl<P: AsRef<[u8]>> Frame<P> {
    /// Returns the octets in the order of sending: header, packet up to the patched octet, that
    /// octet, the rest. Unused slices are empty.
    pub fn slices(&self) -> [&[u8]; 4] {
        let header = self.header.as_bytes();
        let Some(payload) = &self.payload else {
            return [header, &PADDING[..usize::from(self.padding_octets)], &[], &[]];
        };
        let range = payload.range.start as usize..payload.range.end as usize;
        let octets = &payload.packet.as_ref()[range.clone()];
        let patch = payload.patch.as_ref().filter(|patch| range.contains(&patch.offset));
        let Some(patch) = patch else { return [header, octets, &[], &[]] };
        let (before, from) = octets.split_at(patch.offset - range.start);
        [header, before, core::slice::from_ref(&patch.value), &from[1..]]
    }
}

impl<P> Frame<P> {
    /// The octets before those of the packet.
    pub fn header(&self) -> &[u8] {
        self.header.as_bytes()
    }

    /// The packet that the frame carries a part of, for hosts that send buffers and not slices.
    pub fn payload(&self) -> Option<&Payload<P>> {
        self.payload.as_ref()
    }

    /// Number of octets of the frame.
    pub fn octets(&self) -> usize {
        let payload = self.payload.as_ref().map_or(0, |p| p.range.len());
        usize::from(self.header.length) + usize::from(self.padding_octets) + payload
    }

    /// Returns true if the frame is a probe of the frame length without payload.
    pub fn is_probe(&self) -> bool {
        self.padding_octets > 0
    }

    /// Creates a frame of a packet without any header.
    pub(crate) fn bare(payload: Payload<P>) -> Self {
        Frame { header: FrameHeader::EMPTY, padding_octets: 0, payload: Some(payload) }
    }

    /// Creates a probe of `octets` that requests an acknowledgement. `None` if `octets` is out of
    /// range or there is no memory.
    pub(crate) fn probe(tx_sequence: u64, octets: usize, scratch: &mut Vec<u8>) -> Option<Self> {
        ready(scratch).ok()?;
        let padding_octets = encode_lp_probe(tx_sequence, octets, scratch)?;
        PADDING.get(..padding_octets)?;
        let header = FrameHeader::from_slice(scratch)?;
        Some(Frame { header, padding_octets: padding_octets as u16, payload: None })
    }

    /// Creates a frame with the given fields. `None` if there is no memory, or if they exceed
    /// [`FRAME_HEADER_OCTETS_MAX`], which no valid fields do.
    pub(crate) fn with_header(
        headers: &LpHeaders,
        framing: &LpFraming<'_>,
        payload: Option<Payload<P>>,
        scratch: &mut Vec<u8>,
    ) -> Option<Self> {
        ready(scratch).ok()?;
        encode_lp_header(headers, framing, None, payload.as_ref().map(|p| p.range.len()), scratch);
        Some(Frame { header: FrameHeader::from_slice(scratch)?, padding_octets: 0, payload })
    }

    /// Creates a frame that contains its whole Fragment, or is IDLE. `None` if it exceeds
    /// [`FRAME_HEADER_OCTETS_MAX`], or there is no memory.
    pub(crate) fn complete(
        framing: &LpFraming<'_>,
        fragment: Option<&[u8]>,
        scratch: &mut Vec<u8>,
    ) -> Option<Self> {
        ready(scratch).ok()?;
        encode_lp_header(&LpHeaders::default(), framing, None, fragment.map(<[u8]>::len), scratch);
        scratch.extend_from_slice(fragment.unwrap_or_default());
        Some(Frame { header: FrameHeader::from_slice(scratch)?, padding_octets: 0, payload: None })
    }

    /// Creates a frame of a payload that begins with the packet's PrefixAnnouncement and the TYPE
    /// and LENGTH of the Fragment.
    pub(crate) fn announced(
        headers: &LpHeaders,
        framing: &LpFraming<'_>,
        payload: Payload<P>,
        scratch: &mut Vec<u8>,
    ) -> Option<Self> {
        ready(scratch).ok()?;
        encode_lp_announced_header(headers, framing, payload.range.len(), scratch);
        Some(Frame { header: FrameHeader::from_slice(scratch)?, padding_octets: 0, payload: Some(payload) })
    }
}

/// Empties the scratch buffer and reserves capacity for any header.
pub(crate) fn ready(scratch: &mut Vec<u8>) -> Result<(), TryReserveError> {
    scratch.clear();
    scratch.try_reserve(SCRATCH_OCTETS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn frame(range: Range<u32>, patch: Option<Patch>) -> Frame<Vec<u8>> {
        Frame::bare(Payload { packet: (0..10).collect(), range, patch })
    }

    #[test]
    fn a_patch_changes_its_octet_only() {
        for offset in 0..10 {
            let frame = frame(0..10, Some(Patch { offset, value: 99 }));
            let mut expected: Vec<u8> = (0..10).collect();
            expected[offset] = 99;
            assert_eq!(frame.slices().concat(), expected);
            assert_eq!(frame.octets(), 10);
        }
    }

    #[test]
    fn header_and_payload_match_the_slices() {
        for (range, patch) in [(0..10, None), (2..7, None), (2..7, Some(Patch { offset: 3, value: 99 }))] {
            let frame = frame(range, patch);
            let payload = frame.payload().unwrap();
            let mut octets =
                payload.packet[payload.range.start as usize..payload.range.end as usize].to_vec();
            if let Some(patch) = payload.patch {
                octets[patch.offset - payload.range.start as usize] = patch.value;
            }
            assert_eq!([frame.header(), &octets].concat(), frame.slices().concat());
        }
        let probe: Frame<Vec<u8>> = Frame::probe(7, 1000, &mut Vec::new()).unwrap();
        assert!(probe.payload().is_none());
    }

    #[test]
    fn a_patch_outside_the_fragment_is_skipped() {
        let patch = Some(Patch { offset: 7, value: 99 });
        assert_eq!(frame(0..7, patch).slices().concat(), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(frame(7..10, patch).slices().concat(), [99, 8, 9]);
    }
}

//! Packets in memory. The embedder of the event loops chooses their type.

use std::ops::Range;

/// A packet whose clones share its octets. A received frame is copied once, into a new packet.
pub trait Buffer: AsRef<[u8]> + Clone + Send + 'static {
    /// Makes a packet of `octets` octets. `fill` writes its content.
    fn filled(octets: usize, fill: impl FnOnce(&mut [u8])) -> Self;

    /// Returns a part of this packet as a packet. The implementation chooses between sharing and
    /// copying, depending on the memory that each wastes.
    fn into_part(self, part: Range<usize>) -> Self;

    /// Makes a packet with a copy of these octets.
    fn copied(octets: &[u8]) -> Self {
        Self::filled(octets.len(), |room| room.copy_from_slice(octets))
    }
}

#[cfg(test)]
impl Buffer for Vec<u8> {
    fn filled(octets: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        let mut packet = vec![0; octets];
        fill(&mut packet);
        packet
    }

    fn into_part(self, part: Range<usize>) -> Self {
        self[part].to_vec()
    }
}

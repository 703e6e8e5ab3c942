//! Packets in memory, as whoever drives the event loops keeps them.

use std::ops::Range;

/// A packet whose octets are shared by its clones. What arrives is copied into one, once.
pub trait Buffer: AsRef<[u8]> + Clone + Send + 'static {
    /// A packet of so many octets, which `fill` writes.
    fn filled(octets: usize, fill: impl FnOnce(&mut [u8])) -> Self;

    /// A part of this packet as one of its own; where it is depends on what wastes less memory.
    fn into_part(self, part: Range<usize>) -> Self;

    /// A packet of these octets.
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

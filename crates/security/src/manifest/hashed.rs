//! Packets that were hashed together.

use namely_wire::DataView;

use super::ManifestHash;
use crate::crypto::DIGEST_OCTETS;
use crate::verified::PacketOctets;

/// A packet, and the digest of its signed portion if it was computed ahead, together with those of other packets. Only
/// [`Hashed::each`] says what the digest is, so that it is always this packet's.
#[derive(Clone, Debug)]
pub struct Hashed<B> {
    packet: B,
    digest: Option<(ManifestHash, [u8; DIGEST_OCTETS])>,
}

impl<B: PacketOctets> Hashed<B> {
    /// Hashes the signed portion of each of `packets`; what is no Data is left as it is.
    pub fn each(hash: ManifestHash, packets: impl IntoIterator<Item = B>) -> Vec<Self> {
        let mut packets: Vec<_> = packets.into_iter().map(Hashed::from).collect();
        let portions = packets.iter().map(|hashed| DataView::parse(hashed.packet.as_ref()));
        let portions: Vec<_> = portions.map(|view| view.ok().map(|view| view.signed_portion)).collect();
        let readable: Vec<&[u8]> = portions.iter().copied().flatten().collect();
        let mut digests = hash.digests(&readable).into_iter();
        let found: Vec<_> = portions.iter().map(|portion| portion.and_then(|_| digests.next())).collect();
        for (packet, digest) in packets.iter_mut().zip(found) {
            packet.digest = digest.map(|digest| (hash, digest));
        }
        packets
    }

    /// The packet.
    pub fn packet(&self) -> &B {
        &self.packet
    }

    /// Gives the packet back.
    pub fn into_packet(self) -> B {
        self.packet
    }

    /// The digest by `hash` of `signed_portion`, which must be the packet's.
    pub(super) fn digest(&self, hash: ManifestHash, signed_portion: &[u8]) -> [u8; DIGEST_OCTETS] {
        match self.digest {
            Some((by, digest)) if by == hash => digest,
            _ => hash.digest(signed_portion),
        }
    }
}

impl<B: PacketOctets> From<B> for Hashed<B> {
    /// Not hashed yet.
    fn from(packet: B) -> Self {
        Hashed { packet, digest: None }
    }
}

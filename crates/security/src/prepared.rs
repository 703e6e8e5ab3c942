//! What verification costs most, done ahead: digests and signatures of packets, by any thread,
//! several together, in any order.
//!
//! Nothing is believed here. Who verifies a packet, in its turn, asks for the digest or for what
//! came of the signature, and gets it without the work if it was done by the same algorithm or with
//! the same key; all else (name, chain, validity, policy) is decided then. That is what
//! [`Verifier::verify_prepared`](crate::Verifier::verify_prepared) and
//! [`VerifiedManifest::verify_prepared`](crate::VerifiedManifest::verify_prepared) do.

use namely_wire::DataView;

use crate::certificate::Certificate;
use crate::crypto::{DIGEST_OCTETS, PublicKey};
use crate::manifest::ManifestHash;
use crate::verified::PacketOctets;

/// What to do ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// Compute the digest of each signed portion.
    Digests(ManifestHash),
    /// Check the signatures of packets that name the key of this certificate, which may be one that
    /// is not believed.
    Signatures(Certificate),
}

/// A packet, and what was done of its verification. Only [`Prepared::each`] says what a digest or a
/// signature is, so that it is always this packet's.
#[derive(Clone, Debug)]
pub struct Prepared<B> {
    packet: B,
    done: Done,
}

/// What was done of a packet's verification.
#[derive(Clone, Debug, Default)]
pub(crate) enum Done {
    #[default]
    Nothing,
    Digest(ManifestHash, [u8; DIGEST_OCTETS]),
    /// Whether the packet's signature is by the key of this certificate.
    Signature(Certificate, bool),
}

impl<B: PacketOctets> Prepared<B> {
    /// Prepares each of `packets`; what is no Data, or names another key, is left as it is.
    pub fn each(how: &Preparation, packets: impl IntoIterator<Item = B>) -> Vec<Self> {
        let mut packets: Vec<_> = packets.into_iter().map(Prepared::from).collect();
        match how {
            Preparation::Digests(hash) => digest_each(*hash, &mut packets),
            Preparation::Signatures(signer) => {
                for prepared in &mut packets {
                    let good = check_signature(signer, prepared.packet.as_ref());
                    prepared.done = good.map_or(Done::Nothing, |good| Done::Signature(signer.clone(), good));
                }
            }
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

    /// What was done of it.
    pub(crate) fn done(&self) -> &Done {
        &self.done
    }
}

impl Done {
    /// The digest by `hash` of the packet's signed portion, if it was computed.
    pub(crate) fn digest(&self, hash: ManifestHash) -> Option<[u8; DIGEST_OCTETS]> {
        match self {
            Done::Digest(by, digest) if *by == hash => Some(*digest),
            _ => None,
        }
    }

    /// Whether the packet's signature is by `key`, if that was checked.
    pub(crate) fn is_signed_by(&self, key: &PublicKey) -> Option<bool> {
        match self {
            Done::Signature(signer, good) if signer.public_key() == key => Some(*good),
            _ => None,
        }
    }
}

impl<B: PacketOctets> From<B> for Prepared<B> {
    /// Nothing was done yet.
    fn from(packet: B) -> Self {
        Prepared { packet, done: Done::Nothing }
    }
}

fn digest_each<B: PacketOctets>(hash: ManifestHash, packets: &mut [Prepared<B>]) {
    let portions = packets.iter().map(|prepared| DataView::parse(prepared.packet.as_ref()));
    let portions: Vec<_> = portions.map(|view| view.ok().map(|view| view.signed_portion)).collect();
    let readable: Vec<&[u8]> = portions.iter().copied().flatten().collect();
    let mut digests = hash.digests(&readable).into_iter();
    let found: Vec<_> = portions.iter().map(|portion| portion.and_then(|_| digests.next())).collect();
    for (prepared, digest) in packets.iter_mut().zip(found) {
        prepared.done = digest.map_or(Done::Nothing, |digest| Done::Digest(hash, digest));
    }
}

/// Whether `signer`'s key signed `packet`; nothing if the packet does not say so.
fn check_signature(signer: &Certificate, packet: &[u8]) -> Option<bool> {
    let view = DataView::parse(packet).ok()?;
    let info = view.signature_info().ok()?;
    let key = signer.public_key();
    let says_so = info.signature_type == key.key_type().signature_type()
        && info.key_name().is_some_and(|locator| signer.answers_to(locator));
    says_so.then(|| key.verify(&[view.signed_portion], view.signature_value))
}

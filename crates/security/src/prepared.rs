//! The costly part of verification, done ahead: digests and signatures of packets, on any thread,
//! several together, in any order.
//!
//! This module makes no trust decision. When a packet is verified, the verifier reuses a digest
//! prepared by the same algorithm, or a signature check prepared with the same key. The verifier
//! checks all else (name, chain, validity, policy) at that time: see
//! [`Verifier::verify_prepared`](crate::Verifier::verify_prepared) and
//! [`VerifiedManifest::verify_prepared`](crate::VerifiedManifest::verify_prepared).

use namely_wire::DataView;

use crate::certificate::Certificate;
use crate::crypto::{DIGEST_OCTETS, PublicKey};
use crate::manifest::ManifestHash;
use crate::verified::PacketOctets;

/// The work to do ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// Compute the digest of each signed portion.
    Digests(ManifestHash),
    /// Check the signatures of packets that name the key of this certificate. The certificate need
    /// not be trusted.
    Signatures(Certificate),
}

/// A packet, and the prepared part of its verification. Only [`Prepared::each`] stores a digest or
/// a signature check, so the stored part always belongs to this packet.
#[derive(Clone, Debug)]
pub struct Prepared<B> {
    packet: B,
    done: PreparedCheck,
}

/// The prepared part of a packet's verification.
#[derive(Clone, Debug, Default)]
pub(crate) enum PreparedCheck {
    #[default]
    Nothing,
    Digest(ManifestHash, [u8; DIGEST_OCTETS]),
    /// Whether the packet's signature is by the key of this certificate.
    Signature(Certificate, bool),
}

impl<B: PacketOctets> Prepared<B> {
    /// Prepares each of `packets`. A packet that is not a Data, or that names another key, stays
    /// unprepared.
    pub fn each(how: &Preparation, packets: impl IntoIterator<Item = B>) -> Vec<Self> {
        let mut packets: Vec<_> = packets.into_iter().map(Prepared::from).collect();
        match how {
            Preparation::Digests(hash) => digest_each(*hash, &mut packets),
            Preparation::Signatures(signer) => {
                for prepared in &mut packets {
                    let good = check_signature(signer, prepared.packet.as_ref());
                    prepared.done = good.map_or(PreparedCheck::Nothing, |good| {
                        PreparedCheck::Signature(signer.clone(), good)
                    });
                }
            }
        }
        packets
    }

    /// The packet.
    pub fn packet(&self) -> &B {
        &self.packet
    }

    /// Returns the packet.
    pub fn into_packet(self) -> B {
        self.packet
    }

    /// The prepared part of its verification.
    pub(crate) fn done(&self) -> &PreparedCheck {
        &self.done
    }
}

impl PreparedCheck {
    /// Returns the digest by `hash` of the packet's signed portion, if this digest was computed.
    pub(crate) fn digest(&self, hash: ManifestHash) -> Option<[u8; DIGEST_OCTETS]> {
        match self {
            PreparedCheck::Digest(by, digest) if *by == hash => Some(*digest),
            _ => None,
        }
    }

    /// Returns whether the packet's signature is by `key`, if that was checked.
    pub(crate) fn is_signed_by(&self, key: &PublicKey) -> Option<bool> {
        match self {
            PreparedCheck::Signature(signer, good) if signer.public_key() == key => Some(*good),
            _ => None,
        }
    }
}

impl<B: PacketOctets> From<B> for Prepared<B> {
    /// Creates an unprepared packet.
    fn from(packet: B) -> Self {
        Prepared { packet, done: PreparedCheck::Nothing }
    }
}

fn digest_each<B: PacketOctets>(hash: ManifestHash, packets: &mut [Prepared<B>]) {
    let portions = packets.iter().map(|prepared| DataView::parse(prepared.packet.as_ref()));
    let portions: Vec<_> = portions.map(|view| view.ok().map(|view| view.signed_portion)).collect();
    let readable: Vec<&[u8]> = portions.iter().copied().flatten().collect();
    let mut digests = hash.digests(&readable).into_iter();
    let found: Vec<_> = portions.iter().map(|portion| portion.and_then(|_| digests.next())).collect();
    for (prepared, digest) in packets.iter_mut().zip(found) {
        prepared.done = digest.map_or(PreparedCheck::Nothing, |digest| PreparedCheck::Digest(hash, digest));
    }
}

/// Returns whether `signer`'s key signed `packet`; `None` if the packet does not name that key.
fn check_signature(signer: &Certificate, packet: &[u8]) -> Option<bool> {
    let view = DataView::parse(packet).ok()?;
    let info = view.signature_info().ok()?;
    let key = signer.public_key();
    let says_so = info.signature_type == key.key_type().signature_type()
        && info.key_name().is_some_and(|locator| signer.answers_to(locator));
    says_so.then(|| key.verify(&[view.signed_portion], view.signature_value))
}

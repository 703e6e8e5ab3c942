//! Signing and verification of generated Data. The keys are part of the program and not secret,
//! because they only serve to measure the cost of signatures.

use std::sync::Arc;

use clap::ValueEnum;
use namely_security::{CryptoError, HmacKey, PrivateKey, Signer, sha256};
use namely_wire::types::SIGNATURE_VALUE;
use namely_wire::{DataView, Name, SignatureInfo, SignatureType};

use super::limits::PAYLOAD_OCTETS_MAX;

/// The name of the keys in KeyLocator.
const KEY_NAME: &str = "/namely-perf/KEY/1";

/// The shared key of `hmac`. It is not secret.
const HMAC_SECRET: [u8; 32] = *b"namely perf: no secret but a key";

/// The octets of PKCS#8 (RFC 8410) before the private key of `ed25519`, which is `HMAC_SECRET`.
const ED25519_HEADER: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// How a server signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SignWith {
    /// Not at all: SignatureType 200, which costs nothing at either end
    Null,
    /// SHA-256 of each packet
    Sha256,
    /// Ed25519
    Ed25519,
    /// HMAC with SHA-256
    Hmac,
}

impl SignWith {
    /// Returns the signing with this kind of signature.
    pub(super) fn signing(self) -> Result<Signing, CryptoError> {
        Ok(match self {
            SignWith::Null => Signing::Null,
            SignWith::Sha256 => Signing::Digest,
            SignWith::Ed25519 => {
                Signing::Key { signer: Signer::new(key_name(), Arc::new(ed25519()?)), octets: 64 }
            }
            SignWith::Hmac => {
                let key = HmacKey::new(&HMAC_SECRET);
                Signing::Key { signer: Signer::hmac(key_name(), key), octets: 32 }
            }
        })
    }
}

fn key_name() -> Name {
    KEY_NAME.parse().unwrap_or_default()
}

fn ed25519() -> Result<PrivateKey, CryptoError> {
    PrivateKey::from_pkcs8(&[&ED25519_HEADER[..], &HMAC_SECRET].concat())
}

/// Writes SignatureInfo and SignatureValue.
#[derive(Clone, Debug)]
pub(super) enum Signing {
    /// None.
    Null,
    /// SHA-256.
    Digest,
    /// A signature with a key, of this many octets.
    Key { signer: Signer, octets: usize },
}

impl Signing {
    pub(super) fn info(&self) -> SignatureInfo {
        match self {
            Signing::Null => SignatureInfo::new(SignatureType::Null, None),
            Signing::Digest => SignatureInfo::digest_sha256(),
            Signing::Key { signer, .. } => signer.signature_info(),
        }
    }

    /// Returns the octets of SignatureValue's VALUE.
    pub(super) fn value_octets(&self) -> usize {
        match self {
            Signing::Null => 0,
            Signing::Digest => 32,
            Signing::Key { octets, .. } => *octets,
        }
    }

    /// Appends SignatureValue to the Data whose signed portion begins at `signed_from` and ends
    /// with `out`.
    pub(super) fn append_value(&self, signed_from: usize, out: &mut Vec<u8>) -> Result<(), CryptoError> {
        let header = [SIGNATURE_VALUE as u8, self.value_octets() as u8];
        match self {
            Signing::Null => out.extend_from_slice(&header),
            Signing::Digest => {
                let digest = sha256(&out[signed_from..]);
                out.extend_from_slice(&header);
                out.extend_from_slice(&digest);
            }
            Signing::Key { signer, .. } => {
                let value = signer.sign(&[&out[signed_from..]])?;
                out.extend_from_slice(&header);
                out.extend_from_slice(&value);
            }
        }
        Ok(())
    }
}

/// Returns the payload of `octets` that servers send. The payload is always the same, so that a
/// client can detect a change.
pub(super) fn payload(octets: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut payload = Vec::with_capacity(octets + 8);
    while payload.len() < octets {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        payload.extend_from_slice(&state.to_ne_bytes());
    }
    payload.truncate(octets);
    payload
}

/// Verifies content and signature of received Data.
#[derive(Debug)]
pub(super) struct Checker {
    payload: Vec<u8>,
    hmac: HmacKey,
    ed25519: PrivateKey,
}

impl Checker {
    pub(super) fn new() -> Result<Self, CryptoError> {
        let hmac = HmacKey::new(&HMAC_SECRET);
        Ok(Checker { payload: payload(PAYLOAD_OCTETS_MAX), hmac, ed25519: ed25519()? })
    }

    /// Returns true if `data` has a server's content and a valid signature.
    pub(super) fn is_right(&self, data: &DataView<'_>) -> bool {
        let (signed, value) = (&[data.signed_portion][..], data.signature_value);
        let signature = match data.signature_type {
            SignatureType::Null => value.is_empty(),
            SignatureType::DigestSha256 => sha256(data.signed_portion) == value,
            SignatureType::HmacWithSha256 => self.hmac.verify(signed, value),
            SignatureType::Ed25519 => self.ed25519.public().verify(signed, value),
            _ => false,
        };
        signature && self.payload.starts_with(data.content)
    }
}

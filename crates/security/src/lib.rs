//! Keys, signatures, certificates, and trust policies.
//!
//! A producer takes a [`Signer`] and calls [`sign_data`]. A consumer calls a [`Verifier`] under a
//! [`TrustPolicy`] and receives [`Verified`] data, or a [`Rejection`] with the reason. This crate
//! never returns unverified data as verified, never logs or prints a secret, and does no network
//! I/O. A verifier that lacks a certificate returns the certificate's name, and the driver fetches
//! the certificate.
//!
//! Follows the NDN Packet Format Specification v0.3 (sections Signature, Signed Interest and
//! Certificate).
//!
//! # Example
//!
//! Alice signs a packet with her key. Bob trusts her certificate for names below `/alice`, so he
//! accepts the packet. He rejects a changed packet.
//!
//! ```
//! use std::sync::Arc;
//!
//! use namely_security::{
//!     Certificate, KeyType, PrivateKey, Signer, TrustPolicy, Verdict, Verifier, sign_data,
//! };
//! use namely_wire::{DataBuilder, Name, ValidityPeriod};
//!
//! let key = Arc::new(PrivateKey::generate(KeyType::Ed25519)?);
//! let key_name: Name = "/alice/KEY/1".parse()?;
//! let validity = ValidityPeriod { not_before_s: 0, not_after_s: 2_000_000_000 };
//! let certificate = Certificate::self_signed(key_name.as_name(), &key, validity, 1)?;
//! let signer = Signer::new(key_name, key);
//! let name: Name = "/alice/hello".parse()?;
//! let mut wire = sign_data(&DataBuilder::new(name.as_name()), b"hello, Bob", &signer)?;
//!
//! let mut policy = TrustPolicy::hierarchical();
//! policy.add_anchor(certificate);
//! let mut verifier = Verifier::new(policy);
//! let now_ns = 1_700_000_000_000_000_000;
//! let Verdict::Verified(data) = verifier.verify(wire.as_slice(), now_ns) else { panic!() };
//! assert_eq!(data.content(), b"hello, Bob");
//!
//! *wire.last_mut().unwrap() ^= 1;
//! assert!(matches!(verifier.verify(wire.as_slice(), now_ns), Verdict::Rejected(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

mod certificate;
mod command;
mod crypto;
mod keychain;
mod manifest;
mod prepared;
mod revocation;
mod signer;
mod text;
mod trust;
pub mod validity;
mod verified;
mod verifier;

pub use certificate::{Certificate, CertificateError, new_key_name};
pub use command::{
    AcceptedCommand, AcceptedCommandStore, COMMAND_KEYS_MAX, COMMAND_NONCE_OCTETS_MAX, CommandRefusal,
    CommandTime, CommandVerifier, TAKEN_RECORD_OCTETS, TAKEN_RECORDS_MAX, has_right_parameters_digest,
};
pub use crypto::{
    ContentDigest, ContentHash, CryptoError, DigestAlgorithm, HmacKey, KeyType, Passphrase, PrivateKey,
    PublicKey, Sha256, blake3, encrypt_pkcs8, private_key_from_pem, private_key_to_pem, random, sha256,
};
pub use keychain::{KeyChain, KeyChainError, KeyEntry, KeyListing, NewKey, SafeBag};
pub use manifest::{
    MANIFEST_ENTRIES, MANIFEST_KEYWORD, Manifest, ManifestError, ManifestHash, SegmentFault,
    SegmentRejection, VerifiedManifest, manifest_name,
};
pub use prepared::{Preparation, Prepared};
pub use revocation::{
    RevocationError, RevocationReason, RevocationStatement, RevocationStatus, is_about_revocation,
    revocation_prefix,
};
pub use signer::{Signer, sign_data, sign_interest};
pub use text::{CertificateFileError, read_certificate};
pub use trust::{Pattern, PatternError, PolicyFileError, Rejection, RejectionReason, Rule, TrustPolicy};
pub use verified::{Chain, ManifestTrust, PacketOctets, TrustReason, Verified};
pub use verifier::{CANDIDATES_MAX, NeedCertificate, VALIDATED_MAX, Verdict, Verifier};

//! Keys, signatures, certificates, and whom to trust for what.
//!
//! A producer takes a [`Signer`] and calls [`sign_data`]. A consumer asks a [`Verifier`] under a
//! [`TrustPolicy`] and gets [`Verified`] data, or a [`Rejection`] that says why not. This crate never hands out
//! verified data that was not verified, never logs or prints a secret, and does no network I/O: a verifier that
//! lacks a certificate says which, and its driver fetches it.
//!
//! Follows the NDN Packet Format Specification v0.3 (`signature.rst`, `signed-interest.rst`, `certificate.rst`).
#![deny(unsafe_code)]

pub mod certificate;
pub mod command;
pub mod crypto;
pub mod keychain;
pub mod manifest;
pub mod prepared;
pub mod revocation;
pub mod signer;
pub mod text;
pub mod trust;
pub mod validity;
pub mod verified;
pub mod verifier;

pub use namely_wire::ValidityPeriod;

pub use certificate::{Certificate, CertificateError};
pub use command::{CommandRefusal, CommandVerifier};
pub use crypto::{CryptoError, HmacKey, KeyType, Passphrase, PrivateKey, PublicKey, sha256};
pub use keychain::{KeyChain, KeyChainError, KeyEntry, Listing, NewKey};
pub use manifest::{
    MANIFEST_ENTRIES, Manifest, ManifestHash, VerifiedManifest, manifest_index, manifest_name,
};
pub use prepared::{Preparation, Prepared};
pub use revocation::{Statement, revocation_prefix};
pub use signer::{Signer, sign_data, sign_interest};
pub use text::{CertificateFileError, read_certificate};
pub use trust::{Pattern, PolicyFileError, Rejection, Rule, TrustPolicy, Why};
pub use verified::{Chain, ManifestTrust, PacketOctets, TrustReason, Verified};
pub use verifier::{NeedCertificate, Verdict, Verifier};

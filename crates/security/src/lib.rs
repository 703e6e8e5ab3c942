//! Keys, signatures, certificates, and whom to trust for what.
//!
//! A producer takes a [`Signer`] and calls [`sign_data`]. This crate never hands out
//! verified data that was not verified, never logs or prints a secret, and does no network I/O: a verifier that
//! lacks a certificate says which, and its driver fetches it.
//!
//! Follows the NDN Packet Format Specification v0.3 (`signature.rst`, `signed-interest.rst`, `certificate.rst`).
#![forbid(unsafe_code)]

pub mod crypto;
pub mod signer;

pub use crypto::{CryptoError, HmacKey, KeyType, Passphrase, PrivateKey, PublicKey, sha256};
pub use signer::{Signer, sign_data, sign_interest};

//! The router's key on its links: what it signs, and whether others have signed what they say.

use std::sync::Arc;

use namely_discovery::Key;
use namely_discovery::message::{DISCOVERY, OwnHello, OwnReply};
use namely_host::clock;
use namely_security::{
    CryptoError, KeyType, PrivateKey, PublicKey, Signer, has_right_parameters_digest, sha256, sign_data,
    sign_interest,
};
use namely_wire::{DataBuilder, DataView, InterestBuilder, InterestView, Name};

/// How long a hello stays in a router that takes it for an ordinary Interest, ms.
const LIFETIME_MS: u64 = 1000;

/// The key that the router has made for itself.
pub(super) struct Identity {
    key: Key,
    signer: Signer,
    /// The time of what was signed last: the next is later, whatever the clock does.
    time_ms: u64,
}

impl Identity {
    /// A fresh key.
    ///
    /// # Errors
    /// The system has no random octets, in words.
    pub(super) fn new() -> Result<Self, String> {
        let make = || -> Result<Self, CryptoError> {
            let private = PrivateKey::generate(KeyType::Ed25519)?;
            let key = private.public().ed25519_octets().ok_or(CryptoError::BadPublicKey)?;
            let id = &sha256(private.public().spki())[..8];
            let key_name = Name::new().join_generic(DISCOVERY).join_generic("KEY").join_generic(id);
            Ok(Identity { key, signer: Signer::new(key_name, Arc::new(private)), time_ms: 0 })
        };
        make().map_err(|error| format!("no key for neighbour discovery: {error}"))
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// A signed hello, and the digest that ends its name. Nothing when the library refuses.
    pub(super) fn hello(&mut self, hello: &OwnHello) -> Option<(Vec<u8>, [u8; 32])> {
        let builder = InterestBuilder::new(hello.name()).lifetime_ms(LIFETIME_MS).hop_limit(1);
        let builder = builder.nonce(namely_host::random().ok()?);
        let time_ms = self.next_time_ms();
        let packet = sign_interest(&builder, &hello.parameters(), &self.signer, time_ms).ok()?;
        let digest = InterestView::parse(&packet).ok()?.parameters_digest()?.try_into().ok()?;
        Some((packet, digest))
    }

    /// A signed reply.
    pub(super) fn reply(&mut self, reply: &OwnReply) -> Option<Vec<u8>> {
        let content = reply.content(self.next_time_ms());
        sign_data(&DataBuilder::new(reply.name.as_name()), &content, &self.signer).ok()
    }

    fn next_time_ms(&mut self) -> u64 {
        self.time_ms = clock::unix_ms().max(self.time_ms + 1);
        self.time_ms
    }
}

/// Whether this Interest or Data was signed with `key`.
pub(super) fn is_signed_by(packet: &[u8], key: &Key) -> bool {
    let Ok(key) = PublicKey::from_ed25519(key) else { return false };
    if let Ok(interest) = InterestView::parse(packet) {
        let Some(value) = interest.signature_value else { return false };
        let parts = [interest.signed_name(), interest.signed_parameters];
        return has_right_parameters_digest(&interest) && key.verify(&parts, value);
    }
    DataView::parse(packet).is_ok_and(|data| key.verify(&[data.signed_portion], data.signature_value))
}

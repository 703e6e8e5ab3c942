//! What the router signs on its links for neighbour discovery.

use namely_discovery::Key;
use namely_discovery::message::{OwnHello, OwnReply};
use namely_host::clock;
use namely_security::{Signer, sign_data, sign_interest};
use namely_wire::{DataBuilder, InterestBuilder, InterestView};

use crate::key::RouterKey;

/// How long a hello stays in a router that takes it for an ordinary Interest, ms.
const LIFETIME_MS: u64 = 1000;

/// The key that the router has on its links.
pub(super) struct Identity {
    key: Key,
    signer: Signer,
    /// The time of what was signed last: the next is later, whatever the clock does.
    time_ms: u64,
}

impl Identity {
    /// With the router's key.
    ///
    /// # Errors
    /// There is none, or it is of another kind, in words.
    pub(super) fn new(key: &RouterKey) -> Result<Self, String> {
        let (key, signer) = key.signer()?;
        Ok(Identity { key, signer, time_ms: 0 })
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

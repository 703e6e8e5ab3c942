//! Signs this router's messages of neighbor discovery.

use namely_discovery::Key;
use namely_discovery::message::{OwnHello, OwnReply};
use namely_host::clock;
use namely_security::{Signer, sign_data, sign_interest};
use namely_wire::{DataBuilder, InterestBuilder, InterestView};

use crate::exit::Failure;
use crate::key::RouterKey;

/// Lifetime of a hello in a router that processes it as an ordinary Interest, ms.
const LIFETIME_MS: u64 = 1000;

/// The router's key for its links.
pub(super) struct Identity {
    key: Key,
    signer: Signer,
    /// The last signing time. The next one is later even if the clock goes backwards.
    time_ms: u64,
}

impl Identity {
    /// Creates the identity from the router's key.
    ///
    /// # Errors
    /// [`Failure`]: there is no key, or one of another type.
    pub(super) fn new(key: &RouterKey) -> Result<Self, Failure> {
        let (key, signer) = key.signer()?;
        Ok(Identity { key, signer, time_ms: 0 })
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    /// Returns a signed hello, and the digest that ends its name; `None` if the library fails.
    pub(super) fn hello(&mut self, hello: &OwnHello) -> Option<(Vec<u8>, [u8; 32])> {
        let builder = InterestBuilder::new(hello.name()).lifetime_ms(LIFETIME_MS).hop_limit(1);
        let builder = builder.nonce(namely_host::random().ok()?);
        let time_ms = self.next_time_ms();
        let packet = sign_interest(&builder, &hello.parameters(), &self.signer, time_ms).ok()?;
        let digest = InterestView::parse(&packet).ok()?.parameters_digest()?.try_into().ok()?;
        Some((packet, digest))
    }

    /// Returns a signed reply.
    pub(super) fn reply(&mut self, reply: &OwnReply) -> Option<Vec<u8>> {
        let content = reply.content(self.next_time_ms());
        sign_data(&DataBuilder::new(reply.name.as_name()), &content, &self.signer).ok()
    }

    fn next_time_ms(&mut self) -> u64 {
        self.time_ms = clock::unix_ms().max(self.time_ms + 1);
        self.time_ms
    }
}

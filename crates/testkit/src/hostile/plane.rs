//! A neighbor of a router that runs the virtual plane of VIP.

use std::io;
use std::sync::Arc;

use namely_security::{KeyType, PrivateKey, Signer, sign_data, sign_interest};
use namely_vip::message::{self, Body, Message, MessageName, RequestKind};
use namely_wire::{DataBuilder, InterestBuilder, LpHeaders, LpView, Name, PitToken, encode_lp_packet};

/// Boot number of the neighbor.
pub const BOOT: u64 = 7;

/// A request of the router that awaits an answer.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its name.
    pub name: Name,
    /// The token that the answer has to carry.
    pub token: Option<PitToken>,
    /// Its subject.
    pub about: RequestKind,
    /// The router's boot number.
    pub boot: u64,
    /// The router's slot.
    pub slot: u64,
}

impl Request {
    /// Parses a datagram; `None` unless it is a request for counts or offers.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let link = LpView::parse(datagram).ok()?;
        let message = Message::parse(link.fragment?).ok()?;
        let (about, boot, slot) = match message.body {
            Body::CountsRequest { boot, slot, .. } => (RequestKind::Counts, boot, slot),
            Body::OffersRequest { boot, slot, .. } => (RequestKind::Offers, boot, slot),
            _ => return None,
        };
        Some(Request { name: message.name.to_name(), token: link.headers.pit_token, about, boot, slot })
    }
}

/// A neighbor with a key of its own.
#[derive(Debug)]
pub struct Neighbor {
    /// Its name in the exchange.
    pub router: String,
    /// Its public key.
    pub key: [u8; 32],
    /// Signs its messages.
    pub signer: Signer,
    time_us: u64,
}

impl Neighbor {
    /// Creates a neighbor with the key `private`.
    ///
    /// # Errors
    /// It is not an Ed25519 key.
    pub fn new(router: &str, private: PrivateKey) -> io::Result<Self> {
        let key = private.public().ed25519_octets().ok_or(io::ErrorKind::InvalidInput)?;
        let name = Name::new().join_generic(router).join_generic("KEY").join_generic("1");
        let signer = Signer::new(name, Arc::new(private));
        Ok(Neighbor { router: router.to_owned(), key, signer, time_us: 0 })
    }

    /// Creates a neighbor with a fresh key.
    ///
    /// # Errors
    /// The system has no random octets.
    pub fn with_new_key(router: &str) -> io::Result<Self> {
        Self::new(router, PrivateKey::generate(KeyType::Ed25519).map_err(io::Error::other)?)
    }

    /// Returns a signed request for the router's counts. Its timestamp is later than those of all
    /// earlier requests.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn counts_request(&mut self, period_ms: u64, nonce: [u8; 4]) -> io::Result<Vec<u8>> {
        let wall_us = namely_host::clock::unix_ns() / 1000;
        self.time_us = wall_us.max(self.time_us + 1);
        let router = self.router.as_bytes();
        let title = MessageName { about: RequestKind::Counts, router, time_us: self.time_us, segment: 0 };
        let builder = InterestBuilder::new(title.to_name()).hop_limit(1).nonce(nonce);
        let parameters = message::counts_request(BOOT, 1, period_ms);
        let time_ms = namely_host::clock::unix_ms();
        sign_interest(&builder, &parameters, &self.signer, time_ms).map_err(io::Error::other)
    }

    /// Returns a signed answer with `content`.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn answer(&self, name: &Name, token: Option<PitToken>, content: &[u8]) -> io::Result<Vec<u8>> {
        let data = sign_data(&DataBuilder::new(name.as_name()), content, &self.signer);
        let headers = LpHeaders { pit_token: token, ..LpHeaders::default() };
        Ok(encode_lp_packet(&headers, &data.map_err(io::Error::other)?))
    }
}

//! A neighbor of the virtual plane that sends the messages of a test.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this module")]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use namely_testkit::hostile::Neighbor;
use namely_testkit::until;
use namely_vip::message::{Body, Message, RequestKind};
use namely_wire::Name;

use crate::common::Client;
use crate::plane::{PERIOD_MS, Router};

/// A neighbor that sends the messages of a test.
pub struct Fake {
    pub client: Client,
    pub port: u16,
    pub neighbor: Neighbor,
}

impl Fake {
    pub fn new(router: &Router) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(router.daemon.udp()).unwrap();
        let port = socket.local_addr().unwrap().port();
        let neighbor = Neighbor::with_new_key("fake").unwrap();
        Fake { client: Client::udp_from(socket), port, neighbor }
    }

    pub fn config(&self) -> String {
        Router::neighbour(self.port, "fake", &self.neighbor.key, "\"/cms\"")
    }

    /// A request of A.
    pub fn request(&mut self, router: &str) -> Vec<u8> {
        router.clone_into(&mut self.neighbor.router);
        self.neighbor.counts_request(PERIOD_MS, self.client.next_nonce()).unwrap()
    }

    /// Sends requests until one is answered, because the first may arrive before the router has its
    /// neighbor.
    pub fn introduce(&mut self, router: &mut Router) {
        until("it is answered", || {
            let request = self.request("fake");
            self.client.send(&request);
            (router.count("counts_told") > 0).then_some(())
        });
    }

    /// Returns the next request of the router for counts or VIPs, with the data for its answer;
    /// `None` if none arrives within the duration of a slot.
    pub fn next_request_in_a_slot(&mut self, about: RequestKind) -> Option<VipRequest> {
        let end = Instant::now() + Duration::from_millis(PERIOD_MS);
        while Instant::now() < end {
            let Some(packet) = self.client.receive(Duration::from_millis(PERIOD_MS)) else { continue };
            let Ok(message) = Message::parse(&packet.wire) else { continue };
            let (name, token) = (message.name.to_name(), packet.headers.pit_token);
            match (message.body, about) {
                (Body::CountsRequest { boot, slot, .. }, RequestKind::Counts) => {
                    return Some(VipRequest { name, token, boot, slot });
                }
                (Body::OffersRequest { boot, slot, .. }, RequestKind::Offers) => {
                    return Some(VipRequest { name, token, boot, slot });
                }
                _ => {}
            }
        }
        None
    }

    pub fn answer(&mut self, request: &VipRequest, content: &[u8]) {
        let answer = self.neighbor.answer(&request.name, request.token, content).unwrap();
        self.client.send(&answer);
    }
}

/// A request of the router, with the data for its answer.
pub struct VipRequest {
    pub name: Name,
    pub token: Option<namely_wire::PitToken>,
    pub boot: u64,
    pub slot: u64,
}

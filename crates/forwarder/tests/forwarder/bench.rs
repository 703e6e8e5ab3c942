//! A forwarder under test: a test passes packets to it, checks those that it sends, and sets the
//! time.

use std::sync::Arc;

use namely_forwarder::{Config, DropReason, FaceId, FaceProperties, Outgoing, Received, Router};
use namely_messages::{Route, route_flags};
use namely_wire::{
    Component, DataBuilder, InterestBuilder, InterestView, LpHeaders, NackReason, Name, PitToken,
    SignatureInfo, types,
};

pub(crate) type Packet = Arc<[u8]>;
pub(crate) type Fw = Router<Packet, parking_lot::RawMutex>;
pub(crate) type Sent = Vec<(FaceId, Outgoing<Packet>)>;

pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// A substitute for SHA-256 that differs for each packet of the tests.
pub(crate) fn test_digest(octets: &[u8]) -> [u8; 32] {
    let mut digest = [0u8; 32];
    for (i, lane) in digest.chunks_mut(8).enumerate() {
        let seed = 0xcbf2_9ce4_8422_2325u64 ^ (i as u64) << 56;
        let hash = octets.iter().fold(seed, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
        lane.copy_from_slice(&hash.to_be_bytes());
    }
    digest
}

pub(crate) fn config() -> Config {
    Config::new(test_digest)
}

/// A forwarder and its current time.
pub(crate) struct Bench {
    pub(crate) fw: Fw,
    pub(crate) now_ns: u64,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Bench::with(config())
    }

    pub(crate) fn with(config: Config) -> Self {
        Bench { fw: Router::new(config, 7).unwrap(), now_ns: 1_000_000_000 }
    }

    pub(crate) fn app(&self) -> FaceId {
        self.fw.face_register(FaceProperties::application()).unwrap()
    }

    pub(crate) fn remote(&self) -> FaceId {
        self.fw.face_register(FaceProperties::remote()).unwrap()
    }

    pub(crate) fn group(&self) -> FaceId {
        self.fw.face_register(FaceProperties::group()).unwrap()
    }

    pub(crate) fn face(&self, spec: FaceProperties) -> FaceId {
        self.fw.face_register(spec).unwrap()
    }

    pub(crate) fn route(&self, uri: &str, face: FaceId, cost: u64) {
        self.fw.fib().add_nexthop(name(uri).as_name(), face, cost).unwrap();
    }

    pub(crate) fn strategy(&self, prefix: &str, strategy: &str) {
        self.fw.strategies().set(name(prefix).as_name(), name(strategy).as_name()).unwrap();
    }

    pub(crate) fn receive(&self, face: FaceId, packet: impl Into<Packet>) -> Sent {
        self.receive_with(face, packet, LpHeaders::default())
    }

    pub(crate) fn receive_with(&self, face: FaceId, packet: impl Into<Packet>, headers: LpHeaders) -> Sent {
        let mut sent = Sent::new();
        let received = Received { packet: packet.into(), headers };
        self.fw.receive(face, received, self.now_ns, &mut sent);
        sent
    }

    pub(crate) fn nack(&self, face: FaceId, interest: impl Into<Packet>, reason: NackReason) -> Sent {
        let headers = LpHeaders { nack: Some(reason), ..LpHeaders::default() };
        self.receive_with(face, interest, headers)
    }

    pub(crate) fn expire(&self) -> Option<u64> {
        self.fw.expire(self.now_ns, &mut Sent::new())
    }

    pub(crate) fn advance_ms(&mut self, ms: u64) {
        self.now_ns += ms * MS;
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        self.fw.counters().dropped(reason)
    }

    pub(crate) fn drops(&self) -> u64 {
        self.fw.counters().drops.iter().sum()
    }
}

pub(crate) fn interest(uri: &str) -> InterestBuilder {
    InterestBuilder::new(name(uri)).nonce(nonce())
}

/// A Nonce that no test has used yet.
pub(crate) fn nonce() -> [u8; 4] {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes()
}

pub(crate) fn data(uri: &str) -> Packet {
    data_with(uri, 0, b"content")
}

pub(crate) fn data_with(uri: &str, freshness_ms: u64, content: &[u8]) -> Packet {
    let name = name(uri);
    let builder = DataBuilder::new(name.as_name()).freshness_ms(freshness_ms);
    builder.build(content, &SignatureInfo::digest_sha256()).finish(&[0; 32]).into()
}

/// The name `uri` with the implicit digest of `packet`.
pub(crate) fn full_name(uri: &str, packet: &[u8]) -> Name {
    let digest = test_digest(packet);
    name(uri).join(Component { typ: types::IMPLICIT_DIGEST_COMPONENT, value: &digest })
}

pub(crate) fn token(octets: &[u8]) -> LpHeaders {
    LpHeaders { pit_token: PitToken::new(octets), ..LpHeaders::default() }
}

pub(crate) fn token_of(sent: &Outgoing<Packet>) -> Option<Vec<u8>> {
    sent.headers.pit_token.map(|token| token.as_bytes().to_vec())
}

/// The egress faces of the sent packets, sorted; one element for each packet.
pub(crate) fn faces(sent: &Sent) -> Vec<FaceId> {
    let mut faces: Vec<FaceId> = sent.iter().map(|(face, _)| *face).collect();
    faces.sort();
    faces
}

pub(crate) fn is_nack(sent: &Outgoing<Packet>, reason: NackReason) -> bool {
    sent.headers.nack == Some(reason) && InterestView::parse(&sent.packet).is_ok()
}

pub(crate) fn route_to(face: FaceId) -> Route {
    Route { face_id: face.0, flags: route_flags::CHILD_INHERIT, ..Route::default() }
}

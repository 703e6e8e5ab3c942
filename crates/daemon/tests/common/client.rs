//! A client of the management protocol over a Unix socket, TCP or UDP. It uses the router's codecs
//! of packets and messages, and no other code of the router.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use namely_messages::{
    Block, Command, ControlParameters, ControlResponse, Counter, Dataset, EventRequest,
    FaceEventNotification, FaceStatus, RibEntry, Route, Scope, blocks,
};
use namely_security::{Signer, sign_interest};
use namely_wire::{
    DataBuilder, DataView, InterestBuilder, InterestView, LpFraming, LpHeaders, LpView, NackReason, Name,
    encode_lp_header, encode_lp_packet, tlv,
};

use super::PATIENCE;

/// Lifetime of the Interests of a client. On a busy machine an answer may take longer than the
/// default of 4 s.
const LIFETIME_MS: u64 = PATIENCE.as_millis() as u64;

/// A packet from the router.
#[derive(Debug, Clone)]
pub struct Packet {
    pub headers: LpHeaders,
    pub wire: Vec<u8>,
}

impl Packet {
    pub fn data(&self) -> DataView<'_> {
        DataView::parse(&self.wire).expect("a Data")
    }

    pub fn interest(&self) -> InterestView<'_> {
        InterestView::parse(&self.wire).expect("an Interest")
    }
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// One connection to a router.
pub struct Client {
    socket: Socket,
    buffer: Vec<u8>,
    last_time_ms: u64,
    pub signer: Signer,
    /// The scope of commands.
    pub scope: Scope,
}

impl Client {
    pub fn unix(path: &Path) -> Self {
        Self::over(Socket::Unix(UnixStream::connect(path).expect("the router's socket")))
    }

    pub fn tcp(address: SocketAddr) -> Self {
        Self::over(Socket::Tcp(TcpStream::connect(address).expect("the router's port")))
    }

    pub fn udp(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.connect(address).expect("loopback");
        Self::udp_from(socket)
    }

    /// Connects over UDP by a socket that is already connected to the router.
    pub fn udp_from(socket: UdpSocket) -> Self {
        Self::over(Socket::Udp(socket))
    }

    fn over(socket: Socket) -> Self {
        let signer = Signer::digest_sha256();
        Client { socket, buffer: Vec::new(), last_time_ms: 0, signer, scope: Scope::Localhost }
    }

    pub fn send(&mut self, wire: &[u8]) {
        match &mut self.socket {
            Socket::Unix(stream) => stream.write_all(wire).expect("connected"),
            Socket::Tcp(stream) => stream.write_all(wire).expect("connected"),
            Socket::Udp(socket) => {
                socket.send(wire).expect("loopback");
            }
        }
    }

    /// Returns the next packet; `None` if none arrives within `wait`.
    pub fn receive(&mut self, wait: Duration) -> Option<Packet> {
        loop {
            if let Some(packet) = self.cut() {
                let view = LpView::parse(&packet).expect("a link packet");
                match view.fragment {
                    Some(fragment) => return Some(Packet { headers: view.headers, wire: fragment.to_vec() }),
                    None => continue,
                }
            }
            let mut chunk = [0; 65536];
            let read = match &mut self.socket {
                Socket::Unix(stream) => {
                    stream.set_read_timeout(Some(wait)).expect("a timeout");
                    namely_testkit::uninterrupted(|| stream.read(&mut chunk))
                }
                Socket::Tcp(stream) => {
                    stream.set_read_timeout(Some(wait)).expect("a timeout");
                    namely_testkit::uninterrupted(|| stream.read(&mut chunk))
                }
                Socket::Udp(socket) => {
                    socket.set_read_timeout(Some(wait)).expect("a timeout");
                    namely_testkit::uninterrupted(|| socket.recv(&mut chunk))
                }
            };
            match read {
                Ok(octets) if octets > 0 => self.buffer.extend_from_slice(&chunk[..octets]),
                _ => return None,
            }
        }
    }

    fn cut(&mut self) -> Option<Vec<u8>> {
        let (_, length, header) = tlv::read_header(&self.buffer).ok()?;
        let end = header + length;
        (self.buffer.len() >= end).then(|| self.buffer.drain(..end).collect())
    }

    /// Sends an Interest. Returns the Data that answers it, or the reason of a Nack; `None` if
    /// neither arrives within `wait`.
    pub fn express(&mut self, interest: &[u8], wait: Duration) -> Option<Result<Packet, NackReason>> {
        self.send(interest);
        loop {
            let packet = self.receive(wait)?;
            match packet.headers.nack {
                Some(reason) => return Some(Err(reason)),
                // The router's question to an address that has not proven itself.
                None if InterestView::parse(&packet.wire).is_ok() => {}
                None => return Some(Ok(packet)),
            }
        }
    }

    pub fn fetch(&mut self, interest: InterestBuilder) -> Packet {
        let interest = interest.nonce(self.next_nonce()).build();
        self.express(&interest, PATIENCE).expect("an answer").expect("no Nack")
    }

    /// Sends an Interest without waiting for the answer.
    pub fn ask(&mut self, uri: &str) {
        let interest = self.interest(uri);
        self.send(&interest);
    }

    /// Returns the octets of an Interest with a new Nonce.
    pub fn interest(&mut self, uri: &str) -> Vec<u8> {
        InterestBuilder::new(name(uri)).nonce(self.next_nonce()).lifetime_ms(LIFETIME_MS).build()
    }

    pub fn next_nonce(&mut self) -> [u8; 4] {
        // Shared by all clients of a test: two Interests for one name must not have the same Nonce.
        static NONCE: AtomicU32 = AtomicU32::new(0);
        NONCE.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9).to_be_bytes()
    }

    /// Returns the octets of a signed command.
    pub fn command_interest(&mut self, name: Name, parameters: &[u8]) -> Vec<u8> {
        let builder = InterestBuilder::new(name).must_be_fresh().lifetime_ms(LIFETIME_MS);
        let builder = builder.nonce(self.next_nonce());
        self.last_time_ms = unix_ms().max(self.last_time_ms + 1);
        sign_interest(&builder, parameters, &self.signer, self.last_time_ms).expect("a key")
    }

    /// Sends a command and waits for the response.
    pub fn command(&mut self, command: Command, parameters: &ControlParameters) -> ControlResponse {
        let name = command.name(self.scope, parameters);
        let interest = self.command_interest(name, b"");
        self.respond_to(&interest)
    }

    /// Sends a command's octets and waits for the response.
    pub fn respond_to(&mut self, interest: &[u8]) -> ControlResponse {
        let packet = self.express(interest, PATIENCE).expect("a response").expect("no Nack");
        let data = packet.data();
        assert_eq!(data.name, InterestView::parse(interest).expect("an Interest").name);
        ControlResponse::decode(data.content).expect("a ControlResponse")
    }

    /// Sends a command that must succeed. Returns the parameters of the response.
    pub fn ok(&mut self, command: Command, parameters: &ControlParameters) -> ControlParameters {
        let response = self.command(command, parameters);
        assert_eq!((response.code, response.text.as_str()), (200, "OK"), "{command}");
        response.parameters().expect("well formed").expect("a body")
    }

    pub fn register(&mut self, prefix: &str) -> ControlParameters {
        self.ok(Command::RibRegister, &named(prefix))
    }

    /// Returns a counter of the whole router; 0 if the router does not list it.
    pub fn counter(&mut self, label: &str) -> u64 {
        let content = self.dataset(Dataset::StatusCounters);
        let mut counters = blocks::<Counter>(&content).map(|counter| counter.expect("a counter"));
        counters.find(|c| c.label == label && c.face_id.is_none()).map_or(0, |c| c.value)
    }

    /// Reads a whole dataset.
    pub fn dataset_named(&mut self, prefix: Name) -> Vec<u8> {
        let first = InterestBuilder::new(prefix.clone()).can_be_prefix().must_be_fresh();
        let first = self.fetch(first.lifetime_ms(LIFETIME_MS));
        let data = first.data();
        let versioned = data.name.without_last(1).to_name();
        assert_eq!(versioned.as_name().without_last(1), prefix.as_name());
        let last = tlv::decode_nni(data.final_block_id.expect("FinalBlockId").value).expect("a number");
        let mut content = data.content.to_vec();
        for segment in 1..=last {
            let next = InterestBuilder::new(versioned.join_segment(segment));
            let packet = self.fetch(next.lifetime_ms(LIFETIME_MS));
            content.extend_from_slice(packet.data().content);
        }
        content
    }

    pub fn dataset(&mut self, dataset: Dataset) -> Vec<u8> {
        self.dataset_named(dataset.prefix(Scope::Localhost))
    }

    pub fn faces(&mut self) -> Vec<FaceStatus> {
        blocks(&self.dataset(Dataset::FacesList)).collect::<Result<_, _>>().expect("faces")
    }

    /// Returns the routes of a prefix.
    pub fn routes(&mut self, prefix: &str) -> Vec<Route> {
        let entries = self.dataset(Dataset::RibList);
        let entries: Vec<RibEntry> = blocks(&entries).collect::<Result<_, _>>().expect("routes");
        entries.into_iter().find(|entry| entry.prefix == name(prefix)).map(|e| e.routes).unwrap_or_default()
    }

    /// Returns the FaceId of this connection.
    pub fn own_face(&mut self) -> u64 {
        let parameters = ControlParameters::default();
        self.ok(Command::FacesUpdate, &parameters).face_id.expect("FaceId")
    }

    /// Returns the FaceId of a TCP connection that may send no commands. It searches the list of
    /// faces for the address of this end.
    pub fn own_face_by_list(&mut self) -> u64 {
        let Socket::Tcp(stream) = &self.socket else { panic!("not a TCP connection") };
        let uri = format!("tcp4://{}", stream.local_addr().expect("connected"));
        self.faces().iter().find(|face| face.uri == uri).expect("the own face").face_id
    }

    /// Requests a face event. Returns its number and its content.
    pub fn face_event(&mut self, seq_num: Option<u64>) -> (u64, FaceEventNotification) {
        let interest = match seq_num {
            None => InterestBuilder::new(EventRequest::prefix(Scope::Localhost)).can_be_prefix(),
            Some(seq) => InterestBuilder::new(EventRequest::name(Scope::Localhost, seq)),
        };
        read_event(&self.fetch(interest.must_be_fresh().lifetime_ms(60_000)))
    }

    /// Answers the next Interest with Data of its name.
    pub fn serve_one(&mut self, content: &[u8]) -> Name {
        self.serve_one_after(Duration::ZERO, content)
    }

    /// Answers the next Interest with Data of its name, `wait` after the Interest has arrived.
    pub fn serve_one_after(&mut self, wait: Duration, content: &[u8]) -> Name {
        let packet = self.receive(PATIENCE).expect("an Interest");
        std::thread::sleep(wait);
        self.answer(&packet, content)
    }

    /// Answers an Interest that arrives within `wait`; false if none arrives.
    pub fn answer_one(&mut self, wait: Duration, content: &[u8]) -> bool {
        self.receive(wait).map(|packet| self.answer(&packet, content)).is_some()
    }

    fn answer(&mut self, packet: &Packet, content: &[u8]) -> Name {
        let name = packet.interest().name.to_name();
        let data = namely_security::sign_data(
            &DataBuilder::new(name.as_name()).freshness_ms(1000),
            content,
            &Signer::digest_sha256(),
        )
        .expect("a digest");
        let headers = LpHeaders { pit_token: packet.headers.pit_token, ..LpHeaders::default() };
        self.send(&encode_lp_packet(&headers, &data));
        name
    }

    /// Answers the next Interest with Data that carries a PrefixAnnouncement.
    pub fn serve_one_announced(&mut self, content: &[u8], announcement: &[u8]) {
        let packet = self.receive(PATIENCE).expect("an Interest");
        let interest = packet.interest();
        let data = DataBuilder::new(interest.name).freshness_ms(1000);
        let data = namely_security::sign_data(&data, content, &Signer::digest_sha256()).expect("a digest");
        let headers = LpHeaders { pit_token: packet.headers.pit_token, ..LpHeaders::default() };
        let mut wire = Vec::new();
        let framing = LpFraming::default();
        encode_lp_header(&headers, &framing, Some(announcement), Some(data.len()), &mut wire);
        self.send(&[wire, data].concat());
    }

    /// Returns false if the router sends octets, and over UDP. Returns true if it closes the
    /// connection, or is silent for [`PATIENCE`].
    pub fn is_closed(&mut self) -> bool {
        let mut chunk = [0; 64];
        match &mut self.socket {
            Socket::Unix(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                matches!(namely_testkit::uninterrupted(|| stream.read(&mut chunk)), Ok(0) | Err(_))
            }
            Socket::Tcp(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                matches!(namely_testkit::uninterrupted(|| stream.read(&mut chunk)), Ok(0) | Err(_))
            }
            Socket::Udp(_) => false,
        }
    }
}

pub fn read_event(packet: &Packet) -> (u64, FaceEventNotification) {
    let data = packet.data();
    let seq = data.name.last().and_then(|c| c.number(namely_wire::types::SEQUENCE_NUM_COMPONENT));
    (seq.expect("a number"), FaceEventNotification::decode(data.content).expect("an event"))
}

pub fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

/// Returns command parameters with a name.
pub fn named(prefix: &str) -> ControlParameters {
    ControlParameters { name: Some(name(prefix)), ..Default::default() }
}

pub fn unix_ms() -> u64 {
    namely_host::clock::unix_ms()
}

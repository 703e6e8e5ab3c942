//! WebSocket faces of a real `namelyd`: for browser applications, and never local.

use crate::common;

use std::net::TcpStream;
use std::time::Duration;

use common::{Daemon, PATIENCE};
use namely_messages::{Block, ChannelStatus, Command, Dataset, FacePersistency, FaceScope, Scope, blocks};
use namely_security::Signer;
use namely_testkit::name;
use namely_wire::{DataBuilder, InterestBuilder, LpView, NackReason};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::header::ORIGIN;
use tungstenite::{Message, WebSocket};

struct Page(WebSocket<TcpStream>);

impl Page {
    /// A page that its browser opens.
    fn open(daemon: &Daemon) -> Self {
        Self::connect(daemon, Some("http://127.0.0.1:9696"))
    }

    /// A program that is no browser names no page.
    fn connect(daemon: &Daemon, origin: Option<&str>) -> Self {
        let uri = daemon.listening().iter().find(|uri| uri.scheme() == "ws").expect("a listener");
        let stream = TcpStream::connect(uri.address().expect("an address")).expect("the router's port");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut request = format!("{uri}/any/path").into_client_request().expect("a URI");
        let origin = origin.map(|origin| origin.parse().expect("a header"));
        request.headers_mut().extend(origin.map(|origin| (ORIGIN, origin)));
        let (socket, _) = tungstenite::client(request, stream).expect("a handshake");
        Page(socket)
    }

    fn send(&mut self, packet: &[u8]) {
        self.0.send(Message::binary(packet.to_vec())).expect("connected");
    }

    fn receive(&mut self) -> Vec<u8> {
        match self.0.read().expect("a message") {
            Message::Binary(octets) => octets.to_vec(),
            other => panic!("{other:?} instead of a packet"),
        }
    }

    /// Returns true if nothing arrives for some time.
    fn receives_nothing(&mut self) -> bool {
        self.0.get_ref().set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        self.0.read().is_err()
    }
}

fn daemon() -> Daemon {
    Daemon::start_with("", &["--listen", "ws://127.0.0.1:0"])
}

fn interest(uri: &str) -> Vec<u8> {
    InterestBuilder::new(name(uri)).nonce([1, 2, 3, 4]).lifetime_ms(60_000).build()
}

#[test]
fn web_pages_fetch_application_data() {
    let daemon = daemon();
    let mut application = daemon.connect();
    application.register("/app");
    let mut page = Page::open(&daemon);
    page.send(&interest("/app/x"));
    assert_eq!(application.serve_one(&[7; 8000]), name("/app/x"));
    let answer = page.receive();
    let requested = name("/app/x");
    let data = DataBuilder::new(requested.as_name()).freshness_ms(1000);
    let data = namely_security::sign_data(&data, &[7; 8000], &Signer::digest_sha256()).expect("a digest");
    assert_eq!(LpView::parse(&answer).expect("a link packet").fragment, Some(&data[..]));
    page.send(&interest("/nowhere"));
    let refused = page.receive();
    let view = LpView::parse(&refused).expect("a link packet");
    assert_eq!(view.headers.nack, Some(NackReason::NoRoute));
}

#[test]
fn a_websocket_face_is_on_demand() {
    let daemon = daemon();
    let page = Page::open(&daemon);
    let near = page.0.get_ref().local_addr().expect("connected");
    let mut client = daemon.connect();
    let face = namely_testkit::until("the face", || {
        client.faces().into_iter().find(|face| face.uri == format!("wsclient://{near}"))
    });
    let local = daemon.listening().iter().find(|uri| uri.scheme() == "ws").expect("a listener");
    assert_eq!(face.local_uri, local.to_string());
    assert_eq!((face.face_scope, face.face_persistency), (FaceScope::NonLocal, FacePersistency::OnDemand));
    let channels = client.dataset(Dataset::FacesChannels);
    let uris: Vec<String> = blocks::<ChannelStatus>(&channels).flatten().map(|c| c.local_uri).collect();
    assert!(uris.contains(&local.to_string()), "{uris:?}");
    drop(page);
    namely_testkit::until("the face's end", || {
        client.faces().iter().all(|f| f.face_id != face.face_id).then_some(())
    });
}

#[test]
fn a_page_reaches_no_management() {
    let daemon = daemon();
    let mut page = Page::open(&daemon);
    page.send(&interest("/localhost/nfd/status/general"));
    assert!(page.receives_nothing(), "`/localhost` is not for the network");
    let mut page = Page::open(&daemon);
    let command = Command::RibRegister.name(Scope::Localhop, &common::client::named("/mine"));
    let mut signing = daemon.connect();
    let command = signing.command_interest(command, b"");
    page.send(&command);
    let _ = page.receives_nothing();
    assert!(signing.routes("/mine").is_empty());
}

#[test]
fn a_page_needs_a_key_to_register() {
    let daemon = daemon();
    let mut signing = daemon.connect();
    let mut command = |prefix| {
        let command = Command::RibRegister.name(Scope::Localhost, &common::client::named(prefix));
        signing.command_interest(command, b"")
    };
    let (ours, theirs) = (command("/program"), command("/page"));
    let mut page = Page::open(&daemon);
    page.send(&theirs);
    let mut program = Page::connect(&daemon, None);
    program.send(&ours);
    let answer = program.receive();
    let data = LpView::parse(&answer).expect("a link packet").fragment.expect("a packet").to_vec();
    let data = namely_wire::DataView::parse(&data).expect("an answer").content.to_vec();
    assert_eq!(namely_messages::ControlResponse::decode(&data).expect("a response").code, 200);
    assert_eq!(signing.routes("/program").len(), 1);
    assert!(page.receives_nothing() && signing.routes("/page").is_empty());
}

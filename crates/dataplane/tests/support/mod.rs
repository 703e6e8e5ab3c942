//! A running data plane, and applications that talk to it through plain sockets.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namely_dataplane::{ControlEvent, Core, DataPlane, DataPlaneOptions, Inbox, InboxError, ListenSpec};
use namely_forwarder::{Config, FaceId};
use namely_link::stream::packet_octets;
use namely_messages::{FaceEventKind, FaceEventNotification, FacePersistency, FaceStatus};
use namely_mgmt::{FaceSettings, FaceSpec, Faces};
use namely_wire::{
    DataBuilder, FaceUri, InterestBuilder, InterestView, LpHeaders, LpView, Name, PitToken, SignatureInfo,
    encode_lp_packet,
};

/// The longest that a test waits for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Router {
    pub(crate) plane: DataPlane,
    pub(crate) inbox: Inbox,
    pub(crate) core: Arc<Core>,
    directory: tempfile::TempDir,
}

impl Router {
    pub(crate) fn start() -> Self {
        Self::start_with(DataPlaneOptions::default())
    }

    pub(crate) fn start_with(options: DataPlaneOptions) -> Self {
        Self::start_with_config(options, Config::new(|_| [0; 32]))
    }

    pub(crate) fn start_with_config(options: DataPlaneOptions, config: Config) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), options, config)
    }

    /// A router whose socket is `r.sock` in a directory.
    pub(crate) fn start_in(directory: tempfile::TempDir, options: DataPlaneOptions, config: Config) -> Self {
        let core = Arc::new(Core::new(config, 1).unwrap());
        let (plane, inbox) = DataPlane::start(options, core.clone()).unwrap();
        let router = Router { plane, inbox, core, directory };
        router.plane.listen(ListenSpec::Unix { path: router.path(), mode: 0o666 }).unwrap();
        router
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("r.sock")
    }

    /// An application, and its face.
    pub(crate) fn connect(&self) -> (App, FaceId) {
        let app = App::new(UnixStream::connect(self.path()).unwrap());
        (app, self.event_face(FaceEventKind::Created))
    }

    /// The next event of the control thread within `wait`, except the wakeup to allocate the
    /// tables' next memory.
    pub(crate) fn next(&self, wait: Duration) -> Result<ControlEvent, InboxError> {
        let end = Instant::now() + wait;
        loop {
            match self.inbox.next(end.saturating_duration_since(Instant::now())) {
                Ok(ControlEvent::Woken) => {}
                other => return other,
            }
        }
    }

    /// The next face event, which must be of this kind.
    pub(crate) fn event(&self, kind: FaceEventKind) -> FaceEventNotification {
        match self.next(PATIENCE) {
            Ok(ControlEvent::Face(event)) if event.kind == kind => *event,
            other => panic!("{other:?} instead of {kind:?}"),
        }
    }

    /// The face of the next event, which must be of this kind.
    pub(crate) fn event_face(&self, kind: FaceEventKind) -> FaceId {
        FaceId(self.event(kind).face_id)
    }

    /// A face to a URI.
    pub(crate) fn face_to(&self, remote: &str, persistency: FacePersistency) -> FaceId {
        FaceId(self.plane.create_face(spec(remote, persistency)).unwrap().face_id)
    }

    /// Packets that a face has dropped for one reason.
    pub(crate) fn dropped(&self, face: FaceId, label: &str) -> u64 {
        self.plane.port_status(face).unwrap().counters.drops.of(label)
    }

    /// A face's status as management lists it.
    pub(crate) fn status(&self, face: FaceId) -> FaceStatus {
        self.plane.face(face).unwrap()
    }

    pub(crate) fn route(&self, prefix: &str, face: FaceId) {
        self.core.fib().add_nexthop(name(prefix).as_name(), face, 0).unwrap();
    }

    pub(crate) fn listen_udp(&self) -> std::net::SocketAddr {
        let uri = self.plane.listen(ListenSpec::Udp(([127, 0, 0, 1], 0).into())).unwrap();
        uri.address().unwrap()
    }

    pub(crate) fn listen_tcp(&self) -> std::net::SocketAddr {
        let uri = self.plane.listen(ListenSpec::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
        uri.address().unwrap()
    }
}

/// A face to a URI with the router's settings.
pub(crate) fn spec(remote: &str, persistency: FacePersistency) -> FaceSpec {
    let settings = FaceSettings { persistency: Some(persistency), ..FaceSettings::default() };
    FaceSpec { remote: uri(remote), local: None, settings }
}

/// A stream to the router that speaks link packets.
pub(crate) struct App<S = UnixStream> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
}

impl<S: Read + Write> App<S> {
    pub(crate) fn new(stream: S) -> Self {
        App { stream, buffer: Vec::new() }
    }

    pub(crate) fn send(&mut self, octets: &[u8]) {
        self.stream.write_all(octets).unwrap();
    }

    /// The next link packet.
    pub(crate) fn receive(&mut self) -> Vec<u8> {
        self.try_receive().expect("the router closed the connection")
    }

    /// The next link packet; none if the connection ends.
    pub(crate) fn try_receive(&mut self) -> Option<Vec<u8>> {
        let start = Instant::now();
        loop {
            if let Some(octets) = packet_octets(&self.buffer).unwrap() {
                return Some(self.buffer.drain(..octets).collect());
            }
            let mut chunk = [0; 65536];
            let length = self.stream.read(&mut chunk).ok().filter(|length| *length > 0)?;
            assert!(start.elapsed() < PATIENCE, "nothing came");
            self.buffer.extend_from_slice(&chunk[..length]);
        }
    }

    /// The next link packet's headers and network packet.
    pub(crate) fn receive_parts(&mut self) -> (LpHeaders, Vec<u8>) {
        let wire = self.receive();
        let view = LpView::parse(&wire).unwrap();
        (view.headers, view.fragment.unwrap().to_vec())
    }
}

pub(crate) fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// Lifetime of Interests whose answers may take longer than the default of 4 s, on a busy machine.
pub(crate) const LIFETIME_MS: u64 = 60_000;

pub(crate) fn interest(uri: &str) -> Vec<u8> {
    InterestBuilder::new(name(uri)).nonce([1, 2, 3, 4]).lifetime_ms(LIFETIME_MS).build()
}

pub(crate) fn data(uri: &str, content: usize) -> Vec<u8> {
    let content = vec![7; content];
    let data = DataBuilder::new(name(uri).as_name()).build(&content, &SignatureInfo::digest_sha256());
    data.finish(&[0; 32])
}

/// A Data of exactly `octets` octets.
pub(crate) fn data_of(uri: &str, octets: usize) -> Vec<u8> {
    let empty = data(uri, 1000).len() - 1000;
    let made = data(uri, octets - empty);
    assert_eq!(made.len(), octets);
    made
}

pub(crate) fn with_token(packet: &[u8], token: &[u8]) -> Vec<u8> {
    let headers = LpHeaders { pit_token: PitToken::new(token), ..LpHeaders::default() };
    encode_lp_packet(&headers, packet)
}

pub(crate) fn uri(text: &str) -> FaceUri {
    text.parse().unwrap()
}

/// Answers every Interest until the connection ends.
pub(crate) fn produce(mut producer: App) {
    loop {
        let Some(packet) = producer.try_receive() else { return };
        let view = LpView::parse(&packet).unwrap();
        let Ok(interest) = InterestView::parse(view.fragment.unwrap()) else { continue };
        let name = interest.name.to_string();
        if producer.stream.write_all(&data(&name, 1000)).is_err() {
            return;
        }
    }
}

/// Interests that a face keeps sending until it is dropped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(router: &Router) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut flooding = router.connect().0;
        let mut draining = flooding.stream.try_clone().unwrap();
        let drain =
            std::thread::spawn(move || while matches!(draining.read(&mut [0; 65536]), Ok(n) if n > 0) {});
        let stopped = stop.clone();
        let flood = std::thread::spawn(move || {
            for n in 0u32.. {
                let name = name(&format!("/a/{n}"));
                let packet = InterestBuilder::new(name).nonce(n.to_be_bytes()).build();
                if stopped.load(Ordering::Relaxed) || flooding.stream.write_all(&packet).is_err() {
                    let _ = flooding.stream.shutdown(std::net::Shutdown::Both);
                    return;
                }
            }
        });
        Load { stop, threads: vec![flood, drain] }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The panic of a failed thread was printed.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

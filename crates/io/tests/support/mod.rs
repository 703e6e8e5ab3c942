//! A running event loop that reports its events to the test and executes the test's commands.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod namespace;

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use namely_io::{
    Buffer, CloseReason, DispatchedLinks, EventLoop, FaceSender, FaceSnapshot, FaceTag, Faces, Handler,
    IoOptions, OpenError, SendError, Workers, Xdp,
};
use namely_link::Outbound;
use namely_testkit::{Need, eventually, skip};
use namely_wire::tlv::Writer;
use namely_wire::{LpFraming, LpHeaders, encode_lp_header};

pub(crate) type Io = Faces<Recorder>;
pub(crate) type Egress = FaceSender<Packet>;
pub(crate) type Command = Box<dyn FnOnce(&mut Io) -> ControlFlow<()> + Send>;

/// Maximum time that a test waits for a required event.
pub(crate) const PATIENCE: Duration = namely_testkit::PATIENCE;

#[derive(Clone, Debug)]
pub(crate) struct Packet(Arc<[u8]>);

impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Buffer for Packet {
    fn filled(octets: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        let mut packet = vec![0; octets];
        fill(&mut packet);
        Packet(packet.into())
    }

    fn into_part(self, part: Range<usize>) -> Self {
        Packet(self.0[part].into())
    }
}

#[derive(Debug)]
pub(crate) enum Seen {
    /// A network packet, bare.
    Frame(FaceTag, Vec<u8>),
    Event(Event),
}

/// An event of a face.
#[derive(Debug)]
pub(crate) enum Event {
    Accepted(FaceTag),
    Up(FaceTag),
    Down(FaceTag, CloseReason),
    Closed { face: FaceTag, reason: CloseReason, status: Box<FaceSnapshot> },
}

/// The faces of all loops of this process.
static PORTS: Mutex<BTreeMap<FaceTag, Weak<Egress>>> = Mutex::new(BTreeMap::new());

/// Gives a face a tag, as the owner of a port does.
fn tagged(port: &Arc<Egress>) -> FaceTag {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let tag = FaceTag(NEXT.fetch_add(1, Ordering::Relaxed));
    PORTS.lock().unwrap().insert(tag, Arc::downgrade(port));
    port.set_tag(tag);
    tag
}

/// The port of a face that is not closed.
pub(crate) fn port(face: FaceTag) -> Option<Arc<Egress>> {
    let port = PORTS.lock().unwrap().get(&face).and_then(Weak::upgrade);
    port.filter(|port| !port.is_closed())
}

/// Returns the number of open faces with this local end.
pub(crate) fn open_ports(local: std::net::SocketAddr) -> usize {
    all_open().iter().filter(|port| port.status().local.address() == Some(local)).count()
}

/// The ports of all loops of this process that are open.
fn all_open() -> Vec<Arc<Egress>> {
    let ports: Vec<_> = PORTS.lock().unwrap().values().filter_map(Weak::upgrade).collect();
    ports.into_iter().filter(|port| !port.is_closed()).collect()
}

/// Returns true if there is a face to this far end.
pub(crate) fn open_to(remote: std::net::SocketAddr) -> bool {
    all_open().iter().any(|port| port.status().remote.address() == Some(remote))
}

/// Returns the number of packets that the face to this far end dropped for the reason `label`.
pub(crate) fn drops_to(remote: std::net::SocketAddr, label: &'static str) -> u64 {
    let of_face = |status: FaceSnapshot| (status.remote.address() == Some(remote)).then_some(status);
    all_open()
        .iter()
        .filter_map(|port| of_face(port.status()))
        .map(|status| status.counters.drops.of(label))
        .sum()
}

pub(crate) struct Recorder {
    seen: Sender<Seen>,
    echo: bool,
}

impl Handler for Recorder {
    type Packet = Packet;
    type Command = Command;

    fn packet(&mut self, io: &mut Io, face: FaceTag, headers: LpHeaders, packet: Packet) {
        let unmarked = LpHeaders { congestion_mark: None, nack: None, ..headers };
        assert!(unmarked.is_empty(), "{headers:?}");
        let octets = packet.as_ref().to_vec();
        if self.echo {
            // A packet without room is counted.
            let _ = push(io, face, packet);
        }
        let _ = self.seen.send(Seen::Frame(face, octets));
    }

    fn event(&mut self, _: &mut Io, event: namely_io::Event<Packet>) {
        let tag = |port: Arc<Egress>| port.tag().unwrap();
        let _ = self.seen.send(Seen::Event(match event {
            namely_io::Event::Accepted(port) => Event::Accepted(tagged(&port)),
            namely_io::Event::Up(port) => Event::Up(tag(port)),
            namely_io::Event::Down(port, reason) => Event::Down(tag(port), reason),
            namely_io::Event::Closed { port, reason, status } => {
                Event::Closed { face: tag(port), reason, status }
            }
        }));
    }

    fn command(&mut self, io: &mut Io, command: Command) -> ControlFlow<()> {
        command(io)
    }

    fn tick(&mut self, _: &mut Io) -> Option<u64> {
        None
    }
}

pub(crate) struct Loop {
    workers: Arc<Workers<Recorder>>,
    index: usize,
    seen: Receiver<Seen>,
    thread: Option<JoinHandle<()>>,
}

impl Loop {
    pub(crate) fn start(options: IoOptions) -> Self {
        Self::start_with(options, false)
    }

    /// A loop that sends every packet back.
    pub(crate) fn echo(options: IoOptions) -> Self {
        Self::start_with(options, true)
    }

    fn start_with(options: IoOptions, echo: bool) -> Self {
        Self::run_all(options, DispatchedLinks::default(), 1, echo).pop().unwrap()
    }

    /// The loops of several workers. They end in any order.
    pub(crate) fn workers(options: IoOptions, workers: usize) -> Vec<Self> {
        Self::workers_with(options, DispatchedLinks::default(), workers)
    }

    pub(crate) fn workers_with(options: IoOptions, dispatched: DispatchedLinks, workers: usize) -> Vec<Self> {
        Self::run_all(options, dispatched, workers, false)
    }

    fn run_all(options: IoOptions, dispatched: DispatchedLinks, workers: usize, echo: bool) -> Vec<Self> {
        let (workers, loops) = Workers::new(options, dispatched, workers).unwrap();
        let workers = Arc::new(workers);
        let run = |(index, event_loop)| Self::run(workers.clone(), index, event_loop, echo);
        loops.into_iter().enumerate().map(run).collect()
    }

    fn run(
        workers: Arc<Workers<Recorder>>,
        index: usize,
        mut event_loop: EventLoop<Recorder>,
        echo: bool,
    ) -> Self {
        let (seen_sender, seen) = channel();
        let thread = std::thread::spawn(move || {
            let mut recorder = Recorder { seen: seen_sender, echo };
            event_loop.run(&mut recorder).unwrap();
        });
        Loop { workers, index, seen, thread: Some(thread) }
    }

    /// Runs `command` on the loop's thread and returns what it returns.
    pub(crate) fn with<T: Send + 'static>(&self, command: impl FnOnce(&mut Io) -> T + Send + 'static) -> T {
        let (answer, answered) = channel();
        let command = move |io: &mut Io| {
            let _ = answer.send(command(io));
            ControlFlow::Continue(())
        };
        assert!(self.workers.send(self.index, Box::new(command)));
        answered.recv_timeout(PATIENCE).unwrap()
    }

    /// Has `command` run on the loop's thread, and does not wait for it.
    pub(crate) fn post(&self, command: impl FnOnce(&mut Io) + Send + 'static) {
        let command = move |io: &mut Io| {
            command(io);
            ControlFlow::Continue(())
        };
        assert!(self.workers.send(self.index, Box::new(command)));
    }

    /// Opens a face.
    pub(crate) fn open(
        &self,
        open: impl FnOnce(&mut Io) -> Result<Arc<Egress>, OpenError> + Send + 'static,
    ) -> Result<FaceTag, OpenError> {
        self.with(move |io| open(io).map(|port| tagged(&port)))
    }

    /// Closes a face.
    pub(crate) fn close(&self, face: FaceTag) {
        self.with(move |io| io.close(&port(face).unwrap()));
    }

    /// Makes the faces check their sockets, as a change of this machine's addresses does.
    pub(crate) fn addresses_changed(&self) {
        let (seen, _) = channel();
        self.with(move |io| io.addresses_changed(&mut Recorder { seen, echo: false }));
    }

    /// Blocks the loop until the returned value is dropped.
    pub(crate) fn hold(&self) -> Sender<()> {
        let ((hold, held), (begun, has_begun)) = (channel(), channel());
        let command = move |_: &mut Io| {
            let _ = begun.send(());
            let _ = held.recv();
            ControlFlow::Continue(())
        };
        assert!(self.workers.send(self.index, Box::new(command)));
        has_begun.recv_timeout(PATIENCE).unwrap();
        hold
    }

    pub(crate) fn status(&self, id: FaceTag) -> Option<FaceSnapshot> {
        self.with(move |_| port(id).map(|port| port.status()))
    }

    pub(crate) fn drops(&self, id: FaceTag, label: &'static str) -> u64 {
        self.status(id).map_or(0, |status| status.counters.drops.of(label))
    }

    pub(crate) fn listener_drops(&self, label: &'static str) -> u64 {
        self.with(move |io| io.listeners().map(|(_, drops)| drops.of(label)).sum())
    }

    pub(crate) fn send(&self, id: FaceTag, octets: &[u8]) {
        let frame = frame(octets);
        self.with(move |io| push(io, id, frame)).unwrap();
    }

    pub(crate) fn next(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).expect("something must happen")
    }

    pub(crate) fn next_frame(&self) -> (FaceTag, Vec<u8>) {
        match self.next() {
            Seen::Frame(id, octets) => (id, octets),
            other => panic!("{other:?} instead of a frame"),
        }
    }

    pub(crate) fn next_event(&self) -> Event {
        match self.next() {
            Seen::Event(event) => event,
            other => panic!("{other:?} instead of an event"),
        }
    }

    pub(crate) fn accepted(&self) -> FaceTag {
        match self.next_event() {
            Event::Accepted(face) => face,
            other => panic!("{other:?} instead of a new face"),
        }
    }

    pub(crate) fn closed(&self, expected: FaceTag) -> (CloseReason, FaceSnapshot) {
        match self.next_event() {
            Event::Closed { face, reason, status } if face == expected => (reason, *status),
            other => panic!("{other:?} instead of the end of {expected:?}"),
        }
    }

    /// The packets seen so far, whichever worker reads their faces. Events are passed over.
    pub(crate) fn frames_seen(&self) -> Vec<Vec<u8>> {
        let frame = |seen| match seen {
            Seen::Frame(_, octets) => Some(octets),
            Seen::Event(_) => None,
        };
        self.seen.try_iter().filter_map(frame).collect()
    }

    /// Returns true if nothing has been seen.
    pub(crate) fn is_quiet_for(&self, wait: Duration) -> bool {
        self.seen.recv_timeout(wait).is_err()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.workers.send(self.index, Box::new(|_| ControlFlow::Break(())));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends a packet on a face. The link service of a face that has none yet sends it bare.
pub(crate) fn push(io: &mut Io, face: FaceTag, packet: Packet) -> Result<(), SendError> {
    let port = port(face).ok_or(SendError::Gone)?;
    io.send(&port, outbound(packet))
}

pub(crate) fn outbound(packet: Packet) -> Outbound<Packet> {
    Outbound { headers: LpHeaders::default(), packet, hop_limit: None }
}

/// A packet of exactly these octets.
pub(crate) fn frame(octets: &[u8]) -> Packet {
    Packet::copied(octets)
}

/// One of `count` fragments of a packet.
pub(crate) fn fragment(sequence: u64, index: u64, count: u64, octets: &[u8]) -> Vec<u8> {
    let framing =
        LpFraming { sequence: Some(sequence), frag_index: index, frag_count: count, ..LpFraming::default() };
    let mut frame = Vec::new();
    encode_lp_header(&LpHeaders::default(), &framing, None, Some(octets.len()), &mut frame);
    frame.extend_from_slice(octets);
    frame
}

/// A TLV of TYPE 6 with `octets` octets of VALUE.
pub(crate) fn packet(octets: usize, fill: u8) -> Vec<u8> {
    let mut w = Writer::new();
    w.tlv(6, &vec![fill; octets]);
    w.into_vec()
}

/// Runs `work` as the user `uid` if this process is root, otherwise as its own user.
pub(crate) fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    if !rustix::process::geteuid().is_root() {
        return work();
    }
    let work = || {
        let uid = rustix::process::Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Returns false and prints the reason if this process cannot act as several users.
pub(crate) fn has_users() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip(Need::Root, "being several users needs root");
    }
    is_root
}

/// Permits any user to access the files in a directory.
pub(crate) fn open_to_all(directory: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the options of a loop that reads devices as `xdp` determines.
pub(crate) fn reading(xdp: Xdp) -> IoOptions {
    let mut options = IoOptions::default();
    options.ethernet.xdp = xdp;
    options
}

/// Waits until no XDP program is attached to a device. A process that another test forks meanwhile
/// holds a copy of the XDP program's descriptor until it calls exec. The XDP program stays attached
/// until then.
#[allow(dead_code, reason = "some files use it")]
pub(crate) fn until_xdp_has_gone(namespace: &namespace::Namespace, device: &str) {
    eventually("XDP has gone", || !namespace.shows(&format!("link show dev {device}"), "xdp"));
}

/// Returns true if a device can be read by AF_XDP; if not, the reason is printed.
pub(crate) fn has_xdp(namespace: &namespace::Namespace, device: &'static str) -> bool {
    let listened = namespace.enter(|| Loop::start(reading(Xdp::On)).with(|io| io.listen_ethernet(device)));
    until_xdp_has_gone(namespace, device);
    listened.inspect_err(|error| skip(Need::Xdp, format_args!("AF_XDP: {error}"))).is_ok()
}

/// A connection to `router` from an address.
pub(crate) fn connect_from(address: std::net::Ipv4Addr, router: std::net::SocketAddr) -> std::net::TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from((address, 0)).into()).unwrap();
    socket.connect(&router.into()).unwrap();
    let stream = std::net::TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

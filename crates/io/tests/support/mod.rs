//! A running event loop that tells the test what it sees and does what the test says.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod namespace;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namely_io::{
    DispatchedLinks, Event, EventLoop, Handler, IoOptions, Port, Remote, SendError, TransportId,
    TransportStatus, Transports, Waker, Xdp,
};
use namely_link::{Frame, LinkConfig, LinkKind, LinkService, Outbound, ReassemblyTotal};
use namely_wire::LpHeaders;
use namely_wire::tlv::Writer;

pub(crate) type Packet = Arc<[u8]>;
pub(crate) type Io = Transports<Packet>;
type Command = Box<dyn FnOnce(&mut Io) -> ControlFlow<()> + Send>;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) enum Seen {
    Frame(TransportId, Remote, Vec<u8>),
    /// A frame of a transport that another worker reads.
    Foreign(TransportId, Remote, Vec<u8>),
    Event(Event),
}

struct Recorder {
    seen: Sender<Seen>,
    commands: Receiver<Command>,
    echo: bool,
}

impl Handler<Packet> for Recorder {
    fn frame(&mut self, io: &mut Io, transport: TransportId, remote: Remote, octets: &[u8]) {
        if self.echo {
            // What finds no room is counted.
            let _ = push(io, transport, frame(octets));
        }
        let _ = self.seen.send(Seen::Frame(transport, remote, octets.to_vec()));
    }

    fn foreign(&mut self, _: &mut Io, port: &Arc<Port<Packet>>, remote: Remote, octets: &[u8]) {
        let _ = self.seen.send(Seen::Foreign(port.id().unwrap(), remote, octets.to_vec()));
    }

    fn event(&mut self, _: &mut Io, event: Event) {
        let _ = self.seen.send(Seen::Event(event));
    }

    fn woken(&mut self, io: &mut Io) -> ControlFlow<()> {
        self.commands.try_iter().try_for_each(|command| command(io))
    }

    fn tick(&mut self, _: &mut Io) -> Option<u64> {
        None
    }
}

pub(crate) struct Loop {
    commands: Sender<Command>,
    seen: Receiver<Seen>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Loop {
    pub(crate) fn start(options: IoOptions) -> Self {
        Self::start_with(options, false)
    }

    /// A loop that sends every frame back.
    pub(crate) fn echo(options: IoOptions) -> Self {
        Self::start_with(options, true)
    }

    fn start_with(options: IoOptions, echo: bool) -> Self {
        Self::run(EventLoop::new(options).unwrap(), echo)
    }

    /// The loops of several workers. They end in any order.
    pub(crate) fn workers(options: IoOptions, workers: usize) -> Vec<Self> {
        Self::workers_with(options, DispatchedLinks::default(), workers)
    }

    pub(crate) fn workers_with(options: IoOptions, dispatched: DispatchedLinks, workers: usize) -> Vec<Self> {
        let loops = EventLoop::workers(options, dispatched, workers).unwrap();
        loops.into_iter().map(|event_loop| Self::run(event_loop, false)).collect()
    }

    fn run(mut event_loop: EventLoop<Packet>, echo: bool) -> Self {
        let (commands, command_receiver) = channel();
        let (seen_sender, seen) = channel();
        let waker = event_loop.waker();
        let thread = std::thread::spawn(move || {
            let mut recorder = Recorder { seen: seen_sender, commands: command_receiver, echo };
            event_loop.run(&mut recorder).unwrap();
        });
        Loop { commands, seen, waker, thread: Some(thread) }
    }

    /// Runs `command` on the loop's thread and returns what it returns.
    pub(crate) fn with<T: Send + 'static>(&self, command: impl FnOnce(&mut Io) -> T + Send + 'static) -> T {
        let (answer, answered) = channel();
        let command = move |io: &mut Io| {
            let _ = answer.send(command(io));
            ControlFlow::Continue(())
        };
        self.commands.send(Box::new(command)).unwrap();
        self.waker.wake();
        answered.recv_timeout(PATIENCE).unwrap()
    }

    /// Keeps the loop from turning until what is returned is dropped.
    pub(crate) fn hold(&self) -> Sender<()> {
        let ((hold, held), (begun, has_begun)) = (channel(), channel());
        let command = move |_: &mut Io| {
            let _ = begun.send(());
            let _ = held.recv();
            ControlFlow::Continue(())
        };
        self.commands.send(Box::new(command)).unwrap();
        self.waker.wake();
        has_begun.recv_timeout(PATIENCE).unwrap();
        hold
    }

    pub(crate) fn status(&self, id: TransportId) -> Option<TransportStatus> {
        self.with(move |io| io.port(id).map(|port| port.status()))
    }

    pub(crate) fn drops(&self, id: TransportId, label: &'static str) -> u64 {
        self.status(id).map_or(0, |status| status.counters.drops.of(label))
    }

    pub(crate) fn listener_drops(&self, label: &'static str) -> u64 {
        self.with(move |io| io.listeners().map(|(_, _, drops)| drops.of(label)).sum())
    }

    pub(crate) fn send(&self, id: TransportId, octets: &[u8]) {
        let frame = frame(octets);
        self.with(move |io| push(io, id, frame)).unwrap();
    }

    pub(crate) fn next(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).expect("something must happen")
    }

    pub(crate) fn next_frame(&self) -> (TransportId, Vec<u8>) {
        match self.next() {
            Seen::Frame(id, _, octets) => (id, octets),
            other => panic!("{other:?} instead of a frame"),
        }
    }

    pub(crate) fn next_event(&self) -> Event {
        match self.next() {
            Seen::Event(event) => event,
            other => panic!("{other:?} instead of an event"),
        }
    }

    pub(crate) fn accepted(&self) -> TransportId {
        match self.next_event() {
            Event::Accepted { transport, .. } => transport,
            other => panic!("{other:?} instead of a new transport"),
        }
    }

    pub(crate) fn closed(&self, expected: TransportId) -> (namely_io::CloseReason, TransportStatus) {
        match self.next_event() {
            Event::Closed { transport, reason, status } if transport == expected => (reason, *status),
            other => panic!("{other:?} instead of the end of {expected:?}"),
        }
    }

    /// The frames seen so far, whichever worker reads their transports. Events are passed over.
    pub(crate) fn frames_seen(&self) -> Vec<Vec<u8>> {
        let frame = |seen| match seen {
            Seen::Frame(_, _, octets) | Seen::Foreign(_, _, octets) => Some(octets),
            Seen::Event(_) => None,
        };
        self.seen.try_iter().filter_map(frame).collect()
    }

    /// Whether nothing has been seen.
    pub(crate) fn is_quiet_for(&self, wait: Duration) -> bool {
        self.seen.recv_timeout(wait).is_err()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.commands.send(Box::new(|_| ControlFlow::Break(())));
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends a frame on a transport.
pub(crate) fn push(io: &mut Io, id: TransportId, frame: Frame<Packet>) -> Result<(), SendError> {
    let port = io.port(id).cloned().ok_or(SendError::Gone)?;
    io.push(&port, frame)
}

/// A frame of exactly these octets.
pub(crate) fn frame(octets: &[u8]) -> Frame<Packet> {
    let config = LinkConfig { marking: false, ..LinkConfig::new(LinkKind::Stream) };
    let mut link: LinkService<Packet> = LinkService::new(config, ReassemblyTotal::new(0), 0);
    let outbound = Outbound { headers: LpHeaders::default(), packet: Packet::from(octets), hop_limit: None };
    let mut made = None;
    link.send(outbound, 0, &mut |frame| made = Some(frame)).unwrap();
    made.unwrap()
}

/// A TLV of TYPE 6 with `octets` octets of VALUE.
pub(crate) fn packet(octets: usize, fill: u8) -> Vec<u8> {
    let mut w = Writer::new();
    w.tlv(6, &vec![fill; octets]);
    w.into_vec()
}

/// Waits until `condition` holds.
pub(crate) fn eventually(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "it never came to hold");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Options of a loop whose devices are read so.
pub(crate) fn reading(xdp: Xdp) -> IoOptions {
    let mut options = IoOptions::default();
    options.ethernet.xdp = xdp;
    options
}

/// Whether a device can be read by AF_XDP; if not, the reason is printed.
pub(crate) fn has_xdp(namespace: &namespace::Namespace, device: &'static str) -> bool {
    let listened = namespace.enter(|| Loop::start(reading(Xdp::On)).with(|io| io.listen_ethernet(device)));
    listened.inspect_err(|error| println!("skipped: AF_XDP: {error}")).is_ok()
}

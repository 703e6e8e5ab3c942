//! A client's link to a router: blocking, poll-based, one thread.
//!
//! The caller drives it by [`Connection::turn`]. Each round writes queued packets, waits for
//! packets, passes each to the caller's handler together with the [`Outbox`] for answers, and
//! writes the answers. If the router goes away, the connection reconnects with growing pauses and
//! registers its prefixes again. [`Connection::epoch`] then changes, because outstanding Interests
//! are lost.
//!
//! A packet is processed in the receive buffer, and an answer is composed in the send buffer.
//!
//! ```no_run
//! use namely_transport::connection::{Answer, Connection, Options};
//! use namely_wire::InterestBuilder;
//!
//! let mut connection = Connection::find(None, Options::default())?;
//! let interest = InterestBuilder::new("/example/hello".parse().expect("a name")).must_be_fresh();
//! match connection.express(&interest)? {
//!     Answer::Data(reply) => println!("{} octets after {} ns", reply.wire.len(), reply.rtt_ns),
//!     Answer::Nack(reason) => println!("refused: {reason}"),
//!     Answer::Timeout => println!("no answer"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod carrier;
mod command;
mod connect;
mod error;
mod ethernet;
mod express;
mod fault;
mod inbox;
mod incoming;
mod kernel;
mod memory;
mod ndndpdk;
mod outbox;
pub(crate) mod peer;
mod reach;
mod receiver;
mod registration;
mod shown;
mod stream;
#[cfg(test)]
mod tests;
mod udp;

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use namely_messages::Scope;
use namely_security::Signer;
use namely_wire::FaceUri;
use rustix::event::{PollFd, PollFlags};

use self::carrier::{Carrier, Delivery, timespec};
pub use self::command::CommandError;
use self::command::CommandSigner;
use self::connect::Transport;
pub use self::error::{ConnectionError, NoRouter};
pub use self::express::{Answer, Expression, REPEAT_MS, Reply};
use self::fault::Fault;
pub use self::incoming::{Incoming, Packet};
pub use self::ndndpdk::{ANSWER_OCTETS_MAX, ManagementError};
pub use self::outbox::{OUTBOX_OCTETS_MAX, Outbox};
pub use self::reach::{NotBound, Reachability};
pub use self::receiver::Counters;
use self::receiver::Receiver;
use self::registration::{Context, Registrations};
use crate::endpoint::{self, Environment};
pub use crate::endpoint::{AddressSource, BadRouter, Candidate};
use crate::nonce::Nonces;
pub use namely_host::Waker;

/// Shortest and longest pause between two attempts to reconnect.
const RETRY_NS: (u64, u64) = (20_000_000, 1_000_000_000);

/// Time for a router to answer a registration after a reconnection.
///
/// A router that accepts connections but does not answer may be a stopped process, or a listening
/// socket that another process still holds.
///
/// # Limit
/// The router counts as gone.
/// - Value: 5 s
/// - Tests: `an_unresponsive_router_is_finally_lost`
const ANSWER_NS: u64 = if cfg!(test) { 200_000_000 } else { 5_000_000_000 };

/// Rounds of [`Connection::drain`]: packets that keep arriving must not delay the caller forever.
const DRAIN_ROUNDS: usize = 64;

/// Options of a connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// Duration of attempts to reconnect to a router.
    ///
    /// Zero: none.
    ///
    /// # Limit
    /// The connection ends.
    /// - Value: 10 s; no limit for a server
    /// - Tests: `an_absent_router_ends_the_connection`
    pub reconnect: Duration,
    /// Signs commands to the router. A router identifies the applications of its own user or host
    /// by their socket; others need a key that it trusts.
    pub signer: Signer,
    /// Users whose routers on this host are trusted, like those of this user and of root. They are
    /// numbers or names, separated by commas.
    pub trust_router_of: String,
}

impl Default for Options {
    /// For an application that fetches: attempts to reconnect end after ten seconds, enough for a
    /// restart of the router.
    fn default() -> Self {
        Options {
            reconnect: Duration::from_secs(10),
            signer: Signer::digest_sha256(),
            trust_router_of: String::new(),
        }
    }
}

impl Options {
    /// For an application that serves: attempts to reconnect never end.
    pub fn for_server() -> Self {
        Options { reconnect: Duration::MAX, ..Options::default() }
    }
}

/// A link to one router.
#[derive(Debug)]
pub struct Connection {
    uri: FaceUri,
    options: Options,
    carrier: Option<Box<dyn Carrier>>,
    outbox: Outbox,
    receiver: Receiver,
    waker: Waker,
    /// Whether the router treats this client as local.
    local: bool,
    retry: Retry,
    registrations: Registrations,
    commands: CommandSigner,
    epoch: u64,
    /// The epoch in which IncomingFaceId was requested from the router.
    origins_requested: Option<u64>,
    /// The packets that arrived before this time were processed. It is earlier than the present
    /// time if the process paused.
    read_ns: u64,
    started: Instant,
    nonces: Nonces,
}

/// The attempts to reconnect to a lost router.
#[derive(Clone, Copy, Debug, Default)]
struct Retry {
    lost_at_ns: u64,
    next_at_ns: u64,
    pause_ns: u64,
    /// The deadline for an answer to registrations after a reconnection. A router without an answer
    /// by then counts as gone.
    answer_due_ns: Option<u64>,
}

impl Connection {
    /// Connects to the router at the address `router`. Without `router`, the address is that of
    /// `NAMELY_ROUTER`, else of `NDN_CLIENT_TRANSPORT`, else of a `client.conf`. Otherwise, or if
    /// the router of the `client.conf` does not accept, the first default address that accepts is
    /// used.
    ///
    /// # Errors
    /// [`ConnectionError::NoRouter`]: none was reached, or the caller trusts none of their users.
    /// [`ConnectionError::BadRouter`]: a configured address is invalid.
    pub fn find(router: Option<&str>, mut options: Options) -> Result<Self, ConnectionError> {
        let read = |path: &std::path::Path| std::fs::read_to_string(path).ok();
        let surroundings = Environment::of_process();
        let candidates =
            endpoint::candidates(router, &surroundings, read).map_err(ConnectionError::BadRouter)?;
        if let Some(users) = surroundings.trust_router_of {
            // The variable adds users and does not replace those of the caller.
            options.trust_router_of = format!("{},{users}", options.trust_router_of);
        }
        Self::open(candidates, options)
    }

    /// Connects to the first of `candidates` that accepts.
    ///
    /// # Errors
    /// [`ConnectionError::NoRouter`]: none accepts.
    pub fn open(candidates: Vec<Candidate>, options: Options) -> Result<Self, ConnectionError> {
        let mut tried = Vec::new();
        for candidate in candidates {
            match connect::connect(&candidate.uri, &options.trust_router_of) {
                Ok(connected) => return Self::over(connected, candidate.uri, options),
                // Shared memory is optional beside a socket. The socket shows whether there is a
                // router.
                Err(_) if candidate.is_offer() => {}
                Err(error) => tried.push((candidate, error)),
            }
        }
        Err(ConnectionError::NoRouter(NoRouter { tried }))
    }

    /// Connects to the router at `uri`.
    ///
    /// # Errors
    /// [`ConnectionError::NoRouter`]: it does not accept.
    pub fn to(uri: FaceUri, options: Options) -> Result<Self, ConnectionError> {
        Self::open(vec![Candidate { uri, named_by: AddressSource::Caller }], options)
    }

    /// Uses a stream that is connected already, such as one end of a socket pair. It cannot
    /// reconnect, and the other end need not be a router.
    ///
    /// # Errors
    /// [`ConnectionError::System`]: the stream cannot be prepared, or no descriptor is left.
    pub fn from_stream(stream: UnixStream) -> Result<Self, ConnectionError> {
        let connected = connect::stream(stream.into(), true).map_err(ConnectionError::System)?;
        let options = Options { reconnect: Duration::ZERO, ..Options::default() };
        let mut connection = Self::over(connected, FaceUri::Fd(0), options)?;
        // A peer that is not a router would treat a command as an Interest to answer, so none is
        // sent.
        connection.origins_requested = Some(connection.epoch);
        connection.registrations = Registrations::without_binding();
        Ok(connection)
    }

    fn over(connected: Transport, uri: FaceUri, options: Options) -> Result<Self, ConnectionError> {
        let Transport { carrier, local } = connected;
        let frame_octets_max = carrier.frame_octets_max();
        let waker = Waker::new().and_then(|waker| carrier.watch(&waker).map(|()| waker));
        Ok(Connection {
            uri,
            waker: waker.map_err(|e| ConnectionError::System(e.into()))?,
            commands: CommandSigner::new(options.signer.clone()),
            options,
            local,
            registrations: Registrations::default(),
            outbox: Outbox::new(frame_octets_max),
            receiver: Receiver::new(frame_octets_max.is_some()),
            carrier: Some(carrier),
            retry: Retry::default(),
            epoch: 0,
            origins_requested: None,
            read_ns: 0,
            started: Instant::now(),
            nonces: Nonces::from_system().map_err(|e| ConnectionError::System(e.into()))?,
        })
    }

    /// Signs commands by `signer` from now on.
    pub fn set_signer(&mut self, signer: Signer) {
        self.commands = CommandSigner::new(signer);
    }

    /// The router's address.
    pub fn uri(&self) -> &FaceUri {
        &self.uri
    }

    /// Nanoseconds since the connection was made: the clock of the state machines that it drives.
    pub fn now_ns(&self) -> u64 {
        elapsed_ns(self.started)
    }

    /// Increases by one at each reconnection. Interests that were outstanding before are lost.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns true if the router is connected, as far as known.
    pub fn is_connected(&self) -> bool {
        self.carrier.is_some()
    }

    /// The generator of nonces for Interests.
    pub fn nonces(&mut self) -> &mut Nonces {
        &mut self.nonces
    }

    /// The counters of the connection.
    pub fn counters(&self) -> Counters {
        Counters { dropped_unsent: self.outbox.unsent(), ..self.receiver.counters }
    }

    /// The largest link packet that reaches the router in one piece, octets. Longer packets are
    /// fragmented. None if packets of any size are sent whole. Over UDP it follows the path.
    pub fn frame_octets_max(&self) -> Option<usize> {
        self.outbox.datagram_octets_max()
    }

    /// A waker with which another thread ends the wait in [`Connection::turn`].
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The generator of nonces and the outbox, borrowed together.
    pub fn sending(&mut self) -> (&mut Nonces, &mut Outbox) {
        (&mut self.nonces, &mut self.outbox)
    }

    /// The outbox for packets; [`Connection::turn`] writes them.
    pub fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    /// Writes queued packets, waits until `deadline_ns` at most for packets, passes each to
    /// `handler`, and writes the packets that the handler queued. Returns early on a signal, and
    /// when the connection's [`Waker`] is used. While the outbox is full no packets are received,
    /// so a router that does not read its answers delays its own requests. Returns the number of
    /// processed packets. They may include packets that `handler` does not receive, such as
    /// responses to registrations.
    ///
    /// # Errors
    /// [`ConnectionError::Lost`]: the connection to the router was lost and not restored within the
    /// time in the options.
    pub fn turn(
        &mut self,
        deadline_ns: u64,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<usize, ConnectionError> {
        if self.carrier.is_none() && !self.reconnect(deadline_ns)? {
            return Ok(0);
        }
        match self.exchange(deadline_ns, handler) {
            Ok(handled) => Ok(handled),
            Err(fault) => self.lose(fault).map(|()| 0),
        }
    }

    /// Processes the packets that wait in the socket or in memory, and waits for no others. A
    /// caller does this before it counts an answer as missing: if the process paused, the answer
    /// may have arrived in time.
    ///
    /// # Errors
    /// As of [`Connection::turn`].
    pub fn drain(
        &mut self,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<(), ConnectionError> {
        for _ in 0..DRAIN_ROUNDS {
            if self.turn(0, handler)? == 0 {
                break;
            }
        }
        Ok(())
    }

    fn exchange(
        &mut self,
        deadline_ns: u64,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<usize, Fault> {
        let now_ns = self.now_ns();
        let Some(carrier) = &mut self.carrier else { return Ok(0) };
        let datagrams = carrier.is_lossy();
        let mut context = Context {
            now_ns,
            read_ns: self.read_ns,
            scope: if self.local { Scope::Localhost } else { Scope::Localhop },
            datagrams,
            commands: &mut self.commands,
            nonces: &mut self.nonces,
        };
        let due_ns = match carrier.bindings() {
            Some(bindings) => self.registrations.bind(bindings, now_ns)?,
            None => self.registrations.poll(&mut context, &mut self.outbox),
        };
        let due_ns = due_ns.min(deadline_ns);
        let due_ns = due_ns.min(self.retry.answer_due_ns.unwrap_or(u64::MAX));
        let registrations = &mut self.registrations;
        let handler = &mut |incoming: Incoming<'_>, outbox: &mut Outbox| {
            if !registrations.take(&incoming, now_ns, datagrams) {
                handler(incoming, outbox);
            }
        };
        let (wait_ns, started) = (due_ns.saturating_sub(now_ns), self.started);
        let mut delivery = Delivery {
            outbox: &mut self.outbox,
            receiver: &mut self.receiver,
            handler,
            clock: &|| elapsed_ns(started),
            now_ns,
            arrived_ns: None,
        };
        let handled = carrier::exchange(&mut **carrier, &self.waker, wait_ns, &mut delivery)?;
        // After a round with packets more of them may wait.
        self.read_ns = if handled > 0 { now_ns } else { elapsed_ns(started) };
        // Any packet shows that the router is alive.
        if handled > 0 {
            self.retry.answer_due_ns = None;
        }
        if self.retry.answer_due_ns.is_some_and(|due_ns| due_ns <= now_ns) {
            return Err(Fault::Silent);
        }
        Ok(handled)
    }

    /// Records the loss of the router. Returns an error if reconnecting is disabled or its time is
    /// over.
    fn lose(&mut self, fault: Fault) -> Result<(), ConnectionError> {
        if matches!(fault, Fault::Unframed(_)) {
            self.receiver.counters.streams_broken += 1;
        }
        tracing::debug!(router = %self.uri, ?fault, "connection lost");
        self.carrier = None;
        // The new connection must not begin within a packet. Outstanding Interests are sent again,
        // because the epoch changes.
        self.outbox.clear();
        let now_ns = self.now_ns();
        // If the router accepted the reconnection but never answered, the same outage continues, so
        // its start and the pause are not reset.
        if self.retry.answer_due_ns.take().is_none() {
            self.retry.lost_at_ns = now_ns;
            self.retry.pause_ns = RETRY_NS.0;
        }
        // The first attempt is made at once, because a restarted router may listen already.
        self.retry.next_at_ns = now_ns;
        let after = Duration::from_nanos(now_ns - self.retry.lost_at_ns);
        if after >= self.options.reconnect {
            return Err(ConnectionError::Lost { uri: self.uri.clone(), after });
        }
        Ok(())
    }

    /// Tries once to reconnect if an attempt is due; otherwise waits until it is. Returns true if
    /// the router was reached.
    fn reconnect(&mut self, deadline_ns: u64) -> Result<bool, ConnectionError> {
        let now_ns = self.now_ns();
        if now_ns < self.retry.next_at_ns {
            let until_ns = self.retry.next_at_ns.min(deadline_ns);
            let mut fds = [PollFd::new(&self.waker, PollFlags::IN)];
            if rustix::event::poll(&mut fds, Some(&timespec(until_ns.saturating_sub(now_ns)))) == Ok(1) {
                self.waker.reset();
            }
            return Ok(false);
        }
        let connected = connect::connect(&self.uri, &self.options.trust_router_of);
        let connected = connected.and_then(|Transport { carrier, .. }| {
            carrier.watch(&self.waker)?;
            Ok(carrier)
        });
        match connected {
            Ok(mut carrier) => {
                if let Some(octets) = carrier.frame_octets_max() {
                    self.outbox.set_datagram_octets_max(octets);
                }
                let sends_commands = !self.registrations.is_empty() && carrier.bindings().is_none();
                // Over datagrams a response may be lost, so its absence proves nothing.
                let expects_answer = !carrier.is_lossy() && sends_commands;
                self.retry.answer_due_ns = expects_answer.then(|| now_ns.saturating_add(ANSWER_NS));
                self.carrier = Some(carrier);
                // A restarted router has no registrations.
                self.registrations.restart();
                self.epoch += 1;
                self.receiver.counters.reconnects += 1;
                tracing::info!(router = %self.uri, "connected again");
                Ok(true)
            }
            // A stopped forwarder in the kernel does not start again.
            Err(error)
                if self.uri == FaceUri::Kernel && error.kind() == std::io::ErrorKind::ConnectionAborted =>
            {
                let candidate = Candidate { uri: self.uri.clone(), named_by: AddressSource::Caller };
                Err(ConnectionError::NoRouter(NoRouter { tried: vec![(candidate, error)] }))
            }
            Err(error) => {
                let after = Duration::from_nanos(now_ns - self.retry.lost_at_ns);
                if after >= self.options.reconnect {
                    return Err(ConnectionError::Lost { uri: self.uri.clone(), after });
                }
                tracing::debug!(router = %self.uri, %error, "not reached yet");
                self.retry.next_at_ns = now_ns.saturating_add(self.retry.pause_ns);
                self.retry.pause_ns = (self.retry.pause_ns * 2).min(RETRY_NS.1);
                Ok(false)
            }
        }
    }
}

fn elapsed_ns(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

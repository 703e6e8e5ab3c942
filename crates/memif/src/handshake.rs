//! From a connected control channel to an interface.
//!
//! The server begins with HELLO. The client answers with INIT, its memory, its rings and CONNECT,
//! each after the ACK for the previous message. The server's CONNECTED ends the handshake. Any
//! other message ends the channel.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_host::closing::DeferredDescriptor;
use rustix::event::EventfdFlags;
use rustix::io::Errno;

use crate::channel::Channel;
use crate::interface::{Interface, Receiver, Sender};
use crate::link::Link;
use crate::message::{AddRing, COOKIE, Hello, Init, Message, MessageError, Mode, Text, VERSION};
use crate::options::{Budget, Options, RING_PAIRS_MAX, RING_SIZE_LOG2_MAX};
use crate::peer_waker::WakePolicy;
use crate::ring::{End, ReceiveRing, Side, TransmitRing};
use crate::shm::{Region, RingMemory};

/// The name of this end. Ends of this name mask interrupts as described at [`Receiver::sleep`].
pub(crate) const NAME: &str = "namely";

/// Messages taken in one call.
const MESSAGES_MAX: usize = 64;

/// The reason why there is no interface, or why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The peer closed the channel.
    #[error("the peer closed the channel")]
    Closed,
    /// The peer sent DISCONNECT.
    #[error("the peer disconnected: {0}")]
    Disconnected(Text<96>),
    /// The peer's: octets that are no message.
    #[error("not a memif message")]
    BadMessage(#[source] MessageError),
    /// The peer's: not the expected message, or without its descriptor.
    #[error("a message out of order")]
    Unexpected,
    /// The peer's: a version other than 2.0.
    #[error("not memif 2.0")]
    BadVersion,
    /// The peer's: a wrong secret.
    #[error("not the secret")]
    BadSecret,
    /// The peer's: packets of a kind that cannot be NDN's.
    #[error("the mode is neither ethernet nor ip")]
    BadMode,
    /// The peer's: memory that is not there or could be taken away, or a ring that does not lie in
    /// it.
    #[error("memory that is not sealed, or a ring that does not lie in it")]
    BadMemory,
    /// The peer's: more regions, rings, slots or octets than are admitted here.
    #[error("more memory, regions, rings or slots than admitted")]
    TooMuch,
    /// Environment: this peer, or all together, have reached the limit of mapped memory.
    #[error("no memory left for another interface")]
    NoBudget,
    /// Environment: the system refused.
    #[error(transparent)]
    System(Errno),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::PIPE | Errno::CONNRESET => Fault::Closed,
            errno => Fault::System(errno),
        }
    }
}

/// The state of a handshake.
#[derive(Debug)]
pub enum Progress {
    /// The handshake waits for the peer.
    Waiting(Handshake),
    /// The handshake is complete.
    Connected(Box<Interface>),
}

/// A handshake under way. Call [`Handshake::proceed`] when its descriptor is readable.
#[derive(Debug)]
pub struct Handshake {
    channel: Channel,
    options: Options,
    peer: Text<32>,
    regions: Vec<Arc<Region>>,
    s2m: Vec<End>,
    m2s: Vec<End>,
    role: Role,
}

#[derive(Debug)]
enum Role {
    Server {
        budget: Box<Budget>,
        has_init: bool,
    },
    /// The messages still to be sent, each with its descriptor; `None` before HELLO.
    Client {
        to_send: Option<VecDeque<(Message, Option<PassedDescriptor>)>>,
    },
}

/// A descriptor to pass with a message.
#[derive(Debug)]
enum PassedDescriptor {
    Own(OwnedFd),
    S2m(usize),
    M2s(usize),
}

impl Handshake {
    /// Begins the server's part over an accepted socket. If the socket is entrusted to a closer, so
    /// are the descriptors that arrive over it.
    ///
    /// # Errors
    /// The peer has disconnected already.
    pub fn server(
        socket: impl Into<DeferredDescriptor>,
        options: Options,
        budget: &Budget,
    ) -> Result<Self, Fault> {
        let ring_max = options.ring_pairs.clamp(1, RING_PAIRS_MAX) - 1;
        let hello = Hello {
            name: Text::new(NAME),
            min_version: VERSION,
            max_version: VERSION,
            region_max: options.regions_max.max(1) - 1,
            m2s_ring_max: ring_max,
            s2m_ring_max: ring_max,
            ring_size_log2_max: options.ring_size_log2.min(RING_SIZE_LOG2_MAX),
        };
        let role = Role::Server { budget: Box::new(budget.clone()), has_init: false };
        let handshake = Self::new(socket.into(), options, role);
        handshake.channel.take_descriptors(true);
        handshake.channel.send(&Message::Hello(hello), None)?;
        Ok(handshake)
    }

    /// Begins the client's part over a connected socket.
    pub fn client(socket: OwnedFd, options: Options) -> Self {
        Self::new(socket.into(), options, Role::Client { to_send: None })
    }

    fn new(socket: DeferredDescriptor, options: Options, role: Role) -> Self {
        let (regions, s2m, m2s) = (Vec::new(), Vec::new(), Vec::new());
        Handshake { channel: Channel::new(socket), options, peer: Text([0; 32]), regions, s2m, m2s, role }
    }

    /// Processes the messages that the peer sent. Never waits.
    ///
    /// # Errors
    /// The reason why there is no interface. The peer receives the reason, unless it ended the
    /// channel itself.
    pub fn proceed(mut self) -> Result<Progress, Fault> {
        for _ in 0..MESSAGES_MAX {
            let taken = match self.channel.receive() {
                Ok(None) => break,
                Ok(Some((Message::Disconnect { reason, .. }, _))) => Err(Fault::Disconnected(reason)),
                Ok(Some((message, fd))) => match &self.role {
                    Role::Server { .. } => self.answer_client(message, fd),
                    Role::Client { .. } => self.answer_server(message),
                },
                Err(fault) => Err(fault),
            };
            match taken {
                Ok(false) => (),
                Ok(true) => return self.connected().map(|made| Progress::Connected(Box::new(made))),
                Err(fault) => {
                    if !matches!(fault, Fault::Closed | Fault::Disconnected(_)) {
                        let reason = Text::new(&fault.to_string());
                        // Ignored: the channel ends anyway.
                        let _ = self.channel.send(&Message::Disconnect { code: 1, reason }, None);
                    }
                    return Err(fault);
                }
            }
        }
        Ok(Progress::Waiting(self))
    }

    /// Answers a message of the client. Returns true when the handshake is complete.
    fn answer_client(&mut self, message: Message, fd: Option<DeferredDescriptor>) -> Result<bool, Fault> {
        let Role::Server { has_init, .. } = &mut self.role else { return Err(Fault::Unexpected) };
        match (message, fd) {
            (Message::Init(init), _) if !*has_init => {
                *has_init = true;
                self.peer = init.name;
                if init.version != VERSION {
                    return Err(Fault::BadVersion);
                }
                if init.mode != Mode::ETHERNET && init.mode != Mode::IP {
                    return Err(Fault::BadMode);
                }
                let wanted = self.options.secret.as_bytes();
                if !wanted.is_empty() && wanted != init.secret.as_bytes() {
                    return Err(Fault::BadSecret);
                }
            }
            (Message::AddRegion { index, octets }, Some(fd)) if *has_init => {
                self.add_region(index, octets, &fd)?;
            }
            (Message::AddRing(ring), Some(fd)) if *has_init => self.add_ring(&ring, fd)?,
            (Message::Connect { .. }, _) if !self.s2m.is_empty() && !self.m2s.is_empty() => {
                // Relaxed: the peer wrote the cookies before it sent this message, and a system
                // call lies between. A right cookie proves nothing; a wrong one reveals memory that
                // is no ring.
                let rings = || self.s2m.iter().chain(&self.m2s);
                if rings().any(|end| end.memory.cookie().load(Ordering::Relaxed) != COOKIE) {
                    return Err(Fault::BadMemory);
                }
                // Unmasked before the peer may send: gomemif makes all of its rings with interrupts
                // masked.
                self.s2m.iter().for_each(|end| end.mask(false));
                self.channel.send(&Message::Connected { name: Text::new(NAME) }, None)?;
                return Ok(true);
            }
            _ => return Err(Fault::Unexpected),
        }
        self.channel.send(&Message::Ack, None)?;
        Ok(false)
    }

    fn add_region(&mut self, index: u16, octets: u64, fd: &DeferredDescriptor) -> Result<(), Fault> {
        let Role::Server { budget, .. } = &self.role else { return Err(Fault::Unexpected) };
        if usize::from(index) != self.regions.len() {
            return Err(Fault::Unexpected);
        }
        let octets = usize::try_from(octets).map_err(|_| Fault::TooMuch)?;
        let mapped: usize = self.regions.iter().map(|region| region.octets()).sum();
        let is_too_much = mapped.checked_add(octets).is_none_or(|all| all > self.options.mapped_octets_max);
        if index >= self.options.regions_max || is_too_much {
            return Err(Fault::TooMuch);
        }
        let charge = budget.charge(octets).ok_or(Fault::NoBudget)?;
        let region = Region::map(fd, octets, Some(charge)).map_err(|errno| match errno {
            Errno::PERM | Errno::INVAL => Fault::BadMemory,
            errno => Fault::System(errno),
        })?;
        self.regions.push(Arc::new(region));
        Ok(())
    }

    fn add_ring(&mut self, ring: &AddRing, event: DeferredDescriptor) -> Result<(), Fault> {
        let rings = if ring.is_s2m { &mut self.s2m } else { &mut self.m2s };
        if usize::from(ring.index) != rings.len() {
            return Err(Fault::Unexpected);
        }
        let pairs_max = self.options.ring_pairs.clamp(1, RING_PAIRS_MAX);
        if ring.index >= pairs_max
            || ring.ring_size_log2 > self.options.ring_size_log2.min(RING_SIZE_LOG2_MAX)
        {
            return Err(Fault::TooMuch);
        }
        let region = self.regions.get(usize::from(ring.region)).ok_or(Fault::BadMemory)?.clone();
        let memory = RingMemory::new(region, ring.offset as usize, ring.ring_size_log2);
        let memory = memory.filter(|_| ring.private_header_octets == 0).ok_or(Fault::BadMemory)?;
        check_event(&event)?;
        // Closing an eventfd does not block.
        let event = event.into_owned().ok_or(Fault::BadMemory)?;
        rings.push(End::new(memory, event, Side::Server));
        Ok(())
    }

    /// Answers a message of the server. Returns true when the handshake is complete.
    fn answer_server(&mut self, message: Message) -> Result<bool, Fault> {
        let Role::Client { to_send } = &mut self.role else { return Err(Fault::Unexpected) };
        match (message, to_send) {
            (Message::Hello(hello), None) => {
                if hello.min_version > VERSION || hello.max_version < VERSION {
                    return Err(Fault::BadVersion);
                }
                self.peer = hello.name;
                let messages = self.make(&hello)?;
                self.role = Role::Client { to_send: Some(messages) };
            }
            (Message::Ack, Some(waiting)) if !waiting.is_empty() => (),
            (Message::Connected { .. }, Some(waiting)) if waiting.is_empty() => return Ok(true),
            _ => return Err(Fault::Unexpected),
        }
        let Role::Client { to_send: Some(waiting) } = &mut self.role else { return Err(Fault::Unexpected) };
        if let Some((message, passed)) = waiting.pop_front() {
            let fd = passed.as_ref().and_then(|passed| match passed {
                PassedDescriptor::Own(fd) => Some(fd.as_fd()),
                PassedDescriptor::S2m(n) => self.s2m.get(*n).map(|end| end.event.as_fd()),
                PassedDescriptor::M2s(n) => self.m2s.get(*n).map(|end| end.event.as_fd()),
            });
            self.channel.send(&message, fd)?;
        }
        Ok(false)
    }

    /// Makes the memory and the rings, and all messages about them.
    fn make(&mut self, hello: &Hello) -> Result<VecDeque<(Message, Option<PassedDescriptor>)>, Fault> {
        let Options { ring_pairs, ring_size_log2, buffer_octets, .. } = self.options;
        let log2 = ring_size_log2.min(hello.ring_size_log2_max).min(RING_SIZE_LOG2_MAX);
        let ring_max = hello.m2s_ring_max.min(hello.s2m_ring_max);
        let pairs = usize::from(ring_pairs.clamp(1, RING_PAIRS_MAX).min(ring_max.saturating_add(1)));
        let buffers = 2 * pairs * RingMemory::octets_of(log2);
        let slots = 1usize << log2;
        let octets = buffers.saturating_add((2 * pairs * slots).saturating_mul(buffer_octets as usize));
        // Offsets in slots have 32 bits.
        if buffer_octets == 0 || u32::try_from(octets).is_err() {
            return Err(Fault::TooMuch);
        }
        let (region, fd) = Region::create(octets)?;
        let region = Arc::new(region);
        self.regions.push(region.clone());
        let init = Init {
            version: VERSION,
            id: self.options.id,
            mode: Mode::ETHERNET,
            secret: self.options.secret,
            name: Text::new(NAME),
        };
        let mut messages = VecDeque::from([
            (Message::Init(init), None),
            (Message::AddRegion { index: 0, octets: octets as u64 }, Some(PassedDescriptor::Own(fd))),
        ]);
        for n in 0..2 * pairs {
            let (is_s2m, index) = (n < pairs, n % pairs);
            let offset = n * RingMemory::octets_of(log2);
            let memory = RingMemory::new(region.clone(), offset, log2).ok_or(Fault::TooMuch)?;
            // Relaxed: the server reads the cookie only after CONNECT, which is sent later.
            memory.cookie().store(COOKIE, Ordering::Relaxed);
            let first = (buffers + n * slots * buffer_octets as usize) as u32;
            let side = Side::Client { region: 0, first, octets: buffer_octets };
            let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let (rings, passed) = if is_s2m {
                (&mut self.s2m, PassedDescriptor::S2m(index))
            } else {
                (&mut self.m2s, PassedDescriptor::M2s(index))
            };
            let end = End::new(memory, event, side);
            end.lay_out();
            if !is_s2m {
                end.provide_all();
            }
            rings.push(end);
            let ring = AddRing {
                is_s2m,
                index: index as u16,
                region: 0,
                offset: offset as u32,
                ring_size_log2: log2,
                private_header_octets: 0,
            };
            messages.push_back((Message::AddRing(ring), Some(passed)));
        }
        messages.push_back((Message::Connect { name: Text::new(NAME) }, None));
        Ok(messages)
    }

    fn connected(self) -> Result<Interface, Fault> {
        let is_server = matches!(self.role, Role::Server { .. });
        self.channel.take_descriptors(false);
        let (inward, outward) = if is_server { (self.s2m, self.m2s) } else { (self.m2s, self.s2m) };
        if !is_server {
            inward.iter().for_each(End::provide_all);
        }
        let inward: Vec<_> = inward.into_iter().map(ReceiveRing::new).collect();
        let waking = if self.options.trusts_server && !is_server {
            WakePolicy::Writes
        } else {
            WakePolicy::NeverWaits
        };
        let outward: Vec<_> = outward.into_iter().map(|end| TransmitRing::new(end, waking)).collect();
        let link = Link::new(self.channel, inward.iter().map(ReceiveRing::event))?;
        let masks = self.peer.as_bytes() == NAME.as_bytes();
        let shares = self.regions.iter().filter_map(|region| region.share().cloned()).collect();
        Ok(Interface {
            shares,
            receiver: Receiver::new(inward, self.regions.clone(), self.options.packet_octets_max, masks),
            sender: Sender::new(outward, self.regions),
            link,
            peer: self.peer,
        })
    }
}

impl AsFd for Handshake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Checks that a descriptor is an eventfd, and makes it non-blocking. A write to anything else
/// could block.
fn check_event(event: &DeferredDescriptor) -> Result<(), Fault> {
    use std::os::fd::AsRawFd;
    let target = std::fs::read_link(format!("/proc/self/fd/{}", event.as_fd().as_raw_fd()));
    if !target.is_ok_and(|target| target.as_os_str() == "anon_inode:[eventfd]") {
        return Err(Fault::BadMemory);
    }
    let flags = rustix::fs::fcntl_getfl(event)?;
    Ok(rustix::fs::fcntl_setfl(event, flags | rustix::fs::OFlags::NONBLOCK)?)
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};

    use super::*;
    use crate::PushOutcome;

    #[test]
    fn a_server_resetting_indexes_can_send() {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let budget = Budget::new(Options::default().mapped_octets_max);
        let mut server = Handshake::server(near, Options::default(), &budget).unwrap();
        let mut client = Handshake::client(far, Options::default());
        let mut interface = loop {
            if let Progress::Waiting(waiting) = client.proceed().unwrap() {
                client = waiting;
            } else {
                panic!("the client is connected before the server");
            }
            // The server resets the indexes, as libmemif does when the client requests the
            // connection.
            for ring in server.s2m.iter().chain(&server.m2s) {
                ring.memory.head().store(0, Ordering::Relaxed);
                ring.memory.tail().store(0, Ordering::Relaxed);
            }
            match server.proceed().unwrap() {
                Progress::Waiting(waiting) => server = waiting,
                Progress::Connected(interface) => break interface,
            }
        };
        assert!(matches!(client.proceed().unwrap(), Progress::Connected(_)));
        assert_eq!(interface.sender.push(&[b"to the client"]), Ok(PushOutcome::Accepted));
    }
}

//! Both ends of an interface in one process, and a client that sends arbitrary messages.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namely_memif::message::{AddRing, COOKIE, Init, MESSAGE_OCTETS, Message, Mode, Text, VERSION};
use namely_memif::{Budget, Fault, Handshake, Interface, Options, Progress, Region};
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

pub(crate) fn sockets() -> (OwnedFd, OwnedFd) {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// Options with small rings, so that tests reach their ends.
pub(crate) fn small() -> Options {
    Options { ring_size_log2: 3, buffer_octets: 64, ..Options::default() }
}

/// Lets both ends talk until they are connected or one gives up.
pub(crate) fn shake(
    server: Options,
    client: Options,
    budget: &Budget,
) -> Result<(Interface, Interface), Fault> {
    let (near, far) = sockets();
    let mut server = Progress::Waiting(Handshake::server(near, server, budget)?);
    let mut client = Progress::Waiting(Handshake::client(far, client));
    for _ in 0..200 {
        client = match client {
            Progress::Waiting(waiting) => waiting.proceed()?,
            done => done,
        };
        server = match server {
            Progress::Waiting(waiting) => waiting.proceed()?,
            done => done,
        };
        if let (Progress::Connected(_), Progress::Connected(_)) = (&server, &client) {
            break;
        }
    }
    let (Progress::Connected(server), Progress::Connected(client)) = (server, client) else {
        panic!("the handshake has no end");
    };
    Ok((*server, *client))
}

/// Server and client.
pub(crate) fn pair(options: Options) -> (Interface, Interface) {
    shake(options, options, &Budget::new(usize::MAX)).unwrap()
}

/// All packets that have come.
pub(crate) fn receive(end: &mut Interface) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    end.receiver
        .receive(usize::MAX, &mut |packet| {
            packets.push(packet.to_vec());
            true
        })
        .unwrap();
    packets
}

/// Sends `message` as it is, with a descriptor or not. If the other end makes the kernel refuse
/// descriptors at this moment, the message arrives without it.
pub(crate) fn send(socket: &OwnedFd, octets: &[u8], fd: Option<BorrowedFd<'_>>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = fd.map(|fd| [fd]);
    if let Some(fds) = &fds {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    }
    match rustix::net::sendmsg(socket, &[IoSlice::new(octets)], &mut ancillary, SendFlags::NOSIGNAL) {
        Err(Errno::PERM) if fd.is_some() => send(socket, octets, None),
        sent => assert_eq!(sent.unwrap(), octets.len()),
    }
}

/// The other end's next message, if there is one.
pub(crate) fn heard(socket: &OwnedFd) -> Option<Message> {
    heard_with_descriptor(socket).map(|(message, _)| message)
}

/// The same, and the descriptor that came with it.
pub(crate) fn heard_with_descriptor(socket: &OwnedFd) -> Option<(Message, Option<OwnedFd>)> {
    let mut octets = [0; MESSAGE_OCTETS];
    let slices = &mut [IoSliceMut::new(&mut octets)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(socket, slices, &mut ancillary, RecvFlags::DONTWAIT).ok()?;
    let fd = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Some((Message::decode(&octets[..received.bytes]).ok()?, fd))
}

/// A client that writes its memory itself: a ring of each direction with 2^`LOG2` slots, followed
/// by their buffers of 64 octets.
pub(crate) struct RawClient {
    pub(crate) socket: OwnedFd,
    pub(crate) region: Region,
    pub(crate) memory: OwnedFd,
    pub(crate) events: [OwnedFd; 2],
}

pub(crate) const LOG2: u8 = 3;
pub(crate) const SLOTS: usize = 1 << LOG2;
pub(crate) const RING: usize = 128 + 16 * SLOTS;
pub(crate) const BUFFERS: usize = 2 * RING;
pub(crate) const MEMORY: usize = BUFFERS + 2 * SLOTS * 64;

impl RawClient {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        let (region, memory) = Region::create(MEMORY).unwrap();
        let event = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let client = RawClient { socket, region, memory, events: [event(), event()] };
        for ring in [0, RING] {
            client.region.write(ring, &COOKIE.to_ne_bytes());
            for slot in 0..SLOTS {
                let offset = BUFFERS + (ring / RING * SLOTS + slot) * 64;
                client.set_slot(ring, slot, 0, 0, 64, offset as u32);
            }
        }
        client
    }

    pub(crate) fn set_slot(
        &self,
        ring: usize,
        slot: usize,
        flags: u16,
        region: u16,
        octets: u32,
        offset: u32,
    ) {
        let mut field = Vec::new();
        field.extend(flags.to_ne_bytes());
        field.extend(region.to_ne_bytes());
        field.extend(octets.to_ne_bytes());
        field.extend(offset.to_ne_bytes());
        self.region.write(ring + 128 + 16 * slot, &field);
    }

    pub(crate) fn set_head(&self, ring: usize, head: u16) {
        self.region.write(ring + 6, &head.to_ne_bytes());
    }

    pub(crate) fn init() -> Init {
        Init { version: VERSION, id: 0, mode: Mode::ETHERNET, secret: Text::new(""), name: Text::new("raw") }
    }

    pub(crate) fn ring(is_s2m: bool) -> AddRing {
        AddRing {
            is_s2m,
            index: 0,
            region: 0,
            offset: if is_s2m { 0 } else { RING as u32 },
            ring_size_log2: LOG2,
            private_header_octets: 0,
        }
    }

    /// All messages of a good client, each with its descriptor.
    pub(crate) fn messages(&self) -> Vec<(Message, Option<BorrowedFd<'_>>)> {
        vec![
            (Message::Init(Self::init()), None),
            (Message::AddRegion { index: 0, octets: MEMORY as u64 }, Some(self.memory.as_fd())),
            (Message::AddRing(Self::ring(true)), Some(self.events[0].as_fd())),
            (Message::AddRing(Self::ring(false)), Some(self.events[1].as_fd())),
            (Message::Connect { name: Text::new("raw") }, None),
        ]
    }
}

/// A server that is connected with a raw client.
pub(crate) fn raw_pair() -> (Interface, RawClient) {
    let (near, far) = sockets();
    let server = Handshake::server(near, Options::default(), &Budget::new(usize::MAX)).unwrap();
    let client = RawClient::new(far);
    for (message, fd) in client.messages() {
        send(&client.socket, &message.encode(), fd);
    }
    match server.proceed().unwrap() {
        Progress::Connected(server) => (*server, client),
        Progress::Waiting(_) => panic!("all was said"),
    }
}

/// Descriptors of this process.
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

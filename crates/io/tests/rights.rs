//! Unrequested descriptors: the sender can make their close take as long as it likes.

use crate::support;

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use namely_io::IoOptions;
use namely_testkit::{Need, skip};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use support::{Loop, PATIENCE, packet};

/// The duration of a close of [`Slow`]. It is longer than a test waits for any event.
const LINGER: Duration = Duration::from_secs(120);

/// A socket whose close takes long, since its peer does not read.
struct Slow {
    descriptor: OwnedFd,
    _peer: TcpStream,
}

impl Slow {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        rustix::net::sockopt::set_socket_linger(&stream, Some(LINGER)).unwrap();
        stream.set_nonblocking(true).unwrap();
        while rustix::io::write(&stream, &[0; 65536]).is_ok() {}
        Slow { descriptor: stream.into(), _peer: listener.accept().unwrap().0 }
    }

    /// Sends the descriptor and closes it here before the loop takes it, so that the loop's close
    /// is the last one and waits.
    fn send(self, io: &Loop, socket: impl AsFd, octets: &[u8]) -> (Result<(), Errno>, TcpStream) {
        let _held = io.hold();
        self.send_unheld(socket, octets)
    }

    fn send_unheld(self, socket: impl AsFd, octets: &[u8]) -> (Result<(), Errno>, TcpStream) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        // The slow descriptor is not the first one. If the receiver had room for one descriptor
        // only, the kernel would close the second one during the call.
        let other = std::fs::File::open("/dev/null").unwrap();
        let descriptors = [other.as_fd(), self.descriptor.as_fd()];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let slices = [IoSlice::new(octets)];
        let sent = rustix::net::sendmsg(socket, &slices, &mut ancillary, SendFlags::NOSIGNAL).map(|_| ());
        if sent.is_err() {
            // Otherwise this end's close would wait.
            rustix::net::sockopt::set_socket_linger(&self.descriptor, None).unwrap();
        }
        drop(self.descriptor);
        (sent, self._peer)
    }
}

struct Router {
    io: Loop,
    _directory: tempfile::TempDir,
    path: PathBuf,
    memif: PathBuf,
}

impl Router {
    fn start(refuses_rights: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [path, memif] = ["r.sock", "r.memif"].map(|name| directory.path().join(name));
        let io = Loop::echo(IoOptions { refuses_rights, ..IoOptions::default() });
        let paths = (path.clone(), memif.clone());
        io.with(move |io| io.listen_unix(&paths.0, 0o600).and_then(|_| io.listen_memif(&paths.1, 0o600)))
            .unwrap();
        Router { io, _directory: directory, path, memif }
    }

    /// Fails if the loop waits for anything.
    fn serves(&self) {
        let mut stream = connect(&self.path);
        stream.write_all(&packet(20, 1)).unwrap();
        let mut back = vec![0; packet(20, 1).len()];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, packet(20, 1));
    }

    /// Ends it, and fails if it waited for anything.
    fn end(self) {
        let start = Instant::now();
        drop(self.io);
        assert!(start.elapsed() < PATIENCE);
    }
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn the_kernel_refuses_passed_descriptors() {
    let router = Router::start(true);
    let stream = connect(&router.path);
    let (sent, _peer) = Slow::new().send(&router.io, &stream, &packet(20, 2));
    if sent.is_ok() {
        skip(Need::Kernel, "the kernel cannot refuse descriptors (Linux 6.16)");
    } else {
        assert_eq!(sent, Err(Errno::PERM));
    }
    router.serves();
    router.end();
}

#[test]
fn a_slowly_closing_descriptor_delays_nothing() {
    // As on a kernel that cannot refuse it.
    let router = Router::start(false);
    let mut stream = connect(&router.path);
    let (sent, _peer) = Slow::new().send(&router.io, &stream, &packet(20, 2));
    assert_eq!(sent, Ok(()));
    let mut back = vec![0; packet(20, 2).len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, packet(20, 2), "what it came with is served");
    router.serves();
    // A descriptor that lies unread in a connection that ends for another reason.
    let mut stream = connect(&router.path);
    router.serves();
    let held = router.io.hold();
    stream.write_all(&[0; 64]).unwrap();
    let (sent, _third) = Slow::new().send_unheld(&stream, &packet(20, 3));
    assert_eq!(sent, Ok(()));
    drop(held);
    router.serves();
    let stream = connect(&router.path);
    let (sent, _other) = Slow::new().send(&router.io, &stream, &[0; 64]);
    assert_eq!(sent, Ok(()));
    drop(stream);
    router.serves();
    router.end();
}

#[test]
fn a_slowly_closing_descriptor_delays_no_handshake() {
    for refuses_rights in [true, false] {
        let router = Router::start(refuses_rights);
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(&router.memif).unwrap()).unwrap();
        // After its greeting the listener accepts descriptors on this connection.
        assert!(rustix::io::read(&socket, &mut [0; 128]).unwrap() > 0);
        let (sent, _peer) = Slow::new().send(&router.io, &socket, b"no message of memif");
        assert_eq!(sent, Ok(()));
        router.serves();
        router.end();
    }
}

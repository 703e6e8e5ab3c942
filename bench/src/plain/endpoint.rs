//! Sockets by URI, so that one copy loop serves all kinds of streams.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;

use namely_wire::MacAddress;

/// Line that a source and a relay print once they listen.
pub const READY: &str = "ready\n";

/// Address of a socket: `unix:///path`, `tcp://127.0.0.1:6000`, `udp://127.0.0.1:6000`,
/// `ether://eth0` for any station that sends to that device, or `ether://eth0/02:00:00:00:00:01`
/// for one station beyond it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix stream socket.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
    /// UDP.
    Udp(SocketAddr),
    /// Ethernet frames on the device with this name, of one station or of any.
    Ether(String, Option<MacAddress>),
}

impl Endpoint {
    /// Returns true for datagrams, false for a stream.
    pub fn is_datagrams(&self) -> bool {
        matches!(self, Endpoint::Udp(_) | Endpoint::Ether(..))
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(uri: &str) -> Result<Self, String> {
        let address = |text: &str| text.parse().map_err(|_| format!("'{text}' is not ADDRESS:PORT"));
        match uri.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => Ok(Endpoint::Unix(path.into())),
            Some(("tcp", text)) => Ok(Endpoint::Tcp(address(text)?)),
            Some(("udp", text)) => Ok(Endpoint::Udp(address(text)?)),
            Some(("ether", text)) if !text.is_empty() => match text.split_once('/') {
                None => Ok(Endpoint::Ether(text.to_owned(), None)),
                Some((device, station)) => {
                    let station =
                        station.parse().map_err(|_| format!("'{station}' is no Ethernet address"))?;
                    Ok(Endpoint::Ether(device.to_owned(), Some(station)))
                }
            },
            _ => Err(format!(
                "'{uri}' is not unix:///PATH, tcp://ADDRESS:PORT, udp://ADDRESS:PORT or ether://DEVICE[/STATION]"
            )),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix://{}", path.display()),
            Endpoint::Tcp(address) => write!(f, "tcp://{address}"),
            Endpoint::Udp(address) => write!(f, "udp://{address}"),
            Endpoint::Ether(device, None) => write!(f, "ether://{device}"),
            Endpoint::Ether(device, Some(station)) => write!(f, "ether://{device}/{station}"),
        }
    }
}

/// A connected stream of either kind.
#[derive(Debug)]
pub enum Stream {
    /// Unix.
    Unix(UnixStream),
    /// TCP.
    Tcp(TcpStream),
}

impl Stream {
    /// Connects to a stream endpoint.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Endpoint::Tcp(address) => TcpStream::connect(address).and_then(Stream::tcp),
            Endpoint::Udp(_) | Endpoint::Ether(..) => Err(no_stream()),
        }
    }

    /// Returns a second handle to the same connection.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
        }
    }

    /// Closes the sending direction.
    pub fn finish(&self) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Stream::Tcp(stream))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read(buffer),
            Stream::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write(octets),
            Stream::Tcp(stream) => stream.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A listening stream socket of either kind.
#[derive(Debug)]
pub enum Listener {
    /// Unix.
    Unix(UnixListener),
    /// TCP.
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on a stream endpoint.
    pub fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Unix(path) => UnixListener::bind(path).map(Listener::Unix),
            Endpoint::Tcp(address) => TcpListener::bind(address).map(Listener::Tcp),
            Endpoint::Udp(_) | Endpoint::Ether(..) => Err(no_stream()),
        }
    }

    /// Accepts the next connection.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Listener::Tcp(listener) => listener.accept().and_then(|(stream, _)| Stream::tcp(stream)),
        }
    }
}

fn no_stream() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a datagram socket is not a stream")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_survive_a_round_trip() {
        for uri in [
            "unix:///run/x.sock",
            "tcp://127.0.0.1:6363",
            "udp://[::1]:6363",
            "ether://eth0",
            "ether://eth0/02:00:00:00:00:0b",
        ] {
            assert_eq!(uri.parse::<Endpoint>().map(|e| e.to_string()).as_deref(), Ok(uri));
        }
    }

    #[test]
    fn invalid_endpoints_are_refused() {
        for uri in [
            "",
            "unix://relative",
            "tcp://localhost",
            "udp://1.2.3.4",
            "http://1.2.3.4:80",
            "/x",
            "ether://",
            "ether://eth0/02",
        ] {
            assert!(uri.parse::<Endpoint>().is_err(), "{uri}");
        }
    }
}

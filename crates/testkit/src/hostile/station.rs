//! A station of a link, with a key of its own.

use std::io;
use std::sync::Arc;

use namely_datagrams::ethernet::monitor::{self, Device};
use namely_datagrams::ethernet::{DEFAULT_GROUP, FrameSender};
use namely_security::{KeyType, PrivateKey, Signer, sign_data, sign_interest};
use namely_wire::tlv::Writer;
use namely_wire::{DataBuilder, InterestBuilder, InterestView, MacAddress, Name};

/// Lead of a hello's clock, ms. It exceeds the clock of every honest station.
const AHEAD_MS: u64 = 1_000_000;

/// A key, and discovery messages signed by it.
#[derive(Debug)]
pub struct Identity {
    key: [u8; 32],
    signer: Signer,
}

impl Identity {
    /// Creates an identity with a fresh key.
    ///
    /// # Errors
    /// The system has no random octets.
    pub fn new() -> io::Result<Self> {
        let private = PrivateKey::generate(KeyType::Ed25519).map_err(io::Error::other)?;
        let key = private.public().ed25519_octets().ok_or(io::ErrorKind::InvalidData)?;
        let name: Name = Name::new().join_generic("evil").join_generic("KEY").join_generic("1");
        Ok(Identity { key, signer: Signer::new(name, Arc::new(private)) })
    }

    /// Returns a correctly signed hello of `station`.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn hello(&self, station: &str, mtu: &str, prefix: Option<&str>) -> io::Result<Vec<u8>> {
        let mut name = name(station, mtu);
        if let Some(prefix) = prefix {
            name = name.join_generic(format!("prefix={prefix}"));
        }
        let mut w = Writer::new();
        w.tlv(129, &self.key).nni(131, 1);
        let time_ms = namely_host::clock::unix_ms() + AHEAD_MS;
        let builder = InterestBuilder::new(name).nonce([1; 4]).hop_limit(1);
        sign_interest(&builder, &w.into_vec(), &self.signer, time_ms).map_err(io::Error::other)
    }

    /// Returns a correctly signed reply of `station` to a hello.
    ///
    /// # Errors
    /// `hello` is not an Interest, or the reply cannot be signed.
    pub fn reply(&self, hello: &[u8], station: &str) -> io::Result<Vec<u8>> {
        let hello = InterestView::parse(hello).map_err(io::Error::other)?;
        let mut w = Writer::new();
        name(station, "1500").as_name().encode(&mut w);
        w.tlv(129, &self.key).nni(131, 1).nni(133, 1).nni(137, 1500);
        sign_data(&DataBuilder::new(hello.name), &w.into_vec(), &self.signer).map_err(io::Error::other)
    }
}

fn name(station: &str, mtu: &str) -> Name {
    Name::new().join_generic("ndp").join_generic(station).join_generic(mtu)
}

/// A station on a device. It sends frames in the name of any station.
#[derive(Debug)]
pub struct HostilePeer {
    /// The device.
    pub device: Device,
    /// Its key.
    pub identity: Identity,
}

impl HostilePeer {
    /// Opens the device `name`, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// There is no such device, or the system does not report it.
    pub fn on(name: &str) -> io::Result<Self> {
        let device = monitor::device(name)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(HostilePeer { device, identity: Identity::new()? })
    }

    /// Sends a packet to all routers, as `from`.
    ///
    /// # Errors
    /// Those of [`HostilePeer::flood`].
    pub fn multicast(&self, from: &str, packet: &[u8]) -> io::Result<()> {
        self.send(DEFAULT_GROUP, from, packet, 1)
    }

    /// Sends a packet to one station, as `from`.
    ///
    /// # Errors
    /// Those of [`HostilePeer::flood`].
    pub fn unicast(&self, to: &str, from: &str, packet: &[u8]) -> io::Result<()> {
        self.flood(to, from, packet, 1)
    }

    /// Sends a packet to one station `count` times, as `from`.
    ///
    /// # Errors
    /// An address is malformed, or the socket cannot be opened: packet sockets need CAP_NET_RAW.
    pub fn flood(&self, to: &str, from: &str, packet: &[u8], count: usize) -> io::Result<()> {
        self.send(address(to)?, from, packet, count)
    }

    fn send(&self, to: MacAddress, from: &str, packet: &[u8], count: usize) -> io::Result<()> {
        let sender = FrameSender::open(self.device.index, to, address(from)?)?;
        let mut left = count;
        while left > 0 {
            // The socket's buffer may be full for a moment: the loop tries again.
            left -= sender.send(std::iter::repeat_n(packet, left)).unwrap_or(0);
        }
        Ok(())
    }
}

fn address(text: &str) -> io::Result<MacAddress> {
    text.parse().map_err(|_| io::ErrorKind::InvalidInput.into())
}

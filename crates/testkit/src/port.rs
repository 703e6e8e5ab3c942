//! Ports that no socket takes by chance.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// Lowest port that [`free_port`] returns.
const PORT_MIN: u16 = 10_000;

/// Ports below the range that the system chooses from, if it does not report that range.
const EPHEMERAL_MIN: u16 = 32_768;

/// A port of 127.0.0.1 that is free for TCP and UDP, for a test that binds it later or needs an
/// unused one.
///
/// The system may assign a released port of its own range to the next socket without an address, in
/// any process. So this port lies below that range, and processes begin at different ports.
///
/// # Panics
/// No port is free.
pub fn free_port() -> u16 {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let ports = ephemeral_min().saturating_sub(PORT_MIN).max(1);
    let first = (std::process::id() as u16).wrapping_mul(61) % ports;
    let is_free = |port: &u16| {
        let address = (Ipv4Addr::LOCALHOST, *port);
        TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
    };
    let port = (0..ports).map(|_| {
        let call = CALLS.fetch_add(1, Ordering::Relaxed) % ports;
        PORT_MIN + ((u32::from(first) + u32::from(call)) % u32::from(ports)) as u16
    });
    port.into_iter().find(is_free).expect("a port below the system's own range is free")
}

/// Binds a port that this process had before. A process that another test forked has a copy of the
/// former socket until it executes its program.
///
/// # Panics
/// The port stays in use.
pub fn bound_again<T>(bind: impl Fn() -> std::io::Result<T>) -> T {
    super::until("the port to be free", || bind().ok())
}

/// [`free_port`] with its address.
pub fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

/// The lowest port that the system chooses itself.
fn ephemeral_min() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let min = range.split_whitespace().next().and_then(|min| min.parse().ok());
    // If the range of ephemeral ports begins lower, no port is excluded from it, and any port
    // serves equally.
    min.filter(|min| *min > 2 * PORT_MIN).unwrap_or(EPHEMERAL_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ_and_can_be_bound() {
        let ports: std::collections::BTreeSet<u16> = (0..100).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 100);
        assert!(ports.iter().all(|port| (PORT_MIN..EPHEMERAL_MIN).contains(port)), "{ports:?}");
        let taken = TcpListener::bind(free_address()).unwrap().local_addr().unwrap();
        assert!((0..100).all(|_| free_port() != taken.port()));
    }
}

//! Host names.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use namely_wire::Endpoint;

/// Returns the addresses of `endpoint` in its IP version, in the system's order of preference. A
/// host name is looked up, which may take seconds.
///
/// # Errors
/// The caller's or the environment's: the name is unknown, or it has no address of that IP version
/// (`NotFound`), or no name server answers.
pub fn lookup(endpoint: &Endpoint) -> io::Result<Vec<SocketAddr>> {
    let (name, port, family) = match endpoint {
        Endpoint::Address(address) => return Ok(vec![*address]),
        Endpoint::Host { name, port, family } => (name.as_str(), *port, *family),
    };
    let failed = |error: io::Error| io::Error::new(error.kind(), format!("cannot look up {name}: {error}"));
    let addresses: Vec<SocketAddr> = (name, port)
        .to_socket_addrs()
        .map_err(failed)?
        .filter(|address| family.admits(&address.ip()))
        .collect();
    if addresses.is_empty() {
        let why = format!("{name} has no address of the IP version asked for");
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use namely_wire::FaceUri;

    use super::*;

    fn endpoint(uri: &str) -> Endpoint {
        match uri.parse() {
            Ok(FaceUri::Udp(endpoint)) => endpoint,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn names_resolve_for_the_requested_ip_version() {
        let first = |uri| lookup(&endpoint(uri)).unwrap()[0];
        assert_eq!(first("udp4://localhost:7"), ([127, 0, 0, 1], 7).into());
        assert_eq!(first("udp://192.0.2.1:7"), ([192, 0, 2, 1], 7).into());
        let unknown = lookup(&endpoint("udp6://127.0.0.1.nip.invalid:7")).unwrap_err();
        assert!(unknown.to_string().contains("127.0.0.1.nip.invalid"), "{unknown}");
    }
}

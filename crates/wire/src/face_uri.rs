//! FaceUri: the text form of the ends of a face in management, and of a router's address or a
//! listening address for users.
//!
//! Numeric addresses are parsed here. A host name stays text, because its resolution is I/O.
//! Canonical forms follow NFD's FaceUri: `udp4://192.0.2.1:6363`, `tcp6://[2001:db8::1]:6363`,
//! `unix:///run/x.sock`.

use alloc::string::{String, ToString};
use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::str::FromStr;

/// Default UDP and TCP port.
pub(crate) const NDN_PORT: u16 = 6363;

/// Default WebSocket port, which is NFD's.
pub(crate) const WEBSOCKET_PORT: u16 = 9696;

/// Default port of NDN-DPDK's GraphQL server.
const NDN_DPDK_PORT: u16 = 3030;

/// Octets of a face URI.
///
/// The limit is above any path of a Unix socket and any host name.
///
/// # Limit
/// The URI is refused.
/// - Tests: `a_uri_past_the_limit_is_refused`
pub const FACE_URI_OCTETS_MAX: usize = 512;

/// One end of a face, or an address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FaceUri {
    /// `unix:///path`: a stream socket in the file system.
    Unix(String),
    /// `memif:///path`, `memif:///path?id=1`: shared memory, with the socket of its control
    /// channel.
    Memif {
        /// Path of the socket.
        path: String,
        /// Number of the interface on that socket.
        id: u32,
    },
    /// `tcp://…`, `tcp4://…`, `tcp6://…`.
    Tcp(Endpoint),
    /// `udp://…`, `udp4://…`, `udp6://…`; a multicast address creates a multicast face.
    Udp(Endpoint),
    /// `ws://…`: a listening address of WebSocket connections, and the local end of their faces.
    Ws(Endpoint),
    /// `wsclient://…`: the remote end of a WebSocket face.
    WsClient(Endpoint),
    /// `ether://[08:00:27:01:02:03]`: a link address on a network interface, or a group.
    Ether(MacAddress),
    /// `ether://[08:00:27:01:02:03%eth0]`: a router's link address, and this machine's network
    /// interface towards it. It is a form for applications.
    Station {
        /// The link address.
        address: MacAddress,
        /// Name of the network interface.
        device: String,
    },
    /// `dev://eth0`: a network interface, the local end of a multicast or Ethernet face.
    Device(String),
    /// `fd://5`: an accepted stream, the remote end of a Unix face.
    Fd(u64),
    /// `internal://`: the router itself.
    Internal,
    /// `null://`: a face that drops everything.
    Null,
    /// `kernel://`: the forwarder in the kernel, of the current network namespace.
    Kernel,
    /// `ndndpdk://127.0.0.1:3030`, `ndndpdk://…?sockets=/run/ndn`: NDN-DPDK's forwarder, by the
    /// address of its management server. It is a form for applications.
    NdnDpdk {
        /// Its GraphQL server.
        server: Endpoint,
        /// Folder of the sockets of its applications, if it is not the default.
        sockets: Option<String>,
    },
}

/// An Ethernet address of a host or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Returns true for the address of a group, such as the broadcast address.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl FromStr for MacAddress {
    type Err = FaceUriError;

    /// Parses six pairs of hexadecimal digits between colons.
    fn from_str(text: &str) -> Result<Self, FaceUriError> {
        let mut octets = [0; 6];
        let mut pairs = text.split(':');
        for octet in &mut octets {
            let pair =
                pairs.next().filter(|pair| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit()));
            *octet = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or(FaceUriError::BadMac)?;
        }
        if pairs.next().is_some() { Err(FaceUriError::BadMac) } else { Ok(MacAddress(octets)) }
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A numeric address.
    Address(SocketAddr),
    /// A name that has to be resolved, or an address with a zone (`fe80::1%eth0`).
    Host {
        /// The host name.
        name: String,
        /// The port.
        port: u16,
        /// Permitted address families.
        family: Family,
    },
}

/// Address families that a host name may resolve to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Either.
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    /// Returns true if `address` is of this family.
    pub fn admits(self, address: &IpAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        }
    }
}

impl FaceUri {
    /// Returns the numeric address of a TCP, UDP or WebSocket URI, if it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            FaceUri::Tcp(Endpoint::Address(address))
            | FaceUri::Udp(Endpoint::Address(address))
            | FaceUri::Ws(Endpoint::Address(address))
            | FaceUri::WsClient(Endpoint::Address(address)) => Some(*address),
            _ => None,
        }
    }

    /// Returns its numeric address without port and zone, if it has one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            FaceUri::Tcp(endpoint)
            | FaceUri::Udp(endpoint)
            | FaceUri::Ws(endpoint)
            | FaceUri::WsClient(endpoint) => endpoint.ip(),
            _ => None,
        }
    }

    /// Returns the scheme of the canonical form, such as `udp4`; `udp` while the family is unknown.
    pub fn scheme(&self) -> &'static str {
        match self {
            FaceUri::Unix(_) => "unix",
            FaceUri::Memif { .. } => "memif",
            FaceUri::Tcp(endpoint) => endpoint.pick("tcp", "tcp4", "tcp6"),
            FaceUri::Udp(endpoint) => endpoint.pick("udp", "udp4", "udp6"),
            FaceUri::Ws(_) => "ws",
            FaceUri::WsClient(_) => "wsclient",
            FaceUri::Ether(_) | FaceUri::Station { .. } => "ether",
            FaceUri::Device(_) => "dev",
            FaceUri::Fd(_) => "fd",
            FaceUri::Internal => "internal",
            FaceUri::Null => "null",
            FaceUri::Kernel => "kernel",
            FaceUri::NdnDpdk { .. } => "ndndpdk",
        }
    }
}

impl Endpoint {
    fn pick(&self, any: &'static str, v4: &'static str, v6: &'static str) -> &'static str {
        match self {
            Endpoint::Address(SocketAddr::V4(_)) | Endpoint::Host { family: Family::V4, .. } => v4,
            Endpoint::Address(SocketAddr::V6(_)) | Endpoint::Host { family: Family::V6, .. } => v6,
            Endpoint::Host { family: Family::Any, .. } => any,
        }
    }

    fn parse(authority: &str, family: Family) -> Result<Self, FaceUriError> {
        Self::parse_with(authority, family, NDN_PORT)
    }

    fn parse_with(authority: &str, family: Family, default_port: u16) -> Result<Self, FaceUriError> {
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = split_port(authority)?;
        let port = match port {
            None => default_port,
            Some(port) => port.parse().map_err(|_| FaceUriError::BadPort)?,
        };
        let endpoint = match host.parse::<IpAddr>() {
            Ok(ip) if family.admits(&ip) => Endpoint::Address(SocketAddr::new(ip, port)),
            Ok(_) => return Err(FaceUriError::WrongFamily),
            Err(_) => match host.split_once('%') {
                Some((address, zone)) => Endpoint::zoned(address, zone, port, family)?,
                None if is_host_name(host) => Endpoint::Host { name: host.to_string(), port, family },
                None => return Err(FaceUriError::BadHost),
            },
        };
        Ok(endpoint)
    }

    /// An IPv6 address with the name or number of an interface, as `fe80::1%eth0`. Only the system
    /// knows the numbers of interfaces, so the address stays text.
    fn zoned(address: &str, zone: &str, port: u16, family: Family) -> Result<Self, FaceUriError> {
        let address: Ipv6Addr = address.parse().map_err(|_| FaceUriError::BadHost)?;
        if !family.admits(&address.into()) {
            return Err(FaceUriError::WrongFamily);
        }
        // In a URI the separator may be written as %25 (RFC 6874, section 2).
        let decoded = zone.strip_prefix("25").filter(|rest| rest.starts_with(|c: char| !c.is_ascii_digit()));
        let zone = decoded.unwrap_or(zone);
        if !is_zone(zone) {
            return Err(FaceUriError::BadHost);
        }
        Ok(Endpoint::Host { name: alloc::format!("{address}%{zone}"), port, family: Family::V6 })
    }

    /// Returns the address, without a zone; `None` for a host name.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Endpoint::Address(address) => Some(address.ip()),
            Endpoint::Host { name, .. } => name.split_once('%')?.0.parse().ok(),
        }
    }
}

/// Splits `host:port`, where an IPv6 host is in brackets.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), FaceUriError> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or(FaceUriError::BadHost)?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(FaceUriError::BadPort),
        };
    }
    match authority.split_once(':') {
        Some((_, port)) if port.contains(':') => Err(FaceUriError::BadHost),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((authority, None)),
    }
}

/// Returns true for a name that can be looked up. A name whose last label is a number is none: the
/// system's resolver would parse it as an address in another notation, with octal and short forms.
fn is_host_name(host: &str) -> bool {
    let is_name = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    is_name && !ends_in_number(host)
}

/// Returns true for text such as `010.0.0.1`, `127.1` and `0x7f000001` (WHATWG URL, 3.5).
fn ends_in_number(host: &str) -> bool {
    let last = host.strip_suffix('.').unwrap_or(host).rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.strip_prefix("0x").or(last.strip_prefix("0X"));
    let is_hexadecimal = hexadecimal.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    is_hexadecimal || (!last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns true for the name of a network interface, or its number.
fn is_zone(zone: &str) -> bool {
    !zone.is_empty() && zone.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:@+".contains(&b))
}

/// Parses the part after `memif://`.
fn memif(rest: &str) -> Result<FaceUri, FaceUriError> {
    let (path, id) = match rest.split_once('?') {
        None => (rest, 0),
        Some((path, query)) => {
            let id = query.strip_prefix("id=").and_then(|id| id.parse().ok());
            (path, id.ok_or(FaceUriError::BadPath)?)
        }
    };
    if path.len() < 2 || !path.starts_with('/') || path.contains('\0') {
        return Err(FaceUriError::BadPath);
    }
    Ok(FaceUri::Memif { path: path.to_string(), id })
}

/// Parses the part after `ndndpdk://`.
fn ndn_dpdk(rest: &str) -> Result<FaceUri, FaceUriError> {
    let (authority, sockets) = match rest.split_once('?') {
        None => (rest, None),
        Some((authority, query)) => {
            let path = query.strip_prefix("sockets=").filter(|path| path.starts_with('/'));
            let path = path.filter(|path| path.len() > 1 && !path.contains('\0'));
            (authority, Some(path.ok_or(FaceUriError::BadFolder)?.to_string()))
        }
    };
    let server = Endpoint::parse_with(authority, Family::Any, NDN_DPDK_PORT)?;
    Ok(FaceUri::NdnDpdk { server, sockets })
}

impl FromStr for FaceUri {
    type Err = FaceUriError;

    fn from_str(uri: &str) -> Result<Self, FaceUriError> {
        if uri.len() > FACE_URI_OCTETS_MAX {
            return Err(FaceUriError::TooLong);
        }
        let (scheme, rest) = uri.split_once("://").ok_or(FaceUriError::NoScheme)?;
        match scheme {
            "unix" if rest.starts_with('/') && rest.len() > 1 && !rest.contains('\0') => {
                Ok(FaceUri::Unix(rest.to_string()))
            }
            "unix" => Err(FaceUriError::BadPath),
            "memif" => memif(rest),
            "tcp" => Endpoint::parse(rest, Family::Any).map(FaceUri::Tcp),
            "tcp4" => Endpoint::parse(rest, Family::V4).map(FaceUri::Tcp),
            "tcp6" => Endpoint::parse(rest, Family::V6).map(FaceUri::Tcp),
            "udp" => Endpoint::parse(rest, Family::Any).map(FaceUri::Udp),
            "udp4" => Endpoint::parse(rest, Family::V4).map(FaceUri::Udp),
            "udp6" => Endpoint::parse(rest, Family::V6).map(FaceUri::Udp),
            "ws" => Endpoint::parse_with(rest, Family::Any, WEBSOCKET_PORT).map(FaceUri::Ws),
            "wsclient" => Endpoint::parse_with(rest, Family::Any, WEBSOCKET_PORT).map(FaceUri::WsClient),
            "ether" => {
                let address = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                let address = address.ok_or(FaceUriError::BadMac)?;
                match address.split_once('%') {
                    None => address.parse().map(FaceUri::Ether),
                    Some((address, device)) if is_zone(device) => {
                        Ok(FaceUri::Station { address: address.parse()?, device: device.to_string() })
                    }
                    Some(_) => Err(FaceUriError::BadMac),
                }
            }
            "dev" if is_zone(rest) => Ok(FaceUri::Device(rest.to_string())),
            "dev" => Err(FaceUriError::BadHost),
            "fd" => rest.parse().map(FaceUri::Fd).map_err(|_| FaceUriError::BadHost),
            "internal" if rest.is_empty() => Ok(FaceUri::Internal),
            "null" if rest.is_empty() => Ok(FaceUri::Null),
            "kernel" if rest.is_empty() => Ok(FaceUri::Kernel),
            "ndndpdk" => ndn_dpdk(rest),
            _ => Err(FaceUriError::UnknownScheme),
        }
    }
}

impl fmt::Display for FaceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        match self {
            FaceUri::Unix(path) | FaceUri::Memif { path, id: 0 } => f.write_str(path),
            FaceUri::Memif { path, id } => write!(f, "{path}?id={id}"),
            FaceUri::Tcp(endpoint)
            | FaceUri::Udp(endpoint)
            | FaceUri::Ws(endpoint)
            | FaceUri::WsClient(endpoint) => endpoint.fmt(f),
            FaceUri::Ether(address) => write!(f, "[{address}]"),
            FaceUri::Station { address, device } => write!(f, "[{address}%{device}]"),
            FaceUri::Device(name) => f.write_str(name),
            FaceUri::Fd(fd) => write!(f, "{fd}"),
            FaceUri::Internal | FaceUri::Null | FaceUri::Kernel => Ok(()),
            FaceUri::NdnDpdk { server, sockets: None } => server.fmt(f),
            FaceUri::NdnDpdk { server, sockets: Some(folder) } => write!(f, "{server}?sockets={folder}"),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Address(address) => address.fmt(f),
            Endpoint::Host { name, port, .. } if name.contains(':') => write!(f, "[{name}]:{port}"),
            Endpoint::Host { name, port, .. } => write!(f, "{name}:{port}"),
        }
    }
}

/// The text is not a FaceUri; a fault of its author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceUriError {
    /// There is no `scheme://`.
    NoScheme,
    /// The scheme is unknown.
    UnknownScheme,
    /// `unix://` or `memif://` without an absolute path, or with a suffix other than `?id=` and a
    /// number.
    BadPath,
    /// `ndndpdk://` with a suffix other than `?sockets=` and an absolute path.
    BadFolder,
    /// Not an address or a host name.
    BadHost,
    /// A port outside 0..=65535.
    BadPort,
    /// Not an Ethernet address.
    BadMac,
    /// An IPv6 address under `udp4` or `tcp4`, or the reverse.
    WrongFamily,
    /// More than [`FACE_URI_OCTETS_MAX`] octets.
    TooLong,
}

impl fmt::Display for FaceUriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaceUriError::NoScheme => {
                "no scheme: write unix:///path, tcp://host:port, udp://host:port, ether://[address] or dev://interface"
            }
            FaceUriError::UnknownScheme => {
                "unknown scheme: use unix, memif, tcp, tcp4, tcp6, udp, udp4, udp6, ws, ether or dev"
            }
            FaceUriError::BadPath => {
                "unix:// and memif:// need an absolute path, as in unix:///run/namely/namely.sock"
            }
            FaceUriError::BadFolder => {
                "behind ndndpdk://host:port there may be a folder, as in ?sockets=/run/ndn, and nothing else"
            }
            FaceUriError::BadHost => "not an address or host name (an IPv6 address stands in brackets)",
            FaceUriError::BadPort => "the port must be a number from 0 to 65535",
            FaceUriError::BadMac => {
                "an Ethernet address stands in brackets, six pairs of hexadecimal digits: ether://[08:00:27:01:02:03]"
            }
            FaceUriError::WrongFamily => "the scheme's IP version is not the address's",
            FaceUriError::TooLong => "the URI is longer than 512 octets",
        })
    }
}

impl core::error::Error for FaceUriError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(uri: &str) -> Result<String, FaceUriError> {
        uri.parse::<FaceUri>().map(|uri| uri.to_string())
    }

    #[test]
    fn addresses_become_canonical() {
        for (uri, expected) in [
            ("udp://192.0.2.1", "udp4://192.0.2.1:6363"),
            ("udp4://192.0.2.1:7000", "udp4://192.0.2.1:7000"),
            ("tcp://[2001:db8::1]", "tcp6://[2001:db8::1]:6363"),
            ("tcp6://[::1]:1", "tcp6://[::1]:1"),
            ("tcp://127.0.0.1:6363/", "tcp4://127.0.0.1:6363"),
            ("ws://127.0.0.1", "ws://127.0.0.1:9696"),
            ("wsclient://[::1]:40000", "wsclient://[::1]:40000"),
            ("unix:///run/x.sock", "unix:///run/x.sock"),
            ("memif:///run/x.memif", "memif:///run/x.memif"),
            ("memif:///run/x.memif?id=0", "memif:///run/x.memif"),
            ("memif:///run/x.memif?id=4294967295", "memif:///run/x.memif?id=4294967295"),
            ("dev://eth0", "dev://eth0"),
            ("ether://[01:00:5E:00:17:aa]", "ether://[01:00:5e:00:17:aa]"),
            ("ether://[02:00:00:00:00:0A%eth0.7]", "ether://[02:00:00:00:00:0a%eth0.7]"),
            ("fd://12", "fd://12"),
            ("internal://", "internal://"),
            ("null://", "null://"),
            ("kernel://", "kernel://"),
            ("ndndpdk://127.0.0.1", "ndndpdk://127.0.0.1:3030"),
            ("ndndpdk://[::1]:80/?sockets=/run/x", "ndndpdk://[::1]:80?sockets=/run/x"),
            ("ndndpdk://forwarder", "ndndpdk://forwarder:3030"),
        ] {
            assert_eq!(canonical(uri).as_deref(), Ok(expected), "{uri}");
            assert_eq!(canonical(expected).as_deref(), Ok(expected), "canonical text parses to itself");
        }
    }

    #[test]
    fn host_names_and_zones_need_lookup() {
        assert_eq!(canonical("udp://router.example").as_deref(), Ok("udp://router.example:6363"));
        assert_eq!(canonical("tcp4://router:80").as_deref(), Ok("tcp4://router:80"));
        // ndn-cxx has the interface's name in the canonical form, too.
        for uri in ["udp6://[fe80::1%eth0]:6363", "udp://[FE80:0::1%eth0]", "udp6://[fe80::1%25eth0]:6363"] {
            assert_eq!(canonical(uri).as_deref(), Ok("udp6://[fe80::1%eth0]:6363"), "{uri}");
        }
        for zone in ["2", "25", "255"] {
            let uri = alloc::format!("udp6://[fe80::1%{zone}]:6363");
            assert_eq!(canonical(&uri).as_deref(), Ok(uri.as_str()));
        }
        let ip = |uri: &str| uri.parse::<FaceUri>().ok().and_then(|uri| uri.ip());
        assert_eq!(ip("udp6://[fe80::1%eth0]"), "fe80::1".parse().ok());
        assert_eq!((ip("udp://192.0.2.1"), ip("udp://router")), ("192.0.2.1".parse().ok(), None));
        assert_eq!("udp://router".parse::<FaceUri>().unwrap().address(), None);
    }

    #[test]
    fn bad_uris_report_the_error() {
        for (uri, error) in [
            ("192.0.2.1:6363", FaceUriError::NoScheme),
            ("http://192.0.2.1", FaceUriError::UnknownScheme),
            ("internal://x", FaceUriError::UnknownScheme),
            ("kernel://x", FaceUriError::UnknownScheme),
            ("unix://x", FaceUriError::BadPath),
            ("unix:///", FaceUriError::BadPath),
            ("memif://x", FaceUriError::BadPath),
            ("memif:///x?id=4294967296", FaceUriError::BadPath),
            ("memif:///x?ring=1", FaceUriError::BadPath),
            ("udp://", FaceUriError::BadHost),
            ("udp://a b", FaceUriError::BadHost),
            ("udp://::1", FaceUriError::BadHost),
            ("udp4://010.0.0.1", FaceUriError::BadHost),
            ("udp4://127.1", FaceUriError::BadHost),
            ("tcp://0x7f000001", FaceUriError::BadHost),
            ("tcp://2130706433.", FaceUriError::BadHost),
            ("udp4://[fe80::1%eth0]", FaceUriError::WrongFamily),
            ("udp6://[router%eth0]", FaceUriError::BadHost),
            ("udp6://[fe80::1%]", FaceUriError::BadHost),
            ("udp://[::1", FaceUriError::BadHost),
            ("udp://[::1]6363", FaceUriError::BadPort),
            ("udp://192.0.2.1:65536", FaceUriError::BadPort),
            ("udp4://[::1]", FaceUriError::WrongFamily),
            ("tcp6://192.0.2.1", FaceUriError::WrongFamily),
            ("dev://", FaceUriError::BadHost),
            ("ether://01:00:5e:00:17:aa", FaceUriError::BadMac),
            ("ether://[01:00:5e:00:17:aa%]", FaceUriError::BadMac),
            ("ether://[%eth0]", FaceUriError::BadMac),
            ("ether://[01:00:5e:00:17]", FaceUriError::BadMac),
            ("ether://[01:00:5e:00:17:aa:bb]", FaceUriError::BadMac),
            ("ether://[01:00:5e:00:17:+a]", FaceUriError::BadMac),
            ("ether://[01:00:5e:00:17:0aa]", FaceUriError::BadMac),
            ("fd://x", FaceUriError::BadHost),
            ("ndndpdk://", FaceUriError::BadHost),
            ("ndndpdk://x:port", FaceUriError::BadPort),
            ("ndndpdk://x?sockets=run", FaceUriError::BadFolder),
            ("ndndpdk://x?sockets=/", FaceUriError::BadFolder),
            ("ndndpdk://x?folder=/run", FaceUriError::BadFolder),
        ] {
            assert_eq!(canonical(uri), Err(error), "{uri}");
        }
    }

    #[test]
    fn group_uris_differ_from_station_uris() {
        for (address, is_group) in
            [("01:00:5e:00:17:aa", true), ("ff:ff:ff:ff:ff:ff", true), ("02:00:00:00:00:01", false)]
        {
            assert_eq!(address.parse::<MacAddress>().map(MacAddress::is_group), Ok(is_group));
        }
    }

    #[test]
    fn a_uri_past_the_limit_is_refused() {
        let path = |octets: usize| alloc::format!("unix:///{}", "x".repeat(octets - 8));
        assert!(canonical(&path(FACE_URI_OCTETS_MAX)).is_ok());
        assert_eq!(canonical(&path(FACE_URI_OCTETS_MAX + 1)), Err(FaceUriError::TooLong));
    }
}

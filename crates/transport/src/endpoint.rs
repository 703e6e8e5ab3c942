//! The address of a client's router: from the configuration, otherwise a default address of
//! [`crate::paths`].
//!
//! This module opens no socket.

use std::fmt;
use std::path::{Path, PathBuf};

use namely_wire::{FaceUri, FaceUriError};

use crate::paths;

/// Environment variable with the router's address. The caller's address takes precedence.
pub(crate) const ROUTER_VARIABLE: &str = "NAMELY_ROUTER";

/// Environment variable with additional users whose routers are trusted:
/// [`Options::trust_router_of`](crate::connection::Options::trust_router_of).
const TRUST_VARIABLE: &str = "NAMELY_TRUST_ROUTER_OF";

/// The variable that clients of NFD and NDNd read.
const NDN_TRANSPORT_VARIABLE: &str = "NDN_CLIENT_TRANSPORT";

/// The environment that determines the router's address. It is a parameter, so that tests need not
/// change the environment of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    /// `NAMELY_ROUTER`.
    pub(crate) namely_router: Option<String>,
    /// `NDN_CLIENT_TRANSPORT`.
    pub(crate) ndn_client_transport: Option<String>,
    /// `NAMELY_TRUST_ROUTER_OF`.
    pub(crate) trust_router_of: Option<String>,
    /// `HOME`.
    pub(crate) home: Option<PathBuf>,
    /// The default paths of Unix sockets, in the order of attempts.
    pub(crate) sockets: Vec<PathBuf>,
    /// Whether the kernel's forwarder is loaded.
    pub(crate) has_kernel: bool,
}

impl Environment {
    /// Reads the environment of this process.
    pub(crate) fn of_process() -> Self {
        // Scripts may pass empty variables, so these count as unset.
        let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Environment {
            namely_router: text(ROUTER_VARIABLE),
            ndn_client_transport: text(NDN_TRANSPORT_VARIABLE),
            trust_router_of: text(TRUST_VARIABLE),
            // A relative path would depend on the working directory.
            home: text("HOME").map(PathBuf::from).filter(|path| path.is_absolute()),
            sockets: crate::paths::client_sockets(),
            has_kernel: namely_nnet::module::is_loaded(),
        }
    }
}

/// The source of a router's address. Messages contain it, so that the user can correct the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressSource {
    /// The caller: an argument, or an option.
    Caller,
    /// An environment variable.
    Variable(&'static str),
    /// A `client.conf`.
    ClientConf(PathBuf),
    /// A default address.
    DefaultAddress,
}

impl fmt::Display for AddressSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddressSource::Caller => f.write_str("the caller"),
            AddressSource::Variable(name) => f.write_str(name),
            AddressSource::ClientConf(path) => write!(f, "{}", path.display()),
            AddressSource::DefaultAddress => f.write_str("a usual place"),
        }
    }
}

/// A router that a client may try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its address: `unix`, `memif`, `tcp`, `udp`, `kernel`, `ndndpdk`, or `ether` with a network
    /// interface.
    pub uri: FaceUri,
    /// The source of the address.
    pub named_by: AddressSource,
}

impl Candidate {
    /// Returns true if it is only an alternative to the next candidate, which is the same router.
    pub(crate) fn is_offer(&self) -> bool {
        matches!(self.uri, FaceUri::Memif { .. }) && self.named_by == AddressSource::DefaultAddress
    }
}

/// A router's address that cannot be used; the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct BadRouter {
    /// The text of the address.
    pub uri: String,
    /// The source of the text.
    pub named_by: AddressSource,
    /// The syntax error; none if it is a FaceUri of a kind that clients cannot connect to.
    #[source]
    pub reason: Option<FaceUriError>,
}

const SCHEMES: &str = "use unix:///path, memif:///path, tcp://host:port, udp://host:port, \
     ether://[address%interface], kernel:// or ndndpdk://host:port";

impl fmt::Display for BadRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.named_by {
            AddressSource::Caller => write!(f, "'{}' names no router: ", self.uri)?,
            named_by => write!(f, "'{}' (from {named_by}) names no router: ", self.uri)?,
        }
        match &self.reason {
            // A face has schemes that no client connects to, and lacks some that clients do.
            Some(FaceUriError::NoScheme | FaceUriError::UnknownScheme) => f.write_str(SCHEMES),
            Some(reason) => reason.fmt(f),
            None if self.uri.starts_with("ether:") => {
                f.write_str("name the network interface too, as in ether://[08:00:27:01:02:03%eth0]; groups are no routers")
            }
            None => f.write_str(SCHEMES),
        }
    }
}

/// Returns the routers to try, in order. A router named by `caller`, `NAMELY_ROUTER` or
/// `NDN_CLIENT_TRANSPORT`, in this precedence, is the only one. Otherwise the router of a
/// `client.conf` comes before the default addresses. For each default address, shared memory comes
/// before the Unix socket. The kernel's forwarder, if it is loaded, comes last, because another
/// router of this host may have routes that the kernel lacks. `read` returns a file's text, if
/// there is one.
///
/// # Errors
/// [`BadRouter`]: the first configured address is not one that a client can connect to.
pub(crate) fn candidates(
    caller: Option<&str>,
    surroundings: &Environment,
    read: impl Fn(&Path) -> Option<String>,
) -> Result<Vec<Candidate>, BadRouter> {
    let named = [
        (caller, AddressSource::Caller),
        (surroundings.namely_router.as_deref(), AddressSource::Variable(ROUTER_VARIABLE)),
        (surroundings.ndn_client_transport.as_deref(), AddressSource::Variable(NDN_TRANSPORT_VARIABLE)),
    ];
    // A router that is named explicitly is never replaced by another one, because that would hide a
    // mistake.
    if let Some((uri, named_by)) = named.into_iter().find_map(|(uri, by)| Some((uri?, by))) {
        return Ok(vec![candidate(uri, named_by)?]);
    }
    let mut found: Vec<Candidate> = client_conf(surroundings, read)?.into_iter().collect();
    for path in &surroundings.sockets {
        // A FaceUri is text, so paths that are not UTF-8 are left out.
        let uris = [
            paths::memif_beside(path).to_str().map(|path| FaceUri::Memif { path: path.to_owned(), id: 0 }),
            path.to_str().map(|path| FaceUri::Unix(path.to_owned())),
        ];
        found.extend(
            uris.into_iter().flatten().map(|uri| Candidate { uri, named_by: AddressSource::DefaultAddress }),
        );
    }
    if surroundings.has_kernel {
        found.push(Candidate { uri: FaceUri::Kernel, named_by: AddressSource::DefaultAddress });
    }
    Ok(found)
}

/// Parses `uri` as the address of a router.
fn candidate(uri: &str, named_by: AddressSource) -> Result<Candidate, BadRouter> {
    match uri.parse() {
        Ok(
            uri @ (FaceUri::Unix(_)
            | FaceUri::Memif { .. }
            | FaceUri::Tcp(_)
            | FaceUri::Udp(_)
            | FaceUri::Kernel
            | FaceUri::NdnDpdk { .. }),
        ) => Ok(Candidate { uri, named_by }),
        // Several routers may listen on a group address, and each would receive the Interests.
        Ok(uri @ FaceUri::Station { .. }) if !is_group(&uri) => Ok(Candidate { uri, named_by }),
        Ok(_) => Err(BadRouter { uri: uri.to_owned(), named_by, reason: None }),
        Err(reason) => Err(BadRouter { uri: uri.to_owned(), named_by, reason: Some(reason) }),
    }
}

fn is_group(uri: &FaceUri) -> bool {
    matches!(uri, FaceUri::Station { address, .. } if address.is_group())
}

/// Returns the `transport` of the first `client.conf` that exists, in ndn-cxx's search order. The
/// file has `key=value` lines, with comments after `;`.
fn client_conf(
    surroundings: &Environment,
    read: impl Fn(&Path) -> Option<String>,
) -> Result<Option<Candidate>, BadRouter> {
    let of_user = surroundings.home.iter().map(|home| home.join(".ndn/client.conf"));
    let of_system = ["/usr/local/etc/ndn/client.conf", "/etc/ndn/client.conf"].map(PathBuf::from);
    for path in of_user.chain(of_system) {
        let Some(text) = read(&path) else { continue };
        let mut transports = text.lines().filter_map(|line| {
            let (key, value) = line.split(';').next()?.split_once('=')?;
            (key.trim() == "transport").then(|| value.trim())
        });
        // The first file ends the search even without a transport, as in ndn-cxx.
        return transports.next_back().map(|uri| candidate(uri, AddressSource::ClientConf(path))).transpose();
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uris(candidates: &[Candidate]) -> Vec<String> {
        candidates.iter().map(|candidate| candidate.uri.to_string()).collect()
    }

    #[test]
    fn the_callers_router_precedes_the_variables() {
        let mut surroundings = Environment {
            namely_router: Some("unix:///a".into()),
            ndn_client_transport: Some("unix:///b".into()),
            sockets: vec!["/run/c.sock".into()],
            ..Environment::default()
        };
        let found =
            |flag, surroundings: &Environment| uris(&candidates(flag, surroundings, |_| None).unwrap());
        assert_eq!(found(Some("tcp://localhost"), &surroundings), ["tcp://localhost:6363"]);
        assert_eq!(found(None, &surroundings), ["unix:///a"]);
        surroundings.namely_router = None;
        assert_eq!(found(None, &surroundings), ["unix:///b"]);
    }

    #[test]
    fn a_bad_router_lists_the_usable_schemes() {
        for uri in ["foo", "foo://bar", "dev://eth0"] {
            let error = candidates(Some(uri), &Environment::default(), |_| None).unwrap_err().to_string();
            assert!(error.contains("kernel:// or ndndpdk://") && !error.contains("or dev://"), "{error}");
        }
    }

    #[test]
    fn client_conf_precedes_the_default_sockets() {
        let surroundings = Environment {
            home: Some("/home/u".into()),
            sockets: vec!["/run/a.sock".into(), "/run/b.sock".into()],
            ..Environment::default()
        };
        let read = |path: &Path| {
            (path == Path::new("/home/u/.ndn/client.conf"))
                .then(|| "; transport=unix:///no\n transport = tcp://192.0.2.1 ; yes\npib=x\n".to_owned())
        };
        let found = candidates(None, &surroundings, read).unwrap();
        assert_eq!(
            uris(&found),
            [
                "tcp4://192.0.2.1:6363",
                "memif:///run/a.memif",
                "unix:///run/a.sock",
                "memif:///run/b.memif",
                "unix:///run/b.sock"
            ]
        );
        assert_eq!(found[0].named_by, AddressSource::ClientConf("/home/u/.ndn/client.conf".into()));
    }

    #[test]
    fn the_kernel_router_is_tried_last() {
        let mut surroundings = Environment { sockets: vec!["/run/a.sock".into()], ..Environment::default() };
        let last = |surroundings: &Environment| {
            uris(&candidates(None, surroundings, |_| None).unwrap()).pop().unwrap()
        };
        assert_eq!(last(&surroundings), "unix:///run/a.sock");
        surroundings.has_kernel = true;
        assert_eq!(last(&surroundings), "kernel://");
        assert_eq!(uris(&candidates(Some("kernel://"), &surroundings, |_| None).unwrap()), ["kernel://"]);
    }

    #[test]
    fn an_invalid_router_is_refused_with_its_origin() {
        for uri in [
            "",
            "unix://",
            "/run/x",
            "dev://eth0",
            "internal://",
            "ether://[02:00:00:00:00:01]",
            "ether://[01:00:5e:00:17:aa%eth0]",
        ] {
            let refused = candidates(Some(uri), &Environment::default(), |_| None).unwrap_err();
            let text = refused.to_string();
            assert!(refused.named_by == AddressSource::Caller && text.contains(uri), "{text}");
            assert!(!text.contains("--"), "{text}");
            let surroundings = Environment { namely_router: Some(uri.to_owned()), ..Environment::default() };
            let refused = candidates(None, &surroundings, |_| None).unwrap_err().to_string();
            assert!(refused.contains(ROUTER_VARIABLE), "{refused}");
        }
    }
}

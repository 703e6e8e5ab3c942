//! Where a client looks for its router: what names one, and otherwise the usual places of
//! [`crate::paths`].
//!
//! Nothing here opens a socket.

use std::fmt;
use std::path::{Path, PathBuf};

use namely_wire::{FaceUri, FaceUriError};

use crate::paths;

/// Environment variable that names the router; what the caller names goes before it.
pub(crate) const ROUTER_VARIABLE: &str = "NAMELY_ROUTER";

/// Environment variable with users whose routers are trusted too:
/// [`Options::trust_router_of`](crate::connection::Options::trust_router_of).
const TRUST_VARIABLE: &str = "NAMELY_TRUST_ROUTER_OF";

/// The variable that clients of NFD and NDNd read.
const NDN_TRANSPORT_VARIABLE: &str = "NDN_CLIENT_TRANSPORT";

/// What of the process's surroundings decides where a router is; passed in, so that tests need not
/// change the process's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// `NAMELY_ROUTER`.
    pub(crate) namely_router: Option<String>,
    /// `NDN_CLIENT_TRANSPORT`.
    pub(crate) ndn_client_transport: Option<String>,
    /// `NAMELY_TRUST_ROUTER_OF`.
    pub(crate) trust_router_of: Option<String>,
    /// `HOME`.
    pub(crate) home: Option<PathBuf>,
    /// The usual places of Unix sockets, in the order to try.
    pub(crate) sockets: Vec<PathBuf>,
    /// Whether the kernel has a forwarder.
    pub(crate) has_kernel: bool,
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Surroundings {
            namely_router: text(ROUTER_VARIABLE),
            ndn_client_transport: text(NDN_TRANSPORT_VARIABLE),
            trust_router_of: text(TRUST_VARIABLE),
            home: text("HOME").map(PathBuf::from).filter(|path| path.is_absolute()),
            sockets: crate::paths::client_sockets(),
            has_kernel: namely_nnet::module::is_loaded(),
        }
    }
}

/// Who named a router; shown in messages, so that a person knows what to correct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The caller: an argument, or an option.
    Caller,
    /// An environment variable.
    Variable(&'static str),
    /// A `client.conf`.
    ClientConf(PathBuf),
    /// Nobody: it is one of the usual places.
    UsualPlace,
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamedBy::Caller => f.write_str("the caller"),
            NamedBy::Variable(name) => f.write_str(name),
            NamedBy::ClientConf(path) => write!(f, "{}", path.display()),
            NamedBy::UsualPlace => f.write_str("a usual place"),
        }
    }
}

/// A router that a client may try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its address: `unix`, `memif`, `tcp`, `udp`, `kernel`, `ndndpdk`, or `ether` with a network
    /// interface.
    pub uri: FaceUri,
    /// Where the address comes from.
    pub named_by: NamedBy,
}

impl Candidate {
    /// Returns true if it is no more than what the router at the next place may offer too.
    pub(crate) fn is_offer(&self) -> bool {
        matches!(self.uri, FaceUri::Memif { .. }) && self.named_by == NamedBy::UsualPlace
    }
}

/// Text that names a router but is no usable address; the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRouter {
    /// The text.
    pub uri: String,
    /// Where it comes from.
    pub named_by: NamedBy,
    /// What is wrong with it; none if it is a FaceUri of a kind that no client can connect to.
    pub reason: Option<FaceUriError>,
}

impl fmt::Display for BadRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.named_by {
            NamedBy::Caller => write!(f, "'{}' names no router: ", self.uri)?,
            named_by => write!(f, "'{}' (from {named_by}) names no router: ", self.uri)?,
        }
        match &self.reason {
            Some(reason) => reason.fmt(f),
            None if self.uri.starts_with("ether:") => {
                f.write_str("name the network interface too, as in ether://[08:00:27:01:02:03%eth0]; groups are no routers")
            }
            None => f.write_str(
                "use unix:///path, memif:///path, tcp://host:port, udp://host:port, ether://[address%interface], \
                 kernel:// or ndndpdk://host:port",
            ),
        }
    }
}

impl std::error::Error for BadRouter {}

/// The routers to try, in order. A router that was named (by the `caller`, then `NAMELY_ROUTER`,
/// then `NDN_CLIENT_TRANSPORT`) is the only one; otherwise what a `client.conf` names goes before
/// the usual places, where shared memory goes before the Unix socket, and the kernel's forwarder,
/// if it is loaded, comes last: a router nearby may have routes that the kernel has not. `read`
/// returns a file's text, if there is one.
///
/// # Errors
/// [`BadRouter`]: the first of these that names a router names none to which a client can connect.
pub(crate) fn candidates(
    caller: Option<&str>,
    surroundings: &Surroundings,
    read: impl Fn(&Path) -> Option<String>,
) -> Result<Vec<Candidate>, BadRouter> {
    let named = [
        (caller, NamedBy::Caller),
        (surroundings.namely_router.as_deref(), NamedBy::Variable(ROUTER_VARIABLE)),
        (surroundings.ndn_client_transport.as_deref(), NamedBy::Variable(NDN_TRANSPORT_VARIABLE)),
    ];
    if let Some((uri, named_by)) = named.into_iter().find_map(|(uri, by)| Some((uri?, by))) {
        return Ok(vec![candidate(uri, named_by)?]);
    }
    let mut found: Vec<Candidate> = client_conf(surroundings, read)?.into_iter().collect();
    for path in &surroundings.sockets {
        let uris = [
            paths::memif_beside(path).to_str().map(|path| FaceUri::Memif { path: path.to_owned(), id: 0 }),
            path.to_str().map(|path| FaceUri::Unix(path.to_owned())),
        ];
        found.extend(uris.into_iter().flatten().map(|uri| Candidate { uri, named_by: NamedBy::UsualPlace }));
    }
    if surroundings.has_kernel {
        found.push(Candidate { uri: FaceUri::Kernel, named_by: NamedBy::UsualPlace });
    }
    Ok(found)
}

/// Parses `uri` as the address of a router.
fn candidate(uri: &str, named_by: NamedBy) -> Result<Candidate, BadRouter> {
    match uri.parse() {
        Ok(
            uri @ (FaceUri::Unix(_)
            | FaceUri::Memif { .. }
            | FaceUri::Tcp(_)
            | FaceUri::Udp(_)
            | FaceUri::Kernel
            | FaceUri::NdnDpdk { .. }),
        ) => Ok(Candidate { uri, named_by }),
        Ok(uri @ FaceUri::Station { .. }) if !is_group(&uri) => Ok(Candidate { uri, named_by }),
        Ok(_) => Err(BadRouter { uri: uri.to_owned(), named_by, reason: None }),
        Err(reason) => Err(BadRouter { uri: uri.to_owned(), named_by, reason: Some(reason) }),
    }
}

fn is_group(uri: &FaceUri) -> bool {
    matches!(uri, FaceUri::Station { address, .. } if address.is_group())
}

/// The `transport` of the first `client.conf` that exists, as ndn-cxx looks for it: a file of
/// `key=value` lines with comments after `;`.
fn client_conf(
    surroundings: &Surroundings,
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
        return transports.next_back().map(|uri| candidate(uri, NamedBy::ClientConf(path))).transpose();
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
    fn the_caller_goes_before_the_variables_and_a_named_router_is_the_only_one() {
        let mut surroundings = Surroundings {
            namely_router: Some("unix:///a".into()),
            ndn_client_transport: Some("unix:///b".into()),
            sockets: vec!["/run/c.sock".into()],
            ..Surroundings::default()
        };
        let found =
            |flag, surroundings: &Surroundings| uris(&candidates(flag, surroundings, |_| None).unwrap());
        assert_eq!(found(Some("tcp://localhost"), &surroundings), ["tcp://localhost:6363"]);
        assert_eq!(found(None, &surroundings), ["unix:///a"]);
        surroundings.namely_router = None;
        assert_eq!(found(None, &surroundings), ["unix:///b"]);
    }

    #[test]
    fn without_a_name_client_conf_goes_before_the_usual_places() {
        let surroundings = Surroundings {
            home: Some("/home/u".into()),
            sockets: vec!["/run/a.sock".into(), "/run/b.sock".into()],
            ..Surroundings::default()
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
        assert_eq!(found[0].named_by, NamedBy::ClientConf("/home/u/.ndn/client.conf".into()));
    }

    #[test]
    fn the_kernel_is_asked_when_nothing_nearer_is_and_where_it_is_named() {
        let mut surroundings =
            Surroundings { sockets: vec!["/run/a.sock".into()], ..Surroundings::default() };
        let last = |surroundings: &Surroundings| {
            uris(&candidates(None, surroundings, |_| None).unwrap()).pop().unwrap()
        };
        assert_eq!(last(&surroundings), "unix:///run/a.sock");
        surroundings.has_kernel = true;
        assert_eq!(last(&surroundings), "kernel://");
        assert_eq!(uris(&candidates(Some("kernel://"), &surroundings, |_| None).unwrap()), ["kernel://"]);
    }

    #[test]
    fn text_that_names_no_router_is_refused_with_its_origin() {
        for uri in [
            "",
            "unix://",
            "/run/x",
            "dev://eth0",
            "internal://",
            "ether://[02:00:00:00:00:01]",
            "ether://[01:00:5e:00:17:aa%eth0]",
        ] {
            let refused = candidates(Some(uri), &Surroundings::default(), |_| None).unwrap_err();
            let text = refused.to_string();
            assert!(refused.named_by == NamedBy::Caller && text.contains(uri), "{text}");
            assert!(!text.contains("--"), "{text}");
            let surroundings =
                Surroundings { namely_router: Some(uri.to_owned()), ..Surroundings::default() };
            let refused = candidates(None, &surroundings, |_| None).unwrap_err().to_string();
            assert!(refused.contains(ROUTER_VARIABLE), "{refused}");
        }
    }
}

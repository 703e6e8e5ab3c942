//! Authorization of requests: the token, the host name by which a browser addresses the page, and
//! the permissions of the page in a browser.
//!
//! `namely_host::web` decides the hosts and sites that may be named.

use std::net::SocketAddr;
use std::sync::{PoisonError, RwLock};

use http::header::{self, HeaderValue};
use http::{HeaderMap, Request};
use namely_host::web::{PageHosts, PageRefusal};

/// The permissions of the page in a browser: only content of this server, no inline scripts or
/// styles, in no frame.
const CSP: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'",
);

/// Decides whether a request is authorized.
#[derive(Debug)]
pub(crate) struct Guard {
    token: String,
    hosts: RwLock<PageHosts>,
    reading_needs_token: bool,
}

/// The reason for which a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is not for this page, or a page of another site sent it.
    Page(PageRefusal),
    /// It has no token, or another.
    Token,
}

impl Guard {
    /// A guard with a new token; `None` if the system has no randomness.
    pub(crate) fn new(address: SocketAddr, hosts: PageHosts) -> Option<Self> {
        let octets = namely_host::random::<16>().ok()?;
        let token = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        let reading_needs_token = !is_loopback(address);
        Some(Guard { token, hosts: RwLock::new(hosts), reading_needs_token })
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Changes the hosts by which browsers may address the page.
    pub(crate) fn set_hosts(&self, hosts: PageHosts) {
        *self.hosts.write().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    pub(crate) fn reading_needs_token(&self) -> bool {
        self.reading_needs_token
    }

    /// Checks that a request is addressed to this page, and was sent by this page or by no page.
    pub(crate) fn check_host<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let fields = request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        hosts.check(&request.uri().to_string(), fields).map_err(Refusal::Page)
    }

    /// Checks that a request may read the routers' state.
    pub(crate) fn check_reading(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.reading_needs_token { self.check_token(headers) } else { Ok(()) }
    }

    /// Checks that a request has the token.
    pub(crate) fn check_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let given = given.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
        // Hashes are compared in constant time, and reveal nothing of how much of a token is right.
        if blake3::hash(given) == blake3::hash(self.token.as_bytes()) { Ok(()) } else { Err(Refusal::Token) }
    }
}

/// Returns true if only programs of this machine reach `address`.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Sets the headers of every response.
pub(crate) fn harden(headers: &mut HeaderMap) {
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, CSP),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    for (name, value) in fixed {
        headers.insert(name, value);
    }
    for name in ["cross-origin-resource-policy", "cross-origin-opener-policy"] {
        headers.insert(name, HeaderValue::from_static("same-origin"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn foreign_hosts_and_sites_are_refused() {
        let guard =
            Guard::new(([127, 0, 0, 1], 9465).into(), PageHosts::new(vec!["lab.example".into()])).unwrap();
        for (target, host, field, checked) in [
            ("/", "lab.example:80", None, Ok(())),
            ("http://lab.example:80/", "lab.example:80", None, Ok(())),
            ("http://evil.example/", "lab.example:80", None, Err(PageRefusal::Host)),
            ("/", "[::1]@evil.example", None, Err(PageRefusal::Host)),
            ("/", "localhost:1", Some(("origin", "http://evil.example")), Err(PageRefusal::Site)),
            ("/", "localhost:1", Some(("sec-fetch-site", "cross-site")), Err(PageRefusal::Site)),
        ] {
            let mut request = Request::builder().uri(target).header(header::HOST, host);
            if let Some((name, value)) = field {
                request = request.header(name, value);
            }
            let checked = checked.map_err(Refusal::Page);
            assert_eq!(guard.check_host(&request.body(()).unwrap()), checked, "{target} {host} {field:?}");
        }
    }

    #[test]
    fn remote_reading_needs_the_token() {
        for (address, is_needed) in
            [("127.0.0.1:1", false), ("[::1]:1", false), ("0.0.0.0:1", true), ("192.0.2.1:1", true)]
        {
            let guard = Guard::new(address.parse().unwrap(), PageHosts::default()).unwrap();
            assert_eq!(guard.check_reading(&HeaderMap::new()).is_err(), is_needed, "{address}");
            let right = headers(&[(header::AUTHORIZATION, &format!("Bearer {}", guard.token()))]);
            assert_eq!((guard.check_reading(&right), guard.check_token(&right)), (Ok(()), Ok(())));
            for wrong in ["Bearer ", "Bearer 0", "Basic x", &format!("Bearer {}0", guard.token())] {
                let wrong = headers(&[(header::AUTHORIZATION, wrong)]);
                assert_eq!(guard.check_token(&wrong), Err(Refusal::Token));
            }
        }
    }
}

//! Who may ask: the token, the host that a browser believes to talk to, and what a browser may do
//! with the page.
//!
//! A page of another site can have a browser send requests here, and by changing what its own name
//! resolves to (DNS rebinding) read the answers. So a request must name an address, `localhost` or
//! a name that the operator gave: what a name resolves to is nobody's secret.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::header::{self, HeaderValue};

/// What a browser may do with the page: nothing but what comes from here, no scripts or styles in
/// the text, in no frame.
const CSP: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'",
);

/// Who may ask, and for what.
#[derive(Debug)]
pub(crate) struct Guard {
    token: String,
    hosts: Vec<String>,
    reading_needs_token: bool,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It names no host, or several.
    NoHost,
    /// It names a host that may not be this one.
    Host,
    /// A page of another site sent it.
    Origin,
    /// It has no token, or another.
    Token,
}

impl Guard {
    /// A guard with a new token; `None` if the system has no randomness.
    pub(crate) fn new(address: SocketAddr, hosts: Vec<String>) -> Option<Self> {
        let octets = namely_host::random::<16>().ok()?;
        let token = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        Some(Guard { token, hosts, reading_needs_token: !address.ip().to_canonical().is_loopback() })
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn reading_needs_token(&self) -> bool {
        self.reading_needs_token
    }

    /// Whether the host that a request names may be this one.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut named = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else { return Err(Refusal::NoHost) };
        let host = host.to_str().map_err(|_| Refusal::Host)?;
        if !self.is_ours(host) {
            return Err(Refusal::Host);
        }
        // Browsers say which page has a request sent; other programs say nothing.
        match headers.get(header::ORIGIN) {
            Some(origin) if origin.as_bytes() != format!("http://{host}").as_bytes() => Err(Refusal::Origin),
            _ => Ok(()),
        }
    }

    fn is_ours(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
            None => host.split_once(':').map_or(host, |(name, _)| name),
        };
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(name))
    }

    /// Whether a request may read what the routers tell.
    pub(crate) fn check_reading(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.reading_needs_token { self.check_token(headers) } else { Ok(()) }
    }

    /// Whether a request has the token.
    pub(crate) fn check_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let given = given.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
        // Hashes are compared in constant time, and tell nothing of how much of a token is right.
        if blake3::hash(given) == blake3::hash(self.token.as_bytes()) { Ok(()) } else { Err(Refusal::Token) }
    }
}

/// What every answer says.
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
    fn a_host_is_an_address_localhost_or_a_name_that_was_given() {
        let guard = Guard::new(([127, 0, 0, 1], 9465).into(), vec!["lab.example".into()]).unwrap();
        for host in
            ["127.0.0.1:9465", "localhost:1", "LocalHost", "[::1]:9465", "192.0.2.1", "lab.example:80"]
        {
            assert_eq!(guard.check_host(&headers(&[(header::HOST, host)])), Ok(()), "{host}");
        }
        for host in
            ["evil.example:9465", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "[x]:1"]
        {
            assert_eq!(guard.check_host(&headers(&[(header::HOST, host)])), Err(Refusal::Host), "{host}");
        }
        assert_eq!(guard.check_host(&headers(&[])), Err(Refusal::NoHost));
        let mut twice = headers(&[(header::HOST, "localhost")]);
        twice.append(header::HOST, HeaderValue::from_static("localhost"));
        assert_eq!(guard.check_host(&twice), Err(Refusal::NoHost));
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        let guard = Guard::new(([127, 0, 0, 1], 9465).into(), Vec::new()).unwrap();
        for (origin, is_right) in [
            ("http://localhost:1", true),
            ("http://evil.example", false),
            ("null", false),
            ("http://localhost:2", false),
        ] {
            let headers = headers(&[(header::HOST, "localhost:1"), (header::ORIGIN, origin)]);
            assert_eq!(guard.check_host(&headers).is_ok(), is_right, "{origin}");
        }
    }

    #[test]
    fn the_token_is_asked_for_by_others_for_reading_too() {
        for (address, is_needed) in
            [("127.0.0.1:1", false), ("[::1]:1", false), ("0.0.0.0:1", true), ("192.0.2.1:1", true)]
        {
            let guard = Guard::new(address.parse().unwrap(), Vec::new()).unwrap();
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

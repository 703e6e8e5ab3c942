//! The filter for requests to a page that this machine serves. Pages of other sites can make
//! browsers send such requests.
//!
//! A page of another site can have a browser send requests here, and can read the answers if it
//! changes the address of its own name (DNS rebinding). A request must therefore name an address,
//! `localhost` or a configured name, because any site can make its own name resolve to this
//! machine. If the browser reports that a page of another site sent the request, it is not
//! answered.

use std::net::{IpAddr, Ipv6Addr};

/// The names by which browsers may call a page, beside addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub struct PageHosts {
    names: Vec<String>,
    is_encrypted: bool,
}

/// The reason for which a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRefusal {
    /// It names no host, or several.
    NoHost,
    /// It names a host that may not be this machine.
    Host,
    /// A page of another site sent it.
    Site,
}

impl PageHosts {
    /// Permits `names`, besides addresses and `localhost`.
    pub fn new(names: Vec<String>) -> Self {
        PageHosts { names, is_encrypted: false }
    }

    /// Declares that the page is served over TLS: its own origin begins with `https`.
    pub fn over_tls(self) -> Self {
        PageHosts { is_encrypted: true, ..self }
    }

    fn scheme(&self) -> &'static str {
        if self.is_encrypted { "https" } else { "http" }
    }

    /// Checks whether a request for `target` (RFC 9112, 3.2) with these header fields may be
    /// answered.
    ///
    /// # Errors
    /// The peer's fault, or that of a page in its browser.
    pub fn check<'a>(
        &self,
        target: &str,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<(), PageRefusal> {
        let (mut host, mut origins, mut sites) = (None, Vec::new(), Vec::new());
        for (name, value) in fields {
            if name.eq_ignore_ascii_case("host") && host.replace(value).is_some() {
                return Err(PageRefusal::NoHost);
            } else if name.eq_ignore_ascii_case("origin") {
                origins.push(value);
            } else if name.eq_ignore_ascii_case("sec-fetch-site") {
                sites.push(value);
            }
        }
        // RFC 9112, 3.2: a request has one Host.
        let host = std::str::from_utf8(host.ok_or(PageRefusal::NoHost)?).map_err(|_| PageRefusal::Host)?;
        if !self.has(host) {
            return Err(PageRefusal::Host);
        }
        // An absolute target stands for Host (RFC 9112, 3.2.2): the two must be equal.
        if let Some((scheme, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            if !scheme.eq_ignore_ascii_case(self.scheme()) || !authority.eq_ignore_ascii_case(host) {
                return Err(PageRefusal::Host);
            }
        }
        // Browsers send the origin of a request; other programs do not.
        let is_foreign = origins.into_iter().any(|origin| !self.is_origin(origin, host))
            || sites.into_iter().any(|site| site != b"same-origin" && site != b"none");
        if is_foreign { Err(PageRefusal::Site) } else { Ok(()) }
    }

    /// Returns true if `authority` (RFC 3986, 3.2) is an address, `localhost` or one of the names,
    /// with or without a port, and nothing more.
    fn has(&self, authority: &str) -> bool {
        let Some((name, port)) = parts(authority) else { return false };
        let is_port = port.is_none_or(|port| {
            port.is_empty() || port.bytes().all(|octet| octet.is_ascii_digit()) && port.parse::<u16>().is_ok()
        });
        is_port
            && match name {
                Named::V6(address) => address.parse::<Ipv6Addr>().is_ok(),
                Named::Other(name) => {
                    name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4())
                        || name.eq_ignore_ascii_case("localhost")
                        || self.names.iter().any(|ours| ours.eq_ignore_ascii_case(name))
                }
            }
    }

    /// Returns true if `origin` is that of the page itself, at `host`.
    fn is_origin(&self, origin: &[u8], host: &str) -> bool {
        let authority = origin.strip_prefix(self.scheme().as_bytes());
        authority
            .and_then(|rest| rest.strip_prefix(b"://"))
            .is_some_and(|origin| origin.eq_ignore_ascii_case(host.as_bytes()))
    }
}

/// The host of an authority.
enum Named<'a> {
    /// The text between brackets.
    V6(&'a str),
    Other(&'a str),
}

/// Returns the host of an authority, and its port if it has one.
fn parts(authority: &str) -> Option<(Named<'_>, Option<&str>)> {
    let (named, rest) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(address, rest)| (Named::V6(address), rest))?,
        None => {
            let (name, rest) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            (Named::Other(name), rest)
        }
    };
    match rest.strip_prefix(':') {
        Some(port) => Some((named, Some(port))),
        None if rest.is_empty() => Some((named, None)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PageRefusal::{Host, NoHost, Site};

    fn check(target: &str, fields: &[(&str, &str)]) -> Result<(), PageRefusal> {
        let hosts = PageHosts::new(vec!["lab.example".into()]);
        hosts.check(target, fields.iter().map(|(name, value)| (*name, value.as_bytes())))
    }

    #[test]
    fn only_known_web_hosts_are_accepted() {
        for host in [
            "127.0.0.1:9465",
            "localhost:1",
            "LocalHost",
            "localhost:",
            "[::1]:9465",
            "[2001:db8::1]",
            "192.0.2.1",
            "lab.example:80",
        ] {
            assert_eq!(check("/", &[("Host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example:9465",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "[::1",
            "[x]:1",
            "[127.0.0.1]",
            "::1",
            "[::1].evil.example",
            "[::1]@evil.example",
            "localhost:1@evil.example",
            "localhost@evil.example",
            "evil.example@localhost",
            "localhost:65536",
            "localhost:1:2",
            "localhost:+1",
            "localhost/",
            "localhost ",
            "lab.example.evil.example",
        ] {
            assert_eq!(check("/", &[("host", host)]), Err(Host), "{host}");
        }
        assert_eq!(check("/", &[]), Err(NoHost));
        assert_eq!(check("/", &[("host", "localhost"), ("Host", "localhost")]), Err(NoHost));
    }

    #[test]
    fn an_absolute_target_is_checked_by_host() {
        for (target, checked) in [
            ("http://localhost:1/metrics", Ok(())),
            ("HTTP://LOCALHOST:1", Ok(())),
            ("http://localhost:1?x", Ok(())),
            ("http://evil.example/metrics", Err(Host)),
            ("http://localhost:1@evil.example/", Err(Host)),
            ("http://localhost/", Err(Host)),
            ("https://localhost:1/", Err(Host)),
            ("/http://evil.example", Ok(())),
        ] {
            assert_eq!(check(target, &[("Host", "localhost:1")]), checked, "{target}");
        }
    }

    #[test]
    fn a_request_from_another_site_is_refused() {
        for (field, value, checked) in [
            ("Origin", "http://localhost:1", Ok(())),
            ("Origin", "http://evil.example", Err(Site)),
            ("origin", "null", Err(Site)),
            ("Origin", "http://localhost:2", Err(Site)),
            ("Sec-Fetch-Site", "same-origin", Ok(())),
            ("Sec-Fetch-Site", "none", Ok(())),
            ("sec-fetch-site", "cross-site", Err(Site)),
            ("Sec-Fetch-Site", "same-site", Err(Site)),
            ("Sec-Fetch-Site", "", Err(Site)),
        ] {
            assert_eq!(check("/", &[("Host", "localhost:1"), (field, value)]), checked, "{field}: {value}");
        }
    }

    #[test]
    fn over_tls_the_own_origin_is_https() {
        let hosts = PageHosts::new(Vec::new()).over_tls();
        for (target, origin, checked) in [
            ("/", "https://localhost:1", Ok(())),
            ("/", "http://localhost:1", Err(Site)),
            ("/", "https://localhost:2", Err(Site)),
            ("https://localhost:1/", "https://localhost:1", Ok(())),
            ("http://localhost:1/", "https://localhost:1", Err(Host)),
        ] {
            let fields = [("Host", "localhost:1"), ("Origin", origin)];
            let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
            assert_eq!(hosts.check(target, fields), checked, "{target} {origin}");
        }
    }
}

//! Which requests a page that this machine serves may answer, though browsers are made to ask by
//! pages of other sites.
//!
//! A page of another site can have a browser send requests here, and by changing what its own name
//! resolves to (DNS rebinding) read the answers. So a request must name an address, `localhost` or
//! a name that the operator gave: what a name resolves to is nobody's secret. And where a browser
//! says that a page of another site asks, nothing is answered.

use std::net::{IpAddr, Ipv6Addr};

/// The names by which browsers may call a page, beside addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub struct PageHosts(Vec<String>);

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRefusal {
    /// It names no host, or several.
    NoHost,
    /// It names a host that may not be this one.
    Host,
    /// A page of another site sent it.
    Site,
}

impl PageHosts {
    /// These, and addresses and `localhost`.
    pub fn new(names: Vec<String>) -> Self {
        PageHosts(names)
    }

    /// Whether a request may be answered that is for `target` (RFC 9112, 3.2) and has these header
    /// fields.
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
        // An absolute target stands for Host (RFC 9112, 3.2.2): the two must say the same.
        if let Some((scheme, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) {
            let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
            if !scheme.eq_ignore_ascii_case("http") || !authority.eq_ignore_ascii_case(host) {
                return Err(PageRefusal::Host);
            }
        }
        // Browsers say which page has a request sent; other programs say nothing.
        let is_foreign = origins.into_iter().any(|origin| !is_origin(origin, host))
            || sites.into_iter().any(|site| site != b"same-origin" && site != b"none");
        if is_foreign { Err(PageRefusal::Site) } else { Ok(()) }
    }

    /// Whether `authority` (RFC 3986, 3.2) is an address, `localhost` or one of the names, with a
    /// port or without, and nothing more.
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
                        || self.0.iter().any(|ours| ours.eq_ignore_ascii_case(name))
                }
            }
    }
}

/// Whether `origin` is that of the page itself, which is at `host`.
fn is_origin(origin: &[u8], host: &str) -> bool {
    origin.strip_prefix(b"http://").is_some_and(|origin| origin.eq_ignore_ascii_case(host.as_bytes()))
}

/// What an authority names.
enum Named<'a> {
    /// What is between brackets.
    V6(&'a str),
    Other(&'a str),
}

/// The host of an authority, and its port where it has one.
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
    fn a_host_is_an_address_localhost_or_a_name_that_was_given() {
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
    fn an_absolute_target_names_the_same_host() {
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
    fn a_page_of_another_site_is_refused() {
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
}

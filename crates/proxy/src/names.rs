//! Mapping of HTTP resources to names and back (docs/proxy.md). Pure; uses no socket.
//!
//! `http://host:port/a/b%20c?x=1` is `<prefix>/host:port/a/b c/32=query/x=1`: one component for
//! each path segment, percent-decoded, so that a name prefix is a folder of the site. An empty
//! segment is an empty component, so that `/a` and `/a/` differ.
//!
//! A proxy must not modify the path (RFC 9110, 7.7), and an origin may distinguish `%2B` from `+`.
//! A segment with escapes that this gateway would write otherwise is therefore a component as it
//! was received, after the keyword `path`: two URLs are two names.

use http::Uri;
use http::uri::Authority;
use namely_wire::types::GENERIC_COMPONENT;
use namely_wire::{Component, Name, NameRef};

/// The keyword component before a query string.
pub const QUERY_KEYWORD: &[u8] = b"query";

/// The keyword component before a path segment in its own spelling.
const SEGMENT_KEYWORD: &[u8] = b"path";

/// Octets of a path segment that need no escape (RFC 3986, `pchar` without the percent sign).
const SEGMENT_OCTETS: &[u8] = b"-._~!$&'()*+,;=:@";

/// A URL has no name. All reasons are faults of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The URL names no host, and the request had no Host either.
    #[error("the request names no host: send Host, or the whole URL")]
    NoHost,
    /// A percent sign is not followed by two hexadecimal digits.
    #[error("the URL has a percent sign without two hexadecimal digits after it")]
    BadEscape,
    /// The URL has user and password, which would be visible in the name.
    #[error("user and password in a URL would be in a public name")]
    Credentials,
}

/// Returns the name of `uri` below `prefix`. `host` is the request's Host, for a URI without a
/// host.
///
/// # Errors
/// No name can represent the URL's host or path, or the name would be too long.
pub fn name_of(prefix: NameRef<'_>, uri: &Uri, host: Option<&str>) -> Result<Name, UrlError> {
    let authority = match (uri.authority(), host) {
        (Some(authority), _) => authority.as_str(),
        (None, Some(host)) => host,
        (None, None) => return Err(UrlError::NoHost),
    };
    let authority: Authority = authority.parse().map_err(|_| UrlError::NoHost)?;
    if authority.as_str().contains('@') {
        return Err(UrlError::Credentials);
    }
    let site = prefix.to_name().join_generic(authority_text(&authority).as_bytes());
    below(site.as_name(), uri)
}

/// Returns the name of `uri`'s path and query below the name of a site.
///
/// # Errors
/// No name can represent the path, or the name would be too long.
pub fn below(site: NameRef<'_>, uri: &Uri) -> Result<Name, UrlError> {
    let mut name = site.to_name();
    let path = uri.path();
    for segment in path.strip_prefix('/').unwrap_or(path).split('/') {
        name = match plain(segment)? {
            Some(octets) => name.join_generic(octets),
            None => name.join(Component::keyword(SEGMENT_KEYWORD)).join_generic(segment.as_bytes()),
        };
    }
    if let Some(query) = uri.query() {
        name = name.join(Component::keyword(QUERY_KEYWORD)).join_generic(query.as_bytes());
    }
    Ok(name)
}

/// Returns the octets of `segment`, from which [`escape`] makes the same text; none if it has
/// another spelling.
fn plain(segment: &str) -> Result<Option<Vec<u8>>, UrlError> {
    let octets = unescape(segment)?;
    let mut usual = String::with_capacity(segment.len());
    escape(&octets, &mut usual);
    Ok((usual == segment).then_some(octets))
}

/// Returns the path segment that a name holds in its own spelling, if a URL can have it.
fn spelled(segment: Component<'_>) -> Option<&str> {
    let text = std::str::from_utf8(segment.value).ok().filter(|_| segment.typ == GENERIC_COMPONENT)?;
    let is_one = !text.bytes().any(|b| b.is_ascii_control() || b" /?#".contains(&b));
    // A segment in the usual spelling has another name.
    (is_one && plain(text) == Ok(None)).then_some(text)
}

/// Returns host and port in the form of a component: lower case, without HTTP's default port.
fn authority_text(authority: &Authority) -> String {
    let host = authority.host().to_ascii_lowercase();
    match authority.port_u16() {
        Some(port) if port != 80 => format!("{host}:{port}"),
        _ => host,
    }
}

/// Returns path and query of a resource from `rest`, the components after the site's; none if no
/// URL has that name.
pub fn path_and_query<'a>(rest: impl IntoIterator<Item = Component<'a>>) -> Option<String> {
    let mut text = String::new();
    let mut components = rest.into_iter();
    while let Some(component) = components.next() {
        if component == Component::keyword(QUERY_KEYWORD) {
            let query = components.next().filter(|c| c.typ == GENERIC_COMPONENT)?;
            let query = std::str::from_utf8(query.value).ok()?;
            let plain = query.bytes().all(|b| b.is_ascii_graphic() && !b"#\"<>".contains(&b));
            return (plain && !text.is_empty() && components.next().is_none())
                .then(|| format!("{text}?{query}"));
        }
        if component == Component::keyword(SEGMENT_KEYWORD) {
            text.push('/');
            text.push_str(spelled(components.next()?)?);
            continue;
        }
        if component.typ != GENERIC_COMPONENT {
            return None;
        }
        text.push('/');
        escape(component.value, &mut text);
    }
    (!text.is_empty()).then_some(text)
}

fn escape(segment: &[u8], text: &mut String) {
    for &octet in segment {
        if octet.is_ascii_alphanumeric() || SEGMENT_OCTETS.contains(&octet) {
            text.push(char::from(octet));
        } else {
            text.push_str(&format!("%{octet:02X}"));
        }
    }
}

fn unescape(segment: &str) -> Result<Vec<u8>, UrlError> {
    let mut octets = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(octet) = rest.next() {
        if octet != b'%' {
            octets.push(octet);
            continue;
        }
        let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16)).ok_or(UrlError::BadEscape);
        octets.push((digit()? * 16 + digit()?) as u8);
    }
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(url: &str) -> Result<String, UrlError> {
        let prefix: Name = "/http".parse().unwrap();
        name_of(prefix.as_name(), &url.parse().unwrap(), Some("Fallback.example"))
            .map(|name| name.to_string())
    }

    #[test]
    fn a_url_name_has_host_path_and_query() {
        for (url, name) in [
            ("http://Video.example/live/1.m3u8", "/http/video.example/live/1.m3u8"),
            ("http://video.example:80/live/", "/http/video.example/live/..."),
            ("http://video.example:8080/", "/http/video.example:8080/..."),
            ("http://video.example", "/http/video.example/..."),
            ("/a%20b/c?x=1&y=%2F", "/http/fallback.example/a%20b/c/32=query/x%3D1%26y%3D%252F"),
            ("http://[::1]:8000/a", "/http/%5B%3A%3A1%5D%3A8000/a"),
            ("http://h/a+b", "/http/h/a%2Bb"),
            ("http://h/a%2Bb", "/http/h/32=path/a%252Bb"),
            ("http://h/%2e/x%2fy/z", "/http/h/32=path/%252e/32=path/x%252fy/z"),
            ("http://h/x", "/http/h/x"),
            ("http://h/x?", "/http/h/x/32=query/..."),
        ] {
            let expected: Name = name.parse().unwrap();
            assert_eq!(named(url), Ok(expected.to_string()), "{url}");
        }
    }

    #[test]
    fn invalid_urls_have_no_name() {
        assert_eq!(named("http://user:secret@h.example/"), Err(UrlError::Credentials));
        assert_eq!(named("/a%2"), Err(UrlError::BadEscape));
        assert_eq!(named("/a%zz"), Err(UrlError::BadEscape));
        let prefix: Name = "/http".parse().unwrap();
        assert_eq!(name_of(prefix.as_name(), &"/a".parse().unwrap(), None), Err(UrlError::NoHost));
    }

    #[test]
    fn names_outside_the_url_scheme_give_none() {
        for name in [
            "/",
            "/32=query/x",
            "/a/32=query",
            "/a/32=query/x/y",
            "/a/v=1",
            "/a/32=query/x%20y",
            "/a/32=path",
            "/32=path/a",
            "/32=path/%2541%2Fb",
            "/32=path/%2541%3F",
            "/32=path/v=1",
            "/32=path/%2541%0D%0A",
            "/32=path/%252",
        ] {
            assert_eq!(path_and_query(name.parse::<Name>().unwrap().components()), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn every_url_path_survives_a_round_trip(text in "(/([a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2}){0,6}){1,5}([?][a-z=&%0-9/?]{0,12})?") {
            let site: Name = "/s".parse().unwrap();
            let name = below(site.as_name(), &text.parse().unwrap()).unwrap();
            prop_assert_eq!(path_and_query(name.components().skip(1)), Some(text));
        }

        #[test]
        fn octets_in_the_usual_spelling_are_one_component(segment in proptest::collection::vec(any::<u8>(), 0..9)) {
            let mut text = "/".to_owned();
            escape(&segment, &mut text);
            let name = below(NameRef::default(), &text.parse().unwrap()).unwrap();
            prop_assert_eq!(name, Name::new().join_generic(&segment));
        }
    }
}

//! Freshness of a response in caches: Cache-Control and Expires as a shared cache reads them (RFC
//! 9111, 4.2.1 and 5.2.2), because every router on the path is a shared cache. Pure.

use std::time::Duration;

use http::header::{self, HeaderMap};
use http::{Response, StatusCode};

/// Maximum freshness, regardless of the origin: a day.
pub const FRESHNESS_MAX: Duration = Duration::from_secs(86_400);

/// Rules for caching a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The response is for one client only (private, no-store, Set-Cookie, Vary on the client). It
    /// must not become an object.
    Private,
    /// Caches may store the response, and may answer with it for this time without a new request to
    /// the origin. Zero requires a request each time.
    For(Duration),
}

/// Returns the freshness of a response; `unless_said` if the origin sets none.
pub fn of<B>(response: &Response<B>, unless_said: Duration) -> Freshness {
    let headers = response.headers();
    if headers.contains_key(header::SET_COOKIE) || varies_by_client(headers) {
        return Freshness::Private;
    }
    let mut shared = None;
    let mut plain = None;
    let mut no_cache = false;
    for directive in list(headers, &header::CACHE_CONTROL) {
        let (name, value) = directive.split_once('=').unwrap_or((&directive, ""));
        let seconds = || value.trim_matches('"').parse().ok().map(Duration::from_secs);
        match name.trim() {
            "no-store" | "private" => return Freshness::Private,
            "no-cache" => no_cache = true,
            // An unreadable value means stale (4.2.1).
            "s-maxage" => shared = Some(seconds().unwrap_or(Duration::ZERO)),
            "max-age" => plain = Some(seconds().unwrap_or(Duration::ZERO)),
            _ => {}
        }
    }
    if no_cache {
        return Freshness::For(Duration::ZERO);
    }
    let said = shared.or(plain).or_else(|| until_expires(headers));
    let lifetime = said.unwrap_or(if is_cacheable(response.status()) { unless_said } else { Duration::ZERO });
    let age =
        headers.get(header::AGE).and_then(|age| age.to_str().ok()?.parse().ok()).map(Duration::from_secs);
    Freshness::For(lifetime.saturating_sub(age.unwrap_or_default()).min(FRESHNESS_MAX))
}

/// Returns true for statuses that a cache may store by default (RFC 9110, 15.1). 501 is left out:
/// an error of a server is stored only where the server permits it.
fn is_cacheable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414)
}

/// Returns true if the response depends on request headers that no name carries. The gateway
/// requests encodings and languages in one way only, so every client receives the same.
fn varies_by_client(headers: &HeaderMap) -> bool {
    list(headers, &header::VARY).any(|name| {
        !matches!(&*name, "accept-encoding" | "accept-language" | "accept" | "origin" | "user-agent")
    })
}

fn until_expires(headers: &HeaderMap) -> Option<Duration> {
    let date =
        |name| headers.get(name).and_then(|value| httpdate::parse_http_date(value.to_str().ok()?).ok());
    headers.get(header::EXPIRES)?;
    let (Some(expires), Some(now)) = (date(header::EXPIRES), date(header::DATE)) else {
        return Some(Duration::ZERO);
    };
    Some(expires.duration_since(now).unwrap_or_default())
}

fn list(headers: &HeaderMap, name: &header::HeaderName) -> impl Iterator<Item = String> {
    let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(|word| word.trim().to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freshness(status: u16, lines: &[(&str, &str)]) -> Freshness {
        let mut response = Response::builder().status(status);
        for (name, value) in lines {
            response = response.header(*name, *value);
        }
        of(&response.body(()).unwrap(), Duration::from_secs(1))
    }

    #[test]
    fn shared_freshness_follows_header_precedence() {
        let date = ("date", "Sat, 21 Nov 2026 15:00:00 GMT");
        let expires = ("expires", "Sat, 21 Nov 2026 15:00:30 GMT");
        for (lines, seconds) in [
            (&[("cache-control", "max-age=60, s-maxage=10")][..], 10),
            (&[("cache-control", "public, Max-Age=60"), expires, date], 60),
            (&[("cache-control", "max-age=60"), ("age", "20")], 40),
            (&[("cache-control", "max-age=60"), ("age", "70")], 0),
            (&[("cache-control", "max-age=x")], 0),
            (&[("cache-control", "max-age=60, no-cache")], 0),
            (&[expires, date], 30),
            (&[("expires", "0"), date], 0),
            (&[("cache-control", "max-age=99999999")], 86_400),
            (&[("vary", "Accept-Encoding, Origin")], 1),
            (&[], 1),
        ] {
            assert_eq!(freshness(200, lines), Freshness::For(Duration::from_secs(seconds)), "{lines:?}");
        }
        assert_eq!(freshness(404, &[]), Freshness::For(Duration::from_secs(1)));
        for error in [500, 501, 502, 503, 504] {
            assert_eq!(freshness(error, &[]), Freshness::For(Duration::ZERO));
            let allowed = freshness(error, &[("cache-control", "max-age=60")]);
            assert_eq!(allowed, Freshness::For(Duration::from_secs(60)));
        }
    }

    #[test]
    fn responses_for_one_client_are_private() {
        for line in [
            ("cache-control", "private, max-age=60"),
            ("cache-control", "no-store"),
            ("set-cookie", "id=1"),
            ("vary", "*"),
            ("vary", "Accept-Encoding, Cookie"),
            ("vary", "authorization"),
        ] {
            assert_eq!(freshness(200, &[line]), Freshness::Private, "{line:?}");
        }
    }
}

//! The head of a response, which precedes the body in a named object: an HTTP/1.1 status line and
//! headers (RFC 9112). Only headers that apply to every client are retained. Pure.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

/// Octets of a response head in an object.
///
/// The limit leaves most of the first segment to the body.
///
/// # Limit
/// The answer is 502 with the reason.
/// - Counter: `unusable`
/// - Tests: `a_head_is_limited_in_size`
pub const HEAD_OCTETS_MAX: usize = 4096;

/// Headers in a response head.
///
/// # Limit
/// The answer is 502 with the reason.
/// - Counter: `unusable`
/// - Tests: `a_head_is_limited_in_size`
pub const HEADERS_MAX: usize = 64;

/// Headers that are left out of an object: those of one connection (RFC 9110, 7.6.1), those of one
/// client, and the length, which follows from the object's.
const DROPPED: [HeaderName; 16] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::SET_COOKIE,
    header::WWW_AUTHENTICATE,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::ACCEPT_RANGES,
    header::ALT_SVC,
    header::STRICT_TRANSPORT_SECURITY,
    header::AGE,
    HeaderName::from_static("keep-alive"),
];

/// A head could not be made or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Origin: more than [`HEAD_OCTETS_MAX`] octets or [`HEADERS_MAX`] headers.
    #[error("the response's headers take more than {HEAD_OCTETS_MAX} octets or {HEADERS_MAX} lines")]
    TooLarge,
    /// Peer: the object does not begin with a head.
    #[error("the object is not an HTTP response")]
    Malformed,
}

/// Status and headers of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: StatusCode,
    /// The retained headers.
    pub headers: HeaderMap,
}

impl Head {
    /// Returns a head of `status` for plain text of the proxy itself.
    pub fn text(status: StatusCode) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        Head { status, headers }
    }

    /// Returns the part of an origin's response that goes into an object.
    pub fn of<B>(response: &Response<B>) -> Self {
        let mut headers = response.headers().clone();
        // Headers that Connection names belong to the connection, too.
        let named: Vec<HeaderName> = headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|list| list.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        for name in DROPPED.iter().chain(&named) {
            headers.remove(name);
        }
        Head { status: response.status(), headers }
    }

    /// Encodes the head. The body follows it.
    ///
    /// # Errors
    /// The head is larger than the limit.
    pub fn encode(&self) -> Result<Vec<u8>, HeadError> {
        let mut out = format!("HTTP/1.1 {}\r\n", self.status.as_str()).into_bytes();
        for (name, value) in &self.headers {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        let fits = out.len() <= HEAD_OCTETS_MAX && self.headers.len() <= HEADERS_MAX;
        if fits { Ok(out) } else { Err(HeadError::TooLarge) }
    }

    /// Decodes the head at the start of an object, and returns it with the offset of the body.
    /// `octets` are the object's first [`HEAD_OCTETS_MAX`], or all of a shorter one.
    ///
    /// # Errors
    /// The octets are not a head, or the head exceeds a limit.
    pub fn decode(octets: &[u8]) -> Result<(Self, usize), HeadError> {
        let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut lines);
        let Ok(httparse::Status::Complete(body_at)) = response.parse(octets) else {
            return Err(HeadError::Malformed);
        };
        let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
        let mut headers = HeaderMap::new();
        for line in response.headers.iter() {
            let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| HeadError::Malformed)?;
            let value = HeaderValue::from_bytes(line.value).map_err(|_| HeadError::Malformed)?;
            // An object of another gateway may hold headers that this one leaves out.
            if !DROPPED.contains(&name) {
                headers.append(name, value);
            }
        }
        let status = status.filter(|status| !status.is_informational()).ok_or(HeadError::Malformed)?;
        if body_at > HEAD_OCTETS_MAX {
            return Err(HeadError::TooLarge);
        }
        Ok((Head { status, headers }, body_at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn response(headers: &[(&'static str, &str)]) -> Response<()> {
        let mut response = Response::builder().status(200);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(()).unwrap()
    }

    #[test]
    fn a_head_keeps_only_shared_headers() {
        let head = Head::of(&response(&[
            ("content-type", "video/mp2t"),
            ("etag", "\"a\""),
            ("access-control-allow-origin", "*"),
            ("set-cookie", "id=1"),
            ("content-length", "7"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
        ]));
        let names: Vec<_> = head.headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-type", "etag", "access-control-allow-origin"]);
        let mut octets = head.encode().unwrap();
        let body_at = octets.len();
        octets.extend_from_slice(b"body\r\n\r\n");
        assert_eq!(Head::decode(&octets), Ok((head, body_at)));
    }

    #[test]
    fn a_head_is_limited_in_size() {
        let mut head = Head::text(StatusCode::OK);
        let used = head.encode().unwrap().len() + "x: \r\n".len();
        let filler = |octets| HeaderValue::from_str(&"y".repeat(octets)).unwrap();
        head.headers.insert("x", filler(HEAD_OCTETS_MAX - used));
        assert_eq!(head.encode().map(|octets| octets.len()), Ok(HEAD_OCTETS_MAX));
        assert_eq!(Head::decode(&head.encode().unwrap()).unwrap().1, HEAD_OCTETS_MAX);
        head.headers.insert("x", filler(HEAD_OCTETS_MAX - used + 1));
        assert_eq!(head.encode(), Err(HeadError::TooLarge));
        let mut head = Head { status: StatusCode::OK, headers: HeaderMap::new() };
        for number in 0..HEADERS_MAX {
            head.headers.insert(HeaderName::from_bytes(format!("x{number}").as_bytes()).unwrap(), filler(1));
        }
        assert!(Head::decode(&head.encode().unwrap()).is_ok());
        head.headers.insert("one-more", filler(1));
        assert_eq!(head.encode(), Err(HeadError::TooLarge));
    }

    #[test]
    fn an_invalid_response_head_is_refused() {
        for octets in
            [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200\r\n", b"HTTP/1.1 101\r\n\r\n", b"\x89PNG"]
        {
            assert_eq!(Head::decode(octets), Err(HeadError::Malformed), "{octets:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_octets_never_panic_the_head_decoder(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Head::decode(&octets);
            let _ = Head::decode(&[b"HTTP/1.1 200 OK\r\n", &octets[..]].concat());
        }
    }
}

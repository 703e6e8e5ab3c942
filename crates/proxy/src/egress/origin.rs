//! Requests to an origin: one GET, with limits of time and size.

use std::io;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::uri::{Parts, PathAndQuery, Scheme};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::bodies::{Full, Spool};
use crate::head::HeadError;

/// User-Agent of this gateway.
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("namely/", env!("CARGO_PKG_VERSION")));

/// The origin sent nothing usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OriginError {
    /// The origin could not be reached, or the connection broke.
    #[error("the origin cannot be reached: {0}")]
    Unreachable(String),
    /// The response took longer than the limit.
    #[error("the origin took too long")]
    TooSlow,
    /// The body is larger than the limit, in octets.
    #[error("the origin's response has more than {0} octets")]
    TooLarge(u64),
    /// The response is for one client only.
    #[error("the origin's response is for one client only")]
    Private,
    /// The headers are larger than an object's head may be.
    #[error(transparent)]
    Head(HeadError),
    /// The budget has no room for the body now.
    #[error("too many bodies are under way")]
    Full,
    /// The body could not be spooled; a fault of the system.
    #[error("the response cannot be kept in a temporary file: {0}")]
    Spool(io::ErrorKind),
}

impl From<Full> for OriginError {
    fn from(_: Full) -> Self {
        OriginError::Full
    }
}

type HttpClient = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// A client of origins that reuses connections. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    client: HttpClient,
    /// Connects anew for each request.
    unpooled: HttpClient,
}

/// Returns scheme and host of an origin's URL; none if it has a path, or lacks one of them.
pub(super) fn base(origin: &Uri) -> Option<Uri> {
    let scheme = [Scheme::HTTP, Scheme::HTTPS].iter().any(|scheme| origin.scheme() == Some(scheme));
    let bare = matches!(origin.path(), "" | "/") && origin.query().is_none();
    (scheme && bare && origin.authority().is_some()).then(|| origin.clone())
}

impl Origin {
    pub(super) fn new() -> io::Result<Self> {
        let connector =
            HttpsConnectorBuilder::new().with_native_roots()?.https_or_http().enable_http1().build();
        let mut builder = Client::builder(TokioExecutor::new());
        let client = builder.build(connector.clone());
        Ok(Origin { client, unpooled: builder.pool_max_idle_per_host(0).build(connector) })
    }

    /// Sends a GET for `path` (with its query) to the origin at `base`, and returns the response
    /// with its body unread. `host` is the site, which may differ from the host in `base`.
    ///
    /// If the origin closes the connection instead of answering, the request is sent once more,
    /// over a new connection: the origin may have closed an idle one as the request arrived, and
    /// GET is idempotent (RFC 9112, 9.3.1; RFC 9110, 9.2.2).
    pub(super) async fn get(
        &self,
        base: &Uri,
        host: &HeaderValue,
        path: &str,
    ) -> Result<Response<Incoming>, OriginError> {
        let unreachable = |error: &dyn std::error::Error| OriginError::Unreachable(chain(error));
        let mut parts = Parts::default();
        parts.scheme = base.scheme().cloned();
        parts.authority = base.authority().cloned();
        parts.path_and_query = Some(path.parse::<PathAndQuery>().map_err(|e| unreachable(&e))?);
        let uri = Uri::from_parts(parts).map_err(|e| unreachable(&e))?;
        let request = || {
            Request::get(uri.clone())
                .header(header::HOST, host)
                .header(header::USER_AGENT, USER_AGENT)
                // All clients receive the same encoding.
                .header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"))
                .body(Empty::new())
                .map_err(|e| unreachable(&e))
        };
        match self.client.request(request()?).await {
            Err(error) if was_closed(&error) => self.unpooled.request(request()?).await,
            answer => answer,
        }
        .map_err(|e| unreachable(&e))
    }
}

/// Returns true if the connection ended before a response began.
fn was_closed(error: &hyper_util::client::legacy::Error) -> bool {
    let mut next = std::error::Error::source(error).filter(|_| !error.is_connect());
    while let Some(cause) = next {
        let of_protocol = cause.downcast_ref::<hyper::Error>();
        let of_system = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        if of_protocol.is_some_and(|error| error.is_incomplete_message() || error.is_canceled())
            || matches!(of_system, Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe))
        {
            return true;
        }
        next = cause.source();
    }
    false
}

/// Reads a body to its end into `spool`, which already holds the octets before it.
pub(super) async fn read(mut body: Incoming, octets_max: u64, spool: &mut Spool) -> Result<(), OriginError> {
    let start = spool.octets();
    let check =
        |octets: u64| if octets > octets_max { Err(OriginError::TooLarge(octets_max)) } else { Ok(()) };
    if let Some(octets) = body.size_hint().exact() {
        check(octets)?;
        spool.reserve(start + octets)?;
    }
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| OriginError::Unreachable(chain(&e)))?;
        let Ok(piece) = frame.into_data() else { continue };
        let octets = spool.octets() + piece.len() as u64;
        check(octets - start)?;
        spool.reserve(octets)?;
        spool.write(&piece).map_err(|e| OriginError::Spool(e.kind()))?;
    }
    Ok(())
}

/// Formats an error with its causes: the outermost alone is not specific enough.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_a_scheme_and_host() {
        for (text, right) in [
            ("http://127.0.0.1:8000", true),
            ("https://video.example/", true),
            ("http://h/path", false),
            ("http://h/?q", false),
            ("ftp://h", false),
            ("h:80", false),
            ("/", false),
        ] {
            assert_eq!(base(&text.parse().unwrap()).is_some(), right, "{text}");
        }
    }
}

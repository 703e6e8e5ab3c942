//! Responses to requests.

use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use namely_socket::{FetchError, ObjectStream};
use namely_wire::Name;
use rustix::io::Errno;

use super::body::{self, Body, BodyTransfer};
use super::clients::{Client, StreamSlot};
use super::{Counters, Gateway, PLACE_TIMEOUT, Sites};
use crate::head::{HEAD_OCTETS_MAX, Head};
use crate::names::{self, UrlError};
use crate::range::{self, Part};

/// The gateway's name in Via (RFC 9110, 7.6.3).
const VIA: HeaderValue = HeaderValue::from_static("1.1 namely");

/// Request headers that may make the response differ from the whole body.
const PARTIAL: [header::HeaderName; 3] = [header::RANGE, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE];

/// An object that holds a response: its head, and the offset of its body.
struct HttpObject {
    stream: AdmittedStream,
    head: Head,
    body_at: u64,
    body_octets: u64,
}

/// A stream, and its slot among the streams that the socket accepts.
struct AdmittedStream {
    stream: ObjectStream,
    _slot: StreamSlot,
}

impl Read for AdmittedStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.read(into)
    }
}

impl Seek for AdmittedStream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.stream.seek(to)
    }
}

/// There is nothing to answer with.
enum ResponseError {
    Fetch(FetchError),
    /// The object is not an HTTP response, or ended early.
    Unusable(String),
}

/// Answers a request, and logs the outcome once the client has received it.
pub(super) async fn respond(
    gateway: Arc<Gateway>,
    client: Arc<Client>,
    address: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<BodyTransfer>, std::convert::Infallible> {
    client.pace().requested();
    let line = body::LogLine::of(address, &request);
    let response = answer_to(&gateway, &client, request).await;
    let line = line.answered(response.status());
    Ok(response.map(|body| BodyTransfer::new(body, client, line)))
}

async fn answer_to(gateway: &Arc<Gateway>, client: &Client, request: Request<Incoming>) -> Response<Body> {
    let method = request.method().clone();
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        Counters::count(&gateway.counters.refused, 1);
        return said(StatusCode::BAD_REQUEST, "the request names several hosts".to_owned());
    }
    if method == Method::OPTIONS && request.uri() == "*" {
        return said(StatusCode::OK, health(gateway));
    }
    if !client.settle().await {
        return full(&gateway.counters);
    }
    if method != Method::GET && method != Method::HEAD {
        Counters::count(&gateway.counters.refused, 1);
        return not_allowed();
    }
    let name = match name(&gateway.sites, &request) {
        Ok(name) => name,
        Err(error) => {
            Counters::count(&gateway.counters.refused, 1);
            return said(StatusCode::BAD_REQUEST, error.to_string());
        }
    };
    let target = (gateway.clone(), name.clone());
    let head_first =
        method == Method::HEAD || PARTIAL.iter().any(|header| request.headers().contains_key(header));
    // If the socket has its maximum of streams, the request waits for one to end.
    let Some(slot) = client.stream().await else { return full(&gateway.counters) };
    let opened = tokio::task::spawn_blocking(move || open(&target.0, &target.1, head_first, slot)).await;
    match opened {
        Ok(Ok(held)) => {
            Counters::count(&gateway.counters.answered, 1);
            answer(held, &method, request.headers(), gateway.counters.clone()).await
        }
        Ok(Err(ResponseError::Fetch(error))) => failure(gateway, &name, &error),
        Ok(Err(ResponseError::Unusable(why))) => {
            Counters::count(&gateway.counters.failed, 1);
            said(StatusCode::BAD_GATEWAY, format!("{name}: {why}"))
        }
        Err(_) => said(StatusCode::INTERNAL_SERVER_ERROR, "a fault of the gateway's own".to_owned()),
    }
}

/// Returns the gateway's health, for `OPTIONS *`, which needs no slot (RFC 9110, 9.3.7).
fn health(gateway: &Gateway) -> String {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let Counters { answered, failed, refused, refused_full, refused_address, slow, shed, octets } =
        &*gateway.counters;
    format!(
        "clients {}\nanswered {}\nfailed {}\nrefused {}\nrefused_full {}\nrefused_address {}\nslow {}\nshed {}\noctets {}",
        gateway.clients.len(),
        read(answered),
        read(failed),
        read(refused),
        read(refused_full),
        read(refused_address),
        read(slow),
        read(shed),
        read(octets),
    )
}

/// Returns the response to a request that got no slot in time.
fn full(counters: &Counters) -> Response<Body> {
    Counters::count(&counters.refused_full, 1);
    let mut response =
        said(StatusCode::SERVICE_UNAVAILABLE, "the gateway has as many clients as it takes".to_owned());
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn name(sites: &Sites, request: &Request<Incoming>) -> Result<Name, UrlError> {
    match sites {
        Sites::One(site) => names::below(site.as_name(), request.uri()),
        Sites::All(prefix) => {
            let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
            names::name_of(prefix.as_name(), request.uri(), host)
        }
    }
}

/// Returns the fetch's error in an error of a stream, if there is one.
fn failed(error: io::Error) -> ResponseError {
    error.downcast().map_or_else(|error| ResponseError::Unusable(error.to_string()), ResponseError::Fetch)
}

/// Calls a function that needs a slot in the socket, and repeats it while no slot is free, within
/// the time limit: an abandoned stream holds its slot a little longer.
fn with_stream_slot<T>(
    begun: Instant,
    mut attempt: impl FnMut() -> Result<T, ResponseError>,
) -> Result<T, ResponseError> {
    let is_full = |error: &FetchError| error.errno() == Errno::NOBUFS.raw_os_error();
    loop {
        match attempt() {
            Err(ResponseError::Fetch(error)) if is_full(&error) && begun.elapsed() < PLACE_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(5));
            }
            attempted => return attempted,
        }
    }
}

/// Finds the object and reads its head. With `head_first`, nothing after the head is requested yet.
fn open(
    gateway: &Gateway,
    name: &Name,
    head_first: bool,
    slot: StreamSlot,
) -> Result<HttpObject, ResponseError> {
    let begun = Instant::now();
    let mut stream = with_stream_slot(begun, || gateway.consumer.open(name).map_err(ResponseError::Fetch))?;
    if head_first {
        stream.set_limit(HEAD_OCTETS_MAX as u64);
    }
    // The search has released its slot, so another stream may have taken it.
    with_stream_slot(begun, || stream.begin().map_err(failed))?;
    let mut stream = AdmittedStream { stream, _slot: slot };
    let mut start = Vec::with_capacity(HEAD_OCTETS_MAX);
    stream.by_ref().take(HEAD_OCTETS_MAX as u64).read_to_end(&mut start).map_err(failed)?;
    let (head, body_at) = Head::decode(&start).map_err(|error| ResponseError::Unusable(error.to_string()))?;
    let octets = stream.seek(SeekFrom::End(0)).map_err(|error| ResponseError::Unusable(error.to_string()))?;
    let body_at = body_at as u64;
    Ok(HttpObject { stream, head, body_at, body_octets: octets.saturating_sub(body_at) })
}

/// Returns the response that an object holds, or the requested part of it.
async fn answer(
    held: HttpObject,
    method: &Method,
    wanted: &HeaderMap,
    counters: Arc<Counters>,
) -> Response<Body> {
    let HttpObject { mut stream, head, body_at, body_octets } = held;
    let mut headers = head.headers;
    if !headers.contains_key(header::ETAG)
        && let Some(version) = stream.stream.name().components().filter_map(|c| c.version()).last()
        && let Ok(tag) = HeaderValue::from_str(&format!("\"v={version}\""))
    {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.append(header::VIA, VIA);
    let mut status = head.status;
    let mut octets = 0..body_octets;
    if status == StatusCode::OK {
        if range::is_known(wanted, &headers) {
            return with(StatusCode::NOT_MODIFIED, headers, body::empty());
        }
        // A range applies to the whole body, which HEAD does not send (RFC 9110, 14.2).
        let part =
            if method == Method::GET { range::part(wanted, &headers, body_octets) } else { Part::Whole };
        match part {
            Part::Whole => {}
            Part::Octets(range) => {
                status = StatusCode::PARTIAL_CONTENT;
                let text = format!("bytes {}-{}/{body_octets}", range.start, range.end - 1);
                insert(&mut headers, header::CONTENT_RANGE, &text);
                octets = range;
            }
            Part::Unsatisfiable => {
                insert(&mut headers, header::CONTENT_RANGE, &format!("bytes */{body_octets}"));
                return with(StatusCode::RANGE_NOT_SATISFIABLE, headers, body::empty());
            }
        }
    }
    let length = octets.end - octets.start;
    if !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        insert(&mut headers, header::CONTENT_LENGTH, &length.to_string());
    }
    if method == Method::HEAD || length == 0 {
        return with(status, headers, body::empty());
    }
    stream.stream.set_limit(body_at + octets.end);
    match stream.seek(SeekFrom::Start(body_at + octets.start)) {
        Ok(_) => with(status, headers, body::streamed(stream, length, counters)),
        Err(error) => said(StatusCode::BAD_GATEWAY, error.to_string()),
    }
}

/// Maps an error of a fetch to a response in HTTP. The text names a remedy.
fn failure(gateway: &Gateway, name: &Name, error: &FetchError) -> Response<Body> {
    let errno = Errno::from_raw_os_error(error.errno());
    let status = match errno {
        // 404 only if the site itself reports that the resource does not exist. A missing route is
        // no 404.
        Errno::NOENT => StatusCode::NOT_FOUND,
        Errno::NAMETOOLONG => StatusCode::URI_TOO_LONG,
        Errno::TIMEDOUT => StatusCode::GATEWAY_TIMEOUT,
        Errno::NOBUFS | Errno::NOTCONN | Errno::CONNREFUSED => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    };
    Counters::count(&gateway.counters.failed, 1);
    let hint = match errno {
        Errno::NETUNREACH => unserved(&gateway.sites, name),
        Errno::NOKEY | Errno::KEYREJECTED => {
            "\ntrust the key of the egress, as docs/proxy.md describes".to_owned()
        }
        _ => String::new(),
    };
    said(status, format!("{name}: {error}{hint}"))
}

/// Describes the sites of this gateway, for a request for another.
fn unserved(sites: &Sites, name: &Name) -> String {
    let (what, site, remedy) = match sites {
        Sites::One(site) => (format!("the site {site} alone"), site.clone(), String::new()),
        Sites::All(prefix) => (
            format!("sites that have a name below {prefix}, each by its host"),
            name.as_name().prefix(prefix.len() + 1).to_name(),
            // A client that has no proxy setting requests the gateway's own address.
            format!(
                "\nor, for clients without a proxy setting, serve one site for any host: `namely proxy ingress --site {prefix}/HOST`"
            ),
        ),
    };
    format!(
        "\nthis gateway serves {what}, and no producer serves {site}: run `namely proxy egress` beside its origin{remedy}"
    )
}

fn not_allowed() -> Response<Body> {
    let text =
        "named data can be read only: GET and HEAD. For https set the site's own gateway, not a proxy\n";
    let mut response = said(StatusCode::METHOD_NOT_ALLOWED, text.to_owned());
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// Returns a response with text of the gateway itself.
fn said(status: StatusCode, text: String) -> Response<Body> {
    let mut headers = Head::text(status).headers;
    headers.append(header::VIA, VIA);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    with(status, headers, body::text(text + "\n"))
}

fn with(status: StatusCode, headers: HeaderMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

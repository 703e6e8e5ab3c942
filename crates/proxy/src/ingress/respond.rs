//! What a request is answered with.

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

use super::body::{self, Body, Sent};
use super::clients::{Client, StreamPlace};
use super::{Counters, Gateway, PLACE_TIMEOUT, Sites};
use crate::head::{HEAD_OCTETS_MAX, Head};
use crate::names::{self, UrlError};
use crate::range::{self, Part};

/// The gateway's name in Via (RFC 9110, 7.6.3).
const VIA: HeaderValue = HeaderValue::from_static("1.1 namely");

/// What may make the answer another one than the whole body.
const PARTIAL: [header::HeaderName; 3] = [header::RANGE, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE];

/// An object that holds a response: its head, and where in the object its body is.
struct Held {
    stream: AdmittedStream,
    head: Head,
    body_at: u64,
    body_octets: u64,
}

/// A stream, and its place among those that the socket takes.
struct AdmittedStream {
    stream: ObjectStream,
    _place: StreamPlace,
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

/// Why there is nothing to answer with.
enum Failed {
    Fetch(FetchError),
    /// The object is no HTTP response, or ended early.
    Unusable(String),
}

/// Answers, and says in the log what became of it once the client has it.
pub(super) async fn respond(
    gateway: Arc<Gateway>,
    client: Arc<Client>,
    address: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Sent>, std::convert::Infallible> {
    client.pace().asked();
    let line = body::Line::of(address, &request);
    let response = answer_to(&gateway, &client, request).await;
    let line = line.answered(response.status());
    Ok(response.map(|body| Sent::new(body, client, line)))
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
    let asked = (gateway.clone(), name.clone());
    let head_first =
        method == Method::HEAD || PARTIAL.iter().any(|header| request.headers().contains_key(header));
    // Whoever comes when the socket has its fill of streams waits for one to end.
    let Some(place) = client.stream().await else { return full(&gateway.counters) };
    let opened = tokio::task::spawn_blocking(move || open(&asked.0, &asked.1, head_first, place)).await;
    match opened {
        Ok(Ok(held)) => {
            Counters::count(&gateway.counters.answered, 1);
            answer(held, &method, request.headers(), gateway.counters.clone()).await
        }
        Ok(Err(Failed::Fetch(error))) => failure(gateway, &name, &error),
        Ok(Err(Failed::Unusable(why))) => {
            Counters::count(&gateway.counters.failed, 1);
            said(StatusCode::BAD_GATEWAY, format!("{name}: {why}"))
        }
        Err(_) => said(StatusCode::INTERNAL_SERVER_ERROR, "a fault of the gateway's own".to_owned()),
    }
}

/// How the gateway is: what `OPTIONS *` is told, which needs no place (RFC 9110, 9.3.7).
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

/// There was no place in time.
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

/// What an error of a stream says, if it is one of the fetch's.
fn failed(error: io::Error) -> Failed {
    error.downcast().map_or_else(|error| Failed::Unusable(error.to_string()), Failed::Fetch)
}

/// Does what needs a place in the socket: a stream that was just given up has its own for a moment
/// more.
fn when_there_is_room<T>(
    begun: Instant,
    mut attempt: impl FnMut() -> Result<T, Failed>,
) -> Result<T, Failed> {
    let is_full = |error: &FetchError| error.errno() == Errno::NOBUFS.raw_os_error();
    loop {
        match attempt() {
            Err(Failed::Fetch(error)) if is_full(&error) && begun.elapsed() < PLACE_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(5));
            }
            attempted => return attempted,
        }
    }
}

/// Finds the object and reads its head; nothing behind it is asked for yet if `head_first`.
fn open(gateway: &Gateway, name: &Name, head_first: bool, place: StreamPlace) -> Result<Held, Failed> {
    let begun = Instant::now();
    let mut stream = when_there_is_room(begun, || gateway.consumer.open(name).map_err(Failed::Fetch))?;
    if head_first {
        stream.set_limit(HEAD_OCTETS_MAX as u64);
    }
    // Its place was anybody's once it was found.
    when_there_is_room(begun, || stream.begin().map_err(failed))?;
    let mut stream = AdmittedStream { stream, _place: place };
    let mut start = Vec::with_capacity(HEAD_OCTETS_MAX);
    stream.by_ref().take(HEAD_OCTETS_MAX as u64).read_to_end(&mut start).map_err(failed)?;
    let (head, body_at) = Head::decode(&start).map_err(|error| Failed::Unusable(error.to_string()))?;
    let octets = stream.seek(SeekFrom::End(0)).map_err(|error| Failed::Unusable(error.to_string()))?;
    let body_at = body_at as u64;
    Ok(Held { stream, head, body_at, body_octets: octets.saturating_sub(body_at) })
}

/// The response that an object holds, or the part of it that is asked for.
async fn answer(held: Held, method: &Method, wanted: &HeaderMap, counters: Arc<Counters>) -> Response<Body> {
    let Held { mut stream, head, body_at, body_octets } = held;
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
        // A range is of the whole body, which HEAD does not send (RFC 9110, 14.2).
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

/// What a fetch that failed means in HTTP: who has to do something is told.
fn failure(gateway: &Gateway, name: &Name, error: &FetchError) -> Response<Body> {
    let errno = Errno::from_raw_os_error(error.errno());
    let status = match errno {
        // Its own site says that there is no such thing; that nobody has the site is no 404.
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
            "\ntrust the key of the egress, as docs/proxy.md says".to_owned()
        }
        _ => String::new(),
    };
    said(status, format!("{name}: {error}{hint}"))
}

/// What this gateway serves, for who asked for something else.
fn unserved(sites: &Sites, name: &Name) -> String {
    let (what, site) = match sites {
        Sites::One(site) => (format!("the site {site} alone"), site.clone()),
        Sites::All(prefix) => (
            format!("sites that have a name below {prefix}, each by its host"),
            name.as_name().prefix(prefix.len() + 1).to_name(),
        ),
    };
    format!(
        "\nthis gateway serves {what}, and nobody serves {site}: run `namely proxy egress` beside its origin"
    )
}

fn not_allowed() -> Response<Body> {
    let text =
        "named data can be read only: GET and HEAD. For https set the site's own gateway, not a proxy\n";
    let mut response = said(StatusCode::METHOD_NOT_ALLOWED, text.to_owned());
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// What the gateway itself has to say.
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

//! An HTTP/1.1 request and its answer (RFC 9112): `GET /metrics` and `GET /healthz` only.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use namely_host::web::{PageHosts, PageRefusal};

use super::{Health, Server, collect};

/// Octets of a request for metrics.
///
/// # Limit
/// A longer request is refused with 431.
/// - Counter: `metrics.malformed`
/// - Tests: `metrics_requests_have_a_size_limit`
pub(super) const METRICS_REQUEST_OCTETS_MAX: usize = 8192;

/// Time for a request for metrics and its answer together.
///
/// # Limit
/// The connection is closed.
/// - Counter: `metrics.too_slow`
/// - Tests: `silent_scrapers_are_disconnected`
pub(super) const METRICS_TIME_MAX: Duration = Duration::from_secs(5);

/// Time limit of each read while the router waits for the peer to close the connection.
const LINGER: Duration = Duration::from_millis(500);

/// Header lines of a request.
const HEADERS_MAX: usize = 64;

/// The media types of the two formats.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

const UNAVAILABLE: &str = "503 Service Unavailable";

const PLAIN: &str = "text/plain; charset=utf-8";

/// Reads a request, answers it, and closes the connection.
pub(super) fn answer(stream: &TcpStream, server: &Server) {
    let Server { hosts, counts, .. } = server;
    let end = Instant::now() + METRICS_TIME_MAX;
    let done = match request(stream, hosts, end) {
        Ok(MetricsRequest::Metrics { open, with_body }) => {
            counts.scrapes.fetch_add(1, Ordering::Relaxed);
            match server.text() {
                Some(text) if open => respond(stream, end, "200 OK", OPEN_METRICS, &text, with_body),
                Some(text) => respond(stream, end, "200 OK", PROMETHEUS, &collect::plain(&text), with_body),
                None => respond(stream, end, UNAVAILABLE, PLAIN, "the router stops\n", true),
            }
        }
        Ok(MetricsRequest::Health { with_body }) => {
            let (status, text) = match server.health() {
                Health::Well => ("200 OK", "ok\n"),
                Health::Draining => (UNAVAILABLE, "draining\n"),
                Health::Silent => (UNAVAILABLE, "the router does not respond\n"),
            };
            respond(stream, end, status, PLAIN, text, with_body)
        }
        Ok(MetricsRequest::Invalid(status, why)) => {
            counts.malformed.fetch_add(1, Ordering::Relaxed);
            respond(stream, end, status, PLAIN, why, true)
        }
        Ok(MetricsRequest::Foreign(refusal)) => {
            counts.foreign.fetch_add(1, Ordering::Relaxed);
            let (status, why) = foreign(refusal);
            respond(stream, end, status, PLAIN, why, true)
        }
        Err(PeerTimeout) => Err(PeerTimeout),
    };
    match done {
        Ok(()) => linger(stream),
        Err(PeerTimeout) => drop(counts.too_slow.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Waits until the peer closes the connection, within limits of time and octets. If the socket were
/// closed with unread data, the connection would be reset and the answer lost.
fn linger(mut stream: &TcpStream) {
    if stream.shutdown(Shutdown::Write).is_err() || stream.set_read_timeout(Some(LINGER)).is_err() {
        return;
    }
    let mut octets = [0; 1024];
    for _ in 0..METRICS_REQUEST_OCTETS_MAX / octets.len() {
        match stream.read(&mut octets) {
            Ok(1..) => (),
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Ok(0) | Err(_) => return,
        }
    }
}

/// Answers a connection over the limit with 503. Reads no request and never blocks.
pub(super) fn refuse(stream: &TcpStream) {
    // Data that the socket does not accept at once is dropped.
    if stream.set_nonblocking(true).is_ok() {
        let head = head(UNAVAILABLE, PLAIN, 0);
        (&mut &*stream).write_all(head.as_bytes()).ok();
    }
}

/// The peer was too slow, or closed the connection.
struct PeerTimeout;

enum MetricsRequest {
    /// A request for the metrics, in OpenMetrics or the older format.
    Metrics { open: bool, with_body: bool },
    /// A request for the router's health.
    Health { with_body: bool },
    /// A request for another host name, or from a page of another site.
    Foreign(PageRefusal),
    /// An invalid request: a status, and a hint.
    Invalid(&'static str, &'static str),
}

/// The status and text for a request that a browser may have sent for another site.
fn foreign(refusal: PageRefusal) -> (&'static str, &'static str) {
    match refusal {
        PageRefusal::NoHost => ("400 Bad Request", "a request names one host\n"),
        PageRefusal::Host => (
            "421 Misdirected Request",
            "metrics are not called so: use an address, localhost, or a name of `metrics.hosts`\n",
        ),
        PageRefusal::Site => ("403 Forbidden", "a page of another site asks\n"),
    }
}

fn request(mut stream: &TcpStream, hosts: &PageHosts, end: Instant) -> Result<MetricsRequest, PeerTimeout> {
    let mut octets = [0; METRICS_REQUEST_OCTETS_MAX];
    let mut filled = 0;
    loop {
        let Some(space) = octets.get_mut(filled..).filter(|space| !space.is_empty()) else {
            return Ok(MetricsRequest::Invalid(
                "431 Request Header Fields Too Large",
                "ask for /metrics, in fewer octets\n",
            ));
        };
        let left =
            end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).ok_or(PeerTimeout)?;
        stream.set_read_timeout(Some(left)).map_err(|_| PeerTimeout)?;
        match stream.read(space) {
            Ok(0) => return Err(PeerTimeout),
            Ok(more) => filled += more,
            // A stop or freeze of the process interrupted the call.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return Err(PeerTimeout),
        }
        let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut lines);
        match request.parse(octets.get(..filled).unwrap_or_default()) {
            Ok(httparse::Status::Partial) => {}
            Ok(httparse::Status::Complete(_)) => return Ok(classify(hosts, &request)),
            Err(_) => {
                return Ok(MetricsRequest::Invalid(
                    "400 Bad Request",
                    "this is not HTTP: use GET /metrics\n",
                ));
            }
        }
    }
}

fn classify(hosts: &PageHosts, request: &httparse::Request<'_, '_>) -> MetricsRequest {
    let path = request.path.unwrap_or_default();
    let fields = request.headers.iter().map(|field| (field.name, field.value));
    if let Err(refusal) = hosts.check(path, fields) {
        return MetricsRequest::Foreign(refusal);
    }
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    match (request.method.unwrap_or_default(), path) {
        (method @ ("GET" | "HEAD"), "/metrics") => {
            MetricsRequest::Metrics { open: takes_open_metrics(request.headers), with_body: method == "GET" }
        }
        (method @ ("GET" | "HEAD"), "/healthz") => MetricsRequest::Health { with_body: method == "GET" },
        ("GET" | "HEAD", _) => {
            MetricsRequest::Invalid("404 Not Found", "metrics are at /metrics, the health is at /healthz\n")
        }
        _ => {
            MetricsRequest::Invalid("405 Method Not Allowed", "metrics are read only: ask for GET /metrics\n")
        }
    }
}

fn takes_open_metrics(headers: &[httparse::Header<'_>]) -> bool {
    let mut accepted = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    accepted.any(|header| {
        std::str::from_utf8(header.value).is_ok_and(|value| value.contains("application/openmetrics-text"))
    })
}

fn respond(
    mut stream: &TcpStream,
    end: Instant,
    status: &str,
    kind: &str,
    body: &str,
    with_body: bool,
) -> Result<(), PeerTimeout> {
    let head = head(status, kind, body.len());
    let body = if with_body { body } else { "" };
    for mut octets in [head.as_bytes(), body.as_bytes()] {
        while !octets.is_empty() {
            let left = end
                .checked_duration_since(Instant::now())
                .filter(|left| !left.is_zero())
                .ok_or(PeerTimeout)?;
            stream.set_write_timeout(Some(left)).map_err(|_| PeerTimeout)?;
            match stream.write(octets) {
                Ok(0) | Err(_) => return Err(PeerTimeout),
                Ok(written) => octets = octets.get(written..).unwrap_or_default(),
            }
        }
    }
    Ok(())
}

fn head(status: &str, kind: &str, octets: usize) -> String {
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {octets}\r\n{allow}\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
}

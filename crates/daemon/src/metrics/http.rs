//! One request and its answer, by HTTP/1.1 (RFC 9112): `GET /metrics`, and nothing else.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use namely_host::web::{PageHosts, PageRefusal};

use super::{Counts, collect};

/// Largest request, octets; a longer one is refused (431).
pub(super) const METRICS_REQUEST_OCTETS_MAX: usize = 8192;

/// How long a connection may take for its request and for its answer, in all.
pub(super) const METRICS_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a peer has to end its connection once it is answered.
const LINGER: Duration = Duration::from_millis(500);

/// Header lines of a request.
const HEADERS_MAX: usize = 64;

/// What the two formats are called in HTTP.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

const UNAVAILABLE: &str = "503 Service Unavailable";

const PLAIN: &str = "text/plain; charset=utf-8";

/// Reads a request and answers it; then the connection ends.
pub(super) fn answer(
    stream: &TcpStream,
    hosts: &PageHosts,
    counts: &Counts,
    text: impl FnOnce() -> Option<Arc<str>>,
) {
    let end = Instant::now() + METRICS_TIME_MAX;
    let done = match request(stream, hosts, end) {
        Ok(Asked::Metrics { open, with_body }) => {
            counts.scrapes.fetch_add(1, Ordering::Relaxed);
            match text() {
                Some(text) if open => respond(stream, end, "200 OK", OPEN_METRICS, &text, with_body),
                Some(text) => respond(stream, end, "200 OK", PROMETHEUS, &collect::plain(&text), with_body),
                None => respond(stream, end, UNAVAILABLE, PLAIN, "the router stops\n", true),
            }
        }
        Ok(Asked::Else(status, why)) => {
            counts.malformed.fetch_add(1, Ordering::Relaxed);
            respond(stream, end, status, PLAIN, why, true)
        }
        Ok(Asked::Foreign(refusal)) => {
            counts.foreign.fetch_add(1, Ordering::Relaxed);
            let (status, why) = foreign(refusal);
            respond(stream, end, status, PLAIN, why, true)
        }
        Err(Slow) => Err(Slow),
    };
    match done {
        Ok(()) => linger(stream),
        Err(Slow) => drop(counts.too_slow.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Lets the peer read the answer before the connection ends: a socket that is closed with octets
/// unread resets it, and the answer is lost.
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

/// Tells who comes when too many are there to come back. Nothing is read, and nobody waited for.
pub(super) fn refuse(stream: &TcpStream) {
    // What the socket does not take at once is not worth waiting for.
    if stream.set_nonblocking(true).is_ok() {
        let head = head(UNAVAILABLE, PLAIN, 0);
        (&mut &*stream).write_all(head.as_bytes()).ok();
    }
}

/// The peer took too long, or went away.
struct Slow;

enum Asked {
    /// The metrics, as OpenMetrics or in the older format.
    Metrics { open: bool, with_body: bool },
    /// Something by another name, or of a page of another site.
    Foreign(PageRefusal),
    /// Something that is not served: a status, and what to ask for instead.
    Else(&'static str, &'static str),
}

/// What somebody is told whose browser was made to ask, or may have been.
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

fn request(mut stream: &TcpStream, hosts: &PageHosts, end: Instant) -> Result<Asked, Slow> {
    let mut octets = [0; METRICS_REQUEST_OCTETS_MAX];
    let mut filled = 0;
    loop {
        let Some(space) = octets.get_mut(filled..).filter(|space| !space.is_empty()) else {
            return Ok(Asked::Else(
                "431 Request Header Fields Too Large",
                "ask for /metrics, in fewer octets\n",
            ));
        };
        let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).ok_or(Slow)?;
        stream.set_read_timeout(Some(left)).map_err(|_| Slow)?;
        match stream.read(space) {
            Ok(0) => return Err(Slow),
            Ok(more) => filled += more,
            // The router was stopped or frozen, and goes on.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return Err(Slow),
        }
        let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut lines);
        match request.parse(octets.get(..filled).unwrap_or_default()) {
            Ok(httparse::Status::Partial) => {}
            Ok(httparse::Status::Complete(_)) => return Ok(asked(hosts, &request)),
            Err(_) => return Ok(Asked::Else("400 Bad Request", "this is no HTTP: ask for GET /metrics\n")),
        }
    }
}

fn asked(hosts: &PageHosts, request: &httparse::Request<'_, '_>) -> Asked {
    let path = request.path.unwrap_or_default();
    let fields = request.headers.iter().map(|field| (field.name, field.value));
    if let Err(refusal) = hosts.check(path, fields) {
        return Asked::Foreign(refusal);
    }
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    match (request.method.unwrap_or_default(), path) {
        (method @ ("GET" | "HEAD"), "/metrics") => {
            Asked::Metrics { open: takes_open_metrics(request.headers), with_body: method == "GET" }
        }
        ("GET" | "HEAD", _) => Asked::Else("404 Not Found", "metrics are at /metrics\n"),
        _ => Asked::Else("405 Method Not Allowed", "metrics are read only: ask for GET /metrics\n"),
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
) -> Result<(), Slow> {
    let head = head(status, kind, body.len());
    let body = if with_body { body } else { "" };
    for mut octets in [head.as_bytes(), body.as_bytes()] {
        while !octets.is_empty() {
            let left =
                end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).ok_or(Slow)?;
            stream.set_write_timeout(Some(left)).map_err(|_| Slow)?;
            match stream.write(octets) {
                Ok(0) | Err(_) => return Err(Slow),
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

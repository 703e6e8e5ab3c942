//! The management of NDN-DPDK: GraphQL (its October 2021 edition) by POST over HTTP/1.0. In
//! HTTP/1.0 the answer ends with the connection or after its Content-Length, and there are no
//! chunks (RFC 9112, 6.3).
//!
//! It uses `createFace`, `fib`, `insertFibEntry` and `delete` of the schema. Each answer is
//! checked: its length, its fields, and the time that it takes.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use namely_wire::text::Plain;
use namely_wire::{Endpoint, NameRef};
use serde_json::{Value, json};

use super::error::ManagementError;

/// Octets of an answer of NDN-DPDK's management.
///
/// The head of the answer counts. An entry of the FIB has at most eight next hops.
///
/// # Limit
/// The router is not used, or the prefix is not registered.
/// - Tests: `a_management_answer_has_a_size_limit`
pub const ANSWER_OCTETS_MAX: usize = 65_536;

/// Time for an answer of NDN-DPDK's management.
///
/// The time ends when the whole answer has arrived.
///
/// # Limit
/// The router is not used, or the prefix is not registered.
/// - Tests: `an_absent_management_times_out`
pub(super) const TIME_MAX: Duration = Duration::from_secs(5);

/// Octets of an id in an answer of NDN-DPDK's management.
///
/// NDN-DPDK's ids are hashes of some ten letters.
///
/// # Limit
/// The answer is malformed.
/// - Tests: `an_ndn_dpdk_id_has_a_length_limit`
const ID_OCTETS_MAX: usize = 256;

/// Characters of a quoted message of NDN-DPDK's management.
///
/// # Limit
/// The message is cut.
/// - Tests: `a_peers_message_is_one_bounded_line`
const MESSAGE_CHARS_MAX: usize = 200;

/// Maximum number of header lines of an answer.
const HEADERS_MAX: usize = 64;

const CREATE_FACE: &str = "mutation createFace($locator: JSON!) { createFace(locator: $locator) { id } }";

const FIND_ENTRY: &str =
    "query fib($name: Name!) { fib(name: $name) { id nexthops { id } strategy { id } } }";

const INSERT_ENTRY: &str = "mutation insertFibEntry($name: Name!, $nexthops: [ID!]!, $strategy: ID) \
     { insertFibEntry(name: $name, nexthops: $nexthops, strategy: $strategy) { id } }";

const DELETE: &str = "mutation delete($id: ID!) { delete(id: $id) }";

/// The address of a forwarder's management.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) server: Endpoint,
}

/// An entry of the FIB.
#[derive(Debug, Default)]
pub(super) struct FibEntry {
    pub(super) id: Option<String>,
    /// Faces that still exist.
    pub(super) nexthops: Vec<String>,
    pub(super) strategy: Option<String>,
}

impl Control {
    /// Creates a face and returns its id.
    pub(super) fn create_face(&self, locator: &Value) -> Result<String, ManagementError> {
        id(&self.execute(CREATE_FACE, &json!({ "locator": locator }), "createFace")?)
    }

    /// Returns the entry of exactly `name`; an empty one if there is none.
    pub(super) fn find(&self, name: NameRef<'_>) -> Result<FibEntry, ManagementError> {
        let found = self.execute(FIND_ENTRY, &json!({ "name": uri(name) }), "fib")?;
        let entries = found.as_array().ok_or(ManagementError::Malformed("the FIB is no list"))?;
        // The query is for one name, so the list has one entry at most.
        let Some(entry) = entries.first() else { return Ok(FibEntry::default()) };
        let nexthops = entry["nexthops"].as_array();
        let nexthops = nexthops.ok_or(ManagementError::Malformed("an entry has no list of next hops"))?;
        // A deleted face is null.
        let nexthops = nexthops.iter().filter(|face| !face.is_null()).map(id).collect::<Result<_, _>>()?;
        let strategy = Some(&entry["strategy"]).filter(|strategy| !strategy.is_null());
        Ok(FibEntry { id: Some(id(entry)?), nexthops, strategy: strategy.map(id).transpose()? })
    }

    /// Replaces the entry of `name` by `entry`.
    pub(super) fn insert(&self, name: NameRef<'_>, entry: &FibEntry) -> Result<(), ManagementError> {
        let variables = json!({ "name": uri(name), "nexthops": entry.nexthops, "strategy": entry.strategy });
        id(&self.execute(INSERT_ENTRY, &variables, "insertFibEntry")?).map(drop)
    }

    /// Deletes a face or an entry. Does nothing if it does not exist.
    pub(super) fn delete(&self, id: &str) -> Result<(), ManagementError> {
        match self.execute(DELETE, &json!({ "id": id }), "delete")? {
            Value::Bool(_) => Ok(()),
            _ => Err(ManagementError::Malformed("whether it deleted is neither true nor false")),
        }
    }

    /// Executes `query` and returns the field `field` of the result.
    fn execute(&self, query: &str, variables: &Value, field: &str) -> Result<Value, ManagementError> {
        let body = json!({ "query": query, "variables": variables }).to_string();
        let (status, answer) = post(&self.server, body.as_bytes())?;
        let answer: Value = match serde_json::from_slice(&answer) {
            Ok(answer) => answer,
            // The error page of another server is not JSON. Its status explains more than a syntax
            // error.
            Err(_) if status != 200 => return Err(ManagementError::Status(status)),
            Err(error) if error.is_eof() => return Err(ManagementError::Malformed("it ends early")),
            Err(_) => return Err(ManagementError::Malformed("it is no JSON")),
        };
        if let Some(first) = answer["errors"].get(0) {
            return Err(ManagementError::Refused(shown(first["message"].as_str().unwrap_or("no reason"))));
        }
        match answer["data"].get(field) {
            Some(data) if status == 200 => Ok(data.clone()),
            _ if status != 200 => Err(ManagementError::Status(status)),
            _ => Err(ManagementError::Malformed("what was asked for is not in it")),
        }
    }
}

/// Returns the id of an object in an answer.
fn id(object: &Value) -> Result<String, ManagementError> {
    match object["id"].as_str() {
        Some(id) if (1..=ID_OCTETS_MAX).contains(&id.len()) => Ok(id.to_owned()),
        _ => Err(ManagementError::Malformed("an id in it is none")),
    }
}

/// Quotes a message of a peer on one line.
fn shown(message: &str) -> String {
    let cut: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    Plain::quotation(&cut).into()
}

/// Formats a name as NDN-DPDK reads it: each component with the number of its type, without naming
/// conventions.
fn uri(name: NameRef<'_>) -> String {
    let mut uri = String::new();
    for component in name.components() {
        uri += &format!("/{}=", component.typ);
        // The URI scheme adds three periods to a component that is empty or consists of periods
        // (packet spec, name.rst).
        if component.value.iter().all(|octet| *octet == b'.') {
            uri += "...";
        }
        for octet in component.value {
            match octet {
                octet if octet.is_ascii_alphanumeric() || b"-._~".contains(octet) => {
                    uri.push(char::from(*octet));
                }
                octet => uri += &format!("%{octet:02X}"),
            }
        }
    }
    if uri.is_empty() { "/".to_owned() } else { uri }
}

/// Posts `body` and returns the status and the body of the answer.
fn post(server: &Endpoint, body: &[u8]) -> Result<(u16, Vec<u8>), ManagementError> {
    // One deadline for all steps, so that single octets cannot prolong the time.
    let end = Instant::now() + TIME_MAX;
    let mut stream = connect(server, end)?;
    let head = format!(
        "POST / HTTP/1.0\r\nHost: {server}\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.set_write_timeout(Some(left(end)?)).map_err(broken)?;
    // One write, because Nagle's algorithm may delay the second of two.
    stream.write_all(&[head.as_bytes(), body].concat()).map_err(broken)?;
    let mut octets = Vec::new();
    let mut head = None;
    loop {
        let mut piece = [0; 4096];
        stream.set_read_timeout(Some(left(end)?)).map_err(broken)?;
        let read = match stream.read(&mut piece) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(broken(error)),
        };
        octets.extend_from_slice(&piece[..read]);
        if octets.len() > ANSWER_OCTETS_MAX {
            return Err(ManagementError::TooLong);
        }
        // A complete head is not parsed again for each read.
        head = match head {
            None => head_of(&octets)?,
            known => known,
        };
        let whole = |head: &Head| head.body_octets.is_some_and(|body| octets.len() >= head.octets + body);
        match head {
            // Without a length the end of the connection ends the body (RFC 9112, 6.3).
            Some(head) if read == 0 || whole(&head) => return head.body_of(octets),
            None if read == 0 => return Err(ManagementError::Malformed("it is no HTTP")),
            _ => {}
        }
    }
}

/// The parsed head of an answer.
#[derive(Clone, Copy, Debug)]
struct Head {
    status: u16,
    octets: usize,
    /// Octets of the body, if the head contains the length.
    body_octets: Option<usize>,
}

impl Head {
    fn body_of(&self, mut octets: Vec<u8>) -> Result<(u16, Vec<u8>), ManagementError> {
        octets.drain(..self.octets);
        match self.body_octets {
            Some(body) if octets.len() < body => return Err(ManagementError::Malformed("it ends early")),
            Some(body) => octets.truncate(body),
            None => {}
        }
        Ok((self.status, octets))
    }
}

/// Parses the head, once it is complete.
fn head_of(octets: &[u8]) -> Result<Option<Head>, ManagementError> {
    let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut lines);
    let parsed = response.parse(octets).map_err(|_| ManagementError::Malformed("it is no HTTP"))?;
    let httparse::Status::Complete(head_octets) = parsed else { return Ok(None) };
    let mut head = Head { status: response.code.unwrap_or_default(), octets: head_octets, body_octets: None };
    for line in &*response.headers {
        // A server must not answer an HTTP/1.0 request in chunks (RFC 9112, 6.1).
        if line.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(ManagementError::Malformed("it comes in chunks, which nobody asked for"));
        }
        if line.name.eq_ignore_ascii_case("content-length") {
            let body = std::str::from_utf8(line.value).ok().and_then(|text| text.trim().parse().ok());
            let body: usize = body.ok_or(ManagementError::Malformed("its length is no number"))?;
            // A sum could overflow. The head was read within the limit, so the difference cannot.
            if body > ANSWER_OCTETS_MAX - head.octets {
                return Err(ManagementError::TooLong);
            }
            head.body_octets = Some(body);
        }
    }
    Ok(Some(head))
}

fn connect(server: &Endpoint, end: Instant) -> Result<TcpStream, ManagementError> {
    let mut failure = ManagementError::Unreachable(ErrorKind::NotFound);
    for address in namely_host::lookup(server).map_err(|error| ManagementError::Unreachable(error.kind()))? {
        match TcpStream::connect_timeout(&address, left(end)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = broken(error),
        }
    }
    Err(failure)
}

/// Returns the time until `end`.
fn left(end: Instant) -> Result<Duration, ManagementError> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ManagementError::Slow) } else { Ok(left) }
}

fn broken(error: std::io::Error) -> ManagementError {
    match error.kind() {
        // A socket reports its timeout as either of these errors.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ManagementError::Slow,
        kind => ManagementError::Unreachable(kind),
    }
}

#[cfg(test)]
mod tests {
    use namely_wire::Name;

    use super::*;

    #[test]
    fn ndn_dpdk_names_use_numeric_types() {
        let name: Name = "/cms/some name+/.../v=1/32=KEY".parse().unwrap();
        assert_eq!(uri(name.as_name()), "/8=cms/8=some%20name%2B/8=.../54=%01/32=KEY");
        assert_eq!(uri(Name::new().as_name()), "/");
    }

    #[test]
    fn a_peers_message_is_one_bounded_line() {
        assert_eq!(shown("a\nb\u{1b}[2J"), r#""a\nb\u{1b}[2J""#);
        assert_eq!(shown(&"x".repeat(MESSAGE_CHARS_MAX)).len(), MESSAGE_CHARS_MAX + 2);
        assert_eq!(shown(&"x".repeat(MESSAGE_CHARS_MAX + 1)).len(), MESSAGE_CHARS_MAX + 2);
    }

    #[test]
    fn an_ndn_dpdk_id_has_a_length_limit() {
        let of = |octets: usize| id(&json!({ "id": "x".repeat(octets) })).is_ok();
        assert_eq!([of(0), of(1), of(ID_OCTETS_MAX), of(ID_OCTETS_MAX + 1)], [false, true, true, false]);
        assert!(id(&json!({ "id": 5 })).is_err() && id(&Value::Null).is_err());
    }
}

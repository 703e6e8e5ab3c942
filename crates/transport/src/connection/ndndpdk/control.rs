//! The management of NDN-DPDK: GraphQL (its October 2021 edition) by POST over HTTP/1.0, which
//! makes the end of the connection the end of the answer and knows no chunks (RFC 9112, 6.3).
//!
//! What it asks for are the schema's `createFace`, `fib`, `insertFibEntry` and `delete`. An answer
//! is never believed to be of any length, to come in time, or to have what was asked for.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use namely_wire::text::Plain;
use namely_wire::{Endpoint, NameRef};
use serde_json::{Value, json};

use super::error::ManagementError;

/// Longest answer, octets, head included: an entry of the FIB has eight next hops at most.
pub const ANSWER_OCTETS_MAX: usize = 65_536;

/// How long a question may take, until all of its answer came.
pub(super) const TIME_MAX: Duration = Duration::from_secs(5);

/// Longest id that is kept, octets: NDN-DPDK's are hashes of some ten letters.
const ID_OCTETS_MAX: usize = 256;

/// Longest part of a message that is shown, characters.
const MESSAGE_CHARS_MAX: usize = 200;

/// Header lines of an answer.
const HEADERS_MAX: usize = 64;

const CREATE_FACE: &str = "mutation createFace($locator: JSON!) { createFace(locator: $locator) { id } }";

const FIND_ENTRY: &str =
    "query fib($name: Name!) { fib(name: $name) { id nexthops { id } strategy { id } } }";

const INSERT_ENTRY: &str = "mutation insertFibEntry($name: Name!, $nexthops: [ID!]!, $strategy: ID) \
     { insertFibEntry(name: $name, nexthops: $nexthops, strategy: $strategy) { id } }";

const DELETE: &str = "mutation delete($id: ID!) { delete(id: $id) }";

/// Where a forwarder's management is.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) server: Endpoint,
}

/// An entry of the FIB.
#[derive(Debug, Default)]
pub(super) struct FibEntry {
    pub(super) id: Option<String>,
    /// Faces that are still there.
    pub(super) nexthops: Vec<String>,
    pub(super) strategy: Option<String>,
}

impl Control {
    /// Makes a face; its id.
    pub(super) fn create_face(&self, locator: &Value) -> Result<String, ManagementError> {
        id(&self.ask(CREATE_FACE, &json!({ "locator": locator }), "createFace")?)
    }

    /// The entry of exactly `name`; an empty one if there is none.
    pub(super) fn find(&self, name: NameRef<'_>) -> Result<FibEntry, ManagementError> {
        let found = self.ask(FIND_ENTRY, &json!({ "name": uri(name) }), "fib")?;
        let entries = found.as_array().ok_or(ManagementError::Malformed("the FIB is no list"))?;
        let Some(entry) = entries.first() else { return Ok(FibEntry::default()) };
        let nexthops = entry["nexthops"].as_array();
        let nexthops = nexthops.ok_or(ManagementError::Malformed("an entry has no list of next hops"))?;
        // What was deleted is null.
        let nexthops = nexthops.iter().filter(|face| !face.is_null()).map(id).collect::<Result<_, _>>()?;
        let strategy = Some(&entry["strategy"]).filter(|strategy| !strategy.is_null());
        Ok(FibEntry { id: Some(id(entry)?), nexthops, strategy: strategy.map(id).transpose()? })
    }

    /// Makes `entry` the one of `name`.
    pub(super) fn insert(&self, name: NameRef<'_>, entry: &FibEntry) -> Result<(), ManagementError> {
        let variables = json!({ "name": uri(name), "nexthops": entry.nexthops, "strategy": entry.strategy });
        id(&self.ask(INSERT_ENTRY, &variables, "insertFibEntry")?).map(drop)
    }

    /// Deletes a face or an entry; nothing if it is not there.
    pub(super) fn delete(&self, id: &str) -> Result<(), ManagementError> {
        match self.ask(DELETE, &json!({ "id": id }), "delete")? {
            Value::Bool(_) => Ok(()),
            _ => Err(ManagementError::Malformed("whether it deleted is neither true nor false")),
        }
    }

    /// Carries out `query`; what came of its `field`.
    fn ask(&self, query: &str, variables: &Value, field: &str) -> Result<Value, ManagementError> {
        let body = json!({ "query": query, "variables": variables }).to_string();
        let (status, answer) = post(&self.server, body.as_bytes())?;
        let answer: Value = match serde_json::from_slice(&answer) {
            Ok(answer) => answer,
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

/// The id of what an answer describes.
fn id(object: &Value) -> Result<String, ManagementError> {
    match object["id"].as_str() {
        Some(id) if (1..=ID_OCTETS_MAX).contains(&id.len()) => Ok(id.to_owned()),
        _ => Err(ManagementError::Malformed("an id in it is none")),
    }
}

/// A message of a peer, as a quotation on one line.
fn shown(message: &str) -> String {
    let cut: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    Plain::quotation(&cut).into()
}

/// A name as NDN-DPDK reads it: each component with the number of its type, none by convention.
fn uri(name: NameRef<'_>) -> String {
    let mut uri = String::new();
    for component in name.components() {
        uri += &format!("/{}=", component.typ);
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
    let end = Instant::now() + TIME_MAX;
    let mut stream = connect(server, end)?;
    let head = format!(
        "POST / HTTP/1.0\r\nHost: {server}\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.set_write_timeout(Some(left(end)?)).map_err(broken)?;
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
        head = match head {
            None => head_of(&octets)?,
            known => known,
        };
        let whole = |head: &Head| head.body_octets.is_some_and(|body| octets.len() >= head.octets + body);
        match head {
            Some(head) if read == 0 || whole(&head) => return head.body_of(octets),
            None if read == 0 => return Err(ManagementError::Malformed("it is no HTTP")),
            _ => {}
        }
    }
}

/// What the head of an answer says.
#[derive(Clone, Copy, Debug)]
struct Head {
    status: u16,
    octets: usize,
    /// Octets of the body, if it says so.
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

/// The head, once all of it is there.
fn head_of(octets: &[u8]) -> Result<Option<Head>, ManagementError> {
    let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut lines);
    let parsed = response.parse(octets).map_err(|_| ManagementError::Malformed("it is no HTTP"))?;
    let httparse::Status::Complete(head_octets) = parsed else { return Ok(None) };
    let mut head = Head { status: response.code.unwrap_or_default(), octets: head_octets, body_octets: None };
    for line in &*response.headers {
        if line.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(ManagementError::Malformed("it comes in chunks, which nobody asked for"));
        }
        if line.name.eq_ignore_ascii_case("content-length") {
            let body = std::str::from_utf8(line.value).ok().and_then(|text| text.trim().parse().ok());
            let body: usize = body.ok_or(ManagementError::Malformed("its length is no number"))?;
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

/// The time until `end`.
fn left(end: Instant) -> Result<Duration, ManagementError> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ManagementError::Slow) } else { Ok(left) }
}

fn broken(error: std::io::Error) -> ManagementError {
    match error.kind() {
        // What a socket says whose time is over.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ManagementError::Slow,
        kind => ManagementError::Unreachable(kind),
    }
}

#[cfg(test)]
mod tests {
    use namely_wire::Name;

    use super::*;

    #[test]
    fn names_are_written_without_conventions_that_ndn_dpdk_may_not_know() {
        let name: Name = "/cms/some name+/.../v=1/32=KEY".parse().unwrap();
        assert_eq!(uri(name.as_name()), "/8=cms/8=some%20name%2B/8=.../54=%01/32=KEY");
        assert_eq!(uri(Name::new().as_name()), "/");
    }

    #[test]
    fn a_message_of_a_peer_is_one_line_of_bounded_length() {
        assert_eq!(shown("a\nb\u{1b}[2J"), r#""a\nb\u{1b}[2J""#);
        assert_eq!(shown(&"x".repeat(MESSAGE_CHARS_MAX)).len(), MESSAGE_CHARS_MAX + 2);
        assert_eq!(shown(&"x".repeat(MESSAGE_CHARS_MAX + 1)).len(), MESSAGE_CHARS_MAX + 2);
    }

    #[test]
    fn an_id_at_the_limit_is_kept_and_one_longer_is_none() {
        let of = |octets: usize| id(&json!({ "id": "x".repeat(octets) })).is_ok();
        assert_eq!([of(0), of(1), of(ID_OCTETS_MAX), of(ID_OCTETS_MAX + 1)], [false, true, true, false]);
        assert!(id(&json!({ "id": 5 })).is_err() && id(&Value::Null).is_err());
    }
}

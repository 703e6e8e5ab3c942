//! Probes a producer through a router's Unix socket, with plain NDN packets, until it answers.
//!
//! Every subject receives the same Interest, because a subject's own report of readiness could come
//! too early. The answer occupies one small packet in each content store.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use namely_wire::types::NAME;
use namely_wire::{Component, DataView, InterestBuilder, LpView, Name, NameRef, tlv};

use crate::error::Error;
use namely_testbed::Interrupt;

/// Timeout of the first Interest. A router without a route may not answer at all, so the next
/// Interest follows soon. Each further timeout is twice the previous one, because an answer may
/// take longer.
const ANSWER_WAIT: Duration = Duration::from_millis(100);

/// Maximum timeout of an Interest.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(4);

/// Pause after an answer without Data, or after a failure to connect.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Waits until the router at `socket` returns the metadata of the object `name`. Returns the
/// object's versioned name, which the metadata holds (realtime data retrieval, metadata content).
pub fn versioned_name(
    socket: &Path,
    name: &str,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<Name, Error> {
    let metadata = parse(name)?.join(Component::keyword(b"metadata"));
    let make = |nonce| InterestBuilder::new(metadata.clone()).can_be_prefix().must_be_fresh().nonce(nonce);
    let content = answer(socket, name, make, limit, interrupt)?;
    let versioned = tlv::read_tlv(&content).ok().filter(|tlv| tlv.typ == NAME);
    let versioned = versioned.and_then(|tlv| NameRef::parse_value(tlv.value).ok());
    versioned
        .map(|versioned| versioned.to_name())
        .ok_or_else(|| Error::Subject(format!("the metadata of {name} does not start with a name")))
}

/// Waits until the router at `socket` returns Data named exactly `name`.
pub fn wait_for_answer(
    socket: &Path,
    name: &str,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let parsed = parse(name)?;
    let make = |nonce| InterestBuilder::new(parsed.clone()).must_be_fresh().nonce(nonce);
    answer(socket, name, make, limit, interrupt).map(|_| ())
}

/// Waits until the router at `socket` accepts connections.
pub fn wait_for_socket(socket: &Path, limit: Duration, interrupt: &Interrupt) -> Result<(), Error> {
    let deadline = Instant::now() + limit;
    while UnixStream::connect(socket).is_err() {
        if Instant::now() > deadline {
            return Err(Error::TimedOut { what: format!("a router at {}", socket.display()), after: limit });
        }
        interrupt.sleep(RETRY_PAUSE)?;
    }
    Ok(())
}

fn parse(name: &str) -> Result<Name, Error> {
    name.parse().map_err(|e| Error::Usage(format!("{name} is not a name: {e}")))
}

/// Sends Interests, each with another nonce, until one is answered. Returns the content of the
/// Data.
fn answer(
    socket: &Path,
    what: &str,
    make: impl Fn([u8; 4]) -> InterestBuilder,
    limit: Duration,
    interrupt: &Interrupt,
) -> Result<Vec<u8>, Error> {
    let deadline = Instant::now() + limit;
    let mut nonce = std::process::id().rotate_left(16);
    let mut wait = ANSWER_WAIT;
    while Instant::now() < deadline {
        nonce = nonce.wrapping_add(1);
        let interest = make(nonce.to_be_bytes()).lifetime_ms(wait.as_millis() as u64).build();
        let begun = Instant::now();
        if let Some(content) = request_once(socket, &interest, wait) {
            return Ok(content);
        }
        if begun.elapsed() >= wait {
            wait = (2 * wait).min(ANSWER_WAIT_MAX);
        }
        interrupt.sleep(RETRY_PAUSE)?;
    }
    Err(Error::TimedOut { what: format!("the producer of {what}"), after: limit })
}

fn request_once(socket: &Path, interest: &[u8], wait: Duration) -> Option<Vec<u8>> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(wait)).ok()?;
    stream.write_all(interest).ok()?;
    let mut received = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let n = stream.read(&mut chunk).ok().filter(|n| *n > 0)?;
        received.extend_from_slice(chunk.get(..n)?);
        match tlv::read_tlv(&received) {
            Ok(packet) => return content_of(packet.raw),
            Err(namely_wire::DecodeError::Truncated) => {}
            Err(_) => return None,
        }
    }
}

/// Returns the content if `packet` is a Data, bare or in a link packet. A Nack has none.
fn content_of(packet: &[u8]) -> Option<Vec<u8>> {
    let link = LpView::parse(packet).ok()?;
    let data = DataView::parse(link.fragment?).ok()?;
    Some(data.content.to_vec())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use namely_wire::{DataBuilder, SignatureInfo};

    use super::*;

    /// The timeout grows until it exceeds the time in which a router with a slow disk answers.
    #[test]
    fn a_probe_waits_for_a_slow_answer() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("router.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut interest = [0; 1024];
                    if stream.read(&mut interest).is_ok_and(|n| n > 0) {
                        thread::sleep(3 * ANSWER_WAIT);
                        let name: Name = "/a/probe".parse().unwrap();
                        let data = DataBuilder::new(name.as_name()).build(b"there", &SignatureInfo::null());
                        let _ = stream.write_all(&data.finish(&[]));
                    }
                });
            }
        });
        wait_for_answer(&socket, "/a/probe", 600 * ANSWER_WAIT, &Interrupt::default()).unwrap();
    }
}

//! A router between one producer and one consumer, in lockstep. It waits until the consumer has a
//! whole window of Interests outstanding, or sends no more, and forwards them in one write. Then it
//! waits for the answers and forwards them in one write. Both programs therefore do the same work
//! in each run, regardless of the machine's scheduling.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use namely_messages::{Block, ControlParameters, ControlResponse};
use namely_security::{Signer, sign_data};
use namely_wire::{DataBuilder, InterestView, LpView, Name, tlv};

/// If a program sends nothing for this time, the router expects no more packets in this round.
const QUIET: Duration = Duration::from_millis(500);

/// If a program sends nothing for this time, the run fails.
const STUCK: Duration = Duration::from_secs(120);

/// A router that listens for its producer and its consumer.
#[derive(Debug)]
pub(super) struct Lockstep {
    producer: UnixListener,
    consumer: UnixListener,
}

/// The next packet of a connection, or the reason why there is none.
enum Next {
    Packet(Vec<u8>),
    Quiet,
    Closed,
}

/// One program's connection.
struct End {
    stream: UnixStream,
    octets: Vec<u8>,
}

impl Lockstep {
    pub(super) fn listen(producer: &Path, consumer: &Path) -> io::Result<Self> {
        Ok(Lockstep { producer: UnixListener::bind(producer)?, consumer: UnixListener::bind(consumer)? })
    }

    /// Accepts the producer, and answers it until it has registered its prefix.
    pub(super) fn accept_producer(&self) -> io::Result<Producer> {
        let mut producer = Producer { end: End::accept(&self.producer)?, is_registered: false };
        while !producer.is_registered {
            match producer.end.next(STUCK)? {
                Next::Packet(packet) => drop(producer.take(packet)?),
                Next::Quiet | Next::Closed => return Err(io::Error::other("the producer registers nothing")),
            }
        }
        Ok(producer)
    }

    /// Forwards packets until the consumer closes its connection.
    pub(super) fn pass(&self, producer: &mut Producer, window: usize) -> io::Result<()> {
        let mut consumer = End::accept(&self.consumer)?;
        loop {
            let mut interests = Vec::new();
            let mut count = 0;
            while count < window {
                match consumer.next(if count == 0 { STUCK } else { QUIET })? {
                    // Interests for the router's status receive no answer. The consumer needs none.
                    Next::Packet(packet) if is_local(&packet) => (),
                    Next::Packet(packet) => {
                        interests.extend(packet);
                        count += 1;
                    }
                    Next::Quiet if count > 0 => break,
                    Next::Quiet => return Err(io::Error::other("the consumer neither asks nor ends")),
                    Next::Closed => return Ok(()),
                }
            }
            producer.end.stream.write_all(&interests)?;
            let answers = producer.answers(count)?;
            if consumer.stream.write_all(&answers).is_err() {
                return Ok(());
            }
        }
    }
}

/// The producer's connection.
pub(super) struct Producer {
    end: End,
    is_registered: bool,
}

impl Producer {
    /// Returns up to `count` answers. There are fewer if the producer does not answer a name within
    /// [`QUIET`].
    fn answers(&mut self, mut count: usize) -> io::Result<Vec<u8>> {
        let mut answers = Vec::new();
        while count > 0 {
            match self.end.next(QUIET)? {
                Next::Packet(packet) => {
                    if let Some(answer) = self.take(packet)? {
                        answers.extend(answer);
                        count -= 1;
                    }
                }
                Next::Quiet => break,
                Next::Closed => return Err(io::Error::other("the producer has ended")),
            }
        }
        Ok(answers)
    }

    /// Responds to a registration, drops other Interests for the router, and returns any other
    /// packet as an answer.
    fn take(&mut self, packet: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
        let Some(response) = registered(&packet) else { return Ok(Some(packet).filter(|p| !is_local(p))) };
        self.is_registered = true;
        self.end.stream.write_all(&response).map(|()| None)
    }
}

impl End {
    fn accept(listener: &UnixListener) -> io::Result<Self> {
        Ok(End { stream: listener.accept()?.0, octets: Vec::new() })
    }

    fn next(&mut self, wait: Duration) -> io::Result<Next> {
        loop {
            if let Ok(packet) = tlv::read_tlv(&self.octets).map(|packet| packet.raw.len()) {
                return Ok(Next::Packet(self.octets.drain(..packet).collect()));
            }
            let mut chunk = vec![0; 1 << 16];
            self.stream.set_read_timeout(Some(wait))?;
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Next::Closed),
                Ok(octets) => self.octets.extend_from_slice(&chunk[..octets]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Next::Quiet),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Next::Closed),
                Err(error) => return Err(error),
            }
        }
    }
}

fn interest(packet: &[u8]) -> Option<InterestView<'_>> {
    InterestView::parse(LpView::parse(packet).ok()?.fragment?).ok()
}

fn is_local(packet: &[u8]) -> bool {
    interest(packet)
        .is_some_and(|interest| interest.name.component(0).is_some_and(|first| first.value == b"localhost"))
}

/// Returns the response to a registration.
fn registered(packet: &[u8]) -> Option<Vec<u8>> {
    let interest = interest(packet)?;
    let prefix: Name = "/localhost/nfd/rib/register".parse().ok()?;
    if !prefix.is_prefix_of(interest.name) {
        return None;
    }
    let parameters = ControlParameters::decode(interest.name.component(4)?.value).ok()?;
    let response = ControlResponse::new(200, "OK").with_parameters(&parameters).to_vec();
    sign_data(&DataBuilder::new(interest.name), &response, &Signer::digest_sha256()).ok()
}

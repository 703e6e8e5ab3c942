//! The load: an application that sends Interests to another one, and to the content store, through
//! the router.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use namely_bench::error::Error;
use namely_testbed::Interrupt;
use namely_transport::connection::{Answer, Connection, Incoming, Options, Outbox, Packet};
use namely_wire::{DataBuilder, InterestBuilder, Name, SignatureInfo};

/// Minimum interval between the starts of two round trips.
const PAUSE: Duration = Duration::from_micros(500);

/// Maximum time of an answer.
const LIFETIME_MS: u64 = 4000;

/// Interval between two checks for the end.
const LOOK_NS: u64 = 50_000_000;

/// Round trips, us.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pings {
    /// Round trips to the application that answers.
    pub(crate) through_us: Vec<f64>,
    /// Round trips to the content store.
    pub(crate) store_us: Vec<f64>,
    /// Number of Interests without an answer.
    pub(crate) lost: u64,
}

/// Two applications at a router.
pub(crate) struct Trips {
    prefix: Name,
    connection: Connection,
    number: u64,
    is_over: Arc<AtomicBool>,
    producer: Option<JoinHandle<Result<(), Error>>>,
}

pub(super) fn connect(router: &str, options: Options) -> Result<Connection, Error> {
    Connection::find(Some(router), options).map_err(|e| Error::Subject(e.to_string()))
}

impl Trips {
    /// Starts both applications, the producer below `prefix`. Returns once the consumer has
    /// received the Data that the content store then holds.
    pub(crate) fn start(router: &str, prefix: &Name) -> Result<Self, Error> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, at, own) = (is_over.clone(), router.to_owned(), prefix.clone());
        let producer = thread::spawn(move || answer(&at, &own, &ends));
        let connection = connect(router, Options::default())?;
        let prefix = prefix.clone();
        let mut trips = Trips { prefix, connection, number: 0, is_over, producer: Some(producer) };
        let begun = Instant::now();
        while trips.trip(&trips.kept())?.is_none() {
            if begun.elapsed() > namely_bench::programs::READY_LIMIT {
                return Err(Error::Subject("the application does not answer".into()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(trips)
    }

    /// Sends Interests to the application and to the store in turn, for `length`.
    pub(crate) fn ping(&mut self, length: Duration, interrupt: &Interrupt) -> Result<Pings, Error> {
        let (mut pings, kept, end) = (Pings::default(), self.kept(), Instant::now() + length);
        while Instant::now() < end {
            interrupt.check()?;
            self.number += 1;
            let name = self.prefix.join_generic(self.number.to_string());
            for (name, list) in [(&name, &mut pings.through_us), (&kept, &mut pings.store_us)] {
                let begun = Instant::now();
                match self.trip(name)? {
                    Some(us) => list.push(us),
                    None => pings.lost += 1,
                }
                thread::sleep(PAUSE.saturating_sub(begun.elapsed()));
            }
        }
        Ok(pings)
    }

    /// The name that the store answers after its Data arrived once.
    fn kept(&self) -> Name {
        self.prefix.join_generic("kept")
    }

    /// The round trip of a name, us; none without Data.
    fn trip(&mut self, name: &Name) -> Result<Option<f64>, Error> {
        let interest = InterestBuilder::new(name.clone()).lifetime_ms(LIFETIME_MS);
        match self.connection.express(&interest).map_err(|e| Error::Subject(e.to_string()))? {
            Answer::Data(reply) => Ok(Some(reply.rtt_ns as f64 / 1e3)),
            Answer::Nack(_) | Answer::Timeout => Ok(None),
        }
    }
}

impl Drop for Trips {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The producer's result is no longer needed.
        let _ = self.producer.take().map(JoinHandle::join);
    }
}

/// The prefix below which an application answers.
pub(super) fn prefix() -> Name {
    Name::new().join_generic("ping")
}

fn answer(router: &str, prefix: &Name, is_over: &AtomicBool) -> Result<(), Error> {
    let mut connection = connect(router, Options::for_server())?;
    let mut handler = |incoming: Incoming<'_>, outbox: &mut Outbox| {
        if let Packet::Interest(interest) = incoming.packet {
            let data = DataBuilder::new(interest.name).freshness_ms(3_600_000);
            let data = data.build(b"pong", &SignatureInfo::digest_sha256()).finish(&[0; 32]);
            outbox.send(&incoming.answer_headers(), &data);
        }
    };
    connection.register(prefix, &mut handler).map_err(|e| Error::Subject(e.to_string()))?;
    while !is_over.load(Ordering::Relaxed) {
        let until_ns = connection.now_ns() + LOOK_NS;
        connection.turn(until_ns, &mut handler).map_err(|e| Error::Subject(e.to_string()))?;
    }
    Ok(())
}

/// Sends Interests for `count` packets of `file` once, and waits for no answer.
pub(super) fn want(router: &str, file: &Name, count: u64) -> Result<(), Error> {
    /// Interests between two pauses.
    const PART: u64 = 64;
    let mut connection = connect(router, Options::default())?;
    for number in 0..count {
        let interest = InterestBuilder::new(file.join_segment(number)).lifetime_ms(50);
        let (nonces, outbox) = connection.sending();
        outbox.send(&Default::default(), &interest.nonce(nonces.next()).build());
        if number % PART == PART - 1 || number + 1 == count {
            let until_ns = connection.now_ns() + 1_000_000;
            connection.turn(until_ns, &mut |_, _| {}).map_err(|e| Error::Subject(e.to_string()))?;
        }
    }
    Ok(())
}

/// Requests the packets `0..count` of `file` until all have arrived.
pub(super) fn read(router: &str, file: &Name, count: u64, interrupt: &Interrupt) -> Result<(), Error> {
    /// Interests under way.
    const WINDOW: usize = 64;
    let failed = |e: namely_transport::connection::ConnectionError| Error::Subject(e.to_string());
    let mut connection = connect(router, Options::default())?;
    let mut waiting = std::collections::BTreeMap::<Name, u64>::new();
    let (mut next, again_ns) = (0, 1_000_000_000);
    while next < count || !waiting.is_empty() {
        interrupt.check()?;
        let now_ns = connection.now_ns();
        while next < count && waiting.len() < WINDOW {
            waiting.insert(file.join_segment(next), 0);
            next += 1;
        }
        let (nonces, outbox) = connection.sending();
        for (name, sent_ns) in waiting.iter_mut() {
            if *sent_ns == 0 || now_ns - *sent_ns > again_ns {
                *sent_ns = now_ns;
                let interest = InterestBuilder::new(name.clone()).lifetime_ms(LIFETIME_MS);
                outbox.send(&Default::default(), &interest.nonce(nonces.next()).build());
            }
        }
        let mut take = |incoming: Incoming<'_>, _: &mut Outbox| {
            if let Packet::Data(data) = incoming.packet {
                waiting.remove(&data.name.to_name());
            }
        };
        connection.turn(now_ns + LOOK_NS, &mut take).map_err(failed)?;
    }
    Ok(())
}

//! The honest load: consumers that fetch, an application that pings, and an operator that requests
//! the status. The log has the results of all of them, with their times.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namely_messages::{Command, ControlParameters, Scope};
use namely_security::sha256;
use namely_testbed::Interrupt;
use namely_wire::types::IMPLICIT_DIGEST_COMPONENT;
use namely_wire::{Component, DataView, InterestBuilder, LpView, Name, tlv};

use super::kind::Attack;
use super::world::{Link, Namely, PINGS, Producer, World};
use crate::error::Error;
use crate::files::expect_same;

/// A fetch that takes longer than this has failed.
pub(crate) const FETCH_LIMIT: Duration = Duration::from_secs(20);

/// A ping that takes longer than this is lost.
const PING_LIMIT: Duration = Duration::from_secs(4);

/// Maximum number of consecutive false Data.
const FALSE_MAX: u64 = 4;

/// Maximum time of a status request.
const STATUS_LIMIT: Duration = Duration::from_secs(10);

/// Pauses between two fetches, between two pings, and between two status requests.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(10), Duration::from_millis(250)];

/// One fetch, ping or status request.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// The part of the load that made this trial.
    pub(crate) role: &'static str,
    /// Its start.
    pub(crate) start: Instant,
    /// Its duration, failed or not.
    pub(crate) took: Duration,
    /// Octets received.
    pub(crate) octets: u64,
    /// The failure, if it failed.
    pub(crate) failure: Option<String>,
}

impl Trial {
    /// Returns its end.
    pub(crate) fn end(&self) -> Instant {
        self.start + self.took
    }
}

/// All trials.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) fetches: Vec<Trial>,
    pub(crate) pings: Vec<Trial>,
    pub(crate) statuses: Vec<Trial>,
    /// Number of false Data that were refused.
    pub(crate) refused: u64,
}

/// Consumers in addition to those of each load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Consumers {
    /// A consumer by shared memory.
    pub(crate) memif: bool,
    /// Pings of a producer on the link.
    pub(crate) link: bool,
}

impl Consumers {
    /// Returns the consumers that `attack` affects.
    pub(super) fn of(world: &World, attack: Attack) -> Self {
        let memif = world.addresses.memif.is_some() && attack.parts().contains(&Attack::Memory);
        Consumers { memif, link: attack.is_by_neighbor() }
    }
}

/// The running load.
pub(crate) struct Honest {
    stop: Arc<AtomicBool>,
    log: Arc<Mutex<Log>>,
    threads: Vec<JoinHandle<()>>,
}

/// State shared by the threads of the load.
#[derive(Clone)]
struct Shared {
    stop: Arc<AtomicBool>,
    log: Arc<Mutex<Log>>,
    interrupt: Interrupt,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.interrupt.check().is_err()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // A thread that panicked left the lists consistent.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Honest {
    /// Starts the load at `world`. Two consumers fetch the large object, one by Unix socket and one
    /// by UDP. A third one fetches it by shared memory if `more` requires it. The last one fetches
    /// a new object by Unix socket each time.
    pub(crate) fn start(world: &World, more: Consumers, interrupt: &Interrupt) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let log = Arc::new(Mutex::new(Log::default()));
        let shared = Shared { stop: stop.clone(), log: log.clone(), interrupt: interrupt.clone() };
        let (object, fresh) = world.names();
        let mut threads = Vec::new();
        let mut consumer = |role, link, names: Box<dyn Iterator<Item = String> + Send>, source: &Path| {
            let consumer = Consumer { role, namely: world.namely(link), source: source.to_path_buf() };
            let shared = shared.clone();
            threads.push(std::thread::spawn(move || consumer.run(names, &shared)));
        };
        let again = || Box::new(std::iter::repeat(object.clone()));
        consumer("unix", Link::Unix, again(), &world.object.path);
        consumer("udp", Link::Udp, again(), &world.object.path);
        if more.memif {
            consumer("memif", Link::Memif, again(), &world.object.path);
        }
        consumer("fresh", Link::Unix, Box::new(fresh.cycle()), &world.fresh);
        let (pings, socket) = (shared.clone(), world.addresses.unix.clone());
        threads.push(std::thread::spawn(move || ping(&socket, &pings)));
        if let Some(producer) = world.beside().filter(|_| more.link) {
            let (pings, socket) = (shared.clone(), world.addresses.unix.clone());
            threads.push(std::thread::spawn(move || ping_on_link(&socket, &producer, &pings)));
        }
        let namely = world.namely(Link::Unix);
        threads.push(std::thread::spawn(move || request_status(&namely, &shared)));
        Honest { stop, log, threads }
    }

    /// Returns the number of successful fetches so far.
    pub(crate) fn fetched(&self) -> usize {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.fetches.iter().filter(|fetch| fetch.failure.is_none()).count()
    }

    /// Returns the trials since the last call, and clears the lists.
    pub(crate) fn take(&self) -> Log {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the load after the trials that are under way.
    pub(crate) fn finish(mut self) -> Log {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The log has the trials up to a panic.
            let _ = thread.join();
        }
        self.take()
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Consumer {
    role: &'static str,
    namely: Namely,
    source: PathBuf,
}

impl Consumer {
    fn run(&self, names: impl Iterator<Item = String>, shared: &Shared) {
        let octets = fs::metadata(&self.source).map_or(0, |metadata| metadata.len());
        for name in names {
            if shared.is_over() {
                return;
            }
            let start = Instant::now();
            let failure = self.fetch(&name, shared).err();
            if matches!(failure, Some(Error::Interrupted)) {
                return;
            }
            let octets = if failure.is_none() { octets } else { 0 };
            let failure = failure.map(|e| e.to_string());
            let trial = Trial { role: self.role, start, took: start.elapsed(), octets, failure };
            shared.log().fetches.push(trial);
            std::thread::sleep(PAUSES[0]);
        }
    }

    /// Fetches an object and compares it with its source.
    fn fetch(&self, name: &str, shared: &Shared) -> Result<(), Error> {
        let output = self.namely.dir().join(format!("output-{}", self.role));
        let path = output.to_string_lossy();
        let result =
            self.namely.run(&["--quiet", "get", name, "-o", &path], None, FETCH_LIMIT, &shared.interrupt);
        let result = result.and_then(|()| expect_same(&self.source, &output));
        let _ = fs::remove_file(&output);
        result
    }
}

fn request_status(namely: &Namely, shared: &Shared) {
    while !shared.is_over() {
        let start = Instant::now();
        let failure = namely.run(&["status"], None, STATUS_LIMIT, &shared.interrupt).err();
        if matches!(failure, Some(Error::Interrupted)) {
            return;
        }
        let failure = failure.map(|e| e.to_string());
        let trial = Trial { role: "status", start, took: start.elapsed(), octets: 0, failure };
        shared.log().statuses.push(trial);
        std::thread::sleep(PAUSES[2]);
    }
}

fn ping(socket: &Path, shared: &Shared) {
    ping_each(socket, "ping", shared, |pinger, number| {
        let name = format!("{PINGS}/ping/{}-{number}", std::process::id());
        pinger.request(&parse(&name)?, number).map(|_| ())
    });
}

/// Requests segments of the producer on the link, as a program that verifies its Data does. False
/// Data is reported to the router, and requested again.
fn ping_on_link(socket: &Path, producer: &Producer, shared: &Shared) {
    ping_each(socket, "link", shared, |pinger, number| {
        let (name, right) = producer.segment(number);
        let name = parse(&name)?;
        for again in 0..FALSE_MAX {
            let nonce = number << 8 | again << 1;
            let data = pinger.request(&name, nonce)?;
            if DataView::parse(&data).is_ok_and(|data| data.content == right) {
                return Ok(());
            }
            shared.log().refused += 1;
            pinger.report(&name, &data, nonce + 1)?;
        }
        Err("all of it is false".to_owned())
    });
}

fn parse(name: &str) -> Result<Name, String> {
    name.parse().map_err(|e| format!("not a name: {e}"))
}

fn ping_each(
    socket: &Path,
    role: &'static str,
    shared: &Shared,
    ping: impl Fn(&mut Pinger<'_>, u64) -> Result<(), String>,
) {
    let mut pinger = Pinger { socket, stream: None, received: Vec::new() };
    let mut number = 0u64;
    while !shared.is_over() {
        number += 1;
        let start = Instant::now();
        let failure = ping(&mut pinger, number).err();
        if failure.is_some() {
            // Reconnects for the next Interest, as an application does after a timeout.
            pinger.stream = None;
            pinger.received.clear();
        }
        let trial = Trial { role, start, took: start.elapsed(), octets: 0, failure };
        shared.log().pings.push(trial);
        std::thread::sleep(PAUSES[1]);
    }
}

struct Pinger<'a> {
    socket: &'a Path,
    stream: Option<UnixStream>,
    received: Vec<u8>,
}

impl Pinger<'_> {
    /// Requests `name` and returns its Data unverified.
    fn request(&mut self, name: &Name, nonce: u64) -> Result<Vec<u8>, String> {
        self.express(name, InterestBuilder::new(name.clone()), nonce)
    }

    fn express(&mut self, name: &Name, interest: InterestBuilder, nonce: u64) -> Result<Vec<u8>, String> {
        let deadline = Instant::now() + PING_LIMIT;
        let nonce = (nonce as u32).wrapping_mul(0x9e37_79b9).to_be_bytes();
        self.send(&interest.nonce(nonce).lifetime_ms(PING_LIMIT.as_millis() as u64).build())?;
        let mut chunk = [0; 4096];
        loop {
            while let Some(packet) = take_packet(&mut self.received)? {
                if let Some(data) = answer_to(name, &packet)? {
                    return Ok(data);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("no answer".to_owned());
            }
            let Some(stream) = &mut self.stream else { return Err("no connection".to_owned()) };
            stream.set_read_timeout(Some(left)).map_err(|e| e.to_string())?;
            match stream.read(&mut chunk) {
                Ok(0) => return Err("the router closed the connection".to_owned()),
                Ok(n) => self.received.extend_from_slice(&chunk[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    /// Reports to the router that this Data is false.
    fn report(&mut self, name: &Name, data: &[u8], nonce: u64) -> Result<(), String> {
        let digest = sha256(data);
        let full = name.clone().join(Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &digest });
        let parameters = ControlParameters { name: Some(full), ..ControlParameters::default() };
        let report = Command::CsReport.name(Scope::Localhost, &parameters);
        self.express(&report, InterestBuilder::new(report.clone()).must_be_fresh(), nonce).map(|_| ())
    }

    fn send(&mut self, packet: &[u8]) -> Result<(), String> {
        if self.stream.is_none() {
            self.stream = Some(UnixStream::connect(self.socket).map_err(|e| e.to_string())?);
        }
        let Some(stream) = &mut self.stream else { return Err("no connection".to_owned()) };
        stream.set_write_timeout(Some(PING_LIMIT)).map_err(|e| e.to_string())?;
        stream.write_all(packet).map_err(|e| e.to_string())
    }
}

/// Removes the next packet from `received`, if it is complete.
fn take_packet(received: &mut Vec<u8>) -> Result<Option<Vec<u8>>, String> {
    match tlv::read_tlv(received) {
        Ok(packet) => {
            let length = packet.raw.len();
            Ok(Some(received.drain(..length).collect()))
        }
        Err(namely_wire::DecodeError::Truncated) => Ok(None),
        Err(e) => Err(e.to_string()),
    }
}

/// Returns the Data in a packet, if its name is `name`. A Nack is an error.
fn answer_to(name: &Name, packet: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let link = LpView::parse(packet).map_err(|e| e.to_string())?;
    if let Some(reason) = link.headers.nack {
        return Err(format!("refused: {reason}"));
    }
    let data =
        link.fragment.filter(|packet| DataView::parse(packet).is_ok_and(|data| data.name == name.as_name()));
    Ok(data.map(<[u8]>::to_vec))
}

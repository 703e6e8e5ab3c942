//! The honest load: consumers that fetch, an application that pings, an operator who asks for the
//! status, and what all of them and the router's memory came to, with the times.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namely_testbed::Interrupt;
use namely_wire::{DataView, InterestBuilder, LpView, Name, tlv};

use super::world::{Link, Namely, PINGS, World};
use crate::error::Error;
use crate::files::expect_same;

/// How long a fetch may take before it counts as failed.
pub(crate) const FETCH_LIMIT: Duration = Duration::from_secs(20);

/// How long a ping may take before it counts as lost.
const PING_LIMIT: Duration = Duration::from_secs(4);

/// How long the router may take to say how it is.
const STATUS_LIMIT: Duration = Duration::from_secs(10);

/// Pause between two fetches, between two pings, and between two questions for the status.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(10), Duration::from_millis(250)];

/// Something that was tried.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// Who tried.
    pub(crate) who: &'static str,
    /// When it began.
    pub(crate) start: Instant,
    /// How long it took, failed or not.
    pub(crate) took: Duration,
    /// What it brought.
    pub(crate) octets: u64,
    /// Why it failed.
    pub(crate) failure: Option<String>,
}

impl Trial {
    /// When it ended.
    pub(crate) fn end(&self) -> Instant {
        self.start + self.took
    }
}

/// All that was tried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) fetches: Vec<Trial>,
    pub(crate) pings: Vec<Trial>,
    pub(crate) statuses: Vec<Trial>,
}

/// The running load.
pub(crate) struct Honest {
    stop: Arc<AtomicBool>,
    log: Arc<Mutex<Log>>,
    threads: Vec<JoinHandle<()>>,
}

/// What each thread of the load has.
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
        // A thread that panicked left the lists as they were.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Honest {
    /// Starts the load at `world`: a consumer by Unix socket and one by UDP of the large object, by
    /// shared memory too if `has_memif`, and one by Unix socket of objects that nobody had before.
    pub(crate) fn start(world: &World, has_memif: bool, interrupt: &Interrupt) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let log = Arc::new(Mutex::new(Log::default()));
        let shared = Shared { stop: stop.clone(), log: log.clone(), interrupt: interrupt.clone() };
        let (object, fresh) = world.names();
        let mut threads = Vec::new();
        let mut consumer = |who, link, names: Box<dyn Iterator<Item = String> + Send>, source: &Path| {
            let consumer = Consumer { who, namely: world.namely(link), source: source.to_path_buf() };
            let shared = shared.clone();
            threads.push(std::thread::spawn(move || consumer.run(names, &shared)));
        };
        let again = || Box::new(std::iter::repeat(object.clone()));
        consumer("unix", Link::Unix, again(), &world.object.path);
        consumer("udp", Link::Udp, again(), &world.object.path);
        if has_memif {
            consumer("memif", Link::Memif, again(), &world.object.path);
        }
        consumer("fresh", Link::Unix, Box::new(fresh.cycle()), &world.fresh);
        let (pings, socket) = (shared.clone(), world.place.unix.clone());
        threads.push(std::thread::spawn(move || ping(&socket, &pings)));
        let namely = world.namely(Link::Unix);
        threads.push(std::thread::spawn(move || ask_status(&namely, &shared)));
        Honest { stop, log, threads }
    }

    /// How many fetches have ended well so far.
    pub(crate) fn fetched(&self) -> usize {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.fetches.iter().filter(|fetch| fetch.failure.is_none()).count()
    }

    /// What was tried since this was asked last; the lists begin anew.
    pub(crate) fn take(&self) -> Log {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the load; waits for what is under way.
    pub(crate) fn finish(mut self) -> Log {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // What it had logged before it panicked is there.
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
    who: &'static str,
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
            let trial = Trial { who: self.who, start, took: start.elapsed(), octets, failure };
            shared.log().fetches.push(trial);
            std::thread::sleep(PAUSES[0]);
        }
    }

    /// Fetches and compares with the source.
    fn fetch(&self, name: &str, shared: &Shared) -> Result<(), Error> {
        let output = self.namely.dir().join(format!("output-{}", self.who));
        let path = output.to_string_lossy();
        let result =
            self.namely.run(&["--quiet", "get", name, "-o", &path], None, FETCH_LIMIT, &shared.interrupt);
        let result = result.and_then(|()| expect_same(&self.source, &output));
        let _ = fs::remove_file(&output);
        result
    }
}

fn ask_status(namely: &Namely, shared: &Shared) {
    while !shared.is_over() {
        let start = Instant::now();
        let failure = namely.run(&["status"], None, STATUS_LIMIT, &shared.interrupt).err();
        if matches!(failure, Some(Error::Interrupted)) {
            return;
        }
        let failure = failure.map(|e| e.to_string());
        let trial = Trial { who: "status", start, took: start.elapsed(), octets: 0, failure };
        shared.log().statuses.push(trial);
        std::thread::sleep(PAUSES[2]);
    }
}

fn ping(socket: &Path, shared: &Shared) {
    let mut pinger = Pinger { socket, stream: None, received: Vec::new() };
    let mut number = 0u64;
    while !shared.is_over() {
        number += 1;
        let start = Instant::now();
        let failure = pinger.ping(number).err();
        if failure.is_some() {
            // A new connection next time, as an application does that hears nothing.
            pinger.stream = None;
            pinger.received.clear();
        }
        let trial = Trial { who: "ping", start, took: start.elapsed(), octets: 0, failure };
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
    fn ping(&mut self, number: u64) -> Result<(), String> {
        let deadline = Instant::now() + PING_LIMIT;
        let name: Name = format!("{PINGS}/ping/{}-{number}", std::process::id())
            .parse()
            .map_err(|e| format!("not a name: {e}"))?;
        if self.stream.is_none() {
            self.stream = Some(UnixStream::connect(self.socket).map_err(|e| e.to_string())?);
        }
        let Some(stream) = &mut self.stream else { return Err("no connection".to_owned()) };
        let nonce = (number as u32).wrapping_mul(0x9e37_79b9).to_be_bytes();
        let interest =
            InterestBuilder::new(name.clone()).nonce(nonce).lifetime_ms(PING_LIMIT.as_millis() as u64);
        stream.set_write_timeout(Some(PING_LIMIT)).map_err(|e| e.to_string())?;
        stream.write_all(&interest.build()).map_err(|e| e.to_string())?;
        let mut chunk = [0; 4096];
        loop {
            while let Some(answers) = take_answer(&mut self.received, &name)? {
                if answers {
                    return Ok(());
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("no answer".to_owned());
            }
            stream.set_read_timeout(Some(left)).map_err(|e| e.to_string())?;
            match stream.read(&mut chunk) {
                Ok(0) => return Err("the router closed the connection".to_owned()),
                Ok(n) => self.received.extend_from_slice(&chunk[..n]),
                Err(e) => return Err(e.to_string()),
            }
        }
    }
}

/// Takes the next packet out of `received`, if it is whole: whether it is the Data of `name`.
fn take_answer(received: &mut Vec<u8>, name: &Name) -> Result<Option<bool>, String> {
    let length = match tlv::read_tlv(received) {
        Ok(packet) => packet.raw.len(),
        Err(namely_wire::DecodeError::Truncated) => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    let packet: Vec<u8> = received.drain(..length).collect();
    let link = LpView::parse(&packet).map_err(|e| e.to_string())?;
    if let Some(reason) = link.headers.nack {
        return Err(format!("refused: {reason}"));
    }
    let data = link.fragment.and_then(|packet| DataView::parse(packet).ok());
    Ok(Some(data.is_some_and(|data| data.name == name.as_name())))
}

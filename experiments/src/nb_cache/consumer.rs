//! The consumer: requests every name once, at a rate or with the window of NB-CC, and reports the
//! time from the due time of each Interest to its Data.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path as FilePath;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use namely_bench::error::Error;
use namely_testbed::Interrupt;
use namely_transport::congestion::{Algorithm, CongestionControl, Path, Signal};
use namely_wire::{DataView, DecodeError, InterestBuilder, LpView, Name, tlv};

/// Longest window.
const WINDOW_MAX: usize = 1 << 14;

/// Lifetime of an Interest.
const LIFETIME_MS: u64 = 60_000;

/// Interval at which the reader checks for the end.
const LOOK: Duration = Duration::from_millis(50);

/// The progress of a run.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Interests that the first router's socket has accepted.
    pub(super) taken: AtomicUsize,
    /// Time at which the socket had accepted the last one, ns after the first was due; 0 until
    /// then.
    pub(super) all_taken_ns: AtomicU64,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Round trips, ms.
    pub(super) rtts_ms: Vec<f64>,
    /// Data a second from the first to the last.
    pub(super) per_second: f64,
    /// Data that carried a mark.
    pub(super) marked: u64,
    /// Interests that were refused, and Interests without any response.
    pub(super) refused: u64,
    pub(super) lost: u64,
    /// The mean window; 0 without one.
    pub(super) window: f64,
    /// Time at which the first router had accepted the last Interest, ms.
    pub(super) taken_ms: f64,
}

/// The load of a consumer: a rate, or a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Rate(u64),
    Window,
}

/// Requests `names` from the router at `socket`. Stops after `limit`.
pub(super) fn run(
    socket: &FilePath,
    names: &[Name],
    load: Load,
    limit: Duration,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Outcome, Error> {
    let lost = |e| Error::environment("the first router is gone", e);
    let stream = UnixStream::connect(socket).map_err(lost)?;
    stream.set_read_timeout(Some(LOOK)).map_err(lost)?;
    let begun = Instant::now();
    let sent_at: Vec<AtomicU64> = names.iter().map(|_| AtomicU64::new(0)).collect();
    let mut reader = Reader {
        stream: &stream,
        sent_at: &sent_at,
        names: names.iter().enumerate().map(|(n, name)| (name.as_name().as_bytes(), n)).collect(),
        begun,
        progress,
        window: (load == Load::Window).then(Window::default),
        open: names.len(),
        outcome: Outcome::default(),
        came: (0, 0),
    };
    let writer = Writer { stream: &stream, names, sent_at: &sent_at, begun, progress };
    let end = begun + limit;
    let outcome = match load {
        Load::Rate(per_second) => thread::scope(|scope| {
            let writing = scope.spawn(move || writer.write_all_at(per_second.max(1), end));
            let read = reader.read_until(end, interrupt, |_| Ok(()));
            // Releases the thread that still waits to write.
            let _ = stream.shutdown(std::net::Shutdown::Both);
            let _ = writing.join();
            read
        }),
        Load::Window => {
            let mut next = 0;
            let mut fill = |reader: &Reader<'_>| {
                let window = reader.window.as_ref().map_or(0, |window| window.control.window());
                let under_way = next - (names.len() - reader.open);
                for _ in under_way..window.min(under_way + names.len() - next) {
                    writer.write(next, begun.elapsed())?;
                    next += 1;
                }
                Ok(())
            };
            fill(&reader).map_err(lost)?;
            reader.read_until(end, interrupt, fill)
        }
    };
    outcome.map_err(lost)?;
    interrupt.check()?;
    Ok(reader.finish())
}

struct Writer<'a> {
    stream: &'a UnixStream,
    names: &'a [Name],
    sent_at: &'a [AtomicU64],
    begun: Instant,
    progress: &'a Progress,
}

impl Writer<'_> {
    fn write(&self, n: usize, due: Duration) -> io::Result<()> {
        let (Some(name), Some(sent_at)) = (self.names.get(n), self.sent_at.get(n)) else { return Ok(()) };
        sent_at.store(due.as_nanos().max(1) as u64, Ordering::Relaxed);
        let nonce = (n as u32).wrapping_mul(0x9e37_79b9).to_be_bytes();
        let interest = InterestBuilder::new(name.clone()).nonce(nonce).lifetime_ms(LIFETIME_MS).build();
        let mut stream = self.stream;
        stream.write_all(&interest)?;
        if self.progress.taken.fetch_add(1, Ordering::Relaxed) + 1 == self.names.len() {
            let now_ns = self.begun.elapsed().as_nanos() as u64;
            self.progress.all_taken_ns.store(now_ns, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes each Interest when it is due, or as soon afterwards as the router accepts it.
    fn write_all_at(&self, per_second: u64, end: Instant) -> io::Result<()> {
        let interval = Duration::from_secs(1) / u32::try_from(per_second).unwrap_or(u32::MAX);
        for n in 0..self.names.len() {
            let due = interval * n as u32;
            if let Some(early) = due.checked_sub(self.begun.elapsed()).filter(|early| *early > interval * 8) {
                thread::sleep(early);
            }
            if Instant::now() >= end {
                break;
            }
            self.write(n, due)?;
        }
        Ok(())
    }
}

/// NB-CC's window at a consumer (NB-16).
struct Window {
    control: Box<dyn CongestionControl>,
    path: Path,
    /// Before this time, a mark belongs to the congestion of the last reaction, and is ignored.
    deaf_until_ns: u64,
    sum: u64,
}

impl Default for Window {
    fn default() -> Self {
        let control = Algorithm::NbCc.controller(WINDOW_MAX);
        Window { control, path: Path::default(), deaf_until_ns: 0, sum: 0 }
    }
}

impl Window {
    fn adapt(&mut self, is_marked: bool, rtt_ns: u64, was_full: bool, now_ns: u64) {
        let path = &mut self.path;
        path.now_ns = now_ns;
        path.rtt_smoothed_ns = match path.rtt_smoothed_ns {
            0 => rtt_ns,
            smoothed => smoothed - smoothed / 8 + rtt_ns / 8,
        };
        self.sum += self.control.window() as u64;
        if !is_marked {
            self.control.on_data(path, was_full);
        } else if now_ns >= self.deaf_until_ns && self.control.on_congestion(path, Signal::Mark) {
            self.deaf_until_ns = now_ns + path.rtt_smoothed_ns;
        }
    }
}

struct Reader<'a> {
    stream: &'a UnixStream,
    sent_at: &'a [AtomicU64],
    names: HashMap<&'a [u8], usize>,
    begun: Instant,
    progress: &'a Progress,
    window: Option<Window>,
    /// Names without a response yet.
    open: usize,
    outcome: Outcome,
    /// Times of the first and the latest Data, ns.
    came: (u64, u64),
}

impl Reader<'_> {
    fn read_until(
        &mut self,
        end: Instant,
        interrupt: &Interrupt,
        mut turn: impl FnMut(&Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut held, mut chunk) = (Vec::new(), vec![0; 1 << 18]);
        while self.open > 0 && Instant::now() < end && interrupt.check().is_ok() {
            let mut stream = self.stream;
            match stream.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(octets) => held.extend_from_slice(&chunk[..octets]),
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    continue;
                }
                Err(e) => return Err(e),
            }
            let mut at = 0;
            loop {
                match tlv::read_tlv(&held[at..]) {
                    Ok(packet) => {
                        self.take(packet.raw);
                        at += packet.raw.len();
                    }
                    Err(DecodeError::Truncated) => break,
                    Err(_) => return Err(io::ErrorKind::InvalidData.into()),
                }
            }
            held.drain(..at);
            turn(self)?;
        }
        Ok(())
    }

    fn take(&mut self, packet: &[u8]) {
        let Ok(link) = LpView::parse(packet) else { return };
        if link.headers.nack.is_some() {
            self.outcome.refused += 1;
            self.open = self.open.saturating_sub(1);
            return;
        }
        let Some(Ok(data)) = link.fragment.map(DataView::parse) else { return };
        let Some(n) = self.names.remove(data.name.as_bytes()) else { return };
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let rtt_ns = now_ns.saturating_sub(self.sent_at[n].load(Ordering::Relaxed));
        if self.outcome.rtts_ms.is_empty() {
            self.came.0 = now_ns;
        }
        self.came.1 = now_ns;
        self.outcome.rtts_ms.push(rtt_ns as f64 / 1e6);
        self.outcome.marked += u64::from(link.headers.is_marked());
        self.open -= 1;
        if let Some(window) = &mut self.window {
            // The window was full if the Interests outstanding before this Data filled it. They
            // include the one that this Data answers.
            let had_come = self.sent_at.len() - self.open - 1;
            let was_full = self.progress.taken.load(Ordering::Relaxed) - had_come >= window.control.window();
            window.adapt(link.headers.is_marked(), rtt_ns, was_full, now_ns);
        }
    }

    fn finish(mut self) -> Outcome {
        let count = self.outcome.rtts_ms.len();
        let seconds = self.came.1.saturating_sub(self.came.0).max(1) as f64 / 1e9;
        self.outcome.per_second = count.saturating_sub(1) as f64 / seconds;
        self.outcome.lost = self.open as u64;
        self.outcome.window = self.window.map_or(0.0, |window| window.sum as f64 / count.max(1) as f64);
        self.outcome.taken_ms = self.progress.all_taken_ns.load(Ordering::Relaxed) as f64 / 1e6;
        self.outcome
    }
}

//! Routers in a line, the first with the consumers and the last with the source, and consumers
//! whose windows are a share of the links' capacity.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use namely_bench::error::Error;
use namely_bench::{probe, programs};
use namely_testbed::{Interrupt, Lab, Testbed};

use super::ends::{self, CONTENT_OCTETS, Choice, ConsumerResult, Habit};
use super::network::{error, node};

/// Round trip over all links.
pub(super) const RTT: Duration = Duration::from_millis(60);

/// Maximum length of the queue before a link.
const QUEUE: Duration = Duration::from_millis(200);

/// The share of the links that a single consumer's window fills: one part in `SHARE`.
pub(super) const SHARE: u64 = 10;

/// Interval between two readings of the received octets.
const PART: Duration = Duration::from_secs(1);

/// A line of routers.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouterChain {
    pub(super) routers: usize,
    pub(super) rate_bps: u64,
    /// Capacity of each router's content store, packets. The first router has none.
    pub(super) room: u64,
}

impl RouterChain {
    /// Interests of a consumer under way.
    pub(super) fn window(&self) -> usize {
        let held = self.rate_bps as f64 * RTT.as_secs_f64() / 8.0;
        (held / CONTENT_OCTETS as f64 / SHARE as f64).ceil() as usize
    }

    /// A consumer that reads the same object of `packets` packets repeatedly.
    pub(super) fn habit(&self, object: usize, packets: u64) -> Habit {
        Habit { window: self.window(), interval_ns: 0, packets, choice: Choice::Always(object) }
    }

    /// The line, in namespaces.
    pub(super) fn build(&self, folder: &Path, interrupt: &Interrupt) -> Result<Lab, Error> {
        let testbed =
            Testbed::parse(&self.text(), Path::new("line.toml")).map_err(|e| Error::Usage(e.to_string()))?;
        Lab::build(testbed, folder, interrupt).map_err(error)
    }

    fn text(&self) -> String {
        let mut text = String::from("[testbed]\nname = \"line\"\n[defaults]\nlisten = \"udp\"\n");
        for n in 0..self.routers {
            let room = if n == 0 { 0 } else { self.room };
            let mut config = format!("[tables]\ncs_packets_max = {room}\n[discovery]\nenabled = false\n");
            if n + 1 < self.routers {
                let face = format!("udp4://{{addr:{}}}:6363", node(n + 1));
                config += &format!("[[face]]\nremote = \"{face}\"\n");
                config += &format!("[[route]]\nprefix = \"/store\"\nto = \"{face}\"\n");
            }
            text += &format!("[[node]]\nname = \"{}\"\nconfig = '''\n{config}'''\n", node(n));
        }
        let links = self.routers.saturating_sub(1).max(1);
        let (delay_us, queue_ms) = (RTT.as_micros() / 2 / links as u128, QUEUE.as_millis());
        for n in 1..self.routers {
            text += &format!(
                "[[link]]\nbetween = [\"{}\", \"{}\"]\nrate = \"{}bit\"\ndelay = \"{delay_us}us\"\nmtu = 9000\nqueue = \"{queue_ms}ms\"\n",
                node(n - 1),
                node(n),
                self.rate_bps
            );
        }
        text
    }

    /// Runs consumers that each read an object of their own. `watch` receives the counts of octets
    /// that have arrived at each consumer. When `watch` returns, the consumers finish their current
    /// object, for at most `grace`.
    pub(super) fn load<T>(
        &self,
        lab: &mut Lab,
        consumers: usize,
        packets: u64,
        grace: Duration,
        interrupt: &Interrupt,
        watch: impl FnOnce(&mut Lab, &[AtomicU64]) -> Result<T, Error>,
    ) -> Result<(T, Vec<ConsumerResult>), Error> {
        let (near, far) = (lab.router(&node(0)), lab.router(&node(self.routers - 1)));
        let counts: Vec<AtomicU64> = (0..consumers).map(|_| AtomicU64::new(0)).collect();
        let (is_over, is_unserved) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let source = scope.spawn(|| ends::serve(&far, &is_unserved));
            let watched = (|| {
                let socket = Path::new(near.trim_start_matches("unix://"));
                let name = format!("{}/seg=0", ends::file(0));
                probe::wait_for_answer(socket, &name, programs::READY_LIMIT, interrupt)?;
                let readers: Vec<_> = (counts.iter().enumerate())
                    .map(|(n, count)| {
                        let (near, is_over, habit) = (&near, &is_over, self.habit(n, packets));
                        scope.spawn(move || ends::read_on(near, habit, count, is_over, grace))
                    })
                    .collect();
                let seen = watch(lab, &counts);
                is_over.store(true, Ordering::Relaxed);
                let join = |reader: thread::ScopedJoinHandle<'_, Result<ConsumerResult, Error>>| {
                    reader.join().map_err(|_| Error::Subject("a consumer panicked".into()))?
                };
                let got: Result<Vec<ConsumerResult>, Error> = readers.into_iter().map(join).collect();
                Ok((seen?, got?))
            })();
            is_over.store(true, Ordering::Relaxed);
            is_unserved.store(true, Ordering::Relaxed);
            source.join().map_err(|_| Error::Subject("the source panicked".into()))??;
            watched
        })
    }
}

/// Bits of content per second, in each part of the time (one second each) and over all of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) parts: Vec<f64>,
    pub(super) mean_bps: f64,
}

impl Rates {
    pub(super) fn peak_bps(&self) -> f64 {
        self.parts.iter().copied().fold(0.0, f64::max)
    }

    /// Measures the rates of the counts for `time`.
    pub(super) fn watch(counts: &[AtomicU64], time: Duration, interrupt: &Interrupt) -> Result<Self, Error> {
        let sum = || counts.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>() as f64 * 8.0;
        let (began, first) = (Instant::now(), sum());
        let (mut at, mut known, mut parts) = (began, first, Vec::new());
        while began.elapsed() < time {
            interrupt.sleep(PART.min(time.saturating_sub(began.elapsed())))?;
            let (now, bits) = (Instant::now(), sum());
            // The remainder of a part is too short to be significant.
            if now - at >= PART {
                parts.push((bits - known) / (now - at).as_secs_f64());
                (at, known) = (now, bits);
            }
        }
        Ok(Rates { parts, mean_bps: (sum() - first) / began.elapsed().as_secs_f64() })
    }
}

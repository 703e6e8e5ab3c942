//! How many Interests may be outstanding, and how fast they go out: congestion control, without
//! I/O.
//!
//! [`crate::fetch::Fetch`] tells a [`CongestionControl`] of each Data and, at most once a round
//! trip, of congestion; the controller answers with a window in packets and, if it paces, with a
//! rate.
//!
//! | word | controller | reacts to |
//! | --- | --- | --- |
//! | `cubic` | `Cubic` | marks, loss with a queue, its own queue |
//! | `raaqm` | `Raaqm` | delay |
//! | `bbr` | `Bbr` | the rate at which Data come; marks |
//! | `nbcc` | `NbCc` | marks and loss |
//! | `aimd` | `Aimd` | marks and loss |
//! | `fixed:N` | `Fixed` | nothing |

mod bbr;
mod cubic;
mod nbcc;
mod raaqm;

use std::fmt::Debug;

use self::bbr::Bbr;
use self::cubic::Cubic;
use self::nbcc::NbCc;
use self::raaqm::Raaqm;

/// Share of lost packets above which loss means congestion, whatever the queue looks like.
const LOSS_MAX: f64 = 0.15;

/// How long a standing queue may be that consumers make: this, or a quarter of the empty path's
/// round trip. More than the time for which a busy host keeps a process waiting, which looks the
/// same.
const QUEUE_NS: u64 = 25_000_000;

/// The smallest window: one to wait for, one on its way.
const WINDOW_MIN: f64 = 2.0;

/// The window before anything is known of the path (as RFC 6928 has it for TCP).
pub(crate) const WINDOW_INITIAL: f64 = 10.0;

/// What was measured of the path so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Path {
    /// Now.
    pub now_ns: u64,
    /// The least round trip of the last seconds: the path without queues, as far as known. 0: none
    /// measured.
    pub rtt_min_ns: u64,
    /// The least of the latest few round trips: tells a queue as soon as it grows.
    pub rtt_recent_ns: u64,
    /// The least round trip within the last full round trip: what exceeds `rtt_min_ns` is a
    /// standing queue, and not a host that was busy for a moment.
    pub rtt_round_ns: u64,
    /// The smoothed round trip.
    pub rtt_smoothed_ns: u64,
    /// Share of the latest packets that were lost, 0 to 1.
    pub loss: f64,
    /// Interests outstanding.
    pub in_flight: usize,
    /// Pieces that have come.
    pub delivered: u64,
    /// What the latest Data tells.
    pub sample: Sample,
}

/// What one Data tells of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Its round trip; none if it was asked for more than once.
    pub rtt_ns: Option<u64>,
    /// Pieces a second that came while its Interest was outstanding.
    pub rate: f64,
    /// There was too little to ask for then, so that the path may carry more than this rate.
    pub starved: bool,
    /// [`Path::delivered`] when its Interest went out: a round trip is over when this passes what
    /// it was at its start.
    pub delivered_before: u64,
}

impl Path {
    /// Returns true if Data wait longer than consumers may make them, if their round trip is
    /// `rtt_ns`.
    fn is_queue(&self, rtt_ns: u64) -> bool {
        rtt_ns.saturating_sub(self.rtt_min_ns) > QUEUE_NS.max(self.rtt_min_ns / 4)
    }

    /// Returns true if all Data of the last full round trip waited longer than that: a queue that
    /// stands.
    pub(crate) fn has_queue(&self) -> bool {
        self.is_queue(self.rtt_round_ns)
    }

    /// Share of the window that the path holds without its queue. Round trips vary by themselves:
    /// up to a quarter more is no queue.
    fn share_without_queue(&self) -> f64 {
        if 4 * self.rtt_round_ns <= 5 * self.rtt_min_ns {
            return 1.0;
        }
        1.25 * self.rtt_min_ns as f64 / self.rtt_round_ns as f64
    }
}

/// What says that the path is congested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A congestion mark, or a Nack for congestion: a router's word.
    Mark,
    /// A packet was lost: perhaps a full queue, perhaps a bad link.
    Loss,
    /// Data waited too long for a whole round trip (`Path::has_queue`), and no router said so:
    /// what CoDel (RFC 8289) would mark at the queue, seen from this end.
    Queue,
}

/// Decides the window and, if it likes, the rate.
pub trait CongestionControl: Debug + Send {
    /// Interests that may be outstanding.
    fn window(&self) -> usize;

    /// Interests a second, at most; none: as fast as the window has room.
    fn pace(&self) -> Option<f64> {
        None
    }

    /// Begins with a window of `packets`, as far as its largest lets it; only before anything was
    /// asked for.
    fn begin_with(&mut self, _packets: usize) {}

    /// A Data came. `limited`: the window was full, so it is the window that limits the rate.
    fn on_data(&mut self, path: &Path, limited: bool);

    /// Congestion. Whether it is answered: then what other packets of this round trip say is the
    /// same congestion, and not told.
    fn on_congestion(&mut self, path: &Path, signal: Signal) -> bool;
}

/// A window that never changes.
#[derive(Clone, Copy, Debug)]
struct Fixed(usize);

impl CongestionControl for Fixed {
    fn window(&self) -> usize {
        self.0.max(1)
    }

    fn on_data(&mut self, _: &Path, _: bool) {}

    fn on_congestion(&mut self, _: &Path, _: Signal) -> bool {
        false
    }
}

/// Additive increase, multiplicative decrease: one packet more each round trip, half on congestion.
#[derive(Clone, Copy, Debug)]
struct Aimd {
    window: f64,
    slow_start_max: f64,
    window_max: f64,
}

impl Aimd {
    /// A window of at most `window_max` packets.
    fn new(window_max: usize) -> Self {
        let window_max = (window_max as f64).max(WINDOW_MIN);
        Aimd { window: WINDOW_INITIAL.min(window_max), slow_start_max: f64::INFINITY, window_max }
    }
}

impl CongestionControl for Aimd {
    fn window(&self) -> usize {
        self.window as usize
    }

    fn begin_with(&mut self, packets: usize) {
        self.window = (packets as f64).clamp(WINDOW_MIN, self.window_max);
    }

    fn on_data(&mut self, _: &Path, limited: bool) {
        if limited {
            let growth = if self.window < self.slow_start_max { 1.0 } else { 1.0 / self.window };
            self.window = (self.window + growth).min(self.window_max);
        }
    }

    fn on_congestion(&mut self, _: &Path, signal: Signal) -> bool {
        if signal == Signal::Queue {
            return false;
        }
        self.window = (self.window / 2.0).max(WINDOW_MIN);
        self.slow_start_max = self.window;
        true
    }
}

/// A controller by name, for command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A window of so many packets that never changes.
    Fixed(usize),
    /// Additive increase, multiplicative decrease.
    Aimd,
    /// CUBIC (RFC 9438), for Interests.
    Cubic,
    /// Remote adaptive active queue management: by delay.
    Raaqm,
    /// BBR, by the rate at which Data come.
    Bbr,
    /// NB-CC: by marks and loss.
    NbCc,
}

impl Algorithm {
    /// The words that [`str::parse`] takes; `fixed` is written `fixed:64`.
    pub const WORDS: [&'static str; 6] = ["cubic", "raaqm", "bbr", "nbcc", "aimd", "fixed:N"];

    /// This or, in the place of one that goes by delay, NB-CC: for a fetch whose Data come from
    /// many distances at once, so that a long round trip says nothing of a queue.
    pub fn without_delay(self) -> Self {
        match self {
            Algorithm::Cubic | Algorithm::Raaqm => Algorithm::NbCc,
            Algorithm::Fixed(_) | Algorithm::Aimd | Algorithm::Bbr | Algorithm::NbCc => self,
        }
    }

    /// A controller of this kind whose window stays at or below `window_max`.
    pub fn controller(self, window_max: usize) -> Box<dyn CongestionControl> {
        match self {
            Algorithm::Fixed(window) => Box::new(Fixed(window.min(window_max))),
            Algorithm::Aimd => Box::new(Aimd::new(window_max)),
            Algorithm::Cubic => Box::new(Cubic::new(window_max)),
            Algorithm::Raaqm => Box::new(Raaqm::new(window_max)),
            Algorithm::Bbr => Box::new(Bbr::new(window_max)),
            Algorithm::NbCc => Box::new(NbCc::new(window_max)),
        }
    }
}

impl std::str::FromStr for Algorithm {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word.split_once(':') {
            None if word == "cubic" => Ok(Algorithm::Cubic),
            None if word == "raaqm" => Ok(Algorithm::Raaqm),
            None if word == "bbr" => Ok(Algorithm::Bbr),
            None if word == "nbcc" => Ok(Algorithm::NbCc),
            None if word == "aimd" => Ok(Algorithm::Aimd),
            Some(("fixed", window)) => match window.parse() {
                Ok(window) if window > 0 => Ok(Algorithm::Fixed(window)),
                _ => Err(format!("'{window}' is no window: write a number of packets, as in fixed:64")),
            },
            _ => Err(format!("no congestion control '{word}': use {}", Self::WORDS.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aimd_adds_one_packet_a_round_trip_and_halves() {
        let mut aimd = Aimd::new(1000);
        aimd.on_congestion(&Path::default(), Signal::Loss);
        assert_eq!(aimd.window(), 5);
        for _ in 0..6 {
            aimd.on_data(&Path::default(), true);
        }
        assert_eq!(aimd.window(), 6);
        for _ in 0..100 {
            aimd.on_data(&Path::default(), false);
        }
        assert_eq!(aimd.window(), 6, "a window that is not used does not grow");
        for _ in 0..10 {
            aimd.on_congestion(&Path::default(), Signal::Mark);
        }
        assert_eq!(aimd.window(), WINDOW_MIN as usize);
    }

    #[test]
    fn algorithms_are_named_by_words() {
        assert_eq!("fixed:64".parse(), Ok(Algorithm::Fixed(64)));
        assert_eq!("cubic".parse(), Ok(Algorithm::Cubic));
        assert!("fixed:0".parse::<Algorithm>().is_err());
        for word in Algorithm::WORDS {
            let algorithm: Algorithm = word.replace('N', "9").parse().unwrap();
            assert!(algorithm.controller(64).window() >= 1, "{word}");
        }
        assert!("reno".parse::<Algorithm>().unwrap_err().contains("cubic"));
    }
}

//! Congestion control without I/O: the number of outstanding Interests, and their rate.
//!
//! [`crate::fetch::Fetch`] reports each Data to a [`CongestionControl`], and congestion at most
//! once a round trip. The controller returns a window in packets and, if it paces, a rate.
//!
//! | word | controller | reacts to |
//! | --- | --- | --- |
//! | `cubic` | `Cubic` | marks, loss with a queue, its own queue |
//! | `raaqm` | `Raaqm` | delay, marks, loss with a queue |
//! | `bbr` | `Bbr` | the rate of Data, marks, loss with a queue, a standing queue |
//! | `rfc9438` | `Rfc9438`: CUBIC as published | marks and loss; slow start also to delay |
//! | `bbr3` | `Bbr3`: BBR, version 3, as published | the rate of Data, marks, loss above 2 % |
//! | `raaqm-published` | `PublishedRaaqm` | delay, marks and loss |
//! | `nbcc` | `NbCc` | marks and loss |
//! | `aimd` | `Aimd` | marks and loss |
//! | `fixed:N` | `Fixed` | nothing |

mod bbr;
mod bbr3;
mod cubic;
mod hystart;
mod nbcc;
mod published_raaqm;
mod raaqm;
mod rfc9438;

use std::fmt::Debug;

use self::bbr::Bbr;
use self::bbr3::Bbr3;
use self::cubic::Cubic;
use self::nbcc::NbCc;
use self::published_raaqm::PublishedRaaqm;
use self::raaqm::Raaqm;
use self::rfc9438::Rfc9438;

/// Share of lost packets above which loss means congestion, regardless of the queue.
const LOSS_MAX: f64 = 0.15;

/// Maximum delay of a standing queue that consumers may build. If a quarter of the round trip on
/// the empty path is longer, that is the maximum. The value exceeds the time for which a busy host
/// delays a process, because such a delay looks like a queue.
const QUEUE_NS: u64 = 25_000_000;

/// The smallest window: one packet to wait for, one in transit.
const WINDOW_MIN: f64 = 2.0;

/// The window before any measurement of the path (as in RFC 6928 for TCP).
pub(crate) const WINDOW_INITIAL: f64 = 10.0;

/// Measurements of the path so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Path {
    /// The current time.
    pub now_ns: u64,
    /// The minimum round trip of the last seconds: the path without queues, as far as known. 0:
    /// none measured.
    pub rtt_min_ns: u64,
    /// The minimum of the latest round trips, which detects a growing queue at once.
    pub rtt_recent_ns: u64,
    /// The minimum round trip within the last full round trip. The excess over `rtt_min_ns` is a
    /// standing queue, and not a host that was busy for a moment.
    pub rtt_round_ns: u64,
    /// The smoothed round trip.
    pub rtt_smoothed_ns: u64,
    /// Share of the latest packets that were lost, 0 to 1.
    pub loss: f64,
    /// Number of outstanding Interests.
    pub in_flight: usize,
    /// Number of received pieces.
    pub delivered: u64,
    /// Number of pieces that counted as lost.
    pub lost: u64,
    /// The sample of the latest Data. With [`Signal::Loss`], [`Sample::in_flight_before`] and
    /// [`Sample::lost_before`] are those of the lost Interest.
    pub sample: Sample,
}

/// A measurement of the path by one Data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Its round trip; none if it was requested more than once.
    pub rtt_ns: Option<u64>,
    /// Pieces per second received while its Interest was outstanding.
    pub rate: f64,
    /// There were too few requests to fill the path, so the path may carry more than this rate.
    pub starved: bool,
    /// [`Path::delivered`] when its Interest was sent. A round trip ends when this passes the value
    /// at its start.
    pub delivered_before: u64,
    /// [`Path::in_flight`] when its Interest was sent, with it.
    pub in_flight_before: usize,
    /// [`Path::lost`] when its Interest was sent.
    pub lost_before: u64,
}

impl Path {
    /// Returns true if a round trip of `rtt_ns` includes more queueing than consumers may cause.
    fn is_queue(&self, rtt_ns: u64) -> bool {
        rtt_ns.saturating_sub(self.rtt_min_ns) > QUEUE_NS.max(self.rtt_min_ns / 4)
    }

    /// Returns true if there is a standing queue: all Data of the last full round trip waited
    /// longer than consumers may cause.
    pub(crate) fn has_queue(&self) -> bool {
        self.is_queue(self.rtt_round_ns)
    }

    /// The share of the window that equals the path's capacity without its queue. Round trips vary
    /// without any queue, so up to a quarter more counts as none.
    fn share_without_queue(&self) -> f64 {
        if 4 * self.rtt_round_ns <= 5 * self.rtt_min_ns {
            // Exactly 1.0, because the controllers compare with it.
            return 1.0;
        }
        1.25 * self.rtt_min_ns as f64 / self.rtt_round_ns as f64
    }
}

/// A signal of congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// From a router: a congestion mark, or a Nack for congestion.
    Mark,
    /// A packet was lost, by a full queue or by a bad link.
    Loss,
    /// Data waited too long for a whole round trip (`Path::has_queue`), and no router marked it.
    /// CoDel (RFC 8289) at the queue would mark it; here the consumer detects it.
    Queue,
}

/// Decides the window and optionally the rate.
pub trait CongestionControl: Debug + Send {
    /// Maximum number of outstanding Interests.
    fn window(&self) -> usize;

    /// Maximum number of Interests per second; none: limited by the window only.
    fn pace(&self) -> Option<f64> {
        None
    }

    /// Sets the initial window to `packets`, up to its maximum. Only before the first request.
    fn begin_with(&mut self, _packets: usize) {}

    /// Processes a received Data. `limited`: the window was full, so the window limits the rate.
    fn on_data(&mut self, path: &Path, limited: bool);

    /// Reacts to congestion. Returns true if it did. The caller then reports no further signals of
    /// this round trip, because they belong to the same congestion.
    fn on_congestion(&mut self, path: &Path, signal: Signal) -> bool;
}

/// Factors of the rate at which a window would leave within one round trip: in slow start, and
/// after it. They are above 1, so that the window and not the rate limits.
const PACE: f64 = 1.25;
const PACE_SLOW_START: f64 = 2.0;

/// Shorter round trips are not paced, because a timer is late by about as much.
const PACED_NS_MIN: u64 = 2_000_000;

/// The rate in pieces per second that spreads a window over a round trip, instead of bursts.
fn window_pace(window: f64, in_slow_start: bool, rtt_ns: u64) -> Option<f64> {
    let gain = if in_slow_start { PACE_SLOW_START } else { PACE };
    (rtt_ns >= PACED_NS_MIN).then(|| gain * window * 1e9 / rtt_ns as f64)
}

/// The next state of a random generator, and its output (SplitMix64).
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A constant window.
#[derive(Clone, Copy, Debug)]
struct Fixed(usize);

impl CongestionControl for Fixed {
    fn window(&self) -> usize {
        // A window of 0 would never send an Interest.
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
    /// Creates a controller with a window of at most `window_max` packets.
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
            // Until the first decrease the threshold is infinite, which is slow start (RFC 5681,
            // 3.1).
            let growth = if self.window < self.slow_start_max { 1.0 } else { 1.0 / self.window };
            self.window = (self.window + growth).min(self.window_max);
        }
    }

    fn on_congestion(&mut self, _: &Path, signal: Signal) -> bool {
        // AIMD serves as a baseline that ignores delay: it reacts to marks and losses only.
        if signal == Signal::Queue {
            return false;
        }
        self.window = (self.window / 2.0).max(WINDOW_MIN);
        self.slow_start_max = self.window;
        true
    }
}

/// A congestion control by name, for command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// A constant window of this number of packets.
    Fixed(usize),
    /// Additive increase, multiplicative decrease.
    Aimd,
    /// A rule after CUBIC that limits its queue's delay and ignores loss without a queue.
    Cubic,
    /// CUBIC (RFC 9438), which takes every loss for congestion.
    Rfc9438,
    /// A rule after remote adaptive active queue management, based on delay.
    Raaqm,
    /// Remote adaptive active queue management as published.
    PublishedRaaqm,
    /// A rule after BBR, based on the rate of Data, that limits its queue's delay.
    Bbr,
    /// BBR (draft-ietf-ccwg-bbr, version 3), based on the rate of Data.
    Bbr3,
    /// NB-CC, based on marks and loss.
    NbCc,
}

impl Algorithm {
    /// The words that [`str::parse`] accepts; `fixed` is written `fixed:64`.
    pub const WORDS: [&'static str; 9] =
        ["cubic", "raaqm", "bbr", "nbcc", "aimd", "fixed:N", "rfc9438", "bbr3", "raaqm-published"];

    /// Replaces a delay-based algorithm by NB-CC, and returns others unchanged. It is for a fetch
    /// whose Data come from several distances, where a long round trip is no evidence of a queue.
    pub fn without_delay(self) -> Self {
        match self {
            Algorithm::Cubic | Algorithm::Raaqm | Algorithm::PublishedRaaqm => Algorithm::NbCc,
            Algorithm::Fixed(_) | Algorithm::Aimd | Algorithm::Rfc9438 => self,
            Algorithm::Bbr | Algorithm::Bbr3 | Algorithm::NbCc => self,
        }
    }

    /// Creates a controller of this kind with a window of at most `window_max`.
    pub fn controller(self, window_max: usize) -> Box<dyn CongestionControl> {
        match self {
            Algorithm::Fixed(window) => Box::new(Fixed(window.min(window_max))),
            Algorithm::Aimd => Box::new(Aimd::new(window_max)),
            Algorithm::Cubic => Box::new(Cubic::new(window_max)),
            Algorithm::Rfc9438 => Box::new(Rfc9438::new(window_max)),
            Algorithm::Raaqm => Box::new(Raaqm::new(window_max)),
            Algorithm::PublishedRaaqm => Box::new(PublishedRaaqm::new(window_max)),
            Algorithm::Bbr => Box::new(Bbr::new(window_max)),
            Algorithm::Bbr3 => Box::new(Bbr3::new(window_max)),
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
            None if word == "rfc9438" => Ok(Algorithm::Rfc9438),
            None if word == "bbr3" => Ok(Algorithm::Bbr3),
            None if word == "raaqm-published" => Ok(Algorithm::PublishedRaaqm),
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
    fn aimd_adds_one_per_round_trip() {
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
    fn congestion_algorithms_are_parsed_from_words() {
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

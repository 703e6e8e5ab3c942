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
mod rule;

use self::bbr::Bbr;
use self::bbr3::Bbr3;
use self::cubic::Cubic;
use self::nbcc::NbCc;
use self::published_raaqm::PublishedRaaqm;
use self::raaqm::Raaqm;
use self::rfc9438::Rfc9438;
pub(crate) use self::rule::WINDOW_INITIAL;
use self::rule::WINDOW_MIN;
pub use self::rule::{CongestionControl, Path, Sample, Signal};

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
        ["cubic", "raaqm", "bbr", "nbcc", "aimd", "rfc9438", "bbr3", "raaqm-published", "fixed:N"];

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

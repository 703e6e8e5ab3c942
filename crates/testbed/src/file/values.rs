//! Rates, times and shares in their written form, and the addresses of a testbed's devices.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

/// Bits a second: `"100mbit"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub u64);

/// A time: `"250ms"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span(pub Duration);

/// A share of all frames: `"0.5%"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

/// Transports that a router listens on, beside its Unix socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listens {
    /// Ethernet, on each device.
    #[default]
    Ethernet,
    /// UDP, on all addresses.
    Udp,
    /// Both.
    Both,
    /// Neither.
    None,
}

/// Maximum time in a file.
const SPAN_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

const SPANS: [(&str, f64); 5] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)];

const RATES: [(&str, f64); 4] = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];

/// A number and its unit.
fn measured(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.trim().find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = text.trim().split_at(digits);
    let factor = units.iter().find(|(known, _)| *known == unit.trim())?.1;
    number.parse::<f64>().ok().map(|number| number * factor).filter(|value| value.is_finite())
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let seconds = measured(&text, &SPANS).filter(|s| *s <= SPAN_MAX.as_secs_f64());
        let span = seconds.map(|seconds| Span(Duration::from_secs_f64(seconds)));
        span.ok_or_else(|| D::Error::custom(format!("`{text}` is no time; write one as \"250ms\" or \"5s\"")))
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let rate = measured(&text, &RATES).filter(|rate| (8.0..=1e12).contains(rate));
        rate.map(|rate| Rate(rate as u64)).ok_or_else(|| {
            D::Error::custom(format!("`{text}` is no rate; write one as \"100mbit\", from 8bit to 1000gbit"))
        })
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let share = measured(&text, &[("%", 0.01)]).filter(|share| (0.0..=1.0).contains(share));
        share
            .map(Share)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is no share; write one as \"0.5%\"")))
    }
}

/// The addresses of a node's device on a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Index of the network in the testbed.
    pub network: usize,
    /// Index of the node on the network.
    pub station: usize,
}

impl Addresses {
    /// Returns the IPv4 address, in a network of 24 bits.
    pub fn ipv4(self) -> String {
        format!("10.{}.{}.{}", self.network >> 8, self.network & 255, self.station + 1)
    }

    /// Returns the Ethernet address.
    pub fn ethernet(self) -> String {
        let Addresses { network, station } = self;
        format!("02:00:00:{:02x}:{:02x}:{:02x}", network >> 8, network & 255, station + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        assert_eq!(measured("100mbit", &RATES), Some(1e8));
        assert_eq!(measured("1.5 s", &SPANS), Some(1.5));
        assert_eq!(measured("250ms", &SPANS), Some(0.25));
        for wrong in ["", "5", "ms", "-1s", "1e3s", "5 parsecs", "1.2.3s"] {
            assert_eq!(measured(wrong, &SPANS), None, "{wrong}");
        }
    }

    #[test]
    fn every_device_has_its_own_address() {
        let first = Addresses { network: 0, station: 0 };
        assert_eq!((first.ipv4().as_str(), first.ethernet().as_str()), ("10.0.0.1", "02:00:00:00:00:01"));
        let last = Addresses { network: 999, station: 249 };
        assert_eq!((last.ipv4().as_str(), last.ethernet().as_str()), ("10.3.231.250", "02:00:00:03:e7:fa"));
    }
}

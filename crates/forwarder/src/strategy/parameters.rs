//! The parameters of a strategy, which follow its name as in NFD:
//! `/localhost/nfd/strategy/asf/v=5/probing-interval~30000/max-timeouts~5`.
//!
//! Only ASF has parameters. They are stored beside the strategy's number in the table of choices,
//! so that strategies without them need no lookup.

use core::fmt::Write;

use namely_wire::Component;

use crate::strategy::name::StrategyName;

/// Default interval of ASF's probes in milliseconds.
const PROBING_MS: u32 = 60_000;

/// The minimum interval, as in NFD.
const PROBING_MS_MIN: u32 = 1_000;

/// Default number of timeouts in a row after which ASF treats a next hop as dead.
const TIMEOUTS_MAX: u32 = 3;

const PROBING_INTERVAL: &str = "probing-interval";
const MAX_TIMEOUTS: &str = "max-timeouts";

/// The parameters of a choice; 0 stands for the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    probing_ms: u32,
    timeouts_max: u32,
}

impl Parameters {
    /// Parses the components after the version of a strategy that may take parameters; `None` for
    /// an unknown or repeated parameter or an invalid value.
    pub(super) fn parse<'a>(is_taken: bool, components: impl Iterator<Item = Component<'a>>) -> Option<Self> {
        let mut parameters = Parameters::default();
        for component in components {
            let text = core::str::from_utf8(component.value).ok().filter(|_| is_taken)?;
            let (key, value) = text.split_once('~')?;
            let (field, least) = match key {
                PROBING_INTERVAL => (&mut parameters.probing_ms, PROBING_MS_MIN),
                MAX_TIMEOUTS => (&mut parameters.timeouts_max, 1),
                _ => return None,
            };
            let value = value.parse().ok().filter(|value| *value >= least)?;
            // Only a parameter that was given before is not 0, because no value below its minimum
            // is accepted.
            if core::mem::replace(field, value) != 0 {
                return None;
            }
        }
        Some(parameters)
    }

    /// Appends the given parameters to the name of a strategy.
    pub(super) fn append_to(self, name: &mut StrategyName) {
        for (key, value) in [(PROBING_INTERVAL, self.probing_ms), (MAX_TIMEOUTS, self.timeouts_max)] {
            if value != 0 {
                // Cannot fail: there is room for both.
                name.component(|name| {
                    let _ = write!(name, "{key}~{value}");
                });
            }
        }
    }

    /// As the second number of an entry in a table of names.
    pub(super) fn number(self) -> u64 {
        u64::from(self.probing_ms) << 32 | u64::from(self.timeouts_max)
    }

    pub(super) fn from_number(number: u64) -> Self {
        Parameters { probing_ms: (number >> 32) as u32, timeouts_max: number as u32 }
    }

    /// The interval of probes, ns.
    pub(super) fn probing_ns(self) -> u64 {
        let ms = if self.probing_ms == 0 { PROBING_MS } else { self.probing_ms };
        u64::from(ms) * 1_000_000
    }

    /// Timeouts in a row after which a next hop counts as timed out.
    pub(super) fn timeouts_max(self) -> u32 {
        if self.timeouts_max == 0 { TIMEOUTS_MAX } else { self.timeouts_max }
    }
}

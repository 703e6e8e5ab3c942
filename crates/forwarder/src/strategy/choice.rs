//! Which strategy handles which names: longest-prefix match, best route where nothing else was
//! chosen.

use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lock_api::{Mutex, RawMutex};
use namely_wire::Name;

use super::StrategyKind;
use super::registry::STRATEGIES;
use crate::config::ConfigError;
use crate::prefix_table::{Key, Pair, Pairs, PrefixTable, Writer};

/// Why a strategy choice was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyError {
    /// No strategy has this name.
    Unknown,
    /// `strategy_choices_max` names have a strategy of their own.
    TableFull,
    /// The choice for `/` can be changed but not removed.
    Root,
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrategyError::Unknown => {
                f.write_str("no such strategy: there are")?;
                STRATEGIES.iter().try_for_each(|(kind, ..)| write!(f, " {}", kind.name()))
            }
            StrategyError::TableFull => {
                f.write_str("too many strategy choices: unset some or raise strategy_choices_max")
            }
            StrategyError::Root => f.write_str("the choice for / cannot be unset: set another strategy"),
        }
    }
}

impl core::error::Error for StrategyError {}

pub(crate) struct StrategyChoice<R> {
    table: PrefixTable,
    control: Mutex<R, Writer>,
    choices_max: usize,
    /// That of `/`: its number in the table of strategies.
    default: AtomicU32,
}

impl<R: RawMutex> StrategyChoice<R> {
    pub(crate) fn new(choices_max: usize) -> Result<Self, ConfigError> {
        let default = AtomicU32::new(StrategyKind::DEFAULT as u32);
        let table = PrefixTable::new(choices_max)?;
        Ok(StrategyChoice { table, control: Mutex::new(Writer::default()), choices_max, default })
    }

    /// The strategy of the longest prefix of `key` that has one.
    pub(crate) fn find(&self, key: Key<'_>) -> StrategyKind {
        let kind = |_, mut pairs: Pairs<'_>| pairs.next().map(StrategyKind::from_pair);
        self.table.find_longest(&self.control, key, kind).unwrap_or_else(|| self.default())
    }

    pub(crate) fn set(&self, prefix: Key<'_>, kind: StrategyKind) -> Result<(), StrategyError> {
        let n = prefix.hashes.len();
        let writer = &mut *self.control.lock();
        if n == 0 {
            self.default.store(kind as u32, Relaxed);
            return Ok(());
        }
        if let Some(id) = self.table.find(writer, prefix, n) {
            self.table.set_pairs(writer, id, &[kind.pair()]);
            return Ok(());
        }
        if self.table.len() + 1 >= self.choices_max {
            return Err(StrategyError::TableFull);
        }
        self.table.insert(writer, prefix, n, kind.pair()).map(drop).ok_or(StrategyError::TableFull)
    }

    /// Removes the choice of a prefix; returns true if there was one.
    pub(crate) fn unset(&self, prefix: Key<'_>) -> Result<bool, StrategyError> {
        let n = prefix.hashes.len();
        if n == 0 {
            return Err(StrategyError::Root);
        }
        let writer = &mut *self.control.lock();
        let Some(id) = self.table.find(writer, prefix, n) else { return Ok(false) };
        self.table.remove(writer, prefix, n, id);
        Ok(true)
    }

    /// All choices, that of `/` first.
    pub(crate) fn snapshot(&self) -> Vec<(Name, StrategyKind)> {
        let writer = self.control.lock();
        let (own, _) = self.table.walk(&writer, 1, u32::MAX);
        let kind =
            |pairs: Vec<Pair>| pairs.first().copied().map_or(StrategyKind::DEFAULT, StrategyKind::from_pair);
        let own = own.map(|(name, pairs)| (name, kind(pairs)));
        core::iter::once((Name::new(), self.default())).chain(own).collect()
    }

    fn default(&self) -> StrategyKind {
        StrategyKind::from_pair((u64::from(self.default.load(Relaxed)), 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_error_for_an_unknown_strategy_lists_those_that_exist() {
        let text = StrategyError::Unknown.to_string();
        assert!(text.contains("/localhost/nfd/strategy/best-route/v=5"));
        assert!(text.contains("/localhost/nfd/strategy/multicast/v=4"));
    }
}

//! The choice of strategies by name: longest-prefix match, best route by default.

use crate::lock_order::WriterLock;
use crate::sync::plain::{AtomicU32, AtomicU64, Ordering::Relaxed};
use core::fmt;

use lock_api::RawMutex;
use namely_wire::{Name, NameRef};

use super::StrategyKind;
use super::parameters::Parameters;
use super::registry::{ConfiguredStrategy, STRATEGIES};
use crate::error::ConfigError;
use crate::prefix_table::{Key, NameOctets, NoBlock, Pairs, PrefixTable, Writer};
use crate::slab::Id;

/// The reason for which a strategy choice was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyError {
    /// No strategy has this name.
    Unknown,
    /// The strategy has no such parameter, or the parameter has no such value.
    Parameters,
    /// `strategy_choices_max` names have a strategy of their own.
    TableFull,
    /// The choice for `/` can be changed but not removed.
    Root,
    /// There is no memory for the choice.
    NoMemory,
}

impl From<NoBlock> for StrategyError {
    fn from(none: NoBlock) -> Self {
        match none {
            NoBlock::Full => StrategyError::TableFull,
            NoBlock::NoMemory => StrategyError::NoMemory,
        }
    }
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrategyError::Unknown => {
                f.write_str("no such strategy: there are")?;
                STRATEGIES.iter().try_for_each(|(kind, ..)| write!(f, " {}", kind.name()))
            }
            StrategyError::Parameters => f.write_str(
                "no such parameter of this strategy: asf takes probing-interval~MS (1000 or more) and max-timeouts~N \
                 (1 or more) behind its version, as in /localhost/nfd/strategy/asf/v=5/max-timeouts~5; others take none",
            ),
            StrategyError::TableFull => {
                f.write_str("too many strategy choices: unset some or raise strategy_choices_max")
            }
            StrategyError::NoMemory => f.write_str("no memory for the choice: try again later"),
            StrategyError::Root => f.write_str("the choice for / cannot be unset: set another strategy"),
        }
    }
}

impl core::error::Error for StrategyError {}

pub(crate) struct StrategyChoice<R> {
    table: PrefixTable,
    control: WriterLock<R, Writer>,
    choices_max: usize,
    /// The choice of `/`: its number in the table of strategies.
    default: AtomicU32,
    /// Its parameters, as [`Parameters::number`].
    default_parameters: AtomicU64,
}

impl<R: RawMutex> StrategyChoice<R> {
    pub(crate) fn new(choices_max: usize) -> Result<Self, ConfigError> {
        let default = AtomicU32::new(StrategyKind::DEFAULT as u32);
        let table = PrefixTable::new(choices_max)?;
        let control = WriterLock::new(Writer::default());
        let default_parameters = AtomicU64::new(Parameters::default().number());
        Ok(StrategyChoice { table, control, choices_max, default, default_parameters })
    }

    /// Allocates the next memory; returns true if any was allocated.
    pub(crate) fn grow(&self) -> Result<bool, ConfigError> {
        self.table.grow()
    }

    /// The strategy of the longest prefix of `key` that has one.
    pub(crate) fn find(&self, key: Key<'_>) -> StrategyKind {
        let kind = |_, mut pairs: Pairs<'_>| pairs.next().map(StrategyKind::from_pair);
        self.table.find_longest(self.control.mutex(), key, kind).unwrap_or_else(|| self.default())
    }

    /// As `find`, with the parameters and the length in components of the prefix that it was chosen
    /// for.
    pub(crate) fn find_choice(&self, key: Key<'_>) -> (usize, ConfiguredStrategy) {
        let named =
            |n, mut pairs: Pairs<'_>| pairs.next().map(|pair| (n, ConfiguredStrategy::from_pair(pair)));
        self.table.find_longest(self.control.mutex(), key, named).unwrap_or_else(|| (0, self.of_root()))
    }

    /// The parameters of the strategy that [`StrategyChoice::find`] finds.
    pub(crate) fn parameters(&self, key: Key<'_>) -> Parameters {
        let parameters =
            |_, mut pairs: Pairs<'_>| pairs.next().map(|pair| ConfiguredStrategy::from_pair(pair).parameters);
        let found = self.table.find_longest(self.control.mutex(), key, parameters);
        found.unwrap_or_else(|| Parameters::from_number(self.default_parameters.load(Relaxed)))
    }

    pub(crate) fn set(&self, prefix: Key<'_>, named: ConfiguredStrategy) -> Result<(), StrategyError> {
        let n = prefix.hashes.len();
        let writer = &mut *self.control.lock();
        if n == 0 {
            // A reader between the two stores forwards one packet by the old or the new choice.
            self.default_parameters.store(named.parameters.number(), Relaxed);
            self.default.store(named.kind as u32, Relaxed);
            return Ok(());
        }
        if let Some(id) = self.table.find(writer, prefix, n) {
            return Ok(self.table.set_pairs(writer, id, 1, core::iter::once(named.pair()))?);
        }
        // One more, because the choice of `/` counts and is not in the table.
        if self.table.len() + 1 >= self.choices_max {
            return Err(StrategyError::TableFull);
        }
        self.table.insert(writer, prefix, n, named.pair())?;
        Ok(())
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

    /// Allocates the memory for `names` more names of `octets` each.
    pub(crate) fn make_room(&self, names: usize, octets: usize) -> Result<(), ConfigError> {
        self.table.make_room(names, octets)
    }

    /// Visits choices, that of `/` as the one at index 0; see [`PrefixTable::walk`].
    pub(crate) fn walk(
        &self,
        from: Id,
        count: Id,
        octets: &mut NameOctets,
        mut show: impl FnMut(NameRef<'_>, ConfiguredStrategy) -> bool,
    ) -> Option<Id> {
        // Ids in the table count from 1, so 0 stands for `/`.
        if from == 0 && !show(Name::new().as_name(), self.of_root()) {
            return Some(0);
        }
        let writer = self.control.lock();
        self.table.walk(&writer, from, count, octets, |name, mut pairs| {
            show(
                name,
                pairs
                    .next()
                    .map_or(ConfiguredStrategy::from(StrategyKind::DEFAULT), ConfiguredStrategy::from_pair),
            )
        })
    }

    fn of_root(&self) -> ConfiguredStrategy {
        let parameters = Parameters::from_number(self.default_parameters.load(Relaxed));
        ConfiguredStrategy { kind: self.default(), parameters }
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
    fn unknown_strategies_are_refused_with_the_list() {
        let text = StrategyError::Unknown.to_string();
        assert!(text.contains("/localhost/nfd/strategy/best-route/v=5"));
        assert!(text.contains("/localhost/nfd/strategy/multicast/v=4"));
    }
}

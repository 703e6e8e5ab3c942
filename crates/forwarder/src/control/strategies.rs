//! The strategies and the prefixes that they handle.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_messages::StrategyChoice as Choice;
use namely_wire::NameRef;

use crate::error::ConfigError;
use crate::limits::WALK_PLACES;
use crate::name_keys::NameKeys;
use crate::strategy::{ChosenStrategy, ConfiguredStrategy, StrategyChoice, StrategyError};

/// The strategy choices: [`crate::Forwarder::strategies`].
///
/// A change takes the lock of the name's work memory, and under it that of the writers of choices.
pub struct StrategyControl<'a, R> {
    pub(crate) names: &'a NameKeys<R>,
    pub(crate) strategies: &'a StrategyChoice<R>,
}

impl<R: RawMutex> StrategyControl<'_, R> {
    /// Chooses the strategy for a prefix, by its name with or without version.
    ///
    /// # Errors
    ///
    /// [`StrategyError::Unknown`] if no strategy has this name, [`StrategyError::TableFull`] if
    /// `strategy_choices_max` prefixes have a choice of their own.
    pub fn set(&self, prefix: NameRef<'_>, strategy: NameRef<'_>) -> Result<ChosenStrategy, StrategyError> {
        // Parsed before the work memory is locked, because all control calls share that lock.
        let named = ConfiguredStrategy::from_name(strategy)?;
        let set = self.names.with_entering(prefix, |key| self.strategies.set(key, named));
        set.unwrap_or(Err(StrategyError::NoMemory))?;
        Ok(ChosenStrategy(named))
    }

    /// Removes a prefix's own choice; returns true if there was one.
    ///
    /// # Errors
    ///
    /// [`StrategyError::Root`] for `/`: its choice can be changed, not removed.
    pub fn unset(&self, prefix: NameRef<'_>) -> Result<bool, StrategyError> {
        self.names.with(prefix, |key| self.strategies.unset(key))
    }

    /// All choices, that of `/` first. Strategies are named with their version.
    pub fn snapshot(&self) -> Vec<Choice> {
        let (mut choices, mut from) = (Vec::new(), None);
        loop {
            from = self.show(from, WALK_PLACES, |prefix, chosen| {
                choices.push(Choice { prefix: prefix.into(), strategy: chosen.name() });
                true
            });
            if from.is_none() {
                return choices;
            }
        }
    }

    /// Visits the choices of `slots` slots of the table, that of `/` before all others; see
    /// [`super::FibControl::show`].
    pub fn show(
        &self,
        from: Option<u32>,
        slots: u32,
        mut show: impl FnMut(NameRef<'_>, ChosenStrategy) -> bool,
    ) -> Option<u32> {
        let octets = &mut self.names.work().octets;
        self.strategies
            .walk(from.unwrap_or(0), slots, octets, |prefix, named| show(prefix, ChosenStrategy(named)))
    }

    /// As [`super::FibControl::make_room`], for [`StrategyControl::set`].
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`].
    pub fn make_room(&self, names: usize, octets: usize) -> Result<(), ConfigError> {
        self.strategies.make_room(names, octets)
    }
}

//! The name of a strategy, written without an allocation.

use core::fmt;

use namely_wire::{NameRef, types};

/// Octets of the longest name of a strategy with its parameters.
const STRATEGY_NAME_OCTETS_MAX: usize = 128;

/// The name of a strategy.
#[derive(Clone, Copy, Debug)]
pub struct StrategyName {
    octets: [u8; STRATEGY_NAME_OCTETS_MAX],
    len: usize,
}

impl StrategyName {
    /// An empty one.
    pub(super) fn new() -> Self {
        StrategyName { octets: [0; STRATEGY_NAME_OCTETS_MAX], len: 0 }
    }

    /// As a name.
    pub fn as_name(&self) -> NameRef<'_> {
        NameRef::parse_value(&self.octets[..self.len]).unwrap_or_default()
    }

    pub(super) fn put(&mut self, octets: &[u8]) {
        let end = self.len + octets.len();
        // There is room for every name of the table. Otherwise the rest is left out, without a
        // panic.
        if let Some(target) = self.octets.get_mut(self.len..end) {
            target.copy_from_slice(octets);
            self.len = end;
        }
    }

    /// Appends a generic component with the value that `put` appends.
    pub(super) fn component(&mut self, put: impl FnOnce(&mut Self)) {
        let at = self.len;
        self.put(&[types::GENERIC_COMPONENT as u8, 0]);
        put(self);
        let octets = self.len.saturating_sub(at + 2);
        self.octets.get_mut(at + 1).into_iter().for_each(|length| *length = octets as u8);
    }
}

impl fmt::Write for StrategyName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

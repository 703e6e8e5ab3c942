//! Which strategy handles which names: longest-prefix match, best route where nothing else was chosen.

use alloc::vec::Vec;
use core::fmt;

use namely_wire::{Name, NameRef};

use super::best_route::BestRoute;
use super::multicast::Multicast;
use super::{NackVerdict, Pending, Strategy, Verdict};
use crate::faces::FaceKey;
use crate::pit::OutRecords;
use crate::prefix_table::{Key, PrefixTable};

/// The strategies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrategyKind {
    BestRoute,
    Multicast,
}

/// Each strategy's name, without and with the version that is implemented.
const NAMES: [(StrategyKind, &str, u64); 2] = [
    (StrategyKind::BestRoute, "/localhost/nfd/strategy/best-route", 5),
    (StrategyKind::Multicast, "/localhost/nfd/strategy/multicast", 4),
];

impl StrategyKind {
    /// The strategy that `name` asks for: with the implemented version, or without one.
    pub(crate) fn from_name(name: NameRef<'_>) -> Option<Self> {
        NAMES.into_iter().find(|(_, base, version)| is_asked_for(name, base, *version)).map(|(kind, ..)| kind)
    }

    /// The name with its version.
    pub(crate) fn name(self) -> Name {
        let (_, base, version) = NAMES[self as usize];
        base_name(base).join_version(version)
    }

    fn strategy(self) -> &'static dyn Strategy {
        match self {
            StrategyKind::BestRoute => &BestRoute,
            StrategyKind::Multicast => &Multicast,
        }
    }
}

impl Strategy for StrategyKind {
    fn receive_interest(&self, pending: &mut Pending<'_>) -> Verdict {
        self.strategy().receive_interest(pending)
    }

    fn receive_nack(&self, out_records: &OutRecords, is_downstream: &dyn Fn(FaceKey) -> bool) -> NackVerdict {
        self.strategy().receive_nack(out_records, is_downstream)
    }
}

/// Full name, name without version, or only the strategy's own component with or without version.
fn is_asked_for(name: NameRef<'_>, base: &str, version: u64) -> bool {
    let base = base_name(base);
    let short = Name::new().join(base.as_name().last().unwrap_or(namely_wire::Component::generic(&[])));
    [base, short]
        .into_iter()
        .any(|known| known.as_name() == name || known.join_version(version).as_name() == name)
}

fn base_name(uri: &str) -> Name {
    uri.split('/').skip(1).fold(Name::new(), |name, part| name.join_generic(part))
}

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
                NAMES.iter().try_for_each(|(_, base, version)| write!(f, " {base}/v={version}"))
            }
            StrategyError::TableFull => {
                f.write_str("too many strategy choices: unset some or raise strategy_choices_max")
            }
            StrategyError::Root => f.write_str("the choice for / cannot be unset: set another strategy"),
        }
    }
}

impl core::error::Error for StrategyError {}

pub(crate) struct StrategyChoice {
    table: PrefixTable<StrategyKind>,
    choices_max: usize,
    default: StrategyKind,
}

impl StrategyChoice {
    pub(crate) fn new(choices_max: usize) -> Self {
        StrategyChoice { table: PrefixTable::new(choices_max), choices_max, default: StrategyKind::BestRoute }
    }

    /// The strategy of the longest prefix of `key` that has one.
    pub(crate) fn find(&self, key: Key<'_>) -> StrategyKind {
        if self.table.len() == 0 {
            return self.default;
        }
        self.table.matches(key).next().copied().unwrap_or(self.default)
    }

    pub(crate) fn set(&mut self, prefix: Key<'_>, kind: StrategyKind) -> Result<(), StrategyError> {
        let n = prefix.hashes.len();
        if n == 0 {
            self.default = kind;
            return Ok(());
        }
        if let Some(own) = self.table.find(prefix, n).and_then(|id| self.table.value_mut(id)) {
            *own = kind;
            return Ok(());
        }
        if self.table.len() + 1 >= self.choices_max {
            return Err(StrategyError::TableFull);
        }
        self.table.insert(prefix, n, kind);
        Ok(())
    }

    /// Removes the choice of a prefix; says whether there was one.
    pub(crate) fn unset(&mut self, prefix: Key<'_>) -> Result<bool, StrategyError> {
        let n = prefix.hashes.len();
        if n == 0 {
            return Err(StrategyError::Root);
        }
        Ok(self.table.find(prefix, n).and_then(|id| self.table.remove(id)).is_some())
    }

    /// All choices, that of `/` first.
    pub(crate) fn snapshot(&self) -> Vec<(Name, StrategyKind)> {
        let (own, _) = self.table.walk(1, u32::MAX);
        core::iter::once((Name::new(), self.default)).chain(own.map(|(name, kind)| (name, *kind))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn kind(uri: &str) -> Option<StrategyKind> {
        StrategyKind::from_name(uri.parse::<Name>().unwrap().as_name())
    }

    #[test]
    fn a_strategy_is_named_with_its_version_without_it_or_by_its_last_component() {
        for (expected, base, version) in NAMES {
            assert_eq!(expected.name().to_string(), alloc::format!("{base}/v={version}"));
            assert_eq!(kind(base), Some(expected));
            assert_eq!(kind(&alloc::format!("{base}/v={version}")), Some(expected));
        }
        assert_eq!(kind("/best-route"), Some(StrategyKind::BestRoute));
        assert_eq!(kind("/multicast/v=4"), Some(StrategyKind::Multicast));
        for unknown in [
            "/",
            "/localhost/nfd/strategy",
            "/localhost/nfd/strategy/best-route/v=6",
            "/asf",
            "/multicast/v=4/x",
        ] {
            assert_eq!(kind(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_error_for_an_unknown_strategy_lists_those_that_exist() {
        let text = StrategyError::Unknown.to_string();
        assert!(text.contains("/localhost/nfd/strategy/best-route/v=5"));
        assert!(text.contains("/localhost/nfd/strategy/multicast/v=4"));
    }
}

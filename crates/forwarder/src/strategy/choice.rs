//! Which strategy handles which names: longest-prefix match, best route where nothing else was
//! chosen.

use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lock_api::{Mutex, RawMutex};
use namely_wire::{Name, NameRef};

use super::best_route::BestRoute;
use super::multicast::Multicast;
use super::{NackVerdict, Pending, Strategy, Verdict};
use crate::config::ConfigError;
use crate::faces::FaceKey;
use crate::pit::OutRecords;
use crate::prefix_table::{Key, Pair, Pairs, PrefixTable, Writer};

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
    /// The strategy that `name` names: with the implemented version, or without one.
    pub(crate) fn from_name(name: NameRef<'_>) -> Option<Self> {
        NAMES.into_iter().find(|(_, base, version)| is_asked_for(name, base, *version)).map(|(kind, ..)| kind)
    }

    /// The name with its version.
    pub(crate) fn name(self) -> Name {
        let (_, base, version) = NAMES[self as usize];
        base_name(base).join_version(version)
    }

    fn pair(self) -> Pair {
        (self as u64, 0)
    }

    fn from_pair((place, _): Pair) -> Self {
        NAMES.get(place as usize).map_or(StrategyKind::BestRoute, |(kind, ..)| *kind)
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

pub(crate) struct StrategyChoice<R> {
    table: PrefixTable,
    control: Mutex<R, Writer>,
    choices_max: usize,
    /// That of `/`: its place in [`NAMES`].
    default: AtomicU32,
}

impl<R: RawMutex> StrategyChoice<R> {
    pub(crate) fn new(choices_max: usize) -> Result<Self, ConfigError> {
        let default = AtomicU32::new(StrategyKind::BestRoute as u32);
        let table = PrefixTable::new(choices_max)?;
        Ok(StrategyChoice { table, control: Mutex::new(Writer::default()), choices_max, default })
    }

    /// The strategy of the longest prefix of `key` that has one.
    pub(crate) fn find(&self, key: Key<'_>) -> StrategyKind {
        let kind = |mut pairs: Pairs<'_>| pairs.next().map(StrategyKind::from_pair);
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
        let kind = |pairs: Vec<Pair>| {
            pairs.first().copied().map_or(StrategyKind::BestRoute, StrategyKind::from_pair)
        };
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

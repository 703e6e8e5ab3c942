//! The table of all strategies. A row registers a strategy with management, with the configuration
//! and with the pipelines.

use crate::strategy::name::StrategyName;

use namely_messages::STRATEGY_PREFIX;
use namely_wire::{Name, NameRef, types};

use super::parameters::Parameters;
use super::{
    Answer, DataVerdict, FibChange, NackVerdict, NextHopMeasurement, Pending, Strategy, StrategyError,
    Verdict,
};
use crate::face_id::FaceKey;
use crate::pit::entry::OutRecords;
use crate::prefix_table::Pair;
use crate::strategy::hook::{Hook, Memory};

/// For each strategy: its type, the last component of its name, and the version implemented.
macro_rules! strategies {
    ($($(#[$attribute:meta])? $module:ident::$kind:ident, $name:literal, $version:literal;)*) => {
        /// All strategies.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum StrategyKind {
            $($(#[$attribute])? $kind),*
        }

        /// Each strategy with the last component of its name and the implemented version.
        pub(super) const STRATEGIES: &[(StrategyKind, &str, u64)] =
            &[$($(#[$attribute])? (StrategyKind::$kind, $name, $version)),*];

        /// The memory of a prefix's strategy.
        pub(crate) enum AnyMemory {
            $($(#[$attribute])? $kind(<super::$module::$kind as Strategy>::Memory)),*
        }

        /// Runs a hook of the strategy that a memory belongs to.
        macro_rules! hook {
            ($any:expr, $strategy:ident, $own:ident => $call:expr) => {
                match $any {
                    $($(#[$attribute])? AnyMemory::$kind($own) => {
                        let $strategy = &super::$module::$kind;
                        $call
                    }),*
                }
            };
        }

        /// Runs a hook of a strategy that needs no memory.
        macro_rules! strategy {
            ($which:expr, $strategy:ident => $call:expr) => {
                match $which {
                    $($(#[$attribute])? StrategyKind::$kind => {
                        let $strategy = &super::$module::$kind;
                        $call
                    }),*
                }
            };
        }

        impl AnyMemory {
            /// An empty memory of `kind`, for at most `faces_max` faces; `None` if the strategy has
            /// no memory or the allocation fails.
            pub(super) fn new(kind: StrategyKind, faces_max: usize) -> Option<Self> {
                Some(match kind {
                    $($(#[$attribute])? StrategyKind::$kind => AnyMemory::$kind(Memory::new(faces_max)?)),*
                })
            }

            /// The strategy that owns this memory.
            pub(super) fn kind(&self) -> StrategyKind {
                match self {
                    $($(#[$attribute])? AnyMemory::$kind(_) => StrategyKind::$kind),*
                }
            }
        }

        impl StrategyKind {
            /// As [`Strategy::after_receive_interest`]. A strategy with memory is called here only
            /// when there is no room for it, so that call is not inlined.
            #[inline]
            pub(crate) fn after_receive_interest(self, pending: &mut Pending<'_>) -> Verdict {
                match self {
                    $($(#[$attribute])? StrategyKind::$kind
                        if size_of::<<super::$module::$kind as Strategy>::Memory>() == 0 =>
                    {
                        super::$module::$kind.after_receive_interest(pending)
                    })*
                    remembers => remembers.without_memory(pending),
                }
            }

            /// Returns true if the strategy measures round-trip times.
            pub(super) fn measures(self) -> bool {
                match self {
                    $($(#[$attribute])? StrategyKind::$kind => <super::$module::$kind as Strategy>::MEASURES),*
                }
            }

            /// Returns true if the strategy has memory.
            pub(crate) fn remembers(self) -> bool {
                match self {
                    $($(#[$attribute])? StrategyKind::$kind => size_of::<<super::$module::$kind as Strategy>::Memory>() > 0),*
                }
            }
        }
    };
}

strategies! {
    // The first row is the default of `/`; NFD has the same.
    best_route::BestRoute, "best-route", 5;
    multicast::Multicast, "multicast", 4;
    asf::Asf, "asf", 5;
    round_robin::RoundRobin, "round-robin", 1;
    fast_route::FastRoute, "fast-route", 1;
    random::Random, "random", 1;
    weighted::WeightedLoadBalancer, "weighted-load-balancer", 1;
    multipath::Multipath, "multipath", 1;
    self_learning::SelfLearning, "self-learning", 1;
    #[cfg(feature = "vip")]
    vip::Vip, "vip", 1;
}

/// The default strategy of `/`, by the last component of its name.
pub const DEFAULT_STRATEGY: &str = STRATEGIES[0].1;

impl StrategyKind {
    /// The default strategy of `/`.
    pub(super) const DEFAULT: StrategyKind = STRATEGIES[0].0;

    /// All of them.
    pub(super) fn all() -> impl Iterator<Item = StrategyKind> {
        STRATEGIES.iter().map(|(kind, ..)| *kind)
    }

    /// True if it takes parameters after its name.
    pub(crate) fn takes_parameters(self) -> bool {
        self == StrategyKind::Asf
    }

    /// The last component of its name.
    pub(crate) fn label(self) -> &'static str {
        STRATEGIES.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, label, _)| label)
    }

    /// The full name with its version.
    pub(crate) fn name(self) -> Name {
        ChosenStrategy(self.into()).name()
    }

    pub(super) fn from_pair(pair: Pair) -> Self {
        // During a write a reader may see any number. The result is then discarded.
        STRATEGIES.get(pair.0 as usize).map_or(StrategyKind::DEFAULT, |(kind, ..)| *kind)
    }

    #[cold]
    #[inline(never)]
    fn without_memory(self, pending: &mut Pending<'_>) -> Verdict {
        strategy!(self, strategy => strategy.after_receive_interest(pending))
    }

    /// As [`Strategy::judge_nacks`].
    pub(crate) fn judge_nacks(
        self,
        out_records: &OutRecords,
        is_downstream: &dyn Fn(FaceKey) -> bool,
    ) -> NackVerdict {
        strategy!(self, strategy => strategy.judge_nacks(out_records, is_downstream))
    }
}

/// A strategy with its parameters, as it was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConfiguredStrategy {
    pub(crate) kind: StrategyKind,
    pub(crate) parameters: Parameters,
}

impl From<StrategyKind> for ConfiguredStrategy {
    fn from(kind: StrategyKind) -> Self {
        ConfiguredStrategy { kind, parameters: Parameters::default() }
    }
}

impl ConfiguredStrategy {
    /// The strategy of `name`: in full or by its last component, and with the implemented version
    /// or without one; parameters may follow.
    pub(crate) fn from_name(name: NameRef<'_>) -> Result<Self, StrategyError> {
        let is = |n: usize, word: &str| {
            let component = name.component(n).filter(|component| component.typ == types::GENERIC_COMPONENT);
            component.is_some_and(|component| component.value == word.as_bytes())
        };
        let is_full = STRATEGY_PREFIX.iter().enumerate().all(|(n, word)| is(n, word));
        let at = if is_full { STRATEGY_PREFIX.len() } else { 0 };
        let named = STRATEGIES.iter().find(|(_, last, _)| is(at, last));
        let (kind, _, version) = *named.ok_or(StrategyError::Unknown)?;
        let has = |n: usize| name.component(n).and_then(|component| component.version());
        let n = at + if has(at + 1) == Some(version) { 2 } else { 1 };
        // A version that is not implemented is refused and not ignored.
        if has(n).is_some() {
            return Err(StrategyError::Unknown);
        }
        let parameters = Parameters::parse(kind.takes_parameters(), name.components().skip(n));
        parameters.map(|parameters| ConfiguredStrategy { kind, parameters }).ok_or(StrategyError::Parameters)
    }

    /// The full name with version and parameters.
    pub(crate) fn name(self) -> Name {
        ChosenStrategy(self).name()
    }

    /// As the value of an entry in a table of names.
    pub(super) fn pair(self) -> Pair {
        (self.kind as u64, self.parameters.number())
    }

    pub(super) fn from_pair(pair: Pair) -> Self {
        ConfiguredStrategy {
            kind: StrategyKind::from_pair(pair),
            parameters: Parameters::from_number(pair.1),
        }
    }
}

/// A strategy that was chosen for a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenStrategy(pub(crate) ConfiguredStrategy);

impl ChosenStrategy {
    /// Its full name, with version and parameters.
    pub fn name(self) -> Name {
        self.octets().as_name().into()
    }

    /// As `name`, without an allocation.
    pub fn octets(self) -> StrategyName {
        let ConfiguredStrategy { kind, parameters } = self.0;
        // In range: there is one row for each kind, in the order of the kinds.
        let (_, last, version) = STRATEGIES[kind as usize];
        let mut name = StrategyName::new();
        STRATEGY_PREFIX
            .iter()
            .chain([&last])
            .for_each(|word| name.component(|name| name.put(word.as_bytes())));
        // VERSION's number is an octet: there are no later versions.
        name.put(&[types::VERSION_COMPONENT as u8, 1, version as u8]);
        parameters.append_to(&mut name);
        name
    }
}

/// The hooks of [`Strategy`] that take its memory.
impl AnyMemory {
    pub(crate) fn after_receive_interest(
        &mut self,
        pending: &mut Pending<'_>,
        hook: &mut Hook<'_>,
    ) -> Verdict {
        hook!(self, strategy, own => strategy.after_receive_interest_with(pending, own, hook))
    }

    pub(crate) fn after_data(&mut self, answer: &Answer<'_>, hook: &mut Hook<'_>) -> DataVerdict {
        hook!(self, strategy, own => strategy.after_data(answer, own, hook))
    }

    pub(crate) fn after_late_data(
        &mut self,
        face: FaceKey,
        has_prefix: &dyn Fn(u64) -> bool,
        hook: &mut Hook<'_>,
    ) {
        hook!(self, strategy, own => strategy.after_late_data(face, has_prefix, own, hook));
    }

    pub(crate) fn after_nack(&mut self, face: FaceKey, hook: &mut Hook<'_>) {
        hook!(self, strategy, own => strategy.after_nack(face, own, hook));
    }

    pub(crate) fn on_timeout(&mut self, out_records: &OutRecords, hook: &mut Hook<'_>) {
        hook!(self, strategy, own => strategy.on_timeout(out_records, own, hook));
    }

    pub(crate) fn on_timer(&mut self, hook: &mut Hook<'_>) {
        hook!(self, strategy, own => strategy.on_timer(own, hook));
    }

    pub(crate) fn measured(&self, face: FaceKey) -> NextHopMeasurement {
        hook!(self, strategy, own => strategy.measured(face, own))
    }

    pub(crate) fn fib_changed(&mut self, change: FibChange) {
        hook!(self, strategy, own => strategy.fib_changed(change, own));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn named(uri: &str) -> Result<ConfiguredStrategy, StrategyError> {
        ConfiguredStrategy::from_name(uri.parse::<Name>().unwrap().as_name())
    }

    fn kind(uri: &str) -> Option<StrategyKind> {
        named(uri).ok().map(|named| named.kind)
    }

    #[test]
    fn a_strategy_is_found_without_its_version() {
        for (expected, last, version) in STRATEGIES.iter().copied() {
            let base = alloc::format!("/localhost/nfd/strategy/{last}");
            assert_eq!(expected.name().to_string(), alloc::format!("{base}/v={version}"));
            assert_eq!(kind(&base), Some(expected));
            assert_eq!(kind(&alloc::format!("{base}/v={version}")), Some(expected));
            assert_eq!(
                ConfiguredStrategy::from_pair(ConfiguredStrategy::from(expected).pair()),
                ConfiguredStrategy::from(expected)
            );
        }
        assert_eq!(kind("/best-route"), Some(StrategyKind::BestRoute));
        assert_eq!(kind("/multicast/v=4"), Some(StrategyKind::Multicast));
        for unknown in ["/", "/localhost/nfd/strategy", "/localhost/nfd/strategy/best-route/v=6", "/ncc"] {
            assert_eq!(named(unknown), Err(StrategyError::Unknown), "{unknown}");
        }
    }

    #[test]
    fn only_asf_accepts_parameters() {
        let full = "/localhost/nfd/strategy/asf/v=5/probing-interval~30000/max-timeouts~5";
        let asf = named(full).unwrap();
        assert_eq!((asf.parameters.probing_ns(), asf.parameters.timeouts_max()), (30_000_000_000, 5));
        assert_eq!(asf.name().to_string(), full);
        assert_eq!(ConfiguredStrategy::from_pair(asf.pair()), asf);
        let plain = named("/asf").unwrap();
        assert_eq!((plain.parameters.probing_ns(), plain.parameters.timeouts_max()), (60_000_000_000, 3));
        assert_eq!(named("/asf/max-timeouts~1").unwrap().parameters.timeouts_max(), 1);
        assert_eq!(named("/asf/probing-interval~1000").unwrap().parameters.probing_ns(), 1_000_000_000);
        for refused in [
            "/asf/v=5/probing-interval~999",
            "/asf/v=5/max-timeouts~0",
            "/asf/v=5/max-timeouts~-1",
            "/asf/v=5/max-timeouts~4294967296",
            "/asf/v=5/max-timeouts",
            "/asf/v=5/max-timeouts~2/max-timeouts~2",
            "/asf/v=5/x~1",
            "/multicast/v=4/x",
            "/best-route/probing-interval~30000",
        ] {
            assert_eq!(named(refused), Err(StrategyError::Parameters), "{refused}");
        }
    }

    #[test]
    fn only_stateful_strategies_have_a_memory() {
        for (kind, ..) in STRATEGIES {
            assert_eq!(AnyMemory::new(*kind, 4).is_some(), kind.remembers());
        }
        assert!(!StrategyKind::DEFAULT.remembers());
    }
}

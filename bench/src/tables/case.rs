//! The scenarios of `tables` and how large each one is.

use std::sync::Arc;

use clap::ValueEnum;
use namely_forwarder::Batch;

/// Default number of packets between two readings of the clock: the router's workers pass at most
/// as many to the core at once.
pub const BATCH: usize = Batch::<Arc<[u8]>>::PACKETS_MAX;

/// One measured situation. The names on the command line and in the output are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum TablesScenario {
    /// Exchanges: names of 4 components, 1000 routes
    #[value(name = "core-4c-1k")]
    Core4c1k,
    /// Exchanges: names of 4 components, 1 million routes
    #[value(name = "core-4c-1M")]
    Core4c1M,
    /// Exchanges: names of 4 components, 10 million routes
    #[value(name = "core-4c-10M")]
    Core4c10M,
    /// Exchanges: names of 8 components, 1000 routes
    #[value(name = "core-8c-1k")]
    Core8c1k,
    /// Exchanges: names of 8 components, 1 million routes
    #[value(name = "core-8c-1M")]
    Core8c1M,
    /// Exchanges: names of 8 components, 10 million routes
    #[value(name = "core-8c-10M")]
    Core8c10M,
    /// Exchanges: names of 16 components, 1000 routes
    #[value(name = "core-16c-1k")]
    Core16c1k,
    /// Exchanges: names of 16 components, 1 million routes
    #[value(name = "core-16c-1M")]
    Core16c1M,
    /// Exchanges: names of 16 components, 10 million routes
    #[value(name = "core-16c-10M")]
    Core16c10M,
    /// As core-4c-1M without a content store
    #[value(name = "core-4c-1M-nocs")]
    Core4c1MNoCs,
    /// As core-4c-1M, packets given to the core one by one
    #[value(name = "core-batch-1")]
    CoreBatch1,
    /// The same, 32 at once
    #[value(name = "core-batch-32")]
    CoreBatch32,
    /// The same, 256 at once
    #[value(name = "core-batch-256")]
    CoreBatch256,
    /// As core-4c-1M with two workers that share all tables
    #[value(name = "core-2workers")]
    Core2Workers,
    /// As core-4c-1k without a content store, 1000 Interests pending
    #[value(name = "pit-1k")]
    Pit1k,
    /// The same with 100,000 Interests pending
    #[value(name = "pit-100k")]
    Pit100k,
    /// The same with 1 million Interests pending
    #[value(name = "pit-1M")]
    Pit1M,
    /// Interests that the content store answers; it holds 1 million Data
    #[value(name = "cs-hit-1M")]
    CsHit1M,
    /// Interests that it does not answer, up to the end of its lookup
    #[value(name = "cs-miss-1M")]
    CsMiss1M,
    /// Exchanges of which the content store answers half; it takes in no more
    #[value(name = "cs-half-1M")]
    CsHalf1M,
    /// 1 million routes: their memory and the time to add one
    #[value(name = "fib-1M")]
    Fib1M,
    /// 10 million routes: the same
    #[value(name = "fib-10M")]
    Fib10M,
    /// ASF's state of 65,536 prefixes, which is its limit, and exchanges under them
    #[value(name = "strategy-asf-64k")]
    StrategyAsf64k,
    /// The same for multipath
    #[value(name = "strategy-multipath-64k")]
    StrategyMultipath64k,
    /// The same for self-learning
    #[value(name = "strategy-self-learning-64k")]
    StrategySelfLearning64k,
}

/// Kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An Interest is forwarded, and its Data delivered.
    Exchange,
    /// The same, and the memory of pending Interests.
    Pending,
    /// Interests answered by the content store, and its memory.
    CsHit,
    /// Interests that the content store does not answer.
    CsMiss,
    /// Interests of which the content store answers every other, and exchanges for the rest.
    CsHalf,
    /// The memory of routes, and the time to add one.
    Routes,
    /// Exchanges under a strategy of this name, and the memory of its state for a prefix.
    Strategy(&'static str),
}

/// Sizes of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The kind of measurement.
    pub kind: Kind,
    /// Components of each name.
    pub components: usize,
    /// Routes in the FIB.
    pub routes: u64,
    /// Pending Interests while exchanges are measured.
    pub pending: usize,
    /// Packets passed to the core at once.
    pub batch: usize,
    /// Capacity of the content store, in Data; 0 for none.
    pub cached: usize,
    /// Threads, each with faces and buffers of its own.
    pub workers: usize,
    /// Time within the core of one run of each worker, ns.
    pub run_ns: u64,
    /// Exchanges before the first run.
    pub warm_up: u64,
}

/// Default number of pending Interests of a scenario.
const PENDING: usize = 1000;

/// Default capacity of the content store of a scenario: the router's default.
const CACHED: usize = 65_536;

impl TablesScenario {
    /// Returns the scenario's name on the command line and in the output.
    pub fn name(self) -> &'static str {
        use TablesScenario::*;
        match self {
            Core4c1k => "core-4c-1k",
            Core4c1M => "core-4c-1M",
            Core4c10M => "core-4c-10M",
            Core8c1k => "core-8c-1k",
            Core8c1M => "core-8c-1M",
            Core8c10M => "core-8c-10M",
            Core16c1k => "core-16c-1k",
            Core16c1M => "core-16c-1M",
            Core16c10M => "core-16c-10M",
            Core4c1MNoCs => "core-4c-1M-nocs",
            CoreBatch1 => "core-batch-1",
            CoreBatch32 => "core-batch-32",
            CoreBatch256 => "core-batch-256",
            Core2Workers => "core-2workers",
            Pit1k => "pit-1k",
            Pit100k => "pit-100k",
            Pit1M => "pit-1M",
            CsHit1M => "cs-hit-1M",
            CsMiss1M => "cs-miss-1M",
            CsHalf1M => "cs-half-1M",
            Fib1M => "fib-1M",
            Fib10M => "fib-10M",
            StrategyAsf64k => "strategy-asf-64k",
            StrategyMultipath64k => "strategy-multipath-64k",
            StrategySelfLearning64k => "strategy-self-learning-64k",
        }
    }

    /// Returns its sizes; small ones if `quick`.
    pub fn case(self, quick: bool) -> Case {
        use TablesScenario::*;
        let core = Case {
            kind: Kind::Exchange,
            components: 4,
            routes: 1_000_000,
            pending: PENDING,
            batch: BATCH,
            cached: CACHED,
            workers: 1,
            run_ns: 1_000_000_000,
            warm_up: 400_000,
        };
        let pit = Case { kind: Kind::Pending, routes: 1000, cached: 0, ..core };
        let cs = Case { kind: Kind::CsHit, routes: 1000, cached: 1_000_000, ..core };
        let strategy =
            |name| Case { kind: Kind::Strategy(name), routes: 65_536, pending: 0, cached: 0, ..core };
        let case = match self {
            Core4c1k => Case { routes: 1000, ..core },
            Core4c1M => core,
            Core4c10M => Case { routes: 10_000_000, ..core },
            Core8c1k => Case { components: 8, routes: 1000, ..core },
            Core8c1M => Case { components: 8, ..core },
            Core8c10M => Case { components: 8, routes: 10_000_000, ..core },
            Core16c1k => Case { components: 16, routes: 1000, ..core },
            Core16c1M => Case { components: 16, ..core },
            Core16c10M => Case { components: 16, routes: 10_000_000, ..core },
            Core4c1MNoCs => Case { cached: 0, ..core },
            CoreBatch1 => Case { batch: 1, ..core },
            CoreBatch32 => Case { batch: 32, ..core },
            CoreBatch256 => Case { batch: 256, ..core },
            Core2Workers => Case { workers: 2, ..core },
            Pit1k => pit,
            Pit100k => Case { pending: 100_000, ..pit },
            Pit1M => Case { pending: 1_000_000, ..pit },
            CsHit1M => cs,
            CsMiss1M => Case { kind: Kind::CsMiss, ..cs },
            CsHalf1M => Case { kind: Kind::CsHalf, ..cs },
            Fib1M => Case { kind: Kind::Routes, ..core },
            Fib10M => Case { kind: Kind::Routes, routes: 10_000_000, ..core },
            StrategyAsf64k => strategy("asf"),
            StrategyMultipath64k => strategy("multipath"),
            StrategySelfLearning64k => strategy("self-learning"),
        };
        if quick { case.quick() } else { case }
    }
}

impl Case {
    fn quick(self) -> Self {
        Case {
            routes: self.routes.min(2000),
            pending: self.pending.min(1000),
            cached: self.cached.min(1000),
            run_ns: 5_000_000,
            warm_up: 2000,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_names_each_table_scenario() {
        for scenario in TablesScenario::value_variants() {
            let value = scenario.to_possible_value().map(|v| v.get_name().to_owned());
            assert_eq!(value.as_deref(), Some(scenario.name()));
        }
    }
}

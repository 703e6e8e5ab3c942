//! The forwarder as management sees it.

use namely_forwarder::{
    CsChange, DropReason, FaceId, FibError, Forwarder, PacketBuf, RibError, Route as ForwarderRoute,
    StrategyError as Refusal,
};
use namely_wire::mgmt::{
    Counter, CsInfo, FibEntry, GeneralStatus, NextHop, RibEntry, Route, RouteOrigin, StrategyChoice,
    cs_flags, route_flags,
};
use namely_wire::{Name, NameRef};

use crate::control::{CsSettings, StrategyError, TableError, Tables};

const MS_NS: u64 = 1_000_000;

impl<B: PacketBuf, R: lock_api::RawMutex> Tables for Forwarder<B, R> {
    fn status(&self) -> GeneralStatus {
        let sizes = self.table_sizes();
        let counters = self.counters();
        let count = |n: usize| n as u64;
        GeneralStatus {
            // NFD's one tree of names is three tables here.
            name_tree_entries: count(sizes.fib) + count(sizes.pit) + count(sizes.cs),
            fib_entries: count(sizes.fib),
            pit_entries: count(sizes.pit),
            cs_entries: count(sizes.cs),
            in_interests: counters.packets.in_interests,
            in_data: counters.packets.in_data,
            in_nacks: counters.packets.in_nacks,
            out_interests: counters.packets.out_interests,
            out_data: counters.packets.out_data,
            out_nacks: counters.packets.out_nacks,
            satisfied_interests: counters.satisfied,
            unsatisfied_interests: counters.unsatisfied,
            ..GeneralStatus::default()
        }
    }

    fn counters(&self) -> Vec<Counter> {
        let counters = self.counters();
        let cs = self.cs_info();
        let drops = DropReason::ALL.iter().map(|reason| (reason.label(), counters.dropped(*reason)));
        let paths = [
            ("suppressed", counters.suppressed),
            ("to_network", counters.to_network),
            ("to_local", counters.to_local),
            ("cs_refused", cs.refused),
            ("cs_evicted", cs.evicted),
        ];
        drops
            .chain(paths)
            .filter(|(_, n)| *n > 0)
            .map(|(label, n)| Counter::new(format!("forwarder.{label}"), n))
            .collect()
    }

    fn fib(&self) -> Vec<FibEntry> {
        let next_hop = |(face, cost): (FaceId, u64)| NextHop { face_id: face.0, cost };
        let mut entries: Vec<FibEntry> = self
            .fib_snapshot()
            .into_iter()
            .map(|entry| FibEntry {
                prefix: entry.name,
                next_hops: entry.nexthops.into_iter().map(next_hop).collect(),
            })
            .collect();
        entries.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        entries
    }

    fn fib_add(&self, prefix: NameRef<'_>, face_id: u64, cost: u64) -> Result<(), TableError> {
        self.fib_add_nexthop(prefix, FaceId(face_id), cost).map_err(fib_refusal)
    }

    fn fib_remove(&self, prefix: NameRef<'_>, face_id: u64) -> bool {
        self.fib_remove_nexthop(prefix, FaceId(face_id))
    }

    fn rib(&self, now_ns: u64) -> Vec<RibEntry> {
        let route = |route: ForwarderRoute| Route {
            face_id: route.face.0,
            origin: RouteOrigin(route.origin),
            cost: route.cost,
            flags: bit(route.child_inherit, route_flags::CHILD_INHERIT)
                | bit(route.capture, route_flags::CAPTURE),
            expiration_period_ms: route.expires_at_ns.map(|at| at.saturating_sub(now_ns) / MS_NS),
        };
        self.rib_snapshot()
            .into_iter()
            .map(|entry| RibEntry {
                prefix: entry.name,
                routes: entry.routes.into_iter().map(route).collect(),
            })
            .collect()
    }

    fn rib_register(&self, prefix: NameRef<'_>, route: &Route, now_ns: u64) -> Result<(), TableError> {
        let expires_at_ns =
            route.expiration_period_ms.map(|period| now_ns.saturating_add(period.saturating_mul(MS_NS)));
        let route = ForwarderRoute {
            face: FaceId(route.face_id),
            origin: route.origin.0,
            cost: route.cost,
            child_inherit: route.flags & route_flags::CHILD_INHERIT != 0,
            capture: route.flags & route_flags::CAPTURE != 0,
            expires_at_ns,
        };
        self.rib_register(&prefix.to_name(), route).map_err(|error| match error {
            RibError::NoFace => TableError::NoSuchFace,
            RibError::TableFull => TableError::Full,
            RibError::Fib(error) => fib_refusal(error),
        })
    }

    fn rib_unregister(&self, prefix: NameRef<'_>, face_id: u64, origin: RouteOrigin) -> bool {
        self.rib_unregister(&prefix.to_name(), FaceId(face_id), origin.0)
    }

    fn strategies(&self) -> Vec<StrategyChoice> {
        let mut choices: Vec<StrategyChoice> = self
            .strategy_snapshot()
            .into_iter()
            .map(|choice| StrategyChoice { prefix: choice.prefix, strategy: choice.strategy })
            .collect();
        choices.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        choices
    }

    fn strategy_set(&self, prefix: NameRef<'_>, strategy: NameRef<'_>) -> Result<Name, StrategyError> {
        self.strategy_set(prefix, strategy).map_err(|error| match error {
            Refusal::TableFull => StrategyError::Table(TableError::Full),
            other => StrategyError::Unknown(other.to_string()),
        })
    }

    fn strategy_unset(&self, prefix: NameRef<'_>) -> bool {
        self.strategy_unset(prefix) == Ok(true)
    }

    fn cs_info(&self) -> CsInfo {
        let info = self.cs_info();
        CsInfo {
            capacity: info.packets_max as u64,
            flags: bit(info.admit, cs_flags::ENABLE_ADMIT) | bit(info.serve, cs_flags::ENABLE_SERVE),
            entries: info.packets as u64,
            hits: info.hits,
            misses: info.misses,
            policy: Some(info.policy.name().to_owned()),
        }
    }

    fn cs_configure(&self, settings: &CsSettings) {
        let packets_max = settings.capacity.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let CsSettings { admit, serve, policy, .. } = *settings;
        self.cs_config(&CsChange { packets_max, admit, serve, policy });
    }

    fn cs_erase(&self, prefix: NameRef<'_>, count: u64) -> (u64, bool) {
        let (erased, more) = self.cs_erase(prefix, usize::try_from(count).unwrap_or(usize::MAX));
        (erased as u64, more)
    }
}

fn bit(set: bool, mask: u64) -> u64 {
    if set { mask } else { 0 }
}

fn fib_refusal(error: FibError) -> TableError {
    match error {
        FibError::NoFace => TableError::NoSuchFace,
        FibError::TableFull | FibError::NextHopsFull => TableError::Full,
    }
}

//! The kernel's tables, for management.

use std::collections::BTreeMap;

use namely_forwarder::{
    BindError, Bound, Charge, CsChange, FaceId, FibError, Forwarder, RibError, StrategyError,
};
use namely_messages::{
    Counter, CsInfo, CsListQuery, CsPacket, Explained, ExplainedHop, FibEntry, GeneralStatus, NextHop,
    RibEntry, Route, RouteOrigin, StrategyChoice, cs_flags,
};
use namely_mgmt::Tables;
use namely_nnet::{ControlError, proc};
use namely_wire::{Name, NameRef};
use rustix::io::Errno;

use super::fib::LOOK_NS;
use super::{Kernel, counters, noted, of};

const NS_PER_MS: u64 = 1_000_000;

/// The files of /proc/net/nnet with listed counters, and the prefixes of their labels.
const LISTED: [(&str, &str); 2] = [("drops", "forwarder."), ("stats", "kernel.")];

/// The listed counters of the content store, in addition to those of an external store.
const LISTED_OF_CS: [&str; 3] = ["refused", "evicted", "octets"];

impl Kernel {
    /// The longest prefix of `name` that has next hops, and its next hops.
    fn longest(&self, name: NameRef<'_>) -> Option<(Name, Vec<NextHop>)> {
        let routes = self.control().routes().ok()?;
        let octets = |prefix: &Name| prefix.as_bytes().len();
        let of_name = || routes.iter().filter(|route| route.prefix.is_prefix_of(name));
        let longest = of_name().map(|route| octets(&route.prefix)).max()?;
        let hops: Vec<_> = of_name().filter(|route| octets(&route.prefix) == longest).collect();
        let prefix = hops.first()?.prefix.clone();
        let hop = |route: &namely_nnet::Route| NextHop { face_id: route.face, cost: route.cost };
        let mut hops: Vec<NextHop> = hops.into_iter().map(hop).collect();
        hops.sort_by_key(|hop| hop.cost);
        Some((prefix, hops))
    }

    fn strategy_of(&self, name: NameRef<'_>) -> Option<StrategyChoice> {
        let choices = self.strategies().into_iter().filter(|choice| choice.prefix.is_prefix_of(name));
        choices.max_by_key(|choice| choice.prefix.len())
    }
}

impl Tables for Kernel {
    fn status(&self) -> GeneralStatus {
        let (stats, cs) = (counters("stats"), counters("cs"));
        let stat = |name: &str| of(&stats, name);
        let (fib, pit, cached) = (stat("fib_entries"), stat("pit_entries"), of(&cs, "packets"));
        GeneralStatus {
            name_tree_entries: fib + pit + cached,
            fib_entries: fib,
            pit_entries: pit,
            cs_entries: cached,
            in_interests: stat("in_interests"),
            in_data: stat("in_data"),
            in_nacks: stat("in_nacks"),
            out_interests: stat("out_interests"),
            out_data: stat("out_data"),
            out_nacks: stat("out_nacks"),
            satisfied_interests: stat("satisfied_interests"),
            unsatisfied_interests: stat("unsatisfied_interests"),
            routes: Some(self.core.rib_len() as u64),
            ..GeneralStatus::default()
        }
    }

    fn counters(&self) -> Vec<Counter> {
        let of_file = |(file, prefix): (&str, &str)| {
            let rows = counters(file).into_iter().filter(|(_, n)| *n > 0);
            let prefix = prefix.to_owned();
            rows.map(move |(label, n)| Counter::new(format!("{prefix}{label}"), n))
        };
        let of_cs = counters("cs").into_iter().filter(|(_, n)| *n > 0).filter_map(|(label, n)| {
            let is_outside = label.starts_with("cs_disk");
            let own = LISTED_OF_CS.contains(&&*label).then(|| format!("forwarder.cs_{label}"));
            own.or_else(|| is_outside.then(|| format!("forwarder.{label}")))
                .map(|label| Counter::new(label, n))
        });
        LISTED.into_iter().flat_map(of_file).chain(of_cs).collect()
    }

    /// Returns all entries at once, because the kernel bounds them (`fib_entries_max`).
    fn fib(&self, _: Option<u32>, entries: &mut Vec<FibEntry>) -> Option<u32> {
        let mut by_prefix: BTreeMap<Name, Vec<NextHop>> = BTreeMap::new();
        for route in self.control().routes().unwrap_or_default() {
            let hop = NextHop { face_id: route.face, cost: route.cost };
            by_prefix.entry(route.prefix).or_default().push(hop);
        }
        entries.extend(by_prefix.into_iter().map(|(prefix, next_hops)| FibEntry { prefix, next_hops }));
        None
    }

    fn fib_add(&self, prefix: NameRef<'_>, face: FaceId, cost: u64) -> Result<(), FibError> {
        let core_face = self.face(face.0).ok_or(FibError::NoFace)?;
        Forwarder::fib(&self.core).add_nexthop(prefix, core_face, cost)?;
        self.follow(prefix, 0).map_err(|error| {
            Forwarder::fib(&self.core).remove_nexthop(prefix, core_face);
            fib_error(&error)
        })
    }

    fn fib_remove(&self, prefix: NameRef<'_>, face: FaceId) -> bool {
        let ours =
            self.face(face.0).is_some_and(|face| Forwarder::fib(&self.core).remove_nexthop(prefix, face));
        if !ours {
            // Another program added it to the kernel.
            return self.control().route_del(prefix, face.0).is_ok();
        }
        if let Err(error) = self.follow(prefix, 0) {
            noted(&format!("the next hop {face} of {prefix} stays in the kernel"), &error);
        }
        true
    }

    fn rib(&self, last: Option<&Name>, now_ns: u64, entries: &mut Vec<RibEntry>) -> Option<Name> {
        let from = entries.len();
        let last = self.core.rib_walk(last, now_ns, entries);
        for entry in &mut entries[from..] {
            entry.routes.retain_mut(|route| {
                let number = self.number(FaceId(route.face_id));
                number.is_some_and(|number| {
                    route.face_id = number;
                    true
                })
            });
        }
        if last.is_none() {
            // The kernel's routes of other programs follow those of this RIB.
            let mut others: BTreeMap<Name, Vec<Route>> = BTreeMap::new();
            for namely_nnet::Route { prefix, face, cost } in self.foreign_routes() {
                let (face_id, origin, flags) = (face, RouteOrigin::STATIC, 0);
                let route = Route { face_id, origin, cost, flags, expiration_period_ms: None };
                others.entry(prefix).or_default().push(route);
            }
            entries.extend(others.into_iter().map(|(prefix, routes)| RibEntry { prefix, routes }));
        }
        last
    }

    fn rib_faces(&self, prefix: NameRef<'_>) -> Vec<u64> {
        let faces = self.core.rib_faces(&prefix.to_name());
        faces.into_iter().filter_map(|face| self.number(FaceId(face))).collect()
    }

    fn rib_register(
        &self,
        charge: Charge,
        prefix: NameRef<'_>,
        route: &Route,
        now_ns: u64,
    ) -> Result<(), RibError> {
        let face = self.face(route.face_id).ok_or(RibError::NoFace)?;
        let name = prefix.to_name();
        self.core.rib_register_for(charge, &name, &Route { face_id: face.0, ..*route }, now_ns)?;
        if let Some(period_ms) = route.expiration_period_ms {
            let ends_ns = now_ns.saturating_add(period_ms.saturating_mul(NS_PER_MS));
            self.look_at(ends_ns.saturating_add(LOOK_NS));
        }
        self.follow(prefix, now_ns).map_err(|error| {
            self.core.rib_unregister(&name, face, route.origin);
            RibError::Fib(fib_error(&error))
        })
    }

    fn rib_unregister(&self, prefix: NameRef<'_>, face: FaceId, origin: RouteOrigin) -> bool {
        let name = prefix.to_name();
        let was_there = self.face(face.0).is_some_and(|face| self.core.rib_unregister(&name, face, origin));
        if !was_there && origin == RouteOrigin::STATIC {
            // Another program may have added it to the kernel.
            let foreign_routes = self.foreign_routes();
            let is_it = |route: &namely_nnet::Route| route.prefix == name && route.face == face.0;
            return foreign_routes.iter().any(is_it) && self.control().route_del(prefix, face.0).is_ok();
        }
        if was_there && let Err(error) = self.follow(prefix, 0) {
            noted(&format!("the route {prefix} stays in the kernel"), &error);
        }
        was_there
    }

    fn bpt(&self) -> Vec<(Name, FaceId)> {
        let bindings = self.control().bindings().unwrap_or_default();
        bindings.into_iter().map(|binding| (binding.prefix, FaceId(binding.face))).collect()
    }

    fn bpt_bind(&self, face: FaceId, prefix: &Name, of_face_max: usize) -> Result<Bound, BindError> {
        let socket = self.relay().and_then(|relay| relay.socket(relay.face(face.0)?));
        let socket = socket.ok_or(BindError::NoFace)?;
        let bound = self.bpt().iter().filter(|(known, of)| *of == face && known != prefix).count();
        if bound >= of_face_max {
            return Err(BindError::TableFull);
        }
        match socket.bind(prefix.as_name()) {
            Ok(()) => Ok(self.bpt_routed(prefix.as_name()).map_or(Bound::NotRouted, |_| Bound::Routed)),
            Err(Errno::ADDRINUSE) => Err(BindError::InUse),
            Err(Errno::NOSPC) => Err(BindError::TableFull),
            Err(Errno::NOMEM) => Err(BindError::NoMemory),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Err(BindError::NotUpper),
            Err(_) => Err(BindError::NoFace),
        }
    }

    fn bpt_unbind(&self, face: FaceId, prefix: &Name) -> bool {
        let socket = self.relay().and_then(|relay| relay.socket(relay.face(face.0)?));
        socket.is_some_and(|socket| socket.unbind(prefix.as_name()).is_ok())
    }

    fn bpt_holds(&self, face: FaceId, prefix: &Name) -> bool {
        self.bpt().iter().any(|(bound, of)| bound == prefix && *of == face)
    }

    fn bpt_bound_to(&self, name: NameRef<'_>) -> Option<FaceId> {
        let name = name.to_name();
        let overlaps =
            |bound: &Name| bound.is_prefix_of(name.as_name()) || name.is_prefix_of(bound.as_name());
        self.bpt().into_iter().find(|(bound, _)| overlaps(bound)).map(|(_, face)| face)
    }

    fn bpt_routed(&self, name: NameRef<'_>) -> Option<usize> {
        if !proc::is_routed_to_applications(name).unwrap_or(false) {
            return None;
        }
        self.longest(name).map(|(prefix, _)| prefix.len())
    }

    fn strategies(&self) -> Vec<StrategyChoice> {
        let choices = self.control().strategies().unwrap_or_default();
        let mut choices: Vec<StrategyChoice> =
            choices.into_iter().map(|c| StrategyChoice { prefix: c.prefix, strategy: c.strategy }).collect();
        choices.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        choices
    }

    fn strategy_set(&self, prefix: NameRef<'_>, strategy: NameRef<'_>) -> Result<Name, StrategyError> {
        let chosen = self.control().strategy_new(prefix, strategy);
        chosen.map_err(|error| match error {
            ControlError::Full => StrategyError::TableFull,
            ControlError::Invalid(_) => StrategyError::Parameters,
            _ => StrategyError::Unknown,
        })?;
        let is_it = |choice: &StrategyChoice| choice.prefix.as_name() == prefix;
        let chosen = self.strategies().into_iter().find(is_it).map(|choice| choice.strategy);
        Ok(chosen.unwrap_or_else(|| strategy.to_name()))
    }

    fn strategy_unset(&self, prefix: NameRef<'_>) -> bool {
        self.control().strategy_del(prefix).is_ok()
    }

    /// Explains a name without the data that the kernel does not report: cached and pending
    /// packets, and measurements of strategies.
    fn explain(&self, name: NameRef<'_>, now_ns: u64) -> Explained {
        let (prefix, hops) = self.longest(name).unzip();
        let choice = self.strategy_of(name).unwrap_or_default();
        let routes = prefix.as_ref().map(|prefix| self.core.rib_routes(prefix, now_ns)).unwrap_or_default();
        let of_prefix = |route: Route| {
            let face_id = self.number(FaceId(route.face_id))?;
            let prefix = prefix.clone()?;
            Some(namely_messages::ExplainedRoute { prefix, route: Route { face_id, ..route } })
        };
        Explained {
            routes: routes.into_iter().filter_map(of_prefix).collect(),
            next_hops: hops
                .unwrap_or_default()
                .into_iter()
                .map(|hop| ExplainedHop { face_id: hop.face_id, cost: hop.cost, ..ExplainedHop::default() })
                .collect(),
            prefix,
            bound: self.bpt().into_iter().find(|(bound, _)| bound.is_prefix_of(name)).map(|(_, face)| face.0),
            strategy: choice.strategy,
            strategy_prefix: choice.prefix,
            pit_entries: of(&counters("stats"), "pit_entries"),
            pit_capacity: 0,
            is_partial: true,
            ..Explained::default()
        }
    }

    fn cs_info(&self) -> CsInfo {
        let cs = counters("cs");
        CsInfo {
            capacity: of(&cs, "packets_max"),
            flags: cs_flags::ENABLE_ADMIT | cs_flags::ENABLE_SERVE,
            entries: of(&cs, "packets"),
            hits: of(&cs, "hits"),
            misses: of(&cs, "misses"),
            policy: None,
        }
    }

    fn cs_configure(&self, change: &CsChange) -> Result<(), String> {
        if change.admit == Some(false) || change.serve == Some(false) || change.policy.is_some() {
            return Err("the kernel's content store has a capacity and nothing else to change".into());
        }
        let Some(packets) = change.packets_max else { return Ok(()) };
        self.control().cs_set(packets as u64).map_err(|error| error.to_string())
    }

    /// The kernel does not list its cached packets.
    fn cs_list(&self, _: &CsListQuery, _: usize, _: u64, _: &mut Vec<CsPacket>) -> Option<u64> {
        None
    }

    fn cs_erase(&self, prefix: NameRef<'_>, count: u64) -> (u64, bool) {
        let erased = self.control().cs_erase(prefix, Some(count)).unwrap_or_else(|error| {
            noted(&format!("nothing is erased below {prefix}"), &error);
            0
        });
        (erased, erased == count)
    }

    /// The kernel erases by name and not by digest: Data of exactly this name first, or else one
    /// Data below it. So a false report removes one cached copy, as without the kernel. The
    /// kernel's strategies learn no routes.
    fn data_refused(&self, full_name: NameRef<'_>, _: u64) -> (bool, u64) {
        let erased = name_of_data(full_name).map_or(0, |name| self.cs_erase(name, 1).0);
        (erased > 0, 0)
    }
}

/// The name of the Data that a full name identifies. `None` without an implicit digest, and for the
/// empty name: all Data is below it.
fn name_of_data(full_name: NameRef<'_>) -> Option<NameRef<'_>> {
    full_name.last().filter(|last| last.is_implicit_digest())?;
    Some(full_name.without_last(1)).filter(|name| !name.is_empty())
}

fn fib_error(error: &ControlError) -> FibError {
    match error {
        ControlError::NotFound => FibError::NoFace,
        ControlError::System(Errno::NOMEM) => FibError::NoMemory,
        _ => FibError::TableFull,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_name_identifies_one_data() {
        let digest = format!("sha256digest={}", "7".repeat(64));
        let of = |uri: &str| {
            let full_name: Name = uri.parse().unwrap();
            name_of_data(full_name.as_name()).map(|name| name.to_name().to_string())
        };
        assert_eq!(of(&format!("/a/b/{digest}")).as_deref(), Some("/a/b"));
        assert_eq!([of("/a/b"), of(&format!("/{digest}")), of("/")], [None, None, None]);
    }
}

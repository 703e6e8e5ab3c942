//! Implements [`Tables`] for a forwarder with routes.

use namely_forwarder::{
    BindError, Bound, Charge, CsChange, DropReason, FaceId, FibError, Forwarder, PacketBuf, RibError, Router,
    StrategyError,
};
use namely_messages::{
    Counter, CsInfo, CsListQuery, CsPacket, Explained, FibEntry, GeneralStatus, RibEntry, Route, RouteOrigin,
    StrategyChoice, cs_flags,
};
use namely_wire::{Name, NameRef};

use crate::control::Tables;
use crate::modules::explain;

/// The forwarder itself. Some of its methods have the names of methods of [`Tables`].
fn core<B, R>(router: &Router<B, R>) -> &Forwarder<B, R> {
    router
}

impl<B: PacketBuf, R: lock_api::RawMutex> Tables for Router<B, R> {
    fn status(&self) -> GeneralStatus {
        let sizes = core(self).table_sizes();
        let counters = core(self).counters();
        let count = |n: usize| n as u64;
        GeneralStatus {
            // These three tables correspond to NFD's name tree.
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
            routes: Some(count(self.rib_len())),
            ..GeneralStatus::default()
        }
    }

    fn counters(&self) -> Vec<Counter> {
        let counters = core(self).counters();
        let cs = core(self).cs().status();
        let drops = DropReason::ALL.iter().map(|reason| (reason.label(), counters.dropped(*reason)));
        let paths = [
            ("suppressed", counters.suppressed),
            ("strategy_memory_full", counters.strategy_memory_full),
            ("to_network", counters.to_network),
            ("to_local", counters.to_local),
            ("faces_orphaned", counters.faces_orphaned),
            ("orphans", counters.orphans),
            ("cs_refused", cs.refused),
            ("cs_evicted", cs.evicted),
            ("cs_octets", cs.octets),
        ];
        drops
            .chain(paths)
            .chain(counters.tier.labelled())
            .chain(counters.objects.labelled())
            .filter(|(_, n)| *n > 0)
            .map(|(label, n)| Counter::new(format!("forwarder.{label}"), n))
            .collect()
    }

    fn fib(&self, from: Option<u32>, entries: &mut Vec<FibEntry>) -> Option<u32> {
        core(self).fib().walk(from, entries)
    }

    fn fib_add(&self, prefix: NameRef<'_>, face: FaceId, cost: u64) -> Result<(), FibError> {
        core(self).fib().add_nexthop(prefix, face, cost)
    }

    fn fib_remove(&self, prefix: NameRef<'_>, face: FaceId) -> bool {
        core(self).fib().remove_nexthop(prefix, face)
    }

    fn rib(&self, last: Option<&Name>, now_ns: u64, entries: &mut Vec<RibEntry>) -> Option<Name> {
        self.rib_walk(last, now_ns, entries)
    }

    fn rib_faces(&self, prefix: NameRef<'_>) -> Vec<u64> {
        self.rib_faces(&prefix.to_name())
    }

    fn rib_register(
        &self,
        charge: Charge,
        prefix: NameRef<'_>,
        route: &Route,
        now_ns: u64,
    ) -> Result<(), RibError> {
        self.rib_register_for(charge, &prefix.to_name(), route, now_ns)
    }

    fn rib_unregister(&self, prefix: NameRef<'_>, face: FaceId, origin: RouteOrigin) -> bool {
        self.rib_unregister(&prefix.to_name(), face, origin)
    }

    fn bpt(&self) -> Vec<(Name, FaceId)> {
        core(self).bindings().snapshot()
    }

    fn bpt_bind(&self, face: FaceId, prefix: &Name, of_face_max: usize) -> Result<Bound, BindError> {
        if core(self).bindings().count(face) >= of_face_max && !core(self).bindings().holds(face, prefix) {
            return Err(BindError::TableFull);
        }
        core(self).bindings().bind(face, prefix.as_name())
    }

    fn bpt_unbind(&self, face: FaceId, prefix: &Name) -> bool {
        core(self).bindings().unbind(face, prefix.as_name())
    }

    fn bpt_holds(&self, face: FaceId, prefix: &Name) -> bool {
        core(self).bindings().holds(face, prefix)
    }

    fn bpt_bound_to(&self, name: NameRef<'_>) -> Option<FaceId> {
        core(self).bindings().bound_to(name)
    }

    fn bpt_routed(&self, name: NameRef<'_>) -> Option<usize> {
        core(self).bindings().routed(name)
    }

    fn strategies(&self) -> Vec<StrategyChoice> {
        let mut choices = core(self).strategies().snapshot();
        choices.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        choices
    }

    fn strategy_set(&self, prefix: NameRef<'_>, strategy: NameRef<'_>) -> Result<Name, StrategyError> {
        core(self).strategies().set(prefix, strategy).map(|chosen| chosen.name())
    }

    fn strategy_unset(&self, prefix: NameRef<'_>) -> bool {
        core(self).strategies().unset(prefix) == Ok(true)
    }

    fn explain(&self, name: NameRef<'_>, now_ns: u64) -> Explained {
        explain::explained(self, name, now_ns)
    }

    fn cs_info(&self) -> CsInfo {
        let cs = core(self).cs().status();
        let flag = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
        CsInfo {
            capacity: cs.packets_max as u64,
            flags: flag(cs.admit, cs_flags::ENABLE_ADMIT) | flag(cs.serve, cs_flags::ENABLE_SERVE),
            entries: cs.packets as u64,
            hits: cs.hits,
            misses: cs.misses,
            policy: Some(cs.policy.name().to_owned()),
        }
    }

    fn cs_configure(&self, change: &CsChange) -> Result<(), String> {
        core(self).cs().configure(change);
        Ok(())
    }

    fn cs_list(
        &self,
        query: &CsListQuery,
        most: usize,
        now_ns: u64,
        packets: &mut Vec<CsPacket>,
    ) -> Option<u64> {
        let from = u32::try_from(query.from).ok()?;
        let next = core(self).cs().walk(query.prefix.as_name(), from, |name, octets, fresh_until_ns| {
            let fresh_ms = fresh_until_ns.saturating_sub(now_ns) / 1_000_000;
            packets.push(CsPacket { name: name.to_name(), octets: octets as u64, fresh_ms });
            packets.len() < most
        });
        next.map(u64::from)
    }

    fn cs_erase(&self, prefix: NameRef<'_>, count: u64) -> (u64, bool) {
        let (erased, more) = core(self).cs().erase(prefix, usize::try_from(count).unwrap_or(usize::MAX));
        (erased as u64, more)
    }

    fn data_refused(&self, full_name: NameRef<'_>, now_ns: u64) -> (bool, u64) {
        let refused = Router::data_refused(self, full_name, now_ns);
        (refused.erased, refused.routes as u64)
    }
}

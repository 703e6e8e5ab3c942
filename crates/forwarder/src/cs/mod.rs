//! The content store: cached Data, found by whole name, by any prefix, or by implicit digest.
//!
//! Three limits are in force at once (`IS-35`): packets, index entries and octets. A Data is copied nowhere:
//! the store keeps a reference to the received packet and its index points into it.

mod index;
mod policy;
#[cfg(test)]
mod tests;

use namely_wire::DataView;

use crate::ask::Ask;
use crate::config::Config;
use crate::pit::Span;
use crate::prefix_table::Key;
use crate::slab::{Id, Slab};
use index::Index;
use policy::{Lru, Policy};

/// Most Data that one lookup examines under one name. A cache may miss; it may not make one Interest pay
/// for all stale Data under a short prefix.
pub(crate) const CS_EXAMINED_MAX: usize = 64;

/// The state of the content store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CsInfo {
    /// Most packets it may hold.
    pub packets_max: usize,
    /// Whether it takes Data in.
    pub admit: bool,
    /// Whether it answers.
    pub serve: bool,
    /// Packets it holds.
    pub packets: usize,
    /// Index entries it holds: one for each prefix of each name.
    pub entries: usize,
    /// Octets it holds.
    pub octets: u64,
    /// Interests it answered.
    pub hits: u64,
    /// Interests it could not answer.
    pub misses: u64,
    /// Data it refused: NoCache, an empty name, or larger than a limit.
    pub refused: u64,
    /// Data that left to make room.
    pub evicted: u64,
}

pub(crate) struct Cs<B> {
    packets: Slab<Cached<B>>,
    index: Index,
    policy: Lru,
    serial: u64,
    entries_max: usize,
    octets_max: u64,
    info: CsInfo,
}

struct Cached<B> {
    packet: B,
    name: Span,
    first_entry: Id,
    fresh_until_ns: u64,
    /// The implicit digest, once somebody needed it.
    digest: Option<[u8; 32]>,
    /// Tells a packet from a later one with the same id.
    serial: u64,
}

impl<B: AsRef<[u8]>> Cached<B> {
    fn name(&self) -> &[u8] {
        self.name.slice(self.packet.as_ref())
    }
}

/// What a lookup found.
pub(crate) enum Lookup<B> {
    Hit(B),
    Miss,
    /// Compute the digest of this packet, give it to [`Cs::set_digest`], and look again.
    DigestNeeded(Undigested<B>),
}

/// A cached packet whose digest is not known yet.
pub(crate) struct Undigested<B> {
    id: Id,
    serial: u64,
    pub(crate) packet: B,
}

impl<B: AsRef<[u8]> + Clone> Cs<B> {
    pub(crate) fn new(config: &Config) -> Self {
        Cs {
            packets: Slab::new(),
            index: Index::new(config.cs_entries_max),
            policy: Lru::default(),
            serial: 0,
            entries_max: config.cs_entries_max,
            octets_max: config.cs_octets_max,
            info: CsInfo {
                packets_max: config.cs_packets_max,
                admit: config.cs_admit,
                serve: config.cs_serve,
                ..CsInfo::default()
            },
        }
    }

    pub(crate) fn info(&self) -> CsInfo {
        CsInfo { packets: self.packets.len(), entries: self.index.len(), ..self.info }
    }

    /// Changes what is given; Data beyond a smaller capacity leaves now.
    pub(crate) fn configure(&mut self, packets_max: Option<usize>, admit: Option<bool>, serve: Option<bool>) {
        self.info.packets_max = packets_max.unwrap_or(self.info.packets_max);
        self.info.admit = admit.unwrap_or(self.info.admit);
        self.info.serve = serve.unwrap_or(self.info.serve);
        while self.packets.len() > self.info.packets_max && self.evict() {}
    }

    /// Changes how many index entries and octets there may be; Data beyond them leaves now.
    pub(crate) fn limit(&mut self, entries_max: usize, octets_max: u64) {
        self.entries_max = entries_max;
        self.octets_max = octets_max;
        while (self.index.len() > entries_max || self.info.octets > octets_max) && self.evict() {}
    }

    /// Finds Data that satisfies `ask` at `now_ns`.
    pub(crate) fn find(&mut self, ask: &Ask<'_>, now_ns: u64) -> Lookup<B> {
        if !self.info.serve || self.packets.len() == 0 {
            self.info.misses += 1;
            return Lookup::Miss;
        }
        match self.search(ask, now_ns) {
            Search::Found(id) => {
                self.info.hits += 1;
                self.policy.used(id);
                self.packets.get(id).map_or(Lookup::Miss, |cached| Lookup::Hit(cached.packet.clone()))
            }
            Search::DigestNeeded(id) => self.packets.get(id).map_or(Lookup::Miss, |cached| {
                let packet = cached.packet.clone();
                Lookup::DigestNeeded(Undigested { id, serial: cached.serial, packet })
            }),
            Search::Nothing => {
                self.info.misses += 1;
                Lookup::Miss
            }
        }
    }

    pub(crate) fn set_digest(&mut self, of: &Undigested<B>, digest: [u8; 32]) {
        if let Some(cached) = self.packets.get_mut(of.id).filter(|cached| cached.serial == of.serial) {
            cached.digest = Some(digest);
        }
    }

    /// Takes a Data in, or renews it if the very same packet is there.
    pub(crate) fn insert(
        &mut self,
        packet: &B,
        view: &DataView<'_>,
        key: Key<'_>,
        digest: Option<[u8; 32]>,
        now_ns: u64,
    ) {
        if !self.info.admit || self.info.packets_max == 0 {
            return;
        }
        let fresh_until_ns = now_ns.saturating_add(view.freshness_ms.saturating_mul(1_000_000));
        if let Some(id) = self.find_same(view, key) {
            self.policy.used(id);
            if let Some(cached) = self.packets.get_mut(id) {
                cached.fresh_until_ns = fresh_until_ns;
            }
            return;
        }
        let (octets, components) = (view.wire.len() as u64, key.hashes.len());
        if components == 0 || components > self.entries_max || octets > self.octets_max {
            self.info.refused += 1;
            return;
        }
        self.make_room(octets, components);
        self.serial += 1;
        let id = self.packets.insert(Cached {
            packet: packet.clone(),
            name: Span::of(view.wire, view.name.as_bytes()),
            first_entry: 0,
            fresh_until_ns,
            digest,
            serial: self.serial,
        });
        let packets = &self.packets;
        let first_entry = self.index.insert(id, key, |id| packets.get(id).map_or(&[], Cached::name));
        if let Some(cached) = self.packets.get_mut(id) {
            cached.first_entry = first_entry;
        }
        self.policy.inserted(id);
        self.info.octets += octets;
    }

    /// Counts a Data that was not to be cached.
    pub(crate) fn refuse(&mut self) {
        self.info.refused += 1;
    }

    /// Removes up to `count` Data at or under `prefix`; returns how many went and whether more remain.
    pub(crate) fn erase(&mut self, prefix: Key<'_>, count: usize) -> (usize, bool) {
        let mut erased = 0;
        loop {
            let Some(id) = self.any_under(prefix) else { return (erased, false) };
            if erased == count {
                return (erased, true);
            }
            self.remove(id);
            erased += 1;
        }
    }

    fn search(&self, ask: &Ask<'_>, now_ns: u64) -> Search {
        let name_of = |id| self.packets.get(id).map_or(&[][..], Cached::name);
        if ask.components == 0 {
            return Search::Nothing;
        }
        let Some(node) = self.index.find(ask.key(), ask.components, &name_of) else { return Search::Nothing };
        let usable = |id: &Id| {
            !ask.view.must_be_fresh || self.packets.get(*id).is_some_and(|c| now_ns < c.fresh_until_ns)
        };
        if let Some(asked) = ask.digest {
            for id in self.index.exact(node).take(CS_EXAMINED_MAX).filter(usable) {
                match self.packets.get(id).and_then(|cached| cached.digest) {
                    None => return Search::DigestNeeded(id),
                    Some(digest) if digest == asked => return Search::Found(id),
                    Some(_) => {}
                }
            }
            return Search::Nothing;
        }
        let mut found = self.index.exact(node).take(CS_EXAMINED_MAX).find(usable);
        if found.is_none() && ask.view.can_be_prefix {
            found = self.index.extended(node).take(CS_EXAMINED_MAX).find(usable);
        }
        found.map_or(Search::Nothing, Search::Found)
    }

    /// The cached packet with the same octets.
    fn find_same(&self, view: &DataView<'_>, key: Key<'_>) -> Option<Id> {
        let name_of = |id| self.packets.get(id).map_or(&[][..], Cached::name);
        let node = self.index.find(key, key.hashes.len(), &name_of)?;
        let same = |id: &Id| self.packets.get(*id).is_some_and(|c| c.packet.as_ref() == view.wire);
        self.index.exact(node).take(CS_EXAMINED_MAX).find(same)
    }

    fn any_under(&self, prefix: Key<'_>) -> Option<Id> {
        if prefix.hashes.len() == 0 {
            return self.policy.victim();
        }
        let name_of = |id| self.packets.get(id).map_or(&[][..], Cached::name);
        let node = self.index.find(prefix, prefix.hashes.len(), &name_of)?;
        self.index.exact(node).next().or_else(|| self.index.extended(node).next())
    }

    fn make_room(&mut self, octets: u64, components: usize) {
        while self.packets.len() >= self.info.packets_max
            || self.index.len() + components > self.entries_max
            || self.info.octets + octets > self.octets_max
        {
            if !self.evict() {
                return;
            }
        }
    }

    fn evict(&mut self) -> bool {
        let Some(id) = self.policy.victim() else { return false };
        self.info.evicted += 1;
        self.remove(id);
        true
    }

    fn remove(&mut self, id: Id) {
        let Some(first_entry) = self.packets.get(id).map(|cached| cached.first_entry) else { return };
        self.index.remove(first_entry);
        self.policy.removed(id);
        if let Some(cached) = self.packets.remove(id) {
            self.info.octets -= cached.packet.as_ref().len() as u64;
        }
    }
}

enum Search {
    Found(Id),
    DigestNeeded(Id),
    Nothing,
}

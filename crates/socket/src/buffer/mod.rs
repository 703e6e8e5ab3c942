//! The output buffer of a producer: packets by name, in memory under a limit of octets, and on disk
//! behind it (HT-24).
//!
//! [`Buffer`] is one ordered index over both layers, without I/O: it says of an Interest which
//! packet answers it and where that is. What memory drops stays in the index if the store has it,
//! and is forgotten if not.

mod order;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use namely_transport::answers;
use namely_wire::types::VERSION_COMPONENT;
use namely_wire::{DataView, InterestView, NameRef};

use self::order::{Order, Rank};
use namely_store::Location;

/// Packets looked at for an Interest that has an implicit digest and CanBePrefix.
pub(crate) const CANDIDATES_MAX: usize = 64;

/// Which packets give way first when the memory of the buffer is full (option `buffer_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BufferPolicy {
    /// Those that came first.
    Fifo,
    /// Those not asked for for the longest time.
    #[default]
    Lru,
    /// Those asked for least often.
    Lfu,
}

/// A packet's octets, shared between the buffer and whoever sends it.
pub(crate) type Packet = Arc<Vec<u8>>;

/// What answers an Interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// This packet.
    Memory(Packet),
    /// The packet that lies there: to be read, and to be compared with the Interest.
    Disk(Location),
}

/// The packets of one producer.
#[derive(Debug)]
pub(crate) struct Buffer {
    index: BTreeMap<Arc<[u8]>, IndexEntry>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    order: Order,
    octets: usize,
    octets_max: usize,
    evicted: u64,
}

/// Where a packet is: in memory, on disk, or both.
#[derive(Clone, Copy, Debug, Default)]
struct IndexEntry {
    slot: Option<u32>,
    disk: Option<Location>,
    /// From then on it answers no Interest that must be fresh; never, if there is none.
    expires_ns: Option<u64>,
}

#[derive(Debug)]
struct Slot {
    name: Arc<[u8]>,
    packet: Packet,
    rank: Rank,
}

impl Buffer {
    /// A buffer that keeps at most `octets_max` octets of packets in memory.
    pub(crate) fn new(octets_max: usize, policy: BufferPolicy) -> Self {
        Buffer {
            index: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            order: Order::new(policy),
            octets: 0,
            octets_max,
            evicted: 0,
        }
    }

    /// Adds the packet `name`, which may be on disk too. Others give way to it; one longer than the
    /// whole memory is kept on disk only, or not at all.
    pub(crate) fn insert(&mut self, name: NameRef<'_>, packet: Packet, disk: Option<Location>) {
        let key = match self.index.get_key_value(name.as_bytes()) {
            Some((key, _)) => key.clone(),
            None => Arc::from(name.as_bytes()),
        };
        let place = self.index.entry(key.clone()).or_default();
        place.disk = disk.or(place.disk);
        let old = place.slot.take();
        let is_kept = packet.len() <= self.octets_max;
        if let Some(old) = old {
            self.release(old);
        }
        if !is_kept {
            self.forget_if_nowhere(&key);
            return;
        }
        while self.octets + packet.len() > self.octets_max {
            let Some(victim) = self.order.first() else { break };
            self.evict(victim);
        }
        self.octets += packet.len();
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        let rank = self.order.insert(slot);
        let held = Some(Slot { name: key.clone(), packet, rank });
        match self.slots.get_mut(slot as usize) {
            Some(free) => *free = held,
            None => self.slots.push(held),
        }
        if let Some(place) = self.index.get_mut(&key) {
            place.slot = Some(slot);
        }
    }

    /// Adds a packet that is on disk only, as found when a store is opened, and that expires at
    /// `expires_ns`; it takes the place of an older one of that name.
    pub(crate) fn insert_stored(&mut self, name: &[u8], disk: Location, expires_ns: Option<u64>) {
        let place = self.index.entry(Arc::from(name)).or_default();
        (place.disk, place.expires_ns) = (Some(disk), expires_ns);
    }

    /// From `at_ns` on the packet `name` answers no Interest with MustBeFresh.
    pub(crate) fn expire_at(&mut self, name: NameRef<'_>, at_ns: Option<u64>) {
        if let Some(place) = self.index.get_mut(name.as_bytes()) {
            place.expires_ns = at_ns;
        }
    }

    /// Forgets the packet `name` in both layers.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        if let Some(slot) = self.index.remove(name).and_then(|place| place.slot) {
            self.release(slot);
        }
    }

    /// Forgets what lay in file `file` of the store, which is gone; what of it is in memory stays
    /// there. How many packets the file had.
    pub(crate) fn remove_file(&mut self, file: u64) -> usize {
        let mut gone = 0;
        self.index.retain(|_, place| {
            gone += usize::from(place.disk.take_if(|location| location.file == file).is_some());
            place.slot.is_some() || place.disk.is_some()
        });
        gone
    }

    /// Returns true if some packet is below `prefix`.
    pub(crate) fn has_below(&self, prefix: NameRef<'_>) -> bool {
        self.first_below(prefix.as_bytes()).is_some()
    }

    /// What answers `interest` at `now_ns`: of a prefix the newest version, and of that the first
    /// packet in the order of names.
    pub(crate) fn find(&mut self, interest: &InterestView<'_>, now_ns: u64) -> Option<Found> {
        let bare = match interest.implicit_digest() {
            Some(_) => interest.name.without_last(1),
            None => interest.name,
        };
        let place = match (interest.can_be_prefix, interest.implicit_digest()) {
            (false, _) => *self.index.get(bare.as_bytes())?,
            (true, None) => self.newest_below(bare)?,
            (true, Some(_)) => self.with_digest(interest, bare)?,
        };
        if interest.must_be_fresh && place.expires_ns.is_some_and(|expires_ns| expires_ns <= now_ns) {
            return None;
        }
        let Some(slot) = place.slot else { return place.disk.map(Found::Disk) };
        let held = self.slots.get_mut(slot as usize)?.as_mut()?;
        // Names are equal already; only a digest is still to be compared.
        if interest.implicit_digest().is_some() && !is_answer(interest, &held.packet) {
            return None;
        }
        self.order.touch(slot, &mut held.rank);
        Some(Found::Memory(held.packet.clone()))
    }

    /// Octets of packets in memory.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    /// Packets that memory dropped to make room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Packets in either layer.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    fn first_below(&self, prefix: &[u8]) -> Option<(&Arc<[u8]>, &IndexEntry)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.index.range::<[u8], _>(from).next().filter(|(name, _)| name.starts_with(prefix))
    }

    fn newest_below(&self, prefix: NameRef<'_>) -> Option<IndexEntry> {
        let prefix = prefix.as_bytes();
        let (first, place) = self.first_below(prefix)?;
        // Names are ordered as their octets are, and numbers in their shortest form as the numbers
        // are.
        const VERSION: u8 = VERSION_COMPONENT as u8;
        if first.get(prefix.len()) != Some(&VERSION) {
            return Some(*place);
        }
        let end = [prefix, &[VERSION + 1]].concat();
        let range = (Bound::Included(prefix), Bound::Excluded(&end[..]));
        let (last, _) = self.index.range::<[u8], _>(range).next_back()?;
        let version = NameRef::parse_value(&last[prefix.len()..]).ok()?.prefix(1);
        self.first_below(&last[..prefix.len() + version.as_bytes().len()]).map(|(_, place)| *place)
    }

    /// The packet below `bare` with the digest asked for; else the first on disk, where nobody
    /// knows it yet.
    fn with_digest(&self, interest: &InterestView<'_>, bare: NameRef<'_>) -> Option<IndexEntry> {
        let from = (Bound::Included(bare.as_bytes()), Bound::Unbounded);
        let within =
            self.index.range::<[u8], _>(from).take_while(|(name, _)| name.starts_with(bare.as_bytes()));
        let mut on_disk = None;
        for (_, place) in within.take(CANDIDATES_MAX) {
            match place.slot.and_then(|slot| self.slots[slot as usize].as_ref()) {
                Some(held) if is_answer(interest, &held.packet) => return Some(*place),
                Some(_) => {}
                None => on_disk = on_disk.or(Some(*place)),
            }
        }
        on_disk
    }

    fn evict(&mut self, slot: u32) {
        self.evicted += 1;
        let Some(name) = self.release(slot) else { return };
        if let Some(place) = self.index.get_mut(&name) {
            place.slot = None;
        }
        self.forget_if_nowhere(&name);
    }

    /// Empties a slot; the name of what was in it.
    fn release(&mut self, slot: u32) -> Option<Arc<[u8]>> {
        let held = self.slots.get_mut(slot as usize)?.take()?;
        self.order.remove(slot, held.rank);
        self.octets -= held.packet.len();
        self.free.push(slot);
        Some(held.name)
    }

    fn forget_if_nowhere(&mut self, name: &[u8]) {
        if self.index.get(name).is_some_and(|place| place.slot.is_none() && place.disk.is_none()) {
            self.index.remove(name);
        }
    }
}

/// Returns true if `packet`, a Data, answers `interest`.
pub(crate) fn is_answer(interest: &InterestView<'_>, packet: &[u8]) -> bool {
    DataView::parse(packet).is_ok_and(|data| answers(interest, &data))
}

//! The output buffer of a producer: an index of packets by name. Memory holds packets up to a limit
//! of octets; a store on disk can hold more (HT-24).
//!
//! [`Buffer`] is one ordered index over both layers and does no I/O. For an Interest it returns the
//! packet that answers it, or the location of that packet on disk. A packet that memory evicts
//! stays in the index if the store has it; otherwise its entry is removed.

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

/// Packets compared with an Interest by digest that has CanBePrefix.
///
/// # Limit
/// Further packets are not compared.
/// - Counter: `dropped_unanswerable`
/// - Tests: `a_digest_selects_among_64_packets`
pub(crate) const CANDIDATES_MAX: usize = 64;

/// The order in which packets are evicted when the memory of the buffer is full (option
/// `buffer_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BufferPolicy {
    /// The oldest packets first.
    Fifo,
    /// The least recently used packets first.
    #[default]
    Lru,
    /// The least frequently used packets first.
    Lfu,
}

/// A packet's octets, shared between the buffer and the sending thread.
pub(crate) type Packet = Arc<Vec<u8>>;

/// The answer to an Interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BufferedPacket {
    /// A packet in memory.
    Memory(Packet),
    /// A packet on disk. The caller reads it and compares it with the Interest.
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

/// The location of a packet: in memory, on disk, or both.
#[derive(Clone, Copy, Debug, Default)]
struct IndexEntry {
    slot: Option<u32>,
    disk: Option<Location>,
    /// From this time on the packet answers no Interest with MustBeFresh. None: it never expires.
    expires_ns: Option<u64>,
}

#[derive(Debug)]
struct Slot {
    name: Arc<[u8]>,
    packet: Packet,
    rank: Rank,
}

impl Buffer {
    /// Creates a buffer that keeps at most `octets_max` octets of packets in memory.
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

    /// Adds the packet `name`, and its location on disk if it has one. Evicts other packets from
    /// memory until the packet fits. A packet larger than the memory limit is indexed on disk only;
    /// if it has no location on disk, it is dropped.
    pub(crate) fn insert(&mut self, name: NameRef<'_>, packet: Packet, disk: Option<Location>) {
        let key = match self.index.get_key_value(name.as_bytes()) {
            Some((key, _)) => key.clone(),
            None => Arc::from(name.as_bytes()),
        };
        let entry = self.index.entry(key.clone()).or_default();
        entry.disk = disk.or(entry.disk);
        let old = entry.slot.take();
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
        if let Some(entry) = self.index.get_mut(&key) {
            entry.slot = Some(slot);
        }
    }

    /// Adds a packet that is on disk only and expires at `expires_ns`. It was found when the store
    /// was opened, and replaces the location of an older packet of that name.
    pub(crate) fn insert_stored(&mut self, name: &[u8], disk: Location, expires_ns: Option<u64>) {
        let entry = self.index.entry(Arc::from(name)).or_default();
        (entry.disk, entry.expires_ns) = (Some(disk), expires_ns);
    }

    /// Sets the time from which the packet `name` answers no Interest with MustBeFresh.
    pub(crate) fn expire_at(&mut self, name: NameRef<'_>, at_ns: Option<u64>) {
        if let Some(entry) = self.index.get_mut(name.as_bytes()) {
            entry.expires_ns = at_ns;
        }
    }

    /// Removes the packet `name` from both layers.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        if let Some(slot) = self.index.remove(name).and_then(|entry| entry.slot) {
            self.release(slot);
        }
    }

    /// Removes the locations in file `file` of the store, which was deleted. Packets that are in
    /// memory too remain there. Returns the number of removed locations.
    pub(crate) fn remove_file(&mut self, file: u64) -> usize {
        let mut gone = 0;
        self.index.retain(|_, entry| {
            gone += usize::from(entry.disk.take_if(|location| location.file == file).is_some());
            entry.slot.is_some() || entry.disk.is_some()
        });
        gone
    }

    /// Returns true if the buffer has a packet below `prefix`.
    pub(crate) fn has_below(&self, prefix: NameRef<'_>) -> bool {
        self.first_below(prefix.as_bytes()).is_some()
    }

    /// Returns the answer to `interest` at `now_ns`. With CanBePrefix this is the first packet, in
    /// the order of names, of the newest version below the name. If the first packet below the name
    /// has no version component after the name, that packet is the answer.
    pub(crate) fn find(&mut self, interest: &InterestView<'_>, now_ns: u64) -> Option<BufferedPacket> {
        let bare = match interest.implicit_digest() {
            Some(_) => interest.name.without_last(1),
            None => interest.name,
        };
        let entry = match (interest.can_be_prefix, interest.implicit_digest()) {
            (false, _) => *self.index.get(bare.as_bytes())?,
            (true, None) => self.newest_below(bare)?,
            (true, Some(_)) => self.with_digest(interest, bare)?,
        };
        if interest.must_be_fresh && entry.expires_ns.is_some_and(|expires_ns| expires_ns <= now_ns) {
            return None;
        }
        let Some(slot) = entry.slot else { return entry.disk.map(BufferedPacket::Disk) };
        let held = self.slots.get_mut(slot as usize)?.as_mut()?;
        // The names are equal already; only the digest remains to be compared.
        if interest.implicit_digest().is_some() && !is_answer(interest, &held.packet) {
            return None;
        }
        self.order.touch(slot, &mut held.rank);
        Some(BufferedPacket::Memory(held.packet.clone()))
    }

    /// Octets of packets in memory.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    /// Number of packets evicted from memory.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Number of packets in either layer.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    fn first_below(&self, prefix: &[u8]) -> Option<(&Arc<[u8]>, &IndexEntry)> {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        self.index.range::<[u8], _>(from).next().filter(|(name, _)| name.starts_with(prefix))
    }

    fn newest_below(&self, prefix: NameRef<'_>) -> Option<IndexEntry> {
        let prefix = prefix.as_bytes();
        let (first, entry) = self.first_below(prefix)?;
        // Names sort like their octets. Numbers in their shortest form sort like their values.
        const VERSION: u8 = VERSION_COMPONENT as u8;
        if first.get(prefix.len()) != Some(&VERSION) {
            return Some(*entry);
        }
        let end = [prefix, &[VERSION + 1]].concat();
        let range = (Bound::Included(prefix), Bound::Excluded(&end[..]));
        let (last, _) = self.index.range::<[u8], _>(range).next_back()?;
        let version = NameRef::parse_value(&last[prefix.len()..]).ok()?.prefix(1);
        self.first_below(&last[..prefix.len() + version.as_bytes().len()]).map(|(_, entry)| *entry)
    }

    /// Returns the packet below `bare` with the requested digest. If no packet in memory has it,
    /// returns the first packet that is on disk only: the index does not have the digests of such
    /// packets.
    fn with_digest(&self, interest: &InterestView<'_>, bare: NameRef<'_>) -> Option<IndexEntry> {
        let from = (Bound::Included(bare.as_bytes()), Bound::Unbounded);
        let within =
            self.index.range::<[u8], _>(from).take_while(|(name, _)| name.starts_with(bare.as_bytes()));
        let mut on_disk = None;
        for (_, entry) in within.take(CANDIDATES_MAX) {
            match entry.slot.and_then(|slot| self.slots[slot as usize].as_ref()) {
                Some(held) if is_answer(interest, &held.packet) => return Some(*entry),
                Some(_) => {}
                None => on_disk = on_disk.or(Some(*entry)),
            }
        }
        on_disk
    }

    fn evict(&mut self, slot: u32) {
        self.evicted += 1;
        let Some(name) = self.release(slot) else { return };
        if let Some(entry) = self.index.get_mut(&name) {
            entry.slot = None;
        }
        self.forget_if_nowhere(&name);
    }

    /// Empties a slot and returns the name of its packet.
    fn release(&mut self, slot: u32) -> Option<Arc<[u8]>> {
        let held = self.slots.get_mut(slot as usize)?.take()?;
        self.order.remove(slot, held.rank);
        self.octets -= held.packet.len();
        self.free.push(slot);
        Some(held.name)
    }

    fn forget_if_nowhere(&mut self, name: &[u8]) {
        if self.index.get(name).is_some_and(|entry| entry.slot.is_none() && entry.disk.is_none()) {
            self.index.remove(name);
        }
    }
}

/// Returns true if `packet`, a Data, answers `interest`.
pub(crate) fn is_answer(interest: &InterestView<'_>, packet: &[u8]) -> bool {
    DataView::parse(packet).is_ok_and(|data| answers(interest, &data))
}

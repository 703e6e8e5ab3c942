//! Reassembly of fragmented packets, per remote endpoint, in any order and within fixed memory.
//!
//! NDNLPv2, indexed fragmentation: the fragments of a packet have consecutive Sequences, so that
//! Sequence - FragIndex, the Sequence of the first one, is the same for all of them and for no
//! other packet of that sender. Headers of the network packet are on the first fragment.
//!
//! A message keeps the octets that continue its beginning in one buffer, and fragments that came
//! early beside it; so nothing is ever reserved because a peer says how much will come. Where there
//! is no memory for a fragment, its message is dropped.

use alloc::collections::TryReserveError;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

use namely_wire::{LpHeaders, LpView, PACKET_OCTETS_MAX};

use crate::counters::{LinkDrop, LinkDrops};
use crate::fragment::FRAGMENTS_MAX;
use crate::messages::{Messages, Place};
use crate::sender::ANNOUNCEMENT_OCTETS_MAX;
use crate::sync::{AtomicUsize, Ordering};

/// What an incomplete message is charged beside its octets, so that tiny fragments are bounded too.
const MESSAGE_OVERHEAD_OCTETS: usize = 512;

/// What a fragment that came early is charged beside its octets.
const FRAGMENT_OVERHEAD_OCTETS: usize = 64;

/// Limits on the incomplete messages of one face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyLimits {
    /// Most incomplete messages; the oldest makes room.
    pub messages_max: usize,
    /// Maximum number of octets of memory they take; the oldest make room.
    pub octets_max: usize,
    /// How long a message may wait for its next fragment, ns.
    pub timeout_ns: u64,
}

impl Default for ReassemblyLimits {
    fn default() -> Self {
        ReassemblyLimits { messages_max: 512, octets_max: 1 << 20, timeout_ns: 500_000_000 }
    }
}

/// The part of all memory that one holder has at most.
const HOLDER_PART: usize = 4;

/// The part of all memory that is for holders with little.
const RESERVE_PART: usize = 4;

/// Octets that a holder may have though others have left little: a packet whose octets came in
/// order, in a buffer that grew by doubling.
pub const REASSEMBLY_RESERVE_OCTETS: usize = 32 << 10;

/// A limit on the incomplete messages of all faces together, shared by their link services.
#[derive(Debug)]
pub struct ReassemblyTotal {
    octets_max: usize,
    octets: AtomicUsize,
}

impl ReassemblyTotal {
    /// A limit of `octets_max` octets of memory.
    pub fn new(octets_max: usize) -> Arc<Self> {
        Arc::new(Self::unshared(octets_max))
    }

    /// The same for a home that keeps it itself, for longer than all that it counts.
    pub fn unshared(octets_max: usize) -> Self {
        ReassemblyTotal { octets_max, octets: AtomicUsize::new(0) }
    }

    /// Octets in use now.
    pub fn octets(&self) -> usize {
        self.octets.load(Ordering::Relaxed)
    }
}

/// A total as link services have it: counted, or where its home keeps it for longer than them. An
/// `Arc` cannot be made without the risk of a panic when there is no memory.
#[derive(Clone, Debug)]
pub enum ReassemblyTotalRef {
    /// It goes with the last that has it.
    Counted(Arc<ReassemblyTotal>),
    /// It stays.
    Kept(&'static ReassemblyTotal),
}

impl From<Arc<ReassemblyTotal>> for ReassemblyTotalRef {
    fn from(total: Arc<ReassemblyTotal>) -> Self {
        ReassemblyTotalRef::Counted(total)
    }
}

impl From<&'static ReassemblyTotal> for ReassemblyTotalRef {
    fn from(total: &'static ReassemblyTotal) -> Self {
        ReassemblyTotalRef::Kept(total)
    }
}

impl Deref for ReassemblyTotalRef {
    type Target = ReassemblyTotal;

    fn deref(&self) -> &ReassemblyTotal {
        match self {
            ReassemblyTotalRef::Counted(total) => total,
            ReassemblyTotalRef::Kept(total) => total,
        }
    }
}

/// What the incomplete messages of one holder take: of a user or a host, by however many faces.
///
/// A holder has at most a quarter of the total, and no more than what is left of three quarters
/// (dynamic thresholds, Choudhury and Hahne 1998), or [`REASSEMBLY_RESERVE_OCTETS`] if that is
/// more. Whoever has more than that by now, since others came, gives up what waited longest at its
/// next fragment. So something is always left, and nobody reaches into the faces of another.
#[derive(Debug)]
pub struct ReassemblyShare {
    total: ReassemblyTotalRef,
    octets: AtomicUsize,
}

impl ReassemblyShare {
    /// The share of another holder.
    pub fn new(total: impl Into<ReassemblyTotalRef>) -> Arc<Self> {
        Arc::new(Self::of(total))
    }

    fn of(total: impl Into<ReassemblyTotalRef>) -> Self {
        ReassemblyShare { total: total.into(), octets: AtomicUsize::new(0) }
    }

    /// Octets in use now.
    pub fn octets(&self) -> usize {
        self.octets.load(Ordering::Relaxed)
    }

    /// So many more are in use, and so many less. The numbers stand alone: relaxed orderings do.
    fn charge(&self, more: usize, less: usize) {
        for octets in [&self.octets, &self.total.octets] {
            octets.fetch_add(more, Ordering::Relaxed);
            octets.fetch_sub(less, Ordering::Relaxed);
        }
    }

    /// Returns true if the holder has to give something up.
    fn is_exceeded(&self) -> bool {
        let (octets_max, used, own) = (self.total.octets_max, self.total.octets(), self.octets());
        let left = (octets_max - octets_max / RESERVE_PART).saturating_sub(used);
        used > octets_max || own > octets_max / HOLDER_PART || own > left.max(REASSEMBLY_RESERVE_OCTETS)
    }
}

/// The share that a face takes part in: its own, which takes no memory, or one of several.
#[derive(Debug)]
pub(crate) enum Share {
    Own(ReassemblyShare),
    Several(Arc<ReassemblyShare>),
}

impl Share {
    pub(crate) fn own(total: impl Into<ReassemblyTotalRef>) -> Self {
        Share::Own(ReassemblyShare::of(total))
    }
}

impl Deref for Share {
    type Target = ReassemblyShare;

    fn deref(&self) -> &ReassemblyShare {
        match self {
            Share::Own(share) => share,
            Share::Several(share) => share,
        }
    }
}

/// A message is known by who sends it and by the Sequence of its first fragment.
type Key<R> = (R, u64);

/// The incomplete messages of one face.
#[derive(Debug)]
pub(crate) struct Reassembler<R> {
    limits: ReassemblyLimits,
    share: Share,
    /// A message becomes the youngest when a fragment joins it.
    messages: Messages<Key<R>, Message>,
    octets: usize,
    /// The buffer of a finished message, for the next one. One, since it is charged to nobody.
    spare: Vec<u8>,
}

/// A packet that is complete.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) headers: LpHeaders,
    pub(crate) octets: Vec<u8>,
    /// The PrefixAnnouncement of its first fragment.
    pub(crate) announcement: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Message {
    headers: LpHeaders,
    announcement: Option<Vec<u8>>,
    frag_count: u64,
    /// Fragments 0 up to `next_index`.
    beginning: Vec<u8>,
    next_index: u64,
    /// Later fragments, by FragIndex.
    early: Vec<(u64, Vec<u8>)>,
    early_octets: usize,
    charged_octets: usize,
    deadline_ns: u64,
}

impl<R: Ord + Copy> Reassembler<R> {
    pub(crate) fn new(limits: ReassemblyLimits, share: Share) -> Self {
        Reassembler { limits, share, messages: Messages::new(), octets: 0, spare: Vec::new() }
    }

    /// When the message that waited longest is dropped, ns.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.messages.get(self.messages.oldest()?).map(|message| message.deadline_ns)
    }

    /// Drops messages that waited too long.
    pub(crate) fn expire(&mut self, now_ns: u64, drops: &mut LinkDrops) {
        while self.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.remove_oldest();
            drops.count(LinkDrop::ReassemblyTimeout);
        }
    }

    /// Adds a fragment. Returns the packet that it completes.
    pub(crate) fn add(
        &mut self,
        view: &LpView<'_>,
        remote: R,
        now_ns: u64,
        drops: &mut LinkDrops,
    ) -> Result<Option<Whole>, LinkDrop> {
        let sequence = view.sequence.ok_or(LinkDrop::FragmentWithoutSequence)?;
        let fragment = view.fragment.unwrap_or_default();
        if view.frag_index >= view.frag_count {
            return Err(LinkDrop::FragIndexOutOfRange);
        }
        if view.frag_count > FRAGMENTS_MAX {
            return Err(LinkDrop::TooManyFragments);
        }
        self.expire(now_ns, drops);
        let key = (remote, sequence.wrapping_sub(view.frag_index));
        let place = self.open(key, view.frag_count).map_err(|_| LinkDrop::NoMemory)?;
        let Some(message) = self.messages.get_mut(place) else { return Ok(None) };
        if message.frag_count != view.frag_count {
            return Err(LinkDrop::FragCountChanged);
        }
        if message.holds(view.frag_index) {
            return Err(LinkDrop::DuplicateFragment);
        }
        if message.beginning.len() + message.early_octets + fragment.len() > PACKET_OCTETS_MAX {
            self.remove(place);
            return Err(LinkDrop::MessageTooLarge);
        }
        if view.frag_index == 0 {
            message.headers = view.headers;
            message.announcement = view.prefix_announcement.and_then(|announcement| {
                let kept = copied(announcement);
                if kept.is_none() {
                    drops.count(LinkDrop::AnnouncementLeftOut);
                }
                kept
            });
        }
        if message.insert(view.frag_index, fragment).is_err() {
            self.remove(place);
            return Err(LinkDrop::NoMemory);
        }
        if message.next_index == message.frag_count {
            return Ok(self.remove(place));
        }
        self.touch(place, now_ns);
        self.make_room(place, drops);
        Ok(None)
    }

    /// Finds or begins the message.
    fn open(&mut self, key: Key<R>, frag_count: u64) -> Result<Place, TryReserveError> {
        if let Some(place) = self.messages.find(&key) {
            return Ok(place);
        }
        let message = Message {
            headers: LpHeaders::default(),
            announcement: None,
            frag_count,
            beginning: Vec::new(),
            next_index: 0,
            early: Vec::new(),
            early_octets: 0,
            charged_octets: 0,
            deadline_ns: u64::MAX,
        };
        let place = self.messages.insert(key, message)?;
        if let Some(message) = self.messages.get_mut(place) {
            message.beginning = core::mem::take(&mut self.spare);
        }
        Ok(place)
    }

    /// Makes the message the youngest and charges for what it now takes.
    fn touch(&mut self, place: Place, now_ns: u64) {
        self.messages.touch(place);
        let Some(message) = self.messages.get_mut(place) else { return };
        message.deadline_ns = now_ns.saturating_add(self.limits.timeout_ns);
        let octets = message.memory_octets();
        let before = core::mem::replace(&mut message.charged_octets, octets);
        self.octets = self.octets - before + octets;
        self.share.charge(octets, before);
    }

    /// Drops messages, the one that waited longest first, until the limits hold. The newest stays
    /// unless it is alone.
    fn make_room(&mut self, newest: Place, drops: &mut LinkDrops) {
        while self.messages.len() > self.limits.messages_max
            || self.octets > self.limits.octets_max
            || self.share.is_exceeded()
        {
            let was_newest = self.messages.oldest() == Some(newest);
            self.remove_oldest();
            drops.count(LinkDrop::ReassemblyEvicted);
            if was_newest {
                break;
            }
        }
    }

    fn remove_oldest(&mut self) {
        if let Some(place) = self.messages.oldest() {
            self.remove(place);
        }
    }

    /// Takes a message out: what it is of a packet by now.
    fn remove(&mut self, place: Place) -> Option<Whole> {
        let Message { headers, announcement, beginning, charged_octets, .. } = self.messages.remove(place)?;
        self.octets -= charged_octets;
        self.share.charge(0, charged_octets);
        Some(Whole { headers, octets: beginning, announcement })
    }

    /// Takes back the buffer of a finished message.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.capacity() == 0 {
            buffer.clear();
            self.spare = buffer;
        }
    }

    #[cfg(test)]
    pub(crate) fn memory_octets(&self) -> usize {
        assert_eq!(self.octets, self.messages.iter().map(|(_, m)| m.charged_octets).sum::<usize>());
        self.octets
    }
}

impl<R> Drop for Reassembler<R> {
    fn drop(&mut self) {
        self.share.charge(0, self.octets);
    }
}

impl Message {
    fn holds(&self, index: u64) -> bool {
        index < self.next_index || self.early.binary_search_by_key(&index, |(index, _)| *index).is_ok()
    }

    /// # Errors
    /// There is no memory for it; the message must go.
    fn insert(&mut self, index: u64, fragment: &[u8]) -> Result<(), TryReserveError> {
        if index != self.next_index {
            let place = self.early.partition_point(|(before, _)| *before < index);
            let mut octets = Vec::new();
            octets.try_reserve_exact(fragment.len())?;
            octets.extend_from_slice(fragment);
            self.early.try_reserve(1)?;
            self.early.insert(place, (index, octets));
            self.early_octets += fragment.len();
            return Ok(());
        }
        let follow = self.early.iter().zip(index + 1..).take_while(|((early, _), next)| early == next);
        let (count, octets) =
            follow.fold((0, 0), |(count, sum), ((_, octets), _)| (count + 1, sum + octets.len()));
        self.beginning.try_reserve(fragment.len() + octets)?;
        self.beginning.extend_from_slice(fragment);
        self.early.drain(..count).for_each(|(_, octets)| self.beginning.extend_from_slice(&octets));
        self.early_octets -= octets;
        self.next_index += 1 + count as u64;
        Ok(())
    }

    fn memory_octets(&self) -> usize {
        MESSAGE_OVERHEAD_OCTETS
            + self.beginning.capacity()
            + self.announcement.as_ref().map_or(0, Vec::capacity)
            + self.early_octets
            + self.early.len() * FRAGMENT_OVERHEAD_OCTETS
    }
}

/// A copy of an announcement; `None` of one that is too long, or if there is no memory for it.
fn copied(announcement: &[u8]) -> Option<Vec<u8>> {
    if announcement.len() > ANNOUNCEMENT_OCTETS_MAX {
        return None;
    }
    let mut copy = Vec::new();
    copy.try_reserve_exact(announcement.len()).ok()?;
    copy.extend_from_slice(announcement);
    Some(copy)
}

#[cfg(test)]
#[path = "reassembly_tests.rs"]
mod tests;

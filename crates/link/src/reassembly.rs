//! Reassembly of fragmented packets, per remote endpoint, in any order and within fixed memory.
//!
//! NDNLPv2, indexed fragmentation: the fragments of a packet have consecutive Sequences. Sequence -
//! FragIndex, the Sequence of the first one, is therefore equal for all of them and unique to the
//! packet of that sender. The first fragment carries the headers of the network packet.
//!
//! A message keeps its contiguous beginning in one buffer, and early fragments separately. No
//! memory is reserved for a length that a peer only announces. If there is no memory for a
//! fragment, its message is dropped.

use alloc::collections::TryReserveError;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

use namely_wire::{LpHeaders, LpView, PACKET_OCTETS_MAX};

use crate::counters::{LinkDrop, LinkDrops};
use crate::fragment::FRAGMENTS_MAX;
use crate::messages::{Messages, SlotIndex};
use crate::sender::ANNOUNCEMENT_OCTETS_MAX;
use crate::sync::{AtomicUsize, Ordering};

/// Octets charged for an incomplete message beside its content, so that tiny fragments are bounded,
/// too.
const MESSAGE_OVERHEAD_OCTETS: usize = 512;

/// Octets charged for an early fragment beside its content.
const FRAGMENT_OVERHEAD_OCTETS: usize = 64;

/// Limits on the incomplete messages of one face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyLimits {
    /// Incomplete messages of a face.
    ///
    /// # Limit
    /// The message that has waited longest is evicted.
    /// - Value: 512
    /// - Counter: `reassembly_evicted`
    /// - Tests: `excess_messages_evict_the_longest_waiting`
    pub messages_max: usize,
    /// Octets of memory of a face's incomplete messages.
    ///
    /// # Limit
    /// The messages that have waited longest are evicted.
    /// - Value: 1 MiB
    /// - Counter: `reassembly_evicted`
    /// - Tests: `a_fragment_flood_keeps_the_newest`
    pub octets_max: usize,
    /// Time that an incomplete message waits for its next fragment.
    ///
    /// The caller of [`crate::LinkReceiver::tick`] ends the wait. A fragment that arrived in time
    /// and was read late therefore still completes its message.
    ///
    /// # Limit
    /// The message is dropped.
    /// - Value: 500 ms
    /// - Counter: `reassembly_timeout`
    /// - Tests: `a_message_times_out_after_500_ms`,
    ///   `late_reading_keeps_fragments_that_arrived`
    pub timeout_ns: u64,
}

impl Default for ReassemblyLimits {
    fn default() -> Self {
        ReassemblyLimits { messages_max: 512, octets_max: 1 << 20, timeout_ns: 500_000_000 }
    }
}

/// Divisor of the total: the maximum share of one owner.
const HOLDER_PART: usize = 4;

/// Divisor of the total: the reserve for owners with few octets.
const RESERVE_PART: usize = 4;

/// Octets of incomplete messages that any owner may have.
///
/// The limit is the memory of a packet with octets in order, in a buffer that grew by doubling.
///
/// # Limit
/// An owner may use more only while others have left enough.
/// - Value: 32 KiB
/// - Counter: `reassembly_evicted`
/// - Tests:
///   `full_reassembly_still_serves_small_peers`,
///   `the_reserve_holds_one_longest_packet`
pub const REASSEMBLY_RESERVE_OCTETS: usize = 32 << 10;

/// A limit on the incomplete messages of all faces together, shared by their link services.
#[derive(Debug)]
pub struct ReassemblyTotal {
    octets_max: usize,
    octets: AtomicUsize,
}

impl ReassemblyTotal {
    /// Creates a limit of `octets_max` octets of memory.
    pub fn new(octets_max: usize) -> Arc<Self> {
        Arc::new(Self::unshared(octets_max))
    }

    /// Creates a limit that the host owns and that outlives the messages it counts.
    pub fn unshared(octets_max: usize) -> Self {
        ReassemblyTotal { octets_max, octets: AtomicUsize::new(0) }
    }

    /// Octets in use now.
    pub fn octets(&self) -> usize {
        self.octets.load(Ordering::Relaxed)
    }
}

/// A reference to a total: counted, or static if the host's total outlives the link services. The
/// static one needs no allocation; creating an `Arc` may panic without memory.
#[derive(Clone, Debug)]
pub enum ReassemblyTotalRef {
    /// It is freed with the last reference.
    Counted(Arc<ReassemblyTotal>),
    /// It is never freed.
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

/// Memory of the incomplete messages of one owner: a user or a host, over all of its faces.
///
/// An owner may use at most a quarter of the total, and at most the free part of three quarters
/// (dynamic thresholds, Choudhury and Hahne 1998), or [`REASSEMBLY_RESERVE_OCTETS`] if that is
/// more. An owner above this limit, because others have arrived since, drops its oldest messages at
/// its next fragment. So a reserve is always free, and no owner evicts messages of another.
#[derive(Debug)]
pub struct ReassemblyShare {
    total: ReassemblyTotalRef,
    octets: AtomicUsize,
}

impl ReassemblyShare {
    /// Creates the share of a new owner.
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

    /// Charges `more` octets and releases `less`. Relaxed orderings suffice, because no other data
    /// depends on the numbers.
    fn charge(&self, more: usize, less: usize) {
        for octets in [&self.octets, &self.total.octets] {
            octets.fetch_add(more, Ordering::Relaxed);
            octets.fetch_sub(less, Ordering::Relaxed);
        }
    }

    /// Returns true if the owner must drop messages.
    fn is_exceeded(&self) -> bool {
        let (octets_max, used, own) = (self.total.octets_max, self.total.octets(), self.octets());
        let left = (octets_max - octets_max / RESERVE_PART).saturating_sub(used);
        used > octets_max || own > octets_max / HOLDER_PART || own > left.max(REASSEMBLY_RESERVE_OCTETS)
    }
}

/// The share that a face uses: its own, which needs no allocation, or one common to the owner's
/// faces.
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

/// The key of a message: its sender and the Sequence of its first fragment.
type Key<R> = (R, u64);

/// The incomplete messages of one face.
#[derive(Debug)]
pub(crate) struct Reassembler<R> {
    limits: ReassemblyLimits,
    share: Share,
    /// A message becomes the youngest when a fragment is added to it.
    messages: Messages<Key<R>, Message>,
    octets: usize,
    /// The buffer of a finished message, for reuse. There is only one, because no owner is charged
    /// for it.
    spare: Vec<u8>,
}

/// A complete packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CompletePacket {
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
    /// The content of fragments 0 up to `next_index`.
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

    /// The deadline of the oldest message, ns.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        self.messages.get(self.messages.oldest()?).map(|message| message.deadline_ns)
    }

    /// Drops messages that timed out.
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
    ) -> Result<Option<CompletePacket>, LinkDrop> {
        let sequence = view.sequence.ok_or(LinkDrop::FragmentWithoutSequence)?;
        let fragment = view.fragment.unwrap_or_default();
        if view.frag_index >= view.frag_count {
            return Err(LinkDrop::FragIndexOutOfRange);
        }
        if view.frag_count > FRAGMENTS_MAX {
            return Err(LinkDrop::TooManyFragments);
        }
        // Messages that are late by now do not expire here: the fragments that complete them may
        // have arrived in time and be the next ones to be read, after a stall of this process.
        let key = (remote, sequence.wrapping_sub(view.frag_index));
        let index = self.open(key, view.frag_count).map_err(|_| LinkDrop::NoMemory)?;
        let Some(message) = self.messages.get_mut(index) else { return Ok(None) };
        if message.frag_count != view.frag_count {
            return Err(LinkDrop::FragCountChanged);
        }
        if message.holds(view.frag_index) {
            return Err(LinkDrop::DuplicateFragment);
        }
        if message.beginning.len() + message.early_octets + fragment.len() > PACKET_OCTETS_MAX {
            self.remove(index);
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
            self.remove(index);
            return Err(LinkDrop::NoMemory);
        }
        if message.next_index == message.frag_count {
            return Ok(self.remove(index));
        }
        self.touch(index, now_ns);
        self.make_room(index, drops);
        Ok(None)
    }

    /// Finds or creates the message.
    fn open(&mut self, key: Key<R>, frag_count: u64) -> Result<SlotIndex, TryReserveError> {
        if let Some(index) = self.messages.find(&key) {
            return Ok(index);
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
        let index = self.messages.insert(key, message)?;
        if let Some(message) = self.messages.get_mut(index) {
            message.beginning = core::mem::take(&mut self.spare);
        }
        Ok(index)
    }

    /// Makes the message the youngest and charges its present memory.
    fn touch(&mut self, index: SlotIndex, now_ns: u64) {
        self.messages.touch(index);
        let Some(message) = self.messages.get_mut(index) else { return };
        message.deadline_ns = now_ns.saturating_add(self.limits.timeout_ns);
        let octets = message.memory_octets();
        let before = core::mem::replace(&mut message.charged_octets, octets);
        self.octets = self.octets - before + octets;
        self.share.charge(octets, before);
    }

    /// Drops the oldest messages until the limits hold. `newest` stays unless it is alone.
    fn make_room(&mut self, newest: SlotIndex, drops: &mut LinkDrops) {
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
        if let Some(index) = self.messages.oldest() {
            self.remove(index);
        }
    }

    /// Removes a message and returns its packet so far.
    fn remove(&mut self, index: SlotIndex) -> Option<CompletePacket> {
        let Message { headers, announcement, beginning, charged_octets, .. } = self.messages.remove(index)?;
        self.octets -= charged_octets;
        self.share.charge(0, charged_octets);
        Some(CompletePacket { headers, octets: beginning, announcement })
    }

    /// Retains the buffer of a finished message for reuse.
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
    /// There is no memory for it; the message must be dropped.
    fn insert(&mut self, index: u64, fragment: &[u8]) -> Result<(), TryReserveError> {
        if index != self.next_index {
            let position = self.early.partition_point(|(before, _)| *before < index);
            let mut octets = Vec::new();
            octets.try_reserve_exact(fragment.len())?;
            octets.extend_from_slice(fragment);
            self.early.try_reserve(1)?;
            self.early.insert(position, (index, octets));
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

/// Copies an announcement. `None` if it is too long or there is no memory for it.
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

//! The arguments of a strategy's hooks: its memory for a prefix, and the event ([`Hook`]).

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::parameters::Parameters;
use super::round_trips::RoundTripCounters;
use crate::counter::Counter;
use crate::face_id::FaceKey;

/// The memory of a strategy for one prefix.
pub(crate) trait Memory: Sized {
    /// An empty memory with room for `faces_max` faces; `None` if the strategy has no memory or the
    /// allocation fails.
    fn new(faces_max: usize) -> Option<Self>;
}

impl Memory for () {
    fn new(_faces_max: usize) -> Option<Self> {
        None
    }
}

/// The arguments of a hook besides its memory.
pub(crate) struct Hook<'a> {
    pub(crate) now_ns: u64,
    /// The hash of the Interest's name without a trailing digest; 0 in a hook without an Interest.
    pub(crate) name_hash: u64,
    /// The parameters of the strategy; empty except for an incoming Interest.
    pub(crate) parameters: Parameters,
    /// The face that the Interest arrived on, in the hook of an incoming Interest.
    pub(crate) ingress: Option<FaceKey>,
    /// The Interest carries NonDiscovery.
    pub(crate) is_non_discovery: bool,
    /// Under the strategy `vip`: the planned face for Interests of the object, if the Interest
    /// belongs to one.
    #[cfg(feature = "vip")]
    pub(crate) direction: Option<FaceKey>,
    /// The core's random numbers.
    pub(crate) random: &'a dyn Fn() -> u64,
    pub(super) timer_ns: &'a mut u64,
    pub(super) counted: &'a Counted,
    /// The strategy's index in [`Counted::round_trips`].
    pub(super) strategy: usize,
}

/// Counters of all records of the strategy memory.
pub(super) struct Counted {
    /// Records that were not made for lack of room or memory.
    pub(super) full: Counter,
    /// Indexed by strategy.
    pub(super) round_trips: Box<[RoundTripCounters]>,
}

impl Hook<'_> {
    /// Counts the round-trip time of an upstream, if the strategy measures it.
    pub(super) fn round_trip(&self, rtt_ns: u64) {
        if let Some(counters) = self.counted.round_trips.get(self.strategy) {
            counters.add(rtt_ns);
        }
    }

    /// Schedules [`super::Strategy::on_timer`] at `at_ns`. An earlier time that was already set
    /// remains. The call may be late by a tick of the timer wheel.
    pub(crate) fn set_timer(&mut self, at_ns: u64) {
        *self.timer_ns = at_ns.min(*self.timer_ns);
    }
}

/// The memory of a strategy for each face of a prefix.
pub(crate) struct FaceRecords<T> {
    records: Vec<(FaceKey, T)>,
    faces_max: usize,
}

impl<T> FaceRecords<T> {
    /// Empty records with room for `faces_max` faces; `None` if the allocation fails.
    pub(super) fn new(faces_max: usize) -> Option<Self> {
        let mut records = Vec::new();
        // Room for all faces now, so that no packet has to allocate it.
        records.try_reserve_exact(faces_max).ok()?;
        Some(FaceRecords { records, faces_max })
    }

    pub(super) fn get(&self, face: FaceKey) -> Option<&T> {
        // A linear search, because `strategy_faces_max` is small.
        self.records.iter().find(|(own, _)| *own == face).map(|(_, record)| record)
    }

    pub(super) fn get_mut(&mut self, face: FaceKey) -> Option<&mut T> {
        self.records.iter_mut().find(|(own, _)| *own == face).map(|(_, record)| record)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (FaceKey, &T)> {
        self.records.iter().map(|(face, record)| (*face, record))
    }

    /// The record of a face. A missing one is added; without room for it, [`Counted::full`] is
    /// incremented and `None` returned.
    pub(super) fn get_or_make(
        &mut self,
        face: FaceKey,
        hook: &Hook<'_>,
        make: impl FnOnce() -> T,
    ) -> Option<&mut T> {
        let i = match self.records.iter().position(|(own, _)| *own == face) {
            Some(i) => i,
            None if self.records.len() < self.faces_max => {
                self.records.push((face, make()));
                self.records.len() - 1
            }
            None => {
                hook.counted.full.add(1);
                return None;
            }
        };
        self.records.get_mut(i).map(|(_, record)| record)
    }

    /// Removes the records for which `keep` returns false.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(FaceKey, &mut T) -> bool) {
        self.records.retain_mut(|(face, record)| keep(*face, record));
    }
}

//! The arguments of a strategy's hooks: its memory of a prefix, and the tables beside it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::parameters::Parameters;
use super::round_trips::RoundTripCounters;
use crate::counter::Counter;
use crate::face_id::FaceKey;

/// The memory of a strategy for one prefix.
pub(crate) trait Memory: Sized {
    /// An empty memory with room for `faces_max` faces; `None` if there is nothing to remember or
    /// no memory for it.
    fn new(faces_max: usize) -> Option<Self>;
}

impl Memory for () {
    fn new(_faces_max: usize) -> Option<Self> {
        None
    }
}

/// The arguments of a hook beside its memory.
pub(crate) struct Hook<'a> {
    pub(crate) now_ns: u64,
    /// The hash of the name of the Interest that the hook is about, without a trailing digest; 0 if
    /// it is about none.
    pub(crate) name_hash: u64,
    /// The parameters of the strategy; empty but for the hook of an incoming Interest.
    pub(crate) parameters: Parameters,
    /// The face that the Interest came from, if the hook is about one that came.
    pub(crate) ingress: Option<FaceKey>,
    /// It says NonDiscovery.
    pub(crate) is_non_discovery: bool,
    /// Where the Interests of its object are to go, if it is of one and the strategy is `vip`.
    #[cfg(feature = "vip")]
    pub(crate) direction: Option<FaceKey>,
    /// The core's random numbers.
    pub(crate) random: &'a dyn Fn() -> u64,
    pub(super) timer_ns: &'a mut u64,
    pub(super) counted: &'a Counted,
    /// The number of the hook's strategy.
    pub(super) strategy: usize,
}

/// Counts over all records.
pub(super) struct Counted {
    pub(super) full: Counter,
    /// Of each strategy, by its number.
    pub(super) round_trips: Box<[RoundTripCounters]>,
}

impl Hook<'_> {
    /// Counts how long an upstream took to answer, as a strategy saw it which says that it
    /// measures.
    pub(super) fn round_trip(&self, rtt_ns: u64) {
        if let Some(counters) = self.counted.round_trips.get(self.strategy) {
            counters.add(rtt_ns);
        }
    }

    /// Has [`super::Strategy::on_timer`] called at `at_ns`, or sooner if that was asked for before,
    /// and at most a tick of the wheel later.
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
    /// Room for `faces_max` faces; `None` if there is no memory for it.
    pub(super) fn new(faces_max: usize) -> Option<Self> {
        let mut records = Vec::new();
        records.try_reserve_exact(faces_max).ok()?;
        Some(FaceRecords { records, faces_max })
    }

    pub(super) fn get(&self, face: FaceKey) -> Option<&T> {
        self.records.iter().find(|(own, _)| *own == face).map(|(_, record)| record)
    }

    pub(super) fn get_mut(&mut self, face: FaceKey) -> Option<&mut T> {
        self.records.iter_mut().find(|(own, _)| *own == face).map(|(_, record)| record)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (FaceKey, &T)> {
        self.records.iter().map(|(face, record)| (*face, record))
    }

    /// The record of a face, which is made if there is room for it; else that is counted.
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

    /// Keeps the records for which `keep` returns true.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(FaceKey, &mut T) -> bool) {
        self.records.retain_mut(|(face, record)| keep(*face, record));
    }
}

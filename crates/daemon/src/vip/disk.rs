//! The content store's disk as a tier of the virtual plane: its room for objects, and its
//! read rate, measured from ordinary reads.

use std::sync::Arc;

use namely_tier::Status;
use namely_vip::Tier;
use parking_lot::RwLock;

use super::plane::Settings;
use crate::disk::Disk;
use namely_dataplane::Core;

/// The index of the disk among the plane's tiers.
pub(super) const DISK: u8 = 1;

/// A measurement covers at least this time with a pending read, ns, and at least these octets.
const READ_NS_MIN: u64 = 2_000_000;
const READ_OCTETS_MIN: u64 = 4096;

/// Weights of a new measurement and of the earlier ones.
const NEW: u64 = 1;
const OLD: u64 = 3;

/// The disk as a tier of the plane.
pub(super) struct DiskTier {
    disk: Arc<Disk>,
    /// The blocks that are planned for it.
    planned: Arc<RwLock<Vec<bool>>>,
    /// The measured rate, octets per second.
    measured: Option<u64>,
    /// Its status at the last measurement.
    before: Status,
    /// Failed reads and writes up to the last slot.
    failed: u64,
    is_left_out: bool,
    /// Number of slots in which it was excluded.
    left_out: u64,
}

impl DiskTier {
    /// A disk without requests yet. It stores the blocks that are planned for it.
    pub(super) fn new(disk: Arc<Disk>, core: Arc<Core>) -> Self {
        let planned = Arc::new(RwLock::new(Vec::<bool>::new()));
        let wanted = planned.clone();
        disk.tier().set_retention_filter(move |name| {
            let block = core.objects().of(name).map(|block| block as usize);
            block.is_some_and(|block| wanted.read().get(block).copied().unwrap_or(false))
        });
        let before = disk.tier().status();
        let failed = failures(&before);
        DiskTier { disk, planned, measured: None, before, failed, is_left_out: false, left_out: 0 }
    }

    /// Begins a slot: measures the rate and checks for failures.
    pub(super) fn look(&mut self) {
        let now = self.disk.tier().status();
        let octets = now.counters.read_octets.saturating_sub(self.before.counters.read_octets);
        let ns = now.read_ns.saturating_sub(self.before.read_ns);
        let failed = failures(&now);
        self.is_left_out = self.disk.tier().is_resting() || failed > self.failed;
        self.failed = failed;
        self.left_out += u64::from(self.is_left_out);
        if octets >= READ_OCTETS_MIN && ns >= READ_NS_MIN {
            self.measured = Some(weighed(self.measured, octets, ns));
            self.before = now;
        }
    }

    /// Sets the blocks that are planned for it.
    pub(super) fn plan(&self, planned: impl Iterator<Item = bool>) {
        let mut known = self.planned.write();
        known.clear();
        known.extend(planned);
    }

    /// Returns true if it failed recently, so that no block is planned for it.
    pub(super) fn is_left_out(&self) -> bool {
        self.is_left_out
    }

    /// Number of slots in which it was excluded.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Its read rate, octets per second.
    pub(super) fn octets_per_s(&self, settings: &Settings) -> u64 {
        self.measured.unwrap_or(settings.config.disk_octets_per_s)
    }

    /// Its room for objects, octets.
    pub(super) fn room(&self, settings: &Settings) -> u64 {
        if self.is_left_out {
            return 0;
        }
        // The oldest eighth is evicted for new writes.
        let octets = self.disk.tier().octets_max() / 8 * 7;
        let of_objects = u128::from(octets) * u128::from(settings.config.segment_octets)
            / u128::from(settings.packet_octets().max(1));
        let fits = u64::try_from(of_objects).unwrap_or(u64::MAX);
        settings.config.disk_octets_max.map_or(fits, |most| most.min(fits))
    }

    /// The tier for the plane; `None` if objects must not use the disk.
    pub(super) fn tier(&self, settings: &Settings) -> Option<Tier> {
        let is_wanted = settings.config.disk_octets_max != Some(0);
        let rate = || settings.config.octets_per_slot(self.octets_per_s(settings));
        is_wanted.then(|| Tier::new(self.room(settings), rate()))
    }
}

fn failures(status: &Status) -> u64 {
    status.counters.read_errors + status.counters.write_errors
}

/// The average rate after another measurement, octets per second.
fn weighed(before: Option<u64>, octets: u64, ns: u64) -> u64 {
    let measured = u128::from(octets) * 1_000_000_000 / u128::from(ns.max(1));
    let measured = u64::try_from(measured).unwrap_or(u64::MAX);
    let sum = |before: u64| u128::from(before) * u128::from(OLD) + u128::from(measured) * u128::from(NEW);
    before.map_or(measured, |before| u64::try_from(sum(before) / u128::from(OLD + NEW)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_rates_are_weighted_averages() {
        assert_eq!(weighed(None, 5_000, 1_000_000), 5_000_000);
        assert_eq!(weighed(Some(5_000_000), 1_000, 1_000_000), 4_000_000);
        assert_eq!(weighed(None, u64::MAX, 0), u64::MAX);
        assert_eq!(weighed(Some(u64::MAX), u64::MAX, 1), u64::MAX);
    }
}

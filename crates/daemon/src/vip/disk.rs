//! The content store's disk as a tier of the virtual plane: how much of it there is for
//! objects, and what can be read of it, measured by the reads that it does anyway.

use std::sync::Arc;

use namely_store::tier::Status;
use namely_vip::Tier;
use parking_lot::RwLock;

use super::plane::Settings;
use crate::disk::Disk;
use namely_dataplane::Core;

/// Its number among the tiers.
pub(super) const DISK: u8 = 1;

/// A measurement has so much time in which at least one read pended, ns, and so many octets.
const READ_NS_MIN: u64 = 2_000_000;
const READ_OCTETS_MIN: u64 = 4096;

/// What a new measurement counts for, and those before.
const NEW: u64 = 1;
const OLD: u64 = 3;

/// The disk as the plane has it.
pub(super) struct DiskTier {
    disk: Arc<Disk>,
    /// Which blocks are planned for it.
    planned: Arc<RwLock<Vec<bool>>>,
    /// Octets in a second that were measured.
    measured: Option<u64>,
    /// As it was when that was measured last.
    before: Status,
    /// Reads and writes that had failed by the last slot.
    failed: u64,
    is_left_out: bool,
    /// Slots in which it was.
    left_out: u64,
}

impl DiskTier {
    /// A disk that is asked for nothing yet, and keeps what is planned for it.
    pub(super) fn new(disk: Arc<Disk>, core: Arc<Core>) -> Self {
        let planned = Arc::new(RwLock::new(Vec::<bool>::new()));
        let wanted = planned.clone();
        disk.tier().set_wanted(move |name| {
            let block = core.objects().of(name).map(|block| block as usize);
            block.is_some_and(|block| wanted.read().get(block).copied().unwrap_or(false))
        });
        let before = disk.tier().status();
        let failed = failures(&before);
        DiskTier { disk, planned, measured: None, before, failed, is_left_out: false, left_out: 0 }
    }

    /// A slot begins: measures, and looks whether it works.
    pub(super) fn look(&mut self) {
        let now = self.disk.tier().status();
        let octets = now.read_octets.saturating_sub(self.before.read_octets);
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

    /// Says which blocks are planned for it.
    pub(super) fn plan(&self, planned: impl Iterator<Item = bool>) {
        let mut known = self.planned.write();
        known.clear();
        known.extend(planned);
    }

    /// It failed of late, and is planned for by nobody.
    pub(super) fn is_left_out(&self) -> bool {
        self.is_left_out
    }

    /// Slots in which it was left out.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Octets of it that can be read in a second.
    pub(super) fn octets_per_s(&self, settings: &Settings) -> u64 {
        self.measured.unwrap_or(settings.config.disk_octets_per_s)
    }

    /// Octets of objects for which there is room.
    pub(super) fn room(&self, settings: &Settings) -> u64 {
        if self.is_left_out {
            return 0;
        }
        // The oldest eighth gives way to what is written.
        let octets = self.disk.tier().octets_max() / 8 * 7;
        let of_objects = u128::from(octets) * u128::from(settings.config.segment_octets)
            / u128::from(settings.packet_octets().max(1));
        let fits = u64::try_from(of_objects).unwrap_or(u64::MAX);
        settings.config.disk_octets_max.map_or(fits, |most| most.min(fits))
    }

    /// The same for the plane; none if no object is to be there.
    pub(super) fn tier(&self, settings: &Settings) -> Option<Tier> {
        let is_wanted = settings.config.disk_octets_max != Some(0);
        let rate = || settings.config.of_slot(self.octets_per_s(settings));
        is_wanted.then(|| Tier::new(self.room(settings), rate()))
    }
}

fn failures(status: &Status) -> u64 {
    status.read_errors + status.write_errors
}

/// A rate, octets in a second, after one more measurement.
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
    fn a_rate_is_octets_in_a_second_and_follows_what_is_measured_by_quarters() {
        assert_eq!(weighed(None, 5_000, 1_000_000), 5_000_000);
        assert_eq!(weighed(Some(5_000_000), 1_000, 1_000_000), 4_000_000);
        assert_eq!(weighed(None, u64::MAX, 0), u64::MAX);
        assert_eq!(weighed(Some(u64::MAX), u64::MAX, 1), u64::MAX);
    }
}

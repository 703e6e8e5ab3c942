//! Bodies on their way from an origin into segments. They are spooled, and share a budget of
//! octets.
//!
//! A body of a known length reserves its octets before the first is read. Other bodies reserve more
//! as they arrive. A quarter of the budget is reserved for bodies of at most [`SMALL_OCTETS_MAX`],
//! so that a few large bodies do not block all others.

use std::io::{self, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namely_host::shares::{Owner, Share, ShareLimits, SharePool};
use tempfile::SpooledTempFile;

/// Maximum size of a small body in octets. Small bodies may use the whole budget.
pub(super) const SMALL_OCTETS_MAX: u64 = 1 << 20;

/// Octets of a body that stay in memory. A longer body is written to an unnamed file in the folder
/// for temporary files.
const MEMORY_OCTETS_MAX: usize = 64 << 10;

/// The budget. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Bodies {
    all: SharePool,
    /// The part of the budget that bodies other than small ones may use.
    large: SharePool,
    body_octets_max: u64,
    /// Maximum octets under way so far.
    peak: Arc<AtomicU64>,
}

/// The budget has no room for a body now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Bodies {
    pub(super) fn new(octets_max: u64, site_percent_max: u8) -> Self {
        let pool = |total: u64| {
            let ceiling = total / 100 * u64::from(site_percent_max) + total % 100;
            (SharePool::new(ShareLimits { total, ceiling, ..ShareLimits::default() }), ceiling.min(total))
        };
        let ((all, most), (large, most_large)) = (pool(octets_max), pool(octets_max / 4 * 3));
        let body_octets_max = if most_large > SMALL_OCTETS_MAX { most_large } else { most };
        Bodies { all, large, body_octets_max, peak: Arc::default() }
    }

    /// Returns the size of the largest body that the budget can hold.
    pub(super) fn body_octets_max(&self) -> u64 {
        self.body_octets_max
    }

    /// Returns the octets under way.
    pub(super) fn used(&self) -> u64 {
        self.all.used()
    }

    /// Returns the maximum of octets that were under way at once.
    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Begins an empty body for `holder`.
    pub(super) fn begin(&self, holder: Owner) -> Result<Spool, Full> {
        let share = self.all.take(holder, 0).map_err(|_| Full)?;
        Ok(Spool {
            file: SpooledTempFile::new(MEMORY_OCTETS_MAX),
            octets: 0,
            hasher: blake3::Hasher::new(),
            bodies: self.clone(),
            share,
            large: None,
        })
    }
}

/// A body that is being received, or was.
#[derive(Debug)]
pub(super) struct Spool {
    file: SpooledTempFile,
    octets: u64,
    hasher: blake3::Hasher,
    bodies: Bodies,
    share: Share,
    large: Option<Share>,
}

impl Spool {
    /// Reserves budget for `octets` in total.
    pub(super) fn reserve(&mut self, octets: u64) -> Result<(), Full> {
        let Some(more) = octets.checked_sub(self.share.amount()).filter(|more| *more > 0) else {
            return Ok(());
        };
        if octets > SMALL_OCTETS_MAX {
            match &mut self.large {
                Some(share) => share.grow(more).map_err(|_| Full)?,
                None => {
                    let share = self.bodies.large.take(self.share.holder(), octets);
                    self.large = Some(share.map_err(|_| Full)?);
                }
            }
        }
        self.share.grow(more).map_err(|_| Full)?;
        self.bodies.peak.fetch_max(self.bodies.used(), Ordering::Relaxed);
        Ok(())
    }

    /// Appends the next octets, for which budget is reserved.
    pub(super) fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        self.hasher.update(octets);
        self.octets += octets.len() as u64;
        if self.file.is_rolled() || self.octets > MEMORY_OCTETS_MAX as u64 {
            // A write to a file may block, and must not delay other bodies.
            return tokio::task::block_in_place(|| self.file.write_all(octets));
        }
        self.file.write_all(octets)
    }

    pub(super) fn octets(&self) -> u64 {
        self.octets
    }

    /// Returns the digest of the octets so far.
    pub(super) fn digest(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    /// Returns a reader of all octets, from the start.
    pub(super) fn reader(&mut self) -> io::Result<&mut impl io::Read> {
        self.file.rewind()?;
        Ok(&mut self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: Owner = Owner::Site(0);

    #[test]
    fn bodies_share_a_byte_budget() {
        let bodies = Bodies::new(100, 100);
        let mut body = bodies.begin(SITE).unwrap();
        assert_eq!(body.reserve(99), Ok(()));
        let mut other = bodies.begin(SITE).unwrap();
        assert_eq!((other.reserve(1), other.reserve(2), bodies.used()), (Ok(()), Err(Full), 100));
        drop(body);
        assert_eq!((bodies.used(), other.reserve(100), other.reserve(101)), (1, Ok(()), Err(Full)));
        drop(other);
        assert_eq!(bodies.used(), 0);
    }

    #[test]
    fn large_bodies_leave_a_quarter_for_small_ones() {
        let bodies = Bodies::new(8 * SMALL_OCTETS_MAX, 100);
        assert_eq!(bodies.body_octets_max(), 6 * SMALL_OCTETS_MAX);
        let mut large = bodies.begin(SITE).unwrap();
        assert_eq!(large.reserve(6 * SMALL_OCTETS_MAX), Ok(()));
        assert_eq!(large.reserve(6 * SMALL_OCTETS_MAX + 1), Err(Full));
        let mut another = bodies.begin(SITE).unwrap();
        assert_eq!(another.reserve(SMALL_OCTETS_MAX + 1), Err(Full));
        assert_eq!(another.reserve(SMALL_OCTETS_MAX), Ok(()));
        assert_eq!(another.reserve(SMALL_OCTETS_MAX + 1), Err(Full), "it grew large");
        drop(large);
        assert_eq!(another.reserve(SMALL_OCTETS_MAX + 1), Ok(()));
    }

    #[test]
    fn one_site_leaves_room_for_others() {
        let bodies = Bodies::new(1000, 50);
        let mut one = bodies.begin(SITE).unwrap();
        assert_eq!((one.reserve(500), one.reserve(501)), (Ok(()), Err(Full)));
        assert_eq!(bodies.begin(Owner::Site(1)).unwrap().reserve(500), Ok(()));
    }
}

//! Bodies on their way from an origin into segments: spooled, and within a budget of octets that
//! all of them share.
//!
//! A body of a known length has its octets before the first is read; others get more as they come.
//! A quarter of the budget is for bodies of [`SMALL_OCTETS_MAX`] at most, so that a few large ones
//! do not keep everything else waiting.

use std::io::{self, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namely_host::shares::{Holder, Share, ShareLimits, SharePool};
use tempfile::SpooledTempFile;

/// Bodies that have the whole budget to draw from, octets.
pub(super) const SMALL_OCTETS_MAX: u64 = 1 << 20;

/// Octets of a body in memory; a longer one goes to a file without a name in the folder for
/// temporary files.
const MEMORY_OCTETS_MAX: usize = 64 << 10;

/// The budget. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Bodies {
    all: SharePool,
    /// Of these, those that are not small.
    large: SharePool,
    body_octets_max: u64,
    /// Most that were under way.
    peak: Arc<AtomicU64>,
}

/// There is no room for a body now.
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

    /// The largest body for which there may be room.
    pub(super) fn body_octets_max(&self) -> u64 {
        self.body_octets_max
    }

    /// Octets that are under way.
    pub(super) fn used(&self) -> u64 {
        self.all.used()
    }

    /// Most octets that were under way at once.
    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// A body for `holder` that begins empty.
    pub(super) fn begin(&self, holder: Holder) -> Result<Spool, Full> {
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

/// A body that is being taken in, or was.
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
    /// Makes sure of room for `octets` in all.
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

    /// Takes the next octets, for which there is room.
    pub(super) fn write(&mut self, octets: &[u8]) -> io::Result<()> {
        self.hasher.update(octets);
        self.octets += octets.len() as u64;
        if self.file.is_rolled() || self.octets > MEMORY_OCTETS_MAX as u64 {
            // A file may make its writer wait, and other bodies are not to wait with it.
            return tokio::task::block_in_place(|| self.file.write_all(octets));
        }
        self.file.write_all(octets)
    }

    pub(super) fn octets(&self) -> u64 {
        self.octets
    }

    /// The digest of what was taken.
    pub(super) fn digest(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    /// All that was taken, from its start.
    pub(super) fn reader(&mut self) -> io::Result<&mut impl io::Read> {
        self.file.rewind()?;
        Ok(&mut self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: Holder = Holder::Site(0);

    #[test]
    fn bodies_have_the_budget_and_not_an_octet_more_and_give_it_back() {
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
    fn large_bodies_leave_a_quarter_to_small_ones() {
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
    fn one_site_leaves_its_part_to_the_others() {
        let bodies = Bodies::new(1000, 50);
        let mut one = bodies.begin(SITE).unwrap();
        assert_eq!((one.reserve(500), one.reserve(501)), (Ok(()), Err(Full)));
        assert_eq!(bodies.begin(Holder::Site(1)).unwrap().reserve(500), Ok(()));
    }
}

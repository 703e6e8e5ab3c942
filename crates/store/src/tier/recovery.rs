//! What is there when a tier is opened.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_host::disk::{Folder, OpenError, Writers};
use rustix::fs::OFlags;

use super::above::Head;
use super::erasing::Erased;
use super::error::TierError;
use super::keeper::recorded;
use super::medium::Found;
use super::options::BLOCK_OCTETS;
use super::record::Key;
use super::sealing::Sealed;
use super::segment::{Recorded, Segment};
use super::shared::Shared;
use super::window::Window;
use crate::lock::Lock;
use crate::store::make_folder;

/// Makes the folder if there is none, and takes it for this tier.
pub(crate) fn take_folder(path: &Path, writers: Writers) -> Result<(Folder, Lock), TierError> {
    let fault = |error| TierError::new(path, error);
    let folder = make_folder(path).map_err(fault)?;
    let checked = folder.stat().map(|found| writers.check_folder(&found)).map_err(fault)?;
    checked.map_err(|foreign| TierError::Shared { path: path.to_owned(), foreign })?;
    if let Some(number) = crate::scan::file_numbers(&folder).map_err(fault)?.first() {
        // A producer's store, which nobody may throw away.
        return Err(TierError::Others(path.join(format!("packets-{number:010}.log"))));
    }
    refuse_others(&folder)?;
    let lock = folder.open_or_create("lock", OFlags::RDWR, writers);
    let lock = lock.map_err(|error| TierError::of(&path.join("lock"), error))?;
    let lock = Lock::take(lock.into_inner()).map_err(fault)?;
    Ok((folder, lock.ok_or_else(|| TierError::InUse(path.to_owned()))?))
}

/// Refuses a folder that has files, none of which is of a cache: they are somebody's, and what a
/// cache does with its folder is not for them.
fn refuse_others(folder: &Folder) -> Result<(), TierError> {
    let mut other = None;
    for name in folder.names().map_err(|error| TierError::new(folder.path(), error))? {
        let is_segment = name.to_str().is_some_and(|name| name.starts_with("segment-"));
        if is_segment || OF_A_CACHE.iter().any(|own| name == *own) {
            return Ok(());
        }
        // It lies in the root of every ext4 file system.
        if name != "lost+found" {
            other.get_or_insert(name);
        }
    }
    other.map_or(Ok(()), |name| Err(TierError::Others(folder.path().join(name))))
}

/// A cache's files beside its segments; a crash may leave one alone.
const OF_A_CACHE: [&str; 5] = ["lock", "key", "key.new", "erased", "erased.new"];

/// Octets of a folder's key.
pub(crate) const KEY_OCTETS: u64 = 32;

/// The folder's key; a new one where there is none that is whole.
pub(crate) fn key(folder: &Folder, writers: Writers) -> Result<Key, TierError> {
    let path = folder.path().join("key");
    let fault = |error| TierError::new(&path, error);
    let octets = match folder.read("key", KEY_OCTETS, writers) {
        Err(OpenError::System(error)) if error.kind() == io::ErrorKind::FileTooLarge => Vec::new(),
        read => read.map_err(|error| TierError::of(&path, error))?.unwrap_or_default(),
    };
    if let Ok(key) = <&[u8; KEY_OCTETS as usize]>::try_from(&*octets) {
        return Ok(Key::new(key));
    }
    let key: [u8; 32] = namely_host::random().map_err(|error| fault(error.into()))?;
    folder.replace("key", "key.new", &key).and_then(|()| folder.sync()).map_err(fault)?;
    Ok(Key::new(&key))
}

impl Shared {
    /// Enters what there is into the index, the newest segment first: of two records of one
    /// name the one that was written last counts.
    pub(crate) fn recover(&self) -> Result<(), TierError> {
        self.load_erased();
        for found in self.medium.found(&self.key)?.into_iter().rev() {
            self.load(found)?;
        }
        Ok(())
    }

    fn load(&self, found: Found) -> Result<(), TierError> {
        let path = self.medium.path_of(found.number);
        let fault = |error| TierError::new(&path, error);
        let slot = self.segments.read().len();
        let Some(segment) = self.medium.open(found, slot, &self.key)? else { return Ok(()) };
        let octets = self.octets.load(Ordering::Relaxed) + segment.octets;
        if octets > self.octets_max.load(Ordering::Relaxed) || slot >= self.medium.segments_max() {
            return self.medium.remove(&segment).map_err(fault);
        }
        let Sealed { octets, records, heads } =
            match self.medium.read_index(&self.key, &segment, self.base_ms) {
                Some(sealed) => sealed,
                None => self.scan(&segment).map_err(fault)?,
            };
        if records.is_empty() {
            return self.medium.remove(&segment).map_err(fault);
        }
        segment.ends_at(octets);
        heads.iter().rev().for_each(|head| self.above.insert_older(*head));
        // The last of a name first.
        for record in records.iter().rev().filter(|_| self.index.records() < self.options.records_max()) {
            self.index.insert_older(record.hash, record.place);
        }
        self.octets.fetch_add(octets, Ordering::Relaxed);
        self.segments.write().push(Some(Arc::new(segment)));
        Ok(())
    }

    /// Reads a segment that was not sealed, and seals it.
    fn scan(&self, segment: &Segment) -> io::Result<Sealed> {
        let (mut records, mut heads): (Vec<Recorded>, Vec<Head>) = (Vec::new(), Vec::new());
        let mut window = Window::new(&segment.extent, segment.octets);
        let damaged = window.records(&self.key.checks(segment.extent.salt()), |offset, whole| {
            let is_erased = |erased: &Erased| erased.covers(segment.number, whole.name);
            if !self.erased.read().iter().any(is_erased) {
                let record = recorded(self, segment.slot, (offset, whole));
                heads.extend(self.heads_of(whole.name, record.hash));
                records.push(record);
            }
        })?;
        // In a region that was used before, what lies behind is of another segment.
        if segment.extent.salt().is_none() {
            self.counters.damaged.add(damaged);
        }
        let end = records.iter().map(|record| record.place.end()).max().unwrap_or(BLOCK_OCTETS);
        let octets = end.next_multiple_of(BLOCK_OCTETS);
        // What lies behind is of no use to anybody; it may stay where it cannot be cut off.
        let shortened = segment.cut_off(octets).and_then(|()| segment.extent.sync_data());
        let index = shortened
            .and_then(|()| self.medium.write_index(&self.key, (segment, octets), (&records, &heads)));
        if let Err(error) = index {
            // Without it the segment is read again the next time.
            self.medium.forget_index(segment);
            tracing::warn!(folder = %self.medium.path().display(), %error, "a segment has no index");
        }
        // It could not be cut off: all of it counts.
        Ok(Sealed { octets: segment.end(), records, heads })
    }
}

/// The numbers of the segments in `folder`, the lowest first.
pub(crate) fn numbers(folder: &Folder) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for name in folder.names()? {
        let number = name.to_str().and_then(|name| name.strip_prefix("segment-")?.strip_suffix(".log"));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

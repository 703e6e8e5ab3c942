//! The directory: its files, appending, and the handling of a full disk or a reached limit.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namely_host::disk::{File, Folder, Lock, Writers};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::StoreError;
use crate::format::{Format, MAGIC, record_octets, write_record};
use crate::index::{self, Entry};
use crate::scan;
use crate::undo::{Mark, Undo};

/// Smallest size at which a file is full. A larger store has larger files, so that it has at most
/// [`FILES_MAX`] files.
const FILE_OCTETS_MIN: u64 = 16 << 20;

/// Files of a store, each with an open descriptor.
///
/// # Limit
/// A larger store has larger files.
/// - Tests: `a_large_store_has_few_files`
pub const FILES_MAX: u64 = 64;

/// Packets of a store.
///
/// The caller's index takes some 150 octets of memory for the name and the location of each packet.
///
/// # Limit
/// A reliable producer gets `ENOSPC`; the oldest file of an unreliable producer is removed.
/// - Counter: `evicted_disk`
/// - Tests: `a_store_is_limited_in_packets`
pub const STORE_PACKETS_MAX: usize = 1 << 20;

/// Octets at a file's end that a crash may have torn.
///
/// The store cuts them off. A longer tail has another cause than a crash.
///
/// # Limit
/// The file with a longer tail stays as it is, and a new file is begun.
/// - Counter: `dropped_damaged`
/// - Tests: `corruption_beyond_a_crash_is_never_truncated`,
///   `a_torn_tail_is_dropped`
const TORN_OCTETS_MAX: u64 = 1 << 20;

/// The position of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The number of the packet's file.
    pub file: u64,
    /// Start of the packet's record in that file.
    pub offset: u64,
    /// Octets of the packet.
    pub octets: u32,
}

/// A packet to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The TLVs of the components of the packet's name.
    pub name: &'a [u8],
    /// The packet: a valid Data of that name.
    pub packet: &'a [u8],
    /// End of the packet's freshness, in ms since the Unix epoch; 0: no end.
    pub expires_ms: u64,
}

/// Called for each packet when a store is opened, with the packet's name, its location, and its
/// expiry as in [`Record::expires_ms`].
pub type OnFound<'a> = &'a mut dyn FnMut(&[u8], Location, u64);

/// A directory of packets, open for writing by this store alone.
#[derive(Debug)]
pub struct Store {
    folder: Folder,
    octets_max: u64,
    packets_max: usize,
    file_octets_max: u64,
    files: Vec<PacketFile>,
    /// Octets of all files.
    octets: u64,
    packets: usize,
    /// Octets appended since the store was opened, without those that were cut off.
    appended: u64,
    undo: Undo,
    /// Number of failed synchronizations.
    failures: u64,
    damaged: u64,
    torn_octets: u64,
    /// Held for the lifetime of the store.
    _lock: Lock,
}

#[derive(Debug)]
struct PacketFile {
    number: u64,
    file: Arc<File>,
    format: Format,
    octets: u64,
    entries: Vec<Entry>,
    /// Whether the file accepts no more records, even if it has room.
    is_sealed: bool,
    /// Whether a synchronization failed, so that the last records may be missing on the disk.
    is_doubtful: bool,
    /// Whether remains of a failed write may lie after `octets`.
    has_remains: bool,
}

impl Store {
    /// Opens or makes the store in `folder`, of at most `octets_max` octets. Calls `found` with
    /// every packet, oldest first.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if the store is open already, in this process or another one;
    /// otherwise the system's error for its files.
    pub fn open(folder: &Path, octets_max: u64, found: OnFound<'_>) -> Result<Self, StoreError> {
        let fault = |error| StoreError::new(folder, error);
        let opened = Folder::open_or_make_durable(folder).map_err(fault)?;
        let lock = open_or_create(&opened, "lock").map_err(fault)?.into_inner();
        let lock = Lock::take(lock).map_err(fault)?.ok_or_else(|| StoreError::InUse(folder.to_owned()))?;
        // The process that made the last file may have died before it synchronized the folder.
        opened.sync().map_err(fault)?;
        let numbers = scan::file_numbers(&opened).map_err(fault)?;
        let mut store = Store {
            folder: opened,
            octets_max,
            packets_max: STORE_PACKETS_MAX,
            file_octets_max: octets_max.div_ceil(FILES_MAX).max(FILE_OCTETS_MIN),
            files: Vec::new(),
            octets: 0,
            packets: 0,
            appended: 0,
            undo: Undo::default(),
            failures: 0,
            damaged: 0,
            torn_octets: 0,
            _lock: lock,
        };
        for (i, number) in numbers.iter().enumerate() {
            let is_last = i + 1 == numbers.len();
            store.load(*number, is_last, found)?;
        }
        Ok(store)
    }

    /// Loads a file from its index, or by scanning it.
    fn load(&mut self, number: u64, is_last: bool, found: OnFound<'_>) -> Result<(), StoreError> {
        let (packets, index_name) = (packets_name(number), index_name(number));
        let path = path_of(&self.folder, number);
        let fault = |error| StoreError::new(&path, error);
        let file = self.folder.open_file(&packets, OFlags::RDWR, Writers::this_user());
        let file = file.map_err(|error| fault(error.into()))?;
        let file = file.ok_or_else(|| fault(io::ErrorKind::NotFound.into()))?;
        let octets = file.metadata().map_err(fault)?.len();
        let (format, is_interrupted) = scan::format(&file, octets).map_err(fault)?;
        let indexed =
            if is_last { None } else { index::read(&self.folder, &index_name, &file, format, octets) };
        let (entries, octets, is_sealed) = match indexed {
            Some(entries) => (entries, octets, true),
            None => {
                let scanned = scan::scan(&file, octets).map_err(fault)?;
                self.damaged += scanned.damaged;
                let torn_octets = octets - scanned.octets;
                let is_continued = is_last && torn_octets <= TORN_OCTETS_MAX;
                if is_continued && torn_octets > 0 {
                    self.torn_octets += torn_octets;
                    file.set_len(scanned.octets).map_err(fault)?;
                } else if torn_octets > 0 && !is_interrupted {
                    self.damaged += 1;
                }
                if !is_last {
                    // Ignored: a file without an index is scanned again at the next opening.
                    let _ = index::write(&self.folder, &index_name, &file, format, octets, &scanned.entries);
                }
                (scanned.entries, if is_continued { scanned.octets } else { octets }, !is_continued)
            }
        };
        // The index of the last file is removed, because it would lack the records that are
        // appended from here on.
        let has_index = is_last && self.folder.remove_if_there(&index_name).is_err();
        for entry in &entries {
            let location = Location { file: number, offset: entry.offset, octets: entry.octets };
            found(&entry.name, location, entry.expires_ms);
        }
        self.packets += entries.len();
        // Only the last file needs its entries: its index is written once it is full.
        let entries = if is_last { entries } else { Vec::new() };
        let mut loaded = PacketFile::new(number, file);
        (loaded.format, loaded.octets, loaded.entries) = (format, octets, entries);
        loaded.is_sealed = is_sealed || has_index || format == Format::One;
        if is_interrupted && is_last {
            loaded.begin().map_err(fault)?;
        } else if is_last && !loaded.is_sealed {
            // The process that wrote the magic number may have died before it synchronized the
            // file, so the number is written again.
            loaded.file.write_all_at(MAGIC, 0).map_err(fault)?;
        }
        self.octets += loaded.octets;
        self.files.push(loaded);
        Ok(())
    }

    /// Begins a publication, whose records can be undone. Returns the publication's number for
    /// [`Store::commit`] or [`Store::undo`].
    pub fn begin(&mut self) -> u64 {
        let (file, octets) = self.files.last().map_or((0, 0), |last| (last.number, last.octets));
        self.undo.begin(Mark { file, octets, appended: self.appended }, self.failures)
    }

    /// Commits the publication `number`: synchronizes its records. They stay from then on.
    ///
    /// # Errors
    /// The system's error: the disk is full, or it has failed since the publication began. After an
    /// error the caller must undo the publication.
    pub fn commit(&mut self, number: u64) -> Result<(), StoreError> {
        self.sync()?;
        if self.undo.failures_before(number).is_some_and(|failures| failures < self.failures) {
            // The system reports a failure only once, to the first publication that synchronizes.
            return Err(StoreError::new(
                self.folder.path(),
                io::Error::from_raw_os_error(Errno::IO.raw_os_error()),
            ));
        }
        self.undo.commit(number);
        Ok(())
    }

    /// Appends `packets`, each with its name, and returns their locations.
    ///
    /// # Errors
    /// [`StoreError::Full`] at the store's limit, [`StoreError::NoSpace`] and [`StoreError::Io`]
    /// from the system. After an error none of the packets is stored.
    pub fn append(&mut self, packets: &[Record<'_>]) -> Result<Vec<Location>, StoreError> {
        let octets: u64 = packets.iter().map(|record| record_octets(record.packet)).sum();
        let is_full = |last: &PacketFile| last.is_sealed || last.octets >= self.file_octets_max;
        let new_file = self.files.last().is_none_or(is_full);
        let header = if new_file { MAGIC.len() as u64 } else { 0 };
        if self.octets + header + octets > self.octets_max || self.packets + packets.len() > self.packets_max
        {
            return Err(StoreError::Full { octets_max: self.octets_max });
        }
        if new_file {
            self.begin_file()?;
        }
        let mut records = Vec::with_capacity(octets as usize);
        let Some(last) = self.files.last_mut() else { return Ok(Vec::new()) };
        last.cut_off_remains()
            .map_err(|error| StoreError::new(&path_of(&self.folder, last.number), error))?;
        let mut places = Vec::with_capacity(packets.len());
        for record in packets {
            let offset = last.octets + records.len() as u64;
            places.push(Location { file: last.number, offset, octets: record.packet.len() as u32 });
            write_record(record, &mut records);
        }
        if let Err(error) = last.file.write_all_at(&records, last.octets) {
            // Cut off the remains, so that no record follows half a record.
            last.has_remains = true;
            let cut = last.cut_off_remains();
            tracing::warn!(folder = %self.folder.path().display(), %error, ?cut, "packets could not be stored");
            return Err(StoreError::new(&path_of(&self.folder, last.number), error));
        }
        for (Record { name, expires_ms, .. }, place) in packets.iter().zip(&places) {
            let (name, expires_ms) = ((*name).into(), *expires_ms);
            last.entries.push(Entry { offset: place.offset, octets: place.octets, expires_ms, name });
        }
        last.octets += octets;
        self.octets += octets;
        self.appended += octets;
        self.packets += packets.len();
        Ok(places)
    }

    /// Synchronizes the appended records.
    fn sync(&mut self) -> Result<(), StoreError> {
        // A doubtful file has reported its failure already; `commit` compares the number of
        // failures.
        let Some(last) = self.files.last_mut().filter(|last| !last.is_doubtful) else { return Ok(()) };
        last.file.sync_data().map_err(|error| {
            // Later synchronizations of the file would succeed without reporting the lost records.
            (last.is_doubtful, last.is_sealed) = (true, true);
            self.failures += 1;
            StoreError::new(&path_of(&self.folder, last.number), error)
        })
    }

    /// Undoes the publication `number`, which appended `packets` packets in `octets` octets of
    /// records ([`record_octets`]). The records are cut off as soon as only undone records lie
    /// after the publication's start: immediately, or when the other publications that appended
    /// meanwhile are undone, too. If another publication commits records after that start, the
    /// undone records stay as dead octets.
    pub fn undo(&mut self, number: u64, packets: usize, octets: u64) {
        self.undo.fail(number, packets, octets);
        let files = &self.files;
        let is_there = |file| file == 0 || files.iter().any(|known| known.number == file);
        if let Some((mark, packets)) = self.undo.cut(self.appended, is_there) {
            self.cut_back(mark);
            // Some of these packets may have been dropped with the oldest file.
            self.packets = self.packets.saturating_sub(packets);
        }
    }

    /// Cuts off everything after `mark`. Octets that cannot be cut off stay as dead octets.
    fn cut_back(&mut self, mark: Mark) {
        if let Err(error) = self.try_cut_back(mark) {
            tracing::warn!(folder = %self.folder.path().display(), %error, "packets of a publication that failed stay");
            if let Some(last) = self.files.last_mut() {
                last.is_sealed = true;
            }
        }
        self.appended = mark.appended;
    }

    fn try_cut_back(&mut self, mark: Mark) -> io::Result<()> {
        let mut is_changed = false;
        while let Some(gone) = self.files.last().filter(|last| last.number != mark.file) {
            remove_files(&self.folder, gone.number)?;
            self.octets -= gone.octets;
            self.files.pop();
            is_changed = true;
        }
        let Some(last) = self.files.last_mut() else { return self.folder.sync() };
        // A file that was full has its entries in its index only, so they are scanned again below.
        // The index is removed durably first: an index that reappeared after a power cut would not
        // match the records that are appended from here on.
        let was_full = self.folder.remove_if_there(index_name(last.number))?;
        if is_changed || was_full {
            self.folder.sync()?;
        }
        last.file.set_len(mark.octets)?;
        self.octets -= last.octets - mark.octets;
        (last.octets, last.has_remains) = (mark.octets, false);
        last.entries.retain(|entry| entry.offset < mark.octets);
        if is_changed || was_full {
            last.entries = scan::scan(&last.file, last.octets)?.entries;
        }
        Ok(())
    }

    /// Deletes the oldest file to make room, and returns its number. The file that is being written
    /// stays. The caller must report the number of packets in the deleted file by
    /// [`Store::forget_packets`].
    pub fn drop_oldest(&mut self) -> Option<u64> {
        if self.files.len() < 2 {
            return None;
        }
        let oldest = self.files.remove(0);
        self.octets -= oldest.octets;
        // Only logged: the store continues without the file, and finds it again at the next
        // opening.
        if let Err(error) = remove_files(&self.folder, oldest.number) {
            let (folder, number) = (self.folder.path().display(), oldest.number);
            tracing::warn!(%folder, number, %error, "a file of packets could not be deleted");
        }
        Some(oldest.number)
    }

    /// Subtracts `packets` packets of a deleted file from the number of packets.
    pub fn forget_packets(&mut self, packets: usize) {
        self.packets = self.packets.saturating_sub(packets);
    }

    /// Returns the limit of all files in octets.
    pub fn octets_max(&self) -> u64 {
        self.octets_max
    }

    /// Returns a reader of the packet at `location`. Any thread may use it, without the store.
    /// Returns `None` if the packet's file was deleted.
    pub fn reader(&self, location: Location) -> Option<StoredPacket> {
        let file = self.files.iter().find(|file| file.number == location.file)?;
        Some(StoredPacket { file: file.file.clone(), format: file.format, location })
    }

    /// Octets of all files.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Returns the number of damaged records and of octets cut off when the store was opened.
    pub fn losses(&self) -> (u64, u64) {
        (self.damaged, self.torn_octets)
    }

    /// Begins a new file, and writes the index of the previous one, which is full.
    fn begin_file(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        let number = self.files.last().map_or(1, |last| last.number + 1);
        let name = packets_name(number);
        let path = path_of(&self.folder, number);
        let fault = |error| StoreError::new(&path, error);
        // An index of this number may be left from a file that was cut off.
        self.folder.remove_if_there(index_name(number)).map_err(fault)?;
        let mut begun = PacketFile::new(number, open_or_create(&self.folder, &name).map_err(fault)?);
        if let Err(error) = begun.begin().and_then(|()| self.folder.sync()) {
            let _ = remove_files(&self.folder, number);
            return Err(fault(error));
        }
        if let Some(full) = self.files.last_mut().filter(|last| !last.is_doubtful) {
            let entries = std::mem::take(&mut full.entries);
            // Ignored: a file without an index is scanned again at the next opening.
            let name = index_name(full.number);
            let _ = index::write(&self.folder, &name, &full.file, full.format, full.octets, &entries);
        }
        self.octets += begun.octets;
        self.files.push(begun);
        Ok(())
    }
}

impl PacketFile {
    fn new(number: u64, file: File) -> Self {
        PacketFile {
            number,
            file: Arc::new(file),
            format: Format::Two,
            octets: 0,
            entries: Vec::new(),
            is_sealed: false,
            is_doubtful: false,
            has_remains: false,
        }
    }

    /// Makes this a file without packets. The magic number is synchronized, because all packets of
    /// a file are lost without it.
    fn begin(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(MAGIC, 0)?;
        self.file.sync_data()?;
        self.octets = MAGIC.len() as u64;
        Ok(())
    }

    /// Cuts off the remains of a failed write.
    fn cut_off_remains(&mut self) -> io::Result<()> {
        if self.has_remains {
            self.file.set_len(self.octets)?;
            self.has_remains = false;
        }
        Ok(())
    }
}

/// A packet on disk, which any thread may read.
#[derive(Clone, Debug)]
pub struct StoredPacket {
    file: Arc<File>,
    format: Format,
    location: Location,
}

impl StoredPacket {
    /// Reads the packet; `None` if it is damaged.
    ///
    /// # Errors
    /// The system's error for the disk.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let header_octets = self.format.header_octets();
        let mut record = vec![0; header_octets + self.location.octets as usize];
        match self.file.read_exact_at(&mut record, self.location.offset) {
            Ok(()) => {}
            // The record was cut off meanwhile, which is no fault of the disk.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        if scan::record(&record, self.format).is_none() {
            return Ok(None);
        }
        record.drain(..header_octets);
        Ok(Some(record))
    }
}

fn open_or_create(folder: &Folder, name: &str) -> io::Result<File> {
    Ok(folder.open_or_create(name, OFlags::RDWR, Writers::this_user())?)
}

/// The path to report when a file cannot be written.
fn path_of(folder: &Folder, number: u64) -> PathBuf {
    folder.path().join(packets_name(number))
}

fn packets_name(number: u64) -> String {
    format!("packets-{number:010}.log")
}

#[cfg(test)]
fn packets_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(packets_name(number))
}

#[cfg(test)]
fn index_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(index_name(number))
}

fn index_name(number: u64) -> String {
    format!("packets-{number:010}.index")
}

/// Removes a file of packets. Its index is removed first: a remaining index would be taken for that
/// of the next file of this number.
fn remove_files(folder: &Folder, number: u64) -> io::Result<()> {
    folder.remove_if_there(index_name(number))?;
    folder.remove_if_there(packets_name(number)).map(drop)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
#[path = "faulty_disk.rs"]
mod faulty_disk;

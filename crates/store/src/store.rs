//! The directory: which files there are, where the next record goes, and what happens when the disk
//! or the limit is reached.

use std::io::{
    self,
    ErrorKind::{InvalidInput, PermissionDenied},
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namely_host::disk::{File, Folder, Writers};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::StoreError;
use crate::format::{Format, MAGIC, record_octets, write_record};
use crate::index::{self, Entry};
use crate::lock::Lock;
use crate::scan;
use crate::undo::{Mark, Undo};

/// Smallest size at which a file is full; larger stores have larger files, so that there are at
/// most [`FILES_MAX`].
const FILE_OCTETS_MIN: u64 = 16 << 20;

/// Maximum number of files of a store, each with an open descriptor.
pub const FILES_MAX: u64 = 64;

/// Maximum number of packets of a store: each takes some 150 octets of its user's memory for its
/// name and place.
pub const STORE_PACKETS_MAX: usize = 1 << 20;

/// Octets at the end of a file that a crash may leave half-written, and that are cut off then. More
/// than that is damage of another kind: it stays as it is, and a new file is begun.
const TORN_OCTETS_MAX: u64 = 1 << 20;

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The number of its file.
    pub file: u64,
    /// Where its record begins.
    pub offset: u64,
    /// Octets of the packet.
    pub octets: u32,
}

/// A packet to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The TLVs of its name's components.
    pub name: &'a [u8],
    /// The packet: a valid Data of that name.
    pub packet: &'a [u8],
    /// From when on it is no longer fresh, ms since the Unix epoch; 0: never.
    pub expires_ms: u64,
}

/// Gets what is found when a store is opened: a name, the place, and when it expires, as
/// [`Record::expires_ms`] has it.
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
    /// How often the disk failed to take what was appended.
    failures: u64,
    damaged: u64,
    torn_octets: u64,
    /// Held, not used.
    _lock: Lock,
}

#[derive(Debug)]
struct PacketFile {
    number: u64,
    file: Arc<File>,
    format: Format,
    octets: u64,
    entries: Vec<Entry>,
    /// Nothing is to be appended, however much room there is.
    is_sealed: bool,
    /// The disk failed to take what was appended last, and nobody knows what of it is there.
    is_doubtful: bool,
    /// Behind its octets there may be some of what could not be written.
    has_rest: bool,
}

impl Store {
    /// Opens or makes the store in `folder`, of at most `octets_max` octets; `found` gets every
    /// packet, the oldest first.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if it is open already, in this process or another one; otherwise what
    /// the system says of its files.
    pub fn open(folder: &Path, octets_max: u64, found: OnFound<'_>) -> Result<Self, StoreError> {
        let fault = |error| StoreError::new(folder, error);
        let opened = make_folder(folder).map_err(fault)?;
        let lock = open_or_create(&opened, "lock").map_err(fault)?.into_inner();
        let lock = Lock::take(lock).map_err(fault)?.ok_or_else(|| StoreError::InUse(folder.to_owned()))?;
        // Whoever made the last file may have been ended before this.
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

    /// Adopts a file: from its index, or from itself.
    fn load(&mut self, number: u64, is_last: bool, found: OnFound<'_>) -> Result<(), StoreError> {
        let (packets, index_name) = (packets_name(number), index_name(number));
        let path = path_of(&self.folder, number);
        let fault = |error| StoreError::new(&path, error);
        let file = self.folder.open_file(&packets, OFlags::RDWR, Writers::this_user());
        let file = file.map_err(|error| fault(error.into()))?;
        let file = file.ok_or_else(|| fault(io::ErrorKind::NotFound.into()))?;
        let octets = file.metadata().map_err(fault)?.len();
        let (format, is_begun) = scan::format(&file, octets).map_err(fault)?;
        let indexed =
            if is_last { None } else { index::read((&self.folder, &index_name), (&file, format, octets)) };
        let (entries, octets, is_sealed) = match indexed {
            Some(entries) => (entries, octets, true),
            None => {
                let scanned = scan::scan(&file, octets).map_err(fault)?;
                self.damaged += scanned.damaged;
                let torn_octets = octets - scanned.octets;
                let is_torn = is_last && torn_octets <= TORN_OCTETS_MAX;
                if is_torn && torn_octets > 0 {
                    self.torn_octets += torn_octets;
                    file.set_len(scanned.octets).map_err(fault)?;
                } else if torn_octets > 0 && !is_begun {
                    self.damaged += 1;
                }
                if !is_last {
                    // Without it the file is read again the next time.
                    let _ =
                        index::write((&self.folder, &index_name), (&file, format, octets), &scanned.entries);
                }
                (scanned.entries, if is_torn { scanned.octets } else { octets }, !is_torn)
            }
        };
        // What is appended from here on is in no index that is there already.
        let has_index = is_last && self.folder.remove_if_there(&index_name).is_err();
        for entry in &entries {
            let location = Location { file: number, offset: entry.offset, octets: entry.octets };
            found(&entry.name, location, entry.expires_ms);
        }
        self.packets += entries.len();
        // Only the file that is being written needs to know its entries, for its index.
        let entries = if is_last { entries } else { Vec::new() };
        let mut loaded = PacketFile::new(number, file);
        (loaded.format, loaded.octets, loaded.entries) = (format, octets, entries);
        loaded.is_sealed = is_sealed || has_index || format == Format::One;
        if is_begun && is_last {
            loaded.begin().map_err(fault)?;
        } else if is_last && !loaded.is_sealed {
            // It can be read, but whoever wrote it may have ended without putting it on the disk.
            loaded.file.write_all_at(MAGIC, 0).map_err(fault)?;
        }
        self.octets += loaded.octets;
        self.files.push(loaded);
        Ok(())
    }

    /// Begins a publication: what it appends from here on can be undone. Returns the number by
    /// which it is [`Store::commit`]ted or [`Store::undo`]ne.
    pub fn begin(&mut self) -> u64 {
        let (file, octets) = self.files.last().map_or((0, 0), |last| (last.number, last.octets));
        self.undo.begin(Mark { file, octets, appended: self.appended }, self.failures)
    }

    /// Ends the publication `number`: what it appended is on the disk, and stays.
    ///
    /// # Errors
    /// What the system says: the disk is full, or failed, now or since the publication began. It is
    /// still to be undone then.
    pub fn commit(&mut self, number: u64) -> Result<(), StoreError> {
        self.sync()?;
        if self.undo.failures_before(number).is_some_and(|failures| failures < self.failures) {
            // The system tells of a failure once, to whichever publication comes first.
            return Err(StoreError::new(
                self.folder.path(),
                io::Error::from_raw_os_error(Errno::IO.raw_os_error()),
            ));
        }
        self.undo.commit(number);
        Ok(())
    }

    /// Appends `packets`, each with its name, and returns where each is.
    ///
    /// # Errors
    /// [`StoreError::Full`] at the store's limit, [`StoreError::NoSpace`] and [`StoreError::Io`]
    /// from the system. None of them is there then.
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
        last.cut_off_rest().map_err(|error| StoreError::new(&path_of(&self.folder, last.number), error))?;
        let mut places = Vec::with_capacity(packets.len());
        for record in packets {
            let offset = last.octets + records.len() as u64;
            places.push(Location { file: last.number, offset, octets: record.packet.len() as u32 });
            write_record(record, &mut records);
        }
        if let Err(error) = last.file.write_all_at(&records, last.octets) {
            // What was written of it is cut off, so that nothing comes to lie behind half a record.
            last.has_rest = true;
            let cut = last.cut_off_rest();
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

    /// Puts what was appended on the disk.
    fn sync(&mut self) -> Result<(), StoreError> {
        let Some(last) = self.files.last_mut().filter(|last| !last.is_doubtful) else { return Ok(()) };
        last.file.sync_data().map_err(|error| {
            // Later calls would succeed, and say nothing of what is lost.
            (last.is_doubtful, last.is_sealed) = (true, true);
            self.failures += 1;
            StoreError::new(&path_of(&self.folder, last.number), error)
        })
    }

    /// Undoes the publication `number`, which appended `packets` packets in `octets` octets of
    /// records ([`record_octets`]), as soon as nothing else lies behind where it began: at once, or
    /// when the others that appended meanwhile are undone too. Behind what another one keeps it
    /// stays as dead octets.
    pub fn undo(&mut self, number: u64, packets: usize, octets: u64) {
        self.undo.fail(number, packets, octets);
        let files = &self.files;
        let is_there = |file| file == 0 || files.iter().any(|known| known.number == file);
        if let Some((mark, packets)) = self.undo.cut(self.appended, is_there) {
            self.cut_back(mark);
            // Some of them may have gone with the oldest file.
            self.packets = self.packets.saturating_sub(packets);
        }
    }

    /// Cuts off everything behind `mark`. What cannot be cut off stays as dead octets.
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
        // One that had been full already gave its entries to its index, and gets them back. An
        // index that came back after a power cut would not be of what is appended from here on.
        let was_full = self.folder.remove_if_there(index_name(last.number))?;
        if is_changed || was_full {
            self.folder.sync()?;
        }
        last.file.set_len(mark.octets)?;
        self.octets -= last.octets - mark.octets;
        (last.octets, last.has_rest) = (mark.octets, false);
        last.entries.retain(|entry| entry.offset < mark.octets);
        if is_changed || was_full {
            last.entries = scan::scan(&last.file, last.octets)?.entries;
        }
        Ok(())
    }

    /// Deletes the oldest file, to make room, and returns its number. The file that is being
    /// written stays. Whoever knows the names that lay in it says how many there were, by
    /// [`Store::forget_packets`].
    pub fn drop_oldest(&mut self) -> Option<u64> {
        if self.files.len() < 2 {
            return None;
        }
        let oldest = self.files.remove(0);
        self.octets -= oldest.octets;
        if let Err(error) = remove_files(&self.folder, oldest.number) {
            let (folder, number) = (self.folder.path().display(), oldest.number);
            tracing::warn!(%folder, number, %error, "a file of packets could not be deleted");
        }
        Some(oldest.number)
    }

    /// Takes `packets` packets that went with a file off the number of packets.
    pub fn forget_packets(&mut self, packets: usize) {
        self.packets = self.packets.saturating_sub(packets);
    }

    /// The limit of all files, octets.
    pub fn octets_max(&self) -> u64 {
        self.octets_max
    }

    /// What reads the packet at `location`, on any thread and without the store; `None` if its file
    /// is gone.
    pub fn reader(&self, location: Location) -> Option<StoredPacket> {
        let file = self.files.iter().find(|file| file.number == location.file)?;
        Some(StoredPacket { file: file.file.clone(), format: file.format, location })
    }

    /// Octets of all files.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Packets found damaged, and octets cut off, when the store was opened.
    pub fn losses(&self) -> (u64, u64) {
        (self.damaged, self.torn_octets)
    }

    /// Begins a new file; the one before is full and gets its index.
    fn begin_file(&mut self) -> Result<(), StoreError> {
        self.sync()?;
        let number = self.files.last().map_or(1, |last| last.number + 1);
        let name = packets_name(number);
        let path = path_of(&self.folder, number);
        let fault = |error| StoreError::new(&path, error);
        // Of a file of this number that was cut off.
        self.folder.remove_if_there(index_name(number)).map_err(fault)?;
        let mut begun = PacketFile::new(number, open_or_create(&self.folder, &name).map_err(fault)?);
        if let Err(error) = begun.begin().and_then(|()| self.folder.sync()) {
            let _ = remove_files(&self.folder, number);
            return Err(fault(error));
        }
        if let Some(full) = self.files.last_mut().filter(|last| !last.is_doubtful) {
            let entries = std::mem::take(&mut full.entries);
            // Without it the file is read again the next time.
            let _ = index::write((&self.folder, &index_name(full.number)), full.described(), &entries);
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
            has_rest: false,
        }
    }

    /// Makes it a file without packets. It begins as it should on the disk too: packets behind a
    /// beginning that is lost would be lost with it.
    fn begin(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(MAGIC, 0)?;
        self.file.sync_data()?;
        self.octets = MAGIC.len() as u64;
        Ok(())
    }

    /// What its index is of.
    fn described(&self) -> (&File, Format, u64) {
        (&self.file, self.format, self.octets)
    }

    /// Cuts off what a write that failed left behind.
    fn cut_off_rest(&mut self) -> io::Result<()> {
        if self.has_rest {
            self.file.set_len(self.octets)?;
            self.has_rest = false;
        }
        Ok(())
    }
}

/// A packet on disk, to be read by any thread.
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
    /// What the system says of the disk.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let header_octets = self.format.header_octets();
        let mut record = vec![0; header_octets + self.location.octets as usize];
        match self.file.read_exact_at(&mut record, self.location.offset) {
            Ok(()) => {}
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

/// Makes the folder if there is none, and those above it, and ensures that it is where it is after
/// a power cut: also one that was made by somebody who was ended before this.
pub(crate) fn make_folder(folder: &Path) -> io::Result<Folder> {
    let opened = Folder::open_or_make(folder, 0o700)?;
    for above in folder.ancestors().skip(1) {
        match Folder::open(above).map_err(io::Error::from).and_then(|above| above.sync()) {
            // What this user may not read others made, and some file systems know nothing of it.
            Err(error) if matches!(error.kind(), PermissionDenied | InvalidInput) => {}
            synced => synced?,
        }
    }
    Ok(opened)
}

/// What to name when a file cannot be written.
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

/// Removes a file of packets, and its index before it: one without its file would be taken for that
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

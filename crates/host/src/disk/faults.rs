//! A simulated disk that fails on command and loses unsynchronized changes at a power cut. For
//! tests only.
//!
//! [`Disk::run`] counts the operations of a run on this thread below a folder, and fails the chosen
//! ones. [`Disk::power_cut`] then changes the folder to a possible state after a power cut. Each
//! unsynchronized write, truncation, new name and removal may be there or not, regardless of those
//! before and after it, and a write may be there in part.
//!
//! A failed synchronization of a file leaves its changes in doubt for good, as on Linux: the next
//! synchronization succeeds without reporting them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{FolderEntry, Operation};

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
    /// Number of power cuts: a machine that starts again has another boot.
    static BOOTS: Cell<u64> = const { Cell::new(0) };
}

/// The fault of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails and does nothing.
    Fails(Errno),
    /// It fails. A part of a write is done.
    Torn(Errno),
    /// It fails, and a part of a write is done. Every later operation fails too, as after the loss
    /// of the disk or of the power.
    Last,
}

/// The unsynchronized changes that survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashSurvival {
    /// Nothing.
    Nothing,
    /// All of it.
    All,
    /// Some of it, by this seed.
    Some(u64),
}

/// A folder, with the part of it that is on the disk.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    /// Holds removed files, which a power cut may bring back.
    removed: PathBuf,
    faults: Vec<(u64, Fault)>,
    is_gone: bool,
    log: Vec<String>,
    random: Random,
    files: BTreeMap<u64, Content>,
    names: BTreeMap<PathBuf, Node>,
    /// Changes of names that may not be on the disk. A failed synchronization of them may be tried
    /// again, because a file system that cannot write its names accepts no further changes.
    renamed: Vec<RenameEffect>,
}

/// The target of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Folder,
    /// The file of this inode.
    File(u64),
}

#[derive(Clone, Debug)]
enum RenameEffect {
    New(PathBuf, Node),
    Moved(u64, PathBuf),
    Gone(PathBuf),
}

/// A file: its content on the disk, and its uncertain changes. The flag of a change is true if a
/// synchronization of it failed.
#[derive(Debug, Default)]
struct Content {
    octets: Vec<u8>,
    changes: Vec<(Change, bool)>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

impl Disk {
    /// Simulates the disk of `folder`, whose content counts as synchronized. `removed` is an empty
    /// folder of the same file system, outside of `folder`.
    pub fn new(folder: &Path, removed: &Path, faults: &[(u64, Fault)]) -> Self {
        let mut disk = Disk {
            folder: folder.to_owned(),
            removed: removed.to_owned(),
            faults: faults.to_vec(),
            is_gone: false,
            log: Vec::new(),
            random: Random(faults.first().map_or(1, |(number, _)| *number) + 1),
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            renamed: Vec::new(),
        };
        for (path, node) in tree(folder) {
            if let Node::File(inode) = node {
                let octets = fs::read(&path).expect("it was just listed");
                disk.files.insert(inode, Content { octets, changes: Vec::new() });
            }
            disk.names.insert(path, node);
        }
        disk
    }

    /// Runs `work` on this disk. Returns its result and the disk.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> (T, Self) {
        DISK.set(Some(self));
        let done = work();
        (done, DISK.take().expect("put there above"))
    }

    /// The operations so far, as text.
    pub fn operations(&self) -> &[String] {
        &self.log
    }

    /// Cuts the power: changes the folder to a possible state afterwards.
    pub fn power_cut(mut self, survives: CrashSurvival) {
        BOOTS.set(BOOTS.get() + 1);
        self.random = Random(if let CrashSurvival::Some(seed) = survives { seed + 1 } else { 1 });
        let mut names = std::mem::take(&mut self.names);
        for change in std::mem::take(&mut self.renamed) {
            if self.survives(survives) {
                apply_name(&mut names, change);
            }
        }
        let mut files = std::mem::take(&mut self.files);
        let contents: BTreeMap<u64, Vec<u8>> = files
            .iter_mut()
            .map(|(inode, file)| {
                for (change, _) in std::mem::take(&mut file.changes) {
                    let torn = survives != CrashSurvival::All && self.random.one_in(3);
                    if self.survives(survives) {
                        self.apply(&mut file.octets, change, torn);
                    }
                }
                (*inode, std::mem::take(&mut file.octets))
            })
            .collect();
        self.write(&names, &contents);
    }

    fn survives(&mut self, survives: CrashSurvival) -> bool {
        match survives {
            CrashSurvival::Nothing => false,
            CrashSurvival::All => true,
            CrashSurvival::Some(_) => self.random.one_in(2),
        }
    }

    /// Sets the names and contents of the folder. Each file keeps its inode.
    fn write(&self, names: &BTreeMap<PathBuf, Node>, contents: &BTreeMap<u64, Vec<u8>>) {
        let now = tree(&self.folder);
        for (path, node) in now.iter().rev() {
            match node {
                Node::File(inode) => fs::rename(path, self.removed_path(*inode)).expect("it is there"),
                Node::Folder => fs::remove_dir(path).expect("it is empty now"),
            }
        }
        // A folder precedes its contents. The contents of a removed folder are removed too.
        for (path, node) in names.iter().filter(|(path, _)| path.parent().is_some_and(Path::is_dir)) {
            match node {
                Node::Folder => fs::create_dir(path).expect("nothing is there"),
                Node::File(inode) => {
                    fs::rename(self.removed_path(*inode), path).expect("every file that was is there");
                    fs::write(path, &contents[inode]).expect("it can be written");
                }
            }
        }
    }

    fn removed_path(&self, inode: u64) -> PathBuf {
        self.removed.join(inode.to_string())
    }

    /// Returns the fault of the next operation; `None` if it succeeds.
    fn next_fault(&mut self, operation: &Operation<'_>) -> Option<Fault> {
        let number = self.log.len() as u64;
        self.log.push(match operation {
            Operation::Write(_, octets, offset) => format!("write {} octets at {offset}", octets.len()),
            other => format!("{other:?}"),
        });
        if self.is_gone {
            return Some(Fault::Fails(Errno::IO));
        }
        let fault = self.faults.iter().find(|(at, _)| *at == number).map(|(_, fault)| *fault);
        self.is_gone = fault == Some(Fault::Last);
        fault
    }

    /// Records the changes of an operation.
    fn note(&mut self, operation: &Operation<'_>, moved: Option<u64>) {
        match *operation {
            Operation::Read => {}
            Operation::Create(at) => {
                let inode = inode(&at.path()).expect("it was just made");
                self.files.insert(inode, Content::default());
                self.renamed.push(RenameEffect::New(at.path(), Node::File(inode)));
            }
            Operation::MakeFolder(at) => self.renamed.push(RenameEffect::New(at.path(), Node::Folder)),
            Operation::Write(file, octets, offset) => {
                self.change(file, Change::Write(offset, octets.to_vec()));
            }
            Operation::SetLen(file, octets) => self.change(file, Change::SetLen(octets)),
            Operation::Sync(file) => self.sync(file),
            Operation::SyncFolder(path) => self.sync_names(path),
            Operation::Rename(_, to) => {
                let inode = moved.expect("it was there");
                self.renamed.push(RenameEffect::Moved(inode, to.path()));
            }
            Operation::Remove(at) => self.renamed.push(RenameEffect::Gone(at.path())),
        }
    }

    fn change(&mut self, file: &fs::File, change: Change) {
        let inode = file.metadata().expect("it is open").ino();
        if let Some(file) = self.files.get_mut(&inode) {
            file.changes.push((change, false));
        }
    }

    fn sync(&mut self, file: &fs::File) {
        let inode = file.metadata().expect("it is open").ino();
        let Some(mut content) = self.files.remove(&inode) else { return };
        for (change, is_doubtful) in std::mem::take(&mut content.changes) {
            if !is_doubtful || self.random.one_in(2) {
                self.apply(&mut content.octets, change, false);
            }
        }
        self.files.insert(inode, content);
    }

    fn sync_names(&mut self, folder: &Path) {
        for change in std::mem::take(&mut self.renamed) {
            if change.folder() == Some(folder) {
                apply_name(&mut self.names, change);
            } else {
                self.renamed.push(change);
            }
        }
    }

    /// Records the effects of a failure: a part of a write, or doubt after a failed
    /// synchronization.
    fn note_failure(&mut self, operation: &Operation<'_>, fault: Fault) {
        match *operation {
            Operation::Write(file, octets, offset) if !matches!(fault, Fault::Fails(_)) => {
                let some = &octets[..self.random.below(octets.len() as u64 + 1) as usize];
                file.write_all_at(some, offset).expect("the disk of the test has room");
                self.change(file, Change::Write(offset, some.to_vec()));
            }
            Operation::Sync(file) => {
                let inode = file.metadata().expect("it is open").ino();
                if let Some(file) = self.files.get_mut(&inode) {
                    file.changes.iter_mut().for_each(|(_, is_doubtful)| *is_doubtful = true);
                }
            }
            _ => {}
        }
    }

    /// Applies `change` to `octets`. Each part of 512 octets of a torn write is either written
    /// whole or cut off at some octet.
    fn apply(&mut self, octets: &mut Vec<u8>, change: Change, torn: bool) {
        match change {
            Change::SetLen(length) => octets.resize(length as usize, 0),
            Change::Write(offset, written) => {
                let offset = offset as usize;
                let mut at = offset;
                for part in written.chunks(512) {
                    let length = match torn {
                        true if self.random.one_in(2) => self.random.below(part.len() as u64) as usize,
                        _ => part.len(),
                    };
                    if octets.len() < at + length {
                        octets.resize(at + length, 0);
                    }
                    octets[at..at + length].copy_from_slice(&part[..length]);
                    at += part.len();
                }
            }
        }
    }
}

impl FolderEntry<'_> {
    fn path(&self) -> PathBuf {
        self.folder.join(self.name)
    }
}

impl RenameEffect {
    fn folder(&self) -> Option<&Path> {
        match self {
            RenameEffect::New(path, _) | RenameEffect::Gone(path) | RenameEffect::Moved(_, path) => {
                path.parent()
            }
        }
    }
}

fn apply_name(names: &mut BTreeMap<PathBuf, Node>, change: RenameEffect) {
    match change {
        RenameEffect::New(path, node) => drop(names.insert(path, node)),
        RenameEffect::Gone(path) => drop(names.remove(&path)),
        RenameEffect::Moved(inode, to) => {
            names.retain(|_, node| *node != Node::File(inode));
            names.insert(to, Node::File(inode));
        }
    }
}

/// Runs an operation, unless it is to fail.
pub(super) fn run<T>(operation: &Operation<'_>, real: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if DISK.with_borrow(Option::is_none) {
        return real();
    }
    DISK.with_borrow_mut(|disk| disk.as_mut().expect("there is one").operate(operation, real))
}

impl Disk {
    fn operate<T>(
        &mut self,
        operation: &Operation<'_>,
        real: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if let Some(fault) = self.next_fault(operation) {
            self.note_failure(operation, fault);
            return Err(match fault {
                Fault::Fails(errno) | Fault::Torn(errno) => errno.into(),
                Fault::Last => Errno::IO.into(),
            });
        }
        let (gone, moved) = match operation {
            Operation::Rename(from, to) => {
                (inode(&to.path()).map(|inode| (to.path(), inode)), inode(&from.path()))
            }
            Operation::Remove(at) => (inode(&at.path()).map(|inode| (at.path(), inode)), None),
            _ => (None, None),
        };
        // A second name retains the file in case its removal is lost.
        let kept = gone.map(|(path, inode)| (path, self.removed_path(inode)));
        if let Some((path, kept)) = &kept {
            fs::hard_link(path, kept)?;
        }
        let done = real();
        match (&done, kept) {
            (Ok(_), _) => self.note(operation, moved),
            (Err(_), Some((_, kept))) => fs::remove_file(kept)?,
            (Err(_), None) => {}
        }
        done
    }
}

/// Returns false while a disk is simulated, because no real synchronization is needed then.
pub(super) fn is_real() -> bool {
    // The caller runs inside `run`, which has the disk borrowed if there is one.
    DISK.with(|disk| disk.try_borrow().is_ok_and(|disk| disk.is_none()))
}

/// Returns the id of the simulated machine's boot; `None` if its power was never cut.
pub(super) fn boot_id() -> Option<String> {
    let boots = BOOTS.get();
    (boots > 0).then(|| format!("boot {boots}"))
}

fn inode(path: &Path) -> Option<u64> {
    Some(path.symlink_metadata().ok()?.ino())
}

/// Returns everything in `folder`, each folder before its contents.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Node> {
    let mut found = BTreeMap::new();
    let mut folders = BTreeSet::from([folder.to_owned()]);
    while let Some(next) = folders.pop_first() {
        for entry in fs::read_dir(next).expect("a folder of the test") {
            let path = entry.expect("it is listed").path();
            let kind = path.symlink_metadata().expect("it is there");
            if kind.is_dir() {
                folders.insert(path.clone());
                found.insert(path, Node::Folder);
            } else {
                found.insert(path, Node::File(kind.ino()));
            }
        }
    }
    found
}

/// A generator with the same numbers for the same seed (splitmix64).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn one_in(&mut self, limit: u64) -> bool {
        self.below(limit) == 0
    }
}

//! The requests of the kernel.
//!
//! The session's thread only looks into tables. Requests that may wait for the network are
//! processed by [`Workers`].

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Display;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fuser::{
    Errno, FileHandle, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyXattr,
    Request,
};
use namely_socket::{Consumer, FetchError, ObjectInfo};
use namely_wire::{Component, Name};

use crate::attributes::attributes;
use crate::directory::{ListedFile, OpenDirectory, OpenEntries};
use crate::error::errno;
use crate::file::{OpenFile, ReadRequest, ReadStep, Streams};
use crate::inodes::{INODES_MAX, Inode, Inodes};
use crate::log::FailureLog;
use crate::workers::Workers;
use crate::{OPEN_ENTRIES_MAX, PREFETCHES_MAX, STREAMS_MAX, WORKERS_MAX};

/// Validity of the attributes of one version: they never change.
const VERSION_VALID: Duration = Duration::from_secs(24 * 3600);

/// The number of an inode in a listing, for which no lookup has been made (libfuse's
/// `FUSE_UNKNOWN_INO`).
const UNKNOWN_INODE: INodeNo = INodeNo(0xffff_ffff);

/// Entries whose attributes one request for a listing needs at most. The kernel's buffer has a
/// page.
const ENTRIES_OF_REPLY: usize = 32;

/// Inodes are never used again, so there is one generation.
const GENERATION: Generation = Generation(0);

/// Extended attribute with the versioned name.
const XATTR_NAME: &str = "user.namely.name";
/// Extended attribute with the name of the key that signed the file.
const XATTR_SIGNER: &str = "user.namely.signer";

/// The owner of all files: the user who mounts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A failed request: the error number for the program, and the reason for the log.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) errno: Errno,
    pub(crate) reason: String,
}

impl Failure {
    pub(crate) fn new(errno: Errno, reason: &dyn Display) -> Self {
        Failure { errno, reason: reason.to_string() }
    }

    fn fetch(error: &FetchError) -> Self {
        Failure::new(errno(error), error)
    }
}

/// The file system.
pub(crate) struct Filesystem {
    shared: Arc<Shared>,
    workers: Workers,
}

struct Shared {
    consumer: Consumer,
    root: Arc<Name>,
    valid: Duration,
    owner: Owner,
    inodes: Mutex<Inodes>,
    files: Handles<OpenFile>,
    directories: Handles<OpenDirectory>,
    open_entries: OpenEntries,
    streams: Streams,
    prefetches: AtomicUsize,
    log: FailureLog,
}

/// Open files or directories by the number that the kernel has.
struct Handles<T> {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<T>>>,
}

impl<T> Handles<T> {
    fn new() -> Self {
        Handles { next: AtomicU64::new(1), open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<T>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, value: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open().insert(number, Arc::new(value));
        FileHandle(number)
    }

    fn get(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.open().get(&handle.0).cloned()
    }

    fn remove(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.open().remove(&handle.0)
    }
}

impl Filesystem {
    pub(crate) fn new(consumer: Consumer, root: Name, valid: Duration, owner: Owner) -> Self {
        let shared = Shared {
            consumer,
            root: Arc::new(root),
            valid,
            owner,
            inodes: Mutex::new(Inodes::new(INODES_MAX)),
            files: Handles::new(),
            directories: Handles::new(),
            open_entries: OpenEntries::new(OPEN_ENTRIES_MAX),
            streams: Streams::new(STREAMS_MAX),
            prefetches: AtomicUsize::new(0),
            log: FailureLog::default(),
        };
        Filesystem { shared: Arc::new(shared), workers: Workers::new(WORKERS_MAX) }
    }

    fn run(&self, task: impl FnOnce(&Shared) + Send + 'static) {
        let shared = self.shared.clone();
        self.workers.run(move || task(&shared));
    }
}

impl Shared {
    fn inodes(&self) -> MutexGuard<'_, Inodes> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inode(&self, number: INodeNo) -> Result<Inode, Failure> {
        let inode = self.inodes().get(number);
        inode.ok_or_else(|| Failure::new(Errno::ESTALE, &"the kernel has forgotten the inode"))
    }

    /// Requests the newest version of `name`, and counts a reference to its inode.
    fn lookup(&self, name: Name) -> Result<Inode, Failure> {
        let found = self.consumer.stat(&name).map_err(|error| Failure::fetch(&error))?;
        self.refer(name, found)
    }

    fn refer(&self, name: Name, found: ObjectInfo) -> Result<Inode, Failure> {
        // A program would take a file of unknown size as empty.
        if !found.is_directory && found.octets.is_none() {
            return Err(Failure::new(Errno::EOPNOTSUPP, &"its metadata has no size"));
        }
        let inode = self.inodes().refer(&Arc::new(name), found, Instant::now());
        inode.map_err(|_| Failure::new(Errno::ENOMEM, &"too many inodes are in use"))
    }

    /// The time for which the kernel may use the attributes of `inode`.
    fn attributes_valid(&self, inode: &Inode) -> Duration {
        if inode.info.is_directory { self.valid } else { VERSION_VALID }
    }

    fn answer_entry(&self, reply: ReplyEntry, inode: &Inode) {
        let attributes = attributes(inode, self.owner);
        reply.entry_with_ttls(&self.attributes_valid(inode), &self.valid, &attributes, GENERATION);
    }

    /// The properties of an inode. Those of a directory are requested again after `valid`.
    fn current(&self, number: INodeNo) -> Result<Inode, Failure> {
        let inode = self.inode(number)?;
        if !inode.info.is_directory || inode.looked_up.elapsed() < self.valid {
            return Ok(inode);
        }
        let found = self.consumer.stat(&inode.name).map_err(|error| Failure::fetch(&error))?;
        if !found.is_directory {
            return Err(Failure::new(Errno::ESTALE, &"it is a file now"));
        }
        self.inodes().refresh(number, found, Instant::now());
        self.inode(number)
    }

    /// Opens the version that the inode has. If there is a newer one, the kernel receives ESTALE:
    /// it looks the name up again and opens the inode of the newer version (`do_filp_open` with
    /// `LOOKUP_REVAL`).
    fn open(&self, number: INodeNo) -> Result<FileHandle, Failure> {
        let inode = self.inode(number)?;
        let object = self.consumer.open(&inode.name).map_err(|error| Failure::fetch(&error))?;
        let found = object.info();
        if found.is_directory || found.name != inode.info.name {
            return Err(Failure::new(Errno::ESTALE, &"a newer version is there"));
        }
        let octets = found.octets.unwrap_or(0);
        Ok(self.files.add(OpenFile::new(inode.name.clone(), octets, object)))
    }

    /// Opens a directory with its current listing.
    fn open_directory(&self, name: Arc<Name>) -> Result<FileHandle, Failure> {
        let directory = OpenDirectory::open(&self.consumer, name)?;
        if !self.open_entries.add(directory.files.len()) {
            return Err(Failure::new(Errno::ENOMEM, &"the open directories have too many entries"));
        }
        Ok(self.directories.add(directory))
    }

    fn close_directory(&self, handle: FileHandle) {
        if let Some(directory) = self.directories.remove(handle) {
            self.open_entries.remove(directory.files.len());
        }
    }

    /// The attributes of the first entries of `files`, requested in parallel as far as
    /// [`PREFETCHES_MAX`] permits. None for the other ones.
    fn prefetch(&self, directory: &Name, files: &[ListedFile]) -> Vec<Option<Inode>> {
        let permitted = self.take_prefetches(files.len());
        let requested: Vec<_> = files[..permitted]
            .iter()
            .map(|file| {
                let name = Some(file).filter(|file| !file.is_dot())?.name_in(directory);
                self.consumer.stat_async(&name).ok().map(|pending| (name, pending))
            })
            .collect();
        let found: Vec<_> = requested
            .into_iter()
            .map(|request| {
                let (name, mut pending) = request?;
                self.refer(name, pending.wait(None).ok()?).ok()
            })
            .collect();
        self.prefetches.fetch_sub(permitted, Ordering::Relaxed);
        found
    }

    /// Takes up to `wanted` prefetches, and returns their number.
    fn take_prefetches(&self, wanted: usize) -> usize {
        let mut taken = 0;
        let _ = self.prefetches.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |active| {
            taken = wanted.min(PREFETCHES_MAX.saturating_sub(active));
            Some(active + taken)
        });
        taken
    }

    fn list_plus(&self, directory: &OpenDirectory, offset: u64, mut reply: ReplyDirectoryPlus) {
        let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(directory.files.len());
        let files = &directory.files[begin..];
        let inodes = self.prefetch(&directory.name, &files[..files.len().min(ENTRIES_OF_REPLY)]);
        let mut unused = Vec::new();
        let mut is_full = false;
        for (i, file) in files.iter().enumerate() {
            let inode = inodes.get(i).cloned().flatten();
            is_full = is_full || {
                let next = (begin + i + 1) as u64;
                match &inode {
                    Some(inode) => reply.add(
                        inode.number,
                        next,
                        file.file_name(),
                        &self.valid,
                        &attributes(inode, self.owner),
                        GENERATION,
                    ),
                    // Number 0 means that the entry has no attributes.
                    None => reply.add(
                        INodeNo(0),
                        next,
                        file.file_name(),
                        &Duration::ZERO,
                        &self.unknown(file),
                        GENERATION,
                    ),
                }
            };
            if is_full {
                unused.extend(inode);
                if i >= inodes.len() {
                    break;
                }
            }
        }
        reply.ok();
        // The kernel received no reference for these.
        for inode in unused {
            self.inodes().forget(inode.number, 1);
        }
    }

    /// Attributes of a listed file without properties: the kernel uses the number and the kind.
    fn unknown(&self, file: &ListedFile) -> fuser::FileAttr {
        let time = std::time::UNIX_EPOCH;
        fuser::FileAttr {
            ino: UNKNOWN_INODE,
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: file.kind(),
            perm: 0,
            nlink: 1,
            uid: self.owner.uid,
            gid: self.owner.gid,
            rdev: 0,
            blksize: 0,
            flags: 0,
        }
    }

    fn xattr(&self, number: INodeNo, name: &OsStr) -> Result<Vec<u8>, Errno> {
        let inode = self.inode(number).map_err(|failure| failure.errno)?;
        let value = match name.to_str() {
            Some(XATTR_NAME) => Some(inode.info.name.to_string()),
            Some(XATTR_SIGNER) => inode.info.signer.as_ref().map(ToString::to_string),
            _ => None,
        };
        value.map(String::into_bytes).ok_or(Errno::ENODATA)
    }

    fn xattr_names(&self, number: INodeNo) -> Result<Vec<u8>, Errno> {
        let inode = self.inode(number).map_err(|failure| failure.errno)?;
        let mut names = format!("{XATTR_NAME}\0");
        if inode.info.signer.is_some() {
            names += XATTR_SIGNER;
            names.push('\0');
        }
        Ok(names.into_bytes())
    }

    fn failed(&self, name: &Name, failure: &Failure) -> Errno {
        self.log.record(name, failure.errno, &failure.reason);
        failure.errno
    }

    fn name_of(&self, number: INodeNo) -> Arc<Name> {
        self.inodes().get(number).map_or_else(|| self.root.clone(), |inode| inode.name)
    }
}

/// Answers a request for an extended attribute: with `size` 0 the program wants the length.
fn answer_xattr(reply: ReplyXattr, size: u32, value: Result<Vec<u8>, Errno>) {
    match value {
        Err(errno) => reply.error(errno),
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}

impl fuser::Filesystem for Filesystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Listings with attributes, when a program uses them. Parallel lookups in one directory.
        for flag in [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
        ] {
            // An older kernel lacks them.
            let _ = config.add_capabilities(flag);
        }
        // The root is looked up here, because the kernel refers to it without a request.
        let shared = &self.shared;
        let found = shared
            .consumer
            .stat(&shared.root)
            .map_err(|error| io::Error::from_raw_os_error(error.errno()))?;
        let root = shared.inodes().refer(&shared.root, found, Instant::now());
        root.map(drop).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let parent = match self.shared.inode(parent) {
            Ok(parent) => parent,
            Err(failure) => return reply.error(failure.errno),
        };
        let name = parent.name.join(Component::generic(name.as_bytes()));
        self.run(move |shared| match shared.lookup(name.clone()) {
            Ok(inode) => shared.answer_entry(reply, &inode),
            Err(failure) => reply.error(shared.failed(&name, &failure)),
        });
    }

    fn forget(&self, _: &Request, number: INodeNo, references: u64) {
        self.shared.inodes().forget(number, references);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.run(move |shared| match shared.current(number) {
            Ok(inode) => {
                reply.attr(&shared.attributes_valid(&inode), &attributes(&inode, shared.owner));
            }
            Err(failure) => reply.error(shared.failed(&shared.name_of(number), &failure)),
        });
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.run(move |shared| match shared.open(number) {
            // The inode is one version, so its pages stay valid.
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH),
            Err(failure) if failure.errno == Errno::ESTALE => reply.error(failure.errno),
            Err(failure) => reply.error(shared.failed(&shared.name_of(number), &failure)),
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(file) = self.shared.files.get(handle) else { return reply.error(Errno::EBADF) };
        match file.accept(ReadRequest { offset, octets: size as usize, reply }) {
            ReadStep::Range(request) => self.run(move |shared| file.read_range(request, &shared.log)),
            ReadStep::Waiting => self.run(move |shared| file.read_waiting(&shared.streams, &shared.log)),
            ReadStep::Queued => {}
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.shared.files.remove(handle);
        reply.ok();
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.run(move |shared| {
            let name = shared.name_of(number);
            match shared.open_directory(name.clone()) {
                Ok(handle) => reply.opened(handle, FopenFlags::empty()),
                Err(failure) => reply.error(shared.failed(&name, &failure)),
            }
        });
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(directory) = self.shared.directories.get(handle) else {
            return reply.error(Errno::EBADF);
        };
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        for (i, file) in directory.files.iter().enumerate().skip(begin) {
            if reply.add(UNKNOWN_INODE, (i + 1) as u64, file.kind(), file.file_name()) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let Some(directory) = self.shared.directories.get(handle) else {
            return reply.error(Errno::EBADF);
        };
        self.run(move |shared| shared.list_plus(&directory, offset, reply));
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.shared.close_directory(handle);
        reply.ok();
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer_xattr(reply, size, self.shared.xattr(number, name));
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        answer_xattr(reply, size, self.shared.xattr_names(number));
    }
}

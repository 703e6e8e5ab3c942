//! Attributes of inodes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType};

use crate::filesystem::Owner;
use crate::inodes::Inode;

/// Octets of a block in `st_blocks` (POSIX leaves it to the system; Linux has 512).
const BLOCK_OCTETS: u64 = 512;

/// Size that programs should read at once, `st_blksize`.
const READ_OCTETS: u32 = 128 << 10;

/// Permissions of a file whose metadata has none.
const FILE_MODE: u16 = 0o444;

/// The attributes of `inode`. Nobody may write, and who may read is a matter of the mount, so each
/// file is readable. The producer decides only whether a file may be executed.
pub(crate) fn attributes(inode: &Inode, owner: Owner) -> FileAttr {
    let info = &inode.info;
    let octets = info.octets.filter(|_| !info.is_directory).unwrap_or(0);
    let time = info.mtime_ns.map_or(UNIX_EPOCH, time);
    let executable = info.mode.is_some_and(|mode| mode & 0o111 != 0);
    let perm = if info.is_directory || executable { 0o555 } else { FILE_MODE };
    FileAttr {
        ino: inode.number,
        size: octets,
        blocks: octets.div_ceil(BLOCK_OCTETS),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: if info.is_directory { FileType::Directory } else { FileType::RegularFile },
        perm,
        nlink: 1,
        uid: owner.uid,
        gid: owner.gid,
        rdev: 0,
        blksize: READ_OCTETS,
        flags: 0,
    }
}

/// The time at `ns` ns since the Unix epoch; the epoch if the system cannot express it.
fn time(ns: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_nanos(ns)).unwrap_or(UNIX_EPOCH)
}

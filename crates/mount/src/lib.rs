//! Named files as a read-only file system (FUSE).
//!
//! - A program reads verified octets only. An octet that fails verification is a read error.
//! - An inode is one version of a file. An open file keeps its version, and the pages of one
//!   version never mix with those of another. A file that is opened after a change has the new
//!   version.
//! - Sequential reads have a read-ahead. Other reads request only their range.
//! - Memory is bounded: [`STREAMS_MAX`] read-aheads, [`INODES_MAX`] inodes, one buffer for each of
//!   [`WORKERS_MAX`] requests, [`LISTING_OCTETS_MAX`] octets of a listing, and
//!   [`OPEN_ENTRIES_MAX`] entries of all open directories.
#![forbid(unsafe_code)]

mod attributes;
mod directory;
mod error;
mod file;
mod filesystem;
mod inodes;
mod log;
mod workers;

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use namely_socket::{Consumer, FETCHES_MAX};
use namely_wire::Name;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{getgid, getuid};

pub use self::error::MountError;
use self::filesystem::{Filesystem, Owner};
pub use self::inodes::INODES_MAX;

/// Requests of the kernel that are processed in parallel.
///
/// # Limit
/// Further requests wait for their turn; each holds one waiting process or one read-ahead of the
/// kernel.
/// - Value: 24
/// - Tests: `tasks_over_the_limit_wait`
pub const WORKERS_MAX: usize = 24;

/// Files that are read ahead in parallel.
///
/// # Limit
/// A further file replaces one without a read for a second. If there is none, each of its reads
/// requests its own range.
/// - Value: 16
/// - Tests: `files_over_the_read_ahead_limit_are_read`
pub const STREAMS_MAX: usize = 16;

/// Entries of directories whose attributes are requested in advance, in parallel.
///
/// # Limit
/// The kernel requests the attributes of further entries when a program needs them.
/// - Value: 12
/// - Tests: `long_directories_list_every_entry`
pub const PREFETCHES_MAX: usize = 12;

/// Octets of the listing of a directory, as `namely get` reads.
///
/// In memory each entry takes some ten times the two octets of a short name.
///
/// # Limit
/// A directory with a longer listing cannot be opened (`EFBIG`).
/// - Value: 16 MiB
/// - Tests: `listings_are_limited`
pub const LISTING_OCTETS_MAX: u64 = 16 << 20;

/// Entries of all open directories.
///
/// # Limit
/// The `opendir` fails with `ENOMEM`. Another user, with `allow_other`, could otherwise fill the
/// memory of the process by open directories.
/// - Tests: `open_entries_are_limited`
pub const OPEN_ENTRIES_MAX: usize = 4 << 20;

// Each has a fetch of the consumer, which refuses further ones. A stream that was dropped counts
// until its thread notices, so as many streams may begin meanwhile as there are places left.
const _: () = assert!(WORKERS_MAX + STREAMS_MAX + PREFETCHES_MAX + 12 <= FETCHES_MAX);

/// Longest wait for the end of the session after the directory was unmounted.
const UNMOUNT_MAX: Duration = Duration::from_secs(2);

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Time for which the kernel may use a name or the attributes of a directory without a new
    /// request. An `open` always requests the newest version.
    pub attributes_valid: Duration,
    /// Whether all users of this machine have access.
    pub allow_other: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions { attributes_valid: Duration::from_secs(1), allow_other: false }
    }
}

/// A mounted file system. Dropping it unmounts.
#[derive(Debug)]
pub struct Mounted {
    session: BackgroundSession,
    directory: PathBuf,
}

/// Mounts the directory `name` at `directory`. Requests its metadata first, so that a wrong name or
/// a missing producer is an error here.
///
/// # Errors
/// The name is not a directory, or the system refuses the mount.
pub fn mount(
    consumer: Consumer,
    name: &Name,
    directory: &Path,
    options: &MountOptions,
) -> Result<Mounted, MountError> {
    let found = consumer.stat(name).map_err(MountError::Fetch)?;
    if !found.is_directory {
        return Err(MountError::NotDirectory { name: name.clone() });
    }
    check_mount_point(directory, directory.metadata())?;
    limit_listings(&consumer);
    let owner = Owner { uid: getuid().as_raw(), gid: getgid().as_raw() };
    let filesystem = Filesystem::new(consumer, name.clone(), options.attributes_valid, owner);
    let session = Session::new(filesystem, directory, &config(name, options))
        .and_then(Session::spawn)
        .map_err(|error| MountError::System { path: directory.to_owned(), error })?;
    Ok(Mounted { session, directory: directory.to_owned() })
}

/// Sets the limit of whole objects. The file system fetches no other ones than listings.
fn limit_listings(consumer: &Consumer) {
    // It fails only without such an option.
    let _ = consumer.set_option("object_octets_max", &LISTING_OCTETS_MAX.to_string());
}

/// Refuses a directory at which the system would not mount; `found` is its metadata.
fn check_mount_point(directory: &Path, found: io::Result<Metadata>) -> Result<(), MountError> {
    let path = directory.to_owned();
    match found {
        Ok(found) if found.is_dir() => Ok(()),
        // The file system of a mount has no process any more.
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            Err(MountError::Stale { path })
        }
        _ => Err(MountError::NoMountPoint { path }),
    }
}

fn config(name: &Name, options: &MountOptions) -> Config {
    let mut config = Config::default();
    // A comma separates options of mount, and a name may contain commas.
    let source = name.to_string().replace(',', "%2C");
    config.mount_options = vec![
        MountOption::RO,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
        MountOption::DefaultPermissions,
        MountOption::FSName(source),
        MountOption::Subtype("namely".into()),
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config
}

impl Mounted {
    /// The directory at which the files appear.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns true after another program has unmounted the file system.
    pub fn is_unmounted(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Unmounts. If a program still has an open file there, the directory is detached: the name is
    /// free at once, and the program's reads fail after this process has ended.
    ///
    /// # Errors
    /// The system refuses.
    pub fn unmount(self) -> Result<(), MountError> {
        let Mounted { session, directory: path } = self;
        // fusermount3 detaches for an ordinary user. The session then lasts until the last open
        // file is closed, so its end is not awaited for longer.
        let (ended, end) = sync_channel(1);
        let unmounting = std::thread::Builder::new().name("namely-unmount".into()).spawn(move || {
            let _ = ended.send(session.umount_and_join());
        });
        if let Err(error) = unmounting {
            return Err(MountError::System { path, error });
        }
        let Ok(Err(error)) = end.recv_timeout(UNMOUNT_MAX) else { return Ok(()) };
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            // Another program has unmounted (umount(2)).
            Some(Errno::INVAL) => Ok(()),
            Some(Errno::BUSY) => unmount(&path, UnmountFlags::DETACH)
                .map_err(|error| MountError::System { path, error: error.into() }),
            _ => Err(MountError::System { path, error }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use namely_security::TrustPolicy;
    use namely_socket::{ConsumerOptions, Trust};
    use namely_transport::connection::Connection;

    use super::*;

    #[test]
    fn a_stale_mount_is_named() {
        let path = Path::new("/stale");
        let refused = |found| check_mount_point(path, found).unwrap_err();
        let stale = refused(Err(Errno::NOTCONN.into()));
        assert!(matches!(&stale, MountError::Stale { .. }), "{stale}");
        assert!(stale.hint().is_some_and(|hint| hint.contains("fusermount3 -u")));
        let missing = refused(Err(Errno::NOENT.into()));
        assert!(matches!(&missing, MountError::NoMountPoint { .. }), "{missing}");
        assert!(check_mount_point(path, Path::new("/").metadata()).is_ok());
    }

    #[test]
    fn listings_are_limited() {
        let (near, _far) = UnixStream::pair().unwrap();
        let connection = Connection::from_stream(near).unwrap();
        let trust = Trust::Policy(TrustPolicy::hierarchical().into());
        let options = ConsumerOptions { trust, ..ConsumerOptions::default() };
        let consumer = Consumer::over(connection, Name::new(), options).unwrap();
        limit_listings(&consumer);
        assert_eq!(consumer.option("object_octets_max").unwrap(), LISTING_OCTETS_MAX.to_string());
    }
}

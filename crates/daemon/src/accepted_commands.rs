//! A file of accepted signed commands, for the next run of the router.
//!
//! The file is `commands` in systemd's state directory of the service, or `SOCKET.commands` beside
//! the first Unix socket. It is opened before the process drops its privileges, and only if the
//! configuration has keys for commands. Without the file, the router accepts no command signed
//! before its start, and its next run may accept a replayed command of a host whose clock is ahead.
//! The router logs a warning if it cannot use the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use namely_security::{AcceptedCommand, AcceptedCommandStore, TAKEN_RECORD_OCTETS, TAKEN_RECORDS_MAX};
use namely_wire::FaceUri;
use rustix::fs::{Mode, OFlags};

use crate::config::Config;

/// The header of the file: its type, and the version of its records.
const HEAD: &[u8; 16] = b"namely commands1";

/// Size of the file, octets.
const FILE_OCTETS: u64 = (HEAD.len() + TAKEN_RECORDS_MAX * TAKEN_RECORD_OCTETS) as u64;

/// The open file, and the records of the previous run.
#[derive(Debug)]
pub(crate) struct AcceptedCommandsFile {
    file: File,
    former: Vec<AcceptedCommand>,
}

impl AcceptedCommandsFile {
    /// Opens the file, and creates it if it does not exist. Returns `None` if `config` has no keys
    /// for commands, or if the file cannot be used. The latter is logged.
    pub(crate) fn open(config: &Config) -> Option<Self> {
        if config.authorization.key.is_empty() {
            return None;
        }
        let opened = path_of(config)
            .ok_or_else(|| {
                "no folder for the file: set STATE_DIRECTORY, or listen on a Unix socket".to_owned()
            })
            .and_then(|path| Self::open_at(&path).map_err(|error| format!("{}: {error}", path.display())));
        opened
            .inspect_err(|why| {
                tracing::warn!(
                    "accepted commands are not saved ({why}): after a restart, the router may accept a command a \
                     second time if the clock of its signer is ahead"
                );
            })
            .ok()
    }

    fn open_at(path: &PathBuf) -> io::Result<Self> {
        // Symbolic links are not followed, and neither a pipe nor a device can block the start.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
        let found = file.metadata()?;
        let is_own = found.uid() == rustix::process::geteuid().as_raw()
            && found.nlink() == 1
            && found.mode() & 0o022 == 0;
        if !found.is_file() || !is_own {
            return Err(io::Error::other("it is not a private file of this user"));
        }
        if found.len() == 0 {
            // A crash between the two writes leaves a shorter file, which the next start refuses.
            file.write_all_at(HEAD, 0)?;
            file.write_all_at(&vec![0; TAKEN_RECORD_OCTETS * TAKEN_RECORDS_MAX], HEAD.len() as u64)?;
            return Ok(AcceptedCommandsFile { file, former: Vec::new() });
        }
        let mut octets = vec![0; FILE_OCTETS as usize];
        if found.len() == FILE_OCTETS {
            file.read_exact_at(&mut octets, 0)?;
        }
        let Some(records) = octets.strip_prefix(HEAD) else {
            return Err(io::Error::other("the file is no record of accepted commands: remove it"));
        };
        let former = records.chunks_exact(TAKEN_RECORD_OCTETS).filter_map(|record| record.try_into().ok());
        let former = former.collect();
        Ok(AcceptedCommandsFile { file, former })
    }

    /// The store for accepted commands, and the records of the previous run.
    pub(crate) fn into_parts(self) -> (Box<dyn AcceptedCommandStore>, Vec<AcceptedCommand>) {
        (Box::new(Store(self.file)), self.former)
    }
}

fn path_of(config: &Config) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("STATE_DIRECTORY") {
        return Some(PathBuf::from(folder).join("commands"));
    }
    config.faces.listeners().iter().find_map(|uri| match uri {
        FaceUri::Unix(path) => Some(format!("{path}.commands").into()),
        _ => None,
    })
}

#[derive(Debug)]
struct Store(File);

impl AcceptedCommandStore for Store {
    fn keep(&mut self, slot: usize, record: &AcceptedCommand) -> io::Result<()> {
        // A completed write is in the kernel, so it survives a crash of this process.
        self.0.write_all_at(record, (HEAD.len() + slot * TAKEN_RECORD_OCTETS) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn kept_command_records_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock.commands");
        let (mut store, former) = AcceptedCommandsFile::open_at(&path).unwrap().into_parts();
        assert!(former.is_empty(), "it is new");
        for slot in [0, TAKEN_RECORDS_MAX - 1] {
            store.keep(slot, &[7; TAKEN_RECORD_OCTETS]).unwrap();
        }
        let (_, former) = AcceptedCommandsFile::open_at(&path).unwrap().into_parts();
        let filled = |slot: usize| former[slot] == [7; TAKEN_RECORD_OCTETS];
        assert_eq!((former.len(), filled(0), filled(1)), (TAKEN_RECORDS_MAX, true, false));
        assert!(filled(TAKEN_RECORDS_MAX - 1));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn untrusted_record_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        AcceptedCommandsFile::open_at(&path("own")).unwrap();
        symlink(path("own"), path("link")).unwrap();
        std::fs::hard_link(path("own"), path("second")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        std::fs::write(path("other"), "something else").unwrap();
        std::fs::write(path("open"), "").unwrap();
        std::fs::set_permissions(path("open"), std::fs::Permissions::from_mode(0o666)).unwrap();
        for name in ["link", "own", "second", "pipe", "other", "open"] {
            assert!(AcceptedCommandsFile::open_at(&path(name)).is_err(), "{name}");
        }
        assert_eq!(std::fs::read(path("other")).unwrap(), b"something else");
    }
}

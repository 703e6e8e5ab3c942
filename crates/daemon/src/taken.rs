//! Which signed commands were taken, in a file for the router's successor.
//!
//! The file is `commands` in systemd's state folder of the service, or beside the first Unix
//! socket. It is opened before rights are given up, and only where the configuration has keys that
//! may command. Where there is none, the router takes nothing that was signed before its start,
//! and its successor may take what a host has signed whose clock is ahead: that is said in the log.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use namely_security::{TAKEN_RECORD_OCTETS, TAKEN_RECORDS_MAX, TakenRecord, TakenStore};
use namely_wire::FaceUri;
use rustix::fs::{Mode, OFlags};

use crate::config::Config;

/// What the file begins with: what it is, and of which form its records are.
const HEAD: &[u8; 16] = b"namely commands1";

/// Octets of the whole file.
const FILE_OCTETS: u64 = (HEAD.len() + TAKEN_RECORDS_MAX * TAKEN_RECORD_OCTETS) as u64;

/// The file.
#[derive(Debug)]
pub(crate) struct TakenFile {
    file: File,
    former: Vec<TakenRecord>,
}

impl TakenFile {
    /// Opens the file of a router under `config`, and makes it if it is not there; `None`, and said
    /// in the log, if there can be none.
    pub(crate) fn open(config: &Config) -> Option<Self> {
        if config.authorization.key.is_empty() {
            return None;
        }
        let opened = place(config)
            .ok_or_else(|| "there is no folder for it".to_owned())
            .and_then(|path| Self::open_at(&path).map_err(|error| format!("{}: {error}", path.display())));
        opened
            .inspect_err(|why| {
                tracing::warn!(
                    "which commands were taken is not kept ({why}): a router that starts again may take a command \
                     again that a host has signed whose clock is ahead"
                );
            })
            .ok()
    }

    fn open_at(path: &PathBuf) -> io::Result<Self> {
        // No link is followed, and neither a pipe nor a device keeps the start waiting.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
        let found = file.metadata()?;
        let is_own = found.uid() == rustix::process::geteuid().as_raw()
            && found.nlink() == 1
            && found.mode() & 0o022 == 0;
        if !found.is_file() || !is_own {
            return Err(io::Error::other("it is no file of this user alone"));
        }
        if found.len() == 0 {
            // Its length last: a file that is cut short is none.
            file.write_all_at(HEAD, 0)?;
            file.write_all_at(&vec![0; TAKEN_RECORD_OCTETS * TAKEN_RECORDS_MAX], HEAD.len() as u64)?;
            return Ok(TakenFile { file, former: Vec::new() });
        }
        let mut octets = vec![0; FILE_OCTETS as usize];
        if found.len() == FILE_OCTETS {
            file.read_exact_at(&mut octets, 0)?;
        }
        let Some(records) = octets.strip_prefix(HEAD) else {
            return Err(io::Error::other("it is something else: remove it"));
        };
        let former = records.chunks_exact(TAKEN_RECORD_OCTETS).filter_map(|record| record.try_into().ok());
        let former = former.collect();
        Ok(TakenFile { file, former })
    }

    /// Where what is taken goes from now on, and what the former router took.
    pub(crate) fn into_parts(self) -> (Box<dyn TakenStore>, Vec<TakenRecord>) {
        (Box::new(Store(self.file)), self.former)
    }
}

fn place(config: &Config) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("STATE_DIRECTORY") {
        return Some(PathBuf::from(folder).join("commands"));
    }
    let sockets = config.faces.listen.iter().filter_map(|uri| match uri {
        FaceUri::Unix(path) => Some(format!("{path}.commands").into()),
        _ => None,
    });
    sockets.into_iter().next()
}

#[derive(Debug)]
struct Store(File);

impl TakenStore for Store {
    fn keep(&mut self, place: usize, record: &TakenRecord) -> io::Result<()> {
        // What is written is the kernel's, whatever becomes of this process.
        self.0.write_all_at(record, (HEAD.len() + place * TAKEN_RECORD_OCTETS) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_is_kept_is_found_by_the_next_router() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock.commands");
        let (mut store, former) = TakenFile::open_at(&path).unwrap().into_parts();
        assert!(former.is_empty(), "it is new");
        for place in [0, TAKEN_RECORDS_MAX - 1] {
            store.keep(place, &[7; TAKEN_RECORD_OCTETS]).unwrap();
        }
        let (_, former) = TakenFile::open_at(&path).unwrap().into_parts();
        let filled = |place: usize| former[place] == [7; TAKEN_RECORD_OCTETS];
        assert_eq!((former.len(), filled(0), filled(1)), (TAKEN_RECORDS_MAX, true, false));
        assert!(filled(TAKEN_RECORDS_MAX - 1));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_file_of_the_router_alone_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        TakenFile::open_at(&path("own")).unwrap();
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
            assert!(TakenFile::open_at(&path(name)).is_err(), "{name}");
        }
        assert_eq!(std::fs::read(path("other")).unwrap(), b"something else");
    }
}

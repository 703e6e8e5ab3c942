//! The target of a file: a name in an open folder. The partial file, its journal and the final name
//! are reached from that folder's descriptor.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namely_host::disk::{
    Folder, Links, OpenError, UntrustedFile, Writers, open_again, open_beneath, open_named,
};
use namely_transport::object::Object;
use rustix::fs::{FileType, OFlags, Stat, fstat};

use super::error::GetError;
use super::version::check_newer;

/// A name in an open folder.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) folder: Arc<Folder>,
    pub(super) name: OsString,
}

impl Target {
    /// The target that a user names.
    pub(super) fn named(path: &Path) -> Result<Self, GetError> {
        let is_directory = || GetError::Target {
            path: path.to_owned(),
            error: io::Error::from(io::ErrorKind::IsADirectory),
        };
        let name = path.file_name().ok_or_else(is_directory)?;
        let above = path.parent().unwrap_or(Path::new(""));
        let folder = Folder::open(above).map_err(|error| refused(path.to_owned(), error))?;
        Ok(Target::new(Arc::new(folder), name))
    }

    pub(super) fn new(folder: Arc<Folder>, name: &OsStr) -> Self {
        Target { folder, name: name.to_owned() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Returns the status of the existing file.
    pub(super) fn look(&self) -> Result<Option<Stat>, GetError> {
        self.folder.look(&self.name).map_err(|error| GetError::Target { path: self.path(), error })
    }

    /// Opens the existing pipe or device, directly or through links, if it and the links belong to
    /// this user or to root. Returns none if the target becomes a regular file.
    pub(super) fn special(&self) -> Result<Option<std::fs::File>, GetError> {
        match self.look()?.map(|found| FileType::from_raw_mode(found.st_mode)) {
            None | Some(FileType::RegularFile) => return Ok(None),
            Some(_) => {}
        }
        let path = self.path();
        let at = match open_named(&path, OFlags::PATH) {
            // A dangling link is replaced.
            Err(OpenError::System(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| refused(path.clone(), error))?,
        };
        let fault = |error: io::Error| GetError::Target { path: path.clone(), error };
        let found = fstat(&at).map_err(|errno| fault(errno.into()))?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(None),
            FileType::Directory => Err(fault(io::ErrorKind::IsADirectory.into())),
            _ if !Writers::this_user().or_root().is_owner(found.st_uid) => {
                Err(GetError::UntrustedFile { path, foreign: UntrustedFile::OtherUser { uid: found.st_uid } })
            }
            _ => {
                // Opened again by its descriptor, so that this is the file that was checked, even
                // if the name has been replaced.
                let opened = open_again(&at, OFlags::WRONLY | OFlags::NOCTTY);
                Ok(Some(opened.map_err(|errno| fault(errno.into()))?.into()))
            }
        }
    }

    /// Returns an error if a newer version than `object` was fetched to this target before.
    pub(super) fn check_newer(&self, object: &Object) -> Result<(), GetError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let Ok(there) = open_beneath(&*self.folder, Path::new(&self.name), flags, Links::Refuse) else {
            return Ok(());
        };
        // A user who may write the file could at most cause a newer version to be refused. Another
        // user's file does not count.
        match fstat(&there) {
            Ok(found) if Writers::this_user().is_owner(found.st_uid) => {
                check_newer(object, there, &self.path())
            }
            _ => Ok(()),
        }
    }
}

/// The error for a path that is not opened.
pub(super) fn refused(path: PathBuf, error: OpenError) -> GetError {
    match error {
        OpenError::System(error) => GetError::Target { path, error },
        OpenError::UntrustedFile(foreign) => GetError::UntrustedFile { path, foreign },
    }
}

//! The folders of the router's sockets: made at the start where that is safe, and checked.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use namely_host::disk::Folder;
use namely_transport::memif_beside;
use namely_wire::FaceUri;
use rustix::fs::Access;

use crate::config::{Config, default_socket};
use crate::exit::Failure;

/// Folders of the system for sockets. It empties them at each boot, so that a folder in them is
/// missing unless a service manager or the program itself makes it.
const RUN: [&str; 2] = ["/run", "/var/run"];

/// Makes the folders of the sockets in `config` that the router makes itself. They are owned by
/// `uid` if the router will change to that user.
///
/// # Errors
/// [`Failure`]: they cannot be made, or belong to another user.
pub(crate) fn prepare_all(config: &Config, uid: Option<u32>) -> Result<(), Failure> {
    let owner = uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    for uri in &config.faces.listeners() {
        let (FaceUri::Unix(path) | FaceUri::Memif { path, .. }) = uri else { continue };
        prepare(Path::new(path), owner)
            .map_err(|why| Failure::cannot_listen(format!("listening on {uri}: {why}")))?;
    }
    Ok(())
}

/// Makes the folder of `socket`, owned by `uid`, if it is that of the default sockets or a missing
/// one below `/run`.
///
/// # Errors
/// The folder cannot be made, or belongs to another user.
pub(crate) fn prepare(socket: &Path, uid: u32) -> Result<(), String> {
    let Some(folder) = folder_of(socket) else { return Ok(()) };
    if is_default(socket) {
        return make(folder, uid);
    }
    if folder.exists() || !is_below_run(folder) {
        return Ok(());
    }
    make(folder, uid).map_err(|why| format!("{why}{}", as_root(folder, uid)))
}

/// Returns the reason for which the router must wait before it can make `socket`: its folder is
/// missing, and [`prepare`] does not make it.
pub(crate) fn absence(socket: &Path) -> Option<String> {
    let folder = folder_of(socket)?;
    let is_missing = folder.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    (is_missing && !is_default(socket) && !is_below_run(folder)).then(|| missing(folder))
}

/// Checks the folder of `socket`, which was missing at the start. Above it may be a folder that all
/// users may write, so that it could be another user's.
///
/// # Errors
/// It is still missing, or belongs to a user other than root and this process's.
pub(crate) fn check_late(socket: &Path) -> Result<(), String> {
    let Some(folder) = folder_of(socket) else { return Ok(()) };
    let found = folder.metadata().map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(folder),
        _ => format!("{}: {error}", folder.display()),
    })?;
    let (owner, own) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != own && owner != 0 {
        let folder = folder.display();
        return Err(format!("{folder} belongs to user {owner}: `chown {own} {folder}`, as root, gives it"));
    }
    Ok(())
}

/// The reason for which a router of user `uid`, started by this process's user, could not make
/// `socket`.
pub(crate) fn fault(socket: &Path, uid: u32) -> Option<String> {
    let is_taken = |file: Metadata| !file.file_type().is_socket();
    if socket.symlink_metadata().is_ok_and(is_taken) {
        return Some(format!(
            "{} exists and is not a socket; remove it or choose another path",
            socket.display()
        ));
    }
    let folder = folder_of(socket)?;
    let is_own = is_default(socket);
    match folder.metadata() {
        Ok(found) if !found.is_dir() => Some(format!("{} is not a folder", folder.display())),
        Ok(found) => {
            // The start gives the default folder to the router's user.
            let is_given = is_own && rustix::process::geteuid().is_root();
            let is_usable = is_given || may_write(folder, &found, uid);
            (!is_usable).then(|| format!("user {uid} may not make a socket in {}", folder.display()))
        }
        Err(_) if is_own || is_below_run(folder) => {
            let above = folder.parent().filter(|above| !above.as_os_str().is_empty())?;
            let is_refused = rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK).is_err();
            is_refused.then(|| {
                let why = format!("{} does not exist, and this user may not make it", folder.display());
                why + &as_root(folder, uid)
            })
        }
        // The router waits for it.
        Err(_) => None,
    }
}

/// The folder of a path that names one.
fn folder_of(socket: &Path) -> Option<&Path> {
    socket.parent().filter(|folder| !folder.as_os_str().is_empty())
}

fn is_default(path: &Path) -> bool {
    path == default_socket() || path == memif_beside(default_socket())
}

/// Returns true if the folder lies in an existing one below `/run`, so that one call makes it.
fn is_below_run(folder: &Path) -> bool {
    let above = folder.parent().filter(|above| RUN.iter().any(|run| above.starts_with(run)));
    above.is_some_and(Path::is_dir)
}

fn missing(folder: &Path) -> String {
    let folder = folder.display();
    format!("there is no folder {folder}: `mkdir -p {folder}` makes it")
}

fn as_root(folder: &Path, uid: u32) -> String {
    format!(": `install -d -o {uid} {}`, as root, makes it", folder.display())
}

/// Returns true if user `uid` may make files in a folder. Access lists are not read for another
/// user than this process's.
fn may_write(folder: &Path, found: &Metadata, uid: u32) -> bool {
    if uid == rustix::process::geteuid().as_raw() {
        return rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    }
    // The bits of owner, group and others (inode(7)); whether the group is the user's is not known.
    let writable = if found.uid() == uid { 0o200 } else { 0o022 };
    uid == 0 || found.mode() & writable != 0
}

/// Makes a folder for sockets, owned by `uid`. In a world-writable parent, a folder of another user
/// would let that user replace the socket.
fn make(folder: &Path, uid: u32) -> Result<(), String> {
    let (above, Some(name)) = (folder.parent().unwrap_or(Path::new("")), folder.file_name()) else {
        return Ok(());
    };
    let fault = |error| format!("cannot create {}: {error}", folder.display());
    let above = Folder::open(above).map_err(|error| fault(error.into()))?;
    match above.make_folder(name, 0o755) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(fault(error)),
        _ => {}
    }
    // The opened folder is both checked and given away, so that it cannot be replaced in between.
    let opened = above.below(Path::new(name)).map_err(fault)?;
    let owner = opened.stat().map_err(fault)?.st_uid;
    let own = rustix::process::geteuid().as_raw();
    if owner != uid && owner != own && owner != 0 {
        return Err(format!("{} belongs to user {owner}: remove it, or use --listen", folder.display()));
    }
    if owner != uid && own == 0 {
        // The user of the router must be able to make and remove sockets there.
        let given = rustix::fs::fchown(&opened, Some(rustix::process::Uid::from_raw(uid)), None);
        given.map_err(|errno| format!("cannot give {} to user {uid}: {errno}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use namely_testkit::{Need, skip};

    use super::*;

    #[test]
    fn a_socket_folder_is_created_or_reused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("namely");
        for _ in 0..2 {
            make(&folder, rustix::process::geteuid().as_raw()).unwrap();
        }
        let mode = folder.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o022, 0, "other users must not put a socket there");
    }

    #[test]
    fn a_socket_folder_gets_the_routers_user() {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Root, "only root can give a folder away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("namely");
        for _ in 0..2 {
            make(&folder, 65534).unwrap();
            assert_eq!(folder.metadata().unwrap().uid(), 65534);
        }
    }

    #[test]
    fn a_foreign_socket_folder_is_refused() {
        if !rustix::process::geteuid().is_root() {
            skip(Need::Root, "only root can make a folder of another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        rustix::fs::chown(dir.path(), Some(rustix::process::Uid::from_raw(65534)), None).unwrap();
        let why = make(dir.path(), 0).unwrap_err();
        assert!(why.contains("belongs to user 65534"), "{why}");
    }

    #[test]
    fn only_folders_below_run_are_made() {
        assert!(is_below_run(Path::new("/run/no-such-folder")));
        for other in ["/run", "/tmp/no-such-folder", "/run/no-such-folder/below", "relative", "/"] {
            assert!(!is_below_run(Path::new(other)), "{other}");
        }
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("no/x.sock");
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(prepare(&socket, uid), Ok(()));
        assert!(!socket.parent().unwrap().exists());
        let why = absence(&socket).unwrap();
        assert!(why.contains("mkdir -p"), "{why}");
        assert_eq!((fault(&socket, uid), check_late(&socket)), (None, Err(why)));
        assert_eq!(fault(&dir.path().join("x.sock"), uid), None);
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(fault(&file, uid).unwrap().contains("not a socket"));
        assert!(fault(&file.join("x.sock"), uid).is_some());
        assert_eq!(fault(Path::new("x.sock"), uid), None, "in the working folder");
    }
}

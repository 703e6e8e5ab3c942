//! The default paths of a router's Unix socket, in one order for the router that listens and for
//! its clients.
//!
//! This module never accesses the file system; callers try the paths in order.

use std::path::{Path, PathBuf};

/// The socket of a router that runs as root.
const SYSTEM_SOCKET: &str = "/run/namely/namely.sock";

/// Sockets of other routers on Linux: NFD, its older releases, NDNd.
const OTHER_SOCKETS: [&str; 3] = ["/run/nfd/nfd.sock", "/run/nfd.sock", "/run/ndnd/ndnd.sock"];

/// The default socket of a router of this user.
pub fn listen_socket() -> PathBuf {
    listen_socket_of(uid(), runtime_dir())
}

/// The path of the memif socket of a router that listens on `socket`: in the same folder.
pub fn memif_beside(socket: &Path) -> PathBuf {
    socket.with_extension("memif")
}

/// The paths at which only root can permit a router to listen.
pub(crate) fn system_sockets() -> impl Iterator<Item = PathBuf> {
    std::iter::once(SYSTEM_SOCKET).chain(OTHER_SOCKETS).map(PathBuf::from)
}

/// The sockets that a client tries, in order: this user's router, the system's, then those of other
/// routers.
pub(crate) fn client_sockets() -> Vec<PathBuf> {
    client_sockets_of(uid(), runtime_dir())
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn runtime_dir() -> Option<PathBuf> {
    // The XDG Base Directory Specification requires that relative paths are ignored.
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute())
}

fn listen_socket_of(uid: u32, runtime_dir: Option<PathBuf>) -> PathBuf {
    if uid == 0 {
        return PathBuf::from(SYSTEM_SOCKET);
    }
    match runtime_dir {
        Some(dir) => dir.join("namely.sock"),
        None => PathBuf::from(format!("/tmp/namely-{uid}/namely.sock")),
    }
}

fn client_sockets_of(uid: u32, runtime_dir: Option<PathBuf>) -> Vec<PathBuf> {
    let mut sockets = Vec::new();
    if uid != 0 {
        // /tmp is used only without a runtime directory, because any user may create files there
        // first.
        sockets.push(listen_socket_of(uid, runtime_dir));
    }
    sockets.extend(system_sockets());
    sockets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listen_socket_depends_on_the_user() {
        let dir = Some(PathBuf::from("/run/user/1000"));
        assert_eq!(listen_socket_of(0, dir.clone()), PathBuf::from("/run/namely/namely.sock"));
        assert_eq!(listen_socket_of(1000, dir), PathBuf::from("/run/user/1000/namely.sock"));
        assert_eq!(listen_socket_of(1000, None), PathBuf::from("/tmp/namely-1000/namely.sock"));
    }

    #[test]
    fn a_client_tries_every_default_socket() {
        for (uid, dir) in [(0, None), (1000, Some("/run/user/1000")), (1000, None)] {
            let dir = dir.map(PathBuf::from);
            let tried = client_sockets_of(uid, dir.clone());
            assert_eq!(tried[0], listen_socket_of(uid, dir.clone()), "the own router comes first");
            let in_tmp = tried.iter().any(|path| path.starts_with("/tmp"));
            assert_eq!(in_tmp, uid != 0 && dir.is_none(), "nothing of /tmp beside a runtime directory");
            assert!(tried.contains(&PathBuf::from(SYSTEM_SOCKET)));
            assert!(tried.ends_with(&OTHER_SOCKETS.map(PathBuf::from)), "another router comes last");
        }
    }
}

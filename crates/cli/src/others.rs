//! Routers of other users of this machine, for the hint of a command that finds no router. Only
//! root can look into the folders of other users.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The folders of users' sockets, and the beginning of the names of their own folders there.
const FOLDERS: [(&str, &str); 2] = [("/run/user", ""), ("/tmp", "namely-")];

/// Users that a hint names.
const USERS_SHOWN: usize = 3;

/// A user with a router's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OtherRouter {
    uid: u32,
    socket: String,
}

/// Returns a hint at the routers of other users, if there are any and this user is root.
pub fn hint() -> Option<String> {
    let own = rustix::process::geteuid();
    if !own.is_root() {
        return None;
    }
    let all = FOLDERS.iter().flat_map(|(folder, first)| found(Path::new(folder), first, own.as_raw()));
    let all: Vec<OtherRouter> = all.take(USERS_SHOWN).collect();
    let variable = |name| std::env::var(name).ok();
    let caller = variable("SUDO_UID").and_then(|uid| uid.parse().ok()).zip(variable("SUDO_USER"));
    text(&all, caller)
}

/// The sockets below a folder that belong to the user of their folder. No connection is made: a
/// socket of another user may let a caller wait.
fn found(folder: &Path, first: &str, own: u32) -> Vec<OtherRouter> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<OtherRouter> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix(first)?;
            // Another spelling of a number, such as `007`, would list a user several times.
            let uid = number.parse().ok().filter(|uid: &u32| uid.to_string() == number)?;
            let socket = entry.path().join("namely.sock");
            // Links are not followed.
            let metadata = fs::symlink_metadata(&socket).ok()?;
            let is_its = metadata.file_type().is_socket() && metadata.uid() == uid && uid != own;
            Some(OtherRouter { uid, socket: socket.to_str()?.to_owned() }).filter(|_| is_its)
        })
        .collect();
    all.sort_by_key(|router| router.uid);
    all
}

/// `caller` is the user who called sudo: the number and the name.
fn text(all: &[OtherRouter], caller: Option<(u32, String)>) -> Option<String> {
    let first = all.first()?;
    let user = |router: &OtherRouter| match &caller {
        Some((uid, name)) if *uid == router.uid => format!("{name} ({uid})"),
        _ => router.uid.to_string(),
    };
    let users = all.iter().map(user).collect::<Vec<_>>().join(" and ");
    Some(format!(
        "a router of user {users} has a socket: run the command as that user, or add --router unix://{} \
         --trust-router-of {}",
        first.socket, first.uid
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn sockets_of_other_users_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let others = [format!("0{uid}"), format!("+{uid}"), format!("namely-{uid}"), "x".to_owned()];
        for name in [uid.to_string(), (uid + 1).to_string()].into_iter().chain(others) {
            fs::create_dir(dir.path().join(&name)).unwrap();
            UnixListener::bind(dir.path().join(name).join("namely.sock")).unwrap();
        }
        let users =
            |first: &str, own| found(dir.path(), first, own).iter().map(|of| of.uid).collect::<Vec<_>>();
        assert_eq!(users("", uid + 7), [uid], "the socket of another owner does not count");
        assert_eq!(users("", uid), Vec::<u32>::new(), "one's own is tried anyway");
        assert_eq!(users("namely-", uid + 7), [uid]);
        assert!(found(&dir.path().join("missing"), "", 7).is_empty());
    }

    #[test]
    fn the_hint_names_user_and_option() {
        let all = [1000, 1001].map(|uid| OtherRouter { uid, socket: format!("/run/user/{uid}/namely.sock") });
        let hint = text(&all, Some((1000, "lab".into()))).unwrap();
        assert!(hint.starts_with("a router of user lab (1000) and 1001 has a socket: "), "{hint}");
        assert!(
            hint.ends_with("--router unix:///run/user/1000/namely.sock --trust-router-of 1000"),
            "{hint}"
        );
        assert_eq!(text(&[], None), None);
    }
}

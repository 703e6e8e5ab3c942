//! Sockets whose folders come after the start of a router.

use std::path::Path;

use namely_messages::{Dataset, GeneralStatus};
use namely_testkit::{Need, eventually, skip};
use namely_wire::FaceUri;

use crate::common::{Client, Daemon, PATIENCE, other_user::NOBODY};

fn awaited(client: &mut Client) -> Vec<String> {
    let status = GeneralStatus::decode(&client.dataset(Dataset::StatusGeneral)).unwrap();
    status.details.unwrap().awaited
}

fn start(late: &Path) -> (Daemon, String) {
    let uri = FaceUri::Unix(late.join("y.sock").display().to_string()).to_string();
    (Daemon::start_with("", &["--listen", &uri]), uri)
}

#[test]
fn a_socket_appears_with_its_folder() {
    let apart = tempfile::tempdir().unwrap();
    let late = apart.path().join("late/below");
    let (mut daemon, uri) = start(&late);
    let warning = daemon.wait_for_log("there is no folder");
    assert!(warning.contains(&uri) && warning.contains("mkdir -p"), "{warning}");
    let mut client = daemon.connect();
    assert_eq!(awaited(&mut client), [uri]);
    std::fs::create_dir_all(&late).unwrap();
    // Also where the files of the router are confined.
    daemon.wait_for_log("its folder has come");
    let mut over_late = Client::unix(&late.join("y.sock"));
    client.register("/x");
    over_late.ask("/x/1");
    client.serve_one(b"served");
    assert_eq!(over_late.receive(PATIENCE).unwrap().data().content, b"served");
    eventually("nothing is awaited", || awaited(&mut client).is_empty());
    let (status, _) = daemon.stop();
    assert_eq!(status.code(), Some(0));
    assert!(!late.join("y.sock").exists(), "the socket is removed");
}

#[test]
fn shared_memory_appears_with_its_folder() {
    let apart = tempfile::tempdir().unwrap();
    let late = apart.path().join("late");
    let uri = FaceUri::Memif { path: late.join("m.sock").display().to_string(), id: 0 }.to_string();
    let mut daemon = Daemon::start_with("", &["--listen", &uri]);
    daemon.wait_for_log("there is no folder");
    std::fs::create_dir(&late).unwrap();
    assert!(daemon.wait_for_log("its folder has come").contains(&uri));
    assert!(late.join("m.sock").exists());
}

/// Another user made the folder first, where all users may make one.
#[test]
fn a_late_folder_of_others_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root can make a folder of another user");
    }
    let apart = tempfile::tempdir().unwrap();
    let late = apart.path().join("late");
    let (mut daemon, uri) = start(&late);
    // The folder gets its name only with its owner.
    let foreign = apart.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    rustix::fs::chown(&foreign, Some(rustix::process::Uid::from_raw(NOBODY)), None).unwrap();
    std::fs::rename(&foreign, &late).unwrap();
    let refusal = daemon.wait_for_log("not listening on");
    assert!(refusal.contains(&format!("belongs to user {NOBODY}")) && refusal.contains("chown"), "{refusal}");
    assert_eq!(awaited(&mut daemon.connect()), [uri]);
    rustix::fs::chown(&late, Some(rustix::process::Uid::ROOT), None).unwrap();
    daemon.wait_for_log("its folder has come");
}

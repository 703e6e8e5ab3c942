//! A folder that another user of the machine may write, or has written. The tier refuses the
//! folder, waits for no file in it, and touches no target of a link.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::mpsc;

use super::*;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Opens the tier in `folder`. Fails if the opening waits.
fn open_within_time(folder: &Path) -> Result<Tier, TierError> {
    let folder = folder.to_owned();
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || done.send(Tier::open(&folder, &options(EngineKind::Inline))));
    is_done.recv_timeout(Duration::from_secs(20)).expect("it waits")
}

fn pipe(path: &Path) {
    let (mode, fifo) = (rustix::fs::Mode::from_raw_mode(0o600), rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(rustix::fs::CWD, path, fifo, mode, 0).unwrap();
}

/// A folder with ten packets.
fn filled() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tier = Tier::open(folder.path(), &options(EngineKind::Inline)).unwrap();
    write(&tier, 0..10);
    tier.close().unwrap();
    folder
}

#[test]
fn a_folder_others_can_write_is_refused() {
    let folder = filled();
    for mode in [0o777, 0o1777, 0o720, 0o702] {
        set_mode(folder.path(), mode);
        let error = open_within_time(folder.path()).map(drop).unwrap_err();
        assert!(error.to_string().contains("go-w"), "{mode:o}: {error}");
    }
    set_mode(folder.path(), 0o755);
    for file in ["key", "segment-0000000001.log"] {
        set_mode(&folder.path().join(file), 0o666);
        let error = open_within_time(folder.path()).map(drop).unwrap_err();
        assert!(error.to_string().contains(file), "{error}");
        set_mode(&folder.path().join(file), 0o600);
    }
    assert_eq!(open_within_time(folder.path()).unwrap().status().records, 10);
}

#[test]
fn a_named_group_may_write_the_folder() {
    let folder = filled();
    let gid = fs::metadata(folder.path()).unwrap().gid();
    set_mode(folder.path(), 0o770);
    set_mode(&folder.path().join("key"), 0o660);
    let open = |group| Tier::open(folder.path(), &Options { group, ..options(EngineKind::Inline) });
    assert_eq!(open(Some(gid)).unwrap().status().records, 10);
    let error = open(Some(gid + 1)).map(drop).unwrap_err();
    assert!(error.to_string().contains("cs.disk.group"), "{error}");
    // A folder that other users than the group may write is always refused.
    set_mode(folder.path(), 0o772);
    assert!(open(Some(gid)).is_err());
}

#[test]
fn a_device_others_can_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    fs::File::create_new(&path).unwrap().set_len(DEVICE_OCTETS_MIN).unwrap();
    set_mode(&path, 0o600);
    drop(open_within_time(&path).unwrap());
    set_mode(&path, 0o660);
    assert!(open_within_time(&path).is_err());
    set_mode(&path, 0o600);
    symlink(&path, folder.path().join("link")).unwrap();
    drop(open_within_time(&folder.path().join("link")).unwrap());
    fs::remove_file(&path).unwrap();
    pipe(&path);
    assert!(open_within_time(&path).is_err());
}

#[test]
fn pipes_and_links_are_never_followed() {
    let outside = tempfile::tempdir().unwrap();
    let dear = outside.path().join("dear");
    fs::write(&dear, "dear").unwrap();
    for file in ["lock", "key", "segment-0000000001.log"] {
        let folder = filled();
        let path = folder.path().join(file);
        fs::remove_file(&path).unwrap();
        pipe(&path);
        let error = open_within_time(folder.path()).map(drop).unwrap_err();
        assert!(error.to_string().contains(file), "{error}");
        fs::remove_file(&path).unwrap();
        // A read of `/dev/zero` never ends.
        for target in [&dear, Path::new("/dev/zero"), &outside.path().join("nothing")] {
            symlink(target, &path).unwrap();
            let error = open_within_time(folder.path()).map(drop).unwrap_err();
            assert!(error.to_string().contains(file), "{error}");
            fs::remove_file(&path).unwrap();
        }
    }
    // Derived files are made anew.
    for file in ["erased", "segment-0000000001.index"] {
        let folder = filled();
        let path = folder.path().join(file);
        let _ = fs::remove_file(&path);
        pipe(&path);
        assert_eq!(open_within_time(folder.path()).unwrap().status().records, 10, "{file}");
    }
    assert_eq!(names(outside.path()), ["dear"]);
    assert_eq!(fs::read(&dear).unwrap(), b"dear");
}

#[test]
fn a_temporary_link_is_never_written_through() {
    let outside = tempfile::tempdir().unwrap();
    let dear = outside.path().join("dear");
    for (file, temporary) in [("key", "key.new"), ("segment-0000000001.index", "segment-0000000001.new")] {
        let folder = filled();
        fs::write(&dear, "dear").unwrap();
        fs::remove_file(folder.path().join(file)).unwrap();
        symlink(&dear, folder.path().join(temporary)).unwrap();
        drop(open_within_time(folder.path()).unwrap());
        assert_eq!(fs::read(&dear).unwrap(), b"dear", "{file}");
        assert!(fs::symlink_metadata(folder.path().join(file)).unwrap().is_file());
        assert_eq!(fs::metadata(&dear).unwrap().nlink(), 1);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

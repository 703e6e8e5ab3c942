//! Old answers: a peer that can answer instead of the producer has old packets with the producer's
//! signature.

use crate::common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use common::{believing, connect, key_of, name, unwatched};
use namely_files::{FileServer, GetError, GetOptions, Input, Put, PutOptions, ServeOptions, get};
use namely_testkit::{Need, skip};

#[test]
fn an_older_version_needs_permission_to_replace() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("served")).unwrap();
    let set = |content: &str, age_s: u64| {
        fs::write(at("served/f"), content).unwrap();
        let file = fs::File::options().write(true).open(at("served/f")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
    };
    if rustix::fs::setxattr(directory.path(), "user.namely.test", b"", rustix::fs::XattrFlags::empty())
        .is_err()
    {
        return skip(Need::Kernel, "this file system has no attributes");
    }
    let (signer, anchor) = key_of("/p");
    set("new", 10);
    let server = FileServer::new(&at("served"), ServeOptions::new(name("/p")), signer).unwrap();
    let consumer = connect(server, believing(anchor));
    let fetch = |options| get(&consumer, &name("/p/f"), &at("f"), options, &mut unwatched);
    fetch(GetOptions::default()).unwrap();
    fetch(GetOptions::default()).unwrap();

    set("old", 1000);
    // As `umask` may leave it.
    fs::set_permissions(at("f"), fs::Permissions::from_mode(0o664)).unwrap();
    let error = fetch(GetOptions::default()).unwrap_err();
    assert!(matches!(error, GetError::Older { .. }), "{error}");
    assert_eq!(fs::read(at("f")).unwrap(), b"new");
    fetch(GetOptions { allow_older: true, ..GetOptions::default() }).unwrap();
    assert_eq!(fs::read(at("f")).unwrap(), b"old");
    // A file that another program put there has no version.
    fs::remove_file(at("f")).unwrap();
    fs::write(at("f"), "mine").unwrap();
    set("older", 2000);
    fetch(GetOptions::default()).unwrap();
    assert_eq!(fs::read(at("f")).unwrap(), b"older");
}

#[test]
fn stale_and_future_versions_are_refused() {
    let target = tempfile::tempdir().unwrap();
    let target = target.path().join("f");
    let now_ms = namely_host::clock::unix_ns() / 1_000_000;
    let hour_ms = 3_600_000;
    for (made_ms, age_max_s, is_taken) in [
        (now_ms, Some(600), true),
        (now_ms - hour_ms, Some(600), false),
        (now_ms - hour_ms, Some(7200), true),
        (now_ms - hour_ms, None, true),
        (now_ms + hour_ms, Some(600), false),
        (now_ms + hour_ms, None, true),
    ] {
        let (signer, anchor) = key_of("/p");
        let input = Input::read(&mut &b"content"[..], 100, &std::env::temp_dir()).unwrap();
        let put = Put::new(input, PutOptions::new(name("/p/o"), made_ms), signer).unwrap();
        let consumer = connect(put, believing(anchor));
        let age_max = age_max_s.map(Duration::from_secs);
        let options = GetOptions { age_max, allow_older: true, ..GetOptions::default() };
        let got = get(&consumer, &name("/p/o"), &target, options, &mut unwatched);
        assert_eq!(got.is_ok(), is_taken, "{made_ms}, now {now_ms}: {got:?}");
        let Err(error) = got else { continue };
        assert!(matches!(error, GetError::TooOld { .. } | GetError::Future { .. }), "{error}");
        assert!(error.hint().is_some());
    }
}

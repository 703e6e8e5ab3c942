//! `namely mount`: other programs read the files.

use std::fs;
use std::process::Command;

use namely_testkit::{Need, skip};

use crate::common::{Home, write_file};

#[test]
fn other_programs_read_a_mounted_directory() {
    let mut home = Home::with_router();
    fs::create_dir_all(home.path("data/sub")).unwrap();
    write_file(&home.path("data/sub/a.bin"), 500_000, 1);
    home.serve("/lab", ["serve", "data", "--prefix", "/lab"]);
    fs::create_dir(home.path("copy")).unwrap();
    let error = home.fails(1, ["mount", "/lab", "missing"]);
    assert!(error.contains("missing is not a directory") && error.contains("mkdir"), "{error}");
    let error = home.fails(4, ["mount", "/lab/sub/a.bin", "copy"]);
    assert!(error.contains("/lab/sub/a.bin is not a directory"), "{error}");

    let mount = home.spawn(home.namely(["mount", "/lab", "copy"]));
    let file = home.path("copy/sub/a.bin");
    home.wait_for("the mount", || file.exists() || home.background_log().contains("cannot mount"));
    if !file.exists() {
        return skip(Need::Mount, home.background_log());
    }
    let same = Command::new("cmp").arg(home.path("data/sub/a.bin")).arg(&file).status().unwrap();
    assert!(same.success());
    home.stop(mount);
    assert_eq!(fs::read_dir(home.path("copy")).unwrap().count(), 0, "Ctrl-C unmounts");
}

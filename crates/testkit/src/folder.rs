//! Folders of tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Copies a folder with access for its user only, as the programs create it.
///
/// # Panics
/// If a file cannot be copied.
pub fn copy_private(from: &Path, into: &Path) {
    fs::create_dir(into).expect("nothing is there yet");
    fs::set_permissions(into, fs::Permissions::from_mode(0o700)).expect("the folder is the test's");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = into.join(entry.file_name());
        if entry.path().is_dir() {
            copy_private(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("the file can be read");
            fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).expect("the file is the test's");
        }
    }
}

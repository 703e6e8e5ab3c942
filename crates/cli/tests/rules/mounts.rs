//! A test mounts in a mount namespace of its own. A namespace that another test makes copies the
//! mounts of this process, and the copy keeps the device in use after `umount`.

use super::each_source;

/// Returns true for a source line that mounts in the namespace of the test program.
fn mounts_here(line: &str) -> bool {
    let plain: String = line.split_whitespace().collect();
    plain.contains("Command::new(\"mount\")") || plain.contains("Command::new(\"umount\")")
}

#[test]
fn tests_mount_in_their_own_namespace() {
    let mut found = Vec::new();
    each_source(&mut |name, text| {
        if !name.ends_with("rules/mounts.rs") {
            found.extend(text.lines().filter(|line| mounts_here(line)).map(|line| format!("{name}: {line}")));
        }
    });
    assert!(found.is_empty(), "mount below `unshare --mount`:\n{}", found.join("\n"));
}

#[test]
fn mounts_of_the_test_program_are_detected() {
    assert!(mounts_here("    if !Command::new(\"mount\").arg(path).status()?.success() {"));
    assert!(mounts_here("std::process::Command::new(\"umount\")"));
    assert!(!mounts_here("Command::new(\"unshare\").args([\"--mount\", \"sh\"])"));
}

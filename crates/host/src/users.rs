//! Users by name and number, from `/etc/passwd`. Those of a directory service have a number only.

use std::path::Path;

/// The file in which users are looked up.
const PASSWD: &str = "/etc/passwd";

/// Returns the number of the user `name`; `None` if there is no such user.
pub fn uid_of(name: &str) -> Option<u32> {
    uid_in(Path::new(PASSWD), name)
}

/// Returns the numbers of the user `name` and of its first group; `None` if there is no such user.
pub fn ids_of(name: &str) -> Option<(u32, u32)> {
    let text = std::fs::read_to_string(PASSWD).ok()?;
    let line = text.lines().find(|line| entry(line).is_some_and(|(user, _)| user == name))?;
    Some((entry(line)?.1, line.split(':').nth(3)?.parse().ok()?))
}

/// Returns the number of the user `name` in the file `passwd`.
pub fn uid_in(passwd: &Path, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(passwd).ok()?;
    text.lines().find_map(|line| entry(line).filter(|(user, _)| *user == name).map(|(_, uid)| uid))
}

/// The name of the user with this number, if it has one.
pub fn name_of(uid: u32) -> Option<String> {
    let text = std::fs::read_to_string(PASSWD).ok()?;
    text.lines().find_map(|line| entry(line).filter(|(_, of)| *of == uid).map(|(user, _)| user.to_owned()))
}

/// User and number of a line.
fn entry(line: &str) -> Option<(&str, u32)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    Some((name, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        assert_eq!(entry("alice:x:1007:1007:,:/home/alice:/bin/sh"), Some(("alice", 1007)));
        for bad in ["", "alice", "alice:x", "alice:x:many:", "#"] {
            assert_eq!(entry(bad), None, "{bad}");
        }
        assert_eq!((uid_of("root"), name_of(0).as_deref()), (Some(0), Some("root")));
        assert_eq!((ids_of("root"), ids_of("no such user")), (Some((0, 0)), None));
        assert_eq!(uid_of("no such user"), None);
    }
}

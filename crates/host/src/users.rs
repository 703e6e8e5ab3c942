//! Users by name and number, as `/etc/passwd` lists them. Those of a directory service have a
//! number only.

use std::path::Path;

/// Where users are looked up.
const PASSWD: &str = "/etc/passwd";

/// The number of the user `name`; none if there is no such user.
pub fn uid_of(name: &str) -> Option<u32> {
    uid_in(Path::new(PASSWD), name)
}

/// The numbers of the user `name` and of its first group; none if there is no such user.
pub fn ids_of(name: &str) -> Option<(u32, u32)> {
    let text = std::fs::read_to_string(PASSWD).ok()?;
    let line = text.lines().find(|line| entry(line).is_some_and(|(user, _)| user == name))?;
    Some((entry(line)?.1, line.split(':').nth(3)?.parse().ok()?))
}

/// The same in the file `passwd`.
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
    fn users_are_found_by_name_and_number_and_what_is_no_entry_is_passed_by() {
        assert_eq!(entry("alice:x:1007:1007:,:/home/alice:/bin/sh"), Some(("alice", 1007)));
        for bad in ["", "alice", "alice:x", "alice:x:many:", "#"] {
            assert_eq!(entry(bad), None, "{bad}");
        }
        assert_eq!((uid_of("root"), name_of(0).as_deref()), (Some(0), Some("root")));
        assert_eq!((ids_of("root"), ids_of("no such user")), (Some((0, 0)), None));
        assert_eq!(uid_of("no such user"), None);
    }
}

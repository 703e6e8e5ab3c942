//! The machine's network interfaces.

use std::path::Path;

use rustix::net::{AddressFamily, SocketType, netdevice};

use crate::sockets;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The name, such as `eth0`.
    pub name: String,
    /// Whether it is up.
    pub is_up: bool,
    /// Whether it is a loopback interface.
    pub is_loopback: bool,
    /// Whether it supports multicast.
    pub is_multicast: bool,
}

/// Returns the name of the interface with this number; `None` if there is none.
pub fn name_of(index: u32) -> Option<String> {
    // Any socket gives access to the table of interfaces (netdevice(7)).
    let socket = sockets::open(AddressFamily::INET, SocketType::DGRAM).ok()?;
    netdevice::index_to_name(&socket, index).ok()
}

/// Returns the number of the interface with this name; `None` if there is none.
pub fn index_of(name: &str) -> Option<u32> {
    let socket = sockets::open(AddressFamily::INET, SocketType::DGRAM).ok()?;
    netdevice::name_to_index(&socket, name).ok()
}

/// Returns the present interfaces, sorted by name. The list is empty if the system provides none.
pub fn list() -> Vec<Interface> {
    let mut interfaces = list_in(Path::new("/sys/class/net"));
    // The directory has no stable order.
    interfaces.sort_by(|a, b| a.name.cmp(&b.name));
    interfaces
}

fn list_in(directory: &Path) -> Vec<Interface> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            // An interface that was removed meanwhile is skipped.
            let flags = std::fs::read_to_string(entry.path().join("flags")).ok()?;
            let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).ok()?;
            Some(interface(name, flags))
        })
        .collect()
}

/// Makes an interface from its flags: IFF_UP, IFF_LOOPBACK and IFF_MULTICAST of netdevice(7).
fn interface(name: String, flags: u32) -> Interface {
    let has = |bit: u32| flags & bit != 0;
    Interface { name, is_up: has(0x1), is_loopback: has(0x8), is_multicast: has(0x1000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_up() {
        let loopback = list().into_iter().find(|interface| interface.name == "lo");
        assert_eq!(name_of(1).as_deref(), Some("lo"), "the loopback is the first device of a namespace");
        assert_eq!((name_of(u32::MAX), index_of("lo"), index_of("no-such0")), (None, Some(1), None));
        // A container may hide /sys.
        assert!(loopback.is_none_or(|interface| interface.is_loopback));
    }

    #[test]
    fn interface_flags_match_the_system() {
        let directory = tempfile::tempdir().unwrap();
        for (name, flags) in [("lo", "0x9\n"), ("eth0", "0x1003\n"), ("down0", "0x1002\n"), ("odd", "?\n")] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
            std::fs::write(directory.path().join(name).join("flags"), flags).unwrap();
        }
        let mut names: Vec<(String, bool, bool)> =
            list_in(directory.path()).into_iter().map(|i| (i.name, i.is_up, i.is_multicast)).collect();
        names.sort();
        let expected = [("down0", false, true), ("eth0", true, true), ("lo", true, false)];
        assert_eq!(names, expected.map(|(name, up, multicast)| (name.to_string(), up, multicast)));
    }
}

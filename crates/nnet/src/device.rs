//! Network devices of the caller's network namespace, by name and index.

use rustix::io::Errno;
use rustix::net::netdevice;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

fn any_socket() -> Result<std::os::fd::OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

/// The index of the device `name`.
///
/// # Errors
/// Caller: there is none (`NODEV`).
pub fn index(name: &str) -> Result<u32, Errno> {
    netdevice::name_to_index(any_socket()?, name)
}

/// The name of the device with the index `index`.
///
/// # Errors
/// Caller: there is none (`NODEV`).
pub fn name(index: u32) -> Result<String, Errno> {
    netdevice::index_to_name(any_socket()?, index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_a_device_index() {
        let number = index("lo").unwrap();
        assert_eq!(name(number).as_deref(), Ok("lo"));
        assert_eq!(index("no-such-device"), Err(Errno::NODEV));
        assert!(index(&"x".repeat(64)).is_err());
    }
}

//! Names as addresses: the fields of a `sockaddr_icn`, and its text.
//!
//! Follows the NDN Packet Format Specification v0.3 for names and the URI form of the NDN naming
//! conventions.

use namely_wire::{Name, NameRef};

use crate::failure::Errno;
use crate::types::{AF_ICN, ICN_NAME_OCTETS_MAX, sockaddr_icn};

/// The name in an address; `octets_given` is the caller's length of the structure.
pub(crate) fn name_of(address: &sockaddr_icn, octets_given: usize) -> Result<Name, Errno> {
    if address.sicn_family != AF_ICN as u16 {
        return Err(Errno(libc::EAFNOSUPPORT));
    }
    let octets = usize::from(address.sicn_octets);
    if octets > ICN_NAME_OCTETS_MAX || octets_given < used_octets(octets) {
        return Err(Errno(libc::EINVAL));
    }
    let name = NameRef::parse_value(&address.sicn_name[..octets]).map_err(|_| Errno(libc::EINVAL))?;
    Ok(name.to_name())
}

/// The address of a name.
pub(crate) fn address_of(name: &Name) -> Result<sockaddr_icn, Errno> {
    let octets = name.as_bytes();
    let length = u16::try_from(octets.len()).map_err(|_| Errno(libc::ENAMETOOLONG))?;
    let mut address = sockaddr_icn::default();
    let room = address.sicn_name.get_mut(..octets.len()).ok_or(Errno(libc::ENAMETOOLONG))?;
    room.copy_from_slice(octets);
    address.sicn_octets = length;
    Ok(address)
}

/// Octets of an address with a name of `name_octets`. The octets behind the name may be absent.
pub(crate) fn used_octets(name_octets: usize) -> usize {
    std::mem::offset_of!(sockaddr_icn, sicn_name) + name_octets
}

#[cfg(test)]
mod tests {
    use namely_testkit::name;

    use super::*;

    #[test]
    fn names_survive_the_address_round_trip() {
        for uri in ["/", "/a", "/a/b/v=7/seg=0", "/%00%FF/..."] {
            let address = address_of(&name(uri)).unwrap();
            let octets = used_octets(usize::from(address.sicn_octets));
            assert_eq!(name_of(&address, octets).unwrap(), name(uri), "{uri}");
            assert!(name_of(&address, octets - 1).is_err(), "{uri}: shorter than its name");
        }
    }

    #[test]
    fn an_address_holds_names_of_2048_octets() {
        let longest = Name::new().join_generic(vec![b'x'; ICN_NAME_OCTETS_MAX - 4]);
        assert_eq!(longest.as_bytes().len(), ICN_NAME_OCTETS_MAX);
        assert!(address_of(&longest).is_ok());
        let longer = Name::new().join_generic(vec![b'x'; ICN_NAME_OCTETS_MAX - 3]);
        assert_eq!(address_of(&longer).unwrap_err(), Errno(libc::ENAMETOOLONG));
    }

    #[test]
    fn invalid_name_octets_are_refused() {
        let mut address = address_of(&name("/abc")).unwrap();
        address.sicn_name[1] = 200;
        assert_eq!(name_of(&address, size_of::<sockaddr_icn>()).unwrap_err(), Errno(libc::EINVAL));
        address.sicn_octets = u16::MAX;
        assert_eq!(name_of(&address, usize::MAX).unwrap_err(), Errno(libc::EINVAL));
        address.sicn_family = libc::AF_INET as u16;
        assert_eq!(name_of(&address, usize::MAX).unwrap_err(), Errno(libc::EAFNOSUPPORT));
    }
}

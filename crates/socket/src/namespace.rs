//! The prefix that limits the names a socket may request or publish (HT-05, IS-23).

use namely_wire::{Name, NameRef};

/// Octets of a prefix that can be bound, as the encoded components.
///
/// # Limit
/// `bind` is refused with `ENAMETOOLONG`.
/// - Tests: `a_prefix_is_bound_up_to_the_limits`
pub const PREFIX_OCTETS_MAX: usize = 255;

/// Components of a prefix that can be bound.
///
/// # Limit
/// `bind` is refused with `ENAMETOOLONG`.
/// - Tests: `a_prefix_is_bound_up_to_the_limits`
pub const PREFIX_COMPONENTS_MAX: usize = 32;

/// Octets of an encoded name that is requested or published.
///
/// The limit leaves space in each packet for more components, a signature and content.
///
/// # Limit
/// The call is refused with `ENAMETOOLONG`.
/// - Tests: `a_name_below_the_prefix_is_limited`
pub const NAME_OCTETS_MAX: usize = 2048;

/// A name that a socket refuses; the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Longer than a prefix may be: [`PREFIX_OCTETS_MAX`], [`PREFIX_COMPONENTS_MAX`].
    #[error(
        "the prefix {0} is too long: a socket binds {PREFIX_OCTETS_MAX} octets and \
         {PREFIX_COMPONENTS_MAX} components at most"
    )]
    PrefixTooLong(Name),
    /// Longer than [`NAME_OCTETS_MAX`].
    #[error("a name of {octets} octets is too long: {NAME_OCTETS_MAX} at most")]
    TooLong {
        /// Its octets.
        octets: usize,
    },
    /// Not below the socket's prefix.
    #[error("{name} is outside the socket's prefix {prefix}: bind another socket for it")]
    Outside {
        /// The name.
        name: Name,
        /// The socket's prefix.
        prefix: Name,
    },
}

impl NameError {
    /// The matching `errno` of a system call: `ENAMETOOLONG` or `EADDRNOTAVAIL`.
    pub fn errno(&self) -> i32 {
        match self {
            NameError::PrefixTooLong(_) | NameError::TooLong { .. } => crate::errno::NAMETOOLONG,
            NameError::Outside { .. } => crate::errno::ADDRNOTAVAIL,
        }
    }
}

/// Checks a prefix before it is bound.
pub(crate) fn check_prefix(prefix: &Name) -> Result<(), NameError> {
    let fits = prefix.as_bytes().len() <= PREFIX_OCTETS_MAX && prefix.len() <= PREFIX_COMPONENTS_MAX;
    if fits { Ok(()) } else { Err(NameError::PrefixTooLong(prefix.clone())) }
}

/// Checks a name that is requested or published on a socket bound to `prefix`.
pub(crate) fn check_name(prefix: &Name, name: NameRef<'_>) -> Result<(), NameError> {
    let octets = name.as_bytes().len();
    if octets > NAME_OCTETS_MAX {
        return Err(NameError::TooLong { octets });
    }
    if !prefix.is_prefix_of(name) {
        return Err(NameError::Outside { name: name.to_name(), prefix: prefix.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_bound_up_to_the_limits() {
        let exact = Name::new().join_generic([b'x'; 200]).join_generic([b'x'; 51]);
        assert_eq!(exact.as_bytes().len(), PREFIX_OCTETS_MAX);
        assert_eq!(check_prefix(&exact), Ok(()));
        let past = Name::new().join_generic([b'x'; 200]).join_generic([b'x'; 52]);
        assert_eq!(check_prefix(&past).unwrap_err().errno(), crate::errno::NAMETOOLONG);
        let components = |n: usize| (0..n).fold(Name::new(), |name, _| name.join_generic("c"));
        assert_eq!(check_prefix(&components(PREFIX_COMPONENTS_MAX)), Ok(()));
        assert!(check_prefix(&components(PREFIX_COMPONENTS_MAX + 1)).is_err());
    }

    #[test]
    fn a_name_below_the_prefix_is_limited() {
        let prefix: Name = "/a/b".parse().unwrap();
        assert_eq!(check_name(&prefix, prefix.as_name()), Ok(()));
        assert_eq!(check_name(&prefix, "/a/b/c".parse::<Name>().unwrap().as_name()), Ok(()));
        let outside = check_name(&prefix, "/a/bc".parse::<Name>().unwrap().as_name()).unwrap_err();
        assert_eq!(outside.errno(), crate::errno::ADDRNOTAVAIL);
        let long = |n: usize| prefix.join_generic(vec![b'x'; n - prefix.as_bytes().len() - 4]);
        assert_eq!(long(NAME_OCTETS_MAX).as_bytes().len(), NAME_OCTETS_MAX);
        assert_eq!(check_name(&prefix, long(NAME_OCTETS_MAX).as_name()), Ok(()));
        let past = check_name(&prefix, long(NAME_OCTETS_MAX + 1).as_name()).unwrap_err();
        assert_eq!(past, NameError::TooLong { octets: NAME_OCTETS_MAX + 1 });
    }
}

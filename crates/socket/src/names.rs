//! Names of applications and names of the network (HT-09). An application has its own names: URLs,
//! DOIs, URNs, keys of a database. Under a prefix each of them is one component, so that they need
//! no routes of their own, cannot clash with each other, and both ends find one from the other
//! without a table to look it up in.

use namely_wire::types::{GENERIC_COMPONENT, KEYWORD_COMPONENT};
use namely_wire::{Component, Name, NameRef};

use crate::namespace::{self, NameError};

/// The component that stands before an application's name.
const APPLICATION: Component<'static> = Component { typ: KEYWORD_COMPONENT, value: b"app" };

/// The name in the network of what an application calls `application`.
///
/// ```
/// use namely_socket::{application_name, network_name};
/// let prefix = "/lab".parse().expect("a name");
/// let name = network_name(&prefix, "doi:10.1000/182")?;
/// assert_eq!(name.to_string(), "/lab/32=app/doi%3A10.1000%2F182");
/// assert_eq!(application_name(&prefix, name.as_name()).as_deref(), Some("doi:10.1000/182"));
/// # Ok::<(), namely_socket::NameError>(())
/// ```
///
/// # Errors
/// The name would be longer than [`crate::NAME_OCTETS_MAX`].
pub fn network_name(prefix: &Name, application: &str) -> Result<Name, NameError> {
    let name = prefix.join(APPLICATION).join_generic(application);
    namespace::check_name(prefix, name.as_name())?;
    Ok(name)
}

/// What an application calls `name`, or the object that `name` is a part of.
pub fn application_name(prefix: &Name, name: NameRef<'_>) -> Option<String> {
    let is_mapped = prefix.is_prefix_of(name) && name.component(prefix.len()) == Some(APPLICATION);
    let component = name.component(prefix.len() + 1).filter(|component| component.typ == GENERIC_COMPONENT);
    component.filter(|_| is_mapped).and_then(|component| String::from_utf8(component.value.to_vec()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_name_has_one_network_name_and_back() {
        let prefix: Name = "/lab/a".parse().unwrap();
        let names =
            ["https://example.org/a/b?c=d", "urn:isbn:3161484100", "", "/lab/a", "ä\0ö", "a%2Fb", "a/b"];
        let mapped: Vec<Name> = names.iter().map(|name| network_name(&prefix, name).unwrap()).collect();
        for (name, mapped) in names.iter().zip(&mapped) {
            assert_eq!(application_name(&prefix, mapped.as_name()).as_deref(), Some(*name));
            let segment = mapped.join_version(7).join_segment(3);
            assert_eq!(application_name(&prefix, segment.as_name()).as_deref(), Some(*name));
        }
        let different: std::collections::BTreeSet<_> = mapped.iter().collect();
        assert_eq!(different.len(), names.len());
        assert_eq!(application_name(&prefix, prefix.as_name()), None);
        assert_eq!(application_name(&prefix, "/lab/a/x/y".parse::<Name>().unwrap().as_name()), None);
        let long = "x".repeat(namespace::NAME_OCTETS_MAX);
        assert!(matches!(network_name(&prefix, &long), Err(NameError::TooLong { .. })));
    }
}

//! Maps an application's own names, such as URLs, DOIs, URNs and database keys, to network names
//! (HT-09). Each of them becomes one component below a prefix. The network names need no routes of
//! their own and cannot collide. Producers and consumers convert in both directions without a
//! lookup table.

use namely_wire::types::{GENERIC_COMPONENT, KEYWORD_COMPONENT};
use namely_wire::{Component, Name, NameRef};

use crate::namespace::{self, NameError};

/// The component before an application's name.
const APPLICATION: Component<'static> = Component { typ: KEYWORD_COMPONENT, value: b"app" };

/// Returns the network name of the application's name `application`.
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

/// Returns the application's name for the network name `name`, which may continue with further
/// components, such as a version and a segment. None if `name` is not such a name.
pub fn application_name(prefix: &Name, name: NameRef<'_>) -> Option<String> {
    let is_mapped = prefix.is_prefix_of(name) && name.component(prefix.len()) == Some(APPLICATION);
    let component = name.component(prefix.len() + 1).filter(|component| component.typ == GENERIC_COMPONENT);
    component.filter(|_| is_mapped).and_then(|component| String::from_utf8(component.value.to_vec()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn application_names_map_to_unique_network_names() {
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

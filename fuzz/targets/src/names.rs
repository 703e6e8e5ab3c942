//! Names that are decoded from octets or parsed from text.

use std::cmp::Ordering;

use namely_wire::{Name, NameRef};

/// Checks the input as a URI, as the octets of a name, and as two names that are compared.
pub(crate) fn name_uri(octets: &[u8]) {
    if let Ok(name) = String::from_utf8_lossy(octets).parse::<Name>() {
        survives(name.as_name());
    }
    if let Ok(name) = NameRef::parse_value(octets) {
        assert_eq!(name.as_bytes(), octets);
        survives(name);
    }
    let Some((at, rest)) = octets.split_first() else { return };
    let (a, b) = rest.split_at(usize::from(*at).min(rest.len()));
    if let (Ok(a), Ok(b)) = (NameRef::parse_value(a), NameRef::parse_value(b)) {
        order(a, b);
        order(b, a);
    }
}

/// The URI of the name parses to the same name, and its components and prefixes agree with it.
fn survives(name: NameRef<'_>) {
    let uri = name.to_string();
    assert_eq!(uri.parse::<Name>().as_ref().map(Name::as_name), Ok(name), "{uri}");
    let mut again = Name::new();
    for component in name.components() {
        again.push(component);
    }
    assert_eq!(again.as_name(), name);
    for n in 0..=name.len() {
        let prefix = name.prefix(n);
        assert_eq!(prefix.len(), n);
        assert!(prefix.is_prefix_of(name));
        assert_eq!(prefix.cmp(&name), n.cmp(&name.len()));
    }
}

fn order(a: NameRef<'_>, b: NameRef<'_>) {
    assert_eq!(a.cmp(&b), a.components().cmp(b.components()));
    assert_eq!(a.cmp(&b) == Ordering::Equal, a == b);
    let starts = a.len() <= b.len() && a.components().zip(b.components()).all(|(x, y)| x == y);
    assert_eq!(a.is_prefix_of(b), starts);
}

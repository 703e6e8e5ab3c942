//! Names and packets that tests of many crates need.

use std::ops::Range;

use namely_wire::Name;
use proptest::strategy::Strategy;

/// The name that a URI stands for.
///
/// # Panics
/// `uri` is no name.
pub fn name(uri: &str) -> Name {
    uri.parse().unwrap_or_else(|error| panic!("{uri}: {error}"))
}

/// Names of generic components, each one of the first `alphabet` letters. Few letters and few
/// components make prefixes and equal names likely.
pub fn names(alphabet: u8, components: Range<usize>) -> impl Strategy<Value = Name> {
    proptest::collection::vec(0..alphabet, components)
        .prop_map(|parts| parts.iter().fold(Name::new(), |name, part| name.join_generic([b'a' + part])))
}

/// A value that a keyed hash of `n` could have (SplitMix64).
pub fn hash(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A Data with `octets` octets of content, each `fill`; signed once.
#[cfg(feature = "signed")]
pub fn signed(name: &Name, fill: u8, octets: usize) -> Vec<u8> {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use namely_security::{Signer, sign_data};
    use namely_wire::DataBuilder;

    type Signed = BTreeMap<(String, u8, usize), Vec<u8>>;
    thread_local!(static PACKETS: RefCell<Signed> = const { RefCell::new(BTreeMap::new()) });
    let sign = || {
        let data = DataBuilder::new(name.as_name());
        sign_data(&data, &vec![fill; octets], &Signer::digest_sha256()).unwrap()
    };
    let key = (name.to_string(), fill, octets);
    PACKETS.with_borrow_mut(|packets| packets.entry(key).or_insert_with(sign).clone())
}

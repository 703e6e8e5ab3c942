//! Keyed, incremental name hashes: one pass over a name yields the hash of each of its prefixes.

use core::hash::Hasher;

use namely_wire::NameRef;
use namely_wire::name::COMPONENTS_MAX;
use namely_wire::tlv::Reader;
use siphasher::sip::SipHasher13;

/// Makes name hashes under a key that peers cannot know, so that they cannot choose colliding names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameHasher {
    keys: (u64, u64),
    // All ones but in tests, which make hashes collide to show that names decide.
    mask: u64,
}

impl NameHasher {
    pub(crate) fn new(keys: (u64, u64)) -> Self {
        NameHasher { keys, mask: u64::MAX }
    }

    /// A hasher that knows only `mask + 1` hashes.
    #[cfg(test)]
    pub(crate) fn colliding(mask: u64) -> Self {
        NameHasher { keys: (1, 2), mask }
    }

    /// The hash of a whole name, given its octets.
    pub(crate) fn whole(&self, octets: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        hasher.write(octets);
        hasher.finish() & self.mask
    }

    /// The hashes of all prefixes of `name`.
    pub(crate) fn prefixes(&self, name: NameRef<'_>) -> NameHashes {
        let mut hashes =
            NameHashes { len: 0, ends: [0; COMPONENTS_MAX + 1], hashes: [0; COMPONENTS_MAX + 1] };
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        hashes.hashes[0] = hasher.finish() & self.mask;
        let mut reader = Reader::new(name.as_bytes());
        while let Ok(Some(component)) = reader.next_tlv() {
            if hashes.len == COMPONENTS_MAX {
                break;
            }
            hasher.write(component.raw);
            hashes.len += 1;
            hashes.ends[hashes.len] = reader.position() as u16;
            hashes.hashes[hashes.len] = hasher.finish() & self.mask;
        }
        hashes
    }
}

/// The hash and the size of every prefix of one name, from `/` to the whole name.
#[derive(Clone, Debug)]
pub(crate) struct NameHashes {
    len: usize,
    // A packet is at most PACKET_OCTETS_MAX octets, so positions fit.
    ends: [u16; COMPONENTS_MAX + 1],
    hashes: [u64; COMPONENTS_MAX + 1],
}

const _: () =
    assert!(namely_wire::PACKET_OCTETS_MAX <= u16::MAX as usize, "positions in a packet fit 16 bits");

impl NameHashes {
    /// Components of the name.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Octets of the first `n` components; `n` is at most [`NameHashes::len`].
    pub(crate) fn end(&self, n: usize) -> usize {
        usize::from(self.ends[n])
    }

    /// The hash of the first `n` components; `n` is at most [`NameHashes::len`].
    pub(crate) fn hash(&self, n: usize) -> u64 {
        self.hashes[n]
    }

    /// The hash of the whole name.
    pub(crate) fn whole(&self) -> u64 {
        self.hashes[self.len]
    }
}

/// What the next value of a seeded sequence is made from: `state` plus a step, mixed (SplitMix64).
pub(crate) fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The step of the sequence that [`mix`] scrambles.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;
    use namely_wire::Name;

    #[test]
    fn each_prefix_has_the_hash_it_has_as_a_name_of_its_own() {
        let hasher = NameHasher::new((3, 4));
        let name: Name = "/a/bb/32=c/seg=70000/%00".parse().unwrap();
        let hashes = hasher.prefixes(name.as_name());
        assert_eq!(hashes.len(), 5);
        for n in 0..=5 {
            let prefix = name.as_name().prefix(n);
            assert_eq!(hashes.hash(n), hasher.prefixes(prefix).whole());
            assert_eq!(hashes.hash(n), hasher.whole(prefix.as_bytes()));
            assert_eq!(hashes.end(n), prefix.as_bytes().len());
        }
    }

    #[test]
    fn the_key_changes_every_hash() {
        let name: Name = "/a/b".parse().unwrap();
        let one = NameHasher::new((1, 2)).prefixes(name.as_name());
        let other = NameHasher::new((1, 3)).prefixes(name.as_name());
        assert!((0..=2).all(|n| one.hash(n) != other.hash(n)));
    }

    #[test]
    fn component_boundaries_count() {
        let hasher = NameHasher::new((1, 2));
        let hash = |uri: &str| hasher.prefixes(uri.parse::<Name>().unwrap().as_name()).whole();
        assert_ne!(hash("/A/BC"), hash("/AB/C"));
        assert_ne!(hash("/A/B"), hash("/A/BC"));
    }
}

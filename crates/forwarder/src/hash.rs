//! Keyed, incremental name hashes: one pass over a name yields the hash of each of its prefixes.
//!
//! The hash is SipHash-1-3 of the components' TLVs, each followed by zeros up to a multiple of 8
//! octets. As a TLV says how long it is, different names have different paddings; and as each
//! component starts a word of its own, a prefix is finished without disturbing what follows it.
//!
//! SipHash is a pseudorandom function as far as is known: who does not know the key cannot choose
//! names that collide, even after learning of hashes. Three rounds at the end of each prefix are
//! what that costs; hashes with less behind them were 1 to 2 % faster in the core, which is not
//! worth it (docs/performance.md).

use namely_wire::COMPONENTS_MAX;
#[cfg(test)]
use namely_wire::NameRef;
use namely_wire::tlv::read_header;

/// Makes name hashes under a key that peers cannot know, so that they cannot choose colliding
/// names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameHasher {
    /// The state that the key makes.
    start: SipState,
    /// The hash of `/`.
    root: u64,
    // All ones but in tests, which make hashes collide to show that names decide.
    mask: u64,
}

impl NameHasher {
    pub(crate) fn new(seed: u128) -> Self {
        let start = SipState::new(seed as u64, (seed >> 64) as u64);
        NameHasher { start, root: start.finish(), mask: u64::MAX }
    }

    /// A hasher whose key is always the same.
    #[cfg(test)]
    pub(crate) fn fixed() -> Self {
        NameHasher::new(1)
    }

    /// The same, but it knows only `mask + 1` hashes.
    #[cfg(test)]
    pub(crate) fn colliding(mask: u64) -> Self {
        NameHasher { mask, ..NameHasher::fixed() }
    }

    /// A number that only who knows the key can tell, and that is no name's hash: no component has
    /// the TYPE 0.
    pub(crate) fn secret(&self) -> u64 {
        let mut state = self.start;
        state.word(0);
        state.finish()
    }

    /// A hash for the id of an object, under which nobody else finds it.
    #[cfg(feature = "vip")]
    pub(crate) fn of_object(&self, id: u64) -> u64 {
        mix(self.secret() ^ id)
    }

    /// The hash of a whole name, given its octets.
    pub(crate) fn whole(&self, octets: &[u8]) -> u64 {
        let mut state = self.start;
        let mut rest = octets;
        while let Some(component) = first_component(rest) {
            state.absorb(component);
            rest = &rest[component.len()..];
        }
        state.finish() & self.mask
    }

    /// The hashes of all prefixes of `name`.
    #[cfg(test)]
    pub(crate) fn prefixes(&self, name: NameRef<'_>) -> NameHashes {
        let mut hashes = NameHashes::new();
        self.fill(name.as_bytes(), &mut hashes);
        hashes
    }

    /// Puts the hashes of all prefixes of a name, given its octets, in the place of what `hashes`
    /// holds. Octets that are no name make hashes of nothing.
    pub(crate) fn fill(&self, octets: &[u8], hashes: &mut NameHashes) {
        let NameHashes { len, ends, hashes } = hashes;
        hashes[0] = self.root & self.mask;
        let (mut state, mut rest, mut n) = (self.start, octets, 0);
        for (hash, end) in hashes[1..].iter_mut().zip(&mut ends[1..]) {
            let Some(component) = first_component(rest) else { break };
            state.absorb(component);
            rest = &rest[component.len()..];
            *hash = state.finish() & self.mask;
            *end = (octets.len() - rest.len()) as u16;
            n += 1;
        }
        *len = n;
    }
}

/// The octets of the component that starts `octets`, of a name that was checked.
#[inline]
fn first_component(octets: &[u8]) -> Option<&[u8]> {
    if octets.is_empty() {
        return None;
    }
    let (_, length, header) = read_header(octets).ok()?;
    octets.get(..header + length)
}

/// SipHash-1-3 (Aumasson and Bernstein, 2012) over whole words.
#[derive(Clone, Copy, Debug)]
struct SipState {
    v: [u64; 4],
    words: u64,
}

impl SipState {
    const fn new(k0: u64, k1: u64) -> Self {
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        SipState { v, words: 0 }
    }

    /// Takes in `octets`, padded with zeros to whole words.
    #[inline]
    fn absorb(&mut self, octets: &[u8]) {
        let (words, rest) = octets.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let last = match octets.last_chunk::<8>() {
                Some(last) => u64::from_le_bytes(*last) >> (8 * (8 - rest.len())),
                None => rest.iter().rev().fold(0, |word, octet| word << 8 | u64::from(*octet)),
            };
            self.word(last);
        }
    }

    #[inline]
    fn word(&mut self, word: u64) {
        self.v[3] ^= word;
        self.round();
        self.v[0] ^= word;
        self.words += 1;
    }

    /// The hash of what was taken in so far.
    #[inline]
    fn finish(mut self) -> u64 {
        // The last word holds the length, modulo 256, and no octets.
        self.word((self.words * 8) << 56);
        self.v[2] ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3]
    }

    #[inline]
    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.v;
        *v0 = v0.wrapping_add(*v1);
        *v2 = v2.wrapping_add(*v3);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v1);
        *v0 = v0.wrapping_add(*v3);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.rotate_left(32);
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
    /// Those of no name.
    pub(crate) fn new() -> Self {
        NameHashes { len: 0, ends: [0; COMPONENTS_MAX + 1], hashes: [0; COMPONENTS_MAX + 1] }
    }

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
    use alloc::vec::Vec;
    use core::hash::Hasher;
    use namely_wire::Name;
    use namely_wire::tlv::Reader;
    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// The hash is that of an implementation of SipHash by others.
        #[test]
        fn a_names_hash_is_siphash_of_its_padded_components(
            seed in any::<u128>(),
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..12),
        ) {
            let name = values.iter().fold(Name::new(), |name, value| name.join_generic(value));
            let mut padded = Vec::new();
            let mut reader = Reader::new(name.as_bytes());
            while let Ok(Some(component)) = reader.next_tlv() {
                padded.extend_from_slice(component.raw);
                padded.resize(padded.len().next_multiple_of(8), 0);
            }
            let mut theirs = SipHasher13::new_with_key(&seed.to_le_bytes());
            theirs.write(&padded);
            prop_assert_eq!(NameHasher::new(seed).prefixes(name.as_name()).whole(), theirs.finish());
        }
    }

    #[test]
    fn each_prefix_has_the_hash_it_has_as_a_name_of_its_own() {
        let hasher = NameHasher::new(3);
        let name: Name = "/a/bb/32=c/seg=70000/%00/fifteen-octets-and-some-more/x".parse().unwrap();
        let hashes = hasher.prefixes(name.as_name());
        assert_eq!(hashes.len(), 7);
        for n in 0..=7 {
            let prefix = name.as_name().prefix(n);
            assert_eq!(hashes.hash(n), hasher.prefixes(prefix).whole());
            assert_eq!(hashes.hash(n), hasher.whole(prefix.as_bytes()));
            assert_eq!(hashes.end(n), prefix.as_bytes().len());
        }
    }

    #[test]
    fn every_part_of_the_seed_changes_every_hash() {
        let name: Name = "/a/b".parse().unwrap();
        let (zero, one) = (NameHasher::new(0), NameHasher::new(0).prefixes(name.as_name()));
        for bit in 0..128 {
            let hasher = NameHasher::new(1 << bit);
            let other = hasher.prefixes(name.as_name());
            assert!((0..=2).all(|n| one.hash(n) != other.hash(n)));
            assert_ne!(hasher.secret(), zero.secret());
        }
    }

    #[test]
    fn component_boundaries_types_and_padding_count() {
        let hasher = NameHasher::new(1);
        let hash = |uri: &str| hasher.prefixes(uri.parse::<Name>().unwrap().as_name()).whole();
        assert_ne!(hash("/A/BC"), hash("/AB/C"));
        assert_ne!(hash("/A/B"), hash("/A/BC"));
        assert_ne!(hash("/A"), hash("/32=A"));
        assert_ne!(hash("/A"), hash("/A%00"));
        assert_ne!(hash("/sixoct"), hash("/sixoct%00"));
        assert!(
            (0..=1)
                .all(|n| hasher.prefixes("/A".parse::<Name>().unwrap().as_name()).hash(n) != hasher.secret())
        );
    }

    /// Names that differ in little fill the buckets as random numbers would, by their low, middle
    /// and high bits.
    #[test]
    fn similar_names_spread_evenly_over_buckets() {
        const BUCKETS: usize = 256;
        const NAMES: u64 = 64 * BUCKETS as u64;
        for shift in [0, 25, 56] {
            let hasher = NameHasher::new(9);
            let mut counts = [0i64; BUCKETS];
            for i in 0..NAMES {
                let name = Name::new().join_generic("a").join_segment(i);
                counts[(hasher.whole(name.as_bytes()) >> shift) as usize % BUCKETS] += 1;
            }
            // Chi-square of 255 degrees of freedom: 512 is eleven standard deviations above what is
            // expected.
            let squares: i64 = counts.iter().map(|count| (count - 64) * (count - 64)).sum();
            assert!(squares < 512 * 64 && squares > 100 * 64, "{squares} at bit {shift}");
        }
    }
}

//! Keyed, incremental name hashes: one pass over a name yields the hash of each of its prefixes.
//!
//! The hash is SipHash-1-3 of the components' TLVs, each padded with zeros to a multiple of 8
//! octets. A TLV contains its length, so different names remain different when padded. Each
//! component starts a new word, so the hash of a prefix can be finished without changing the state
//! for the rest.
//!
//! SipHash is a pseudorandom function as far as is known: a peer without the key cannot choose
//! names that collide, even if it learns hashes. The cost is three rounds at the end of each
//! prefix. A polynomial modulo 2^127 - 1 at a secret point does not promise that. It took 1 to 2 %
//! less time in the core when an earlier version was measured with both; no present benchmark
//! repeats this.

use namely_wire::COMPONENTS_MAX;
#[cfg(test)]
use namely_wire::NameRef;
use namely_wire::tlv::read_header;

/// Makes name hashes under a secret key, so that peers cannot choose colliding names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameHasher {
    /// The initial state, derived from the key.
    start: SipState,
    /// The hash of `/`.
    root: u64,
    // All ones except in tests, which force collisions to check that names are compared.
    mask: u64,
}

impl NameHasher {
    pub(crate) fn new(seed: u128) -> Self {
        let start = SipState::new(seed as u64, (seed >> 64) as u64);
        NameHasher { start, root: start.finish(), mask: u64::MAX }
    }

    /// A hasher with a fixed key.
    #[cfg(test)]
    pub(crate) fn fixed() -> Self {
        NameHasher::new(1)
    }

    /// As `fixed`, but with only `mask + 1` hashes.
    #[cfg(test)]
    pub(crate) fn colliding(mask: u64) -> Self {
        NameHasher { mask, ..NameHasher::fixed() }
    }

    /// A number that depends on the secret key. It is the hash of no name, because no component has
    /// the TYPE 0.
    pub(crate) fn secret(&self) -> u64 {
        let mut state = self.start;
        state.word(0);
        state.finish()
    }

    /// A secret hash of an object's id, which cannot be guessed without the key.
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

    /// Replaces the contents of `hashes` with the hashes of all prefixes of a name, given its
    /// octets. If the octets are not a name, the hashes are meaningless.
    pub(crate) fn fill(&self, octets: &[u8], hashes: &mut NameHashes) {
        let NameHashes { len, ends, hashes } = hashes;
        hashes[0] = self.root & self.mask;
        let (mut state, mut rest, mut n) = (self.start, octets, 0);
        // Ends after `COMPONENTS_MAX` components, because the octets may be unchecked.
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

/// The octets of the first component of `octets`, which may be unchecked. `None` if there is none,
/// or if it is malformed.
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

    /// Absorbs `octets`, padded with zeros to whole words.
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

    /// The hash of the absorbed octets.
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
    // A packet has at most PACKET_OCTETS_MAX octets, so positions fit.
    ends: [u16; COMPONENTS_MAX + 1],
    hashes: [u64; COMPONENTS_MAX + 1],
}

const _: () =
    assert!(namely_wire::PACKET_OCTETS_MAX <= u16::MAX as usize, "positions in a packet fit 16 bits");

impl NameHashes {
    /// The hashes of an empty name.
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

/// The output function of SplitMix64, a generator of pseudorandom numbers. The caller adds [`STEP`]
/// to its state before each call.
pub(crate) fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The increment of the state that [`mix`] scrambles.
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
        /// Compares the hash with an independent implementation of SipHash.
        #[test]
        fn a_name_hash_is_siphash_of_components(
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
    fn a_prefix_hashes_as_its_own_name() {
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
    fn every_seed_part_changes_every_hash() {
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
    fn component_boundaries_and_types_change_the_hash() {
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

    /// Similar names fill the buckets as random numbers would, by the low, the middle and the high
    /// bits of their hashes.
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
            // Chi-square of 255 degrees of freedom: 512 is eleven standard deviations above the
            // mean.
            let squares: i64 = counts.iter().map(|count| (count - 64) * (count - 64)).sum();
            assert!(squares < 512 * 64 && squares > 100 * 64, "{squares} at bit {shift}");
        }
    }
}

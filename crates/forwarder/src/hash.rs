//! Keyed, incremental name hashes: one pass over a name yields the hash of each of its prefixes.
//!
//! **How.** The octets of each component's TLV are cut into blocks of 15, the last one filled up with zeros, and the
//! blocks are the coefficients of a polynomial that is evaluated at a secret point `k`, modulo the prime 2^127 - 1:
//! `h = (h + block) * k`. What `h` is after a component belongs to the prefix that ends there. The hash of the prefix is made
//! from the two words of `h`: the upper half of `a * low + b * high + c` modulo 2^128 with secret `a`, `b` and `c`,
//! scrambled by a bijection that is not linear.
//!
//! **What that guarantees.** No names that are chosen without knowing the keys, and without seeing hashes or what follows from
//! them, collide more often than by chance, however they are chosen. Two different names never have the same blocks: a
//! TLV says how long it is, so that padding is not taken for octets and the end of a component not for the middle of one,
//! and a first block is not 0, because no TYPE is. So they are different polynomials, which agree at no more points than
//! their degree, the number *n* of blocks, of 2^63 points: they have the same `h` with a probability of at most
//! *n* / 2^63, which is 2^-53 for the longest names that a packet holds and 2^-60 for usual ones. Those whose `h` differ have hashes
//! that are independent of each other and uniform (multilinear hashing; Lemire and Kaser, "Strongly universal string hashing is
//! fast", 2014, theorem 2.1), and so is each part of them that chooses a bucket or a tag: in a table of *m* buckets such
//! names meet with a probability of 1 / *m* and no more.
//!
//! **What it does not.** It is no pseudorandom function, as SipHash is held to be. Somebody who learns hashes could compute the
//! keys; who learns which names share a bucket is left with the scrambling between that and equations for the
//! keys, which makes them hard to solve but is no proof. So hashes stay in the process: none is in a packet, an answer, a log or a file. What is left is
//! time, and two names in one bucket differ by a few nanoseconds from two in different ones. A match is by name in any case: who
//! found collisions could make tables slow, never wrong.
//!
//! The keys are 447 bits that SipHash-2-4 makes from a seed of 128: secret and different for each router.

use core::hash::Hasher;

use namely_wire::NameRef;
use namely_wire::name::COMPONENTS_MAX;
use namely_wire::tlv::read_header;
use siphasher::sip::SipHasher24;

/// The words of a [`Secret`] that key the hashes: one for `k`, two each for `a`, `b` and `c`.
const POINT: u64 = 0;
const FINISH: [u64; 3] = [1, 3, 5];

/// The word of a [`Secret`] with which the Nonces begin.
pub(crate) const NONCES: u64 = 7;

/// What a seed yields: words that look random to who does not know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Secret(u128);

impl Secret {
    pub(crate) fn new(seed: u128) -> Self {
        Secret(seed)
    }

    /// Word number `n`.
    pub(crate) fn word(self, n: u64) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.0 as u64, (self.0 >> 64) as u64);
        hasher.write_u64(n);
        hasher.finish()
    }

    fn double_word(self, n: u64) -> u128 {
        u128::from(self.word(n)) << 64 | u128::from(self.word(n + 1))
    }
}

/// Makes name hashes under keys that peers cannot know, so that they cannot choose colliding names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameHasher {
    /// `k`, below 2^63.
    point: u64,
    /// `a`, `b` and `c`.
    finish: [u128; 3],
    /// The hash of `/`.
    root: u64,
    // All ones but in tests, which make hashes collide to show that names decide.
    mask: u64,
}

impl NameHasher {
    pub(crate) fn new(secret: Secret) -> Self {
        let finish = FINISH.map(|n| secret.double_word(n));
        let hasher = NameHasher { point: secret.word(POINT) >> 1, finish, root: 0, mask: u64::MAX };
        NameHasher { root: hasher.finish(0), ..hasher }
    }

    /// A hasher whose keys are always the same.
    #[cfg(test)]
    pub(crate) fn fixed() -> Self {
        NameHasher::new(Secret::new(1))
    }

    /// The same, but it knows only `mask + 1` hashes.
    #[cfg(test)]
    pub(crate) fn colliding(mask: u64) -> Self {
        let fixed = NameHasher::fixed();
        NameHasher { mask, root: fixed.root & mask, ..fixed }
    }

    /// The hash of a whole name, given its octets.
    pub(crate) fn whole(&self, octets: &[u8]) -> u64 {
        let (mut sum, mut at) = (0, 0);
        let name = Octets::new(octets);
        while let Some(end) = component_end(octets, at) {
            sum = self.absorb(sum, &name, at, end);
            at = end;
        }
        self.finish(sum)
    }

    /// The hashes of all prefixes of `name`.
    pub(crate) fn prefixes(&self, name: NameRef<'_>) -> NameHashes {
        let mut hashes = NameHashes::new();
        self.fill(name.as_bytes(), &mut hashes);
        hashes
    }

    /// Puts the hashes of all prefixes of a name, given its octets, in the place of what `hashes` holds. Octets that are
    /// no name make hashes of nothing.
    pub(crate) fn fill(&self, octets: &[u8], hashes: &mut NameHashes) {
        let NameHashes { len, ends, hashes } = hashes;
        hashes[0] = self.root;
        let (mut sum, mut at, mut n) = (0, 0, 0);
        let name = Octets::new(octets);
        for (hash, place) in hashes[1..].iter_mut().zip(&mut ends[1..]) {
            let Some(end) = component_end(octets, at) else { break };
            sum = self.absorb(sum, &name, at, end);
            *hash = self.finish(sum);
            *place = end as u16;
            at = end;
            n += 1;
        }
        *len = n;
    }

    /// The polynomial that goes on with the component that lies at `at..end` of a name.
    #[inline]
    fn absorb(&self, mut sum: u128, name: &Octets<'_>, mut at: usize, end: usize) -> u128 {
        while end - at > BLOCK_OCTETS {
            sum = times(sum + name.block(at), self.point);
            at += BLOCK_OCTETS;
        }
        times(sum + name.last_block(at, end - at), self.point)
    }

    /// The hash of the prefix after which the polynomial has come to `sum`.
    #[inline]
    fn finish(&self, sum: u128) -> u64 {
        let [a, b, c] = self.finish;
        let (low, high) = (u128::from(sum as u64), sum >> 64);
        let linear = a.wrapping_mul(low).wrapping_add(b.wrapping_mul(high)).wrapping_add(c);
        scrambled((linear >> 64) as u64) & self.mask
    }
}

/// Octets of a block: with a sum below 2^127 it stays below 2^128.
const BLOCK_OCTETS: usize = 15;

/// For each number of octets the bits of so many.
const OCTETS: [u128; 16] = {
    let mut masks = [0; 16];
    let mut n = 1;
    while n < 16 {
        masks[n] = masks[n - 1] << 8 | 0xff;
        n += 1;
    }
    masks
};

/// The octets of a name, to be read 16 at a time.
struct Octets<'a> {
    octets: &'a [u8],
    /// The last 16, those of a shorter name being the upper ones.
    last: u128,
}

impl<'a> Octets<'a> {
    #[inline]
    fn new(octets: &'a [u8]) -> Self {
        let last = match octets.last_chunk::<16>() {
            Some(last) => u128::from_le_bytes(*last),
            None => octets.iter().fold(0, |last, octet| last >> 8 | u128::from(*octet) << 120),
        };
        Octets { octets, last }
    }

    /// The block at `at`, behind which there are more octets of the same component.
    #[inline]
    fn block(&self, at: usize) -> u128 {
        self.last_block(at, BLOCK_OCTETS)
    }

    /// The block of the `len` octets at `at`.
    #[inline]
    fn last_block(&self, at: usize, len: usize) -> u128 {
        let rest = self.octets.get(at..).unwrap_or_default();
        let octets = match rest.first_chunk::<16>() {
            Some(octets) => u128::from_le_bytes(*octets),
            // Those before `at` are shifted out.
            None => self.last.checked_shr(128 - 8 * rest.len() as u32).unwrap_or(0),
        };
        octets & OCTETS[len & 15]
    }
}

/// `sum * point` modulo 2^127 - 1: at most a little more than that, for a `point` below 2^63. Equal products have equal results.
#[inline]
fn times(sum: u128, point: u64) -> u128 {
    let low = u128::from(sum as u64) * u128::from(point);
    let upper = (sum >> 64) * u128::from(point) + (low >> 64);
    // 2^127 is 1.
    let below = u128::from(low as u64) | (upper & (u128::from(u64::MAX) >> 1)) << 64;
    below + (upper >> 63)
}

/// A bijection that is not linear.
#[inline]
fn scrambled(hash: u64) -> u64 {
    (hash ^ hash >> 32).wrapping_mul(STEP)
}

/// Where the component that begins at `at` ends, in a name that was checked; none at its end.
#[inline]
fn component_end(name: &[u8], at: usize) -> Option<usize> {
    let rest = name.get(at..).filter(|rest| !rest.is_empty())?;
    let (_, length, header) = read_header(rest).ok()?;
    let octets = header.checked_add(length).filter(|octets| *octets <= rest.len())?;
    Some(at + octets)
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
    use namely_wire::Name;
    use namely_wire::tlv::Reader;
    use proptest::prelude::*;

    fn hasher(seed: u128) -> NameHasher {
        NameHasher::new(Secret::new(seed))
    }

    fn hash(hasher: &NameHasher, uri: &str) -> u64 {
        hasher.prefixes(uri.parse::<Name>().unwrap().as_name()).whole()
    }

    /// A number modulo 2^127 - 1, by schoolbook arithmetic.
    fn reduced(number: u128) -> u128 {
        number % P
    }

    const P: u128 = u128::MAX >> 1;

    /// `a * b` modulo 2^127 - 1, bit by bit.
    fn product(a: u128, b: u64) -> u128 {
        let double = |n: u128| reduced((n << 1 & P) | n >> 126);
        (0..64).rev().fold(0, |sum, bit| {
            let sum = double(sum);
            if b >> bit & 1 == 1 { reduced(sum + reduced(a)) } else { sum }
        })
    }

    /// The hash of a name as the module's text tells it.
    fn model(hasher: &NameHasher, name: &Name) -> u64 {
        let mut sum = 0;
        let mut reader = Reader::new(name.as_bytes());
        while let Ok(Some(component)) = reader.next_tlv() {
            for block in component.raw.chunks(BLOCK_OCTETS) {
                let octets = block.iter().rev().fold(0, |octets, octet| octets << 8 | u128::from(*octet));
                sum = product(sum + octets, hasher.point);
            }
        }
        hasher.finish(sum)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn a_names_hash_is_that_of_its_polynomial(
            seed in any::<u128>(),
            values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..12),
        ) {
            let name = values.iter().fold(Name::new(), |name, value| name.join_generic(value));
            let hasher = hasher(seed);
            prop_assert_eq!(hasher.prefixes(name.as_name()).whole(), model(&hasher, &name));
        }

        /// Sums stay in their range, and what is congruent becomes equal but for the prime itself.
        #[test]
        fn products_are_those_modulo_the_prime(sum in 0..P + (1 << 120), point in 0..u64::MAX >> 1) {
            let result = times(sum, point);
            prop_assert!(result <= P + (1 << 65));
            prop_assert_eq!(reduced(result), product(sum, point));
        }
    }

    #[test]
    fn each_prefix_has_the_hash_it_has_as_a_name_of_its_own() {
        let hasher = hasher(3);
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
        let one = hasher(0).prefixes(name.as_name());
        for bit in 0..128 {
            let other = hasher(1 << bit).prefixes(name.as_name());
            assert!((0..=2).all(|n| one.hash(n) != other.hash(n)));
        }
    }

    #[test]
    fn component_boundaries_types_and_padding_count() {
        let hasher = hasher(1);
        let hash = |uri: &str| hash(&hasher, uri);
        assert_ne!(hash("/A/BC"), hash("/AB/C"));
        assert_ne!(hash("/A/B"), hash("/A/BC"));
        assert_ne!(hash("/A"), hash("/32=A"));
        assert_ne!(hash("/A"), hash("/A%00"));
        assert_ne!(hash("/thirteen-octe"), hash("/thirteen-octe%00"));
    }

    /// Names that differ in little fill the buckets as random numbers would, by their low, middle and high bits.
    #[test]
    fn similar_names_spread_evenly_over_buckets() {
        const BUCKETS: usize = 256;
        const NAMES: u64 = 64 * BUCKETS as u64;
        for shift in [0, 25, 56] {
            let hasher = hasher(9);
            let mut counts = [0i64; BUCKETS];
            for i in 0..NAMES {
                let name = Name::new().join_generic("a").join_segment(i);
                counts[(hasher.whole(name.as_bytes()) >> shift) as usize % BUCKETS] += 1;
            }
            // Chi-square of 255 degrees of freedom: 512 is eleven standard deviations above what is expected.
            let squares: i64 = counts.iter().map(|count| (count - 64) * (count - 64)).sum();
            assert!(squares < 512 * 64 && squares > 100 * 64, "{squares} at bit {shift}");
        }
    }

    /// Names of one component that all have the same hash under `known`: from one to the next, one block is 1 more and
    /// the block after it is less by what 1 has become by then.
    fn colliding(known: &NameHasher, count: u8) -> Vec<Name> {
        let name = |i: u8| {
            let mut blocks = [[0u8; BLOCK_OCTETS]; 3];
            let last = (1 << 119) - u128::from(i) * u128::from(known.point);
            blocks[1][0] = i;
            blocks[2].copy_from_slice(&last.to_le_bytes()[..BLOCK_OCTETS]);
            // The first two octets of the first block are TYPE and LENGTH.
            Name::new().join_generic(&blocks.concat()[2..])
        };
        (0..count).map(name).collect()
    }

    #[test]
    fn names_that_collide_under_a_known_key_do_not_under_another() {
        let (known, secret) = (hasher(1), hasher(2));
        let names = colliding(&known, 200);
        let distinct = |hasher: &NameHasher, bits: u32| {
            let hashes = names.iter().map(|name| hasher.whole(name.as_bytes()) & ((1 << bits) - 1));
            hashes.collect::<alloc::collections::BTreeSet<_>>().len()
        };
        assert_eq!(distinct(&known, 63), 1);
        assert_eq!(distinct(&secret, 63), 200);
        // 200 random numbers of 8 bits are 139 different ones on average.
        assert!((110..170).contains(&distinct(&secret, 8)), "{}", distinct(&secret, 8));
    }
}

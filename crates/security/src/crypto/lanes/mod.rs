//! SHA-256 (FIPS 180-4) of several messages at once. Segments of one manifest are received and made
//! in runs. A processor hashes independent messages side by side in a third to two thirds of the
//! time for one after the other.
//!
//! The results are those of [`sha256`](super::sha256) for each message. That function hashes a
//! message without others of the same number of blocks, and all messages on processors without the
//! instructions.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "instructions that not every processor has; see ARCHITECTURE.md, Invariants")]
mod x86;

use super::{DIGEST_OCTETS, sha256};

/// Octets of a block, the input of one call of the compression function.
const BLOCK_OCTETS: usize = 64;

/// Octets of a message's length at the end of its last block.
const LENGTH_OCTETS: usize = 8;

/// Minimum number of messages for the registers with 16 lanes: with fewer messages, two at a time
/// are faster.
#[cfg(target_arch = "x86_64")]
const WIDE_MIN: usize = 10;

type Block = [u8; BLOCK_OCTETS];
type State = [u32; 8];

/// FIPS 180-4, 5.3.3.
const INITIAL: State =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];

/// FIPS 180-4, 4.2.2.
#[rustfmt::skip]
const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// SHA-256 of each of `messages`.
pub(crate) fn sha256_each(messages: &[&[u8]]) -> Vec<[u8; DIGEST_OCTETS]> {
    let mut digests = vec![[0; DIGEST_OCTETS]; messages.len()];
    let mut waiting: Vec<usize> = (0..messages.len()).collect();
    // Lanes advance together, so only messages of the same number of blocks share a call.
    waiting.sort_by_key(|message| blocks(messages[*message].len()));
    for alike in waiting.chunk_by(|a, b| blocks(messages[*a].len()) == blocks(messages[*b].len())) {
        let done = together(messages, alike, &mut digests);
        for message in &alike[done..] {
            digests[*message] = sha256(messages[*message]);
        }
    }
    digests
}

/// Blocks of a message with its padding.
fn blocks(octets: usize) -> usize {
    (octets + 1 + LENGTH_OCTETS).div_ceil(BLOCK_OCTETS)
}

/// Hashes the first messages of `alike`, as many as this processor hashes faster together, and
/// returns their number.
#[cfg(target_arch = "x86_64")]
fn together(messages: &[&[u8]], alike: &[usize], digests: &mut [[u8; DIGEST_OCTETS]]) -> usize {
    let mut done = 0;
    let mut take = |lanes: &[usize], states: &[State]| {
        lanes.iter().zip(states).for_each(|(message, state)| digests[*message] = octets(state));
        done += lanes.len();
        done
    };
    let mut left = alike;
    while x86::has_wide() && left.len() >= WIDE_MIN {
        let lanes = &left[..left.len().min(x86::WIDE)];
        let Some(states) = x86::wide(&Padded::each(messages, lanes)) else { break };
        left = &alike[take(lanes, &states)..];
    }
    while x86::has_interleaved() && left.len() >= 2 {
        let lanes = &left[..2];
        let Some(states) = x86::interleaved::<2>(&Padded::each(messages, lanes)) else { break };
        left = &alike[take(lanes, &states)..];
    }
    done
}

/// Hashes none: there is no faster implementation for other processors.
#[cfg(not(target_arch = "x86_64"))]
fn together(_: &[&[u8]], _: &[usize], _: &mut [[u8; DIGEST_OCTETS]]) -> usize {
    0
}

/// A message cut into blocks, with the padding of FIPS 180-4, 5.1.1.
#[derive(Clone, Copy)]
struct Padded<'a> {
    whole: &'a [Block],
    end: [Block; 2],
    ends: usize,
}

impl<'a> Padded<'a> {
    fn new(message: &'a [u8]) -> Self {
        let (whole, rest) = message.as_chunks::<BLOCK_OCTETS>();
        let mut end = [[0; BLOCK_OCTETS]; 2];
        let ends = blocks(rest.len());
        let octets = end.as_flattened_mut();
        octets[..rest.len()].copy_from_slice(rest);
        octets[rest.len()] = 0x80;
        let bits = (message.len() as u64).wrapping_mul(8);
        octets[ends * BLOCK_OCTETS - LENGTH_OCTETS..][..LENGTH_OCTETS].copy_from_slice(&bits.to_be_bytes());
        Padded { whole, end, ends }
    }

    /// The message of each lane. Lanes beyond the end of `lanes` repeat the last message.
    fn each<const N: usize>(messages: &[&'a [u8]], lanes: &[usize]) -> [Self; N] {
        std::array::from_fn(|lane| Padded::new(messages[lanes[lane.min(lanes.len() - 1)]]))
    }

    fn blocks(&self) -> usize {
        self.whole.len() + self.ends
    }

    /// Block `n`, which must be one of [`Padded::blocks`].
    #[inline(always)]
    fn block(&self, n: usize) -> &Block {
        self.whole.get(n).unwrap_or_else(|| &self.end[n - self.whole.len()])
    }
}

fn octets(state: &State) -> [u8; DIGEST_OCTETS] {
    let mut octets = [0; DIGEST_OCTETS];
    octets.as_chunks_mut().0.iter_mut().zip(state).for_each(|(four, word)| *four = word.to_be_bytes());
    octets
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(seed: usize, octets: usize) -> Vec<u8> {
        (0..octets).map(|i| (i * 31 + seed * 97 + (i >> 8)) as u8).collect()
    }

    fn check(lengths: &[usize]) {
        let messages: Vec<_> = lengths.iter().enumerate().map(|(n, octets)| message(n, *octets)).collect();
        let messages: Vec<&[u8]> = messages.iter().map(|message| &message[..]).collect();
        let expected: Vec<_> = messages.iter().map(|message| sha256(message)).collect();
        assert_eq!(sha256_each(&messages), expected, "{lengths:?}");
    }

    #[test]
    fn batches_of_any_count_hash_alike() {
        for count in 0..=50 {
            check(&vec![1000; count]);
        }
        check(&[8085; 32]);
    }

    #[test]
    fn lengths_around_a_block_hash_alike() {
        for octets in 0..=192 {
            check(&[octets; 17]);
            check(&[octets, octets]);
        }
    }

    proptest! {
        // Without optimization these instructions take a thousand times as long.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn messages_of_any_length_hash_alike(
            lengths in prop::collection::vec(prop_oneof![0usize..300, 8000usize..8010], 0..60),
        ) {
            check(&lengths);
        }
    }
}

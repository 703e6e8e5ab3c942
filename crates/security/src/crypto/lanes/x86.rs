//! The compression function of SHA-256 (FIPS 180-4, 6.2.2) over blocks of several messages at once.
//! Not every processor of this architecture has the instructions, so each call detects them.

use std::arch::x86_64::*;

use super::{Block, INITIAL, K, Padded, State};

/// Messages side by side in AVX-512 registers: one in each 32-bit lane.
pub(super) const WIDE: usize = 16;

/// Returns true if this processor has the instructions of [`wide`].
pub(super) fn has_wide() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

/// Returns true if this processor has the instructions of [`interleaved`].
pub(super) fn has_interleaved() -> bool {
    is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("ssse3")
}

/// The digests of 16 messages of the same number of blocks; `None` if this processor lacks the
/// instructions.
pub(super) fn wide(messages: &[Padded<'_>; WIDE]) -> Option<[State; WIDE]> {
    // SAFETY: the processor has the instructions that the function is compiled for.
    has_wide().then(|| unsafe { hash_wide(&messages.each_ref()) })
}

/// The digests of `N` messages of the same number of blocks; `None` if this processor lacks the
/// instructions.
pub(super) fn interleaved<const N: usize>(messages: &[Padded<'_>; N]) -> Option<[State; N]> {
    // SAFETY: the processor has the instructions that the function is compiled for.
    has_interleaved().then(|| unsafe { hash_interleaved(&messages.each_ref()) })
}

#[target_feature(enable = "avx512f,avx512bw")]
fn hash_wide(messages: &[&Padded<'_>; WIDE]) -> [State; WIDE] {
    let mut state = INITIAL.map(|word| _mm512_set1_epi32(word as i32));
    for n in 0..messages[0].blocks() {
        let mut blocks = [messages[0].block(n); WIDE];
        for lane in 1..WIDE {
            blocks[lane] = messages[lane].block(n);
        }
        compress_wide(&mut state, &blocks);
    }
    let mut states = [[0; 8]; WIDE];
    for (index, word) in state.into_iter().enumerate() {
        let mut lanes = [0u32; WIDE];
        // SAFETY: `lanes` is 64 octets long; the instruction requires no alignment.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), word) };
        states.iter_mut().zip(lanes).for_each(|(state, word)| state[index] = word);
    }
    states
}

/// Compresses one block of each message. Register `n` of `state` has word `n` of each.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn compress_wide(state: &mut [__m512i; 8], blocks: &[&Block; WIDE]) {
    let mut w = transposed(blocks);
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    macro_rules! round {
        ($a:ident, $b:ident, $c:ident, $d:ident, $e:ident, $f:ident, $g:ident, $h:ident, $w:expr, $k:expr) => {
            let input = _mm512_add_epi32(_mm512_add_epi32($h, _mm512_set1_epi32($k as i32)), $w);
            let t1 = _mm512_add_epi32(_mm512_add_epi32(input, big_sigma_1($e)), choose($e, $f, $g));
            $d = _mm512_add_epi32($d, t1);
            $h = _mm512_add_epi32(t1, _mm512_add_epi32(big_sigma_0($a), majority($a, $b, $c)));
        };
    }
    for (turn, k) in K.as_chunks::<16>().0.iter().enumerate() {
        if turn > 0 {
            for t in 0..16 {
                let (near, far) = (small_sigma_0(w[(t + 1) % 16]), small_sigma_1(w[(t + 14) % 16]));
                let sum = _mm512_add_epi32(_mm512_add_epi32(w[t], near), w[(t + 9) % 16]);
                w[t] = _mm512_add_epi32(sum, far);
            }
        }
        for t in [0, 8] {
            round!(a, b, c, d, e, f, g, h, w[t], k[t]);
            round!(h, a, b, c, d, e, f, g, w[t + 1], k[t + 1]);
            round!(g, h, a, b, c, d, e, f, w[t + 2], k[t + 2]);
            round!(f, g, h, a, b, c, d, e, w[t + 3], k[t + 3]);
            round!(e, f, g, h, a, b, c, d, w[t + 4], k[t + 4]);
            round!(d, e, f, g, h, a, b, c, w[t + 5], k[t + 5]);
            round!(c, d, e, f, g, h, a, b, w[t + 6], k[t + 6]);
            round!(b, c, d, e, f, g, h, a, w[t + 7], k[t + 7]);
        }
    }
    for (state, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *state = _mm512_add_epi32(*state, new);
    }
}

#[target_feature(enable = "avx512f")]
fn big_sigma_0(x: __m512i) -> __m512i {
    xor(_mm512_ror_epi32::<2>(x), _mm512_ror_epi32::<13>(x), _mm512_ror_epi32::<22>(x))
}

#[target_feature(enable = "avx512f")]
fn big_sigma_1(x: __m512i) -> __m512i {
    xor(_mm512_ror_epi32::<6>(x), _mm512_ror_epi32::<11>(x), _mm512_ror_epi32::<25>(x))
}

#[target_feature(enable = "avx512f")]
fn small_sigma_0(x: __m512i) -> __m512i {
    xor(_mm512_ror_epi32::<7>(x), _mm512_ror_epi32::<18>(x), _mm512_srli_epi32::<3>(x))
}

#[target_feature(enable = "avx512f")]
fn small_sigma_1(x: __m512i) -> __m512i {
    xor(_mm512_ror_epi32::<17>(x), _mm512_ror_epi32::<19>(x), _mm512_srli_epi32::<10>(x))
}

/// The constant of these instructions is the truth table of a function of three bits.
#[target_feature(enable = "avx512f")]
fn xor(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0b1001_0110>(x, y, z)
}

#[target_feature(enable = "avx512f")]
fn choose(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0b1100_1010>(x, y, z)
}

#[target_feature(enable = "avx512f")]
fn majority(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0b1110_1000>(x, y, z)
}

/// Word `t` of every block in register `t`, from big-endian octets.
#[target_feature(enable = "avx512f,avx512bw")]
fn transposed(blocks: &[&Block; WIDE]) -> [__m512i; 16] {
    let swap = _mm512_set4_epi32(0x0c0d_0e0f, 0x0809_0a0b, 0x0405_0607, 0x0001_0203);
    let mut row = [swap; WIDE];
    for lane in 0..WIDE {
        // SAFETY: a block is 64 octets long; the instruction requires no alignment.
        let words = unsafe { _mm512_loadu_si512(blocks[lane].as_ptr().cast()) };
        row[lane] = _mm512_shuffle_epi8(words, swap);
    }
    // Each step joins elements that are twice as far apart: words, pairs of words, quarters of a
    // register, halves.
    let mut quads = [row[0]; 16];
    for n in 0..4 {
        let [r0, r1, r2, r3] = [row[4 * n], row[4 * n + 1], row[4 * n + 2], row[4 * n + 3]];
        let (low, high) = (_mm512_unpacklo_epi32(r0, r1), _mm512_unpackhi_epi32(r0, r1));
        let (low_next, high_next) = (_mm512_unpacklo_epi32(r2, r3), _mm512_unpackhi_epi32(r2, r3));
        quads[4 * n] = _mm512_unpacklo_epi64(low, low_next);
        quads[4 * n + 1] = _mm512_unpackhi_epi64(low, low_next);
        quads[4 * n + 2] = _mm512_unpacklo_epi64(high, high_next);
        quads[4 * n + 3] = _mm512_unpackhi_epi64(high, high_next);
    }
    let mut words = quads;
    for n in 0..4 {
        let [q0, q1, q2, q3] = [quads[n], quads[n + 4], quads[n + 8], quads[n + 12]];
        let (even, odd) = (_mm512_shuffle_i32x4::<0x88>(q0, q1), _mm512_shuffle_i32x4::<0xdd>(q0, q1));
        let (even_next, odd_next) =
            (_mm512_shuffle_i32x4::<0x88>(q2, q3), _mm512_shuffle_i32x4::<0xdd>(q2, q3));
        words[n] = _mm512_shuffle_i32x4::<0x88>(even, even_next);
        words[n + 4] = _mm512_shuffle_i32x4::<0x88>(odd, odd_next);
        words[n + 8] = _mm512_shuffle_i32x4::<0xdd>(even, even_next);
        words[n + 12] = _mm512_shuffle_i32x4::<0xdd>(odd, odd_next);
    }
    words
}

/// Hashes `N` messages step by step together. The instructions for one message wait for each other
/// half of the time, and those for the other messages fill the gaps.
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn hash_interleaved<const N: usize>(messages: &[&Padded<'_>; N]) -> [State; N] {
    let mut states = [Halves::new(); N];
    for n in 0..messages[0].blocks() {
        let mut blocks = [messages[0].block(n); N];
        for lane in 1..N {
            blocks[lane] = messages[lane].block(n);
        }
        compress_interleaved(&mut states, &blocks);
    }
    states.map(|state| state.words())
}

/// A state in the layout of the instructions: words a, b, e, f in one register, c, d, g, h in the
/// other.
#[derive(Clone, Copy)]
struct Halves {
    abef: __m128i,
    cdgh: __m128i,
}

impl Halves {
    #[target_feature(enable = "sse4.1")]
    fn new() -> Self {
        let [a, b, c, d, e, f, g, h] = INITIAL.map(|word| word as i32);
        Halves { abef: _mm_set_epi32(a, b, e, f), cdgh: _mm_set_epi32(c, d, g, h) }
    }

    #[target_feature(enable = "sse4.1")]
    fn words(self) -> State {
        [
            _mm_extract_epi32::<3>(self.abef),
            _mm_extract_epi32::<2>(self.abef),
            _mm_extract_epi32::<3>(self.cdgh),
            _mm_extract_epi32::<2>(self.cdgh),
            _mm_extract_epi32::<1>(self.abef),
            _mm_extract_epi32::<0>(self.abef),
            _mm_extract_epi32::<1>(self.cdgh),
            _mm_extract_epi32::<0>(self.cdgh),
        ]
        .map(|word| word as u32)
    }
}

/// Compresses one block of each of `N` messages.
#[target_feature(enable = "sha,sse4.1,ssse3")]
#[inline]
fn compress_interleaved<const N: usize>(states: &mut [Halves; N], blocks: &[&Block; N]) {
    let swap = _mm_set_epi32(0x0c0d_0e0f, 0x0809_0a0b, 0x0405_0607, 0x0001_0203);
    let mut w = [[swap; 4]; N];
    for lane in 0..N {
        for (n, quarter) in blocks[lane].as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: a quarter of a block is 16 octets long; the instruction requires no
            // alignment.
            let words = unsafe { _mm_loadu_si128(quarter.as_ptr().cast()) };
            w[lane][n] = _mm_shuffle_epi8(words, swap);
        }
    }
    let old = *states;
    macro_rules! rounds {
        ($group:expr, $at:expr) => {
            let k = &K[4 * $group..][..4];
            let k = _mm_set_epi32(k[3] as i32, k[2] as i32, k[1] as i32, k[0] as i32);
            for (w, state) in w.iter_mut().zip(states.iter_mut()) {
                if $group >= 4 {
                    let far = _mm_alignr_epi8::<4>(w[($at + 3) % 4], w[($at + 2) % 4]);
                    let sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[$at], w[($at + 1) % 4]), far);
                    w[$at] = _mm_sha256msg2_epu32(sum, w[($at + 3) % 4]);
                }
                let input = _mm_add_epi32(w[$at], k);
                state.cdgh = _mm_sha256rnds2_epu32(state.cdgh, state.abef, input);
                let input = _mm_shuffle_epi32::<0b00_00_11_10>(input);
                state.abef = _mm_sha256rnds2_epu32(state.abef, state.cdgh, input);
            }
        };
    }
    for turn in 0..4 {
        rounds!(4 * turn, 0);
        rounds!(4 * turn + 1, 1);
        rounds!(4 * turn + 2, 2);
        rounds!(4 * turn + 3, 3);
    }
    for (state, old) in states.iter_mut().zip(old) {
        state.abef = _mm_add_epi32(state.abef, old.abef);
        state.cdgh = _mm_add_epi32(state.cdgh, old.cdgh);
    }
}

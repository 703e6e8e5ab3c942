//! Nonces for Interests: distinct, but not secret.

use rustix::io::Errno;

/// A generator of nonces, seeded once. It is the fast xorshift64*, because each Interest needs a
/// nonce, which only has to differ from other nonces.
#[derive(Clone, Debug)]
pub struct Nonces {
    state: u64,
}

impl Nonces {
    /// Creates a generator with a random seed from the system.
    ///
    /// # Errors
    /// The environment's: see [`namely_host::random`].
    pub fn from_system() -> Result<Self, Errno> {
        Ok(Self::seeded(u64::from_ne_bytes(namely_host::random()?)))
    }

    /// Creates a generator with the caller's seed. Equal seeds produce equal nonces.
    pub fn seeded(seed: u64) -> Self {
        // A state of 0 would never change, so it is excluded.
        Nonces { state: seed | 1 }
    }

    /// Returns the next nonce.
    #[allow(clippy::should_implement_trait, reason = "it never ends, so it is no iterator worth chaining")]
    pub fn next(&mut self) -> [u8; 4] {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        // The high bits of the product are the most random.
        ((self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn nonces_differ() {
        for seed in [0, 1, u64::MAX] {
            let mut nonces = Nonces::seeded(seed);
            let distinct: HashSet<[u8; 4]> = (0..10_000).map(|_| nonces.next()).collect();
            // Two of ten thousand random 32-bit numbers agree with a probability of about 1 %.
            assert!(distinct.len() > 9_990);
        }
    }
}

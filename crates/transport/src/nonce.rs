//! Nonces for Interests: unlike each other, not secret.

use rustix::io::Errno;

/// A stream of nonces, seeded once: xorshift64*, because a nonce is wanted for each Interest and
/// only has to differ from those of others.
#[derive(Clone, Debug)]
pub struct Nonces {
    state: u64,
}

impl Nonces {
    /// Seeded by the system.
    ///
    /// # Errors
    /// The environment's: see [`namely_host::random`].
    pub fn from_system() -> Result<Self, Errno> {
        Ok(Self::seeded(u64::from_ne_bytes(namely_host::random()?)))
    }

    /// Seeded by the caller: the same seed gives the same nonces.
    pub fn seeded(seed: u64) -> Self {
        // The generator never leaves 0.
        Nonces { state: seed | 1 }
    }

    /// The next nonce.
    #[allow(clippy::should_implement_trait, reason = "it never ends, so it is no iterator worth chaining")]
    pub fn next(&mut self) -> [u8; 4] {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
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

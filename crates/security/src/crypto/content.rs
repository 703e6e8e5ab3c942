//! Digests of whole contents that users know from elsewhere: from `sha256sum`, or from a catalogue.
//!
//! Content with a known MD5, SHA-1 or Adler-32 can be forged. These detect accidents only, and
//! authenticate nothing: no other code of this crate uses them.

use std::fmt;

use adler2::Adler32;
use aws_lc_rs::digest;
use md5::{Digest as _, Md5};

/// Octets of the longest digest.
const OCTETS_MAX: usize = 64;

/// An algorithm of digests. The stronger is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DigestAlgorithm {
    /// Adler-32 of RFC 1950.
    Adler32,
    /// MD5 of RFC 1321.
    Md5,
    /// SHA-1 of FIPS 180-4.
    Sha1,
    /// SHA-256 of FIPS 180-4.
    Sha256,
    /// SHA-512 of FIPS 180-4.
    Sha512,
}

impl DigestAlgorithm {
    /// All algorithms.
    pub const ALL: [Self; 5] = [Self::Adler32, Self::Md5, Self::Sha1, Self::Sha256, Self::Sha512];

    /// The algorithm's name in its specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Adler32 => "Adler-32",
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA-1",
            Self::Sha256 => "SHA-256",
            Self::Sha512 => "SHA-512",
        }
    }

    /// Octets of a digest.
    pub fn octets(self) -> usize {
        match self {
            Self::Adler32 => 4,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => OCTETS_MAX,
        }
    }

    /// Returns the algorithm of this name, in any case, with or without its hyphen.
    pub fn of_name(name: &[u8]) -> Option<Self> {
        let plain = |text: &[u8]| -> Vec<u8> {
            text.iter().filter(|octet| **octet != b'-').map(u8::to_ascii_lowercase).collect()
        };
        Self::ALL.into_iter().find(|algorithm| plain(algorithm.name().as_bytes()) == plain(name))
    }

    /// Returns the algorithm whose digests have `digits` hexadecimal digits.
    pub fn of_digits(digits: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| 2 * algorithm.octets() == digits)
    }
}

/// The digest of a content.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentDigest {
    algorithm: DigestAlgorithm,
    octets: [u8; OCTETS_MAX],
}

impl ContentDigest {
    /// Returns the digest of `content`.
    ///
    /// ```
    /// use namely_security::{ContentDigest, DigestAlgorithm};
    ///
    /// let digest = ContentDigest::of(DigestAlgorithm::Adler32, b"Wikipedia");
    /// assert_eq!(digest.to_string(), "11e60398");
    /// ```
    pub fn of(algorithm: DigestAlgorithm, content: &[u8]) -> Self {
        let mut hash = ContentHash::new(algorithm);
        hash.update(content);
        hash.finish()
    }

    /// Parses hexadecimal digits: exactly those of the algorithm.
    pub fn parse(algorithm: DigestAlgorithm, digits: &[u8]) -> Option<Self> {
        if digits.len() != 2 * algorithm.octets() {
            return None;
        }
        let mut octets = [0; OCTETS_MAX];
        let value = |digit: u8| char::from(digit).to_digit(16);
        for (octet, pair) in octets.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = pair else { return None };
            // Two digits fit an octet.
            *octet = (16 * value(*high)? + value(*low)?) as u8;
        }
        Some(ContentDigest { algorithm, octets })
    }

    /// The algorithm.
    pub fn algorithm(&self) -> DigestAlgorithm {
        self.algorithm
    }

    fn new(algorithm: DigestAlgorithm, digest: &[u8]) -> Self {
        let mut octets = [0; OCTETS_MAX];
        octets.iter_mut().zip(digest).for_each(|(to, octet)| *to = *octet);
        ContentDigest { algorithm, octets }
    }
}

/// Hexadecimal digits.
impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut octets = self.octets.iter().take(self.algorithm.octets());
        octets.try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.algorithm.name())
    }
}

/// The digest of octets that arrive in pieces.
pub struct ContentHash {
    algorithm: DigestAlgorithm,
    state: State,
}

enum State {
    Adler32(Adler32),
    Md5(Md5),
    Sha(digest::Context),
}

impl ContentHash {
    /// Creates a hash of no octets.
    pub fn new(algorithm: DigestAlgorithm) -> Self {
        let sha = |of| State::Sha(digest::Context::new(of));
        let state = match algorithm {
            DigestAlgorithm::Adler32 => State::Adler32(Adler32::new()),
            DigestAlgorithm::Md5 => State::Md5(Md5::new()),
            DigestAlgorithm::Sha1 => sha(&digest::SHA1_FOR_LEGACY_USE_ONLY),
            DigestAlgorithm::Sha256 => sha(&digest::SHA256),
            DigestAlgorithm::Sha512 => sha(&digest::SHA512),
        };
        ContentHash { algorithm, state }
    }

    /// Adds `octets`.
    pub fn update(&mut self, octets: &[u8]) {
        match &mut self.state {
            State::Adler32(sum) => sum.write_slice(octets),
            State::Md5(hash) => hash.update(octets),
            State::Sha(hash) => hash.update(octets),
        }
    }

    /// Returns the digest of all octets.
    pub fn finish(self) -> ContentDigest {
        match self.state {
            State::Adler32(sum) => ContentDigest::new(self.algorithm, &sum.checksum().to_be_bytes()),
            State::Md5(hash) => ContentDigest::new(self.algorithm, &hash.finalize()),
            State::Sha(hash) => ContentDigest::new(self.algorithm, hash.finish().as_ref()),
        }
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({})", self.algorithm.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests of `abc`: RFC 1321 A.5, FIPS 180-4; Adler-32 by hand from RFC 1950.
    const ABC: [&str; 5] = [
        "024d0127",
        "900150983cd24fb0d6963f7d28e17f72",
        "a9993e364706816aba3e25717850c26c9cd0d89d",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
         2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    ];

    #[test]
    fn content_digests_match_their_specifications() {
        for (algorithm, digits) in DigestAlgorithm::ALL.into_iter().zip(ABC) {
            let mut hash = ContentHash::new(algorithm);
            hash.update(b"a");
            hash.update(b"bc");
            let digest = hash.finish();
            assert_eq!(digest.to_string(), digits);
            assert_eq!(ContentDigest::parse(algorithm, digits.to_uppercase().as_bytes()), Some(digest));
            assert_eq!(ContentDigest::of(algorithm, b"abc"), digest);
            assert_ne!(ContentDigest::of(algorithm, b"abd"), digest);
            assert_eq!(DigestAlgorithm::of_digits(digits.len()), Some(algorithm));
            assert_eq!(ContentDigest::parse(algorithm, &digits.as_bytes()[1..]), None);
            assert_eq!(ContentDigest::parse(algorithm, digits.replace('1', "g").as_bytes()), None);
        }
        assert_eq!(ContentDigest::of(DigestAlgorithm::Adler32, b"").to_string(), "00000001");
    }

    #[test]
    fn algorithms_are_known_by_their_names() {
        let of = |name: &str| DigestAlgorithm::of_name(name.as_bytes());
        assert_eq!(of("sha256"), Some(DigestAlgorithm::Sha256));
        assert_eq!(
            (of("ADLER32"), of("SHA-1")),
            (Some(DigestAlgorithm::Adler32), Some(DigestAlgorithm::Sha1))
        );
        assert_eq!((of("sha224"), of(""), of("crc32")), (None, None, None));
    }
}

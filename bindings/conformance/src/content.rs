//! Content that cases describe instead of spelling it out, and its form in answers.

/// Octets of a described content, at most.
const SIZE_MAX: usize = 64 << 20;

/// The content that `word` describes: `@SIZE:SEED`, `=TEXT`, or `-` for none.
pub fn parse(word: &str) -> Option<Vec<u8>> {
    if let Some(text) = word.strip_prefix('=') {
        return Some(text.as_bytes().to_vec());
    }
    if word == "-" {
        return Some(Vec::new());
    }
    let (size, seed) = word.strip_prefix('@')?.split_once(':')?;
    let size: usize = size.parse().ok()?;
    (size <= SIZE_MAX).then_some(())?;
    Some(pattern(size, seed.parse().ok()?))
}

/// Returns `size` octets that differ by `seed` and from segment to segment.
pub fn pattern(size: usize, seed: u64) -> Vec<u8> {
    (0..size as u64).map(|i| (seed + i + 7 * (i / 256) + 13 * (i / 65536)) as u8).collect()
}

/// The form of content in an answer: its length and its CRC-32.
pub fn result(content: &[u8]) -> String {
    format!("{} {:08x}", content.len(), crc32(content))
}

/// The CRC-32 of zlib (polynomial 0xEDB88320).
fn crc32(octets: &[u8]) -> u32 {
    let step = |crc: u32, octet: &u8| {
        (0..8).fold(crc ^ u32::from(*octet), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    };
    !octets.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_match_zlib_checksums() {
        assert_eq!(result(b""), "0 00000000");
        assert_eq!(result(b"123456789"), "9 cbf43926");
        assert_eq!(parse("=hello").map(|c| result(&c)), Some("5 3610a686".into()));
    }

    #[test]
    fn patterns_follow_the_readme_rule() {
        let octets = pattern(70_000, 5);
        assert_eq!((octets[0], octets[255], octets[256]), (5, 4, 12));
        assert_eq!(octets[65_536], (5u64 + 65_536 + 7 * 256 + 13) as u8);
        assert_eq!(parse("@3:254"), Some(vec![254, 255, 0]));
        for wrong in ["", "3:1", "@3", "@x:1", "@99999999999:1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}

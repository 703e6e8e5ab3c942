//! A live channel in the format of HLS (RFC 8216): a playlist of the latest segments, and segments
//! of a fixed length. The module is pure: time is passed in as milliseconds since the Unix epoch,
//! and all programs with the same time compute the same segments.

use std::fmt::Write;

/// Length of a segment, ms.
pub(crate) const SEGMENT_MS: u64 = 2_000;

/// Segments that a playlist lists.
pub(crate) const LISTED: u64 = 5;

/// Bit rates of the qualities, from 360p to 1080p, bit/s (the paper's: 1 to 6 Mbit/s).
pub(crate) const RATES: [u64; 4] = [1_000_000, 2_500_000, 4_000_000, 6_000_000];

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    namely_host::clock::unix_ms()
}

/// The number of the newest whole segment.
pub(crate) fn newest(now_ms: u64) -> u64 {
    now_ms / SEGMENT_MS - 1
}

/// Octets of a segment of `quality`, at `scale` times the bit rate.
pub(crate) fn segment_octets(quality: usize, scale: f64) -> usize {
    (RATES[quality] as f64 * scale * SEGMENT_MS as f64 / 8_000.0) as usize
}

/// The playlist at `now_ms`.
pub(crate) fn playlist(now_ms: u64) -> String {
    let last = newest(now_ms);
    let first = last + 1 - LISTED;
    let seconds = SEGMENT_MS as f64 / 1000.0;
    let mut text = format!(
        "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:{seconds:.0}\n#EXT-X-MEDIA-SEQUENCE:{first}\n"
    );
    for number in first..=last {
        let _ = write!(text, "#EXTINF:{seconds:.1},\n{number}.ts\n");
    }
    text
}

/// The numbers of the segments that a playlist lists.
pub(crate) fn listed(playlist: &str) -> Vec<u64> {
    let uris = playlist.lines().filter(|line| !line.starts_with('#'));
    uris.filter_map(|uri| uri.trim().strip_suffix(".ts")?.parse().ok()).collect()
}

/// A segment's octets, which are the same in every program.
pub(crate) fn segment(channel: usize, quality: usize, number: u64, scale: f64) -> Vec<u8> {
    let mut state = (channel as u64) << 40 | (quality as u64) << 32 | (number & 0xffff_ffff) | 1 << 63;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let octets = segment_octets(quality, scale);
    let mut content: Vec<u8> = (0..octets.div_ceil(8)).flat_map(next).collect();
    content.truncate(octets);
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_playlist_survives_a_round_trip() {
        let now_ms = 1_000_000_999;
        let numbers = listed(&playlist(now_ms));
        assert_eq!(numbers.len() as u64, LISTED);
        assert_eq!(numbers.last(), Some(&newest(now_ms)));
        assert!(numbers.is_sorted());
        assert!((newest(now_ms) + 1) * SEGMENT_MS <= now_ms, "only whole segments are listed");
    }

    #[test]
    fn live_segments_have_rate_and_unique_content() {
        assert_eq!(segment(0, 0, 1, 1.0).len(), 250_000);
        assert_eq!(segment(0, 3, 1, 0.1).len(), 150_000);
        assert_eq!(segment(3, 1, 9, 0.01), segment(3, 1, 9, 0.01));
        assert_ne!(segment(3, 1, 9, 0.01), segment(4, 1, 9, 0.01));
    }
}

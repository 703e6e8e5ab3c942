//! The experience of a viewer: when playback begins, and where it stops because the next segment is
//! missing. It has no clock: the caller passes the arrival times of segments.

use serde::Serialize;

/// The quality of playing a video.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Quality {
    /// Segments that were played.
    pub(crate) segments: u64,
    /// Octets of these.
    pub(crate) octets: u64,
    /// Segments that did not arrive in time.
    pub(crate) missed: u64,
    /// Segments with other octets than the sender's.
    pub(crate) wrong: u64,
    /// From the first Interest to the first picture, ms.
    pub(crate) startup_ms: f64,
    /// Number of stalls.
    pub(crate) stalls: u64,
    /// Total duration of the stalls, ms.
    pub(crate) stalled_ms: f64,
    /// The longest stall, ms.
    pub(crate) longest_stall_ms: f64,
    /// The longest time of a segment, ms.
    pub(crate) slowest_ms: f64,
}

/// A player with a buffer.
#[derive(Debug)]
pub(crate) struct Playback {
    quality: Quality,
    segment_ms: f64,
    /// Number of buffered segments with which playback begins.
    first: u64,
    /// Time of the first picture, and time at which the buffer will be empty.
    begin_ms: Option<f64>,
    end_ms: f64,
}

impl Playback {
    pub(crate) fn new(segment_ms: f64, first: u64) -> Self {
        Playback { quality: Quality::default(), segment_ms, first: first.max(1), begin_ms: None, end_ms: 0.0 }
    }

    /// Counts the next segment, which arrived `now_ms` after the first Interest and took `took_ms`.
    pub(crate) fn came(&mut self, now_ms: f64, took_ms: f64, octets: usize, is_right: bool) {
        self.quality.segments += 1;
        self.quality.octets += octets as u64;
        self.quality.wrong += u64::from(!is_right);
        self.quality.slowest_ms = self.quality.slowest_ms.max(took_ms);
        if self.begin_ms.is_some() {
            self.go_on(now_ms);
        } else if self.quality.segments == self.first {
            self.begin_ms = Some(now_ms);
            self.quality.startup_ms = now_ms;
            self.end_ms = now_ms + self.segment_ms * self.first as f64;
        }
    }

    /// Counts a segment that the player gave up.
    pub(crate) fn missed(&mut self) {
        self.quality.missed += 1;
    }

    fn go_on(&mut self, now_ms: f64) {
        let stalled_ms = now_ms - self.end_ms;
        if stalled_ms > 0.0 {
            self.quality.stalls += 1;
            self.quality.stalled_ms += stalled_ms;
            self.quality.longest_stall_ms = self.quality.longest_stall_ms.max(stalled_ms);
        }
        self.end_ms = self.end_ms.max(now_ms) + self.segment_ms;
    }

    /// The duration of the buffered segments, ms; zero while playback has not begun.
    pub(crate) fn ahead_ms(&self, now_ms: f64) -> f64 {
        if self.begin_ms.is_some() { (self.end_ms - now_ms).max(0.0) } else { 0.0 }
    }

    pub(crate) fn quality(&self) -> Quality {
        self.quality
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn playback_starts_with_a_full_buffer() {
        let mut playback = Playback::new(1000.0, 2);
        playback.came(100.0, 100.0, 10, true);
        assert_eq!(playback.ahead_ms(100.0), 0.0, "one segment is no full buffer");
        playback.came(250.0, 150.0, 10, true);
        assert_eq!(playback.ahead_ms(250.0), 2000.0);
        // One segment is just in time, and the next one is 1 ms late.
        playback.came(2250.0, 900.0, 10, true);
        assert_eq!(playback.quality().stalls, 0);
        playback.came(3251.0, 950.0, 10, false);
        playback.missed();
        playback.came(7251.0, 10.0, 10, true);
        let quality = playback.quality();
        assert_eq!((quality.stalls, quality.stalled_ms, quality.longest_stall_ms), (2, 3001.0, 3000.0));
        assert_eq!((quality.segments, quality.octets, quality.missed, quality.wrong), (5, 50, 1, 1));
        assert_eq!((quality.startup_ms, quality.slowest_ms), (250.0, 950.0));
    }
}

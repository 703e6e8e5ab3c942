//! The measurements of a receiver: loss, lateness, and jitter as RFC 3550 (section 6.4.1, appendix
//! A.8) defines it.

use serde::Serialize;

use crate::packet::{CLOCK_HZ, Header};

/// The measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Quality {
    /// The number of the first packet requested.
    pub(crate) first: u64,
    /// Packets requested.
    pub(crate) asked: u64,
    /// Packets that arrived.
    pub(crate) received: u64,
    /// Packets that did not arrive within the lifetime of their Interest.
    pub(crate) lost: u64,
    /// Packets that arrived after their playout time.
    pub(crate) late: u64,
    /// Received packets that were not RTP, or not the requested one.
    pub(crate) strange: u64,
    /// Interarrival jitter at the end, ms.
    pub(crate) jitter_ms: f64,
    /// The largest jitter, ms.
    pub(crate) jitter_max_ms: f64,
}

/// Measures the quality packet by packet.
#[derive(Debug)]
pub(crate) struct Meter {
    quality: Quality,
    playout_ms: f64,
    /// Timestamp of the first packet, and the time of its arrival, ms.
    first: Option<(u32, f64)>,
    transit_before_ms: Option<f64>,
}

impl Meter {
    /// A packet is late when it arrives more than `playout_ms` after its due time. The due time is
    /// the arrival of the first received packet plus the difference of their timestamps. `first`
    /// is the number of the first packet requested.
    pub(crate) fn new(playout_ms: f64, first: u64) -> Self {
        Meter {
            quality: Quality { first, ..Quality::default() },
            playout_ms,
            first: None,
            transit_before_ms: None,
        }
    }

    /// Counts a request for a packet.
    pub(crate) fn asked(&mut self) {
        self.quality.asked += 1;
    }

    /// Counts a packet that did not arrive.
    pub(crate) fn lost(&mut self) {
        self.quality.lost += 1;
    }

    /// Counts a received packet that was not the requested one.
    pub(crate) fn strange(&mut self) {
        self.quality.strange += 1;
    }

    /// Counts a packet that arrived at `at_ms` by the receiver's clock.
    pub(crate) fn received(&mut self, header: &Header, at_ms: f64) {
        self.quality.received += 1;
        let (timestamp, came_ms) = *self.first.get_or_insert((header.timestamp, at_ms));
        // Timestamps wrap, so the difference is signed.
        let media_ms =
            f64::from(header.timestamp.wrapping_sub(timestamp).cast_signed()) * 1e3 / CLOCK_HZ as f64;
        let transit_ms = at_ms - came_ms - media_ms;
        self.quality.late += u64::from(transit_ms > self.playout_ms);
        if let Some(before_ms) = self.transit_before_ms.replace(transit_ms) {
            let difference_ms = (transit_ms - before_ms).abs();
            self.quality.jitter_ms += (difference_ms - self.quality.jitter_ms) / 16.0;
            self.quality.jitter_max_ms = self.quality.jitter_max_ms.max(self.quality.jitter_ms);
        }
    }

    /// The measurements so far.
    pub(crate) fn quality(&self) -> Quality {
        self.quality
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_follows_transit_time_differences() {
        let mut meter = Meter::new(50.0, 7);
        let header =
            |tick: u32| Header { sequence: 0, timestamp: u32::MAX.wrapping_add(tick * 1800), ssrc: 1 };
        // The packets are 20 ms apart, in time, and the timestamp wraps.
        for i in 0..10 {
            meter.received(&header(i), 1000.0 + 20.0 * f64::from(i));
        }
        assert!(meter.quality().jitter_ms < 1e-6 && meter.quality().late == 0, "{:?}", meter.quality());
        // One packet arrives 60 ms late. The jitter is 60/16 ms at first. The next packet leaves
        // 15/16 of it and adds 60/16 ms.
        meter.received(&header(10), 1000.0 + 200.0 + 60.0);
        assert!((meter.quality().jitter_ms - 3.75).abs() < 1e-6);
        meter.received(&header(11), 1000.0 + 220.0);
        assert!((meter.quality().jitter_ms - (3.75 * 15.0 / 16.0 + 3.75)).abs() < 1e-6);
        let quality = meter.quality();
        assert_eq!((quality.late, quality.received, quality.first), (1, 12, 7));
    }
}

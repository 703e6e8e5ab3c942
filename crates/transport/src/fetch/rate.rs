//! The rate of pieces, and the time of the next request that a rate allows.

use crate::congestion::Sample;

/// The number of received pieces and the time of the last one. A rate is measured between two of
/// these.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeliverySample {
    pub(super) pieces: u64,
    pub(super) at_ns: u64,
    /// The latest sending time of an answered Interest.
    pub(super) sent_ns: u64,
    /// Whether there were too few requests to fill the path.
    pub(super) starved: bool,
    /// The Interests outstanding, with this one, and the losses so far.
    pub(super) in_flight: usize,
    pub(super) lost: u64,
}

/// The rate of pieces, measured from the sending of an Interest to the arrival of its Data.
#[derive(Debug)]
pub(super) struct Rate {
    pub(super) delivered: DeliverySample,
    /// Until this number of pieces has arrived, requests and not the path limit the rate.
    pub(super) starved_until: u64,
    pub(super) sample: Sample,
    /// The time of the next request of a paced fetch.
    pub(super) send_at_ns: u64,
    /// The time before which the caller allows no request.
    pub(super) held_until_ns: u64,
    /// The start of this pause, if nothing is outstanding.
    pub(super) held_from_ns: Option<u64>,
}

impl Rate {
    /// Creates a measurement that starts at `now_ns`.
    pub(super) fn new(now_ns: u64) -> Self {
        Rate {
            delivered: DeliverySample { at_ns: now_ns, sent_ns: now_ns, ..DeliverySample::default() },
            starved_until: 0,
            sample: Sample::default(),
            send_at_ns: 0,
            held_until_ns: 0,
            held_from_ns: None,
        }
    }

    /// Measures the rate of Data while one Interest was outstanding (as
    /// draft-cheng-iccrg-delivery-rate-estimation does for TCP). It is the lower of the rates of
    /// requests and answers, so that queued Data do not look like a fast path.
    pub(super) fn measure(&mut self, before: DeliverySample, sent_ns: u64, rtt_ns: Option<u64>, now_ns: u64) {
        self.delivered.pieces += 1;
        self.delivered.at_ns = now_ns;
        self.delivered.sent_ns = self.delivered.sent_ns.max(sent_ns);
        let requesting_ns = sent_ns.saturating_sub(before.sent_ns);
        let answering_ns = now_ns.saturating_sub(before.at_ns);
        let pieces = self.delivered.pieces - before.pieces;
        self.sample = Sample {
            rtt_ns,
            rate: pieces as f64 * 1e9 / requesting_ns.max(answering_ns).max(1) as f64,
            starved: before.starved,
            delivered_before: before.pieces,
            in_flight_before: before.in_flight,
            lost_before: before.lost,
            is_beside_path: false,
        };
    }

    /// Measures nothing, because the Data of a near source took nothing of the path that `pace` is
    /// for. The next request may leave earlier for the same reason.
    pub(super) fn pass(&mut self, pace: Option<f64>) {
        self.sample = Sample { is_beside_path: true, ..Sample::default() };
        if let Some(rate) = pace {
            self.send_at_ns = self.send_at_ns.saturating_sub(interval_ns(rate));
        }
    }

    /// Keeps the state when a lost Interest was sent, for the controller.
    pub(super) fn note_loss(&mut self, before: DeliverySample) {
        self.sample.in_flight_before = before.in_flight;
        self.sample.lost_before = before.lost;
    }
}

/// The time between two requests at `rate` per second, at most a second.
pub(super) fn interval_ns(rate: f64) -> u64 {
    (1e9 / rate.max(f64::MIN_POSITIVE)).min(1e9) as u64
}

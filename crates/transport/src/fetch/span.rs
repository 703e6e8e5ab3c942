//! The limits of a fetch in octets, and their growth with the path.

use namely_wire::PACKET_OCTETS_MAX;

use super::Options;

/// Multiple of the octets delivered within a round trip up to which the span grows if it limits the
/// requests. A window is in flight, another one arrives while a loss is detected, and one more each
/// time that the lost piece is requested again; twice that, because a span that is too small lowers
/// the rate that is measured.
const ROUND_TRIPS: u64 = 8;

/// The octets of a fetch between the first that is not delivered and the last that was requested.
///
/// The limit grows with the octets that the caller takes in order within a round trip, as receive
/// buffers of TCP do, while it limits the requests. A caller that stands still, or a short path,
/// therefore takes little memory.
/// All pieces count with the octets of the largest one, so that the limits are numbers of pieces
/// that change seldom.
#[derive(Debug)]
pub(super) struct Span {
    octets: u64,
    octets_max: u64,
    window_octets_max: u64,
    piece_octets: u64,
    share: Share,
    /// Octets of received pieces that are not delivered.
    held_octets: u64,
    /// The largest numbers of pieces in the span and in flight.
    pieces: usize,
    window: usize,
    /// The state at the start of the round trip: delivered and received pieces.
    delivered: u64,
    received: u64,
    round_ends_at_ns: u64,
    /// Whether the span has prevented a request since then.
    is_limiting: bool,
}

/// The share of a fetch in limits that several have together: an equal part, or the octets that the
/// others leave if these are more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of fetches, from 1 on.
    pub fetches: u64,
    /// Octets between the first piece that is not delivered and the last that was requested, of the
    /// others.
    pub others_octets: u64,
}

impl Default for Share {
    fn default() -> Self {
        Share { fetches: 1, others_octets: 0 }
    }
}

impl Share {
    fn of(self, octets_max: u64) -> u64 {
        (octets_max / self.fetches.max(1)).max(octets_max.saturating_sub(self.others_octets))
    }
}

impl Span {
    pub(super) fn new(options: &Options) -> Self {
        let mut span = Span {
            octets: options.span_octets_first.min(options.span_octets_max),
            octets_max: options.span_octets_max,
            window_octets_max: options.window_octets_max,
            piece_octets: PACKET_OCTETS_MAX as u64,
            share: Share::default(),
            held_octets: 0,
            pieces: 0,
            window: 0,
            delivered: 0,
            received: 0,
            round_ends_at_ns: 0,
            is_limiting: false,
        };
        span.count_pieces();
        span
    }

    /// Sets the octets of the largest piece.
    pub(super) fn set_piece_octets(&mut self, octets: u64) {
        self.piece_octets = octets.clamp(1, PACKET_OCTETS_MAX as u64);
        self.count_pieces();
    }

    /// The octets of a piece that has not arrived.
    pub(super) fn piece_octets(&self) -> u64 {
        self.piece_octets
    }

    /// Maximum number of pieces between the first that is not delivered and the last requested.
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    /// Maximum number of pieces in flight.
    pub(super) fn window(&self) -> usize {
        self.window
    }

    /// Records whether `pieces` requested and not delivered ones leave no room for a request.
    pub(super) fn limit(&mut self, pieces: usize) {
        self.is_limiting |= pieces >= self.pieces;
    }

    /// Records the arrival of a piece. Returns false if there is no room for it, because pieces are
    /// longer than announced. The first missing piece, `is_first`, always has room.
    pub(super) fn hold(&mut self, octets: u64, is_first: bool) -> bool {
        if !is_first && self.held_octets.saturating_add(octets) > self.share.of(self.octets_max) {
            return false;
        }
        self.held_octets += octets;
        if octets > self.piece_octets {
            self.set_piece_octets(octets);
        }
        true
    }

    /// Releases the octets of a piece that was delivered, or is not held any longer.
    pub(super) fn release(&mut self, octets: u64) {
        self.held_octets -= octets.min(self.held_octets);
    }

    /// Grows the span once in a round trip of `rtt_ns`. `delivered` pieces were delivered so far,
    /// and `received` ones arrived.
    pub(super) fn turn(&mut self, delivered: u64, received: u64, rtt_ns: u64, now_ns: u64) {
        if now_ns < self.round_ends_at_ns {
            return;
        }
        // After a lost piece arrives, those of several round trips are delivered at once.
        let pieces = (delivered.saturating_sub(self.delivered)).min(received - self.received);
        // The start of the first round trip is not known.
        if self.round_ends_at_ns > 0 && self.is_limiting {
            let octets = pieces.saturating_mul(ROUND_TRIPS * self.piece_octets).min(self.octets_max);
            if octets > self.octets {
                self.octets = octets;
                self.count_pieces();
            }
        }
        (self.delivered, self.received) = (delivered, received);
        self.round_ends_at_ns = now_ns.saturating_add(rtt_ns.max(1));
        self.is_limiting = false;
    }

    /// Sets the share in the limits of all fetches together.
    pub(super) fn set_share(&mut self, share: Share) {
        if self.share != share {
            self.share = share;
            self.count_pieces();
        }
    }

    fn count_pieces(&mut self) {
        let share = self.share;
        let count = |octets: u64| usize::try_from(octets / self.piece_octets).unwrap_or(usize::MAX);
        self.pieces = count(self.octets.min(share.of(self.octets_max))).max(1);
        // Two: one to wait for, one in transit.
        self.window = count(share.of(self.window_octets_max)).max(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn options(first: u64, max: u64) -> Options {
        Options { span_octets_first: first, span_octets_max: max, ..Options::default() }
    }

    #[test]
    fn the_default_limits_admit_ten_gigabits() {
        let in_flight = 375_000_000;
        for octets in [1_700, 8_500, 8_800] {
            let mut span = Span::new(&Options::default());
            span.set_piece_octets(octets);
            assert!(span.window() as u64 * octets >= in_flight, "{octets}");
            let window = in_flight / octets;
            for round in 1..=4 {
                span.limit(usize::MAX);
                span.turn(round * window, round * window, 300 * MS, round * 300 * MS);
            }
            assert!(span.pieces() as u64 * octets >= 2 * in_flight, "{octets}: a loss stops no request");
        }
    }

    #[test]
    fn the_span_grows_with_deliveries() {
        let mut span = Span::new(&options(10 * 8_800, 1_000 * 8_800));
        let mut pieces_after = |delivered, received, limited, now_ms: u64| {
            span.limit(limited);
            span.turn(delivered, received, 100 * MS, now_ms * MS);
            span.pieces()
        };
        assert_eq!(pieces_after(0, 0, 10, 1), 10);
        assert_eq!(pieces_after(10, 10, 10, 50), 10, "once in a round trip");
        assert_eq!(pieces_after(10, 10, 10, 101), 80);
        assert_eq!(pieces_after(10, 50, 80, 201), 80, "nothing was delivered");
        assert_eq!(pieces_after(90, 60, 80, 301), 80, "a lost piece held up what had arrived before");
        assert_eq!(pieces_after(190, 160, 79, 401), 80, "the window limits the requests");
        assert_eq!(pieces_after(1_190, 1_160, 80, 501), 1_000, "the largest span");
    }

    #[test]
    fn fetches_share_the_octets() {
        let mut span = Span::new(&options(1_000 * 8_800, 1_000 * 8_800));
        let mut pieces_with = |fetches, others: u64| {
            span.set_share(Share { fetches, others_octets: others * 8_800 });
            span.pieces()
        };
        assert_eq!(pieces_with(1, 0), 1_000);
        assert_eq!(pieces_with(4, 0), 1_000, "others that hold nothing take nothing");
        assert_eq!((pieces_with(4, 1), pieces_with(4, 749)), (999, 251));
        assert_eq!((pieces_with(4, 750), pieces_with(4, 9_000)), (250, 250), "an equal part");
        assert_eq!(pieces_with(1_000_000, 9_000), 1, "one, so that each goes on");
        span.set_share(Share::default());
        assert_eq!(span.pieces(), 1_000);
    }

    #[test]
    fn longer_pieces_than_announced_are_bounded() {
        let mut span = Span::new(&options(100_000, 100_000));
        span.set_piece_octets(500);
        assert_eq!(span.pieces(), 200);
        let held = (0..200).take_while(|_| span.hold(8_800, false)).count();
        assert_eq!((held, span.pieces()), (11, 11));
        assert!(span.hold(8_800, true), "the first missing piece");
        (0..12).for_each(|_| span.release(8_800));
        assert!(span.hold(8_800, false));
    }
}

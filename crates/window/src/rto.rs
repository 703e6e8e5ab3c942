//! How long an answer may take: RFC 6298, in nanoseconds.

/// The estimate of a round trip, and what follows for the timer. Of 0: nothing was measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rto {
    smoothed_ns: u64,
    deviation_ns: u64,
}

impl Rto {
    /// The timer before anything was measured (RFC 6298, 2.1).
    pub const INITIAL_NS: u64 = 1_000_000_000;
    /// The shortest timer: less than RFC 6298's second, as in most of what runs today.
    pub const MIN_NS: u64 = 200_000_000;
    /// The longest timer, and the longest wait for any one answer.
    pub const MAX_NS: u64 = 4_000_000_000;

    /// Takes a round trip that was measured, of a segment that was asked for once (Karn's rule).
    pub fn measured(&mut self, rtt_ns: u64) {
        let rtt_ns = rtt_ns.clamp(1, Self::MAX_NS);
        if self.smoothed_ns == 0 {
            self.smoothed_ns = rtt_ns;
            self.deviation_ns = rtt_ns / 2;
            return;
        }
        let off_ns = self.smoothed_ns.abs_diff(rtt_ns);
        self.deviation_ns = (3 * self.deviation_ns + off_ns) / 4;
        self.smoothed_ns = ((7 * self.smoothed_ns + rtt_ns) / 8).max(1);
    }

    /// How long to wait for an answer that has been late `timeouts` times: doubled each time.
    pub fn wait_ns(&self, timeouts: u8) -> u64 {
        let wait_ns = if self.smoothed_ns == 0 {
            Self::INITIAL_NS
        } else {
            self.late_ns().clamp(Self::MIN_NS, Self::MAX_NS)
        };
        (wait_ns << u32::from(timeouts.min(8))).min(Self::MAX_NS)
    }

    /// After so long an answer is late, if others come: the timer without its least length.
    pub fn late_ns(&self) -> u64 {
        self.smoothed_ns + 4 * self.deviation_ns
    }

    /// The smoothed round trip; 0 if none was measured.
    pub fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns
    }
}

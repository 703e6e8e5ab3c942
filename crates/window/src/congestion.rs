//! How many segments may be outstanding: slow start, then one more each round trip; less by three
//! tenths when something says congestion (RFC 5681, with the factor of RFC 9438).

/// One segment, in the unit of the window.
const ONE: u32 = 256;

/// The window, in segments.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// In 256ths.
    size: u32,
    /// Below it, the window doubles each round trip.
    slow_start_until: u32,
    max: u32,
}

impl Window {
    /// Segments that are asked for at first (RFC 6928).
    pub const INITIAL: u32 = 10;
    /// The least to which congestion brings a window.
    pub const MIN: u32 = 2;

    /// A window that never exceeds `segments_max`, which is at most 65,536.
    pub fn new(segments_max: u32) -> Self {
        let max = segments_max.clamp(1, 1 << 16) * ONE;
        Window { size: (Self::INITIAL * ONE).min(max), slow_start_until: max, max }
    }

    /// Segments that may be outstanding; at least 1.
    pub fn segments(&self) -> u32 {
        self.size / ONE
    }

    /// A segment has come.
    pub fn grow(&mut self) {
        let more = if self.size < self.slow_start_until { ONE } else { (ONE * ONE / self.size).max(1) };
        self.size = (self.size + more).min(self.max);
    }

    /// Something was lost or marked; to be called at most once a round trip.
    pub fn shrink(&mut self) {
        self.slow_start_until = (self.size / 10 * 7).max(Self::MIN * ONE);
        self.size = self.slow_start_until.min(self.max);
    }

    /// Nothing has come for a whole timer.
    pub fn collapse(&mut self) {
        self.shrink();
        self.size = ONE;
    }
}

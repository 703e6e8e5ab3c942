//! The plane's state of the link to a neighbor.

use alloc::vec::Vec;

/// A link: VIPs flow to the neighbor, and Data flows back.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Capacity in VIPs of each object, per slot.
    pub(crate) takes: Vec<u64>,
    /// The neighbor's last reported counts. Zeros for a neighbor without VIP.
    pub(crate) received: Vec<u64>,
    /// Decayed number of VIPs sent of each object.
    pub(crate) sent_score: Vec<u64>,
    /// The VIPs sent in this slot: object and number.
    pub(crate) sent: Option<(usize, u64)>,
    /// True if VIPs may be sent in this slot.
    pub(crate) is_open: bool,
    /// True if the neighbor's counts are out of date.
    pub(crate) is_silent: bool,
}

impl Link {
    pub(crate) fn new(objects: usize) -> Self {
        let zeros = || alloc::vec![0; objects];
        Link {
            takes: zeros(),
            received: zeros(),
            sent_score: zeros(),
            sent: None,
            is_open: false,
            is_silent: false,
        }
    }
}

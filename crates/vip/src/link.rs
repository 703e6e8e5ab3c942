//! The link to a neighbour, as the plane sees it.

use alloc::vec::Vec;

/// A link along which VIPs go, and Data come back.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// VIPs of each object that it takes in a slot.
    pub(crate) takes: Vec<u64>,
    /// The neighbour's counts, as it told them last. Of one that does not speak VIP, zeros.
    pub(crate) heard: Vec<u64>,
    /// VIPs sent of each object, those of former slots decayed.
    pub(crate) sent_score: Vec<u64>,
    /// What is sent in this slot: object and VIPs.
    pub(crate) sent: Option<(usize, u64)>,
    /// VIPs may be sent in this slot.
    pub(crate) is_open: bool,
    /// Nothing is heard of the neighbour.
    pub(crate) is_silent: bool,
}

impl Link {
    pub(crate) fn new(objects: usize) -> Self {
        let zeros = || alloc::vec![0; objects];
        Link {
            takes: zeros(),
            heard: zeros(),
            sent_score: zeros(),
            sent: None,
            is_open: false,
            is_silent: false,
        }
    }
}

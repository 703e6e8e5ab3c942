//! Measurements of a consumer.

use crate::time_counts::TimeCounts;

/// What became of a consumer's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Requested names or objects.
    pub interests: u64,
    /// Answered ones.
    pub data: u64,
    /// Octets of their Data packets.
    pub octets: u64,
    /// Interests that were sent again.
    pub again: u64,
    /// Interests that a router refused.
    pub nacks: u64,
    /// Names or objects that were given up.
    pub unanswered: u64,
    /// Times from the first Interest to the Data.
    pub times: TimeCounts,
}

impl Requests {
    /// Counts an answer of `octets` after a time.
    pub(crate) fn answered(&mut self, after_ns: u64, octets: usize) {
        self.data += 1;
        self.octets += octets as u64;
        self.times.record(after_ns);
    }

    /// Adds the measurements of another consumer.
    pub fn merge(&mut self, other: &Self) {
        self.interests += other.interests;
        self.data += other.data;
        self.octets += other.octets;
        self.again += other.again;
        self.nacks += other.nacks;
        self.unanswered += other.unanswered;
        self.times.merge(&other.times);
    }
}

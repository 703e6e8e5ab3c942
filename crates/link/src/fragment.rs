//! Fragmentation of a packet (NDNLPv2, indexed fragmentation: FragIndex counts from 0, and Sequence
//! increases by 1 from fragment to fragment).

use core::ops::Range;

use crate::counters::LinkDrop;

/// Fragments of one packet, sent or received.
///
/// This is NFD's limit.
///
/// # Limit
/// The fragment is dropped.
/// - Counter: `too_many_fragments`
/// - Tests: `frag_counts_of_any_size_cost_nothing`,
///   `a_packet_has_at_most_400_fragments`
pub const FRAGMENTS_MAX: u64 = 400;

/// Smallest MTU, octets: NFD's. A packet of 8800 octets then has 339 fragments with reliability on.
pub const MTU_OCTETS_MIN: usize = 64;

/// Minimum size of a padding field with its TYPE and LENGTH.
const PADDING_OCTETS_MIN: usize = 4;
const PADDING_OCTETS_MAX: usize = 256;

/// From this size on a LENGTH takes three octets.
const LONG_OCTETS: usize = 253;

/// The sizes of a packet's fragments: all except the last fill the MTU, or all are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentPlan {
    packet_octets: usize,
    first_octets: usize,
    rest_octets: usize,
    /// FragCount.
    pub(crate) count: u64,
    /// Padding of the last fragment.
    pub(crate) padding_octets: usize,
}

impl FragmentPlan {
    /// Plans a packet with a first fragment of `first_header` octets of header, and other fragments
    /// of `rest_header` octets of header.
    pub(crate) fn new(
        packet_octets: usize,
        mtu: usize,
        first_header: usize,
        rest_header: usize,
    ) -> Result<Self, LinkDrop> {
        let room =
            |header: usize| mtu.checked_sub(header).filter(|room| *room > 0).ok_or(LinkDrop::MtuTooSmall);
        let (first_octets, rest_octets) = (room(first_header)?, room(rest_header)?);
        let count = 1 + packet_octets.saturating_sub(first_octets).div_ceil(rest_octets) as u64;
        if count > FRAGMENTS_MAX {
            return Err(LinkDrop::MtuTooSmall);
        }
        Ok(FragmentPlan { packet_octets, first_octets, rest_octets, count, padding_octets: 0 })
    }

    /// Returns a plan with as many fragments and frames of equal length; the last frame is padded.
    /// The frames of many packets can then pass through the system's network in one piece (generic
    /// segmentation offload), because only a shorter frame ends a batch. `first_header` and
    /// `rest_header` are the exact header sizes. Returns `None` if frames would be longer than
    /// `mtu`, or so short that header sizes differ.
    pub(crate) fn equalized(&self, mtu: usize, first_header: usize, rest_header: usize) -> Option<Self> {
        let others = (self.count as usize).checked_sub(1).filter(|others| *others > 0)?;
        let octets = self.packet_octets + first_header + others * rest_header;
        let shortest = octets.div_ceil(others + 1);
        // At most three extra octets per frame, because a padding field has a minimum size.
        let frame = (shortest..=mtu.min(shortest + 3)).find(|frame| {
            let missing = frame * (others + 1) - octets;
            missing == 0 || missing >= PADDING_OCTETS_MIN
        })?;
        let padding_octets = frame * (others + 1) - octets;
        let (first_octets, rest_octets) = (frame.checked_sub(first_header)?, frame.checked_sub(rest_header)?);
        let last_octets = rest_octets.checked_sub(padding_octets)?;
        let is_alike = first_octets.min(last_octets) >= LONG_OCTETS && padding_octets <= PADDING_OCTETS_MAX;
        is_alike.then_some(FragmentPlan { first_octets, rest_octets, padding_octets, ..*self })
    }

    /// Returns the range of the packet in fragment `index`.
    pub(crate) fn range(&self, index: u64) -> Range<u32> {
        let start_of = |index: u64| match index.checked_sub(1) {
            None => 0,
            Some(n) => self.first_octets + n as usize * self.rest_octets,
        };
        start_of(index) as u32..start_of(index + 1).min(self.packet_octets) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn fragments_cover_the_packet_once(
            packet in 1usize..9000, mtu in 64usize..2000, first in 10usize..60, rest in 10usize..40,
        ) {
            let plan = FragmentPlan::new(packet, mtu, first, rest).unwrap();
            let mut end = 0;
            for index in 0..plan.count {
                let range = plan.range(index);
                prop_assert_eq!(range.start, end);
                prop_assert!(!range.is_empty());
                let header = if index == 0 { first } else { rest };
                prop_assert!(range.len() + header <= mtu);
                end = range.end;
            }
            prop_assert_eq!(end as usize, packet);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn equal_fragments_have_one_length(
            packet in 1000usize..9000, mtu in 300usize..2000, first in 18usize..60,
        ) {
            let rest = 21;
            let plan = FragmentPlan::new(packet, mtu, first + 6, rest + 6).unwrap();
            let Some(equal) = plan.equalized(mtu, first, rest) else {
                prop_assert!(plan.count == 1 || mtu < 700 || packet / (plan.count as usize) > mtu - 80);
                return Ok(());
            };
            prop_assert_eq!(equal.count, plan.count);
            let padding = equal.padding_octets;
            let mut end = 0;
            let mut frames = Vec::new();
            for index in 0..equal.count {
                let range = equal.range(index);
                prop_assert_eq!(range.start, end);
                let is_last = index + 1 == equal.count;
                let header = if index == 0 { first } else { rest };
                frames.push(range.len() + header + if is_last { padding } else { 0 });
                end = range.end;
            }
            prop_assert_eq!(end as usize, packet);
            prop_assert!(frames.iter().all(|frame| *frame == frames[0] && *frame <= mtu), "{:?}", frames);
            prop_assert!(padding == 0 || (4..=256).contains(&padding));
        }
    }

    #[test]
    fn a_packet_has_at_most_400_fragments() {
        assert_eq!(FragmentPlan::new(400, 11, 10, 10).unwrap().count, FRAGMENTS_MAX);
        assert_eq!(FragmentPlan::new(401, 11, 10, 10), Err(LinkDrop::MtuTooSmall));
    }

    #[test]
    fn an_mtu_filled_by_headers_fails() {
        assert_eq!(FragmentPlan::new(100, 64, 64, 30), Err(LinkDrop::MtuTooSmall));
        assert_eq!(FragmentPlan::new(100, 64, 30, 64), Err(LinkDrop::MtuTooSmall));
    }
}

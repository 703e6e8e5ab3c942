//! How a packet is cut into fragments (NDNLPv2, indexed fragmentation: FragIndex counts from 0, and
//! Sequence rises by 1 from fragment to fragment).

use core::ops::Range;

use crate::counters::LinkDrop;

/// Maximum number of fragments of one packet, sent or received: NFD's limit.
pub const FRAGMENTS_MAX: u64 = 400;

/// Smallest MTU, octets: NFD's. A packet of 8800 octets is then 339 fragments with reliability on.
pub const MTU_OCTETS_MIN: usize = 64;

/// A field of padding with its TYPE and LENGTH.
const PADDING_OCTETS_MIN: usize = 4;
const PADDING_OCTETS_MAX: usize = 256;

/// From here on a LENGTH takes three octets.
const LONG_OCTETS: usize = 253;

/// The sizes of a packet's fragments: all but the last fill the MTU, or all are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentPlan {
    packet_octets: usize,
    first_octets: usize,
    rest_octets: usize,
    /// FragCount.
    pub(crate) count: u64,
}

impl FragmentPlan {
    /// A plan for a packet whose first fragment needs `first_header` octets of header, and each
    /// other one `rest_header`.
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
        Ok(FragmentPlan { packet_octets, first_octets, rest_octets, count })
    }

    /// The same packet in as many fragments, all of whose frames are equally long, and the octets
    /// of padding in the last one that this takes. The frames of many packets can then go through
    /// a system's network in one piece (generic segmentation offload), which one shorter frame
    /// ends. `first_header` and `rest_header` are what the headers take exactly. `None` if frames
    /// would be longer than `mtu`, or so short that headers are not all alike.
    pub(crate) fn equalized(
        &self,
        mtu: usize,
        first_header: usize,
        rest_header: usize,
    ) -> Option<(Self, usize)> {
        let others = (self.count as usize).checked_sub(1).filter(|others| *others > 0)?;
        let octets = self.packet_octets + first_header + others * rest_header;
        let shortest = octets.div_ceil(others + 1);
        // At most three times: a field of padding is not shorter than this.
        let frame = (shortest..=mtu.min(shortest + 3)).find(|frame| {
            let missing = frame * (others + 1) - octets;
            missing == 0 || missing >= PADDING_OCTETS_MIN
        })?;
        let padding = frame * (others + 1) - octets;
        let (first_octets, rest_octets) = (frame.checked_sub(first_header)?, frame.checked_sub(rest_header)?);
        let last_octets = rest_octets.checked_sub(padding)?;
        let is_alike = first_octets.min(last_octets) >= LONG_OCTETS && padding <= PADDING_OCTETS_MAX;
        is_alike.then_some((FragmentPlan { first_octets, rest_octets, ..*self }, padding))
    }

    /// Which octets of the packet fragment `index` carries.
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
        fn fragments_cover_the_packet_once_and_fit_the_mtu(
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
        fn equal_fragments_cover_the_packet_once_in_frames_of_one_length(
            packet in 1000usize..9000, mtu in 300usize..2000, first in 18usize..60,
        ) {
            let rest = 21;
            let plan = FragmentPlan::new(packet, mtu, first + 6, rest + 6).unwrap();
            let Some((equal, padding)) = plan.equalized(mtu, first, rest) else {
                prop_assert!(plan.count == 1 || mtu < 700 || packet / (plan.count as usize) > mtu - 80);
                return Ok(());
            };
            prop_assert_eq!(equal.count, plan.count);
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
    fn four_hundred_fragments_pass_and_one_more_does_not() {
        assert_eq!(FragmentPlan::new(400, 11, 10, 10).unwrap().count, FRAGMENTS_MAX);
        assert_eq!(FragmentPlan::new(401, 11, 10, 10), Err(LinkDrop::MtuTooSmall));
    }

    #[test]
    fn an_mtu_that_headers_fill_is_an_error() {
        assert_eq!(FragmentPlan::new(100, 64, 64, 30), Err(LinkDrop::MtuTooSmall));
        assert_eq!(FragmentPlan::new(100, 64, 30, 64), Err(LinkDrop::MtuTooSmall));
    }
}

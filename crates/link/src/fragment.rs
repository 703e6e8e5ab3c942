//! How a packet is cut into fragments (NDNLPv2, indexed fragmentation: FragIndex counts from 0, and
//! Sequence rises by 1 from fragment to fragment).

use core::ops::Range;

use crate::counters::LinkDrop;

/// Maximum number of fragments of one packet, sent or received: NFD's limit.
pub const FRAGMENTS_MAX: u64 = 400;

/// Smallest MTU, octets: NFD's. A packet of 8800 octets is then 339 fragments with reliability on.
pub const MTU_OCTETS_MIN: usize = 64;

/// The sizes of a packet's fragments: all but the last fill the MTU.
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

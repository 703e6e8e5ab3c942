//! What waits in front of a worker that waits for its disk, where it is counted: a router that an
//! experiment hosts has it, as NB-Cache's prototype has. In `namelyd` nothing waits there.

use std::collections::VecDeque;

use namely_wire::tlv;

use crate::dispatcher::Dispatched;

/// Maximum number of packets that wait: as many as in the prototype.
const PACKETS_MAX: usize = 20_000;

/// Packets that a worker takes in one turn at most, if it waits for none of them.
pub(super) const TAKEN_PER_TURN: usize = 64;

/// Packets that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Line(VecDeque<Dispatched>);

impl Line {
    /// Puts a packet behind the others; given back if as many wait as may.
    pub(super) fn put(&mut self, packet: Dispatched) -> Option<Dispatched> {
        if self.0.len() >= PACKETS_MAX {
            return Some(packet);
        }
        self.0.push_back(packet);
        None
    }

    pub(super) fn take(&mut self) -> Option<Dispatched> {
        self.0.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Whether a packet is about this router: who looks at it waits for nothing that is looked at.
pub(super) fn is_of_management(packet: &[u8]) -> bool {
    let name = tlv::read_tlv(packet).and_then(|packet| packet.children().require(namely_wire::types::NAME));
    let first = name.and_then(|name| tlv::read_tlv(name.value));
    first.is_ok_and(|first| first.value == b"localhost")
}

#[cfg(test)]
mod tests {
    use namely_forwarder::{FaceId, Received};
    use namely_wire::{InterestBuilder, LpHeaders};

    use super::*;
    use crate::Packet;

    fn packet(name: &str) -> Packet {
        Packet::from(InterestBuilder::new(name.parse().unwrap()).build())
    }

    #[test]
    fn a_line_takes_packets_in_order_up_to_its_limit() {
        let mut line = Line::default();
        let numbered =
            |n: usize| (FaceId(n as u64), Received { packet: packet("/a"), headers: LpHeaders::default() });
        assert!((0..PACKETS_MAX).all(|n| line.put(numbered(n)).is_none()));
        let refused = line.put(numbered(PACKETS_MAX));
        assert_eq!(refused.map(|(face, _)| face.0), Some(PACKETS_MAX as u64));
        assert_eq!((line.take().map(|(face, _)| face.0), line.len()), (Some(0), PACKETS_MAX - 1));
        assert!(line.put(numbered(7)).is_none());
    }

    #[test]
    fn what_is_about_the_router_is_told_by_its_name() {
        assert!(is_of_management(&packet("/localhost/nfd/status/general")));
        assert!(!is_of_management(&packet("/localhop/nfd")) && !is_of_management(&packet("/a")));
        assert!(!is_of_management(&[]) && !is_of_management(&[5, 0]) && !is_of_management(&packet("/")));
    }
}

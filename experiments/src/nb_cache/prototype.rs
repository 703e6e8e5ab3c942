//! The disk as NB-Cache's prototype uses it: a worker waits for its disk, each Data is written by a
//! request of its own, and completed reads are reported late.

use std::collections::VecDeque;
use std::time::Duration;

use namely_dataplane::{DiskVariant, Packet, QueueFull, WorkerVariant};
use namely_forwarder::{FaceId, Received};
use namely_tier::{EngineKind, Options, Tier};
use namely_wire::tlv;

/// Packets that wait for a worker: as many as in the prototype.
const PACKETS_MAX: usize = 20_000;

/// The properties of the prototype that `namelyd` lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prototype {
    /// The worker waits for each disk request.
    pub(super) blocks: bool,
    /// Each Data is written by a separate request.
    pub(super) writes_alone: bool,
    /// Delay between the end of a read and its report to the worker.
    pub(super) report_delay: Duration,
}

impl DiskVariant for Prototype {
    fn change(&self, options: &mut Options) {
        if self.blocks {
            options.engine = EngineKind::Inline;
        }
        options.writes_alone = self.writes_alone;
    }

    fn worker(&self) -> Box<dyn WorkerVariant> {
        Box::new(PrototypeWorker { prototype: *self, ..PrototypeWorker::default() })
    }
}

/// A worker of the prototype, with the packets that wait for it in the order of their arrival.
#[derive(Debug, Default)]
struct PrototypeWorker {
    prototype: Prototype,
    queue: VecDeque<(FaceId, Received<Packet>)>,
    has_waited: bool,
}

impl WorkerVariant for PrototypeWorker {
    fn has_queue(&self) -> bool {
        self.prototype.blocks
    }

    fn put(
        &mut self,
        face: FaceId,
        received: Received<Packet>,
    ) -> Result<Option<Received<Packet>>, QueueFull> {
        if !self.prototype.blocks || is_of_management(&received.packet) {
            return Ok(Some(received));
        }
        if self.queue.len() >= PACKETS_MAX {
            return Err(QueueFull);
        }
        self.queue.push_back((face, received));
        Ok(None)
    }

    fn take(&mut self) -> Option<(FaceId, Received<Packet>)> {
        self.queue.pop_front()
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn requested(&mut self, disk: &Tier) {
        if self.prototype.blocks {
            disk.turn();
            self.has_waited = true;
        }
    }

    fn take_has_waited(&mut self) -> bool {
        std::mem::take(&mut self.has_waited)
    }

    /// Requests to the disk of a blocking worker never wait. So the packets that wait for the
    /// worker count in their place.
    fn is_busy(&self, disk: &Tier) -> Option<bool> {
        self.prototype.blocks.then(|| self.queue.len() >= disk.pending_threshold())
    }

    fn report_delay(&self) -> Duration {
        self.prototype.report_delay
    }
}

/// Returns true if a packet concerns the router's management. Such packets bypass the queue, so
/// that status queries do not wait in the queue that they measure.
fn is_of_management(packet: &[u8]) -> bool {
    let name = tlv::read_tlv(packet).and_then(|packet| packet.children().require(namely_wire::types::NAME));
    let first = name.and_then(|name| tlv::read_tlv(name.value));
    first.is_ok_and(|first| first.value == b"localhost")
}

#[cfg(test)]
mod tests {
    use namely_wire::{InterestBuilder, LpHeaders};

    use super::*;

    fn packet(name: &str) -> Packet {
        Packet::from(InterestBuilder::new(name.parse().unwrap()).build())
    }

    fn received(name: &str) -> Received<Packet> {
        Received { packet: packet(name), headers: LpHeaders::default() }
    }

    #[test]
    fn the_queue_keeps_order_up_to_its_limit() {
        let mut worker = Prototype { blocks: true, ..Prototype::default() }.worker();
        for number in 0..PACKETS_MAX {
            assert!(worker.put(FaceId(number as u64), received("/a")).unwrap().is_none());
        }
        assert_eq!(worker.put(FaceId(0), received("/a")).err(), Some(QueueFull));
        assert_eq!((worker.take().map(|(face, _)| face.0), worker.len()), (Some(0), PACKETS_MAX - 1));
        assert!(worker.put(FaceId(7), received("/a")).unwrap().is_none());
    }

    #[test]
    fn management_bypasses_the_queue() {
        assert!(is_of_management(&packet("/localhost/nfd/status/general")));
        assert!(!is_of_management(&packet("/localhop/nfd")) && !is_of_management(&packet("/a")));
        assert!(!is_of_management(&[]) && !is_of_management(&[5, 0]) && !is_of_management(&packet("/")));
        let mut worker = Prototype { blocks: true, ..Prototype::default() }.worker();
        assert!(worker.put(FaceId(1), received("/localhost/nfd")).unwrap().is_some());
        assert!(Prototype::default().worker().put(FaceId(1), received("/a")).unwrap().is_some());
    }
}

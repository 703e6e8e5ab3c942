//! Packets for VIP, on their way from workers to the thread that runs the virtual plane. Each
//! neighbor has its own queue, and they are served round-robin, so a neighbor that sends without
//! pause does not fill the queue of another.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use namely_forwarder::{FaceId, Outgoing};
use parking_lot::{Condvar, Mutex};

use crate::Packet;

/// Packets of a neighbor that wait for the plane.
///
/// # Limit
/// A further packet is dropped.
/// - Counter: `vip.queue_full`
/// - Tests: `a_neighbor_cannot_take_anothers_places`
pub(crate) const VIP_PACKETS_WAITING_MAX: usize = 64;

/// The queue of packets for the plane. Workers put packets in, and one thread takes them out.
#[derive(Debug)]
pub struct VipInbox {
    face: FaceId,
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// In the order of the configuration.
    neighbours: Vec<Waiting>,
    /// The neighbor to serve next.
    turn: usize,
    is_woken: bool,
    strangers: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    face: Option<FaceId>,
    packets: VecDeque<Packet>,
    dropped: u64,
}

/// The event that ended a wait.
#[derive(Debug)]
pub enum VipEvent {
    /// A packet of the neighbor with this index.
    Packet(usize, Packet),
    /// [`VipInbox::wake`] was called.
    Woken,
    /// The time `due` was reached.
    Due,
}

impl VipInbox {
    /// Creates the inbox of the plane's face.
    pub fn new(face: FaceId) -> Self {
        VipInbox { face, queue: Mutex::default(), filled: Condvar::new() }
    }

    /// Returns the plane's face.
    pub fn face(&self) -> FaceId {
        self.face
    }

    /// Sets the face of each neighbor. Waiting packets of faces that stay are retained.
    pub fn set_neighbours(&self, faces: &[Option<FaceId>]) {
        let mut queue = self.queue.lock();
        queue.neighbours.resize_with(faces.len(), Waiting::default);
        for (waiting, face) in queue.neighbours.iter_mut().zip(faces) {
            if waiting.face != *face {
                waiting.face = *face;
                // The packets of the former face may be another neighbor's.
                waiting.packets.clear();
            }
        }
    }

    /// Queues a packet that the forwarder sent to the face.
    pub(super) fn push(&self, outgoing: Outgoing<Packet>) {
        let from = outgoing.headers.incoming_face_id.map(FaceId);
        let mut queue = self.queue.lock();
        // The packet of a Nack is this router's own Interest, so it is no packet of the neighbor.
        let is_from_neighbor = from.is_some() && outgoing.headers.nack.is_none();
        let known = queue.neighbours.iter_mut().find(|waiting| is_from_neighbor && waiting.face == from);
        let Some(waiting) = known else {
            queue.strangers += 1;
            return;
        };
        if waiting.packets.len() >= VIP_PACKETS_WAITING_MAX {
            waiting.dropped += 1;
            return;
        }
        waiting.packets.push_back(outgoing.packet);
        drop(queue);
        self.filled.notify_one();
    }

    /// Waits for the next event, until `due`.
    pub fn next(&self, due: Instant) -> VipEvent {
        let mut queue = self.queue.lock();
        loop {
            if std::mem::take(&mut queue.is_woken) {
                return VipEvent::Woken;
            }
            // Checked before packets, so that a sender without pause cannot delay due work.
            let left = due.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return VipEvent::Due;
            }
            if let Some((neighbour, packet)) = queue.take() {
                return VipEvent::Packet(neighbour, packet);
            }
            self.filled.wait_for(&mut queue, left);
        }
    }

    /// Ends a wait.
    pub fn wake(&self) {
        self.queue.lock().is_woken = true;
        self.filled.notify_one();
    }

    /// Packets of each neighbor that found its queue full.
    pub fn dropped(&self) -> Vec<u64> {
        self.queue.lock().neighbours.iter().map(|waiting| waiting.dropped).collect()
    }

    /// Packets that arrived by no neighbor's face, or were Nacks.
    pub fn strangers(&self) -> u64 {
        self.queue.lock().strangers
    }
}

impl Queue {
    fn take(&mut self) -> Option<(usize, Packet)> {
        let count = self.neighbours.len();
        for step in 0..count {
            let neighbour = (self.turn + step) % count;
            if let Some(packet) = self.neighbours[neighbour].packets.pop_front() {
                // The remainder above wraps a turn that is past the last neighbor.
                self.turn = neighbour + 1;
                return Some((neighbour, packet));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use namely_wire::LpHeaders;

    use super::*;

    fn push_from(inbox: &VipInbox, face: u64) {
        let headers = LpHeaders { incoming_face_id: Some(face), ..LpHeaders::default() };
        inbox.push(Outgoing { packet: Packet::from(&[5, 0][..]), headers, hop_limit: None });
    }

    fn next(inbox: &VipInbox) -> Option<usize> {
        match inbox.next(Instant::now() + Duration::from_millis(1)) {
            VipEvent::Packet(neighbour, _) => Some(neighbour),
            _ => None,
        }
    }

    #[test]
    fn a_neighbor_cannot_take_anothers_places() {
        let inbox = VipInbox::new(FaceId(300));
        inbox.set_neighbours(&[Some(FaceId(301)), None, Some(FaceId(302))]);
        (0..=VIP_PACKETS_WAITING_MAX).for_each(|_| push_from(&inbox, 301));
        push_from(&inbox, 302);
        assert_eq!(inbox.dropped(), [1, 0, 0]);
        let long = Instant::now() + Duration::from_secs(60);
        let mut order = Vec::new();
        for _ in 0..=VIP_PACKETS_WAITING_MAX {
            let VipEvent::Packet(neighbour, _) = inbox.next(long) else { panic!("a packet waits") };
            order.push(neighbour);
        }
        assert_eq!(order.iter().position(|n| *n == 2), Some(1), "they take turns");
        assert_eq!(order.iter().filter(|n| **n == 0).count(), VIP_PACKETS_WAITING_MAX);
        assert_eq!(next(&inbox), None);
    }

    #[test]
    fn packets_of_other_faces_are_counted() {
        let inbox = VipInbox::new(FaceId(300));
        push_from(&inbox, 301);
        inbox.set_neighbours(&[Some(FaceId(301))]);
        push_from(&inbox, 302);
        assert_eq!((next(&inbox), inbox.strangers()), (None, 2));
        // The waiting packets of a closed face are dropped.
        push_from(&inbox, 301);
        inbox.set_neighbours(&[Some(FaceId(303))]);
        assert_eq!(next(&inbox), None);
    }

    #[test]
    fn wakes_and_due_work_precede_packets() {
        let inbox = VipInbox::new(FaceId(300));
        inbox.set_neighbours(&[Some(FaceId(301))]);
        push_from(&inbox, 301);
        inbox.wake();
        let long = Instant::now() + Duration::from_secs(60);
        assert!(matches!(inbox.next(long), VipEvent::Woken));
        assert!(matches!(inbox.next(Instant::now()), VipEvent::Due));
        assert!(matches!(inbox.next(long), VipEvent::Packet(0, _)));
    }
}

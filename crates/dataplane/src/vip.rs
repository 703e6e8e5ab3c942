//! What comes for VIP, on its way from workers to the thread that runs the virtual plane. Each
//! neighbour has a queue of its own and they take turns, so that one which sends without pause
//! fills nobody else's.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use namely_forwarder::{FaceId, Outgoing};
use parking_lot::{Condvar, Mutex};

use crate::Packet;

/// Packets of one neighbour that wait. One more is dropped and counted (`vip.queue_full`).
pub(crate) const VIP_PACKETS_WAITING_MAX: usize = 64;

/// Between workers, which put packets in, and the one thread that takes them out.
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
    /// Whose turn it is.
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

/// Why a wait ended.
#[derive(Debug)]
pub enum VipEvent {
    /// A packet of the neighbour with this index.
    Packet(usize, Packet),
    /// [`VipInbox::wake`] was called.
    Woken,
    /// The time has come.
    Due,
}

impl VipInbox {
    /// Of the face that the plane has.
    pub fn new(face: FaceId) -> Self {
        VipInbox { face, queue: Mutex::default(), filled: Condvar::new() }
    }

    /// The face that the plane has.
    pub fn face(&self) -> FaceId {
        self.face
    }

    /// Says by which face each neighbour comes. What waits of faces that stay goes on waiting.
    pub fn set_neighbours(&self, faces: &[Option<FaceId>]) {
        let mut queue = self.queue.lock();
        queue.neighbours.resize_with(faces.len(), Waiting::default);
        for (waiting, face) in queue.neighbours.iter_mut().zip(faces) {
            if waiting.face != *face {
                waiting.face = *face;
                waiting.packets.clear();
            }
        }
    }

    /// A worker has a packet that the forwarder sent to the face.
    pub(super) fn hear(&self, outgoing: Outgoing<Packet>) {
        let from = outgoing.headers.incoming_face_id.map(FaceId);
        let mut queue = self.queue.lock();
        // What a neighbour refuses (Nack) comes back as the Interest that it was.
        let is_told = from.is_some() && outgoing.headers.nack.is_none();
        let known = queue.neighbours.iter_mut().find(|waiting| is_told && waiting.face == from);
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

    /// Waits for what comes next, until `due`.
    pub fn next(&self, due: Instant) -> VipEvent {
        let mut queue = self.queue.lock();
        loop {
            if std::mem::take(&mut queue.is_woken) {
                return VipEvent::Woken;
            }
            // Before packets: what is due is not put off by who sends without pause.
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

    /// Packets of each neighbour that found its queue full.
    pub fn dropped(&self) -> Vec<u64> {
        self.queue.lock().neighbours.iter().map(|waiting| waiting.dropped).collect()
    }

    /// Packets that came by no neighbour's face, or were refusals.
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

    fn heard(inbox: &VipInbox, face: u64) {
        let headers = LpHeaders { incoming_face_id: Some(face), ..LpHeaders::default() };
        inbox.hear(Outgoing { packet: Packet::from(&[5, 0][..]), headers, hop_limit: None });
    }

    fn next(inbox: &VipInbox) -> Option<usize> {
        match inbox.next(Instant::now() + Duration::from_millis(1)) {
            VipEvent::Packet(neighbour, _) => Some(neighbour),
            _ => None,
        }
    }

    #[test]
    fn so_many_packets_of_a_neighbour_wait_and_one_more_takes_nobody_elses_place() {
        let inbox = VipInbox::new(FaceId(300));
        inbox.set_neighbours(&[Some(FaceId(301)), None, Some(FaceId(302))]);
        (0..=VIP_PACKETS_WAITING_MAX).for_each(|_| heard(&inbox, 301));
        heard(&inbox, 302);
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
    fn packets_by_other_faces_are_counted_and_not_heard() {
        let inbox = VipInbox::new(FaceId(300));
        heard(&inbox, 301);
        inbox.set_neighbours(&[Some(FaceId(301))]);
        heard(&inbox, 302);
        assert_eq!((next(&inbox), inbox.strangers()), (None, 2));
        // A face that went takes along what waited.
        heard(&inbox, 301);
        inbox.set_neighbours(&[Some(FaceId(303))]);
        assert_eq!(next(&inbox), None);
    }

    #[test]
    fn a_wake_and_what_is_due_come_before_packets() {
        let inbox = VipInbox::new(FaceId(300));
        inbox.set_neighbours(&[Some(FaceId(301))]);
        heard(&inbox, 301);
        inbox.wake();
        let long = Instant::now() + Duration::from_secs(60);
        assert!(matches!(inbox.next(long), VipEvent::Woken));
        assert!(matches!(inbox.next(Instant::now()), VipEvent::Due));
        assert!(matches!(inbox.next(long), VipEvent::Packet(0, _)));
    }
}

//! The software dispatcher (`IS-39`), for links whose packets the system cannot spread over cores.
//! The worker that reads such a link hands its packets to other workers, by name or at random.
//!
//! The reading worker does the work that depends on the order of arrival: it reads the socket and
//! reassembles fragments. Each resulting network packet waits in the queue of another worker, which
//! runs the forwarder and sends. By name, packets of one name stay in order; at random, they may be
//! reordered.
//!
//! Each worker has one bounded queue. A packet for a full queue is dropped and counted.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use namely_forwarder::{FaceId, Received};
use namely_io::{DispatchedLinks, Waker};
use namely_wire::tlv;
use parking_lot::Mutex;

use crate::Packet;

/// Packets that are handed over together. A small batch lets the other worker begin before this
/// worker has read all packets.
const BATCH_PACKETS: usize = 32;

/// Dispatched packets that a worker takes in one turn.
///
/// It serves its own sockets after that.
///
/// # Limit
/// The rest is taken in the next turn.
/// - Tests: `packets_per_dispatch_turn_are_bounded`
const TAKEN_PER_TURN: usize = 256;

/// The options of the dispatch of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatcherOptions {
    /// The dispatched links, and whether the worker that reads them does nothing else.
    pub links: DispatchedLinks,
    /// The choice of the worker.
    pub by: DispatchBy,
    /// Dispatched packets that wait for one worker.
    ///
    /// # Limit
    /// The packet is dropped.
    /// - Value: 1024
    /// - Setting: `faces.dispatcher.queue_packets`
    /// - Counter: `dispatcher_full`
    /// - Tests: `a_full_queue_drops_further_packets`,
    ///   `packets_dropped_between_workers_are_counted`
    pub queue_packets: usize,
}

impl Default for DispatcherOptions {
    fn default() -> Self {
        let links = DispatchedLinks::default();
        DispatcherOptions { links, by: DispatchBy::default(), queue_packets: 1024 }
    }
}

/// The choice of the worker for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DispatchBy {
    /// By the hash of the whole name: packets of one name stay in order.
    #[default]
    Name,
    /// Any worker, at random.
    Random,
}

/// A packet and its incoming face.
pub(super) type Dispatched = (FaceId, Received<Packet>);

/// The packets that wait for one worker.
pub(super) struct Queue {
    packets: Mutex<VecDeque<Dispatched>>,
    /// Number of waiting packets; read without the lock.
    waiting: AtomicUsize,
    /// Number of packets that were ever put in.
    count: AtomicU64,
    limit: usize,
    waker: Waker,
}

impl Queue {
    pub(super) fn new(limit: usize, waker: Waker) -> Self {
        Queue {
            packets: Mutex::default(),
            waiting: AtomicUsize::new(0),
            count: AtomicU64::new(0),
            limit,
            waker,
        }
    }

    /// Puts in as many packets as there is room for, in order, and wakes the worker if it may
    /// sleep. The rest stays in `batch`.
    fn put(&self, batch: &mut Vec<Dispatched>) {
        let mut packets = self.packets.lock();
        let (was_empty, room) = (packets.is_empty(), self.limit - packets.len());
        let count = room.min(batch.len());
        packets.extend(batch.drain(..count));
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        // Stored under the lock, so that the last value is the length. Release pairs with the
        // Acquire of `has_some`.
        self.waiting.store(packets.len(), Ordering::Release);
        // The first packet wakes the worker. Later ones need not: the worker does not sleep again
        // while `has_some` is true.
        let is_woken = was_empty && !packets.is_empty();
        drop(packets);
        if is_woken {
            self.waker.wake();
        }
    }

    /// Takes out the packets for one iteration of the worker's loop.
    pub(super) fn take(&self, into: &mut Vec<Dispatched>) {
        if self.has_some() {
            let mut packets = self.packets.lock();
            let count = packets.len().min(TAKEN_PER_TURN);
            into.extend(packets.drain(..count));
            self.waiting.store(packets.len(), Ordering::Release);
        }
    }

    /// Packets that were ever put in.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns true if packets wait.
    pub(super) fn has_some(&self) -> bool {
        // Acquire pairs with the Release stores under the lock. This call takes no lock.
        self.waiting.load(Ordering::Acquire) > 0
    }
}

/// The state with which one worker hands packets to others.
pub(super) struct Dispatcher {
    by: DispatchBy,
    own: usize,
    /// Packets are dispatched to the workers from this index on.
    first: usize,
    is_on: bool,
    /// Packets that are about to be handed over, by worker.
    batches: Vec<Vec<Dispatched>>,
    hasher: RandomState,
    random: u64,
}

impl Dispatcher {
    /// The dispatcher of worker `own` of `workers`, all of which have the same `hasher`.
    pub(super) fn new(options: &DispatcherOptions, hasher: RandomState, own: usize, workers: usize) -> Self {
        // Never zero, because the generator would stay at zero.
        let random = hasher.hash_one(own) | 1;
        let first = usize::from(options.links.own_worker && workers > 1);
        let batches = (0..workers).map(|_| Vec::new()).collect();
        let is_on = workers > 1 && !options.links.links.is_empty();
        Dispatcher { by: options.by, own, first, is_on, batches, hasher, random }
    }

    /// Returns true if packets of some link are dispatched and there is another worker.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns the worker for a packet; `None` if it is this one, or there is no other.
    pub(super) fn choose(&mut self, packet: &[u8]) -> Option<usize> {
        let spread = match self.by {
            DispatchBy::Name => self.hasher.hash_one(name_octets(packet)),
            DispatchBy::Random => self.next_random(),
        };
        // The upper half is as random as the lower. A product maps it to a worker without a
        // division.
        let workers = (self.batches.len() - self.first) as u64;
        let chosen = self.first + (((spread >> 32) * workers) >> 32) as usize;
        (chosen != self.own).then_some(chosen)
    }

    /// Xorshift64: quick, and even enough to spread load.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Adds a packet for another worker. Packets that find no room there are reported to `dropped`.
    pub(super) fn add(
        &mut self,
        queues: &[Queue],
        worker: usize,
        packet: Dispatched,
        dropped: &mut dyn FnMut(FaceId),
    ) {
        let Some(batch) = self.batches.get_mut(worker) else { return };
        batch.push(packet);
        if batch.len() >= BATCH_PACKETS {
            hand_over(&queues[worker], batch, dropped);
        }
    }

    /// Hands over the remaining packets at the end of an iteration.
    pub(super) fn flush(&mut self, queues: &[Queue], dropped: &mut dyn FnMut(FaceId)) {
        for (queue, batch) in queues.iter().zip(&mut self.batches) {
            if !batch.is_empty() {
                hand_over(queue, batch, dropped);
            }
        }
    }
}

fn hand_over(queue: &Queue, batch: &mut Vec<Dispatched>, dropped: &mut dyn FnMut(FaceId)) {
    queue.put(batch);
    batch.drain(..).for_each(|(face, _)| dropped(face));
}

/// Returns the name of an Interest or Data, as its TLV's value; empty if there is none.
fn name_octets(packet: &[u8]) -> &[u8] {
    let name = tlv::read_tlv(packet).and_then(|packet| packet.children().require(namely_wire::types::NAME));
    name.map_or(&[], |name| name.value)
}

#[cfg(test)]
mod tests {
    use namely_wire::{InterestBuilder, LpHeaders};

    use super::*;

    fn packet(name: &str) -> Vec<u8> {
        InterestBuilder::new(name.parse().unwrap()).build()
    }

    fn dispatched(number: u64) -> Dispatched {
        let packet = Packet::from(packet(&format!("/a/{number}")));
        (FaceId(number), Received { packet, headers: LpHeaders::default() })
    }

    fn queues(count: usize, limit: usize) -> Vec<Queue> {
        (0..count).map(|_| Queue::new(limit, Waker::new().unwrap())).collect()
    }

    fn dispatcher(by: DispatchBy, own_worker: bool, workers: usize) -> Dispatcher {
        let links = DispatchedLinks { links: Vec::new(), own_worker };
        let options = DispatcherOptions { links, by, queue_packets: 10 };
        Dispatcher::new(&options, RandomState::new(), 0, workers)
    }

    #[test]
    fn a_name_stays_with_one_worker() {
        for own_worker in [false, true] {
            let mut dispatcher = dispatcher(DispatchBy::Name, own_worker, 4);
            let mut counts = [0; 4];
            for n in 0..4000 {
                let packet = packet(&format!("/a/{n}"));
                let chosen = dispatcher.choose(&packet);
                assert!((0..3).all(|_| dispatcher.choose(&packet) == chosen));
                counts[chosen.unwrap_or(0)] += 1;
            }
            let expected = if own_worker { [0, 1333, 1333, 1333] } else { [1000; 4] };
            for (count, expected) in counts.into_iter().zip(expected) {
                assert!((expected * 8 / 10..=expected * 12 / 10).contains(&count), "{counts:?}");
            }
        }
    }

    #[test]
    fn random_dispatch_spreads_a_name_evenly() {
        let packet = packet("/a");
        for own_worker in [false, true] {
            let mut dispatcher = dispatcher(DispatchBy::Random, own_worker, 3);
            let mut counts = [0; 3];
            (0..3000).for_each(|_| counts[dispatcher.choose(&packet).unwrap_or(0)] += 1);
            let expected = if own_worker { [0, 1500, 1500] } else { [1000; 3] };
            for (count, expected) in counts.into_iter().zip(expected) {
                assert!((expected * 8 / 10..=expected * 12 / 10).contains(&count), "{counts:?}");
            }
        }
    }

    #[test]
    fn a_full_queue_drops_further_packets() {
        let queues = queues(2, 100);
        let mut dispatcher = dispatcher(DispatchBy::Name, false, 2);
        let mut dropped = Vec::new();
        for n in 0..101 {
            dispatcher.add(&queues, 1, dispatched(n), &mut |face| dropped.push(face.0));
        }
        dispatcher.flush(&queues, &mut |face| dropped.push(face.0));
        assert_eq!(dropped, [100], "one past the limit");
        let mut taken = Vec::new();
        queues[1].take(&mut taken);
        assert!(taken.iter().map(|(face, _)| face.0).eq(0..100));
        assert!(!queues[1].has_some() && !queues[0].has_some());
        dispatcher.add(&queues, 1, dispatched(7), &mut |_| panic!("there is room again"));
        dispatcher.flush(&queues, &mut |_| panic!("there is room again"));
        assert!(queues[1].has_some());
    }

    #[test]
    fn packets_per_dispatch_turn_are_bounded() {
        let queues = queues(1, 1000);
        let mut batch: Vec<Dispatched> = (0..600).map(dispatched).collect();
        queues[0].put(&mut batch);
        let mut turns = Vec::new();
        while queues[0].has_some() {
            let mut taken = Vec::new();
            queues[0].take(&mut taken);
            turns.push(taken.len());
        }
        assert_eq!(turns, [TAKEN_PER_TURN, TAKEN_PER_TURN, 600 - 2 * TAKEN_PER_TURN]);
    }

    #[test]
    fn packets_without_a_name_are_dispatched() {
        assert_eq!(name_octets(&[5, 0]), b"");
        assert_eq!(name_octets(&[]), b"");
        assert_eq!(name_octets(&packet("/a/b")), [8, 1, b'a', 8, 1, b'b']);
    }
}

//! A consumer that reads whole objects of a catalogue, one after the other, by popularity, with a
//! window of a fixed size.

use std::collections::BTreeMap;

use namely_forwarder::Received;
use namely_transport::fetch::PieceInterest;
use namely_wire::{DataView, Name};

use crate::behaviour::{Behaviour, Context};
use crate::packet::Packet;
use crate::random::Random;

/// Weight of the most popular object.
const WEIGHT: u64 = 1 << 40;

/// Time before a retransmission at which an Interest expires, in ms. Routers have processed the
/// timeout by then.
const ENDS_BEFORE_MS: u64 = 10;

/// A consumer of N-DISE's section 5.2.
#[derive(Debug)]
pub struct ObjectReader {
    templates: Vec<PieceInterest>,
    /// Cumulative sums of the objects' weights.
    weights: Vec<u64>,
    packets: u64,
    window: usize,
    interval_ns: u64,
    rto_ns: u64,
    measured_from_ns: u64,
    random: Random,
    object: usize,
    next: u64,
    come: u64,
    next_ns: u64,
    /// For each packet under way: time of its first Interest, and time of its retransmission.
    waiting: BTreeMap<u64, (u64, u64)>,
    /// Data received since the start of the measurement.
    pub data: u64,
    /// Their octets.
    pub octets: u64,
    /// Sum of their delays in ns.
    pub delay_ns: u64,
    /// Objects read to their end.
    pub objects: u64,
    /// Interests sent again.
    pub retransmissions: u64,
}

impl ObjectReader {
    /// Creates a reader of objects of `packets` Data below `prefix`/0 to `prefix`/`objects - 1`.
    /// Objects are chosen by Zipf's law with exponent 1. At most `window` Interests are under way,
    /// and one is sent each `interval_ns`. A packet that has not arrived after `rto_ns` is
    /// requested again. Equal seeds read the same objects. Only packets from `measured_from_ns` on
    /// are measured.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        prefix: &Name,
        objects: usize,
        packets: u64,
        window: usize,
        interval_ns: u64,
        rto_ns: u64,
        measured_from_ns: u64,
        seed: u64,
    ) -> Self {
        let of = |k: usize| prefix.clone().join_generic(k.to_string().into_bytes());
        let lifetime_ms = (rto_ns / crate::units::MS).saturating_sub(ENDS_BEFORE_MS);
        let mut sum = 0;
        let weights = (1..=objects as u64).map(|rank| {
            sum += WEIGHT / rank;
            sum
        });
        ObjectReader {
            templates: (0..objects).map(|k| PieceInterest::new(of(k).as_name(), lifetime_ms)).collect(),
            weights: weights.collect(),
            packets,
            window,
            interval_ns,
            rto_ns,
            measured_from_ns,
            random: Random::new(seed),
            object: 0,
            next: packets,
            come: packets,
            next_ns: 0,
            waiting: BTreeMap::new(),
            data: 0,
            octets: 0,
            delay_ns: 0,
            objects: 0,
            retransmissions: 0,
        }
    }

    fn send_due(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        while self.waiting.len() < self.window && now_ns >= self.next_ns {
            if self.next == self.packets {
                if self.come < self.packets {
                    break;
                }
                let drawn = self.random.below(self.weights.last().copied().unwrap_or(0));
                self.object = self.weights.partition_point(|sum| *sum <= drawn);
                (self.next, self.come) = (0, 0);
            }
            self.next_ns = now_ns + self.interval_ns;
            self.waiting.insert(self.next, (now_ns, now_ns + self.rto_ns));
            self.send(self.next, context);
            self.next += 1;
        }
        self.sleep(context);
    }

    fn send(&mut self, piece: u64, context: &mut Context<'_>) {
        let nonce = context.random().nonce();
        context.send(Packet::new(|out| self.templates[self.object].write(piece, false, nonce, out)));
    }

    fn sleep(&self, context: &mut Context<'_>) {
        let has_more = self.next < self.packets || self.come == self.packets;
        let may_send = self.waiting.len() < self.window && has_more;
        let again_ns = self.waiting.values().map(|(_, again_ns)| *again_ns).min().unwrap_or(u64::MAX);
        context.wake_at(if may_send { again_ns.min(self.next_ns) } else { again_ns });
    }
}

impl Behaviour for ObjectReader {
    fn start(&mut self, context: &mut Context<'_>) {
        self.send_due(context);
    }

    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>) {
        if packet.headers.nack.is_some() {
            return;
        }
        let Ok(data) = DataView::parse(&packet.packet) else { return };
        let piece = self.templates[self.object].piece(data.name);
        let Some((sent_ns, _)) = piece.and_then(|piece| self.waiting.remove(&piece)) else { return };
        self.come += 1;
        self.objects += u64::from(self.come == self.packets);
        let now_ns = context.now_ns();
        if now_ns >= self.measured_from_ns {
            self.data += 1;
            self.octets += data.content.len() as u64;
            self.delay_ns += now_ns - sent_ns;
        }
        self.send_due(context);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let late = self.waiting.iter().filter(|(_, (_, again_ns))| *again_ns <= now_ns);
        let late: Vec<u64> = late.map(|(piece, _)| *piece).collect();
        for piece in late {
            if let Some((_, again_ns)) = self.waiting.get_mut(&piece) {
                *again_ns = now_ns + self.rto_ns;
            }
            self.retransmissions += 1;
            self.send(piece, context);
        }
        self.send_due(context);
    }
}

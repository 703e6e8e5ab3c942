//! Transfers through a model of one link: with a tail-drop queue, with losses, with reordering, and
//! beside a loss-based sender like TCP Reno (RFC 5681).

use std::collections::BTreeMap;

use namely_window::{Fate, SEGMENTS_MAX, Step, Transfer};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// The link sends a packet in 0.1 ms.
const PACKET_NS: u64 = MS / 10;

#[derive(Clone, Copy)]
struct Link {
    /// Round-trip time with an empty queue.
    rtt_ns: u64,
    /// Capacity of the queue in packets.
    queue: u64,
    /// Packets lost of 1,000, in each direction.
    lost: u64,
    /// Data of 1,000 that arrive late by a fifth of the round trip.
    late: u64,
}

/// The path holds 100 packets, and so does the queue.
const LINK: Link = Link { rtt_ns: 10 * MS, queue: 100, lost: 0, late: 0 };

/// A sender whose window grows by one packet per round trip, and is halved after a loss.
#[derive(Default)]
struct Reno {
    window: f64,
    slow_start_until: f64,
    /// Send times of unanswered packets, by sequence number.
    outstanding: BTreeMap<u64, u64>,
    order: u64,
    halved_until: u64,
    received_ns: u64,
}

enum Flow {
    Transfer(Box<Transfer>),
    Reno(Reno),
}

impl Flow {
    fn transfer() -> Flow {
        Flow::Transfer(Box::new(Transfer::new().expect("memory")))
    }

    fn reno() -> Flow {
        Flow::Reno(Reno { window: 10.0, slow_start_until: f64::INFINITY, ..Reno::default() })
    }

    /// Returns the next packet to request, or the time of the next call.
    fn next(&mut self, now_ns: u64) -> Result<u64, u64> {
        match self {
            Flow::Transfer(transfer) => match transfer.next(now_ns, SEGMENTS_MAX as u32) {
                Step::Request { segment, .. } => Ok(segment),
                Step::Wait { until_ns } => Err(until_ns),
                step => panic!("{step:?}"),
            },
            Flow::Reno(reno) => reno.next(now_ns),
        }
    }

    /// Processes an answer; returns true if it is new.
    fn data(&mut self, packet: u64, now_ns: u64) -> bool {
        match self {
            Flow::Transfer(transfer) => transfer.data(packet, None, false, now_ns) == Fate::Taken,
            Flow::Reno(reno) => reno.data(packet, now_ns),
        }
    }
}

impl Reno {
    fn next(&mut self, now_ns: u64) -> Result<u64, u64> {
        let silent_until_ns = self.received_ns + 200 * MS;
        if !self.outstanding.is_empty() && now_ns >= silent_until_ns {
            self.outstanding.clear();
            self.halve();
            self.window = 1.0;
        }
        if self.outstanding.len() >= self.window as usize {
            return Err(silent_until_ns);
        }
        if self.outstanding.is_empty() {
            self.received_ns = now_ns;
        }
        self.order += 1;
        self.outstanding.insert(self.order, now_ns);
        Ok(self.order)
    }

    fn halve(&mut self) {
        self.window = (self.window / 2.0).max(2.0);
        self.slow_start_until = self.window;
        self.halved_until = self.order;
    }

    fn data(&mut self, packet: u64, now_ns: u64) -> bool {
        self.received_ns = now_ns;
        if self.outstanding.remove(&packet).is_none() {
            return false;
        }
        self.window += if self.window < self.slow_start_until { 1.0 } else { 1.0 / self.window };
        while let Some((&lost, _)) =
            self.outstanding.first_key_value().filter(|(order, _)| **order + 3 <= packet)
        {
            self.outstanding.remove(&lost);
            if lost > self.halved_until {
                self.halve();
            }
        }
        true
    }
}

struct Outcome {
    /// Each flow's share of the link's capacity in percent, measured from `counted_from_ns` on.
    shares: Vec<u64>,
    /// Packets dropped of 1,000 that arrived at the queue since then.
    dropped: u64,
    /// Mean wait of the others in the queue.
    waited_ns: u64,
}

impl Outcome {
    fn sum(&self) -> u64 {
        self.shares.iter().sum()
    }

    /// Jain's index, in percent.
    fn fairness(&self) -> u64 {
        let squares: u64 = self.shares.iter().map(|share| share * share).sum();
        100 * self.sum() * self.sum() / (self.shares.len() as u64 * squares)
    }
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 16
}

/// The next stop of a packet.
#[derive(Clone, Copy)]
enum Location {
    Queue,
    Consumer,
}

/// Runs flows that start one second apart.
fn run(link: Link, mut flows: Vec<Flow>, seconds: u64) -> Outcome {
    let mut state = 0x9E37_79B9_7F4A_7C15;
    let mut on_the_way: BTreeMap<(u64, u64), (Location, usize, u64)> = BTreeMap::new();
    let (mut now_ns, mut count, mut free_ns) = (0, 0, 0);
    let counted_from_ns = (flows.len() as u64 + 2) * SECOND;
    let end_ns = counted_from_ns + seconds * SECOND;
    let mut came = vec![0; flows.len()];
    let (mut queued, mut dropped, mut waited_ns) = (0, 0, 0);
    while now_ns < end_ns {
        let mut wake_ns = end_ns;
        for (n, flow) in flows.iter_mut().enumerate() {
            let begin_ns = n as u64 * SECOND;
            if now_ns < begin_ns {
                wake_ns = wake_ns.min(begin_ns);
                continue;
            }
            wake_ns = wake_ns.min(loop {
                match flow.next(now_ns) {
                    Ok(packet) if random(&mut state) % 1000 >= link.lost => {
                        count += 1;
                        // Without jitter one flow could find the queue full each time.
                        let jitter_ns = random(&mut state) % (2 * PACKET_NS);
                        let at_ns = now_ns + link.rtt_ns / 2 + jitter_ns;
                        on_the_way.insert((at_ns, count), (Location::Queue, n, packet));
                    }
                    Ok(_) => {}
                    Err(until_ns) => break until_ns.max(now_ns + 1),
                }
            });
        }
        let Some((&(at_ns, n), &(location, flow, packet))) =
            on_the_way.first_key_value().filter(|(at, _)| at.0 <= wake_ns)
        else {
            now_ns = wake_ns;
            continue;
        };
        on_the_way.remove(&(at_ns, n));
        now_ns = at_ns;
        let is_counted = now_ns >= counted_from_ns;
        match location {
            Location::Queue => {
                let wait_ns = u64::saturating_sub(free_ns, now_ns);
                queued += u64::from(is_counted);
                if wait_ns >= link.queue * PACKET_NS {
                    dropped += u64::from(is_counted);
                    continue;
                }
                waited_ns += wait_ns * u64::from(is_counted);
                free_ns = now_ns + wait_ns + PACKET_NS;
                if random(&mut state) % 1000 < link.lost {
                    continue;
                }
                let late_ns = if random(&mut state) % 1000 < link.late { link.rtt_ns / 5 } else { 0 };
                count += 1;
                on_the_way
                    .insert((free_ns + link.rtt_ns / 2 + late_ns, count), (Location::Consumer, flow, packet));
            }
            Location::Consumer => {
                let is_new = flows[flow].data(packet, now_ns);
                came[flow] += u64::from(is_new && is_counted);
            }
        }
    }
    let whole = seconds * SECOND / PACKET_NS;
    Outcome {
        shares: came.iter().map(|came| 100 * came / whole).collect(),
        dropped: 1000 * dropped / u64::max(queued, 1),
        waited_ns: waited_ns / u64::max(queued - dropped, 1),
    }
}

fn one(link: Link) -> Outcome {
    run(link, vec![Flow::transfer()], 3)
}

/// With 1 % lost each way, 2 of the 100 packets on the path are lost per round trip. A window that
/// reacted to losses alone would reach about 12 packets.
#[test]
fn losses_leave_most_of_the_rate() {
    for (rtt_ms, lost, kept) in [
        (2, 0, 95),
        (2, 10, 80),
        (2, 50, 40),
        (4, 0, 95),
        (4, 10, 80),
        (4, 50, 35),
        (10, 0, 95),
        (10, 10, 65),
        (10, 50, 20),
    ] {
        let outcome = one(Link { rtt_ns: rtt_ms * MS, lost, ..LINK });
        assert!(outcome.sum() >= kept, "{rtt_ms} ms, {lost} of 1,000 lost each way: {:?}", outcome.shares);
    }
}

#[test]
fn reordering_leaves_most_of_the_rate() {
    for (lost, kept) in [(0, 90), (10, 60), (50, 20)] {
        let outcome = one(Link { lost, late: 300, ..LINK });
        assert!(outcome.sum() >= kept, "{lost} of 1,000 lost each way: {:?}", outcome.shares);
    }
}

#[test]
fn a_tail_drop_queue_is_not_overrun() {
    for (queue, used, dropped, waited_ms) in
        [(10, 65, 60, 1), (25, 70, 60, 3), (100, 90, 5, 10), (1000, 95, 0, 25)]
    {
        let outcome = one(Link { queue, ..LINK });
        assert!(outcome.sum() >= used, "{queue} packets: {:?}", outcome.shares);
        assert!(outcome.dropped <= dropped, "{queue} packets: {} of 1,000 dropped", outcome.dropped);
        assert!(outcome.waited_ns <= waited_ms * MS, "{queue} packets: {} us", outcome.waited_ns / 1000);
    }
}

#[test]
fn transfers_share_a_link_fairly() {
    for queue in [25, 200, 1000] {
        let outcome = run(Link { queue, ..LINK }, vec![Flow::transfer(), Flow::transfer()], 20);
        assert!(outcome.fairness() >= 92, "{queue} packets: {:?}", outcome.shares);
        assert!(outcome.sum() >= 75, "{queue} packets: {:?}", outcome.shares);
    }
}

/// If the queue holds as many packets as the path, or twice as many, each flow receives at least a
/// quarter of the capacity. A shorter queue drops before the delay grows; with a longer one the
/// sender that reacts to delay backs off. In both cases one flow is left with about a tenth.
#[test]
fn loss_based_senders_and_transfers_coexist() {
    for (queue, least) in [(10, 8), (25, 8), (100, 25), (200, 25), (1000, 8)] {
        for flows in [vec![Flow::reno(), Flow::transfer()], vec![Flow::transfer(), Flow::reno()]] {
            let outcome = run(Link { queue, ..LINK }, flows, 10);
            assert!(
                outcome.shares.iter().all(|share| *share >= least),
                "{queue} packets: {:?}",
                outcome.shares
            );
        }
    }
}

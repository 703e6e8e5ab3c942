//! A distance-vector protocol between routers, after RIP (RFC 2453): periodic and triggered
//! updates, split horizon with poisoned reverse, and a bounded metric. Signatures are not
//! simulated.

use std::sync::Arc;

use namely_forwarder::{FaceId, Received};
use namely_wire::{InterestBuilder, InterestView, LpHeaders, Name};

use crate::behaviour::{Behaviour, Context};
use crate::packet::Packet;
use crate::units::MS;

/// Prefix of the updates between neighbors.
const PREFIX: &str = "/localhop/ndn/dv";

/// Maximum number of destinations: an update of two octets for each fits a packet.
pub const DESTINATIONS_MAX: usize = 4000;

/// Hops of an unreachable destination (RFC 2453, 3.2: infinity). The bound ends the counting of
/// routers that have lost a destination.
pub const UNREACHABLE: u16 = 1023;

/// Mean time between two updates without a change (RFC 2453, 3.8: 30 s).
const PERIOD_NS: u64 = 10_000 * MS;

/// Time without an update after which a neighbor is gone (RFC 2453, 3.8: six periods).
const DEAD_NS: u64 = 35_000 * MS;

/// Maximum delay of a triggered update (RFC 2453, 3.10.1), so that it reports several changes.
const TRIGGER_NS: u64 = 50 * MS;

/// InterestLifetime of updates, which nobody answers, ms.
const LIFETIME_MS: u64 = 100;

/// Reaches a neighbor's agent and no further, because each router decrements it once.
const HOP_LIMIT: u8 = 2;

/// A neighbor, and its distances to all destinations.
#[derive(Clone, Debug)]
struct Neighbour {
    face: FaceId,
    distances: Vec<u16>,
    dead_ns: u64,
}

/// The best route to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Best {
    distance: u16,
    /// Index of the neighbor; none for an own or unreachable destination.
    via: Option<usize>,
}

/// The agent of a router, at a face with local fields
/// ([`crate::Network::attach_with_local_fields`]).
#[derive(Debug)]
pub struct DistanceVector {
    destinations: Arc<[Name]>,
    neighbours: Vec<Neighbour>,
    best: Vec<Best>,
    update_ns: u64,
    sent: u64,
    /// Updates sent, to all neighbors.
    pub updates: u64,
    /// Next hops that were changed.
    pub changes: u64,
    /// Time of the last change.
    pub changed_ns: u64,
}

impl DistanceVector {
    /// Creates the agent of a router whose neighbors are behind `faces`, and which serves the
    /// destinations `own`, by their indices. At most [`DESTINATIONS_MAX`] are known.
    pub fn new(destinations: Arc<[Name]>, own: &[usize], faces: &[FaceId]) -> Self {
        let count = destinations.len().min(DESTINATIONS_MAX);
        let distances = vec![UNREACHABLE; count];
        let neighbour = |face: &FaceId| Neighbour { face: *face, distances: distances.clone(), dead_ns: 0 };
        let neighbours = faces.iter().map(neighbour).collect();
        let mut best = vec![Best { distance: UNREACHABLE, via: None }; count];
        own.iter().filter(|own| **own < count).for_each(|own| best[*own].distance = 0);
        DistanceVector {
            destinations,
            neighbours,
            best,
            update_ns: u64::MAX,
            sent: 0,
            updates: 0,
            changes: 0,
            changed_ns: 0,
        }
    }

    /// Returns the hops to each destination; [`UNREACHABLE`] without a route.
    pub fn distances(&self) -> impl Iterator<Item = u16> {
        self.best.iter().map(|best| best.distance)
    }

    /// Sends an update to each neighbor.
    fn update(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        self.update_ns = now_ns + PERIOD_NS - PERIOD_NS / 10 + context.random().below(PERIOD_NS / 5);
        self.sent += 1;
        let Ok(prefix) = PREFIX.parse::<Name>() else { return };
        for (index, neighbour) in self.neighbours.iter().enumerate() {
            // RFC 2453, 3.4.3: a destination is reported as unreachable to the neighbor that leads
            // to it.
            let reported = |best: &Best| if best.via == Some(index) { UNREACHABLE } else { best.distance };
            let octets: Vec<u8> = self.best.iter().flat_map(|best| reported(best).to_be_bytes()).collect();
            // Numbers keep the names unique, because the digest of the parameters is not computed.
            let name = prefix.join_segment(context.node().index() as u64).join_segment(self.sent);
            let interest = InterestBuilder::new(name.join_segment(index as u64));
            let interest = interest.nonce(context.random().nonce()).hop_limit(HOP_LIMIT);
            let wire = interest.lifetime_ms(LIFETIME_MS).build_with_parameters(&octets, |_| [0; 32]);
            let next_hop_face_id = Some(neighbour.face.0);
            self.updates += 1;
            context.send_with(wire, LpHeaders { next_hop_face_id, ..LpHeaders::default() });
        }
    }

    /// Chooses the best routes to all destinations anew.
    fn choose(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let mut is_changed = false;
        for destination in 0..self.best.len() {
            let old = self.best[destination];
            if old.distance == 0 {
                continue;
            }
            let offers = self.neighbours.iter().enumerate();
            let offers = offers.map(|(index, neighbour)| (neighbour.distances[destination], index));
            let offer = offers.filter(|(distance, _)| *distance < UNREACHABLE).min();
            let new = match offer {
                // An equally good route stays.
                Some((distance, _)) if self.offers(old.via, destination, distance) => {
                    Best { distance, ..old }
                }
                Some((distance, index)) => Best { distance, via: Some(index) },
                None => Best { distance: UNREACHABLE, via: None },
            };
            if new != old {
                self.best[destination] = new;
                is_changed = true;
                self.install(destination, old, new, context);
            }
        }
        if is_changed {
            self.changed_ns = now_ns;
            self.update_ns = self.update_ns.min(now_ns + context.random().below(TRIGGER_NS));
        }
    }

    fn offers(&self, via: Option<usize>, destination: usize, distance: u16) -> bool {
        via.is_some_and(|via| self.neighbours[via].distances[destination] == distance)
    }

    fn install(&mut self, destination: usize, old: Best, new: Best, context: &mut Context<'_>) {
        let (prefix, fib) = (self.destinations[destination].as_name(), context.forwarder().fib());
        self.changes += 1;
        if let Some(via) = old.via.filter(|via| new.via != Some(*via)) {
            fib.remove_nexthop(prefix, self.neighbours[via].face);
        }
        if let Some(via) = new.via {
            // A next hop that does not fit is missing in the results.
            let _ = fib.add_nexthop(prefix, self.neighbours[via].face, u64::from(new.distance));
        }
    }

    fn sleep(&self, context: &mut Context<'_>) {
        let dead_ns = self.neighbours.iter().map(|neighbour| neighbour.dead_ns);
        let dead_ns = dead_ns.filter(|dead_ns| *dead_ns > 0).min().unwrap_or(u64::MAX);
        context.wake_at(self.update_ns.min(dead_ns));
    }
}

impl Behaviour for DistanceVector {
    fn start(&mut self, context: &mut Context<'_>) {
        let face = context.face();
        if let Ok(prefix) = PREFIX.parse::<Name>() {
            // Without the route no neighbor is heard, and distances stay unreachable.
            let _ = context.forwarder().fib().add_nexthop(prefix.as_name(), face, 0);
        }
        self.update_ns = context.now_ns() + context.random().below(TRIGGER_NS);
        self.sleep(context);
    }

    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>) {
        let from = packet.headers.incoming_face_id;
        let Ok(interest) = InterestView::parse(&packet.packet) else { return };
        let (distances, []) = interest.application_parameters.unwrap_or_default().as_chunks::<2>() else {
            return;
        };
        if packet.headers.nack.is_some() || distances.len() != self.best.len() {
            return;
        }
        let neighbour = self.neighbours.iter_mut().find(|neighbour| Some(neighbour.face.0) == from);
        let Some(neighbour) = neighbour else { return };
        neighbour.dead_ns = context.now_ns() + DEAD_NS;
        for (known, distance) in neighbour.distances.iter_mut().zip(distances) {
            *known = u16::from_be_bytes(*distance).saturating_add(1).min(UNREACHABLE);
        }
        self.choose(context);
        self.sleep(context);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let is_dead = |neighbour: &&mut Neighbour| (1..=now_ns).contains(&neighbour.dead_ns);
        let mut is_changed = false;
        for neighbour in self.neighbours.iter_mut().filter(is_dead) {
            neighbour.dead_ns = 0;
            neighbour.distances.fill(UNREACHABLE);
            is_changed = true;
        }
        if is_changed {
            self.choose(context);
        }
        if now_ns >= self.update_ns {
            self.update(context);
        }
        self.sleep(context);
    }
}

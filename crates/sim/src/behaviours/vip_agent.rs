//! The VIP agent of a router (`namely_vip`), at its own face of the node's forwarder. It exchanges
//! counts with its neighbors, and sets the direction and the cache plan of each object in the
//! forwarder. Signatures are not simulated.

use std::collections::VecDeque;

use namely_forwarder::{FaceId, ObjectPlacement, ObjectPlan, Received};
use namely_vip::{Action, NOWHERE, PacketDecision, UNIT, Vip};
use namely_wire::{
    CACHE_POLICY_NO_CACHE, DataBuilder, InterestBuilder, InterestView, LpHeaders, Name, SignatureInfo,
};

use crate::behaviour::{Behaviour, Context};
use crate::packet::Packet;

/// Prefix of the VIP exchange between routers.
const PREFIX: &str = "/localhop/ndn/vip";

/// Reaches a neighbor's agent and no further, because each router decrements it once.
const HOP_LIMIT: u8 = 2;

/// The source of demand.
#[derive(Clone, Debug)]
pub enum Demand {
    /// Interests that the forwarder has counted, for objects with a number of packets.
    Counted {
        /// Packets of each object.
        packets: u64,
    },
    /// The demand in each slot: objects, and VIPs for them.
    Scripted(VecDeque<Vec<(usize, u64)>>),
}

/// The agent.
#[derive(Debug)]
pub struct VipAgent {
    vip: Vip,
    neighbours: Vec<FaceId>,
    demand: Demand,
    /// Octets of each object in the content store, if there is one.
    room: Option<u64>,
    /// Names of the objects, if the plane has a tier for memory and one for the node's disk.
    disk: Option<Vec<Name>>,
    /// Start of the first slot in ns; none: a random time in the first period.
    begins_ns: Option<u64>,
    period_ns: u64,
    /// VIPs that were reported to the plane, for each object.
    reported: Vec<u64>,
    slot: u64,
    /// Lookups in the node's content store for packets of the exchange.
    pub looked_up: u64,
    /// Octets of the packets sent.
    pub octets: u64,
    /// For each slot since [`VipAgent::watch_from`], the objects of which the store has packets.
    pub held: Vec<Vec<usize>>,
    watch_from_ns: u64,
}

impl VipAgent {
    /// Creates the agent of a router whose neighbors are behind these faces. `room`: octets of
    /// each object in the content store.
    pub fn new(vip: Vip, period_ms: u32, neighbours: Vec<FaceId>, demand: Demand, room: Option<u64>) -> Self {
        let reported = vec![0; vip.objects().len()];
        VipAgent {
            vip,
            neighbours,
            demand,
            room,
            disk: None,
            begins_ns: None,
            period_ns: u64::from(period_ms) * crate::units::MS,
            reported,
            slot: 0,
            looked_up: 0,
            octets: 0,
            held: Vec::new(),
            watch_from_ns: u64::MAX,
        }
    }

    /// Makes the node's disk the plane's second tier, for objects with these names. Each object is
    /// cached in the tier that the plane selects.
    #[must_use]
    pub fn with_disk(mut self, names: Vec<Name>) -> Self {
        self.disk = Some(names);
        self
    }

    /// Returns the VIPs of local demand, from counted Interests, before amplification.
    pub fn local_demand(&self) -> u64 {
        self.reported.iter().sum()
    }

    /// Sets the start of the first slot.
    #[must_use]
    pub fn begins_at(mut self, at_ns: u64) -> Self {
        self.begins_ns = Some(at_ns);
        self
    }

    /// Records the cached objects of each slot from this time on.
    #[must_use]
    pub fn watch_from(mut self, at_ns: u64) -> Self {
        self.watch_from_ns = at_ns;
        self
    }

    /// Returns the VIP state.
    pub fn vip(&self) -> &Vip {
        &self.vip
    }

    fn wall_us(context: &Context<'_>) -> u64 {
        1 + context.now_ns() / 1000
    }

    fn tick(&mut self, context: &mut Context<'_>) {
        self.report_demand(context);
        let mut out = Vec::new();
        let at_ns = self.vip.tick(context.now_ns(), Self::wall_us(context), &mut out);
        self.carry_out(out, context);
        if self.vip.slot() != self.slot {
            self.slot = self.vip.slot();
            self.apply_plan(context);
        }
        context.wake_at(at_ns);
    }

    /// Reports the demand to the plane.
    fn report_demand(&mut self, context: &Context<'_>) {
        match &mut self.demand {
            Demand::Counted { packets } => {
                for (k, reported) in self.reported.iter_mut().enumerate() {
                    let counted = context.forwarder().objects().requests(k as u32) * UNIT / (*packets).max(1);
                    self.vip.plane_mut().add_demand(k, counted - *reported);
                    *reported = counted;
                }
            }
            Demand::Scripted(slots) => {
                // Demand of a slot is reported at its end; there is none before the first slot.
                let is_end = self.slot > 0 && context.now_ns().is_multiple_of(self.period_ns);
                for (k, vips) in is_end.then(|| slots.pop_front()).flatten().into_iter().flatten() {
                    self.vip.plane_mut().add_demand(k, vips);
                }
            }
        }
    }

    /// Sets directions and cache plans in the forwarder.
    fn apply_plan(&mut self, context: &mut Context<'_>) {
        let plane = self.vip.plane();
        for (k, score) in plane.scores().iter().enumerate() {
            let face = plane.direction(k).map(|b| self.neighbours[b]);
            context.forwarder().objects().direct(k as u32, face);
            if let Some(octets) = self.room {
                let plan = ObjectPlan { placement: self.tier(k), worth: *score, octets };
                context.forwarder().objects().plan(k as u32, plan);
            }
        }
        if let Some(names) = &self.disk {
            let is_planned = |(k, _): &(usize, &Name)| self.tier(*k) == ObjectPlacement::Tier;
            let planned = names.iter().enumerate().filter(is_planned).map(|(_, name)| name.clone());
            context.disk_plan(planned.collect());
        }
        if self.room.is_some() && context.now_ns() >= self.watch_from_ns {
            let is_held = |k: &usize| {
                let held = context.forwarder().objects().held(*k as u32);
                held.packets > 0 && !held.is_leaving
            };
            self.held.push((0..plane.objects()).filter(is_held).collect());
        }
    }

    /// Returns the tier for an object's Data.
    fn tier(&self, k: usize) -> ObjectPlacement {
        let plane = self.vip.plane();
        match (plane.placed()[k], &self.disk) {
            // An arriving object is admitted if its worth exceeds that of the cached ones.
            (_, None) if plane.scores()[k] > 0 => ObjectPlacement::Memory,
            (_, None) | (NOWHERE, _) => ObjectPlacement::Nowhere,
            (0, _) => ObjectPlacement::Memory,
            (_, _) => ObjectPlacement::Tier,
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>, context: &mut Context<'_>) {
        for action in actions {
            match action {
                Action::Request { neighbour, name, parameters, lifetime_ms } => {
                    let builder = InterestBuilder::new(name).nonce(context.random().nonce());
                    let builder = builder.hop_limit(HOP_LIMIT).lifetime_ms(lifetime_ms);
                    let octets = match parameters {
                        None => builder.build(),
                        Some(parameters) => builder.build_with_parameters(&parameters, |_| [0; 32]),
                    };
                    let next_hop_face_id = Some(self.neighbours[neighbour].0);
                    self.looked_up += 1;
                    self.send(octets, LpHeaders { next_hop_face_id, ..LpHeaders::default() }, context);
                }
                Action::Answer { name, content, last_segment, .. } => {
                    let last = Name::new().join_segment(last_segment.unwrap_or(0));
                    let mut builder = DataBuilder::new(name.as_name());
                    if last_segment.is_some()
                        && let Some(component) = last.as_name().last()
                    {
                        builder = builder.final_block_id(component);
                    }
                    let octets = builder.build(&content, &SignatureInfo::null()).finish(&[]);
                    let cache_policy = Some(CACHE_POLICY_NO_CACHE);
                    self.send(octets, LpHeaders { cache_policy, ..LpHeaders::default() }, context);
                }
            }
        }
    }

    fn send(&mut self, octets: Vec<u8>, headers: LpHeaders, context: &mut Context<'_>) {
        self.octets += octets.len() as u64;
        context.send_with(octets, headers);
    }
}

impl Behaviour for VipAgent {
    fn start(&mut self, context: &mut Context<'_>) {
        let (face, prefix) = (context.face(), PREFIX.parse::<Name>());
        if let Ok(prefix) = prefix {
            // Without the route no neighbor is received, which the plane's counters show.
            let _ = context.forwarder().fib().add_nexthop(prefix.as_name(), face, 0);
        }
        context.forwarder().objects().neighbours(&self.neighbours);
        let begins_ns = self.begins_ns.unwrap_or_else(|| context.random().below(self.period_ns));
        context.wake_at(context.now_ns() + begins_ns);
    }

    fn receive(&mut self, packet: &Received<Packet>, context: &mut Context<'_>) {
        if InterestView::parse(&packet.packet).is_ok() {
            self.looked_up += 1;
        }
        let from = packet.headers.incoming_face_id;
        let Some(b) = self.neighbours.iter().position(|face| Some(face.0) == from) else { return };
        let now_ns = context.now_ns();
        if packet.headers.nack.is_some() || self.vip.look(b, &packet.packet, now_ns) == PacketDecision::Drop {
            return;
        }
        let mut out = Vec::new();
        self.vip.receive(b, &packet.packet, context.now_ns(), Self::wall_us(context), &mut out);
        self.carry_out(out, context);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        self.tick(context);
    }
}

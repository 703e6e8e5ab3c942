//! Faults under load, on the network with two ways: the forwarder on the shorter one stops and
//! comes back with nothing in its tables, its link to the server goes down and comes back, or it
//! claims to be the source of everything and answers nothing.
//!
//! What comes to the consumers is measured before, meanwhile and after, each a quarter of the run
//! (the first quarter warms up), and VIPs are booked: every one that was asked for or came again is
//! at a router, under way, has been drained, has come to the source, or was lost with a router.

use namely_forwarder::CsPolicy;
use namely_vip::Vip;

use super::{Arm, BEST, Below, Built, FAST_ROUTE, Ndise, Place, agent, prefix, set_routes, spec};
use crate::MS;
use crate::behaviour::{Behaviour, Context};
use crate::behaviours::{ObjectReader, VipAgent};
use crate::network::PortId;
use crate::packet::Packet;

/// The forwarder to which something happens, and the server.
const FORWARDER: usize = 1;
const SERVER: usize = 3;

/// Slots last as in the service network: of those of a minute few would fit into a fault.
const SLOT: (u32, u8) = (3_000, 2);

/// Share of the throughput before that counts as being back.
const BACK: f64 = 0.9;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The forwarder stops, and comes back with empty tables, in another life.
    RouterStops,
    /// Its link to the server is down.
    LinkDown,
    /// It starts anew, tells V = 0 for all objects, and answers no Interest.
    ClaimsNothing,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 3] = [Fault::RouterStops, Fault::LinkDown, Fault::ClaimsNothing];

    /// Its name.
    pub fn label(self) -> &'static str {
        match self {
            Fault::RouterStops => "router stops",
            Fault::LinkDown => "link down",
            Fault::ClaimsNothing => "claims V = 0",
        }
    }

    /// The ways that are compared. Who does not hear counts cannot be lied to by them.
    pub fn arms(self) -> Vec<Arm> {
        let arc = |strategy| Arm { strategy, policy: Some(CsPolicy::Arc), below: Below::Nothing };
        vec![arc(BEST), arc(FAST_ROUTE), Arm::VIP]
    }
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// What happens.
    pub fault: Fault,
    /// How routers forward and cache.
    pub arm: Arm,
    /// The seed.
    pub seed: u64,
    /// How long the run takes, in slots: four times as many.
    pub quarter_slots: u64,
}

/// What one run came to. All VIPs are in units of [`namely_vip::UNIT`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Content that came to each consumer before, meanwhile and after, bit/s.
    pub bps: [[f64; 3]; 2],
    /// Slots from the end of the fault to the first in which both consumers together have
    /// nine tenths of what they had before; none if there was none.
    pub back_slots: Option<u64>,
    /// With VIP, slots from the end of the fault until the forwarder and all its neighbours use
    /// each other's counts again.
    pub exchange_slots: Option<u64>,
    /// Interests that were sent again.
    pub retransmissions: u64,
    /// VIPs that were asked for at all routers.
    pub asked: u64,
    /// VIPs that were counted twice, and what had been entered and not acknowledged when a life of
    /// the forwarder ended: no more than that may be.
    pub twice: u64,
    /// See there.
    pub twice_max: u64,
    /// VIPs that ended with a life of the forwarder: what it counted, and had sent to nobody.
    pub lost: u64,
    /// Slots in which the books of some router were wrong, by whatever little.
    pub wrong_books: u64,
}

/// What lives that are over leave.
#[derive(Clone, Copy, Debug, Default)]
struct Books {
    entered: u64,
    departed: u64,
    asked: u64,
    /// VIPs that were counted when they ended, and that were under way to nobody then.
    counted: u64,
    never_entered: u64,
    twice_max: u64,
    wrong: u64,
}

/// Takes Interests and answers none.
struct Silent;

impl Behaviour for Silent {
    fn start(&mut self, context: &mut Context<'_>) {
        let face = context.face();
        let _ = context.forwarder().fib_add_nexthop(prefix().as_name(), face, 0);
    }

    fn receive(&mut self, _: &namely_forwarder::Received<Packet>, _: &mut Context<'_>) {}
}

impl Faults {
    /// A run of forty minutes.
    pub fn new(fault: Fault, arm: Arm, seed: u64) -> Self {
        Faults { fault, arm, seed, quarter_slots: 200 }
    }

    /// A run as long as this in all.
    #[must_use]
    pub fn lasting(mut self, ns: u64) -> Self {
        self.quarter_slots = (ns / 4 / slot_ns()).max(4);
        self
    }

    /// Runs it.
    pub fn run(&self) -> Outcome {
        let place = Place::Multipath;
        let of = Ndise { warm_ns: 0, slot: SLOT, ..Ndise::new(place, self.arm, self.seed) };
        let mut run = Run { net: Built::new(&of), books: Books::default(), life: 0 };
        let quarter = self.quarter_slots;
        run.go_on(quarter);
        let before = run.go_on(quarter);
        self.begin(&mut run);
        let meanwhile = run.go_on(quarter);
        self.end(&mut run);
        let enough = (before[0] + before[1]) as f64 / quarter as f64 * BACK;
        let (mut after, mut back_slots, mut exchange_slots) = ([0; 2], None, None);
        for slot in 1..=quarter {
            let got = run.go_on(1);
            after = [after[0] + got[0], after[1] + got[1]];
            if back_slots.is_none() && (got[0] + got[1]) as f64 >= enough {
                back_slots = Some(slot);
            }
            if exchange_slots.is_none() && run.is_exchanging() {
                exchange_slots = Some(slot);
            }
        }
        let bps = |octets: u64| octets as f64 * 8e9 / (quarter * slot_ns()) as f64;
        let of_consumer = |i: usize| [before[i], meanwhile[i], after[i]].map(bps);
        Outcome { bps: [0, 1].map(of_consumer), back_slots, exchange_slots, ..run.closed() }
    }

    fn begin(&self, run: &mut Run) {
        match self.fault {
            Fault::RouterStops => run.set_up(&run.ports_of_forwarder(), false),
            Fault::LinkDown => run.set_up(&run.ports_to_server(), false),
            Fault::ClaimsNothing => run.restart(false),
        }
    }

    fn end(&self, run: &mut Run) {
        match self.fault {
            Fault::RouterStops | Fault::ClaimsNothing => run.restart(true),
            Fault::LinkDown => run.set_up(&run.ports_to_server(), true),
        }
    }
}

fn slot_ns() -> u64 {
    u64::from(SLOT.0) * MS
}

/// A network in which something happens.
struct Run {
    net: Built,
    books: Books,
    /// Lives of the forwarder that are over.
    life: u64,
}

impl Run {
    /// Goes on for so many slots; returns the octets that came to each consumer.
    fn go_on(&mut self, slots: u64) -> [u64; 2] {
        let before = self.octets();
        for _ in 0..slots {
            let now_ns = self.net.network.now_ns();
            self.net.network.run_until(now_ns + slot_ns());
            let agents = (0..self.net.agents.len()).filter_map(|n| self.net.agent(n));
            self.books.wrong += u64::from(!agents.map(VipAgent::vip).all(is_balanced));
        }
        let after = self.octets();
        [0, 1].map(|i| after[i] - before[i])
    }

    fn reader(&self, i: usize) -> Option<&ObjectReader> {
        self.net.network.behaviour(self.net.readers[i])
    }

    fn octets(&self) -> [u64; 2] {
        [0, 1].map(|i| self.reader(i).map_or(0, |reader| reader.octets))
    }

    /// Both directions of the links that lead from the forwarder to nodes like these.
    fn ports(&self, is_wanted: impl Fn(usize) -> bool) -> Vec<PortId> {
        let wires = self.net.of.place.wires();
        let ends = |(a, b)| a == FORWARDER && is_wanted(b) || b == FORWARDER && is_wanted(a);
        let wanted = wires.iter().zip(&self.net.ports).filter(|(wire, _)| ends((wire.0, wire.1)));
        wanted.flat_map(|(_, port)| [*port, self.net.network.back(*port)]).collect()
    }

    fn ports_of_forwarder(&self) -> Vec<PortId> {
        self.ports(|_| true)
    }

    fn ports_to_server(&self) -> Vec<PortId> {
        self.ports(|n| n == SERVER)
    }

    fn set_up(&mut self, ports: &[PortId], is_up: bool) {
        let now_ns = self.net.network.now_ns();
        ports.iter().for_each(|port| self.net.network.set_up_at(now_ns, *port, is_up));
    }

    /// A life of the forwarder ends, and another one begins a slot later, with empty tables: as it
    /// should be, or as a liar that is silent.
    fn restart(&mut self, is_honest: bool) {
        let ports = self.ports_of_forwarder();
        self.set_up(&ports, false);
        self.go_on(1);
        self.bury();
        self.life += 1;
        let (n, life, of) = (FORWARDER, self.life, self.net.of);
        let Built { network, nodes, neighbours, hops, agents, .. } = &mut self.net;
        network.restart(nodes[n], spec(of.arm, is_honest));
        if is_honest {
            set_routes(network, nodes[n], of.arm, hops[n].iter().map(|b| neighbours[n][*b].1));
        } else {
            set_routes(network, nodes[n], of.arm, std::iter::empty());
            network.attach(nodes[n], Box::new(Silent));
        }
        if let Some(app) = agents.get(n) {
            let kind = (is_honest, !is_honest);
            let agent = agent(&of, network, nodes[n], &neighbours[n], &hops[n], kind, life);
            network.replace(*app, Box::new(agent));
        }
        self.set_up(&ports, true);
    }

    /// VIPs on their way from `a` to `b`: those that `b` has entered, and those that it has not.
    fn under_way(&self, a: usize, b: usize) -> (u64, u64) {
        let place = |of: usize, n: usize| self.net.neighbours[of].iter().position(|(m, ..)| *m == n);
        let (Some(to), Some(from)) = (place(a, b), place(b, a)) else { return (0, 0) };
        let (Some(a), Some(b)) = (self.net.agent(a), self.net.agent(b)) else { return (0, 0) };
        let known = b.vip().neighbour(from).filter(|known| known.boot == Some(a.vip().boot()));
        let entered = known.map_or(0, |known| known.entered);
        a.vip().under_way(to).fold((0, 0), |(come, coming), offer| match offer.slot <= entered {
            true => (come + offer.vips, coming),
            false => (come, coming + offer.vips),
        })
    }

    /// Enters into the books what ends with the forwarder. Nothing comes from it or to it then.
    fn bury(&mut self) {
        let Some(vip) = self.net.agent(FORWARDER).map(VipAgent::vip) else { return };
        let (totals, counted) = (vip.plane().totals(), counted(vip));
        let amplification = u64::from(self.net.of.slot.1);
        let asked = self.net.agent(FORWARDER).map_or(0, VipAgent::asked) * amplification;
        let neighbours = self.net.neighbours[FORWARDER].iter().map(|(m, ..)| *m);
        let (mut never_entered, mut twice_max) = (0, 0);
        for m in neighbours {
            never_entered += self.under_way(FORWARDER, m).1;
            twice_max += self.under_way(m, FORWARDER).0;
        }
        let books = &mut self.books;
        books.entered += totals.entered;
        books.departed += totals.departed;
        books.asked += asked;
        books.counted += counted;
        books.never_entered += never_entered;
        books.twice_max += twice_max;
    }

    /// The forwarder's neighbours use the counts of its present life, and it uses theirs.
    fn is_exchanging(&self) -> bool {
        let now_ns = self.net.network.now_ns();
        let uses = |a: usize, b: usize| {
            let place = self.net.neighbours[a].iter().position(|(m, ..)| *m == b);
            let (Some(place), Some(a), Some(b)) = (place, self.net.agent(a), self.net.agent(b)) else {
                return false;
            };
            let known = a.vip().neighbour(place);
            known.is_some_and(|known| known.boot == Some(b.vip().boot()) && known.fresh_until_ns >= now_ns)
        };
        let mut neighbours = self.net.neighbours[FORWARDER].iter().map(|(m, ..)| *m);
        neighbours.all(|m| uses(m, FORWARDER) && uses(FORWARDER, m))
    }

    /// The books of all lives.
    fn closed(&self) -> Outcome {
        let nodes = 0..self.net.agents.len();
        let amplification = u64::from(self.net.of.slot.1);
        let Books { mut entered, mut departed, mut asked, counted, never_entered, twice_max, wrong } =
            self.books;
        let mut coming = never_entered;
        for n in nodes.clone() {
            let Some(agent) = self.net.agent(n) else { continue };
            let totals = agent.vip().plane().totals();
            entered += totals.entered;
            departed += totals.departed;
            asked += agent.asked() * amplification;
            coming += nodes.clone().map(|b| self.under_way(n, b).1).sum::<u64>();
        }
        // What was sent and is neither under way nor lost was entered, there or back here.
        let twice = entered.checked_sub(asked + departed - coming);
        let retransmissions = [0, 1].map(|i| self.reader(i).map_or(0, |reader| reader.retransmissions));
        Outcome {
            retransmissions: retransmissions.iter().sum(),
            asked,
            twice: twice.unwrap_or(0),
            twice_max,
            lost: counted + never_entered,
            wrong_books: wrong + u64::from(twice.is_none()),
            ..Outcome::default()
        }
    }
}

/// VIPs that a router counts.
fn counted(vip: &Vip) -> u64 {
    let plane = vip.plane();
    plane.counts().iter().chain(plane.pending()).sum()
}

/// What has become of a router's VIPs is all that has entered, to the unit.
fn is_balanced(vip: &Vip) -> bool {
    let totals = vip.plane().totals();
    let ended = totals.departed + totals.drained + totals.arrived + totals.saturated + totals.withdrawn;
    counted(vip) + ended == totals.entered
}

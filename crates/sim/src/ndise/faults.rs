//! Faults under load, in the network with two paths. The forwarder on the shorter path stops and
//! returns with empty tables; or its link to the server goes down and returns; or it announces
//! itself as the source of everything and answers nothing.
//!
//! The throughput of the consumers is measured before, during and after the fault, each for a
//! quarter of the run (the first quarter warms up). VIPs are accounted for: each one that entered
//! by demand or by duplication is at a router, under way, drained, arrived at the source, or lost
//! with a router.

use namely_forwarder::CsPolicy;
use namely_vip::Vip;

use super::{
    Arm, BEST, DiskPolicy, FAST_ROUTE, Ndise, NdiseNetwork, NdiseTopology, Role, agent, prefix, set_routes,
    spec,
};
use crate::behaviour::{Behaviour, Context};
use crate::behaviours::{ObjectReader, VipAgent};
use crate::event::LinkEndId;
use crate::packet::Packet;
use crate::units::MS;

/// The forwarder with the fault, and the server.
const FORWARDER: usize = 1;
const SERVER: usize = 3;

/// Slots have the length of those in the service network: few slots of a minute would fit into a
/// fault.
const SLOT: (u32, u8) = (3_000, 2);

/// Share of the earlier throughput that counts as recovery.
const BACK: f64 = 0.9;

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The forwarder stops, and returns with empty tables, as another life.
    RouterStops,
    /// Its link to the server is down.
    LinkDown,
    /// It restarts, announces V = 0 for all objects, and answers no Interest.
    ClaimsNothing,
}

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 3] = [Fault::RouterStops, Fault::LinkDown, Fault::ClaimsNothing];

    /// Returns the name.
    pub fn label(self) -> &'static str {
        match self {
            Fault::RouterStops => "router stops",
            Fault::LinkDown => "link down",
            Fault::ClaimsNothing => "claims V = 0",
        }
    }

    /// Returns the schemes that are compared. A false announcement affects only schemes that use
    /// counts.
    pub fn arms(self) -> Vec<Arm> {
        let arc = |strategy| Arm { strategy, policy: Some(CsPolicy::Arc), below: DiskPolicy::Nothing };
        vec![arc(BEST), arc(FAST_ROUTE), Arm::VIP]
    }
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// The fault.
    pub fault: Fault,
    /// Scheme of forwarding and caching.
    pub arm: Arm,
    /// The seed.
    pub seed: u64,
    /// Duration of a quarter of the run in slots.
    pub quarter_slots: u64,
}

/// Results of one run. All VIPs are in units of [`namely_vip::UNIT`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Rate of content at each consumer before, during and after the fault in bit/s.
    pub bps: [[f64; 3]; 2],
    /// Slots from the end of the fault to the first in which both consumers together have nine
    /// tenths of their earlier rate; none if there was none.
    pub back_slots: Option<u64>,
    /// With VIP, slots from the end of the fault until the forwarder and all its neighbors use
    /// each other's counts again.
    pub exchange_slots: Option<u64>,
    /// Interests sent again.
    pub retransmissions: u64,
    /// VIPs of demand at all routers.
    pub asked: u64,
    /// VIPs counted twice. The upper bound is the VIPs that had entered without an acknowledgement
    /// when a life of the forwarder ended.
    pub twice: u64,
    /// See `twice`: the upper bound.
    pub twice_max: u64,
    /// VIPs lost with a life of the forwarder: those that it counted, and those sent that no
    /// neighbor had entered.
    pub lost: u64,
    /// Slots in which the accounts of a router did not balance exactly.
    pub wrong_books: u64,
}

/// Accounts of the lives that have ended.
#[derive(Clone, Copy, Debug, Default)]
struct VipAccounting {
    entered: u64,
    departed: u64,
    asked: u64,
    /// VIPs that were counted when the lives ended, and VIPs under way then that never entered.
    counted: u64,
    never_entered: u64,
    twice_max: u64,
    wrong: u64,
}

/// Accepts Interests and answers none.
struct SilentProducer;

impl Behaviour for SilentProducer {
    fn start(&mut self, context: &mut Context<'_>) {
        let face = context.face();
        let _ = context.forwarder().fib().add_nexthop(prefix().as_name(), face, 0);
    }

    fn receive(&mut self, _: &namely_forwarder::Received<Packet>, _: &mut Context<'_>) {}
}

impl Faults {
    /// A run of forty minutes.
    pub fn new(fault: Fault, arm: Arm, seed: u64) -> Self {
        Faults { fault, arm, seed, quarter_slots: 200 }
    }

    /// Sets the total duration.
    #[must_use]
    pub fn lasting(mut self, ns: u64) -> Self {
        self.quarter_slots = (ns / 4 / slot_ns()).max(4);
        self
    }

    /// Runs the simulation.
    pub fn run(&self) -> Outcome {
        let topology = NdiseTopology::Multipath;
        let of = Ndise { warm_ns: 0, slot: SLOT, ..Ndise::new(topology, self.arm, self.seed) };
        let mut run = Run { net: NdiseNetwork::new(&of), books: VipAccounting::default(), life: 0 };
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
            Fault::RouterStops => run.set_up(&run.forwarder_link_ends(), false),
            Fault::LinkDown => run.set_up(&run.server_link_ends(), false),
            Fault::ClaimsNothing => run.restart(false),
        }
    }

    fn end(&self, run: &mut Run) {
        match self.fault {
            Fault::RouterStops | Fault::ClaimsNothing => run.restart(true),
            Fault::LinkDown => run.set_up(&run.server_link_ends(), true),
        }
    }
}

fn slot_ns() -> u64 {
    u64::from(SLOT.0) * MS
}

/// A running network with a fault.
struct Run {
    net: NdiseNetwork,
    books: VipAccounting,
    /// Number of the forwarder's lives that have ended.
    life: u64,
}

impl Run {
    /// Runs for `slots` slots. Returns the octets that each consumer received.
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

    /// Returns both directions of the links from the forwarder to nodes that `is_wanted` selects.
    fn ports(&self, is_wanted: impl Fn(usize) -> bool) -> Vec<LinkEndId> {
        let wires = self.net.of.topology.wires();
        let ends = |(a, b)| a == FORWARDER && is_wanted(b) || b == FORWARDER && is_wanted(a);
        let wanted = wires.iter().zip(&self.net.ports).filter(|(wire, _)| ends((wire.0, wire.1)));
        wanted.flat_map(|(_, port)| [*port, self.net.network.back(*port)]).collect()
    }

    fn forwarder_link_ends(&self) -> Vec<LinkEndId> {
        self.ports(|_| true)
    }

    fn server_link_ends(&self) -> Vec<LinkEndId> {
        self.ports(|n| n == SERVER)
    }

    fn set_up(&mut self, ports: &[LinkEndId], is_up: bool) {
        let now_ns = self.net.network.now_ns();
        ports.iter().for_each(|port| self.net.network.set_up_at(now_ns, *port, is_up));
    }

    /// Ends a life of the forwarder, and begins another one a slot later, with empty tables: an
    /// honest one, or a silent one that announces false counts.
    fn restart(&mut self, is_honest: bool) {
        let ports = self.forwarder_link_ends();
        self.set_up(&ports, false);
        self.go_on(1);
        self.bury();
        self.life += 1;
        let (n, life, of) = (FORWARDER, self.life, self.net.of);
        let NdiseNetwork { network, nodes, neighbours, hops, agents, .. } = &mut self.net;
        network.restart(nodes[n], spec(of.arm, is_honest));
        if is_honest {
            set_routes(network, nodes[n], of.arm, hops[n].iter().map(|b| neighbours[n][*b].1));
        } else {
            set_routes(network, nodes[n], of.arm, std::iter::empty());
            network.attach(nodes[n], Box::new(SilentProducer));
        }
        if let Some(app) = agents.get(n) {
            let role = Role { is_cache: is_honest, is_source: !is_honest };
            let agent = agent(&of, network, nodes[n], &neighbours[n], &hops[n], role, life);
            network.replace(*app, Box::new(agent));
        }
        self.set_up(&ports, true);
    }

    /// Returns the VIPs on their way from `a` to `b`: those that `b` has entered, and those that it
    /// has not.
    fn under_way(&self, a: usize, b: usize) -> (u64, u64) {
        let index = |of: usize, n: usize| self.net.neighbours[of].iter().position(|(m, ..)| *m == n);
        let (Some(to), Some(from)) = (index(a, b), index(b, a)) else { return (0, 0) };
        let (Some(a), Some(b)) = (self.net.agent(a), self.net.agent(b)) else { return (0, 0) };
        let known = b.vip().neighbour(from).filter(|known| known.boot == Some(a.vip().boot()));
        let entered = known.map_or(0, |known| known.entered);
        a.vip().under_way(to).fold((0, 0), |(come, coming), offer| match offer.slot <= entered {
            true => (come + offer.vips, coming),
            false => (come, coming + offer.vips),
        })
    }

    /// Adds the forwarder's counts to the accounts at its end. Its links are down then.
    fn bury(&mut self) {
        let Some(vip) = self.net.agent(FORWARDER).map(VipAgent::vip) else { return };
        let (totals, counted) = (vip.plane().totals(), counted(vip));
        let amplification = u64::from(self.net.of.slot.1);
        let asked = self.net.agent(FORWARDER).map_or(0, VipAgent::local_demand) * amplification;
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

    /// Returns true if the forwarder's neighbors use the counts of its current life, and it uses
    /// theirs.
    fn is_exchanging(&self) -> bool {
        let now_ns = self.net.network.now_ns();
        let uses = |a: usize, b: usize| {
            let index = self.net.neighbours[a].iter().position(|(m, ..)| *m == b);
            let (Some(index), Some(a), Some(b)) = (index, self.net.agent(a), self.net.agent(b)) else {
                return false;
            };
            let known = a.vip().neighbour(index);
            known.is_some_and(|known| known.boot == Some(b.vip().boot()) && known.fresh_until_ns >= now_ns)
        };
        let mut neighbours = self.net.neighbours[FORWARDER].iter().map(|(m, ..)| *m);
        neighbours.all(|m| uses(m, FORWARDER) && uses(FORWARDER, m))
    }

    /// Returns the accounts of all lives.
    fn closed(&self) -> Outcome {
        let nodes = 0..self.net.agents.len();
        let amplification = u64::from(self.net.of.slot.1);
        let VipAccounting { mut entered, mut departed, mut asked, counted, never_entered, twice_max, wrong } =
            self.books;
        let mut coming = never_entered;
        for n in nodes.clone() {
            let Some(agent) = self.net.agent(n) else { continue };
            let totals = agent.vip().plane().totals();
            entered += totals.entered;
            departed += totals.departed;
            asked += agent.local_demand() * amplification;
            coming += nodes.clone().map(|b| self.under_way(n, b).1).sum::<u64>();
        }
        // A VIP that was sent, and is neither under way nor lost, was entered at the other end or
        // again here.
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

/// Returns the VIPs that a router counts.
fn counted(vip: &Vip) -> u64 {
    let plane = vip.plane();
    plane.counts().iter().chain(plane.pending()).sum()
}

/// Returns true if all VIPs that entered a router are accounted for, to the unit.
fn is_balanced(vip: &Vip) -> bool {
    let totals = vip.plane().totals();
    let ended = totals.departed + totals.drained + totals.arrived + totals.saturated + totals.withdrawn;
    counted(vip) + ended == totals.entered
}

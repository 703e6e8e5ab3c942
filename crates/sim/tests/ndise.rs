//! The networks of N-DISE in virtual time (`VI-24` to `VI-29`): minutes of one seed, recorded as a
//! table, also with disks below memory (`X-04`) and with faults. Further: Abilene, and routers that
//! step together beside the exact model (`VI-09`).
//! docs/experiments/n-dise.md has the whole runs.

use crate::common;
use crate::model;

use std::collections::VecDeque;

use model::{Scenario, hex};
use namely_sim::ndise::faults::{Fault, Faults};
use namely_sim::ndise::{Arm, Ndise, NdiseTopology, Outcome};
use namely_sim::table::Table;
use namely_sim::{AppId, Demand, LinkSpec, MS, Network, NodeId, RouterSpec, SECOND, VipAgent};
use namely_vip::{Config, NeighbourConfig, Plane, Vip};

const PAGE: &str = "docs/experiments/n-dise.md";

/// A sixtieth of the paper's time, and twice as much for slots of a minute. Even a debug build
/// simulates it in a second or two.
const SHORT_NS: u64 = 90 * SECOND;

fn row(table: &mut Table, topology: NdiseTopology, arm: Arm, outcome: &Outcome) {
    let [one, other] = &outcome.got;
    table.row([
        format!("{}, {}", topology.label(), arm.label()),
        format!("{:.3}", one.bps / 1e6),
        format!("{:.1}", one.delay_ms),
        format!("{:.3}", other.bps / 1e6),
        format!("{:.1}", other.delay_ms),
        format!("{:.2}", outcome.hits * 100.0),
    ]);
}

/// VI-24, VI-25, VI-27, VI-28, VI-29.
#[test]
fn short_ndise_runs_match_the_kept_results() {
    let mut table = Table::new(&["network, way", "Mbit/s", "ms", "Mbit/s", "ms", "hits %"]);
    let service = [2, 4].map(|i| (NdiseTopology::Service, NdiseTopology::Service.arms()[i], SHORT_NS));
    let multipath =
        [3, 5].map(|i| (NdiseTopology::Multipath, NdiseTopology::Multipath.arms()[i], 2 * SHORT_NS));
    for (topology, arm, lasting_ns) in service.into_iter().chain(multipath) {
        let outcome = Ndise::new(topology, arm, 1).lasting(lasting_ns).run();
        assert!(outcome.got.iter().all(|got| got.retransmissions == 0), "nothing is lost");
        row(&mut table, topology, arm, &outcome);
    }
    print!("{}", table.text());
    common::snapshot("n-dise-short", &table.text());
}

///
#[test]
fn planned_placement_writes_less_to_disk() {
    let mut table =
        Table::new(&["tiers, way", "Mbit/s", "ms", "Mbit/s", "ms", "hits %", "of disks %", "written"]);
    let arms = NdiseTopology::Tiers.arms();
    let outcomes = [1, 5].map(|i| {
        let outcome = Ndise::new(NdiseTopology::Tiers, arms[i], 1).lasting(2 * SHORT_NS).run();
        let [one, other] = &outcome.got;
        table.row([
            arms[i].label(),
            format!("{:.3}", one.bps / 1e6),
            format!("{:.1}", one.delay_ms),
            format!("{:.3}", other.bps / 1e6),
            format!("{:.1}", other.delay_ms),
            format!("{:.2}", outcome.hits * 100.0),
            format!("{:.2}", outcome.disk_hits * 100.0),
            format!("{:.1}", outcome.disk_written),
        ]);
        outcome
    });
    print!("{}", table.text());
    let [all, planned] = &outcomes;
    assert!(planned.disk_hits > 0.05 && planned.disk_written < all.disk_written, "{outcomes:?}");
    common::snapshot("n-dise-tiers", &table.text());
}

/// VI-10 under faults of a router or a link: no VIP is lost or made, and only VIPs under way count
/// twice.
#[test]
fn routers_agree_two_slots_after_a_fault() {
    let heads =
        ["fault", "before", "meanwhile", "after", "back after", "exchange", "again", "twice", "at most"];
    let mut table = Table::new(&heads);
    for fault in Fault::ALL {
        let outcome = Faults::new(fault, Arm::VIP, 1).lasting(SHORT_NS * 2 / 3).run();
        let mbps = |when: usize| (outcome.bps[0][when] + outcome.bps[1][when]) / 1e6;
        let vips = |count: u64| format!("{:.2}", count as f64 / namely_vip::UNIT as f64);
        let slots = |slots: Option<u64>| slots.map_or("never".to_owned(), |slots| slots.to_string());
        table.row([
            fault.label().to_owned(),
            format!("{:.2}", mbps(0)),
            format!("{:.2}", mbps(1)),
            format!("{:.2}", mbps(2)),
            slots(outcome.back_slots),
            slots(outcome.exchange_slots),
            outcome.retransmissions.to_string(),
            vips(outcome.twice),
            vips(outcome.twice_max),
        ]);
        println!("{fault:?} {outcome:?}");
        assert_eq!(outcome.wrong_books, 0, "{outcome:?}");
        assert!(outcome.twice <= outcome.twice_max, "{outcome:?}");
        assert!(fault != Fault::LinkDown || outcome.twice == 0 && outcome.lost == 0, "{outcome:?}");
        assert!(outcome.exchange_slots.is_some_and(|slots| slots <= 2), "{outcome:?}");
        assert!(outcome.back_slots.is_some_and(|slots| slots <= 5), "{outcome:?}");
    }
    print!("{}", table.text());
    common::snapshot("n-dise-faults", &table.text());
}

/// VIPs of each object that each node requests in each slot.
type Demands = Vec<VecDeque<Vec<(usize, u64)>>>;

/// The requests of a scenario.
fn demands(scenario: &mut Scenario) -> Demands {
    let mut demands = vec![VecDeque::new(); scenario.nodes()];
    for _ in 0..scenario.slots() {
        demands.iter_mut().for_each(|slots| slots.push_back(Vec::new()));
        for (n, k, vips) in scenario.arrivals() {
            demands[n].back_mut().expect("a slot").push((k, vips));
        }
    }
    demands
}

/// A network of a scenario. All its routers begin their slots at once.
fn network(scenario: &Scenario, demands: Demands) -> (Network, Vec<AppId>) {
    const PERIOD_MS: u32 = 1000;
    let mut network = Network::new(1);
    let spec = RouterSpec { cs_packets_max: 0, ..RouterSpec::default() };
    let nodes: Vec<NodeId> = (0..scenario.nodes()).map(|_| network.add_router(spec)).collect();
    let mut faces = vec![Vec::new(); nodes.len()];
    let link = LinkSpec { delay_ns: 20 * MS, ..LinkSpec::default() };
    for (a, links) in scenario.links.iter().enumerate() {
        for (b, _) in links.iter().filter(|(b, _)| *b > a) {
            let port = network.connect(nodes[a], nodes[*b], link);
            faces[a].push((*b, network.link_end_face(port)));
            faces[*b].push((a, network.link_end_face(network.back(port))));
        }
    }
    let name = |n: usize| format!("router-{n}").into_bytes();
    let mut apps = Vec::new();
    for (n, demands) in demands.into_iter().enumerate() {
        let neighbours = scenario.links[n].iter().map(|(b, octets_per_s)| NeighbourConfig {
            router: Some(name(*b)),
            octets_per_s: *octets_per_s,
            octets_per_s_out: *octets_per_s,
        });
        let config = Config {
            router: name(n),
            boot: 1,
            period_ms: PERIOD_MS,
            plane: scenario.config(n),
            neighbours: neighbours.collect(),
        };
        let mut vip = Vip::new(scenario.catalogue(), config).expect("a configuration");
        scenario.set_up(n, vip.plane_mut());
        faces[n].sort_unstable_by_key(|(b, _)| *b);
        let faces = faces[n].iter().map(|(_, face)| *face).collect();
        let agent = VipAgent::new(vip, PERIOD_MS, faces, Demand::Scripted(demands), None).begins_at(0);
        apps.push(network.attach_with_local_fields(nodes[n], Box::new(agent)));
    }
    (network, apps)
}

/// VI-09 to VI-14, with real packets between real forwarders: every count, score, kept set and sent
/// VIP of every slot.
fn steps_with_the_model(mut scenario: Scenario) {
    let demands = demands(&mut scenario);
    let (mut network, apps) = network(&scenario, demands);
    let (mut counts, mut moved, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    let planes = |network: &Network| -> Vec<Plane> {
        let agent = |app: &AppId| network.behaviour::<VipAgent>(*app).expect("an agent");
        apps.iter().map(|app| agent(app).vip().plane().clone()).collect()
    };
    for t in 0..scenario.slots() {
        network.run_until(t * SECOND + SECOND - MS);
        scenario.record(planes(&network).iter(), &mut Vec::new(), &mut sent);
        network.run_until((t + 1) * SECOND);
        let from = moved.len();
        scenario.record(planes(&network).iter(), &mut counts, &mut moved);
        // Counts are from the end of the slot, sent VIPs from its middle.
        let kept = scenario.nodes() * scenario.objects();
        moved.truncate(from + kept);
        moved.extend(sent.drain(..).skip(kept));
    }
    scenario.compare_the_end(planes(&network).iter());
    assert_eq!(hex(&counts), scenario.value["counts_sha256"], "{}", scenario.name());
    assert_eq!(hex(&moved), scenario.value["moved_sha256"], "{}", scenario.name());
}

/// Set to `all`: every scenario is compared, which takes minutes.
const SCENARIOS: &str = "NAMELY_SCENARIOS";

/// The scenarios that take a debug build a second or two; for the others
/// `lossless_synchronous_routers_match_the_model` of `crates/vip` compares the
/// routers' exchanges.
#[test]
fn synchronous_simulated_routers_match_the_model() {
    let names = ["multipath-score", "multipath-vip", "two-1.2-0.4"];
    let all = std::env::var(SCENARIOS).is_ok_and(|value| value == "all");
    let scenarios: Vec<Scenario> = Scenario::all();
    let chosen = scenarios.into_iter().filter(|scenario| all || names.contains(&scenario.name()));
    let compared = chosen.map(steps_with_the_model).count();
    assert!(compared >= names.len(), "{compared}");
}

/// Returns the sum of all counts of Abilene's routers after half of the slots and after all, if
/// each router requests `load` objects in a slot.
fn backlog(scenario: &Scenario, load: u64, slots: usize) -> [f64; 2] {
    let rows = scenario.value["arrivals"]["below"].as_object().expect("nodes");
    // The scenario's arrivals are five a slot, in units of 2^-32.
    let of = |n: usize| -> Vec<(usize, u64)> {
        let row = model::numbers(&rows[&n.to_string()]).into_iter().enumerate();
        row.map(|(k, x)| (k, x * load / (5 << 12))).collect()
    };
    let demands = (0..scenario.nodes()).map(|n| vec![of(n); slots].into()).collect();
    let (mut network, apps) = network(scenario, demands);
    [slots / 2, slots].map(|slot| {
        network.run_until(slot as u64 * SECOND);
        let counts = apps.iter().flat_map(|app| {
            network.behaviour::<VipAgent>(*app).expect("an agent").vip().plane().counts().to_vec()
        });
        counts.sum::<u64>() as f64 / namely_vip::UNIT as f64
    })
}

/// Each of eleven nodes is the source of one object in eleven. Requests at the source itself are no
/// demand on the network.
const DEMAND_OF_LOAD: f64 = 10.0;

#[test]
fn backlogs_grow_only_above_capacity() {
    const SLOTS: usize = 120;
    let scenario = Scenario::all().into_iter().find(|s| s.name() == "abilene-5").expect("a scenario");
    let mut table = Table::new(&["load", "backlog, VIPs", "growth a slot"]);
    let loads = [3, 5, 8, 12, 16];
    let growth = loads.map(|load| {
        let [half, whole] = backlog(&scenario, load, SLOTS);
        let growth = (whole - half) / (SLOTS / 2) as f64;
        table.row([load.to_string(), format!("{whole:.0}"), format!("{growth:.2}")]);
        growth
    });
    print!("{}", table.text());
    common::snapshot("n-dise-abilene", &table.text());
    common::shown(PAGE, "n-dise-abilene", &table.text());
    assert!(growth[..2].iter().all(|growth| *growth < 0.3), "bounded: {growth:?}");
    for i in 3..loads.len() {
        let excess = (loads[i] - loads[i - 1]) as f64 * DEMAND_OF_LOAD;
        let more = growth[i] - growth[i - 1];
        assert!((0.9..1.1).contains(&(more / excess)), "{more:.1} of {excess:.1}");
    }
}

//! The networks of N-DISE in virtual time (`VI-24` to `VI-29`), a sixtieth of the paper's time of
//! one seed, kept as a table, and routers that step together beside the exact model (`VI-09`).
//! docs/experiments/n-dise.md has the whole runs.

mod common;
#[path = "../../vip/tests/model/mod.rs"]
mod model;

use std::collections::VecDeque;

use model::{Scenario, hex};
use namely_sim::ndise::{Arm, Ndise, Outcome, Place};
use namely_sim::table::Table;
use namely_sim::{AppId, Demand, LinkSpec, MS, Network, NodeId, RouterSpec, SECOND, VipAgent};
use namely_vip::{Config, NeighbourConfig, Plane, Vip};

const PAGE: &str = "docs/experiments/n-dise.md";

/// A sixtieth of the paper's time, which even a debug build simulates in a second or two.
const SHORT_NS: u64 = 90 * SECOND;

fn row(table: &mut Table, place: Place, arm: Arm, outcome: &Outcome) {
    let [one, other] = &outcome.got;
    table.row([
        format!("{}, {}", place.label(), arm.label()),
        format!("{:.3}", one.bps / 1e6),
        format!("{:.1}", one.delay_ms),
        format!("{:.3}", other.bps / 1e6),
        format!("{:.1}", other.delay_ms),
        format!("{:.2}", outcome.hits * 100.0),
    ]);
}

/// VI-24, VI-25, VI-27, VI-28, VI-29.
#[test]
fn short_runs_of_the_networks_of_n_dise_come_out_as_they_are_kept() {
    let mut table = Table::new(&["network, way", "Mbit/s", "ms", "Mbit/s", "ms", "hits %"]);
    for (place, arms) in [(Place::Service, [1, 2, 4]), (Place::Multipath, [1, 3, 5])] {
        for arm in arms.map(|i| place.arms()[i]) {
            let outcome = Ndise::new(place, arm, 1).lasting(SHORT_NS).run();
            assert!(outcome.got.iter().all(|got| got.retransmissions == 0), "nothing is lost");
            row(&mut table, place, arm, &outcome);
        }
    }
    print!("{}", table.text());
    common::snapshot("n-dise-short", &table.text());
    common::shown(PAGE, "n-dise-short", &table.text());
}

/// A network of a scenario whose routers all begin their slots at once.
fn network(scenario: &mut Scenario) -> (Network, Vec<AppId>) {
    const PERIOD_MS: u32 = 1000;
    let mut network = Network::new(1);
    let spec = RouterSpec { cs_packets_max: 0, ..RouterSpec::default() };
    let nodes: Vec<NodeId> = (0..scenario.nodes()).map(|_| network.add_router(spec)).collect();
    let mut faces = vec![Vec::new(); nodes.len()];
    let link = LinkSpec { delay_ns: 20 * MS, ..LinkSpec::default() };
    for (a, links) in scenario.links.iter().enumerate() {
        for (b, _) in links.iter().filter(|(b, _)| *b > a) {
            let port = network.connect(nodes[a], nodes[*b], link);
            faces[a].push((*b, network.face_of_port(port)));
            faces[*b].push((a, network.face_of_port(network.back(port))));
        }
    }
    let mut asked = vec![VecDeque::new(); nodes.len()];
    for _ in 0..scenario.slots() {
        asked.iter_mut().for_each(|slots| slots.push_back(Vec::new()));
        for (n, k, vips) in scenario.arrivals() {
            asked[n].back_mut().expect("a slot").push((k, vips));
        }
    }
    let name = |n: usize| format!("router-{n}").into_bytes();
    let mut apps = Vec::new();
    for (n, asked) in asked.into_iter().enumerate() {
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
        let agent = VipAgent::new(vip, PERIOD_MS, faces, Demand::Scripted(asked), None).begins_at(0);
        apps.push(network.attach_with_local_fields(nodes[n], Box::new(agent)));
    }
    (network, apps)
}

/// VI-09 to VI-14, with real packets between real forwarders: every count, score, kept set and sent
/// VIP of every slot.
fn steps_with_the_model(mut scenario: Scenario) {
    let (mut network, apps) = network(&mut scenario);
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
        // What is kept is of the end of the slot, what was sent of its middle.
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

/// Of all scenarios those that take a debug build a second or two; what routers say to each other
/// in the others is compared by `routers_that_step_together_and_lose_nothing_are_the_model` of
/// `crates/vip`.
#[test]
fn routers_that_step_together_in_the_simulator_give_the_exact_models_numbers() {
    let names = ["multipath-score", "multipath-vip", "two-1.2-0.4"];
    let all = std::env::var(SCENARIOS).is_ok_and(|value| value == "all");
    let scenarios: Vec<Scenario> = Scenario::all();
    let chosen = scenarios.into_iter().filter(|scenario| all || names.contains(&scenario.name()));
    let compared = chosen.map(steps_with_the_model).count();
    assert!(compared >= names.len(), "{compared}");
}

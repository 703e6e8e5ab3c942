//! The processor time of a slot of the virtual plane. Time in which a hypervisor takes the
//! processor away counts too, and programs on the processor's other thread slow it down.

use std::time::Duration;

use namely_vip::{
    Config, Decay, NeighbourConfig, Object, Objects, PlacementSource, PlaneConfig, Tier, UNIT, Vip,
};

/// Duration of a slot, ns.
const PERIOD: u64 = 1_000_000_000;

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The median CPU time of ten slots in which all objects are requested and each link is open.
/// Kernel interrupts count as the thread's time, so the maximum would be misleading.
fn slot(objects: u64, neighbours: usize) -> Duration {
    let list = (0..objects).map(|k| Object { id: k, octets: 1000 + k % 7 }).collect();
    let neighbour = |b: usize| NeighbourConfig {
        router: Some(vec![b as u8]),
        octets_per_s: 1_000_000,
        octets_per_s_out: 1,
    };
    let plane = PlaneConfig {
        amplification: 1,
        decay: Decay::NONE,
        follow: PlacementSource::Scores,
        tiers: vec![Tier { octets: 100 * objects, rate: 10_000, admit: 0, evict: 0 }],
        weight: 0,
    };
    let config = Config {
        router: vec![b'n'],
        boot: 1,
        period_ms: 1000,
        plane,
        neighbours: (0..neighbours).map(neighbour).collect(),
    };
    let mut vip = Vip::new(Objects::new(list).unwrap(), config).unwrap();
    (0..objects as usize).for_each(|k| vip.plane_mut().set_hops(k, 0..neighbours));
    let (mut out, mut spent) = (Vec::new(), Vec::new());
    for t in 0..10 {
        (0..objects as usize).for_each(|k| vip.plane_mut().add_demand(k, UNIT * (1 + k as u64 % 13)));
        (0..neighbours).for_each(|b| vip.plane_mut().open(b, true));
        let began = cpu_time();
        vip.tick(t * PERIOD, 0, &mut out);
        vip.tick(t * PERIOD + PERIOD / 2, 0, &mut out);
        spent.push(cpu_time().saturating_sub(began));
        assert!(!out.is_empty(), "a slot asks neighbors");
        out.clear();
    }
    spent.sort_unstable();
    println!("a slot of {objects} objects and {neighbours} neighbors, CPU time: {spent:?}");
    spent[spent.len() / 2]
}

#[test]
fn a_large_slot_is_computed_in_milliseconds() {
    assert!(slot(400, 8) <= Duration::from_millis(1));
    assert!(slot(4096, 64) <= Duration::from_millis(60));
}

//! The memory of a forwarder before its first packet.

use namely_forwarder::{BindingLimits, FibError, FibLimits, RibLimits};

use super::*;

/// Octets that a router of the simulator takes with its faces and routes.
const SIMULATED_MAX: i64 = 48 << 10;

/// Octets that the tables of a daemon take with the default limits.
const DAEMON_MAX: i64 = 512 << 10;

/// The limits of the simulator's routers: `RouterSpec::config` of `crates/sim`, by default.
fn simulated() -> Config {
    Config {
        faces_max: 64,
        threads_max: 1,
        pit: PitLimits {
            entries_max: 4096,
            entries_per_face_max: 4096,
            entries_per_holder_max: 4096,
            ..PitLimits::default()
        },
        cs: CsLimits { packets_max: 256, entries_max: 2048, ..CsLimits::default() },
        fib: FibLimits { entries_max: 4096, ..FibLimits::default() },
        rib: RibLimits { routes_max: 4096, ..RibLimits::default() },
        bindings: BindingLimits { entries_max: 1024, ..BindingLimits::default() },
        strategies: StrategyLimits { choices_max: 64, prefixes_max: 1024, ..StrategyLimits::default() },
        dead_nonces: DeadNonceLimits { entries_max: 4096, ..DeadNonceLimits::default() },
        ..Config::new(|_| [0; 32])
    }
}

/// A table, and the reduction of its limits to the least.
type Reduction = (&'static str, fn(&mut Config));

const TABLES: [Reduction; 8] = [
    ("faces", |config| config.faces_max = 1),
    ("PIT", |config| config.pit.entries_max = 1),
    ("content store", |config| config.cs = CsLimits { packets_max: 0, entries_max: 0, octets_max: 0 }),
    ("FIB", |config| config.fib.entries_max = 1),
    ("BPT", |config| config.bindings.entries_max = 1),
    ("strategy choices", |config| config.strategies.choices_max = 1),
    ("strategy memory", |config| config.strategies.prefixes_max = 0),
    ("dead Nonces", |config| config.dead_nonces.entries_max = 1),
];

/// Octets of a new forwarder.
fn octets_of(config: Config) -> i64 {
    let before = octets();
    let fw = Fw::new(config, 1).unwrap();
    let taken = octets() - before;
    drop(fw);
    taken
}

/// Octets of a forwarder with four faces and four routes.
fn octets_with_routes(config: Config) -> i64 {
    let prefixes: Vec<Name> = ["/", "/a", "/a/b", "/c/d/e"].map(|uri| uri.parse().unwrap()).into();
    let before = octets();
    let fw = Fw::new(config, 1).unwrap();
    for prefix in &prefixes {
        let face = fw.face_register(FaceProperties::remote()).unwrap();
        fw.fib().add_nexthop(prefix.as_name(), face, 1).unwrap();
    }
    let taken = octets() - before;
    drop(fw);
    taken
}

/// Prints the octets that each table takes because of its limits, and returns those of all tables.
fn measured(what: &str, config: &Config) -> i64 {
    let all = octets_of(config.clone());
    for (table, reduce) in TABLES {
        let mut without = config.clone();
        reduce(&mut without);
        println!("{what}: {table}: {} octets", all - octets_of(without));
    }
    let with_routes = octets_with_routes(config.clone());
    println!("{what}: {all} octets, {with_routes} with faces and routes");
    with_routes
}

#[test]
fn a_simulated_router_at_rest_is_small() {
    let taken = measured("a simulated router", &simulated());
    assert!(taken <= SIMULATED_MAX, "{taken} octets");
}

/// The buffer for names has room for every name that was entered, also if there was no memory for
/// one of them.
#[test]
fn names_of_any_length_are_listed_and_removed() {
    let fw = Fw::new(simulated(), 1).unwrap();
    let face = fw.face_register(FaceProperties::application()).unwrap();
    let name = |octets: usize| Name::new().join_generic(vec![7; octets]);
    let beyond = name(8500);
    for octets in [3, 100, 50, 4000, 8000] {
        fw.fib().add_nexthop(name(octets).as_name(), face, 1).unwrap();
        fw.bindings().bind(face, name(octets).join_segment(1).as_name()).unwrap();
        let refused = with_allocations(0, || fw.fib().add_nexthop(beyond.as_name(), face, 1));
        assert_eq!(refused, Err(FibError::NoMemory));
    }
    let listed: Vec<usize> =
        fw.fib().snapshot().iter().map(|entry| entry.prefix.as_name().as_bytes().len()).collect();
    assert_eq!((listed.len(), fw.bindings().snapshot().len()), (5, 5));
    assert!(listed.iter().any(|octets| *octets > 8000));
    fw.face_release(face).unwrap();
    fw.expire(1, &mut Sink::default());
    assert_eq!((fw.table_sizes().fib, fw.table_sizes().bindings), (0, 0));
}

#[test]
fn default_tables_at_rest_are_small() {
    let taken = measured("a daemon", &Config::new(|_| [0; 32]));
    assert!(taken <= DAEMON_MAX, "{taken} octets");
}

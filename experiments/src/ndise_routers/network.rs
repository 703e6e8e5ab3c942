//! One run: the network of real routers with one way of caching and forwarding, its ends, and what
//! came of it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use namely_bench::error::Error;
use namely_security::{KeyChain, KeyType, NewKey};
use namely_sim::ndise::{Arm, OBJECTS, Place, ROOM, Wire};
use namely_testbed::{Interrupt, Lab, Testbed, TestbedError};
use namely_wire::{Name, ValidityPeriod};
use serde_json::Value;

use super::ends::{self, CONSUMER_BPS, CONTENT_OCTETS, Got, Habit, OBJECT_OCTETS, PACKETS};

/// By how much links and consumers are faster than the simulator's, which are a thousandth of the
/// paper's.
const FASTER: u64 = 3;

/// How often is looked at what is kept, while it is measured.
const LOOKS: u32 = 10;

/// What the paper's runs take, s: times that are scaled are so by the length of a run.
const PAPER_S: u64 = 5_400;

/// Shortest slots: both exchanges of a slot take a round trip of the longest link.
const PERIOD_MS_MIN: u64 = 500;

/// That of the paper's beta, s.
const HALF_LIFE_S: u64 = 46_210;

/// What one run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) got: [Got; 2],
    /// Interests that forwarders with caches answered, of those that came to them.
    pub(super) hits: f64,
    /// With VIP, of each forwarder: the ranks that it kept, and at how many of the looks.
    pub(super) held: [Vec<(Vec<usize>, usize)>; 2],
    /// CPU seconds of all routers.
    pub(super) cpu_s: f64,
}

/// How it is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) place: Place,
    pub(super) arm: Arm,
    pub(super) seed: u64,
    /// Before measuring begins, and how long it is measured.
    pub(super) warm: Duration,
    pub(super) counted: Duration,
}

/// Runs it once.
pub(super) fn run(setting: &Setting, interrupt: &Interrupt) -> Result<Outcome, Error> {
    let folder = tempfile::tempdir().map_err(|e| Error::environment("cannot make a folder", e))?;
    let text = topology(setting, &folder.path().join("keys"))?;
    let testbed = Testbed::parse(&text, Path::new("ndise.toml")).map_err(|e| Error::Usage(e.to_string()))?;
    let mut lab = Lab::build(testbed, &folder.path().join("lab"), interrupt).map_err(error)?;
    let is_over = AtomicBool::new(false);
    let mut outcome = thread::scope(|scope| {
        let outcome = measure(setting, &lab, &is_over, scope, interrupt);
        is_over.store(true, Ordering::Relaxed);
        outcome
    })?;
    for n in 0..nodes(setting.place) {
        outcome.cpu_s += lab.router_process(&node(n)).map_or(0.0, |router| router.cpu_time().as_secs_f64());
    }
    Ok(outcome)
}

fn measure<'scope, 'env: 'scope>(
    setting: &'env Setting,
    lab: &'env Lab,
    is_over: &'env AtomicBool,
    scope: &'scope thread::Scope<'scope, 'env>,
    interrupt: &Interrupt,
) -> Result<Outcome, Error> {
    let place = setting.place;
    let source = scope.spawn(move || ends::serve(&lab.router(&node(place.server())), is_over));
    let consumers = place.consumers();
    for (_, n) in consumers {
        let (socket, name) = (lab.router(&node(n)), format!("{}/seg=0", ends::file(OBJECTS - 1)));
        let socket = socket.trim_start_matches("unix://").to_owned();
        namely_bench::probe::wait_for_answer(
            Path::new(&socket),
            &name,
            namely_bench::programs::READY_LIMIT,
            interrupt,
        )?;
    }
    let spans = (setting.warm, setting.counted);
    let readers = consumers.iter().zip(0..).map(|((_, n), i)| {
        let (router, seed) = (lab.router(&node(*n)), setting.seed * 2 + i);
        scope.spawn(move || ends::read(&router, Habit::popular(seed), spans, is_over))
    });
    let readers: Vec<_> = readers.collect();
    interrupt.sleep(setting.warm)?;
    let before = lookups(setting, lab)?;
    let mut outcome = Outcome::default();
    for _ in 0..LOOKS {
        interrupt.sleep(setting.counted / LOOKS)?;
        if setting.arm == Arm::VIP {
            look(place, lab, &mut outcome.held)?;
        }
        if source.is_finished() {
            return Err(Error::Subject("the source has ended".into()));
        }
    }
    let after = lookups(setting, lab)?;
    for (reader, got) in readers.into_iter().zip(&mut outcome.got) {
        *got = reader.join().map_err(|_| Error::Subject("a consumer panicked".into()))??;
    }
    outcome.hits = (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64;
    outcome.held.iter_mut().for_each(|held| held.sort_by_key(|(_, looks)| std::cmp::Reverse(*looks)));
    Ok(outcome)
}

/// Hits and lookups at the forwarders with caches.
fn lookups(setting: &Setting, lab: &Lab) -> Result<(u64, u64), Error> {
    let mut sum = (0, 0);
    for n in setting.place.caches() {
        let info = lab.dataset(&node(n), &["cs", "info"]).map_err(error)?;
        let count = |key: &str| info.first().and_then(|info| info[key].as_u64()).unwrap_or(0);
        sum = (sum.0 + count("hits"), sum.1 + count("hits") + count("misses"));
    }
    Ok(sum)
}

/// Notes what the forwarders hold, by the ranks of objects.
fn look(place: Place, lab: &Lab, held: &mut [Vec<(Vec<usize>, usize)>; 2]) -> Result<(), Error> {
    for (n, held) in place.caches().into_iter().zip(held) {
        let objects = lab.dataset(&node(n), &["vip", "objects", "--kept"]).map_err(error)?;
        let rank = |object: &Value| object["object"].as_str()?.strip_prefix('/')?.parse::<usize>().ok();
        let mut ranks: Vec<usize> = objects.iter().filter_map(rank).map(|object| object + 1).collect();
        ranks.sort_unstable();
        match held.iter_mut().find(|(known, _)| *known == ranks) {
            Some((_, looks)) => *looks += 1,
            None => held.push((ranks, 1)),
        }
    }
    Ok(())
}

fn nodes(place: Place) -> usize {
    place.wires().iter().map(|wire| wire.0.max(wire.1)).max().unwrap_or(0) + 1
}

pub(super) fn node(n: usize) -> String {
    format!("n{n}")
}

/// The testbed's file.
fn topology(setting: &Setting, keys: &Path) -> Result<String, Error> {
    let (place, wires) = (setting.place, setting.place.wires());
    let count = nodes(place);
    let distance = distances(&wires, count, place.server());
    let public: Vec<String> = (0..count).map(|n| key(&keys.join(node(n)))).collect::<Result<_, _>>()?;
    let mut text = String::from("[testbed]\nname = \"ndise\"\n[defaults]\nlisten = \"udp\"\n");
    text += &format!("[defaults.files]\n\"blocks.tsv\" = '''\n{}'''\n", catalogue());
    for n in 0..count {
        let config = configuration(setting, n, (&wires, &distance), (keys, &public));
        text += &format!("[[node]]\nname = \"{}\"\nconfig = '''\n{config}'''\n", node(n));
    }
    for Wire(a, b, rtt_ms, mbps) in &wires {
        let (rate, delay_us) = (mbps * FASTER, rtt_ms * 500);
        text += &format!(
            "[[link]]\nbetween = [\"{}\", \"{}\"]\nrate = \"{rate}mbit\"\ndelay = \"{delay_us}us\"\nmtu = 9000\nqueue = \"1s\"\n",
            node(*a),
            node(*b)
        );
    }
    Ok(text)
}

fn catalogue() -> String {
    let block = |k| format!("/{k}\t{OBJECT_OCTETS}\n\t/{k}/f\t{OBJECT_OCTETS}\n");
    let blocks: String = (0..OBJECTS).map(block).collect();
    format!("catalogue\t1\n{blocks}")
}

fn configuration(
    setting: &Setting,
    n: usize,
    (wires, distance): (&[Wire], &[usize]),
    (keys, public): (&Path, &[String]),
) -> String {
    let Setting { place, arm, .. } = setting;
    let is_cache = place.caches().contains(&n);
    let mut neighbours: Vec<(usize, u64)> = wires
        .iter()
        .filter_map(|Wire(a, b, _, mbps)| match (*a == n, *b == n) {
            (true, _) => Some((*b, *mbps)),
            (_, true) => Some((*a, *mbps)),
            _ => None,
        })
        .collect();
    neighbours.sort_unstable();
    let mut text = match arm.policy {
        Some(policy) if is_cache => {
            format!(
                "[tables]\ncs_packets_max = {}\ncs_policy = \"{}\"\n",
                ROOM as u64 * PACKETS,
                policy.name()
            )
        }
        _ if is_cache && *arm == Arm::VIP => String::new(),
        _ => "[tables]\ncs_packets_max = 0\n".to_owned(),
    };
    text += "[discovery]\nenabled = false\n";
    if *arm == Arm::VIP {
        text += &format!("key_chain = \"{}\"\n", keys.join(node(n)).display());
        text += &plane(setting, n, is_cache);
    } else {
        text += &format!("[strategy]\n\"/\" = \"{}\"\n", arm.strategy);
    }
    // The nearest first, as in the simulator.
    let mut nearer: Vec<usize> =
        neighbours.iter().map(|(b, _)| *b).filter(|b| distance[*b] < distance[n]).collect();
    nearer.sort_by_key(|b| distance[*b]);
    for (b, mbps) in &neighbours {
        let face = format!("udp4://{{addr:{}}}:6363", node(*b));
        text += &format!("[[face]]\nremote = \"{face}\"\n");
        if let Some(cost) = nearer.iter().position(|hop| hop == b) {
            text += &format!("[[route]]\nprefix = \"/store\"\nto = \"{face}\"\ncost = {cost}\n");
        }
        if *arm == Arm::VIP {
            let octets_per_s = mbps * FASTER * 125_000;
            text += &format!(
                "[[vip.neighbour]]\nface = \"{face}\"\nrouter = \"{}\"\nkey = \"{}\"\noctets_per_s = {octets_per_s}\n",
                node(*b),
                public[*b]
            );
        }
    }
    text
}

/// `[vip]`: slots and half-life as short as the run is beside the paper's, slots no shorter than
/// both exchanges take.
fn plane(setting: &Setting, n: usize, is_cache: bool) -> String {
    let seconds = (setting.warm + setting.counted).as_secs().max(1);
    let (period_ms, amplification) = setting.place.slot();
    let period_ms = (u64::from(period_ms) * seconds / PAPER_S).max(PERIOD_MS_MIN);
    let half_life_s = (HALF_LIFE_S * seconds / PAPER_S).max(1);
    let mut text = format!(
        "[vip]\nrouter = \"{}\"\ncatalogue = \"{{dir}}/blocks.tsv\"\nprefix = \"/store\"\nperiod_ms = {period_ms}\n\
         amplification = {amplification}\nscore_half_life_s = {half_life_s}\nsegment_octets = {CONTENT_OCTETS}\n\
         unregistered = \"refuse\"\n",
        node(n)
    );
    if is_cache {
        // Its memory gives eight times what a consumer reads.
        let (room, rate) = (ROOM as u64 * OBJECT_OCTETS, CONSUMER_BPS);
        text += &format!("memory = \"{room}B\"\nmemory_octets_per_s = \"{rate}B\"\n");
    }
    text
}

/// Makes a router's key; what its neighbours know it by.
pub(crate) fn key(folder: &Path) -> Result<String, Error> {
    let refused = |e: namely_security::KeyChainError| Error::Subject(format!("a router's key: {e}"));
    let chain = KeyChain::open(folder).map_err(refused)?;
    let identity = Name::new().join_generic("ndp");
    let validity = ValidityPeriod { not_before_s: 0, not_after_s: 253_402_300_799 };
    let new = NewKey {
        identity: identity.as_name(),
        key_type: KeyType::Ed25519,
        validity,
        version: 1,
        passphrase: None,
    };
    let entry = chain.generate(&new).map_err(refused)?;
    let private = chain.private_key(entry.name.as_name(), None).map_err(refused)?;
    let octets = private.public().ed25519_octets().unwrap_or_default();
    Ok(octets.iter().map(|octet| format!("{octet:02x}")).collect())
}

/// Hops of each node from the server.
fn distances(wires: &[Wire], count: usize, server: usize) -> Vec<usize> {
    let mut distance = vec![usize::MAX; count];
    let mut queue = VecDeque::from([server]);
    distance[server] = 0;
    while let Some(n) = queue.pop_front() {
        for Wire(a, b, ..) in wires {
            for (from, to) in [(*a, *b), (*b, *a)] {
                if from == n && distance[to] == usize::MAX {
                    distance[to] = distance[n] + 1;
                    queue.push_back(to);
                }
            }
        }
    }
    distance
}

pub(super) fn error(error: TestbedError) -> Error {
    match error {
        TestbedError::Process(error) => error.into(),
        error => Error::Subject(error.to_string()),
    }
}

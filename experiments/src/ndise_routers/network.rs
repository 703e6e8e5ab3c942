//! One run: the network of real routers with one method of caching and forwarding, its ends, and
//! the result.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use namely_bench::error::Error;
use namely_security::{KeyChain, KeyType, NewKey};
use namely_sim::ndise::{Arm, DISK_ROOM, DiskPolicy, NdiseTopology, OBJECTS, ROOM, Wire};
use namely_testbed::{Interrupt, Lab, Testbed, TestbedError};
use namely_wire::{Name, ValidityPeriod};
use serde_json::Value;

use super::ends::{self, CONSUMER_BPS, CONTENT_OCTETS, ConsumerResult, Habit, OBJECT_OCTETS, PACKETS};

/// Factor by which links and consumers are faster than the simulator's, which run at a thousandth
/// of the paper's rates.
const FASTER: u64 = 3;

/// Sequential reads of a forwarder's disk per second, if it has one. It is read at a fifth of
/// memory's rate, as in the simulator.
const DISK_READS_PER_S: u64 = CONSUMER_BPS / 5 / CONTENT_OCTETS as u64;

/// Requests pending at a disk above which Interests bypass it. Reading them takes 32 ms, and the
/// next forwarder is 40 ms away.
const DISK_THRESHOLD: u64 = DISK_READS_PER_S * 32 / 1000;

/// Octets of a packet in memory.
const IN_MEMORY_OCTETS: u64 = 6_475;
/// Octets of a packet on a disk.
const ON_DISK_OCTETS: u64 = 6_560;

/// Number of samples of the cached objects during the measurement.
const LOOKS: u32 = 10;

/// Length of the paper's runs, s. Times are scaled by the length of a run.
const PAPER_S: u64 = 5_400;

/// Minimum length of a slot, ms: both exchanges of a slot take a round trip of the longest link.
const PERIOD_MS_MIN: u64 = 500;

/// The half-life of the paper's beta, s.
const HALF_LIFE_S: u64 = 46_210;

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) got: [ConsumerResult; 2],
    /// Share of Interests that the forwarders with caches answered, of all that they received.
    pub(super) hits: f64,
    /// Share of the answered Interests that the disks answered.
    pub(super) disk_hits: f64,
    /// Objects written to these disks during the measurement.
    pub(super) disk_written: f64,
    /// Objects' worth of Data in memory and on disk at the end, all forwarders together.
    pub(super) stored: [f64; 2],
    /// With VIP, each forwarder's disk at the end: room for objects, octets, and the read
    /// rate that the router assumes, octets per second.
    pub(super) disks: Vec<(u64, u64)>,
    /// The objects cached in memory, with VIP.
    pub(super) held: CachedRanks,
    /// The objects cached on disk, with VIP.
    pub(super) on_disk: CachedRanks,
    /// CPU seconds of all routers.
    pub(super) cpu_s: f64,
}

/// For each forwarder: the ranks of the objects that it cached, and the number of samples with
/// them.
pub(super) type CachedRanks = [Vec<(Vec<usize>, usize)>; 2];

/// The parameters of the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) topology: NdiseTopology,
    pub(super) arm: Arm,
    pub(super) seed: u64,
    /// Time before the measurement begins, and its duration.
    pub(super) warm: Duration,
    pub(super) counted: Duration,
}

/// Runs the network once.
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
    for n in 0..nodes(setting.topology) {
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
    let topology = setting.topology;
    let source = scope.spawn(move || ends::serve(&lab.router(&node(topology.server())), is_over));
    let consumers = topology.consumers();
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
    let (warm, counted) = (setting.warm, setting.counted);
    let readers = consumers.iter().zip(0..).map(|((_, n), i)| {
        let (router, seed) = (lab.router(&node(*n)), setting.seed * 2 + i);
        scope.spawn(move || ends::read(&router, Habit::popular(seed), warm, counted, is_over))
    });
    let readers: Vec<_> = readers.collect();
    interrupt.sleep(setting.warm)?;
    let before = lookups(setting, lab)?;
    let mut outcome = Outcome::default();
    for _ in 0..LOOKS {
        interrupt.sleep(setting.counted / LOOKS)?;
        if setting.arm.is_vip() {
            look(topology, lab, &mut outcome)?;
        }
        if source.is_finished() {
            return Err(Error::Subject("the source has ended".into()));
        }
    }
    let after = lookups(setting, lab)?;
    for (reader, got) in readers.into_iter().zip(&mut outcome.got) {
        *got = reader.join().map_err(|_| Error::Subject("a consumer panicked".into()))??;
    }
    let share = |hits: u64| hits as f64 / (after.met - before.met).max(1) as f64;
    outcome.hits = share(after.hits - before.hits);
    outcome.disk_hits = share(after.disk_hits - before.disk_hits);
    outcome.disk_written = (after.written - before.written) as f64 / PACKETS as f64;
    if setting.arm.is_vip() && setting.arm.below != DiskPolicy::Nothing {
        for n in topology.caches() {
            let status = lab.dataset(&node(n), &["vip", "status"]).map_err(error)?;
            let status = status.first().unwrap_or(&Value::Null);
            let number = |key: &str| status[key].as_u64().unwrap_or(0);
            outcome.disks.push((number("disk_room"), number("disk_octets_per_s")));
        }
    }
    outcome.stored = after.stored.map(|data| data as f64 / PACKETS as f64);
    let held = outcome.held.iter_mut().chain(&mut outcome.on_disk);
    held.for_each(|held| held.sort_by_key(|(_, looks)| std::cmp::Reverse(*looks)));
    Ok(outcome)
}

/// The lookups of the forwarders with caches.
#[derive(Clone, Copy, Debug, Default)]
struct Lookups {
    /// Interests that they received, Interests that they answered, and those of the latter that
    /// their disks answered.
    met: u64,
    hits: u64,
    disk_hits: u64,
    /// Data that were written to their disks.
    written: u64,
    /// Data in memory, and on disk.
    stored: [u64; 2],
}

fn lookups(setting: &Setting, lab: &Lab) -> Result<Lookups, Error> {
    let mut sum = Lookups::default();
    for n in setting.topology.caches() {
        let info = lab.dataset(&node(n), &["cs", "info"]).map_err(error)?;
        let info = info.first().unwrap_or(&Value::Null);
        let count = |of: &Value| of.as_u64().unwrap_or(0);
        let (disk, counters) = (&info["disk"], &info["disk"]["counters"]);
        sum.met += count(&info["hits"]) + count(&info["misses"]);
        sum.hits += count(&info["hits"]) + count(&counters["hits"]);
        sum.disk_hits += count(&counters["hits"]);
        sum.written += count(&counters["written"]);
        sum.stored[0] += count(&info["entries"]);
        if setting.arm.is_vip() {
            // With VIP, objects have memory beside the content store.
            let objects = lab.dataset(&node(n), &["vip", "objects"]).map_err(error)?;
            let held: u64 = objects.iter().map(|object| count(&object["held"])).sum();
            sum.stored[0] += held / IN_MEMORY_OCTETS;
        }
        sum.stored[1] += count(&disk["records"]);
    }
    Ok(sum)
}

/// Records the cached objects of the forwarders, by their ranks.
fn look(topology: NdiseTopology, lab: &Lab, outcome: &mut Outcome) -> Result<(), Error> {
    for (i, n) in topology.caches().into_iter().enumerate() {
        let objects = lab.dataset(&node(n), &["vip", "objects", "--kept"]).map_err(error)?;
        for (tier, held) in [&mut outcome.held, &mut outcome.on_disk].into_iter().enumerate() {
            let of_tier = objects.iter().filter(|object| object["tier"] == tier);
            let rank = |object: &Value| object["object"].as_str()?.strip_prefix('/')?.parse::<usize>().ok();
            let mut ranks: Vec<usize> = of_tier.filter_map(rank).map(|object| object + 1).collect();
            ranks.sort_unstable();
            match held[i].iter_mut().find(|(known, _)| *known == ranks) {
                Some((_, looks)) => *looks += 1,
                None => held[i].push((ranks, 1)),
            }
        }
    }
    Ok(())
}

fn nodes(topology: NdiseTopology) -> usize {
    topology.wires().iter().map(|wire| wire.0.max(wire.1)).max().unwrap_or(0) + 1
}

pub(super) fn node(n: usize) -> String {
    format!("n{n}")
}

/// The testbed's file.
fn topology(setting: &Setting, keys: &Path) -> Result<String, Error> {
    let (topology, wires) = (setting.topology, setting.topology.wires());
    let count = nodes(topology);
    let distance = distances(&wires, count, topology.server());
    let public: Vec<String> = (0..count).map(|n| key(&keys.join(node(n)))).collect::<Result<_, _>>()?;
    let mut text = String::from("[testbed]\nname = \"ndise\"\n[defaults]\nlisten = \"udp\"\n");
    text += &format!("[defaults.files]\n\"blocks.tsv\" = '''\n{}'''\n", catalogue());
    for n in 0..count {
        let config = configuration(setting, n, &wires, &distance, keys, &public);
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
    wires: &[Wire],
    distance: &[usize],
    keys: &Path,
    public: &[String],
) -> String {
    let Setting { topology, arm, .. } = setting;
    let is_cache = topology.caches().contains(&n);
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
        _ if is_cache && arm.is_vip() => String::new(),
        _ => "[tables]\ncs_packets_max = 0\n".to_owned(),
    };
    if is_cache {
        text += &disk(arm.below);
    }
    text += "[discovery]\nenabled = false\n";
    if arm.is_vip() {
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
        if arm.is_vip() {
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

/// `[cs.disk]` of a forwarder, the same for all methods, with room for [`DISK_ROOM`] objects. The
/// oldest eighth of its capacity is evicted for new packets.
fn disk(below: DiskPolicy) -> String {
    let admission = match below {
        DiskPolicy::Nothing => return String::new(),
        DiskPolicy::All => "all",
        DiskPolicy::Requested | DiskPolicy::Planned(_) => "hit",
    };
    // The division loses less than a block of the disk.
    let octets_max = DISK_ROOM as u64 * PACKETS * ON_DISK_OCTETS * 8 / 7 + 4096;
    format!(
        "[cs.disk]\nfolder = \"{{dir}}/cs\"\noctets_max = {octets_max}\nadmission = \"{admission}\"\n\
         threshold = {DISK_THRESHOLD}\nread_ahead = false\nslow = \"{DISK_READS_PER_S}/s\"\n"
    )
}

/// Returns the section `[vip]`. Slots and half-life are shorter than the paper's by the same factor
/// as the run. A slot is never shorter than its two exchanges.
fn plane(setting: &Setting, n: usize, is_cache: bool) -> String {
    let seconds = (setting.warm + setting.counted).as_secs().max(1);
    let (period_ms, amplification) = setting.topology.slot();
    let period_ms = (u64::from(period_ms) * seconds / PAPER_S).max(PERIOD_MS_MIN);
    let half_life_s = (HALF_LIFE_S * seconds / PAPER_S).max(1);
    let mut text = format!(
        "[vip]\nrouter = \"{}\"\ncatalogue = \"{{dir}}/blocks.tsv\"\nprefix = \"/store\"\nperiod_ms = {period_ms}\n\
         amplification = {amplification}\nscore_half_life_s = {half_life_s}\nsegment_octets = {CONTENT_OCTETS}\n\
         unregistered = \"refuse\"\n",
        node(n)
    );
    if is_cache {
        // Its memory has eight times the rate of a consumer.
        let (room, rate) = (ROOM as u64 * OBJECT_OCTETS, CONSUMER_BPS);
        text += &format!("memory = \"{room}B\"\nmemory_octets_per_s = \"{rate}B\"\n");
    }
    if let (true, DiskPolicy::Planned(cost)) = (is_cache, setting.arm.below) {
        let rate = DISK_READS_PER_S * CONTENT_OCTETS as u64;
        text += &format!("disk_octets_per_s = \"{rate}B\"\nmove_cost = {cost}\n");
    }
    text
}

/// Makes a router's key. Returns its public key in hexadecimal, by which neighbors know it.
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

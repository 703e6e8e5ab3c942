//! Peers that flood, send wrong packets, sleep or disconnect, at a real `namelyd`: others receive
//! their answers, drops are counted, and memory stays within its limits.

use crate::common;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Client, Daemon, PATIENCE};
use namely_messages::{Counter, Dataset, blocks};
use namely_security::{Signer, sign_data};
use namely_testkit::name;
use namely_wire::{DataBuilder, InterestBuilder, LpHeaders, Name, encode_lp_packet};

/// Memory that the router may use beyond its use at rest while its tables fill. The default limits
/// allow 131,072 pending Interests of one face, each with a small packet.
const FLOOD_OCTETS_MAX: u64 = 256 << 20;

/// A number of `/proc/PID/status`.
fn status(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(field))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Resident memory, octets.
fn resident(daemon: &Daemon) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("a process");
    status(&text, "VmRSS:").expect("a size") << 10
}

/// Returns the number of sleeps of the router's threads, and their CPU time in clock ticks.
fn wakes_and_ticks(daemon: &Daemon) -> (u64, u64) {
    let (mut wakes, mut ticks) = (0, 0);
    for task in std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).expect("a process").flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).expect("a thread");
        wakes += status(&read("status"), "voluntary_ctxt_switches:").expect("a count");
        let stat = read("stat");
        let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
        let times = fields.split_whitespace().skip(11).take(2);
        ticks += times.map(|ticks| ticks.parse::<u64>().expect("ticks")).sum::<u64>();
    }
    (wakes, ticks)
}

fn counter(client: &mut Client, label: &str) -> u64 {
    let content = client.dataset(Dataset::StatusCounters);
    let counters = blocks::<Counter>(&content).map(|counter| counter.expect("a counter"));
    counters.filter(|counter| counter.label == label).map(|counter| counter.value).sum()
}

/// Threads that end with the test.
struct Running {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Running {
    fn new() -> Self {
        Running { stop: Arc::default(), threads: Vec::new() }
    }

    fn start(&mut self, work: impl FnOnce(&AtomicBool) + Send + 'static) {
        let stop = self.stop.clone();
        self.threads.push(thread::spawn(move || work(&stop)));
    }

    /// A producer that answers every Interest below `prefix`, each with a Data named by `rename`.
    fn produce(&mut self, daemon: &Daemon, prefix: &str, rename: fn(Name) -> Name) {
        let mut client = daemon.connect();
        client.register(prefix);
        self.start(move |stop| {
            while !stop.load(Ordering::Relaxed) {
                let Some(packet) = client.receive(Duration::from_millis(50)) else { continue };
                let name = rename(packet.interest().name.to_name());
                let data = sign_data(&DataBuilder::new(name.as_name()), b"x", &Signer::digest_sha256());
                let headers = LpHeaders { pit_token: packet.headers.pit_token, ..LpHeaders::default() };
                client.send(&encode_lp_packet(&headers, &data.expect("a digest")));
            }
        });
    }

    /// A producer that reads its Interests and answers none.
    fn swallow(&mut self, daemon: &Daemon, prefix: &str) {
        let mut client = daemon.connect();
        client.register(prefix);
        self.start(move |stop| {
            while !stop.load(Ordering::Relaxed) {
                client.receive(Duration::from_millis(50));
            }
        });
    }

    /// Interests for distinct names below `prefix`, as fast as the router reads them. The answers
    /// are not read.
    fn flood(&mut self, daemon: &Daemon, prefix: &str) -> Arc<AtomicU64> {
        let mut stream = UnixStream::connect(daemon.socket()).expect("the router's socket");
        stream.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let base = name(prefix);
        let sent = Arc::new(AtomicU64::new(0));
        let count = sent.clone();
        self.start(move |stop| {
            let mut burst = Vec::new();
            for number in 0u64.. {
                let name = base.join_generic(number.to_be_bytes());
                let nonce = (number as u32).to_be_bytes();
                burst.extend(InterestBuilder::new(name).nonce(nonce).lifetime_ms(60_000).build());
                if number % 64 == 63 {
                    if stop.load(Ordering::Relaxed) || stream.write_all(&burst).is_err() {
                        return;
                    }
                    burst.clear();
                    count.fetch_add(64, Ordering::Relaxed);
                }
            }
        });
        sent
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that failed has printed its panic.
            let _ = thread.join();
        }
    }
}

/// Round trips of `count` pings; each must be answered.
fn ping(client: &mut Client, prefix: &str, count: u32) -> Vec<Duration> {
    let base = name(prefix);
    let mut trips: Vec<Duration> = (0..count)
        .map(|_| {
            let nonce = client.next_nonce();
            let interest = InterestBuilder::new(base.join_generic(nonce)).nonce(nonce).build();
            let start = Instant::now();
            let answer = client.express(&interest, PATIENCE).expect("a ping is answered");
            answer.expect("no Nack");
            start.elapsed()
        })
        .collect();
    trips.sort();
    trips
}

fn p99(sorted: &[Duration]) -> Duration {
    sorted[(sorted.len() * 99).div_ceil(100) - 1]
}

#[test]
fn an_interest_flood_spares_other_faces() {
    let daemon = Daemon::start();
    let mut running = Running::new();
    running.produce(&daemon, "/ping", |name| name);
    running.swallow(&daemon, "/hole");
    let mut pinger = daemon.connect();
    let quiet = p99(&ping(&mut pinger, "/ping", 300));
    let rest = resident(&daemon);
    let sent = running.flood(&daemon, "/hole");
    namely_testkit::until("the flood runs", || (sent.load(Ordering::Relaxed) > 1000).then_some(()));
    let (start, before) = (Instant::now(), sent.load(Ordering::Relaxed));
    let mut trips = Vec::new();
    while start.elapsed() < Duration::from_secs(3) {
        trips.extend(ping(&mut pinger, "/ping", 50));
        let grown = resident(&daemon).saturating_sub(rest);
        assert!(grown < FLOOD_OCTETS_MAX, "{grown} octets more than at rest");
    }
    let rate = (sent.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
    trips.sort();
    println!("{rate:.0} Interests/s; p99 {:?}, quiet {quiet:?}, {} pings", p99(&trips), trips.len());
    assert!(rate > 1000.0, "the flood is one: {rate}/s");
    // The test measures time, because it is about prompt answers. Four threads of the test share
    // the machine with the router, so the bound tolerates their delays.
    let bound = 5 * quiet.max(Duration::from_millis(20));
    assert!(p99(&trips) < bound, "p99 {:?}, without the flood {quiet:?}", p99(&trips));
    // Interests beyond the flooder's share of the PIT were refused, and packets that it did not
    // read were dropped.
    let mut client = daemon.connect();
    let (full, queue) =
        (counter(&mut client, "forwarder.pit_face_full"), counter(&mut client, "link.queue_full"));
    println!("pit_face_full {full}, queue_full {queue}");
}

#[test]
fn wrongly_named_data_satisfies_nothing() {
    let daemon = Daemon::start();
    let mut running = Running::new();
    // Another name of the same length, and the token that belongs to the Interest.
    running
        .produce(&daemon, "/wrong", |name| name.as_name().without_last(1).to_name().join_generic("notasked"));
    running.produce(&daemon, "/ping", |name| name);
    let (mut consumer, mut pinger) = (daemon.connect(), daemon.connect());
    let rest = resident(&daemon);
    for number in 0..2000u64 {
        let name = name("/wrong").join_generic(number.to_be_bytes());
        let nonce = consumer.next_nonce();
        consumer.send(&InterestBuilder::new(name).nonce(nonce).lifetime_ms(60_000).build());
    }
    let mut watcher = daemon.connect();
    namely_testkit::until("the wrong answers are counted", || {
        (counter(&mut watcher, "forwarder.unsolicited") >= 2000).then_some(())
    });
    assert!(consumer.receive(Duration::from_millis(100)).is_none(), "nothing answers");
    ping(&mut pinger, "/ping", 20);
    assert!(resident(&daemon).saturating_sub(rest) < 64 << 20);
}

#[test]
fn lookalike_names_cost_no_extra_time() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    // The Interests are refused for lack of a route: each name is hashed, looked up in every table
    // and forgotten. The lookalike names have many equal components. They differ in one octet of
    // one component, and hardly in sums, exclusive ors and polynomials of their octets.
    let mut round = |alike: bool| {
        let start = Instant::now();
        for number in 0..4000u32 {
            let [a, b, c, d] = if alike { number } else { number.wrapping_mul(0x9e37_79b9) }.to_be_bytes();
            let pair = |octet: u8| [octet, octet.wrapping_neg(), octet, octet.wrapping_neg()];
            let name = [a, b, c, d].iter().fold(name("/alike"), |name, octet| {
                if alike { name.join_generic(pair(*octet)) } else { name.join_generic([*octet; 4]) }
            });
            let nonce = client.next_nonce();
            let answer = client.express(&InterestBuilder::new(name).nonce(nonce).build(), PATIENCE);
            assert!(answer.expect("an answer").is_err(), "a Nack");
        }
        start.elapsed()
    };
    round(false);
    let (others, alike) = (round(false), round(true));
    println!("others {others:?}, alike {alike:?}");
    assert!(alike < 3 * others.max(Duration::from_millis(200)), "{alike:?} instead of {others:?}");
}

#[test]
fn a_thousand_idle_faces_cost_nothing() {
    let daemon = Daemon::start();
    let mut client = daemon.connect();
    let idle: Vec<UnixStream> = (0..1000)
        .map(|_| UnixStream::connect(daemon.socket()).expect("a socket; `ulimit -n` above 1100"))
        .collect();
    namely_testkit::until("every connection has its face", || {
        (client.faces().len() >= idle.len()).then_some(())
    });
    // The last requests expire. Only a wait shows that nothing happens.
    thread::sleep(Duration::from_secs(1));
    let before = wakes_and_ticks(&daemon);
    thread::sleep(Duration::from_secs(2));
    let after = wakes_and_ticks(&daemon);
    let (wakes, ticks) = (after.0 - before.0, after.1 - before.1);
    // The control thread runs its own timers once a second.
    assert!(wakes <= 8, "{wakes} wake-ups in 2 s");
    // The kernel charges a tick of 10 ms to the running thread. A router that served all thousand
    // faces at each wake-up would be charged with many of the 200 ticks.
    assert!(ticks <= wakes.max(2), "{ticks} clock ticks in 2 s");
}

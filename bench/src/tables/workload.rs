//! Workloads of the core, and their timed part.

use std::sync::{Arc, Barrier};
use std::time::Instant;

use namely_forwarder::{
    Batch, Config, CsChange, FaceId, FaceProperties, Forwarder, Outgoing, Output, Received,
};
use namely_host::clock::thread_cpu_ns;
use namely_wire::{LpHeaders, Name};

use super::case::{Case, Kind};
use super::packets::{Names, Ring, Template};
use crate::error::Error;
use crate::metric::Metric;
use namely_testbed::procfs;

/// All samples of one scenario.
pub type Samples = Vec<(Metric, Vec<f64>)>;

/// Longer than any run: no Interest expires before its Data arrives.
const LIFETIME_MS: u64 = 600_000;

/// Numbers of a worker's packets begin at its index times this value, so that no two workers share
/// a name.
const WORKER_NUMBERS: u64 = 1 << 40;

type Packet = Arc<[u8]>;
type Core = Forwarder<Packet, namely_host::CoreLock>;

/// A forwarder with routes, and the state that workers need to use it.
pub struct Bench {
    core: Core,
    names: Names,
    case: Case,
    upstream: FaceId,
}

impl Bench {
    /// Creates a forwarder without routes.
    pub fn new(case: &Case) -> Result<Self, Error> {
        let mut config = Config::new(|_| [0; 32]);
        let room = case.cached.max(1);
        config.pit.entries_max = (case.pending * case.workers * 2).max(config.pit.entries_max);
        config.pit.entries_per_face_max = config.pit.entries_max;
        config.pit.entries_per_holder_max = config.pit.entries_max;
        config.cs_admit = case.cached > 0;
        config.cs_serve = case.cached > 0;
        config.cs.packets_max = case.cached;
        config.cs.entries_max = room * (case.components + 1);
        config.cs.octets_max = u64::MAX >> 1;
        config.fib.entries_max = (case.routes as usize + 1).max(config.fib.entries_max);
        let names = Names { routes: case.routes, components: case.components };
        let core = Core::new(config, 1).map_err(|e| Error::Usage(e.to_string()))?;
        let upstream =
            core.face_register(FaceProperties::remote()).map_err(|e| Error::Usage(e.to_string()))?;
        Ok(Bench { core, names, case: *case, upstream })
    }

    /// Adds all routes.
    pub fn add_routes(&self) -> Result<(), Error> {
        for route in 0..self.case.routes {
            let name = self.names.route(route);
            let added = self.core.fib().add_nexthop(name.as_name(), self.upstream, 10);
            added.map_err(|e| Error::Subject(format!("route {route}: {e}")))?;
        }
        Ok(())
    }

    /// Creates a worker with a downstream face and buffers of its own.
    pub fn worker(&self, index: u64) -> Result<Worker<'_>, Error> {
        let spec = FaceProperties { local_fields: true, ..FaceProperties::application() };
        let downstream = self.core.face_register(spec).map_err(|e| Error::Usage(e.to_string()))?;
        let held = self.case.pending + 2 * self.case.batch;
        Ok(Worker {
            bench: self,
            downstream,
            interests: Ring::new(Template::interest(self.names, LIFETIME_MS), held),
            data: Ring::new(Template::data(self.names), self.case.cached + 2 * self.case.batch),
            batch: Batch::with_room(self.case.batch).expect("memory for a batch"),
            sink: Sink { upstream: self.upstream, interests: 0, data: 0 },
            requested: index * WORKER_NUMBERS,
            answered: index * WORKER_NUMBERS,
            nonce: index * WORKER_NUMBERS,
            now_ns: 1_000_000_000,
            timed_ns: 0,
            cpu_ns: 0,
            pace: Pace::Clock,
        })
    }
}

/// Source of the core's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The time spent in the core.
    Clock,
    /// A fixed number of nanoseconds per packet: the same work in each run, on any machine.
    Fixed(u64),
}

/// Counts the packets that the core sends.
struct Sink {
    upstream: FaceId,
    interests: u64,
    data: u64,
}

impl Output<Packet> for Sink {
    type Tier = ();
    type Tracer = ();

    fn send(&mut self, face: FaceId, _packet: Outgoing<Packet>) {
        let sent = if face == self.upstream { &mut self.interests } else { &mut self.data };
        *sent += 1;
    }
}

/// One thread's faces, buffers and position in the sequence of names.
pub struct Worker<'a> {
    bench: &'a Bench,
    downstream: FaceId,
    interests: Ring,
    data: Ring,
    batch: Batch<Packet>,
    sink: Sink,
    requested: u64,
    answered: u64,
    nonce: u64,
    now_ns: u64,
    timed_ns: u64,
    cpu_ns: u64,
    pace: Pace,
}

impl Worker<'_> {
    /// Sets the source of the core's clock from now on.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Sends `count` Interests that are not answered yet.
    pub fn request(&mut self, count: u64) {
        let end = self.requested + count;
        while self.requested < end {
            for _ in 0..(end - self.requested).min(self.bench.case.batch as u64) {
                let packet = self.interest(self.requested);
                self.push(self.downstream, Received::bare(packet));
                self.requested += 1;
            }
            self.turn();
        }
    }

    /// Answers the `count` oldest pending Interests.
    pub fn answer(&mut self, count: u64) {
        let end = self.answered + count;
        while self.answered < end {
            for _ in 0..(end - self.answered).min(self.bench.case.batch as u64) {
                let packet = self.data.packet(self.answered, 0);
                self.push(self.bench.upstream, Received::bare(packet));
                self.answered += 1;
            }
            self.turn();
        }
    }

    /// Does `count` exchanges: Interests with new names, and Data for as many of the oldest pending
    /// ones.
    pub fn exchange(&mut self, count: u64) {
        let mut left = count;
        while left > 0 {
            let turn = left.min(self.bench.case.batch as u64);
            self.request(turn);
            self.answer(turn);
            left -= turn;
        }
    }

    /// Sends Interests again for `count` names among the first `cached` ones.
    pub fn request_cached(&mut self, count: u64, cached: u64) {
        let batch = self.bench.case.batch;
        for start in (0..count).step_by(batch) {
            for _ in start..count.min(start + batch as u64) {
                // The step is coprime to nearly every size. So the names are in an order from which
                // caches cannot profit.
                let packet = self.interest(self.nonce.wrapping_mul(0x9e37_79b9_7f4a_7c15) % cached);
                self.push(self.downstream, Received::bare(packet));
            }
            self.turn();
        }
    }

    /// Sends Interests for `count` new names whose next hop is a face that does not exist. Their
    /// processing ends right after the content store.
    pub fn request_uncached(&mut self, count: u64) {
        let headers = LpHeaders { next_hop_face_id: Some(u64::from(u32::MAX)), ..LpHeaders::default() };
        let batch = self.bench.case.batch;
        for start in (0..count).step_by(batch) {
            for _ in start..count.min(start + batch as u64) {
                let packet = self.interest(self.requested);
                self.requested += 1;
                self.push(self.downstream, Received { packet, headers });
            }
            self.turn();
        }
    }

    fn interest(&mut self, number: u64) -> Packet {
        self.nonce += 1;
        self.interests.packet(number, self.nonce)
    }

    fn push(&mut self, face: FaceId, received: Received<Packet>) {
        assert!(self.batch.push(face, received).is_ok(), "no more than a batch holds");
    }

    /// Passes the batch to the core, as one iteration of a worker does. Only this is timed.
    fn turn(&mut self) {
        let elapsed_ns = match self.pace {
            // The clock is not read here: this runs under valgrind, which maps no clock.
            Pace::Fixed(ns) => {
                let packets = self.batch.len() as u64;
                self.receive_batch();
                ns * packets
            }
            Pace::Clock => {
                let (cpu_before_ns, started) = (thread_cpu_ns(), Instant::now());
                self.receive_batch();
                let elapsed_ns = started.elapsed().as_nanos() as u64;
                self.cpu_ns += thread_cpu_ns() - cpu_before_ns;
                elapsed_ns
            }
        };
        self.timed_ns += elapsed_ns;
        self.now_ns += elapsed_ns;
    }

    fn receive_batch(&mut self) {
        self.bench.core.receive_batch(&mut self.batch, self.now_ns, &mut self.sink);
        self.bench.core.expire(self.now_ns, &mut self.sink);
    }

    /// Returns an error unless the core sent exactly `interests` and `data` since the last call.
    pub fn expect_sent(&mut self, interests: u64, data: u64) -> Result<(), Error> {
        let sent = (std::mem::take(&mut self.sink.interests), std::mem::take(&mut self.sink.data));
        if sent == (interests, data) {
            return Ok(());
        }
        let counters = self.bench.core.counters();
        let message =
            format!("{sent:?} Interests and Data went out, not {:?}: {counters:?}", (interests, data));
        Err(Error::Subject(message))
    }

    /// Repeats `work`, in steps of a batch, until the core was busy for `ns`.
    fn run(&mut self, ns: u64, mut work: impl FnMut(&mut Self, u64)) -> WorkResult {
        let batch = self.bench.case.batch as u64;
        let (start_ns, cpu_start_ns, mut count) = (self.timed_ns, self.cpu_ns, 0);
        while self.timed_ns - start_ns < ns {
            work(self, batch);
            count += batch;
        }
        WorkResult { count, ns: self.timed_ns - start_ns, cpu_ns: self.cpu_ns - cpu_start_ns }
    }
}

/// Result of one run of a worker.
#[derive(Clone, Copy, Debug)]
struct WorkResult {
    count: u64,
    /// Wall time in the core.
    ns: u64,
    /// CPU time in the core: the cost of the work, even if other programs had the processor in
    /// between.
    cpu_ns: u64,
}

/// Measures a scenario `runs` times.
pub(super) fn measure(case: &Case, runs: u32) -> Result<Samples, Error> {
    let bench = Bench::new(case)?;
    match case.kind {
        Kind::Routes => routes(&bench),
        Kind::Strategy(name) => {
            bench.add_routes()?;
            remembered(&bench, name, runs)
        }
        Kind::Exchange | Kind::Pending => {
            bench.add_routes()?;
            exchanges(&bench, runs)
        }
        Kind::CsHit | Kind::CsMiss => {
            bench.add_routes()?;
            cached(&bench, runs)
        }
        Kind::CsHalf => {
            bench.add_routes()?;
            half_cached(&bench, runs)
        }
    }
}

fn routes(bench: &Bench) -> Result<Samples, Error> {
    let (before, started) = (resident_octets()?, Instant::now());
    bench.add_routes()?;
    let (routes, took_ns) = (bench.case.routes as f64, started.elapsed().as_nanos() as f64);
    let octets = resident_octets()?.saturating_sub(before);
    Ok(vec![
        (Metric::NsPerInsert, vec![took_ns / routes]),
        (Metric::BytesPerEntry, vec![octets as f64 / routes]),
    ])
}

fn exchanges(bench: &Bench, runs: u32) -> Result<Samples, Error> {
    let pending = bench.case.pending as u64;
    let mut workers =
        (0..bench.case.workers as u64).map(|i| bench.worker(i)).collect::<Result<Vec<_>, _>>()?;
    let before = resident_octets()?;
    workers.iter_mut().for_each(|worker| worker.request(pending));
    let octets = resident_octets()?.saturating_sub(before) as f64;
    for worker in &mut workers {
        worker.exchange(bench.case.warm_up);
        worker.expect_sent(pending + bench.case.warm_up, bench.case.warm_up)?;
    }
    let (mut rates, mut times) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let done = together(&mut workers)?;
        rates.push(done.iter().map(|done| done.count as f64 * 1e9 / done.ns as f64).sum());
        let (count, cpu_ns) = done.iter().fold((0, 0), |sum, done| (sum.0 + done.count, sum.1 + done.cpu_ns));
        times.push(cpu_ns as f64 / count as f64);
    }
    let mut samples = vec![(Metric::Exchanges, rates), (Metric::NsPerExchange, times)];
    if bench.case.kind == Kind::Pending {
        samples.push((Metric::BytesPerEntry, vec![octets / pending as f64]));
    }
    Ok(samples)
}

/// Measures exchanges under a strategy. Before that, it makes enough exchanges that the strategy
/// has state for nearly all prefixes.
fn remembered(bench: &Bench, strategy: &str, runs: u32) -> Result<Samples, Error> {
    let strategy = Name::new().join_generic(strategy);
    let chosen = bench.core.strategies().set(Name::new().as_name(), strategy.as_name());
    chosen.map_err(|e| Error::Usage(e.to_string()))?;
    let mut worker = bench.worker(0)?;
    let before = resident_octets()?;
    worker.exchange(4 * bench.case.routes);
    let octets = resident_octets()?.saturating_sub(before) as f64;
    let prefixes = bench.core.table_sizes().strategy_prefixes.max(1) as f64;
    let mut times = Vec::new();
    for _ in 0..runs {
        let done = worker.run(bench.case.run_ns, Worker::exchange);
        times.push(done.cpu_ns as f64 / done.count as f64);
    }
    Ok(vec![(Metric::NsPerExchange, times), (Metric::BytesPerEntry, vec![octets / prefixes])])
}

/// Runs all workers once, at the same time.
fn together(workers: &mut [Worker<'_>]) -> Result<Vec<WorkResult>, Error> {
    let barrier = Barrier::new(workers.len());
    let barrier = &barrier;
    let ended = || Error::Subject("a worker panicked".to_owned());
    let results: Vec<Result<WorkResult, Error>> = std::thread::scope(|scope| {
        let start = |worker| scope.spawn(move || one_run(worker, barrier));
        let threads: Vec<_> = workers.iter_mut().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(ended()))).collect()
    });
    results.into_iter().collect()
}

fn one_run(worker: &mut Worker<'_>, barrier: &Barrier) -> Result<WorkResult, Error> {
    barrier.wait();
    let done = worker.run(worker.bench.case.run_ns, Worker::exchange);
    worker.expect_sent(done.count, done.count).map(|()| done)
}

fn cached(bench: &Bench, runs: u32) -> Result<Samples, Error> {
    let room = bench.case.cached as u64;
    let mut worker = bench.worker(0)?;
    let before = resident_octets()?;
    worker.exchange(room);
    let octets = resident_octets()?.saturating_sub(before) as f64;
    worker.expect_sent(room, room)?;
    let is_hit = bench.case.kind == Kind::CsHit;
    let mut times = Vec::new();
    for _ in 0..runs {
        let WorkResult { count, cpu_ns, .. } = worker.run(bench.case.run_ns, |worker, count| {
            if is_hit { worker.request_cached(count, room) } else { worker.request_uncached(count) }
        });
        worker.expect_sent(0, if is_hit { count } else { 0 })?;
        times.push(cpu_ns as f64 / count as f64);
    }
    let mut samples = vec![(Metric::NsPerLookup, times)];
    if is_hit {
        samples.push((Metric::BytesPerEntry, vec![octets / room as f64]));
    }
    Ok(samples)
}

/// Measures Interests of which the content store answers every other. It does not cache the Data of
/// the rest, so the share stays constant.
fn half_cached(bench: &Bench, runs: u32) -> Result<Samples, Error> {
    let room = bench.case.cached as u64;
    let mut worker = bench.worker(0)?;
    worker.exchange(room);
    worker.expect_sent(room, room)?;
    bench.core.cs().configure(&CsChange { admit: Some(false), ..CsChange::default() });
    let (mut rates, mut times) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let WorkResult { count, ns, cpu_ns } = worker.run(bench.case.run_ns, |worker, count| {
            worker.request_cached(count / 2, room);
            worker.exchange(count - count / 2);
        });
        worker.expect_sent(count / 2, count)?;
        rates.push(count as f64 * 1e9 / ns as f64);
        times.push(cpu_ns as f64 / count as f64);
    }
    Ok(vec![(Metric::Exchanges, rates), (Metric::NsPerExchange, times)])
}

fn resident_octets() -> Result<u64, Error> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|e| Error::environment("cannot read /proc/self/status", e))?;
    let kib = procfs::resident_kib(&status).ok_or_else(|| Error::Subject("no VmRSS".to_owned()))?;
    Ok(kib * 1024)
}

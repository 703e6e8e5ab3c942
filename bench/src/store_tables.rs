//! `store-tables`: the disk tier's I/O engines and queueing orders, in tables of one run on one
//! folder: threads beside io_uring, and the orders of reads and writes.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use namely_security::{Signer, sign_data};
use namely_tier::{
    Bypass, EngineKind, Fairness, LookupResult, Options, ReadId, Slowness, THREADS_MAX, Tier, WriteOutcome,
};
use namely_wire::DataBuilder;
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::machine::{Machine, cpu_time};
use crate::options::OnDisk;
use crate::output;
use crate::store::{fill, name, refused};

/// Room for Data that is written while the orders are measured.
const WRITTEN_MAX: u64 = 16 << 30;

/// The first segment that is written during reads. From this number on all names have the same
/// length.
const FIRST_WRITTEN: u64 = 1 << 32;

/// Maximum time until the first read, and the first write.
const BEGIN_LIMIT: Duration = Duration::from_secs(10);

/// Tables of the disk tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Table {
    /// io_uring, and 1 to 32 threads: reads with `--depth` requests pending
    Threads,
    /// First in first out, Data first, weighted: the same reads while Data is written
    Queue,
}

/// Options of `store-tables`.
#[derive(Debug, Args)]
pub struct StoreTables {
    /// Folder and records.
    #[command(flatten)]
    pub disk: OnDisk,
    /// Which
    #[arg(long, value_enum, value_delimiter = ',', default_value = "threads,queue")]
    pub table: Vec<Table>,
    /// Records that are read
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub records: u64,
    /// Reads that pend
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub depth: usize,
    /// Threads that serve the disk in the table of orders
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX as i64))]
    pub threads: u16,
    /// Duration of each row, ms
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    pub time: u64,
    /// Limits the disk to this number of requests a second; 0: no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub slow: u32,
}

/// Measures with `options` and prints the results.
pub fn run(options: &StoreTables) -> Result<(), Error> {
    let dir = options.disk.folder()?;
    let folder = dir.path().join("cs");
    if !options.disk.json {
        output::line(Machine::read());
    }
    let tier = open(&folder, options, EngineKind::Auto)?;
    fill(&tier, options.records, options.disk.octets)?;
    tier.close().map_err(refused)?;
    for table in &options.table {
        let rows = match table {
            Table::Threads => threads(&folder, options)?,
            Table::Queue => orders(&folder, options)?,
        };
        print(&rows, options.disk.json);
    }
    Ok(())
}

/// A row: a title for each value.
type Row = Vec<(&'static str, Value)>;

fn threads(folder: &Path, options: &StoreTables) -> Result<Vec<Row>, Error> {
    let pools = [1, 2, 4, 8, 16, 32].map(EngineKind::Threads);
    let engines = [EngineKind::Auto].into_iter().chain(pools);
    let row = |engine| {
        let tier = open(folder, options, engine)?;
        let engine = match engine {
            EngineKind::Threads(threads) => format!("{threads} threads"),
            _ => tier.status().engine.to_owned(),
        };
        let load = reads(&tier, options)?;
        tier.close().map_err(refused)?;
        Ok([("engine", json!(engine))].into_iter().chain(load.row()).collect())
    };
    engines.map(row).collect()
}

fn orders(folder: &Path, options: &StoreTables) -> Result<Vec<Row>, Error> {
    let orders = [
        ("fifo", Fairness::Fifo),
        ("data-first", Fairness::DataFirst),
        ("weighted 4:1", Fairness::Weighted { reads: 4, writes: 1 }),
    ];
    let first = name(FIRST_WRITTEN);
    let content = vec![9; options.disk.octets];
    let signed = sign_data(&DataBuilder::new(first.as_name()), &content, &Signer::digest_sha256());
    let mut packet = signed.map_err(|error| Error::Usage(error.to_string()))?;
    let mut next = FIRST_WRITTEN;
    let mut row = |(title, fairness)| {
        let tier = open(folder, options, EngineKind::Threads(options.threads.into()))?;
        tier.set_fairness(fairness);
        let is_over = AtomicBool::new(false);
        let begun = Instant::now();
        let load = std::thread::scope(|scope| {
            scope.spawn(|| write(&tier, &mut packet, &mut next, &is_over));
            let load = reads(&tier, options);
            // On a busy machine the writer may not have started yet.
            while tier.status().counters.written == 0 && begun.elapsed() < BEGIN_LIMIT {
                std::thread::sleep(Duration::from_millis(1));
            }
            is_over.store(true, Ordering::Relaxed);
            load
        })?;
        let status = tier.status();
        let mib_s =
            status.counters.written_octets as f64 / f64::from(1 << 20) / begun.elapsed().as_secs_f64();
        let written = [("written MiB/s", json!(mib_s)), ("no room", json!(status.counters.no_room))];
        tier.close().map_err(refused)?;
        Ok([("order", json!(title))].into_iter().chain(load.row()).chain(written).collect())
    };
    orders.into_iter().map(&mut row).collect()
}

/// Writes `packet` under successive names until `is_over`. No reader requests it, so its signature
/// need not match the name.
fn write(tier: &Tier, packet: &mut [u8], next: &mut u64, is_over: &AtomicBool) {
    let mut name = name(*next);
    let octets = name.as_name().as_bytes();
    // The packet has the name of the previous call, or the first name. It differs from this name
    // only in the number.
    let before = octets.len() - size_of::<u64>();
    let at = packet.windows(before).position(|part| *part == octets[..before]);
    let Some(at) = at else { return };
    while !is_over.load(Ordering::Relaxed) {
        let octets = name.as_name().as_bytes();
        packet[at..at + octets.len()].copy_from_slice(octets);
        match tier.write(name.as_name(), packet, 0) {
            WriteOutcome::Busy => std::thread::sleep(Duration::from_micros(100)),
            WriteOutcome::Accepted | WriteOutcome::Duplicate => {
                *next += 1;
                name = crate::store::name(*next);
            }
        }
    }
}

fn open(folder: &Path, options: &StoreTables, engine: EngineKind) -> Result<Tier, Error> {
    let octets = options.records * (options.disk.octets as u64 + 512).max(1100) * 5 / 4;
    let mut tier = Options::new(octets + WRITTEN_MAX);
    (tier.read_ahead, tier.pending_threshold, tier.engine) = (false, usize::MAX, engine);
    tier.slowness = Slowness { requests_per_s: options.slow, ..Slowness::default() };
    Tier::open(folder, &tier).map_err(refused)
}

/// Results of reads.
struct Load {
    reads_s: f64,
    cpu_us: f64,
    /// Sorted.
    latencies_us: Vec<f64>,
}

impl Load {
    fn row(&self) -> Row {
        let quantile = |part: f64| {
            let last = self.latencies_us.len().saturating_sub(1);
            self.latencies_us.get((last as f64 * part) as usize).copied().unwrap_or_default()
        };
        vec![
            ("reads/s", json!(self.reads_s)),
            ("p50 us", json!(quantile(0.5))),
            ("p99 us", json!(quantile(0.99))),
            ("CPU us/read", json!(self.cpu_us)),
        ]
    }
}

/// Runs random reads, with the configured number outstanding.
fn reads(tier: &Tier, options: &StoreTables) -> Result<Load, Error> {
    let mut caller = tier.caller().map_err(refused)?;
    let mut begun_at = vec![Instant::now(); options.depth.max(1)];
    let mut free: Vec<usize> = (0..begun_at.len()).collect();
    let (mut latencies_us, mut random) = (Vec::new(), 1_u64);
    let (cpu, begun, time) = (cpu_time(), Instant::now(), Duration::from_millis(options.time));
    while begun.elapsed() < time || (latencies_us.is_empty() && begun.elapsed() < BEGIN_LIMIT) {
        while let Some(slot) = free.pop() {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let name = name((random >> 33) % options.records);
            begun_at[slot] = Instant::now();
            if caller.read(ReadId(slot as u64), name.as_name(), None, Bypass::Impossible)
                != LookupResult::Reading
            {
                free.push(slot);
                break;
            }
        }
        let mut polled = [rustix::event::PollFd::new(&caller, rustix::event::PollFlags::IN)];
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        rustix::event::poll(&mut polled, Some(&wait)).map_err(|e| Error::environment("cannot wait", e))?;
        while let Some(completion) = caller.completed() {
            let slot = completion.id.0 as usize;
            free.push(slot);
            if completion.outcome.found().is_some() {
                latencies_us.push(begun_at[slot].elapsed().as_secs_f64() * 1e6);
            }
        }
    }
    let (reads, took) = (latencies_us.len() as f64, begun.elapsed());
    if latencies_us.is_empty() {
        return Err(Error::Subject("nothing was read".into()));
    }
    latencies_us.sort_by(f64::total_cmp);
    let cpu_us = (cpu_time() - cpu).as_secs_f64() * 1e6 / reads;
    Ok(Load { reads_s: reads / took.as_secs_f64(), cpu_us, latencies_us })
}

fn print(rows: &[Row], is_json: bool) {
    if is_json {
        for row in rows {
            let object: Map<_, _> =
                row.iter().map(|(title, value)| ((*title).into(), value.clone())).collect();
            output::line(Value::Object(object));
        }
        return;
    }
    let cell = |value: &Value| match value {
        Value::Number(number) if number.is_f64() => format!("{:.1}", number.as_f64().unwrap_or_default()),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut text = String::new();
    let titles = rows.first().map(|row| row.iter().map(|(title, _)| (*title).to_owned()).collect());
    let cells = rows.iter().map(|row| row.iter().map(|(_, value)| cell(value)).collect::<Vec<_>>());
    for row in titles.into_iter().chain(cells) {
        let line = row.iter().fold(String::new(), |line, cell| line + &format!("{cell:>14}"));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line}");
    }
    output::line(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(dir: &Path) -> StoreTables {
        StoreTables {
            disk: OnDisk { dir: dir.to_owned(), octets: 1000, json: true },
            table: Vec::new(),
            records: 300,
            depth: 16,
            threads: 2,
            time: 50,
            slow: 0,
        }
    }

    fn titles(row: &Row) -> Vec<&'static str> {
        row.iter().map(|(title, _)| *title).collect()
    }

    #[test]
    fn store_tables_cover_threads_and_orders() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, options) = (dir.path().join("cs"), options(dir.path()));
        let tier = open(&folder, &options, EngineKind::Auto).unwrap();
        fill(&tier, options.records, options.disk.octets).unwrap();
        tier.close().unwrap();
        let rows = threads(&folder, &options).unwrap();
        assert_eq!(rows.len(), 7);
        assert_eq!(rows[6][0].1, json!("32 threads"));
        assert_eq!(titles(&rows[0]), ["engine", "reads/s", "p50 us", "p99 us", "CPU us/read"]);
        assert!(rows.iter().all(|row| row[1].1.as_f64().unwrap() > 0.0), "{rows:?}");
        let rows = orders(&folder, &options).unwrap();
        let orders: Vec<_> = rows.iter().map(|row| row[0].1.clone()).collect();
        assert_eq!(orders, [json!("fifo"), json!("data-first"), json!("weighted 4:1")]);
        assert!(rows.iter().all(|row| row[5].1.as_f64().unwrap() > 0.0), "something is written: {rows:?}");
        print(&rows, true);
        print(&rows, false);
    }
}

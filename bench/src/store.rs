//! `store` measures the content store's disk tier alone: random reads, the memory of a record, the
//! time to open, and the time of a lookup without a match. For comparison, fio reads the same files
//! in the same run.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use clap::Args;
use namely_security::{Signer, sign_data};
use namely_tier::{
    Bypass, EngineKind, FilterKind, LookupResult, Options, ReadId, Status, Tier, WriteOutcome,
};
use namely_wire::{DataBuilder, Name};
use serde_json::{Value, json};

use crate::error::Error;
use crate::machine::{Machine, cpu_time};
use crate::options::OnDisk;
use crate::output;

/// Outstanding requests of the tier and of fio.
const DEPTH: usize = 64;

/// Options of `store`.
#[derive(Debug, Args)]
pub struct Store {
    /// Folder and records.
    #[command(flatten)]
    pub disk: OnDisk,
    /// Records
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub records: u64,
    /// Duration of the reads, seconds
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub seconds: u64,
    /// Number of threads that replace io_uring
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Replace the cuckoo filter with a counting Bloom filter
    #[arg(long)]
    pub bloom: bool,
}

/// Measures with `options` and prints the results.
pub fn run(options: &Store) -> Result<(), Error> {
    let dir = options.disk.folder()?;
    let folder = dir.path().join("cs");
    let mut figures = vec![("machine", json!(Machine::read().to_string()))];
    let tier = open(&folder, options)?;
    figures.push(("engine", json!(tier.status().engine)));
    figures.push(("write_mib_s", json!(fill(&tier, options.records, options.disk.octets)?)));
    let absent_ns = lookup_ns(&tier, options)?;
    let status = tier.status();
    figures.push(("absent_look_ns", json!(absent_ns)));
    figures.push(("false_positives_percent", json!(false_positives(&status))));
    figures.push(("index_octets_a_record", json!(status.index_octets as f64 / status.records as f64)));
    figures.push(("records", json!(status.records)));
    let (reads, cpu_us) = random_reads(&tier, options)?;
    figures.push(("reads_s", json!(reads)));
    figures.push(("cpu_us_a_read", json!(cpu_us)));
    tier.close().map_err(refused)?;
    let begun = Instant::now();
    let tier = open(&folder, options)?;
    figures.push(("open_clean_s", json!(begun.elapsed().as_secs_f64())));
    tier.close().map_err(refused)?;
    let fio = fio(&folder, options);
    figures.push(("fio_reads_s", fio.map_or(Value::Null, |(fio, _)| json!(fio))));
    figures.push(("fio_cpu_us_a_read", fio.map_or(Value::Null, |(_, cpu_us)| json!(cpu_us))));
    figures.push(("reads_of_fio", fio.map_or(Value::Null, |(fio, _)| json!(reads / fio))));
    // After SIGKILL, only segments that are not full lack an index. This case is worse: every
    // segment lacks one.
    remove_indexes(&folder)?;
    let begun = Instant::now();
    drop(open(&folder, options)?);
    figures.push(("open_without_indexes_s", json!(begun.elapsed().as_secs_f64())));
    print(&figures, options.disk.json);
    Ok(())
}

fn print(figures: &[(&str, Value)], is_json: bool) {
    if is_json {
        let object: serde_json::Map<_, _> = figures.iter().map(|(k, v)| ((*k).into(), v.clone())).collect();
        output::line(Value::Object(object));
        return;
    }
    let mut text = String::new();
    for (name, value) in figures {
        let value = match value {
            Value::Number(number) if number.is_f64() => format!("{:.2}", number.as_f64().unwrap_or_default()),
            Value::String(text) => text.clone(),
            Value::Null => "- (fio is not installed)".into(),
            other => other.to_string(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:26} {value}", name.replace('_', " "));
    }
    output::lines(text);
}

fn open(folder: &Path, options: &Store) -> Result<Tier, Error> {
    // Room for all records, including any overhead of the index.
    let octets = (options.records * (options.disk.octets as u64 + 512)).max(options.records * 1100) * 5 / 4;
    let mut tier = Options::new(octets.max(1 << 28));
    tier.read_ahead = false;
    tier.pending_threshold = usize::MAX;
    tier.engine = options.threads.map_or(EngineKind::Auto, EngineKind::Threads);
    tier.filter = if options.bloom { FilterKind::CountingBloom } else { FilterKind::Cuckoo };
    Tier::open(folder, &tier).map_err(refused)
}

pub(crate) fn refused(error: namely_tier::TierError) -> Error {
    Error::Subject(error.to_string())
}

pub(crate) fn name(number: u64) -> Name {
    static BASE: OnceLock<Name> = OnceLock::new();
    let base = BASE.get_or_init(|| "/bench/store/object/v=1".parse().unwrap_or_default());
    base.join_segment(number)
}

/// Returns the rate of accepted octets, MiB per second.
pub(crate) fn fill(tier: &Tier, records: u64, octets: usize) -> Result<f64, Error> {
    let content = vec![7; octets];
    let begun = Instant::now();
    for number in 0..records {
        let name = name(number);
        let signed = sign_data(&DataBuilder::new(name.as_name()), &content, &Signer::digest_sha256());
        let packet = signed.map_err(|error| Error::Usage(error.to_string()))?;
        while tier.write(name.as_name(), &packet, 0) == WriteOutcome::Busy {
            if let Some(fault) = tier.status().fault {
                return Err(Error::Subject(fault));
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    tier.sync().map_err(refused)?;
    let octets = tier.status().counters.written_octets as f64;
    Ok(octets / f64::from(1 << 20) / begun.elapsed().as_secs_f64())
}

/// Returns the time of a lookup for a missing name, ns.
fn lookup_ns(tier: &Tier, options: &Store) -> Result<f64, Error> {
    let caller = tier.caller().map_err(refused)?;
    let names: Vec<Name> = (0..1_000_000).map(|i| name(options.records * 2 + i * 7919)).collect();
    let begun = Instant::now();
    for name in &names {
        std::hint::black_box(caller.read(ReadId(0), name.as_name(), None, Bypass::Possible));
    }
    Ok(begun.elapsed().as_nanos() as f64 / names.len() as f64)
}

fn false_positives(status: &Status) -> f64 {
    let lookups = status.counters.false_positives + status.counters.bypassed_filter;
    100.0 * status.counters.false_positives as f64 / lookups.max(1) as f64
}

/// Returns the random reads per second with [`DEPTH`] outstanding, and the CPU time of each, us.
fn random_reads(tier: &Tier, options: &Store) -> Result<(f64, f64), Error> {
    let mut caller = tier.caller().map_err(refused)?;
    let (mut pending, mut done, mut random) = (0, 0_u64, 1_u64);
    let cpu = cpu_time();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(options.seconds) {
        while pending < DEPTH {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let name = name((random >> 33) % options.records);
            if caller.read(ReadId(random), name.as_name(), None, Bypass::Impossible) == LookupResult::Reading
            {
                pending += 1;
            }
        }
        let mut polled = [rustix::event::PollFd::new(&caller, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, None).map_err(|e| Error::environment("cannot wait", e))?;
        while let Some(completion) = caller.completed() {
            pending -= 1;
            done += u64::from(completion.outcome.found().is_some());
        }
    }
    if done == 0 {
        return Err(Error::Subject("nothing was read".into()));
    }
    let reads = done as f64 / begun.elapsed().as_secs_f64();
    Ok((reads, (cpu_time() - cpu).as_secs_f64() * 1e6 / done as f64))
}

fn segments(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .collect()
}

fn remove_indexes(folder: &Path) -> Result<(), Error> {
    for index in segments(folder, "index") {
        fs::remove_file(index).map_err(|e| Error::environment("cannot remove an index", e))?;
    }
    Ok(())
}

/// Returns the random reads per second of fio on the same files, and its CPU time for each, us. fio
/// reads the blocks of a record with io_uring, at the same depth. Returns none if fio is missing.
fn fio(folder: &Path, options: &Store) -> Option<(f64, f64)> {
    let files: Vec<_> = segments(folder, "log").iter().map(|path| path.display().to_string()).collect();
    // A record of 4 KiB begins anywhere in a block, so its read covers one block more.
    let block =
        (options.disk.octets + 100).next_multiple_of(4096) + 4096 * usize::from(options.disk.octets > 1000);
    let output = Command::new("fio")
        .args(["--name=reads", "--rw=randread", "--direct=1", "--ioengine=io_uring", "--time_based"])
        .args(["--output-format=json", "--readonly", "--file_service_type=random", "--blockalign=4096"])
        .args([
            format!("--bs={block}"),
            format!("--iodepth={DEPTH}"),
            format!("--runtime={}", options.seconds),
        ])
        .arg(format!("--filename={}", files.join(":")))
        .output()
        .ok()?;
    let report: Value = serde_json::from_slice(&output.stdout).ok()?;
    let job = &report["jobs"][0];
    let reads_s = job["read"]["iops"].as_f64()?;
    // fio reports CPU time in percent of the elapsed time.
    let cpu = job["usr_cpu"].as_f64()? + job["sys_cpu"].as_f64()?;
    Some((reads_s, cpu / 100.0 * 1e6 / reads_s))
}

//! `emulated` measures fetches that share one emulated link, with the real routers, sockets and
//! clients (HT-26, HT-27): the used part of the link, the fairness, and the length of its queue.
//! The simulator has the same path (docs/experiments/congestion.md).
//!
//! A [`Link`] joins two `namelyd` by UDP. `namely serve` is at its far end, and the consumer
//! sockets at its near end.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use namely_bench::output;
use namely_socket::{Consumer, ConsumerOptions};
use serde_json::json;

use clap::Args;
use namely_bench::error::Error;
use namely_bench::files::Object;
use namely_bench::machine::Machine;
use namely_bench::probe;
use namely_bench::programs::{Program, READY_LIMIT};
use namely_bench::stats;
use namely_testbed::wire::{Link, Reordering, WireSpec};
use namely_testbed::{Interrupt, Process, command};

/// Options of `emulated`.
#[derive(Debug, Args)]
pub struct Emulated {
    /// Congestion control of the fetches
    #[arg(long, value_delimiter = ',', default_value = "cubic,raaqm,bbr")]
    pub congestion: Vec<String>,
    /// Fetches at once
    #[arg(long, value_delimiter = ',', default_value = "2,3", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub flows: Vec<u32>,
    /// Datagrams lost in each direction, percent
    #[arg(long, value_delimiter = ',', default_value = "0,0.1,1")]
    pub loss: Vec<f64>,
    /// Rate, Mbit/s
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rate_mbps: u64,
    /// Delay of each direction, ms
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub delay_ms: u64,
    /// Capacity of the queue, ms
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub queue_ms: u64,
    /// Duration of the counting, seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The prefix of the objects.
const PREFIX: &str = "/emulated";

/// Interval between the starts of two fetches.
const STAGGER: Duration = Duration::from_secs(1);

/// Time after the start of the last fetch in which nothing is counted.
const WARM_UP: Duration = Duration::from_secs(4);

/// The result of one case.
#[derive(Clone, Debug)]
struct Outcome {
    goodput_mbps: f64,
    utilisation: f64,
    jain: f64,
    wait_mean_ms: f64,
    wait_p99_ms: f64,
    full: u64,
}

/// Runs every case and prints its line.
pub fn run(options: &Emulated) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    if !options.json {
        output::line(format_args!("machine: {}", Machine::read()));
        output::line(format_args!(
            "link: {} Mbit/s, {} ms each way, a queue of {} ms that drops at its end; {} s counted",
            options.rate_mbps, options.delay_ms, options.queue_ms, options.seconds
        ));
        output::line(
            "congestion  fetches  loss %  goodput Mbit/s  link used  Jain   wait mean ms  wait p99 ms  dropped",
        );
    }
    for congestion in &options.congestion {
        for &flows in &options.flows {
            for &loss in &options.loss {
                let o = case(options, congestion, flows, loss, &interrupt)?;
                if options.json {
                    let value = json!({
                        "congestion": congestion, "fetches": flows, "loss_percent": loss, "goodput_mbps": o.goodput_mbps,
                        "utilisation": o.utilisation, "jain": o.jain, "wait_mean_ms": o.wait_mean_ms,
                        "wait_p99_ms": o.wait_p99_ms, "dropped": o.full,
                    });
                    output::line(value);
                } else {
                    output::line(format_args!(
                        "{congestion:<10}  {flows:>7}  {loss:>6}  {:>14.1}  {:>9.3}  {:.3}  {:>12.1}  {:>11.1}  {:>7}",
                        o.goodput_mbps, o.utilisation, o.jain, o.wait_mean_ms, o.wait_p99_ms, o.full
                    ));
                }
            }
        }
    }
    Ok(())
}

fn case(
    options: &Emulated,
    congestion: &str,
    flows: u32,
    loss: f64,
    interrupt: &Interrupt,
) -> Result<Outcome, Error> {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = dir.map_err(|e| Error::environment("cannot make a folder", e))?;
    let dir = dir.path();
    let rate_bps = options.rate_mbps * 1_000_000;
    let spec = WireSpec {
        rate_bps: Some(rate_bps),
        delay: Duration::from_millis(options.delay_ms),
        queue: Duration::from_millis(options.queue_ms),
        loss: loss / 100.0,
        late: Reordering::default(),
    };
    let far = free_udp()?;
    let (_beyond, far_socket) = router(dir, "far", &["--listen", &format!("udp://{far}")], interrupt)?;
    let link = Link::start(spec, far).map_err(|e| Error::environment("cannot make a link", e))?;
    let route = format!("{PREFIX}=udp://{}", link.near());
    let (_near, near_socket) = router(dir, "near", &["--route", &route], interrupt)?;
    let objects = dir.join("objects");
    fs::create_dir(&objects).map_err(|e| Error::environment("cannot make a folder", e))?;
    // No fetch may end before the counting ends.
    let length = STAGGER * flows + WARM_UP + Duration::from_secs(options.seconds);
    for flow in 0..flows {
        Object::create(&objects, flow, rate_bps / 8 * (length.as_secs() + 2))?;
    }
    let mut command = command(namely()?.path(), dir);
    command.args(["--router", &format!("unix://{}", far_socket.display()), "serve"]).arg(&objects);
    command.args(["--prefix", PREFIX]);
    let _server = Process::start("namely serve", command, dir, None)?;
    let names: Vec<String> = names(&objects)?;
    for name in &names {
        probe::versioned_name(&near_socket, &format!("{PREFIX}/{name}"), READY_LIMIT, interrupt)?;
    }
    measure(options, congestion, &names, &near_socket, &link, interrupt)
}

/// Fetches every object, and counts the octets received once all fetches are under way.
fn measure(
    options: &Emulated,
    congestion: &str,
    names: &[String],
    socket: &Path,
    link: &Link,
    interrupt: &Interrupt,
) -> Result<Outcome, Error> {
    let consumers = names.iter().map(|_| consumer(socket, congestion)).collect::<Result<Vec<_>, Error>>()?;
    let counts: Vec<AtomicU64> = names.iter().map(|_| AtomicU64::new(0)).collect();
    let read = |counts: &[AtomicU64]| -> Vec<f64> {
        counts.iter().map(|count| count.load(Ordering::Relaxed) as f64).collect()
    };
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let counted = (|| {
            for ((consumer, name), count) in consumers.iter().zip(names).zip(&counts) {
                let done = &done;
                scope.spawn(move || fetch(consumer, name, count, done));
                interrupt.sleep(STAGGER)?;
            }
            interrupt.sleep(WARM_UP)?;
            let (before, sent) = (read(&counts), link.back().octets.load(Ordering::Relaxed));
            let full = link.back().full.load(Ordering::Relaxed);
            link.back().take_waits_us();
            interrupt.sleep(Duration::from_secs(options.seconds))?;
            let after = read(&counts);
            let shares: Vec<f64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
            let waits = link.back().take_waits_us();
            let (seconds, rate) = (options.seconds as f64, options.rate_mbps as f64 * 1e6);
            let sent = (link.back().octets.load(Ordering::Relaxed) - sent) as f64;
            Ok(Outcome {
                goodput_mbps: shares.iter().sum::<f64>() * 8.0 / 1e6 / seconds,
                utilisation: sent * 8.0 / seconds / rate,
                jain: stats::jain(&shares).unwrap_or(0.0),
                wait_mean_ms: waits.iter().sum::<f64>() / waits.len().max(1) as f64 / 1000.0,
                wait_p99_ms: stats::percentile(&waits, 99.0).unwrap_or(0.0) / 1000.0,
                full: link.back().full.load(Ordering::Relaxed) - full,
            })
        })();
        done.store(true, Ordering::Relaxed);
        // Wakes the threads that wait for a packet.
        consumers.iter().for_each(Consumer::close);
        counted
    })
}

fn fetch(consumer: &Consumer, name: &str, count: &AtomicU64, done: &AtomicBool) {
    let name = format!("{PREFIX}/{name}").parse();
    let Some(mut stream) = name.ok().and_then(|name| consumer.stream(&name).ok()) else { return };
    let mut buffer = vec![0; 64 * 1024];
    while !done.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(octets) if octets > 0 => count.fetch_add(octets as u64, Ordering::Relaxed),
            _ => return,
        };
    }
}

fn consumer(socket: &Path, congestion: &str) -> Result<Consumer, Error> {
    let mut options = ConsumerOptions {
        router: Some(format!("unix://{}", socket.display())),
        ..ConsumerOptions::default()
    };
    let subject = |e: &dyn std::fmt::Display| Error::Subject(e.to_string());
    options.set("congestion", congestion).map_err(|e| subject(&e))?;
    options.set("trust", "digest").map_err(|e| subject(&e))?;
    let prefix = PREFIX.parse().map_err(|_| Error::Subject("the prefix is no name".to_owned()))?;
    Consumer::bind(prefix, options).map_err(|e| subject(&e))
}

fn router(
    dir: &Path,
    what: &str,
    arguments: &[&str],
    interrupt: &Interrupt,
) -> Result<(Process, std::path::PathBuf), Error> {
    let program = Program::find(&["namelyd"], "NAMELY_BIN_DIR", true);
    if let Some(missing) = program.missing() {
        return Err(Error::Subject(missing));
    }
    let socket = dir.join(format!("{what}.sock"));
    let mut command = command(program.path(), dir);
    command.args(["--no-config", "--listen", &format!("unix://{}", socket.display())]).args(arguments);
    let router = Process::start(&format!("namelyd {what}"), command, dir, None)?;
    probe::wait_for_socket(&socket, READY_LIMIT, interrupt)?;
    Ok((router, socket))
}

fn namely() -> Result<Program, Error> {
    let program = Program::find(&["namely"], "NAMELY_BIN_DIR", true);
    match program.missing() {
        Some(missing) => Err(Error::Subject(missing)),
        None => Ok(program),
    }
}

/// The objects' names below the prefix: paths below `objects`.
fn names(objects: &Path) -> Result<Vec<String>, Error> {
    let unreadable = |e| Error::environment("cannot read a folder", e);
    let mut names = Vec::new();
    for entry in fs::read_dir(objects).map_err(unreadable)?.flatten() {
        let folder = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            for file in fs::read_dir(entry.path()).map_err(unreadable)?.flatten() {
                names.push(format!("{folder}/{}", file.file_name().to_string_lossy()));
            }
        } else {
            names.push(folder);
        }
    }
    names.sort();
    Ok(names)
}

/// A UDP port that is free now.
fn free_udp() -> Result<SocketAddr, Error> {
    let socket = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    socket.map_err(|e| Error::environment("no UDP port is free", e))
}

//! `sim`: large networks in virtual time: topologies, workloads and failures from a seed.
//!
//! The results depend on the options alone, not on the machine or the number of threads.

mod checkpoint;
mod progress;
pub mod queues;
mod report;
mod routes;
mod scenario;
mod topology;
mod workload;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use namely_bench::error::Error;
use namely_bench::machine::cpu_time;
use namely_sim::{MS, Network};
use namely_testbed::Interrupt;

use checkpoint::Checkpoint;
use progress::Progress;
use report::{Report, Sample};
use scenario::Running;
pub use scenario::{LoadOptions, NetworkOptions, Routing, Scenario, TopologyKind, Workload};

/// Number of samples of a run, for its plots.
const SAMPLES: u64 = 50;

/// Time after which progress is shown and Ctrl-C is noticed, about.
const STEP: Duration = Duration::from_millis(150);

/// Options of `sim`.
#[derive(Args, Debug)]
pub struct Sim {
    /// The simulated scenario.
    #[command(flatten)]
    pub scenario: Scenario,
    /// Threads; the results are the same with any number
    #[arg(long, default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=256))]
    pub threads: usize,
    /// A folder for tables (CSV, JSON) and plots (SVG)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write a checkpoint into the folder, with a digest of all frames
    #[arg(long, requires = "out")]
    pub checkpoint: bool,
    /// Go on from the checkpoint in this folder, with its scenario: it is computed again up to
    /// there, and compared
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub resume: Option<PathBuf>,
    /// Print a digest of all frames
    #[arg(long)]
    pub digest: bool,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Runs `sim`.
///
/// # Errors
/// Returns an error if a file cannot be read or written, if a checkpoint has another digest, or,
/// after the partial results, if the run was interrupted.
pub fn run(options: &Sim) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let known = options.resume.as_deref().map(Checkpoint::read).transpose()?;
    let scenario = known.as_ref().map_or(&options.scenario, |known| &known.scenario);
    let is_checkpointed = options.checkpoint || known.is_some();
    let began = Instant::now();
    let mut running = Running::build(scenario)?;
    running.network.set_threads(options.threads);
    if options.digest || is_checkpointed {
        running.network.trace();
    }
    let built = began.elapsed();
    let watch = Watch { interrupt, progress: Progress::new(running.end_ns) };
    let mut samples = Vec::new();
    let before = cpu_time();
    let sampled = sample(&mut running, known.as_ref(), &watch, &mut samples);
    watch.progress.clear();
    let is_complete = sampled?;
    let times = report::Times { built, ran: began.elapsed() - built, cpu: cpu_time() - before };
    let report = Report::new(&running, samples, times);
    let folder = options.out.as_deref().or(options.resume.as_deref());
    if let Some(folder) = folder {
        // A run that was interrupted on its way to its checkpoint leaves that one as it is.
        let is_later = known.as_ref().is_none_or(|known| known.virtual_ns <= running.network.now_ns());
        let is_written = is_checkpointed && is_later;
        write(folder, &report, is_written.then(|| Checkpoint::of(scenario, &running.network)))?;
    }
    report.print(options.json);
    if is_complete { Ok(()) } else { Err(Error::Interrupted) }
}

/// The connection of a run with its user.
struct Watch {
    interrupt: Interrupt,
    progress: Progress,
}

/// Runs to the end and samples the results at fixed virtual times. Compares the run with the
/// checkpoint that it resumes, when it reaches that. Returns false if it was interrupted.
fn sample(
    running: &mut Running,
    mut resumed: Option<&Checkpoint>,
    watch: &Watch,
    samples: &mut Vec<Sample>,
) -> Result<bool, Error> {
    for number in 1..=SAMPLES {
        let at_ns = (u128::from(running.end_ns) * u128::from(number) / u128::from(SAMPLES)) as u64;
        if let Some(known) = resumed.filter(|known| known.virtual_ns <= at_ns) {
            if !advance(running, known.virtual_ns, watch) {
                return Ok(false);
            }
            known.compare(&running.network)?;
            resumed = None;
        }
        let is_reached = advance(running, at_ns, watch);
        samples.push(Sample::of(running));
        if !is_reached {
            return Ok(false);
        }
    }
    match resumed {
        Some(_) => Err(Error::Usage("the checkpoint is later than the end of its run".into())),
        None => Ok(true),
    }
}

/// Runs to `until_ns`, in steps of about the same time. Returns false if the run was interrupted
/// before.
fn advance(running: &mut Running, until_ns: u64, watch: &Watch) -> bool {
    let network: &mut Network = &mut running.network;
    let mut step_ns = MS;
    while network.now_ns() < until_ns {
        if watch.interrupt.check().is_err() {
            return false;
        }
        let began = Instant::now();
        network.run_until(until_ns.min(network.now_ns().saturating_add(step_ns)));
        let took = began.elapsed();
        if took < STEP / 2 {
            step_ns = step_ns.saturating_mul(2);
        } else if took > STEP * 2 {
            step_ns = (step_ns / 2).max(1);
        }
        watch.progress.show(network.now_ns(), network.events());
    }
    true
}

fn write(folder: &Path, report: &Report, checkpoint: Option<Checkpoint>) -> Result<(), Error> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::environment(format!("cannot make {}", folder.display()), e))?;
    let mut files = vec![
        ("table.txt", report.table()),
        ("samples.csv", report.csv()),
        ("result.json", format!("{}\n", report.json())),
        ("plots.svg", report.svg()),
    ];
    files.extend(checkpoint.map(|checkpoint| (checkpoint::FILE, checkpoint.text())));
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text)
            .map_err(|e| Error::environment(format!("cannot write {}", path.display()), e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// The options of a short run in a small grid.
    fn options(more: &[&str]) -> Box<Sim> {
        let short = ["namely-experiments", "sim", "--nodes", "16", "--seconds", "0.5", "--seed", "3"];
        match Cli::try_parse_from(short.iter().chain(more)).map(|cli| cli.command) {
            Ok(Command::Sim(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    fn watch(running: &Running) -> Watch {
        Watch { interrupt: Interrupt::default(), progress: Progress::new(running.end_ns) }
    }

    #[test]
    fn an_interrupted_run_keeps_its_results() {
        let mut running = Running::build(&options(&[]).scenario).unwrap();
        let (watch, mut samples) = (watch(&running), Vec::new());
        assert!(advance(&mut running, 400 * MS, &watch));
        watch.interrupt.set();
        assert!(!sample(&mut running, None, &watch, &mut samples).unwrap());
        let second = Duration::from_secs(1);
        let times = report::Times { built: Duration::ZERO, ran: second, cpu: second };
        let result = Report::new(&running, samples, times).json();
        assert_eq!(result["virtual_s"], 0.4, "{result}");
        assert!(result["answered"].as_u64() > Some(0), "{result}");
    }

    #[test]
    fn a_resumed_run_has_the_same_digits() {
        let options = options(&["--failures", "20", "--repair-ms", "50"]);
        let run = |threads: usize, resumed: Option<&Checkpoint>| {
            let mut running = Running::build(&options.scenario).unwrap();
            running.network.set_threads(threads);
            running.network.trace();
            let (watch, mut samples) = (watch(&running), Vec::new());
            let is_complete = sample(&mut running, resumed, &watch, &mut samples)?;
            assert!(is_complete && samples.len() as u64 == SAMPLES);
            Ok::<_, Error>(Checkpoint::of(&options.scenario, &running.network))
        };
        let whole = run(1, None).unwrap();
        let mut running = Running::build(&options.scenario).unwrap();
        running.network.trace();
        let watch = watch(&running);
        assert!(advance(&mut running, 300 * MS, &watch));
        let part = Checkpoint::of(&options.scenario, &running.network);
        assert_eq!(run(2, Some(&part)).unwrap(), whole);
        let changed = Checkpoint { digest: whole.digest.clone(), ..part.clone() };
        let error = run(1, Some(&changed)).unwrap_err();
        assert!(error.to_string().contains("differs from its checkpoint"), "{error}");
        let late = Checkpoint { virtual_ns: u64::MAX, ..part };
        assert!(matches!(run(1, Some(&late)), Err(Error::Usage(_))));
    }

    #[test]
    fn checkpoints_are_read_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let scenario = options(&["--rate", "0.3", "--topology", "scale-free"]).scenario;
        let checkpoint = Checkpoint { scenario, virtual_ns: 5, events: 7, digest: "ab".into() };
        std::fs::write(folder.path().join(checkpoint::FILE), checkpoint.text()).unwrap();
        assert_eq!(Checkpoint::read(folder.path()).unwrap(), checkpoint);
        for text in ["", "{}", "[1]", &checkpoint.text().replace("\"seed\"", "\"sead\"")] {
            std::fs::write(folder.path().join(checkpoint::FILE), text).unwrap();
            assert!(matches!(Checkpoint::read(folder.path()), Err(Error::Usage(_))), "{text}");
        }
    }

    #[test]
    fn impossible_scenarios_are_refused() {
        let refused = |change: fn(&mut Scenario)| {
            let mut scenario = options(&[]).scenario;
            change(&mut scenario);
            Running::build(&scenario).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(refused(|of| of.load.seconds = 0.0).contains("--seconds 0"));
        assert!(refused(|of| of.load.rate = f64::NAN).contains("--rate"));
        assert!(refused(|of| of.load.exponent = -1.0).contains("--exponent"));
        assert!(refused(|of| of.network.failures = 1001.0).contains("--failures"));
        assert!(refused(|of| of.network.strategy = Some("none-such".into())).contains("none-such"));
        assert!(refused(|of| of.network.topology = TopologyKind::Testbed).contains("needs --map"));
        assert!(refused(|of| of.load.workload = Workload::Trace).contains("needs --trace"));
        assert_eq!(refused(|_| ()), "");
    }
}

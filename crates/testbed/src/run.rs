//! The course of a run: starts programs in order, performs events at their times, and collects the
//! results.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::error::TestbedError;
use crate::file::{Program, Span, Testbed};
use crate::interrupt::Interrupt;
use crate::lab::Lab;
use crate::process::Process;
use crate::report::{NodeReport, ProgramReport, Report};
use crate::sandbox;

/// Interval at which due programs and events are checked.
const TICK: Duration = Duration::from_millis(10);

/// Pause between two tries of a program that failed.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Maximum time for programs to end after the request.
const GRACE: Duration = Duration::from_secs(3);

/// State of a program.
#[derive(Debug)]
enum State {
    Waiting,
    Running(Process),
    /// The program failed; it is started again at this time.
    Pausing(Instant),
    Ended(Option<i32>),
}

/// A program on one of its nodes.
#[derive(Debug)]
struct Task {
    /// Index of the program in the file.
    program: usize,
    node: String,
    log: PathBuf,
    state: State,
    /// Time of the first start, from the start of the run.
    started: Option<Duration>,
    ended: Option<Duration>,
    tries: u32,
    is_ready: bool,
}

/// Runs a testbed to its end in the sandbox of this process, and removes it.
///
/// # Errors
/// The testbed cannot be built or watched. The failure of a program is no error: it is in the
/// report.
pub fn run(testbed: Testbed, folder: &Path, interrupt: &Interrupt) -> Result<Report, TestbedError> {
    let mut lab = Lab::build(testbed, folder, interrupt)?;
    let mut course = RunState::new(&lab);
    let outcome = course.go(&mut lab, interrupt);
    // Collect while the programs still run: a routing daemon removes its routes when it ends.
    lab.collect(&Interrupt::default());
    course.end(&lab);
    let usage = usage(&mut lab);
    let ends: BTreeMap<String, Option<bool>> = lab.stop().into_iter().collect();
    let is_interrupted = match outcome {
        Ok(()) => false,
        Err(TestbedError::Process(crate::ProcessError::Interrupted)) => true,
        Err(error) => return Err(error),
    };
    let nodes = lab.testbed().nodes.iter().map(|node| {
        let name = node.name.get_ref();
        let (cpu_s, rss_mib) = usage.get(name).copied().unwrap_or_default();
        let end = ends.get(name).copied();
        NodeReport { name: name.clone(), end, cpu_s, rss_mib, status: status(&lab.folder().join(name)) }
    });
    let report = Report {
        name: lab.testbed().name().to_owned(),
        folder: lab.folder().to_owned(),
        seconds: course.since().as_secs_f64(),
        is_interrupted,
        is_overdue: course.is_overdue,
        nodes: nodes.collect(),
        networks: lab
            .testbed()
            .networks()
            .iter()
            .zip(lab.carriers())
            .map(|(n, c)| (n.name.clone(), c))
            .collect(),
        programs: course.reports(lab.testbed()),
        events: std::mem::take(&mut course.said),
    };
    let summary = lab.folder().join("summary.json");
    fs::write(&summary, format!("{:#}\n", report.json()))
        .map_err(|e| TestbedError::unable(format!("cannot write {}", summary.display()), e))?;
    Ok(report)
}

/// Returns the CPU seconds and resident MiB of each router.
fn usage(lab: &mut Lab) -> BTreeMap<String, (f64, f64)> {
    let names: Vec<String> = lab.testbed().nodes.iter().map(|node| node.name.get_ref().clone()).collect();
    let of = |name: String| {
        let router = lab.router_process(&name)?;
        let usage = (router.cpu_time().as_secs_f64(), router.rss_mib().unwrap_or(0.0));
        Some((name, usage))
    };
    names.into_iter().filter_map(of).collect()
}

/// Reads the status that a node's router reported at the end.
fn status(folder: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(folder.join("status.json")).ok()?).ok()
}

/// A run under way.
#[derive(Debug)]
struct RunState {
    begun: Instant,
    tasks: Vec<Task>,
    /// Events that are still to come.
    events: Vec<usize>,
    /// Time and description of past events.
    said: Vec<(Duration, String)>,
    is_overdue: bool,
}

impl RunState {
    fn new(lab: &Lab) -> Self {
        let testbed = lab.testbed();
        let programs = testbed.programs.iter().enumerate();
        let tasks = programs.flat_map(|(n, program)| {
            let log = |node: &str| lab.folder().join(node).join(format!("{}.log", program.title()));
            program.places().map(move |node| Task {
                program: n,
                node: node.get_ref().clone(),
                log: log(node.get_ref()),
                state: State::Waiting,
                started: None,
                ended: None,
                tries: 0,
                is_ready: false,
            })
        });
        RunState {
            begun: Instant::now(),
            tasks: tasks.collect(),
            events: (0..testbed.events.len()).collect(),
            said: Vec::new(),
            is_overdue: false,
        }
    }

    fn since(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Runs until all events are over and all foreground programs have ended, or until the maximum
    /// duration is over.
    fn go(&mut self, lab: &mut Lab, interrupt: &Interrupt) -> Result<(), TestbedError> {
        let Span(duration) = lab.testbed().testbed.duration;
        loop {
            self.perform(lab)?;
            for n in 0..self.tasks.len() {
                self.attend(n, lab)?;
            }
            let background = |task: &Task| lab.testbed().programs[task.program].background;
            let is_open = |task: &Task| !background(task) && !matches!(task.state, State::Ended(_));
            let waits_for_end = lab.testbed().programs.iter().any(|program| !program.background);
            if waits_for_end && self.events.is_empty() && !self.tasks.iter().any(is_open) {
                return Ok(());
            }
            if self.since() >= duration {
                self.is_overdue = waits_for_end;
                return Ok(());
            }
            interrupt.sleep(TICK)?;
        }
    }

    /// Performs the events that are due.
    fn perform(&mut self, lab: &mut Lab) -> Result<(), TestbedError> {
        for n in self.events.clone() {
            let event = lab.testbed().events[n].clone();
            if event.after.iter().any(|name| self.has_failed(lab.testbed(), name.get_ref())) {
                self.events.retain(|other| *other != n);
                continue;
            }
            let Some(from) = self.turn(lab.testbed(), event.after.iter().map(|s| s.get_ref().as_str()))
            else {
                continue;
            };
            if self.since() < from + event.at.0 {
                continue;
            }
            self.events.retain(|other| *other != n);
            if let Some(deed) = event.deed() {
                lab.perform(deed)?;
                self.said.push((self.since(), deed.to_string()));
            }
        }
        Ok(())
    }

    /// Returns the time of the run at which the last of these programs ended, or started if it
    /// still runs; none until all are ready.
    fn turn<'a>(&self, testbed: &Testbed, names: impl Iterator<Item = &'a str>) -> Option<Duration> {
        let mut from = Duration::ZERO;
        for name in names {
            for task in &self.tasks {
                if testbed.programs[task.program].title() == name {
                    let when = if task.is_ready { task.ended.or(task.started) } else { None };
                    from = from.max(when?);
                }
            }
        }
        Some(from)
    }

    /// Returns true if a program has ended without being ready.
    fn has_failed(&self, testbed: &Testbed, name: &str) -> bool {
        self.tasks.iter().any(|task| {
            let is_meant = testbed.programs[task.program].title() == name;
            is_meant && !task.is_ready && matches!(task.state, State::Ended(_))
        })
    }

    /// Starts a program that is due, and checks on a running one.
    fn attend(&mut self, n: usize, lab: &Lab) -> Result<(), TestbedError> {
        let program = &lab.testbed().programs[self.tasks[n].program];
        let now = self.since();
        let due = match &self.tasks[n].state {
            State::Waiting => {
                let Span(at) = program.at;
                let after = program.after.iter().map(|name| name.get_ref().as_str());
                self.turn(lab.testbed(), after).is_some_and(|from| now >= from.max(at))
            }
            State::Pausing(until) => Instant::now() >= *until,
            State::Running(_) | State::Ended(_) => false,
        };
        let is_hopeless = matches!(self.tasks[n].state, State::Waiting)
            && program.after.iter().any(|name| self.has_failed(lab.testbed(), name.get_ref()));
        let task = &mut self.tasks[n];
        if is_hopeless {
            task.state = State::Ended(None);
        }
        if due {
            let command = lab.shell(&task.node, program.run.get_ref())?;
            let what = format!("{} on {}", program.title(), task.node);
            task.state = State::Running(Process::start_logged(&what, command, &task.log)?);
            task.started.get_or_insert(now);
            task.tries += 1;
        }
        let State::Running(process) = &mut task.state else { return Ok(()) };
        if let (false, Some(word)) = (task.is_ready, &program.ready) {
            task.is_ready = fs::read_to_string(&task.log).is_ok_and(|said| said.contains(word.as_str()));
        }
        if let Some(status) = process.status() {
            task.ended = Some(now);
            task.is_ready |= status.success() && program.ready.is_none();
            task.state = match retry(program, task.started.unwrap_or(now), now) {
                true if !status.success() => State::Pausing(Instant::now() + RETRY_PAUSE),
                _ => State::Ended(status.code()),
            };
        }
        Ok(())
    }

    /// Ends the programs that still run.
    fn end(&mut self, lab: &Lab) {
        let deadline = Instant::now() + GRACE;
        let running: Vec<&Task> =
            self.tasks.iter().filter(|task| matches!(task.state, State::Running(_))).collect();
        // A task's process is a shell, which does not end its children. So SIGTERM goes to all
        // processes of the namespace except routers.
        let mut pids = Vec::new();
        for task in &running {
            pids.extend(sandbox::inhabitants(lab.net().name(&task.node)));
        }
        let routers = lab.router_pids();
        for pid in pids.iter().filter(|pid| !routers.contains(pid)) {
            let _ = rustix::process::kill_process(*pid, Signal::TERM);
        }
        for task in &mut self.tasks {
            if let State::Running(process) = &mut task.state {
                let status = process.wait_until(deadline).or_else(|| process.end());
                task.ended = Some(self.begun.elapsed());
                task.state = State::Ended(status.and_then(|status| status.code()));
            }
        }
    }

    fn reports(&self, testbed: &Testbed) -> Vec<ProgramReport> {
        let report = |task: &Task| {
            let program = &testbed.programs[task.program];
            let exit = if let State::Ended(code) = task.state { code } else { None };
            ProgramReport {
                name: program.title().to_owned(),
                node: task.node.clone(),
                exit,
                started_s: task.started.map(|at| at.as_secs_f64()),
                seconds: task.started.zip(task.ended).map(|(from, to)| to.saturating_sub(from).as_secs_f64()),
                tries: task.tries,
                background: program.background,
                log: task.log.clone(),
            }
        };
        self.tasks.iter().map(report).collect()
    }
}

fn retry(program: &Program, started: Duration, now: Duration) -> bool {
    program.retry.is_some_and(|Span(retry)| now < started + retry)
}

/// Returns the events as JSON.
pub(crate) fn events(said: &[(Duration, String)]) -> Value {
    said.iter().map(|(at, what)| json!({"at_s": at.as_secs_f64(), "what": what})).collect()
}

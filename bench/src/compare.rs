//! A comparison runs one scenario after another, each in several rounds. Each round measures every
//! subject once.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use tempfile::TempDir;

use crate::error::Error;
use crate::files::{Object, directory};
use crate::header;
use crate::link::Link;
use crate::machine::Machine;
use crate::measure::{Measure, Samples};
use crate::metric::Metric;
use crate::namespace::{self, NetworkScope};
use crate::options::Compare;
use crate::output;
use crate::report::{Results, print_json, print_table};
use crate::scenario::{Kind, Plan, Scenario};
use crate::subject::{self, Site, Subject, SubjectName, free_ports};
use namely_testbed::Interrupt;

/// Measures the selected subjects and scenarios and prints the results.
pub fn run(options: &Compare) -> Result<(), Error> {
    let scope = if options.no_namespace {
        NetworkScope::Loopback("asked to stay".to_owned())
    } else {
        // This call may replace the process by the same program in a namespace. In that case it
        // does not return.
        namespace::enter()
    };
    let interrupt = Interrupt::on_signals()?;
    let subjects = subjects(&options.subject);
    let dir = directory("namely-bench-", options.dir.as_deref())?;
    let lines = header::lines(options, &scope, &subjects, dir.path(), &interrupt);
    lines.iter().for_each(|line| options.repeats.say(line));
    let present: Vec<&dyn Subject> =
        subjects.iter().map(Box::as_ref).filter(|s| s.missing().is_none()).collect();
    let run = Run { options, scope, plan: options.plan(), dir, interrupt };
    run.measure(&present)?;
    options.repeats.say(&format!("\nmachine at the end: {}", Machine::read()));
    Ok(())
}

/// Returns the selected subjects, each once, in the order of [`SubjectName`]. The relay, which
/// shows the machine's ceiling, is always among them.
fn subjects(names: &[SubjectName]) -> Vec<Box<dyn Subject>> {
    let wanted = |name: &&SubjectName| **name == SubjectName::Relay || names.contains(name);
    SubjectName::value_variants().iter().filter(wanted).flat_map(|name| subject::subjects(*name)).collect()
}

struct Run<'a> {
    options: &'a Compare,
    scope: NetworkScope,
    plan: Plan,
    dir: TempDir,
    interrupt: Interrupt,
}

impl Run<'_> {
    fn measure(&self, subjects: &[&dyn Subject]) -> Result<(), Error> {
        let wanted = |s: &Scenario| self.options.scenario.is_empty() || self.options.scenario.contains(s);
        for scenario in Scenario::value_variants().iter().copied().filter(wanted) {
            if let (true, NetworkScope::Loopback(reason)) = (scenario.is_ethernet(), &self.scope) {
                output::say(format_args!(
                    "{}: left out: no devices can be made here ({reason})",
                    scenario.name()
                ));
                continue;
            }
            for (subject, reason) in subjects.iter().filter_map(|s| Some((s, s.unsupported(scenario)?))) {
                output::say(format_args!("{}: without {} ({reason})", scenario.name(), subject.name()));
            }
            let taking_part: Vec<&dyn Subject> =
                subjects.iter().copied().filter(|s| s.unsupported(scenario).is_none()).collect();
            let results = self.rounds(scenario, &taking_part)?;
            if self.options.repeats.json {
                print_json(&results, scenario)?;
            } else {
                print_table(&results, scenario, &taking_part);
            }
        }
        Ok(())
    }

    fn rounds(&self, scenario: Scenario, subjects: &[&dyn Subject]) -> Result<Results, Error> {
        let mut results = Results::default();
        let object = self.object(scenario)?;
        let _link = scenario.is_ethernet().then(Link::make).transpose()?;
        for round in 0..self.options.repeats.runs() as usize {
            for turn in 0..subjects.len() {
                // Each round starts with another subject, so that none always runs first.
                let subject = subjects[(round + turn) % subjects.len()];
                let samples = self.measure_once(subject, scenario, object.as_ref(), round)?;
                results.add(scenario, subject.name(), &samples);
            }
        }
        Ok(results)
    }

    fn object(&self, scenario: Scenario) -> Result<Option<Object>, Error> {
        match scenario.kind() {
            Kind::Transfer | Kind::Cached => {
                Object::create(&self.objects(), 0, self.plan.object_octets_of(scenario)).map(Some)
            }
            Kind::Flows | Kind::Ping | Kind::Memory | Kind::Idle => Ok(None),
        }
    }

    fn objects(&self) -> PathBuf {
        self.dir.path().join("objects")
    }

    /// Measures a subject once. A failure of the subject is reported and counted. Only an
    /// interruption, a failure of the environment or wrong usage ends the run.
    fn measure_once(
        &self,
        subject: &dyn Subject,
        scenario: Scenario,
        object: Option<&Object>,
        round: usize,
    ) -> Result<Samples, Error> {
        let label = format!("{} {} run {}", scenario.name(), subject.name(), round + 1);
        let dir = self.dir.path().join("run");
        fs::create_dir_all(&dir).map_err(|e| Error::environment("cannot create a directory", e))?;
        let site = Site { dir: &dir, scenario, object, ports: free_ports()?, interrupt: &self.interrupt };
        let measure = Measure {
            plan: &self.plan,
            fetch_limit: Duration::from_secs(self.options.timeout),
            objects: &self.objects(),
        };
        let result = measure.run(subject, &site);
        fs::remove_dir_all(&dir).map_err(|e| Error::environment("cannot remove a directory", e))?;
        match result {
            Ok(samples) => {
                output::say(format_args!("{label}: {}", headline(&samples)));
                Ok(counted(samples))
            }
            Err(error @ (Error::Interrupted | Error::Environment { .. } | Error::Usage(_))) => Err(error),
            Err(error) => {
                output::say(format_args!("{label}: FAILED: {error}"));
                Ok(vec![(Metric::Failed, 1.0)])
            }
        }
    }
}

/// Adds a count of zero failures if the samples have no such count.
fn counted(mut samples: Samples) -> Samples {
    if samples.iter().all(|(metric, _)| *metric != Metric::Failed) {
        samples.push((Metric::Failed, 0.0));
    }
    samples
}

fn headline(samples: &Samples) -> String {
    let (metric, value) = samples.first().copied().unwrap_or((Metric::Failed, 0.0));
    format!("{value:.1} {}", metric.unit())
}

//! Runs cases: one binding's drivers, or one binding's producers and another's consumers, over one
//! router.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use namely_client::Client;
use namely_transport::connection::{Connection, Options};
use namely_wire::Name;

use crate::answer::{Words, compare, filled};
use crate::case::{Case, Step, When};
use crate::certify::certify;
use crate::content;
use crate::driver::Driver;
use crate::faults::{Fault, FaultyProducer};

/// Maximum time for which a repeated step may have another answer. A consumer that did not learn
/// whether a certificate is revoked asks again after 60 s.
const PATIENCE: Duration = Duration::from_secs(120);

/// The pause before a step is repeated.
const REPEATED_AFTER: Duration = Duration::from_millis(20);

/// The command that starts a binding's driver.
pub struct Binding {
    /// Its name in messages.
    pub name: &'static str,
    /// The command, without the environment of the test.
    pub command: Box<dyn Fn() -> Command + Sync>,
}

/// The environment in which cases run.
pub struct Environment<'a> {
    /// The connector: `unix`, `memif`, `tcp`, `udp`, `ethernet`, `kernel`, `nfd`, `ndnd`.
    pub connector: &'static str,
    /// The router's address.
    pub router: String,
    /// `NAMELY_HOME` of all drivers: their key chain.
    pub home: &'a Path,
    /// A directory for the cases' own ones and the drivers' logs.
    pub dir: &'a Path,
    /// The prefix above those of the cases, for which the key chain has a key.
    pub prefix: &'static str,
}

/// The result of all cases.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of cases with the expected results.
    pub passed: usize,
    /// The duration and the title of the slowest case.
    pub slowest: (Duration, String),
    /// Titles of the cases that are not for this binding or environment.
    pub left_out: Vec<String>,
    /// The cases that failed.
    pub failed: Vec<String>,
}

/// Runs `cases`: producers by `producers`, consumers by `consumers`.
pub fn run(cases: &[Case], producers: &Binding, consumers: &Binding, place: &Environment<'_>) -> Report {
    let mut report = Report::default();
    let mut session =
        Session { producers, consumers, place, drivers: HashMap::new(), roles: HashMap::new(), started: 0 };
    for (number, case) in cases.iter().enumerate() {
        let started = Instant::now();
        let done = session.case(number, case);
        if started.elapsed() > report.slowest.0 {
            report.slowest = (started.elapsed(), case.title.clone());
        }
        match done {
            Ok(true) => report.passed += 1,
            Ok(false) => report.left_out.push(case.title.clone()),
            Err(why) => {
                report.failed.push(format!("'{}' (line {}): {why}", case.title, case.line));
                session.drivers.clear();
            }
        }
    }
    for (who, (driver, _)) in session.drivers.drain() {
        if let Err(why) = driver.finish() {
            report.failed.push(format!("the end of {who}: {why}"));
        }
    }
    report
}

struct Session<'a> {
    producers: &'a Binding,
    consumers: &'a Binding,
    place: &'a Environment<'a>,
    /// Running drivers by the name in steps, with their features.
    drivers: HashMap<String, (Driver, Vec<String>)>,
    /// The role of each socket, by the driver and the socket's name there.
    roles: HashMap<(String, String), String>,
    started: usize,
}

impl Session<'_> {
    /// Returns true if the case passed, and false if it is not for this binding or environment.
    fn case(&mut self, number: usize, case: &Case) -> Result<bool, String> {
        let here = self.place.connector.to_owned();
        if case.not_over.contains(&here) || !(case.over.is_empty() || case.over.contains(&here)) {
            return Ok(false);
        }
        for who in ["P", "C"] {
            let features = &self.driver(who)?.1;
            if case.needs.iter().any(|need| !features.contains(need)) {
                return Ok(false);
            }
        }
        let run = format!("{}-{}", self.producers.name, self.consumers.name);
        let dir = self.place.dir.join(format!("{run}-{number}"));
        std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let prefix = format!("{}/{run}/{}/{number}", self.place.prefix, self.place.connector);
        let mut words = Words::from([
            ("{}".into(), prefix),
            ("{dir}".into(), dir.display().to_string()),
            ("{router}".into(), self.place.router.clone()),
        ]);
        let mut faulty = Vec::new();
        for step in &case.steps {
            words = self
                .step(step, &words, &mut faulty)
                .map_err(|why| format!("line {}, {} {}: {why}", step.line, step.who, step.text))?;
        }
        for (who, (driver, _)) in &mut self.drivers {
            match driver.ask("reset")?.as_str() {
                "ok" => {}
                other => return Err(format!("{who} answers '{other}' to reset")),
            }
        }
        Ok(true)
    }

    fn step(
        &mut self,
        step: &Step,
        words: &Words,
        faulty: &mut Vec<FaultyProducer>,
    ) -> Result<Words, String> {
        let text = filled(&step.text, words)?;
        let right = |answer: &str| step.expected.iter().find_map(|expected| compare(expected, answer, words));
        let answer = match (step.who.as_str(), step.when) {
            ("H", _) => self.own(&text, faulty)?,
            (who, When::Later) => {
                self.driver(who)?.0.send(&text)?;
                return Ok(words.clone());
            }
            (who, When::Collect) => self.driver(who)?.0.answer()?,
            (who, When::Now) => self.driver(who)?.0.ask(&text)?,
            (who, When::Until) => {
                let driver = &mut self.driver(who)?.0;
                let begun = Instant::now();
                loop {
                    let answer = driver.ask(&text)?;
                    if right(&answer).is_some() || begun.elapsed() > PATIENCE {
                        break answer;
                    }
                    std::thread::sleep(REPEATED_AFTER);
                }
            }
        };
        let found = right(&answer)
            .ok_or_else(|| format!("'{answer}' instead of '{}'", step.expected.join("' or '")))?;
        if self.place.connector == "nfd" && answer.starts_with("ok") {
            self.wait_for_route(&step.who, &text)?;
        }
        Ok(found)
    }

    /// Waits until the router forwards to the prefix that a step has registered. NFD answers a
    /// registration before its FIB has the route, and refuses an Interest meanwhile.
    fn wait_for_route(&mut self, who: &str, text: &str) -> Result<(), String> {
        let of = |socket: &str| (who.to_owned(), socket.to_owned());
        let prefix = match text.split(' ').collect::<Vec<_>>()[..] {
            ["open", socket, role, ..] => {
                self.roles.insert(of(socket), role.to_owned());
                return Ok(());
            }
            ["bind", socket, prefix, ..]
                if self.roles.get(&of(socket)).is_some_and(|role| role == "producer") =>
            {
                prefix
            }
            ["serve", name, ..] => name,
            _ => return Ok(()),
        };
        let prefix: Name = prefix.parse().map_err(|e| format!("{e}"))?;
        let begun = Instant::now();
        let connection = Connection::find(Some(&self.place.router), Options::default());
        let mut client = Client::over(connection.map_err(|e| e.to_string())?);
        while client.fib().map_err(|e| e.to_string())?.iter().all(|entry| entry.prefix != prefix) {
            if begun.elapsed() > PATIENCE {
                return Err(format!("no route to {prefix} appears"));
            }
            std::thread::sleep(REPEATED_AFTER);
        }
        Ok(())
    }

    /// A step of the harness itself.
    fn own(&mut self, text: &str, faulty: &mut Vec<FaultyProducer>) -> Result<String, String> {
        let parts: Vec<&str> = text.split(' ').collect();
        match parts[..] {
            ["sleep", ms] => {
                std::thread::sleep(Duration::from_millis(
                    ms.parse().map_err(|_| "no number of milliseconds")?,
                ));
                Ok("ok".into())
            }
            ["kill", who] => {
                let (mut driver, _) = self.drivers.remove(who).ok_or("there is no such driver")?;
                driver.kill();
                Ok("ok".into())
            }
            ["serve", name, content, fault, signing @ ("manifest" | "packets")] => {
                let name: Name = name.parse().map_err(|e| format!("{e}"))?;
                let content = content::parse(content).ok_or("no content")?;
                let fault = Fault::parse(fault).ok_or("no fault")?;
                let per_packet = signing == "packets";
                let place = self.place;
                let served =
                    FaultyProducer::start(&place.router, place.home, &name, &content, fault, per_packet)?;
                let answer = format!("ok {}", served.object);
                faulty.push(served);
                Ok(answer)
            }
            ["certify", name, seconds] => {
                let name: Name = name.parse().map_err(|e| format!("{e}"))?;
                let seconds = seconds.parse().map_err(|_| "no number of seconds")?;
                certify(self.place.home, &name, seconds)?;
                Ok("ok".into())
            }
            _ => Err("the harness has no such step".into()),
        }
    }

    /// The driver of `who`, started if it does not run.
    fn driver(&mut self, who: &str) -> Result<&mut (Driver, Vec<String>), String> {
        if !self.drivers.contains_key(who) {
            let binding = if who.starts_with('P') { self.producers } else { self.consumers };
            let mut command = (binding.command)();
            command
                .current_dir(self.place.dir)
                .env("HOME", self.place.home)
                .env("NAMELY_HOME", self.place.home)
                .env("NAMELY_ROUTER", &self.place.router)
                .env_remove("NDN_CLIENT_TRANSPORT")
                .env_remove("XDG_RUNTIME_DIR");
            self.started += 1;
            let log = format!("{}-{}-{who}-{}.log", self.producers.name, self.consumers.name, self.started);
            let mut driver = Driver::start(command, PathBuf::from(self.place.dir).join(log))?;
            let hello = driver.ask("hello")?;
            let features = match hello.split(' ').collect::<Vec<_>>()[..] {
                ["ok", _, features] => features.split(',').map(String::from).collect(),
                _ => return Err(format!("{who} answers '{hello}' to hello")),
            };
            self.drivers.insert(who.into(), (driver, features));
        }
        self.drivers.get_mut(who).ok_or_else(|| "no driver".into())
    }
}

//! Observes the effects of an attack other than its cost for the honest load: the MTU of the group,
//! the VIPs that the virtual plane accepted, and the control characters that reached a terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use namely_testbed::Interrupt;
use namely_vip::limits::OFFERS_MAX;
use namely_wire::text::is_obeyed;
use serde_json::Value;

use super::kind::{Attack, AttackerCounts};
use super::lan::{DEVICE, GROUP};
use super::plane::OBJECTS_PER_SLOT;
use super::world::{ATTACKER_GRACE, Link, Namely, World, counter_in};
use crate::error::Error;

/// Interval between two requests to a router.
const PAUSE: Duration = Duration::from_millis(20);

/// A thread that observes the router during an attack.
pub(super) struct Witness {
    attack: Attack,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<AttackerCounts>,
}

impl Witness {
    /// Starts a witness for each part of `attack` that has such an effect.
    pub(super) fn start(world: &World, attack: Attack, interrupt: &Interrupt) -> Vec<Self> {
        attack.parts().into_iter().filter_map(|part| Self::of(world, part, interrupt)).collect()
    }

    fn of(world: &World, attack: Attack, interrupt: &Interrupt) -> Option<Self> {
        let router = Router { namely: world.namely(Link::Unix), attack, interrupt: interrupt.clone() };
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = match attack {
            Attack::Mtu if world.addresses.segment.is_some() => {
                std::thread::spawn(move || router.group_mtu(&over))
            }
            Attack::Challenges if world.addresses.segment.is_some() => {
                std::thread::spawn(move || router.counted(&over, &["discovery.other_network"]))
            }
            Attack::Unsigned => {
                let neighbors = world.neighbors.clone()?;
                std::thread::spawn(move || {
                    let before = router.counters();
                    let mut seen = neighbors.exchange(&over);
                    seen.extend(router.risen(&before, &["vip.bad_signature", "vip.rate_limited"]));
                    seen
                })
            }
            Attack::Offers if world.addresses.plane.is_some() => {
                std::thread::spawn(move || router.offered(&over))
            }
            Attack::Escapes => {
                let (liar, name) = (world.at(format!("tcp://{}", world.addresses.liar)), world.strange());
                std::thread::spawn(move || router.terminal(&liar, &name, &over))
            }
            _ => return None,
        };
        Some(Witness { attack, is_over, thread })
    }

    /// Ends the thread, and adds its counts to `sent`.
    pub(super) fn finish(self, sent: &mut AttackerCounts) -> Result<(), Error> {
        self.is_over.store(true, Ordering::Relaxed);
        let seen = self.thread.join().map_err(|_| Error::Subject("a witness has ended".to_owned()))?;
        sent.extend(seen.into_iter().map(|(what, count)| (format!("{}.{what}", self.attack.name()), count)));
        Ok(())
    }
}

/// The router under attack, which a witness observes by commands of `namely`.
struct Router {
    namely: Namely,
    attack: Attack,
    interrupt: Interrupt,
}

impl Router {
    /// Runs a command and parses its output, one JSON value per line. Returns an empty list if it
    /// fails.
    fn query(&self, arguments: &[&str]) -> Vec<Value> {
        let output = self.namely.dir().join(format!("witness-{}", self.attack.name()));
        let printed =
            self.namely.query(arguments, &output, ATTACKER_GRACE, &self.interrupt).unwrap_or_default();
        printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn counters(&self) -> Vec<Value> {
        self.query(&["--json", "status", "--counters"])
    }

    /// Returns the rise of counters since `before`, keyed by the last component of their labels.
    fn risen(&self, before: &[Value], labels: &[&str]) -> AttackerCounts {
        let now = self.counters();
        let of = |all: &[Value], label: &str| counter_in(all, label).unwrap_or(0);
        let risen = |label: &&str| of(&now, label).saturating_sub(of(before, label));
        labels
            .iter()
            .map(|label| (label.rsplit('.').next().unwrap_or(label).to_owned(), risen(label)))
            .collect()
    }

    fn counted(&self, is_over: &AtomicBool, labels: &[&str]) -> AttackerCounts {
        let before = self.counters();
        self.wait(is_over);
        self.risen(&before, labels)
    }

    fn wait(&self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) && self.interrupt.sleep(PAUSE).is_ok() {}
    }

    /// Returns the smallest observed MTU of the face to the group, the number of observations, and
    /// the rise of the counter of hellos.
    fn group_mtu(&self, is_over: &AtomicBool) -> AttackerCounts {
        let before = self.counters();
        let (mut smallest, mut observations) = (u64::MAX, 0);
        while !is_over.load(Ordering::Relaxed) && self.interrupt.sleep(PAUSE).is_ok() {
            let faces = self.query(&["--json", "face", "list"]);
            let is_group =
                |face: &&Value| face["remote"] == GROUP && face["local"] == format!("dev://{DEVICE}");
            let mtu = faces.iter().find(is_group).and_then(|face| face["mtu"].as_u64());
            observations += u64::from(mtu.is_some());
            smallest = smallest.min(mtu.unwrap_or(u64::MAX));
        }
        let mut seen = self.risen(&before, &["discovery.hellos_heard"]);
        seen.extend([("group_mtu_min".to_owned(), smallest), ("looks".to_owned(), observations)]);
        seen
    }

    /// Returns the VIPs that the plane accepted, in percent of the capacity of the neighbor's link.
    /// The capacity covers the elapsed slots, and the slots that the neighbor may save up.
    fn offered(&self, is_over: &AtomicBool) -> AttackerCounts {
        let before = self.counters();
        self.wait(is_over);
        let objects = self.query(&["--json", "vip", "objects"]);
        let taken: f64 = objects.iter().filter_map(|object| object["score"].as_f64()).sum();
        let mut seen = self.risen(&before, &["vip.slots", "vip.offers_heard", "vip.offer_cut"]);
        let slots = seen.get("slots").copied().unwrap_or(0) + OFFERS_MAX as u64;
        let percent = 100.0 * taken / (slots as f64 * OBJECTS_PER_SLOT);
        seen.insert("percent_of_link".to_owned(), percent.ceil() as u64);
        seen
    }

    /// Runs commands repeatedly at the router and at a lying one. Counts the control characters of
    /// their output that a terminal would interpret.
    fn terminal(&self, liar: &Namely, name: &str, is_over: &AtomicBool) -> AttackerCounts {
        let target = self.namely.dir().join("strange");
        let target = target.to_string_lossy();
        let honest: [&[&str]; 4] = [
            &["ls", name],
            &["ls", name, "--long"],
            &["get", name, "--recursive", "--dry-run", &target],
            &["get", name, "--recursive", "--delete", "--max-delete=1000000", &target],
        ];
        let lies: [&[&str]; 3] = [
            &["route", "add", "/a", "1"],
            &["cs", "erase", "/a"],
            &["face", "create", "udp4://192.0.2.1:6363"],
        ];
        let (mut commands, mut obeyed, mut names, mut quoted) = (0u64, 0u64, 0u64, 0u64);
        loop {
            let run = |namely: &Namely, arguments: &[&str]| {
                namely.output_of(arguments, ATTACKER_GRACE, &self.interrupt)
            };
            let of_lies = lies.iter().map(|arguments| run(liar, arguments));
            let of_names = honest.iter().map(|arguments| run(&self.namely, arguments));
            for output in of_lies.chain(of_names) {
                commands += 1;
                obeyed += output.chars().filter(|c| is_obeyed(*c) && *c != '\n').count() as u64;
                names += u64::from(output.contains("gpj.sh"));
                quoted += u64::from(output.contains("\\u{1b}]0;owned\\u{7}\\r\\nerror: none"));
            }
            if is_over.load(Ordering::Relaxed) || self.interrupt.check().is_err() {
                break;
            }
        }
        let counts = [("commands", commands), ("obeyed", obeyed), ("names", names), ("quoted", quoted)];
        counts.map(|(what, count)| (what.to_owned(), count)).into()
    }
}

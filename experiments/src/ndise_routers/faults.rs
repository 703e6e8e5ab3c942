//! Faults under load: the router in the middle of a line is killed and starts again, or the link
//! before it goes down and comes up again. The consumers' rates are measured before, meanwhile and
//! after.

use std::time::{Duration, Instant};

use namely_bench::error::Error;
use namely_bench::output;
use namely_sim::table::Table;
use namely_testbed::Interrupt;
use namely_testbed::file::EventAction;
use serde_json::json;

use super::line::{Rates, RouterChain};
use super::network::error;
use super::throughput::median;

const CONSUMERS: usize = 6;

/// Packets of an object. A consumer reads an object in a second or two.
const PACKETS: u64 = 128;

/// Maximum time for consumers to complete their current object at the end: a lost Interest is sent
/// again after two seconds.
const GRACE: Duration = Duration::from_secs(30);

/// A fault, and the action that ends it.
const FAULTS: [(&str, EventAction<'static>, EventAction<'static>); 2] = [
    ("router killed", EventAction::Kill("n1"), EventAction::Start("n1")),
    ("link down", EventAction::Down("n0-n1"), EventAction::Up("n0-n1")),
];

/// The result of a run.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// The rate before, during and after the fault.
    bps: [f64; 3],
    /// Time from the end of the fault to the first octets.
    back_s: f64,
    finished: usize,
    objects: u64,
    retransmissions: u64,
    wrong: u64,
}

/// The parameters of the experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    pub(super) rate_bps: u64,
    pub(super) runs: u64,
    /// Duration of each of the three parts.
    pub(super) third: Duration,
    pub(super) has_lines: bool,
}

impl Faults {
    /// Runs all, and prints lines or a table.
    pub(super) fn run(&self, interrupt: &Interrupt) -> Result<(), Error> {
        let mut rows = FAULTS.map(|(label, ..)| (label, Vec::new()));
        for run in 1..=self.runs {
            for ((label, begin, end), (_, outcomes)) in FAULTS.into_iter().zip(&mut rows) {
                let outcome = self.once(begin, end, interrupt)?;
                if self.has_lines {
                    output::line(self.line(label, run, &outcome));
                }
                outcomes.push(outcome);
            }
        }
        if !self.has_lines {
            output::line(format_args!("\n{}", table(&rows)));
        }
        Ok(())
    }

    fn once(
        &self,
        begin: EventAction<'_>,
        end: EventAction<'_>,
        interrupt: &Interrupt,
    ) -> Result<Outcome, Error> {
        let folder = tempfile::tempdir().map_err(|e| Error::environment("cannot make a folder", e))?;
        let line = RouterChain { routers: 3, rate_bps: self.rate_bps, room: CONSUMERS as u64 * PACKETS };
        let mut lab = line.build(&folder.path().join("lab"), interrupt)?;
        let ((bps, back_s), got) =
            line.load(&mut lab, CONSUMERS, PACKETS, GRACE, interrupt, |lab, counts| {
                // The measurement skips the first round trips.
                interrupt.sleep(Duration::from_millis(500))?;
                let before = Rates::watch(counts, self.third, interrupt)?;
                lab.perform(begin).map_err(error)?;
                // Lets the packets under way arrive.
                interrupt.sleep(Duration::from_millis(300))?;
                let meanwhile = Rates::watch(counts, self.third, interrupt)?;
                lab.perform(end).map_err(error)?;
                let ended = Instant::now();
                let sum = || counts.iter().map(|n| n.load(std::sync::atomic::Ordering::Relaxed)).sum::<u64>();
                let known = sum();
                while sum() == known && ended.elapsed() < GRACE {
                    interrupt.sleep(Duration::from_millis(10))?;
                }
                let back_s = ended.elapsed().as_secs_f64();
                let after = Rates::watch(counts, self.third, interrupt)?;
                Ok(([before, meanwhile, after].map(|rates| rates.mean_bps), back_s))
            })?;
        Ok(Outcome {
            bps,
            back_s,
            finished: got.iter().filter(|got| got.has_finished).count(),
            objects: got.iter().map(|got| got.objects).sum(),
            retransmissions: got.iter().map(|got| got.retransmissions).sum(),
            wrong: got.iter().map(|got| got.wrong).sum(),
        })
    }

    fn line(&self, label: &str, run: u64, outcome: &Outcome) -> serde_json::Value {
        let Outcome { bps: [before, meanwhile, after], .. } = outcome;
        json!({
            "experiment": "faults", "fault": label, "run": run, "consumers": CONSUMERS,
            "link_bps": self.rate_bps, "third_s": self.third.as_secs_f64(), "before_bps": before,
            "meanwhile_bps": meanwhile, "after_bps": after, "back_s": outcome.back_s,
            "finished": outcome.finished, "objects": outcome.objects,
            "retransmissions": outcome.retransmissions, "wrong": outcome.wrong,
        })
    }
}

fn table(rows: &[(&str, Vec<Outcome>)]) -> String {
    let heads =
        ["faults, Mbit/s", "before", "meanwhile", "after", "back after s", "finished", "again", "wrong"];
    let mut table = Table::new(&heads);
    for (label, outcomes) in rows {
        let mbps = |i: usize| format!("{:.1}", median(outcomes, |of| of.bps[i]) / 1e6);
        let least = outcomes.iter().map(|of| of.finished).min().unwrap_or(0);
        table.row([
            (*label).to_owned(),
            mbps(0),
            mbps(1),
            mbps(2),
            format!("{:.2}", median(outcomes, |of| of.back_s)),
            format!("{least} of {CONSUMERS}"),
            format!("{:.0}", median(outcomes, |of| of.retransmissions as f64)),
            outcomes.iter().map(|of| of.wrong).sum::<u64>().to_string(),
        ]);
    }
    table.text()
}

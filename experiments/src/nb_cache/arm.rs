//! The paper's cases, as options of a router.

use clap::ValueEnum;
use clap::builder::PossibleValue;

/// Time of a request to the paper's SSD in one thread, us (Table II, case A).
const SSD_US: f64 = 193.4;

/// Requests per second of the paper's HDD (Fig. 2). Its one arm serves them one after the other.
const HDD_PER_S: f64 = 414.0;

/// Interval at which congested routers announce their congestion, ms.
const ANNOUNCE_MS: u32 = 10;

/// A threshold that is never reached.
pub(super) const NO_THRESHOLD: usize = 1_000_000;

/// A case of the paper that this experiment runs with real routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Waits for its disk; no filter before the index.
    A,
    /// Both bypasses, and never waits for its disk.
    B,
    /// As A, with the filter.
    C,
    /// As B, without the second-stage bypass.
    D,
    /// A, whose routers mark by the threshold.
    AEcn,
    /// B, whose routers mark by the threshold.
    BEcn,
    /// B, whose routers announce congestion and mark lazily.
    BNbCc,
}

impl Arm {
    /// All of them, as the paper lists them.
    pub(super) const ALL: [Arm; 7] = [Arm::A, Arm::B, Arm::C, Arm::D, Arm::AEcn, Arm::BEcn, Arm::BNbCc];

    /// Its name in the paper.
    pub(super) fn label(self) -> &'static str {
        match self {
            Arm::A => "A",
            Arm::B => "B",
            Arm::C => "C",
            Arm::D => "D",
            Arm::AEcn => "A+ECN",
            Arm::BEcn => "B+ECN",
            Arm::BNbCc => "B+NB-CC",
        }
    }

    /// Returns true if the router blocks on its disk. Packets for the router then wait in a queue
    /// of their own, whose length counts for marks.
    pub(super) fn blocks(self) -> bool {
        matches!(self, Arm::A | Arm::C | Arm::AEcn)
    }

    /// Returns true if its consumer has a window. Otherwise it sends at a rate.
    pub(super) fn has_window(self) -> bool {
        matches!(self, Arm::AEcn | Arm::BEcn | Arm::BNbCc)
    }

    /// Returns true if the arm reacts at the threshold.
    fn has_threshold(self) -> bool {
        matches!(self, Arm::B | Arm::AEcn | Arm::BEcn | Arm::BNbCc)
    }
}

impl ValueEnum for Arm {
    fn value_variants<'a>() -> &'a [Self] {
        &Arm::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.label()))
    }
}

/// The disk of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Disk {
    /// The paper's SSD, slowed as all else is.
    Ssd,
    /// Its HDD.
    Hdd,
    /// The available disk, limited by the kernel to as many requests for each router.
    Throttled,
    /// The available disk.
    Own,
}

impl Disk {
    pub(super) fn label(self) -> &'static str {
        match self {
            Disk::Ssd => "SSD",
            Disk::Hdd => "HDD",
            Disk::Throttled => "HDD by kernel",
            Disk::Own => "own disk",
        }
    }
}

/// Requests per second of the HDD, slowed by the factor of the run.
fn hdd_per_s(slower: f64) -> u32 {
    (HDD_PER_S / slower).round().max(1.0) as u32
}

/// The way in which Data is written to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Writes {
    /// Many at once, as namelyd does.
    Grouped,
    /// Each by a request of its own, as the paper's prototype does.
    Alone,
}

/// One row of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) arm: Arm,
    pub(super) threshold: usize,
    pub(super) threads: usize,
    pub(super) disk: Disk,
    pub(super) writes: Writes,
    /// Delay from the end of a read to its report to the router, ms, before the run's factor slows
    /// it. A router that blocks on its disk has no such delay.
    pub(super) heard_late_ms: f64,
}

impl Case {
    /// The paper's defaults: the threshold of 64, an SSD.
    pub(super) fn new(arm: Arm) -> Self {
        Case { arm, threshold: 64, threads: 4, disk: Disk::Ssd, writes: Writes::Grouped, heard_late_ms: 0.0 }
    }

    /// Returns the properties of the paper's prototype that `namelyd` lacks, as options of the
    /// router that this program runs in place of `namelyd`. Returns `None` if there are none.
    pub(super) fn prototype(&self, slower: f64) -> Option<Vec<String>> {
        let late_us = (self.heard_late_ms * slower * 1e3).round() as u64;
        let parts = [
            self.arm.blocks().then(|| "--blocks".to_owned()),
            (self.writes == Writes::Alone).then(|| "--writes-alone".to_owned()),
            (late_us > 0 && !self.arm.blocks()).then(|| format!("--heard-late-us={late_us}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then_some(parts)
    }

    /// Returns `[cs.disk]` of each router, without its folder. Each request takes `slower` times as
    /// long as in the paper.
    pub(super) fn config(&self, slower: f64) -> String {
        let threshold = if self.arm.has_threshold() { self.threshold } else { NO_THRESHOLD };
        let marking = match self.arm {
            Arm::AEcn | Arm::BEcn => "threshold",
            Arm::BNbCc => "lazy",
            _ => "never",
        };
        let announce_ms = if self.arm == Arm::BNbCc { ANNOUNCE_MS } else { 0 };
        let filter = if matches!(self.arm, Arm::A | Arm::AEcn) { "none" } else { "cuckoo" };
        format!(
            "octets_max = \"64MiB\"\nadmission = \"all\"\nread_ahead = false\nengine = \"threads\"\nthreads = {}\n\
             threshold = {threshold}\nmarking = \"{marking}\"\nannounce_ms = {announce_ms}\nfilter = \"{filter}\"\n{}",
            self.threads,
            self.slow(slower)
        )
    }

    /// Returns the requests per second that the kernel admits to the disk of each router, if the
    /// case uses this limit.
    pub(super) fn throttled_per_s(&self, slower: f64) -> Option<u32> {
        (self.disk == Disk::Throttled).then(|| hdd_per_s(slower))
    }

    /// As in the simulator, each further thread slows all of them by a third of the time that one
    /// takes alone: four threads together do twice the work of one.
    fn slow(&self, slower: f64) -> String {
        match self.disk {
            Disk::Own | Disk::Throttled => String::new(),
            Disk::Hdd => format!("slow = \"{}/s\"\n", hdd_per_s(slower)),
            Disk::Ssd if self.arm.blocks() => format!("slow = \"{:.0}us\"\n", SSD_US * slower),
            Disk::Ssd => {
                let of_each = SSD_US * (self.threads as f64 + 2.0) / 3.0;
                format!("slow = \"{:.0}us\"\n", of_each * slower)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_matches_the_papers_parts() {
        let config = |arm| Case::new(arm).config(4.0);
        assert!(config(Arm::A).contains("filter = \"none\"") && config(Arm::C).contains("cuckoo"));
        assert!(config(Arm::D).contains("threshold = 1000000") && config(Arm::B).contains("threshold = 64"));
        assert!(
            config(Arm::BNbCc).contains("announce_ms = 10") && config(Arm::BEcn).contains("\"threshold\"")
        );
        assert!(config(Arm::A).contains("\"774us\"") && config(Arm::B).contains("\"1547us\""));
        assert!(config(Arm::AEcn).contains("threshold = 64") && config(Arm::AEcn).contains("\"threshold\""));
        let slow = Case { disk: Disk::Hdd, ..Case::new(Arm::B) };
        assert!(slow.config(4.0).contains("\"104/s\""), "{}", slow.config(4.0));
    }

    #[test]
    fn missing_namelyd_parts_need_the_prototype() {
        let prototype = |case: Case| case.prototype(4.0).map(|parts| parts.join(" "));
        assert_eq!(prototype(Case::new(Arm::B)), None);
        let as_paper = |arm| Case { writes: Writes::Alone, heard_late_ms: 12.5, ..Case::new(arm) };
        assert_eq!(prototype(as_paper(Arm::B)).as_deref(), Some("--writes-alone --heard-late-us=50000"));
        assert_eq!(prototype(as_paper(Arm::AEcn)).as_deref(), Some("--blocks --writes-alone"));
    }
}

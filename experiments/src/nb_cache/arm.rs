//! The paper's cases, as options of a router.

use clap::ValueEnum;
use clap::builder::PossibleValue;

/// The paper's SSD takes so long for a request in one thread, us (its Table II, case A).
const SSD_US: f64 = 193.4;

/// Its HDD does so many requests a second (its Fig. 2), one after the other: it has one arm.
const HDD_PER_S: f64 = 414.0;

/// How often busy routers say so, ms.
const ANNOUNCE_MS: u32 = 10;

/// A threshold that is never reached.
pub(super) const NO_THRESHOLD: usize = 1_000_000;

/// A case of the paper that real routers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// Waits for its disk; no filter before the index.
    A,
    /// Both bypasses, and waits for nothing.
    B,
    /// As A, with the filter.
    C,
    /// As B, without the second-stage bypass.
    D,
    /// B, whose routers mark by the threshold.
    BEcn,
    /// B, whose routers announce congestion and mark lazily.
    BNbCc,
}

impl Arm {
    /// All of them, as the paper lists them. A+ECN is the simulator's alone: what waits in front of
    /// a router that waits for its disk lies in sockets, where no router counts it.
    pub(super) const ALL: [Arm; 6] = [Arm::A, Arm::B, Arm::C, Arm::D, Arm::BEcn, Arm::BNbCc];

    /// Its name in the paper.
    pub(super) fn label(self) -> &'static str {
        match self {
            Arm::A => "A",
            Arm::B => "B",
            Arm::C => "C",
            Arm::D => "D",
            Arm::BEcn => "B+ECN",
            Arm::BNbCc => "B+NB-CC",
        }
    }

    /// Whether the router waits for its disk: `namelyd` never does, so that this program hosts it.
    pub(super) fn blocks(self) -> bool {
        matches!(self, Arm::A | Arm::C)
    }

    /// Whether its consumer has a window; otherwise it asks at a rate.
    pub(super) fn has_window(self) -> bool {
        matches!(self, Arm::BEcn | Arm::BNbCc)
    }

    fn bypasses(self) -> bool {
        matches!(self, Arm::B | Arm::BEcn | Arm::BNbCc)
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

/// What a router's disk stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Disk {
    /// The paper's SSD, slowed as all else is.
    Ssd,
    /// Its HDD.
    Hdd,
    /// The disk that there is, of which the kernel gives each router as many requests.
    Throttled,
    /// The disk that there is.
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

/// Requests a second of an HDD that is slowed as all else is.
fn hdd_per_s(slower: f64) -> u32 {
    (HDD_PER_S / slower).round().max(1.0) as u32
}

/// One row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) arm: Arm,
    pub(super) threshold: usize,
    pub(super) threads: usize,
    pub(super) disk: Disk,
}

impl Case {
    /// The paper's defaults: the threshold of 64, an SSD.
    pub(super) fn new(arm: Arm) -> Self {
        Case { arm, threshold: 64, threads: 4, disk: Disk::Ssd }
    }

    /// `[cs.disk]` of each router, without its folder; all takes `slower` times as long as the
    /// paper's.
    pub(super) fn config(&self, slower: f64) -> String {
        let threshold = if self.arm.bypasses() { self.threshold } else { NO_THRESHOLD };
        let marking = match self.arm {
            Arm::BEcn => "threshold",
            Arm::BNbCc => "lazy",
            _ => "never",
        };
        let announce_ms = if self.arm == Arm::BNbCc { ANNOUNCE_MS } else { 0 };
        let filter = if self.arm == Arm::A { "none" } else { "cuckoo" };
        format!(
            "octets_max = \"64MiB\"\nadmission = \"all\"\nread_ahead = false\nengine = \"threads\"\nthreads = {}\n\
             threshold = {threshold}\nmarking = \"{marking}\"\nannounce_ms = {announce_ms}\nfilter = \"{filter}\"\n{}",
            self.threads,
            self.slow(slower)
        )
    }

    /// What the kernel lets each router have of the disk a second, if it is to limit that.
    pub(super) fn throttled_per_s(&self, slower: f64) -> Option<u32> {
        (self.disk == Disk::Throttled).then(|| hdd_per_s(slower))
    }

    /// As in the simulator, each further thread makes all slower by a third of what one takes
    /// alone: four together do twice what one does.
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
    fn each_case_has_the_parts_that_the_paper_gives_it() {
        let config = |arm| Case::new(arm).config(4.0);
        assert!(config(Arm::A).contains("filter = \"none\"") && config(Arm::C).contains("cuckoo"));
        assert!(config(Arm::D).contains("threshold = 1000000") && config(Arm::B).contains("threshold = 64"));
        assert!(
            config(Arm::BNbCc).contains("announce_ms = 10") && config(Arm::BEcn).contains("\"threshold\"")
        );
        assert!(config(Arm::A).contains("\"774us\"") && config(Arm::B).contains("\"1547us\""));
        let slow = Case { disk: Disk::Hdd, ..Case::new(Arm::B) };
        assert!(slow.config(4.0).contains("\"104/s\""), "{}", slow.config(4.0));
    }
}

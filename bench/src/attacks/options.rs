//! Options of `attacks`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::kind::Attack;
use crate::subject::SubjectName;

/// Options of `attacks`.
#[derive(Debug, Args)]
pub struct Attacks {
    /// The attacks to run; all if not given
    #[arg(long, value_delimiter = ',')]
    pub attack: Vec<Attack>,
    /// The routers under attack: namely, nfd, ndnd
    #[arg(long, value_delimiter = ',', default_value = "namely")]
    pub subject: Vec<SubjectName>,
    /// Runs of each attack at each router
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Duration of an attack, seconds; the quiet time before it lasts half as long [default: 10;
    /// with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: Option<u64>,
    /// Time for which the router is observed afterwards, seconds [default: 10; with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub after: Option<u64>,
    /// After the attack, run as many processes as there were attackers, for as long and with as
    /// much CPU time, that send nothing: their cost is the machine's and not the router's
    #[arg(long)]
    pub spin: bool,
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// A small object and short attacks: shows what is kept and lost, not how fast it is
    #[arg(long)]
    pub quick: bool,
    /// Directory of objects, outputs and sockets; memory (/dev/shm) if not given
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Stay in the present network namespace even if root
    #[arg(long)]
    pub no_namespace: bool,
}

impl Attacks {
    /// Returns the selected attacks, each once, `all` last.
    pub(super) fn attacks(&self) -> impl Iterator<Item = Attack> {
        let wanted = |attack: &Attack| self.attack.is_empty() || self.attack.contains(attack);
        Attack::value_variants().iter().copied().filter(wanted)
    }

    /// Returns the selected subjects, each once. A relay is not a router.
    pub(super) fn subjects(&self) -> impl Iterator<Item = SubjectName> {
        let wanted = |name: &SubjectName| *name != SubjectName::Relay && self.subject.contains(name);
        SubjectName::value_variants().iter().copied().filter(wanted)
    }

    /// Returns the size of the object that is fetched repeatedly.
    pub(super) fn object_octets(&self) -> u64 {
        if self.quick { 2_000_000 } else { 20_000_000 }
    }

    pub(super) fn attack(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(if self.quick { 3 } else { 10 }))
    }

    pub(super) fn quiet(&self) -> Duration {
        self.attack() / 2
    }

    pub(super) fn recovery(&self) -> Duration {
        Duration::from_secs(self.after.unwrap_or(if self.quick { 3 } else { 10 }))
    }
}

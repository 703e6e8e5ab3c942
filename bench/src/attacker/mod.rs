//! The attackers. Each is a process of its own. It attacks one router over real sockets for a
//! limited time, prints its counts, and ends.
//!
//! An attacker sends to the configured router only. The number of its packets is limited, too.

mod datagrams;
mod escapes;
mod local;
mod pace;
mod plane;
mod stations;
mod streams;
mod target;

use std::io;
use std::time::Duration;

use clap::Args;

pub use self::pace::AttackCounts;
use self::pace::{End, STEP};
use crate::attacks::{Attack, RouterAddresses};
use crate::error::Error;
use crate::machine::cpu_time;
use crate::output;

/// Options of one attacker's process.
#[derive(Debug, Args)]
pub struct Attacker {
    /// The attack
    pub attack: Attack,
    /// Description of the router, as JSON
    #[arg(long)]
    pub place: String,
    /// Duration of the attack, ms
    #[arg(long)]
    pub length_ms: u64,
}

/// Options of a process that only consumes CPU time.
#[derive(Debug, Args)]
pub struct Spinner {
    /// CPU time to consume, ms, spread evenly
    #[arg(long)]
    pub cpu_ms: u64,
    /// Duration, ms
    #[arg(long)]
    pub length_ms: u64,
}

/// User that is neither root nor the router's owner. This process switches to it if permitted.
const NOBODY: u32 = 65_534;

/// Label of an attacker's own CPU time.
pub(crate) const CPU_MS: &str = "cpu_ms";

/// Attacks, and prints the counts as one line of JSON.
pub fn run(options: &Attacker) -> Result<(), Error> {
    let addresses: RouterAddresses = serde_json::from_str(&options.place)
        .map_err(|e| Error::Usage(format!("--place is no description of a router: {e}")))?;
    let end = End::after(Duration::from_millis(options.length_ms));
    raise_descriptors();
    let is_other_user = !options.attack.needs_root() && switch_user();
    let mut done = attack(options.attack, &addresses, &end)
        .map_err(|e| Error::environment(format!("cannot attack ({})", options.attack.name()), e))?;
    done.insert("as_other_user", u64::from(is_other_user));
    done.insert(CPU_MS, cpu_time().as_millis() as u64);
    let text = serde_json::to_string(&done).map_err(|e| Error::environment("cannot print", e))?;
    output::line(text);
    Ok(())
}

/// Consumes as much CPU time as an attacker did, and sends nothing.
pub fn spin(options: &Spinner) {
    let end = End::after(Duration::from_millis(options.length_ms));
    switch_user();
    let part = options.cpu_ms as f64 / options.length_ms.max(1) as f64;
    while end.is_ahead() {
        let due = end.started.elapsed().as_secs_f64() * part;
        while cpu_time().as_secs_f64() < due && end.is_ahead() {
            (0..1000).for_each(|_| std::hint::spin_loop());
        }
        end.sleep(STEP);
    }
}

fn attack(attack: Attack, addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    match attack {
        Attack::Pit => datagrams::pit(addresses, end),
        Attack::Faces => datagrams::faces(addresses, end),
        Attack::Poison => datagrams::poison(addresses, end),
        Attack::Fragments => datagrams::fragments(addresses, end),
        Attack::Reflection => datagrams::reflection(addresses, end),
        Attack::Readers => streams::readers(addresses, end),
        Attack::Handshakes => streams::handshakes(addresses, end),
        Attack::Descriptors => local::descriptors(addresses, end),
        Attack::Commands => local::commands(addresses, end),
        Attack::Memory => local::memory(addresses, end),
        Attack::Target => target::target(addresses, end),
        Attack::Reports => local::reports(addresses, end),
        Attack::Silent | Attack::Refusing | Attack::Lying => stations::neighbor(attack, addresses, end),
        Attack::Mtu => stations::mtu(addresses, end),
        Attack::Challenges => stations::challenges(addresses, end),
        Attack::Unsigned => plane::unsigned(addresses, end),
        Attack::Offers => plane::offers(addresses, end),
        Attack::Escapes => escapes::escapes(addresses, end),
        Attack::All => Err(io::Error::other("each attack has a process of its own")),
    }
}

/// Raises the limit of descriptors, because an attack holds thousands of sockets.
fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If the limit cannot be raised, the attack has fewer sockets.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Switches this process, which has one thread, to another user if permitted.
fn switch_user() -> bool {
    let uid = rustix::process::Uid::from_raw(NOBODY);
    rustix::process::geteuid().is_root() && rustix::thread::set_thread_uid(uid).is_ok()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_spinner_takes_its_processor_share() {
        // A busy machine may not let it run so long.
        namely_testkit::eventually("it takes half of the time that is asked for", || {
            let (before, started) = (cpu_time(), Instant::now());
            // The spinner counts the CPU time of the whole process, so the request includes the
            // time that the process consumed before.
            let cpu_ms = before.as_millis() as u64 + 20;
            spin(&Spinner { cpu_ms, length_ms: 200 });
            assert!(started.elapsed() >= Duration::from_millis(200));
            cpu_time() - before >= Duration::from_millis(10)
        });
    }

    #[test]
    fn a_spread_completes_and_counts_only_successes() {
        let end = End::after(Duration::from_secs(60));
        let mut order = Vec::new();
        let done = end.spread(100, 0.001, |n| {
            order.push(n);
            if n % 4 == 0 { Err(io::Error::other("no")) } else { Ok(()) }
        });
        assert_eq!((done, order), (75, (0..100).collect()));
    }

    #[test]
    fn a_spread_after_the_end_does_nothing() {
        let end = End::after(Duration::ZERO);
        assert_eq!(end.spread(100, 1.0, |_| Ok(())), 0);
    }
}

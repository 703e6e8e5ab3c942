//! The pace of an attack: its end, its steps and its counts.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Sleep of an attacker between two portions of packets.
pub(super) const STEP: Duration = Duration::from_millis(5);

/// Counts of an attack, by name.
pub type AttackCounts = BTreeMap<&'static str, u64>;

/// The end of an attack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(super) started: Instant,
    pub(super) length: Duration,
}

impl End {
    pub(super) fn after(length: Duration) -> Self {
        End { started: Instant::now(), length }
    }

    /// Returns true while there is time left.
    pub(super) fn is_ahead(&self) -> bool {
        self.started.elapsed() < self.length
    }

    /// Sleeps for `time`, at most until the end.
    pub(super) fn sleep(&self, time: Duration) {
        std::thread::sleep(time.min(self.length.saturating_sub(self.started.elapsed())));
    }

    /// Waits until the end.
    pub(super) fn wait(&self) {
        self.sleep(self.length);
    }

    /// Calls `each` up to `total` times, spread evenly over `share` of the time. Returns the number
    /// of calls that succeeded before the end.
    pub(super) fn spread(&self, total: u64, share: f64, mut each: impl FnMut(u64) -> io::Result<()>) -> u64 {
        let length = self.length.mul_f64(share).max(STEP);
        let (started, mut next, mut done) = (Instant::now(), 0, 0);
        while next < total && self.is_ahead() {
            let part = started.elapsed().as_secs_f64() / length.as_secs_f64();
            let due = ((part * total as f64) as u64 + 1).min(total);
            while next < due && self.is_ahead() {
                done += u64::from(each(next).is_ok());
                next += 1;
            }
            self.sleep(STEP);
        }
        done
    }
}

/// Returns a Nonce that differs between consecutive numbers.
pub(super) fn nonce(number: u64) -> [u8; 4] {
    (number as u32).wrapping_mul(0x9e37_79b9).wrapping_add(std::process::id()).to_be_bytes()
}

pub(super) fn name(uri: &str) -> io::Result<namely_wire::Name> {
    uri.parse().map_err(|e| io::Error::other(format!("{uri} is not a name: {e}")))
}

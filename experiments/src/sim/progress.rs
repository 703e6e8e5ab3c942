//! The progress of a run, in a line at a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Cells of the bar.
const CELLS: u64 = 24;

/// A line at standard error, if that is a terminal.
pub(super) struct Progress {
    began: Instant,
    end_ns: u64,
    is_shown: bool,
}

impl Progress {
    pub(super) fn new(end_ns: u64) -> Self {
        Progress { began: Instant::now(), end_ns, is_shown: stderr().is_terminal() }
    }

    /// Shows the virtual time and the rate of events.
    pub(super) fn show(&self, now_ns: u64, events: u64) {
        if self.is_shown {
            // A closed terminal ends nothing.
            let _ = write!(stderr(), "\r\x1b[K{}", line(now_ns, self.end_ns, events, self.began.elapsed()));
        }
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        if self.is_shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(now_ns: u64, end_ns: u64, events: u64, elapsed: Duration) -> String {
    let share = now_ns as f64 / end_ns.max(1) as f64;
    let filled = ((share * CELLS as f64) as u64).min(CELLS) as usize;
    let bar = "#".repeat(filled) + &"-".repeat(CELLS as usize - filled);
    let seconds = elapsed.as_secs_f64();
    // The rest takes as long as what is done, if the load stays the same.
    let left = if share > 0.0 { seconds / share - seconds } else { 0.0 };
    format!(
        "[{bar}] {:.2} of {:.2} s, {:.0} events/s, about {} left",
        now_ns as f64 / 1e9,
        end_ns as f64 / 1e9,
        events as f64 / seconds.max(1e-9),
        time(left)
    )
}

fn time(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_estimates_the_remaining_time() {
        let text = line(2_500_000_000, 10_000_000_000, 1_000_000, Duration::from_secs(10));
        assert_eq!(text, "[######------------------] 2.50 of 10.00 s, 100000 events/s, about 30 s left");
        assert!(line(0, 10, 0, Duration::ZERO).ends_with("about 0 s left"));
        assert!(line(20, 10, 5, Duration::from_secs(1)).starts_with("[########################]"));
        assert_eq!(
            ["59.6", "3599", "7300"].map(|s| time(s.parse().unwrap())),
            ["1 min 0 s", "59 min 59 s", "2 h 1 min"]
        );
    }
}

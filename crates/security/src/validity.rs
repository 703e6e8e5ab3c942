//! Periods of validity, from a clock in nanoseconds, and times in a readable form.

use std::fmt;

use namely_wire::{TIME_S_MAX, ValidityPeriod, encode_time};

/// From 1970 to the end of 9999, the last time that a certificate can express.
pub const ALWAYS: ValidityPeriod = ValidityPeriod { not_before_s: 0, not_after_s: TIME_S_MAX };

/// `days` days from `now_ns` (ns since the Unix epoch).
pub fn days_from(now_ns: u64, days: u32) -> ValidityPeriod {
    let not_before_s = seconds(now_ns);
    let not_after_s = (not_before_s + u64::from(days) * 86_400).min(TIME_S_MAX);
    ValidityPeriod { not_before_s, not_after_s }
}

/// Whole seconds of a time in nanoseconds, as in certificates.
pub(crate) fn seconds(time_ns: u64) -> u64 {
    time_ns / 1_000_000_000
}

/// Formats seconds since the Unix epoch as `2026-11-21 06:13:00 UTC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime(pub u64);

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, digit) in encode_time(self.0).into_iter().enumerate() {
            match i {
                4 | 6 => f.write_str("-")?,
                8 => f.write_str(" ")?,
                11 | 13 => f.write_str(":")?,
                _ => {}
            }
            if digit != b'T' {
                write!(f, "{}", char::from(digit))?;
            }
        }
        f.write_str(" UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_in_utc() {
        assert_eq!(UtcTime(0).to_string(), "1970-01-01 00:00:00 UTC");
        assert_eq!(UtcTime(1_709_210_096).to_string(), "2024-02-29 12:34:56 UTC");
        assert_eq!(UtcTime(u64::MAX).to_string(), "9999-12-31 23:59:59 UTC");
    }

    #[test]
    fn a_validity_period_ends_before_year_10000() {
        let day = days_from(1_500_000_000, 1);
        assert_eq!((day.not_before_s, day.not_after_s), (1, 86_401));
        assert_eq!(days_from(u64::MAX, u32::MAX).not_after_s, ALWAYS.not_after_s);
    }
}

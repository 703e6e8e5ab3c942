//! ValidityPeriod of a certificate (packet spec, `certificate.rst`): when it may be used.

use std::fmt;

use namely_wire::DecodeError;
use namely_wire::types::VALIDITY_PERIOD;

/// Nanoseconds in a second: times come in as nanoseconds, certificates count seconds.
const SECOND_NS: u64 = 1_000_000_000;

const DAY_S: u64 = 86_400;

/// From NotBefore to NotAfter, both included; seconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidityPeriod {
    /// First second of validity.
    pub not_before_s: u64,
    /// Last second of validity.
    pub not_after_s: u64,
}

impl ValidityPeriod {
    /// Longest possible: from 1970 to the end of 9999.
    pub const ALWAYS: ValidityPeriod = ValidityPeriod { not_before_s: 0, not_after_s: 253_402_300_799 };

    /// `days` days from `now_ns` (ns since the Unix epoch).
    pub fn days_from(now_ns: u64, days: u32) -> Self {
        let not_before_s = now_ns / SECOND_NS;
        let not_after_s = (not_before_s + u64::from(days) * DAY_S).min(Self::ALWAYS.not_after_s);
        ValidityPeriod { not_before_s, not_after_s }
    }

    /// Reads the two `YYYYMMDDThhmmss` texts of the element. An end before the beginning is valid, and never
    /// contains a time.
    pub fn parse(not_before: &[u8; 15], not_after: &[u8; 15]) -> Result<Self, DecodeError> {
        Ok(ValidityPeriod { not_before_s: parse_time(not_before)?, not_after_s: parse_time(not_after)? })
    }

    /// The two texts of the element.
    pub fn to_texts(&self) -> ([u8; 15], [u8; 15]) {
        (format_time(self.not_before_s), format_time(self.not_after_s))
    }

    /// Whether the period has begun by `now_ns`.
    pub fn has_begun(&self, now_ns: u64) -> bool {
        self.not_before_s <= now_ns / SECOND_NS
    }

    /// Whether the period is over at `now_ns`.
    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns / SECOND_NS > self.not_after_s
    }

    /// Whether `now_ns` lies within.
    pub fn contains(&self, now_ns: u64) -> bool {
        self.has_begun(now_ns) && !self.is_over(now_ns)
    }

    /// The times that lie within both.
    pub fn intersection(&self, other: &ValidityPeriod) -> ValidityPeriod {
        ValidityPeriod {
            not_before_s: self.not_before_s.max(other.not_before_s),
            not_after_s: self.not_after_s.min(other.not_after_s),
        }
    }
}

impl fmt::Display for ValidityPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", UtcTime(self.not_before_s), UtcTime(self.not_after_s))
    }
}

/// Shows seconds since the Unix epoch as `2026-11-21 06:13:00 UTC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime(pub u64);

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0 / DAY_S);
        let s = self.0 % DAY_S;
        write!(f, "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", s / 3600, s / 60 % 60, s % 60)
    }
}

fn format_time(unix_s: u64) -> [u8; 15] {
    let unix_s = unix_s.min(ValidityPeriod::ALWAYS.not_after_s);
    let (year, month, day) = civil_from_days(unix_s / DAY_S);
    let s = unix_s % DAY_S;
    let text = format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}", s / 3600, s / 60 % 60, s % 60);
    let mut octets = [b'0'; 15];
    octets.copy_from_slice(&text.as_bytes()[..15]);
    octets
}

/// Times before 1970 count as the epoch: nobody's clock is there, and some issuers write year 0 for `ever`.
fn parse_time(text: &[u8; 15]) -> Result<u64, DecodeError> {
    let number = |from: usize, to: usize| {
        text[from..to].iter().try_fold(0u64, |n, b| match b {
            b'0'..=b'9' => Ok(n * 10 + u64::from(b - b'0')),
            _ => Err(DecodeError::BadText),
        })
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let in_range = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if text[8] != b'T' {
        return Err(DecodeError::BadText);
    }
    if !in_range {
        return Err(DecodeError::OutOfRange(VALIDITY_PERIOD));
    }
    if year < 1970 {
        return Ok(0);
    }
    Ok(days_from_civil(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Leap days in the years before `year`, since year 1.
fn leap_days_before(year: u64) -> u64 {
    let y = year - 1;
    y / 4 - y / 100 + y / 400
}

fn days_before_year(year: u64) -> u64 {
    (year - 1970) * 365 + leap_days_before(year) - leap_days_before(1970)
}

fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    days_before_year(year) + (1..month).map(|m| days_in_month(year, m)).sum::<u64>() + day - 1
}

fn civil_from_days(days: u64) -> (u64, u64, u64) {
    // 146097 days make 400 years; the estimate is never late and at most a year early.
    let mut year = 1970 + days * 400 / 146_097;
    while days_before_year(year) > days {
        year -= 1;
    }
    while days_before_year(year + 1) <= days {
        year += 1;
    }
    let mut rest = days - days_before_year(year);
    let mut month = 1;
    while rest >= days_in_month(year, month) {
        rest -= days_in_month(year, month);
        month += 1;
    }
    (year, month, rest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_written_as_the_specification_says() {
        for (s, text) in [
            (0, "19700101T000000"),
            (951_782_400, "20000229T000000"),
            (1_000_000_000, "20010909T014640"),
            (1_709_210_096, "20240229T123456"),
            (4_107_542_399, "21000228T235959"),
            (4_107_542_400, "21000301T000000"),
            (ValidityPeriod::ALWAYS.not_after_s, "99991231T235959"),
        ] {
            assert_eq!(std::str::from_utf8(&format_time(s)).unwrap(), text);
            assert_eq!(parse_time(text.as_bytes().try_into().unwrap()), Ok(s), "{text}");
        }
        assert_eq!(UtcTime(1_709_210_096).to_string(), "2024-02-29 12:34:56 UTC");
    }

    #[test]
    fn every_day_comes_back() {
        for days in (0..2_932_896).step_by(89) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn times_that_do_not_exist_are_refused() {
        for text in
            ["20230229T000000", "20231301T000000", "20230132T000000", "20230101T240000", "20230100T000000"]
        {
            assert_eq!(
                parse_time(text.as_bytes().try_into().unwrap()),
                Err(DecodeError::OutOfRange(VALIDITY_PERIOD))
            );
        }
        for text in ["20230101 000000", "2023o101T000000", "+0230101T000000"] {
            assert_eq!(parse_time(text.as_bytes().try_into().unwrap()), Err(DecodeError::BadText));
        }
        assert_eq!(parse_time(b"00010101T000000"), Ok(0));
    }

    #[test]
    fn both_ends_of_a_period_lie_within_it() {
        let period = ValidityPeriod { not_before_s: 10, not_after_s: 20 };
        assert!(!period.contains(10 * SECOND_NS - 1));
        assert!(period.contains(10 * SECOND_NS));
        assert!(period.contains(21 * SECOND_NS - 1));
        assert!(!period.contains(21 * SECOND_NS));
        let days = ValidityPeriod::days_from(u64::MAX, u32::MAX);
        assert_eq!(days.not_after_s, ValidityPeriod::ALWAYS.not_after_s);
    }
}

//! ValidityPeriod (packet spec, `certificate.rst`): two times to the second, as text
//! `YYYYMMDDThhmmss` UTC.

use crate::certificate::CERTIFICATE_FRESHNESS_MS;
use crate::error::DecodeError;
use crate::tlv::{Reader, Writer};
use crate::types::*;

/// Period in which a certificate or announcement is valid. Both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidityPeriod {
    /// NotBefore, seconds since the Unix epoch.
    pub not_before_s: u64,
    /// NotAfter, seconds since the Unix epoch.
    pub not_after_s: u64,
}

/// The last second that the text form can express: 9999-12-31T23:59:59.
pub const TIME_S_MAX: u64 = 253_402_300_799;

impl ValidityPeriod {
    /// Parses both times. A period that ends before it begins is well formed, and contains no time.
    ///
    /// # Errors
    /// [`DecodeError::BadText`] if one is not a time `YYYYMMDDThhmmss`.
    pub fn parse(not_before: &[u8; 15], not_after: &[u8; 15]) -> Result<Self, DecodeError> {
        Ok(ValidityPeriod { not_before_s: parse_time(not_before)?, not_after_s: parse_time(not_after)? })
    }

    /// Parses the VALUE of a ValidityPeriod element.
    ///
    /// # Errors
    /// [`DecodeError`]: not exactly a NotBefore and a NotAfter, each a time `YYYYMMDDThhmmss`.
    pub fn parse_value(value: &[u8]) -> Result<Self, DecodeError> {
        let (not_before, not_after) = split_value(value)?;
        Self::parse(not_before, not_after)
    }

    /// Returns both times as text, for [`crate::SignatureInfo::validity`].
    pub fn encode(&self) -> ([u8; 15], [u8; 15]) {
        (encode_time(self.not_before_s), encode_time(self.not_after_s))
    }

    /// Returns true if the period contains `unix_s`.
    pub fn contains(&self, unix_s: u64) -> bool {
        (self.not_before_s..=self.not_after_s).contains(&unix_s)
    }

    /// Returns the FreshnessPeriod of a certificate with this validity in ms: one hour, or a third
    /// of the period if that is less. So a certificate cached before the period's last third is
    /// stale at its end.
    pub fn certificate_freshness_ms(&self) -> u64 {
        let seconds = self.not_after_s.saturating_sub(self.not_before_s);
        (seconds.saturating_mul(1_000) / 3).clamp(1, CERTIFICATE_FRESHNESS_MS)
    }

    /// Returns the intersection of both periods.
    pub fn intersect(&self, other: &ValidityPeriod) -> ValidityPeriod {
        ValidityPeriod {
            not_before_s: self.not_before_s.max(other.not_before_s),
            not_after_s: self.not_after_s.min(other.not_after_s),
        }
    }
}

/// Splits the VALUE of a ValidityPeriod element into its two texts. Only their lengths are checked.
pub(crate) fn split_value(value: &[u8]) -> Result<(&[u8; 15], &[u8; 15]), DecodeError> {
    let mut reader = Reader::new(value);
    let not_before = reader.require(NOT_BEFORE)?.value;
    let not_after = reader.require(NOT_AFTER)?.value;
    let fixed = |octets, typ| <&[u8; 15]>::try_from(octets).map_err(|_| DecodeError::BadLength(typ));
    Ok((fixed(not_before, NOT_BEFORE)?, fixed(not_after, NOT_AFTER)?))
}

/// Appends a ValidityPeriod element made of two texts.
pub(crate) fn encode_validity(w: &mut Writer, not_before: &[u8; 15], not_after: &[u8; 15]) {
    w.nested(VALIDITY_PERIOD, |w| {
        w.tlv(NOT_BEFORE, not_before).tlv(NOT_AFTER, not_after);
    });
}

/// Parses a time `YYYYMMDDThhmmss` into seconds since the Unix epoch. A time before the epoch is
/// returned as the epoch, because no check concerns such a time.
///
/// # Errors
/// [`DecodeError::BadText`] if the text is not such a time.
pub fn parse_time(text: &[u8; 15]) -> Result<u64, DecodeError> {
    if text[8] != b'T' {
        return Err(DecodeError::BadText);
    }
    let number = |range: core::ops::Range<usize>| {
        text[range].iter().try_fold(0u64, |n, b| {
            if b.is_ascii_digit() { Ok(n * 10 + u64::from(b - b'0')) } else { Err(DecodeError::BadText) }
        })
    };
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    let (hour, minute, second) = (number(9..11)?, number(11..13)?, number(13..15)?);
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return Err(DecodeError::BadText);
    }
    if hour > 23 || minute > 59 || second > 59 {
        return Err(DecodeError::BadText);
    }
    let days = days_before_year(year) + days_before_month(year, month) + day - 1;
    let Some(days) = days.checked_sub(days_before_year(1970)) else { return Ok(0) };
    Ok(days * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Formats seconds since the Unix epoch as `YYYYMMDDThhmmss`; limited to [`TIME_S_MAX`].
pub fn encode_time(unix_s: u64) -> [u8; 15] {
    let unix_s = unix_s.min(TIME_S_MAX);
    let mut days = unix_s / 86_400 + days_before_year(1970);
    let second_of_day = unix_s % 86_400;
    // 146,097 days make 400 years, so this estimate is off by one year at most.
    let mut year = days * 400 / 146_097;
    while days_before_year(year + 1) <= days {
        year += 1;
    }
    while days_before_year(year) > days {
        year -= 1;
    }
    days -= days_before_year(year);
    let mut month = 12;
    while days_before_month(year, month) > days {
        month -= 1;
    }
    let day = days - days_before_month(year, month) + 1;
    let mut text = [b'T'; 15];
    put_digits(&mut text[0..4], year);
    put_digits(&mut text[4..6], month);
    put_digits(&mut text[6..8], day);
    put_digits(&mut text[9..11], second_of_day / 3600);
    put_digits(&mut text[11..13], second_of_day / 60 % 60);
    put_digits(&mut text[13..15], second_of_day % 60);
    text
}

fn put_digits(text: &mut [u8], mut n: u64) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (n % 10) as u8;
        n /= 10;
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_before_month(year: u64, month: u64) -> u64 {
    (1..month).map(|m| days_in_month(year, m)).sum()
}

/// Returns the days of the proleptic Gregorian calendar from year 0 up to `year`.
fn days_before_year(year: u64) -> u64 {
    let Some(past) = year.checked_sub(1) else { return 0 };
    // Year 0 is a leap year.
    year * 365 + past / 4 - past / 100 + past / 400 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_calendar() {
        for (text, unix_s) in [
            (b"19700101T000000", 0),
            (b"19700101T000001", 1),
            (b"20000229T235959", 951_868_799),
            (b"20000301T000000", 951_868_800),
            (b"20240229T120000", 1_709_208_000),
            (b"21000228T235959", 4_107_542_399),
            (b"21000301T000000", 4_107_542_400),
            (b"99991231T235959", TIME_S_MAX),
        ] {
            assert_eq!(parse_time(text), Ok(unix_s));
            assert_eq!(encode_time(unix_s), *text);
        }
        assert_eq!(encode_time(u64::MAX), *b"99991231T235959");
        assert_eq!(parse_time(b"19691231T235959"), Ok(0));
        assert_eq!(parse_time(b"00000101T000000"), Ok(0));
    }

    #[test]
    fn every_day_survives_a_round_trip() {
        for day in 0..146_097 {
            let unix_s = day * 86_400 + day % 86_400;
            assert_eq!(parse_time(&encode_time(unix_s)), Ok(unix_s));
        }
    }

    #[test]
    fn times_outside_the_calendar_are_refused() {
        for text in [
            b"20230229T000000",
            b"20230431T000000",
            b"20230001T000000",
            b"20231301T000000",
            b"20230100T000000",
            b"20230101T240000",
            b"20230101T006000",
            b"20230101T000060",
            b"20230101 000000",
            b"2023010aT000000",
            b"+0230101T000000",
        ] {
            assert_eq!(parse_time(text), Err(DecodeError::BadText), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn both_ends_belong_to_the_period() {
        let period = ValidityPeriod { not_before_s: 10, not_after_s: 20 };
        assert_eq!([9, 10, 20, 21].map(|t| period.contains(t)), [false, true, true, false]);
        let other = ValidityPeriod { not_before_s: 15, not_after_s: 30 };
        assert_eq!(period.intersect(&other), ValidityPeriod { not_before_s: 15, not_after_s: 20 });
        let reversed = ValidityPeriod { not_before_s: 20, not_after_s: 10 };
        assert!(!reversed.contains(15));
    }
}

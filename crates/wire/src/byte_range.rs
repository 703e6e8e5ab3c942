//! Byte ranges of files (VI-02): `<file>/32=range/<first>-<last>` names an object of its own, which
//! the source cuts from the file. Each range has one spelling, so that caches share it: decimal
//! numbers without leading zeros, and `<first>-` for a range up to the end.

use alloc::format;
use core::fmt;
use core::str::FromStr;

use crate::name::{Component, Name, NameRef};
use crate::types::{GENERIC_COMPONENT, KEYWORD_COMPONENT};

/// The component `32=range`.
pub const RANGE_COMPONENT: Component<'static> = Component { typ: KEYWORD_COMPONENT, value: b"range" };

/// A range of octets of a file, from the first to the last inclusive, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteRange {
    first: u64,
    last: Option<u64>,
}

/// The text is not a range. The fault of the caller, or of the peer that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteRangeError {
    /// The text is not `<first>-<last>` or `<first>-`, in decimal digits.
    Form,
    /// A number has a leading zero; the valid spelling has none.
    LeadingZero,
    /// A number is 2^64 or more.
    TooLarge,
    /// The last octet is before the first.
    Reversed,
}

impl ByteRange {
    /// Creates a range from octet `first` to octet `last` inclusive; none: to the end of the file.
    ///
    /// # Errors
    /// [`ByteRangeError::Reversed`].
    pub const fn new(first: u64, last: Option<u64>) -> Result<Self, ByteRangeError> {
        match last {
            Some(last) if last < first => Err(ByteRangeError::Reversed),
            _ => Ok(ByteRange { first, last }),
        }
    }

    /// Returns the first octet.
    pub const fn first(self) -> u64 {
        self.first
    }

    /// Returns the last octet; none: that of the file.
    pub const fn last(self) -> Option<u64> {
        self.last
    }

    /// Returns the start of the range in a file of `octets`, and its length, which ends with the
    /// file. Returns none if the range begins behind the end, as every range of an empty file does.
    pub const fn within(self, octets: u64) -> Option<(u64, u64)> {
        if self.first >= octets {
            return None;
        }
        let left = octets - self.first;
        match self.last {
            // The addition cannot overflow, because a number below `left` is less than 2^64 - 1.
            Some(last) if last - self.first < left => Some((self.first, last - self.first + 1)),
            _ => Some((self.first, left)),
        }
    }

    /// Parses a range from a component.
    ///
    /// # Errors
    /// [`ByteRangeError`]: the component is not a range, or has another spelling.
    pub fn from_component(component: Component<'_>) -> Result<Self, ByteRangeError> {
        if component.typ != GENERIC_COMPONENT {
            return Err(ByteRangeError::Form);
        }
        let dash = component.value.iter().position(|octet| *octet == b'-').ok_or(ByteRangeError::Form)?;
        let (first, last) = (&component.value[..dash], &component.value[dash + 1..]);
        let last = if last.is_empty() { None } else { Some(number(last)?) };
        Self::new(number(first)?, last)
    }

    /// Returns the name of this range of `file`, without version.
    pub fn name_of(self, file: NameRef<'_>) -> Name {
        file.to_name().join(RANGE_COMPONENT).join_generic(format!("{self}").as_bytes())
    }
}

/// Parses a number of decimal digits.
fn number(digits: &[u8]) -> Result<u64, ByteRangeError> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ByteRangeError::Form);
    }
    if digits.len() > 1 && digits[0] == b'0' {
        return Err(ByteRangeError::LeadingZero);
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = u64::from(digit - b'0');
        number.checked_mul(10).and_then(|number| number.checked_add(digit)).ok_or(ByteRangeError::TooLarge)
    })
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) => write!(f, "{}-{last}", self.first),
            None => write!(f, "{}-", self.first),
        }
    }
}

impl FromStr for ByteRange {
    type Err = ByteRangeError;

    fn from_str(text: &str) -> Result<Self, ByteRangeError> {
        Self::from_component(Component { typ: GENERIC_COMPONENT, value: text.as_bytes() })
    }
}

impl fmt::Display for ByteRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ByteRangeError::Form => "no range: write FIRST-LAST, or FIRST- for all up to the end",
            ByteRangeError::LeadingZero => "a range is written without leading zeros",
            ByteRangeError::TooLarge => "no file has so many octets: numbers are below 2^64",
            ByteRangeError::Reversed => "the last octet comes before the first",
        })
    }
}

impl core::error::Error for ByteRangeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn a_range_has_one_spelling() {
        for text in ["0-0", "0-", "7-", "5-9", "18446744073709551615-", "0-18446744073709551615"] {
            assert_eq!(text.parse::<ByteRange>().unwrap().to_string(), text);
        }
        for (text, error) in [
            ("", ByteRangeError::Form),
            ("-", ByteRangeError::Form),
            ("-5", ByteRangeError::Form),
            ("5", ByteRangeError::Form),
            ("1-2-3", ByteRangeError::Form),
            ("+1-2", ByteRangeError::Form),
            (" 1-2", ByteRangeError::Form),
            ("1-x", ByteRangeError::Form),
            ("00-1", ByteRangeError::LeadingZero),
            ("0-01", ByteRangeError::LeadingZero),
            ("18446744073709551616-", ByteRangeError::TooLarge),
            ("0-18446744073709551616", ByteRangeError::TooLarge),
            ("0-99999999999999999999999999999999", ByteRangeError::TooLarge),
            ("5-4", ByteRangeError::Reversed),
        ] {
            assert_eq!(text.parse::<ByteRange>(), Err(error), "{text}");
        }
        let other = Component { typ: KEYWORD_COMPONENT, value: b"0-1" };
        assert_eq!(ByteRange::from_component(other), Err(ByteRangeError::Form));
    }

    #[test]
    fn a_range_ends_with_its_file() {
        let range = |first, last| ByteRange::new(first, last).unwrap();
        assert_eq!(range(0, None).within(10), Some((0, 10)));
        assert_eq!(range(3, Some(3)).within(10), Some((3, 1)));
        assert_eq!(range(3, Some(9)).within(10), Some((3, 7)));
        assert_eq!(range(3, Some(10)).within(10), Some((3, 7)));
        assert_eq!(range(9, Some(u64::MAX)).within(10), Some((9, 1)));
        assert_eq!(range(10, None).within(10), None);
        assert_eq!(range(0, None).within(0), None);
        assert_eq!(range(0, Some(u64::MAX)).within(u64::MAX), Some((0, u64::MAX)));
        assert_eq!(range(u64::MAX, None).within(u64::MAX), None);
    }

    #[test]
    fn a_range_name_lies_below_its_file() {
        let file: Name = "/cms/store/x.root".parse().unwrap();
        let name = ByteRange::new(5, Some(9)).unwrap().name_of(file.as_name());
        assert_eq!(name.to_string(), "/cms/store/x.root/32=range/5-9");
    }

    proptest! {
        #[test]
        fn an_accepted_range_prints_the_same(octets in "[0-9-]{0,24}") {
            if let Ok(range) = octets.parse::<ByteRange>() {
                prop_assert_eq!(range.to_string(), octets);
            }
        }

        #[test]
        fn a_range_lies_within_its_file(first: u64, more: Option<u64>, octets: u64) {
            let last = more.map(|more| first.saturating_add(more));
            let range = ByteRange::new(first, last).unwrap();
            match range.within(octets) {
                Some((from, count)) => {
                    prop_assert!(from == first && count > 0 && count <= octets - from);
                    prop_assert!(last.is_none_or(|last| count - 1 <= last - first));
                }
                None => prop_assert!(first >= octets),
            }
        }
    }
}

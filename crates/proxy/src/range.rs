//! Computes the octets of a body that a request selects by Range and If-Range (RFC 9110, 13.1.5 and
//! 14).
//!
//! A single range is served. A request for several ranges receives the whole body, as the
//! specification allows.

use std::ops::Range;

use http::header::{self, HeaderMap};

/// The part of a body to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole body: 200.
    Whole,
    /// These octets: 206.
    Octets(Range<u64>),
    /// The range lies beyond the end: 416.
    Unsatisfiable,
}

/// Returns the part of a body of `octets` that a request with headers `wanted` selects, if the
/// response has headers `have`.
pub fn part(wanted: &HeaderMap, have: &HeaderMap, octets: u64) -> Part {
    let text = |headers: &HeaderMap, name| {
        headers.get(name).and_then(|value| value.to_str().ok().map(str::to_owned))
    };
    let Some(range) = text(wanted, header::RANGE) else { return Part::Whole };
    if let Some(condition) = text(wanted, header::IF_RANGE) {
        // A weak tag never matches If-Range (13.1.5). A date has to equal the date of the response.
        let strong = !condition.starts_with("W/");
        let same = [header::ETAG, header::LAST_MODIFIED]
            .into_iter()
            .any(|name| text(have, name).as_ref() == Some(&condition));
        if !(strong && same) {
            return Part::Whole;
        }
    }
    parse(&range, octets).unwrap_or(Part::Whole)
}

/// Parses a Range header with a single range. Returns none if the header is malformed, or has
/// another unit or several ranges. The caller then ignores the header.
fn parse(range: &str, octets: u64) -> Option<Part> {
    let (unit, set) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    let number = |text: &str| {
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
            .then(|| text.parse().unwrap_or(u64::MAX))
    };
    let range = match (first.is_empty(), last.is_empty()) {
        (true, true) => return None,
        (true, false) => octets.saturating_sub(number(last)?)..octets,
        (false, true) => number(first)?..octets,
        (false, false) => {
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return None;
            }
            first..last.saturating_add(1).min(octets)
        }
    };
    Some(if range.start < range.end { Part::Octets(range) } else { Part::Unsatisfiable })
}

/// Returns true if the client already has the response (If-None-Match, else If-Modified-Since):
/// 304.
pub fn is_known(wanted: &HeaderMap, have: &HeaderMap) -> bool {
    let text = |headers: &HeaderMap, name| {
        headers.get(name).and_then(|value| value.to_str().ok().map(str::to_owned))
    };
    if let Some(tags) = text(wanted, header::IF_NONE_MATCH) {
        let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let own = text(have, header::ETAG).map(|tag| weak(&tag));
        return tags.trim() == "*" || tags.split(',').any(|tag| Some(weak(tag)) == own);
    }
    let date = |headers, name| text(headers, name).and_then(|text| httpdate::parse_http_date(&text).ok());
    match (date(wanted, header::IF_MODIFIED_SINCE), date(have, header::LAST_MODIFIED)) {
        (Some(since), Some(modified)) => modified <= since,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::HeaderName;

    use super::*;

    fn headers(lines: &[(HeaderName, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn malformed_ranges_are_ignored() {
        for (range, expected) in [
            ("bytes=0-0", Part::Octets(0..1)),
            ("bytes=10-19", Part::Octets(10..20)),
            ("bytes=90-", Part::Octets(90..100)),
            ("bytes=90-1000", Part::Octets(90..100)),
            ("bytes=-10", Part::Octets(90..100)),
            ("bytes=-1000", Part::Octets(0..100)),
            ("bytes=100-", Part::Unsatisfiable),
            ("bytes=-0", Part::Unsatisfiable),
            ("bytes=99999999999999999999-", Part::Unsatisfiable),
            ("bytes=20-10", Part::Whole),
            ("bytes=0-1,5-6", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("bytes=+1-2", Part::Whole),
            ("bytes=-", Part::Whole),
            ("lines=1-2", Part::Whole),
        ] {
            let wanted = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static(range))]);
            assert_eq!(part(&wanted, &HeaderMap::new(), 100), expected, "{range}");
        }
        assert_eq!(part(&HeaderMap::new(), &HeaderMap::new(), 100), Part::Whole);
        let wanted = headers(&[(header::RANGE, "bytes=0-")]);
        assert_eq!(part(&wanted, &HeaderMap::new(), 0), Part::Unsatisfiable);
    }

    #[test]
    fn a_range_of_another_version_gets_everything() {
        let have =
            headers(&[(header::ETAG, "\"v2\""), (header::LAST_MODIFIED, "Sat, 21 Nov 2026 15:00:00 GMT")]);
        for (condition, whole) in [
            ("\"v2\"", false),
            ("Sat, 21 Nov 2026 15:00:00 GMT", false),
            ("\"v1\"", true),
            ("W/\"v2\"", true),
            ("Sat, 21 Nov 2026 14:00:00 GMT", true),
        ] {
            let wanted = headers(&[(header::RANGE, "bytes=0-9"), (header::IF_RANGE, condition)]);
            assert_eq!(part(&wanted, &have, 100) == Part::Whole, whole, "{condition}");
        }
    }

    #[test]
    fn an_unchanged_resource_is_known_to_clients() {
        let have =
            headers(&[(header::ETAG, "W/\"v2\""), (header::LAST_MODIFIED, "Sat, 21 Nov 2026 15:00:00 GMT")]);
        for (name, value, known) in [
            (header::IF_NONE_MATCH, "\"v1\", \"v2\"", true),
            (header::IF_NONE_MATCH, "*", true),
            (header::IF_NONE_MATCH, "\"v1\"", false),
            (header::IF_MODIFIED_SINCE, "Sat, 21 Nov 2026 15:00:00 GMT", true),
            (header::IF_MODIFIED_SINCE, "Sat, 21 Nov 2026 14:59:59 GMT", false),
            (header::IF_MODIFIED_SINCE, "yesterday", false),
        ] {
            assert_eq!(is_known(&headers(&[(name.clone(), value)]), &have), known, "{name}: {value}");
        }
        assert!(!is_known(&HeaderMap::new(), &have));
    }
}

//! Traces of requests: lines of a time in milliseconds, the number of a consumer, and a name,
//! separated by commas. The first line may be a head.

use std::io::{BufRead, Read};

use namely_wire::Name;

use crate::units::MS;

/// Octets of a line of a trace.
///
/// # Limit
/// The trace is refused.
/// - Tests: `a_trace_past_its_limits_is_refused`
pub const TRACE_LINE_OCTETS_MAX: usize = 4096;

/// Requests of a trace.
///
/// # Limit
/// The trace is refused.
/// - Tests: `a_trace_past_its_limits_is_refused`
pub const TRACE_REQUESTS_MAX: usize = 10_000_000;

/// Latest time of a request, ms: a week.
const TIME_MS_MAX: f64 = 7.0 * 24.0 * 3600.0 * 1000.0;

/// A request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Time of the request.
    pub at_ns: u64,
    /// Number of the consumer.
    pub consumer: u32,
    /// The requested name.
    pub name: Name,
}

/// A trace is not usable.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error("line {line}: {source}")]
    Unreadable {
        /// The line, counted from 1.
        line: usize,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line is too long.
    #[error("line {line}: more than {TRACE_LINE_OCTETS_MAX} octets")]
    TooLong {
        /// The line, counted from 1.
        line: usize,
    },
    /// There are too many requests.
    #[error("more than {max} requests")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// A line is no request.
    #[error("line {line}: not a time in milliseconds, a number and a name, separated by commas")]
    NoRequest {
        /// The line, counted from 1.
        line: usize,
    },
}

/// Reads a trace. Requests are sorted by time.
///
/// # Errors
/// The first line that is not usable.
pub fn read(from: impl BufRead) -> Result<Vec<TraceRequest>, TraceError> {
    read_at_most(from, TRACE_REQUESTS_MAX)
}

fn read_at_most(mut from: impl BufRead, max: usize) -> Result<Vec<TraceRequest>, TraceError> {
    let (mut requests, mut octets) = (Vec::new(), Vec::new());
    for line in 1.. {
        octets.clear();
        // One octet more than a line with its end may have.
        let mut bounded = from.by_ref().take(TRACE_LINE_OCTETS_MAX as u64 + 2);
        let count = bounded.read_until(b'\n', &mut octets);
        if count.map_err(|source| TraceError::Unreadable { line, source })? == 0 {
            break;
        }
        let text = octets.strip_suffix(b"\n").unwrap_or(&octets);
        if text.len() > TRACE_LINE_OCTETS_MAX {
            return Err(TraceError::TooLong { line });
        }
        let text = str::from_utf8(text).map(str::trim).map_err(|_| TraceError::NoRequest { line })?;
        if text.is_empty() || line == 1 && !text.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        if requests.len() == max {
            return Err(TraceError::TooMany { max });
        }
        requests.push(request(text).ok_or(TraceError::NoRequest { line })?);
    }
    requests.sort_by_key(|request: &TraceRequest| request.at_ns);
    Ok(requests)
}

fn request(line: &str) -> Option<TraceRequest> {
    let mut fields = line.splitn(3, ',').map(str::trim);
    let at_ms: f64 = fields.next()?.parse().ok()?;
    let consumer = fields.next()?.parse().ok()?;
    let name: Name = fields.next()?.parse().ok()?;
    let is_usable = (0.0..=TIME_MS_MAX).contains(&at_ms) && !name.is_empty();
    is_usable.then_some(TraceRequest { at_ns: (at_ms * MS as f64) as u64, consumer, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "time_ms,consumer,name\n1.5,2,/a/b\n\n0,1,/a/c\r\n1.5, 3 , /e\n";

    #[test]
    fn a_trace_is_sorted_by_time() {
        let requests = read(TRACE.as_bytes()).unwrap();
        let of: Vec<_> = requests.iter().map(|r| (r.at_ns, r.consumer, r.name.to_string())).collect();
        let expected = [(0, 1, "/a/c"), (1_500_000, 2, "/a/b"), (1_500_000, 3, "/e")];
        assert_eq!(of, expected.map(|(at_ns, consumer, name)| (at_ns, consumer, name.to_owned())));
        assert_eq!(read("5,1,/x".as_bytes()).unwrap().len(), 1, "a head is optional");
    }

    #[test]
    fn an_invalid_trace_line_is_refused() {
        for line in ["1,2", "x,1,/a", "1,x,/a", "-1,1,/a", "1,-1,/a", "nan,1,/a", "1e12,1,/a", "1,1,/"] {
            let text = format!("0,0,/a\n{line}\n");
            let error = read(text.as_bytes()).unwrap_err();
            assert!(matches!(error, TraceError::NoRequest { line: 2 }), "{line}: {error}");
        }
        let error = read(&b"0,0,/a\n\xff\n"[..]).unwrap_err();
        assert!(matches!(error, TraceError::NoRequest { line: 2 }), "{error}");
    }

    #[test]
    fn a_trace_past_its_limits_is_refused() {
        let line = |octets: usize| format!("0,0,/{}\n", "a".repeat(octets - 5));
        assert_eq!(read(line(TRACE_LINE_OCTETS_MAX).as_bytes()).unwrap().len(), 1);
        let error = read(line(TRACE_LINE_OCTETS_MAX + 1).as_bytes()).unwrap_err();
        assert!(matches!(error, TraceError::TooLong { line: 1 }), "{error}");
        let endless = std::io::repeat(b'a').take(1 << 30);
        assert!(matches!(read(std::io::BufReader::new(endless)), Err(TraceError::TooLong { line: 1 })));
        assert_eq!(read_at_most("0,0,/a\n0,0,/b\n".as_bytes(), 2).unwrap().len(), 2);
        let error = read_at_most("0,0,/a\n0,0,/b\n0,0,/c".as_bytes(), 2).unwrap_err();
        assert!(matches!(error, TraceError::TooMany { max: 2 }), "{error}");
    }
}

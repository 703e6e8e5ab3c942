//! Round trips parsed from the output of ping tools.

use crate::stats::percentile;

/// Results of one run of pings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pings {
    /// Number of answered pings.
    pub answered: u64,
    /// Median round trip, microseconds; none without answers.
    pub p50_us: Option<f64>,
    /// Round trip that 99 of 100 do not exceed, microseconds.
    pub p99_us: Option<f64>,
}

impl Pings {
    /// Parses the output of a ping tool: one round trip per line (the tools of NFD and NDNd, and
    /// the plain ping), or a line of JSON with the percentiles (`namely ping`).
    pub fn read(output: &str) -> Self {
        output.lines().find_map(from_json).unwrap_or_else(|| {
            let round_trips = round_trips_us(output);
            Pings {
                answered: round_trips.len() as u64,
                p50_us: percentile(&round_trips, 50.0),
                p99_us: percentile(&round_trips, 99.0),
            }
        })
    }
}

fn from_json(line: &str) -> Option<Pings> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let number = |key: &str| value.get(key).and_then(serde_json::Value::as_f64);
    let answered = value.get("answered")?.as_u64()?;
    Some(Pings { answered, p50_us: number("p50_us"), p99_us: number("p99_us") })
}

/// Returns the round trips in lines with `time=0.25 ms` or `time=250 us`, in microseconds. Other
/// lines are skipped.
fn round_trips_us(output: &str) -> Vec<f64> {
    output.lines().filter_map(from_text).collect()
}

fn from_text(line: &str) -> Option<f64> {
    // A summary line has `time 54.5 ms` (the whole session), which is not a round trip.
    let (_, after) = line.split_once("time=")?;
    let end = after.find(|c: char| !c.is_ascii_digit() && c != '.' && c != 'e' && c != '-' && c != '+')?;
    let value: f64 = after[..end].parse().ok()?;
    match after[end..].trim_start() {
        unit if unit.starts_with("ms") => Some(value * 1000.0),
        unit if unit.starts_with("us") => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ping_output_of_peers_is_parsed() {
        let ndnping = "PING /q\ncontent from /q: seq=1 time=0.25 ms\n\n1 packets transmitted, time 54.5 ms\n";
        assert_eq!(round_trips_us(ndnping), [250.0]);
        let ndnd = "content from /q: seq=1, time=0.483000 ms\nrtt min/avg/max = 0.1/0.2/0.4 ms\n";
        assert_eq!(round_trips_us(ndnd), [483.0]);
        assert_eq!(round_trips_us("seq=4 time=12 us\n"), [12.0]);
    }

    #[test]
    fn a_json_ping_summary_is_parsed() {
        let printed = "{\"sent\":10,\"answered\":9,\"min_us\":70.5,\"p50_us\":81.5,\"p99_us\":90.0}\n";
        assert_eq!(Pings::read(printed), Pings { answered: 9, p50_us: Some(81.5), p99_us: Some(90.0) });
        let lost = "{\"answered\":0,\"p50_us\":null,\"p99_us\":null}";
        assert_eq!(Pings::read(lost), Pings { answered: 0, p50_us: None, p99_us: None });
    }

    #[test]
    fn losses_and_garbage_are_not_round_trips() {
        let pings = Pings::read("timeout from /q: seq=2\ntime=\ntime=1 parsec\ntime=... ms\nnull\n{}");
        assert_eq!(pings, Pings { answered: 0, p50_us: None, p99_us: None });
    }
}

//! Round trips out of what ping tools print.

/// The round trips in `output`, in microseconds. Understands `time=0.25 ms` and `time=250 us`, which the tools of
/// NFD and NDNd and the plain ping print, and JSON lines with a number `rtt_us` or `rtt_ns`, which `namely ping`
/// prints. Lines without a round trip (losses, headings) are skipped.
pub fn round_trips_us(output: &str) -> Vec<f64> {
    output.lines().filter_map(|line| from_text(line).or_else(|| from_json(line))).collect()
}

fn from_text(line: &str) -> Option<f64> {
    // A summary line says `time 54.5 ms` (the whole session), which is no round trip.
    let (_, after) = line.split_once("time=")?;
    let end = after.find(|c: char| !c.is_ascii_digit() && c != '.' && c != 'e' && c != '-' && c != '+')?;
    let value: f64 = after[..end].parse().ok()?;
    match after[end..].trim_start() {
        unit if unit.starts_with("ms") => Some(value * 1000.0),
        unit if unit.starts_with("us") || unit.starts_with('µ') => Some(value),
        _ => None,
    }
}

fn from_json(line: &str) -> Option<f64> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let number = |key: &str| value.get(key).and_then(serde_json::Value::as_f64);
    number("rtt_us").or_else(|| number("rtt_ns").map(|ns| ns / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_the_peers_are_understood() {
        let ndnping = "PING /q\ncontent from /q: seq=1 time=0.25 ms\n\n1 packets transmitted, time 54.5 ms\n";
        assert_eq!(round_trips_us(ndnping), [250.0]);
        let ndnd = "content from /q: seq=1, time=0.483000 ms\nrtt min/avg/max = 0.1/0.2/0.4 ms\n";
        assert_eq!(round_trips_us(ndnd), [483.0]);
        assert_eq!(round_trips_us("seq=4 time=12 us\n"), [12.0]);
    }

    #[test]
    fn json_lines_are_understood() {
        assert_eq!(
            round_trips_us("{\"seq\":1,\"rtt_us\":81.5}\n{\"sent\":1}\n{\"rtt_ns\":9000}"),
            [81.5, 9.0]
        );
    }

    #[test]
    fn losses_and_garbage_are_no_round_trips() {
        assert!(round_trips_us("timeout from /q: seq=2\ntime=\ntime=1 parsec\ntime=... ms\nnull").is_empty());
    }
}

//! The files below /proc/net/nnet: the counters and the state of this network namespace's
//! forwarder, and further state that the netlink family does not list.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use namely_wire::{Name, NameRef};

use crate::uapi::NNET_FACE_LOCAL;

/// The folder of the files: those of the network namespace that the calling thread is in.
pub const FOLDER: &str = "/proc/thread-self/net/nnet";

/// Whether there is a forwarder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing in this namespace uses named data.
    Unused,
    /// There is one.
    Running,
    /// It has stopped, for this reason.
    Stopped(String),
}

/// Whether this namespace has a forwarder.
///
/// # Errors
/// The file cannot be read: the module is not loaded.
pub fn state() -> io::Result<State> {
    Ok(parse_state(&std::fs::read_to_string(format!("{FOLDER}/stop"))?))
}

fn parse_state(text: &str) -> State {
    match text.trim_end().split_once(' ') {
        Some(("stopped", why)) => State::Stopped(why.to_owned()),
        _ if text.starts_with("running") => State::Running,
        _ => State::Unused,
    }
}

/// Returns the reason for which the forwarder has stopped, if it has.
///
/// # Errors
/// As of [`state`].
pub fn stop_reason() -> io::Result<Option<String>> {
    Ok(match state()? {
        State::Stopped(why) => Some(why),
        _ => None,
    })
}

/// The counters of one of `stats`, `drops`, `cs`, `memory` and `processors`, each by its name.
///
/// # Errors
/// The file cannot be read.
pub fn counters(file: &str) -> io::Result<Vec<(String, u64)>> {
    let file = BufReader::new(File::open(format!("{FOLDER}/{file}"))?);
    let row = |line: String| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    file.lines().map_while(Result::ok).map(|line| Ok(row(line))).filter_map(Result::transpose).collect()
}

/// Returns true if Interests for `name` go to the applications of this host: if the longest route
/// leads to the face `local`.
///
/// # Errors
/// The file cannot be read.
pub fn is_routed_to_applications(name: NameRef<'_>) -> io::Result<bool> {
    leads_to_applications(BufReader::new(File::open(format!("{FOLDER}/fib"))?), name)
}

fn leads_to_applications(fib: impl BufRead, name: NameRef<'_>) -> io::Result<bool> {
    let mut longest = None;
    for line in fib.lines() {
        let line = line?;
        let mut words = line.split(' ');
        let (Some(Ok(prefix)), Some(Ok(face))) =
            (words.next().map(str::parse::<Name>), words.next().map(str::parse::<u64>))
        else {
            continue;
        };
        if !prefix.is_prefix_of(name) {
            continue;
        }
        let is_local = face == NNET_FACE_LOCAL;
        longest = match longest {
            Some((octets, was_local)) if octets == prefix.as_bytes().len() => {
                Some((octets, was_local || is_local))
            }
            Some((octets, _)) if octets > prefix.as_bytes().len() => longest,
            _ => Some((prefix.as_bytes().len(), is_local)),
        };
    }
    Ok(longest.is_some_and(|(_, is_local)| is_local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_decides_about_applications() {
        let fib = "/ 7 0\n/lab 1 0\n/lab 7 10\n/lab/far 7 0\n/lab/%00x 1 0\nnonsense\n/x\n";
        for (name, expected) in
            [("/other", false), ("/lab", true), ("/lab/near/x", true), ("/lab/far/x", false), ("/", false)]
        {
            let name: Name = name.parse().unwrap();
            assert_eq!(leads_to_applications(fib.as_bytes(), name.as_name()).unwrap(), expected, "{name}");
        }
        let name: Name = "/a".parse().unwrap();
        assert!(!leads_to_applications(&b""[..], name.as_name()).unwrap());
    }

    #[test]
    fn the_kernel_state_is_parsed() {
        assert_eq!(parse_state("running\n"), State::Running);
        assert_eq!(parse_state("unused\n"), State::Unused);
        assert_eq!(parse_state("stopped a panic at x\n"), State::Stopped("a panic at x".into()));
    }
}

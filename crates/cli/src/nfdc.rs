//! The words of NFD's `nfdc` for what namely's commands call otherwise, for who has them in the
//! fingers: `namely face create remote udp://192.0.2.1 persistency permanent`, `namely fib list`.
//!
//! Only a command line that is none of namely's is looked up here, so that no word of `nfdc` takes
//! one of ours.

/// A command of `nfdc`.
struct Command {
    /// Its words, the longer ones of two that begin alike first.
    words: &'static [&'static str],
    /// namely's.
    ours: &'static [&'static str],
    /// Arguments by their places, which may be preceded by these words.
    places: &'static [&'static str],
    /// Words with a value that are options here.
    options: &'static [&'static str],
    /// Words without.
    flags: &'static [&'static str],
}

const fn plain(words: &'static [&'static str], ours: &'static [&'static str]) -> Command {
    Command { words, ours, places: &[], options: &[], flags: &[] }
}

const COMMANDS: [Command; 20] = [
    plain(&["status", "report"], &["status", "--report"]),
    plain(&["status", "show"], &["status"]),
    plain(&["channel"], &["channel", "list"]),
    plain(&["fib", "list"], &["route", "fib"]),
    plain(&["fib"], &["route", "fib"]),
    plain(&["rib", "list"], &["route", "list"]),
    plain(&["rib"], &["route", "list"]),
    Command {
        places: &["remote"],
        options: &["local", "persistency", "reliability", "congestion-marking", "mtu"],
        ..plain(&["face", "create"], &["face", "create"])
    },
    Command { places: &["face"], ..plain(&["face", "destroy"], &["face", "destroy"]) },
    Command { places: &["id"], ..plain(&["face", "show"], &["face", "show"]) },
    Command { options: &["remote", "scheme"], ..plain(&["face", "list"], &["face", "list"]) },
    plain(&["face"], &["face", "list"]),
    Command {
        places: &["prefix", "nexthop"],
        options: &["origin", "cost", EXPIRES],
        flags: &["no-inherit", "capture"],
        ..plain(&["route", "add"], &["route", "add"])
    },
    Command {
        places: &["prefix", "nexthop"],
        options: &["origin"],
        ..plain(&["route", "remove"], &["route", "remove"])
    },
    plain(&["route"], &["route", "list"]),
    Command { options: &["capacity", "admit", "serve"], ..plain(&["cs", "config"], &["cs", "config"]) },
    Command { places: &["prefix"], options: &["count"], ..plain(&["cs", "erase"], &["cs", "erase"]) },
    Command { places: &["prefix", "strategy"], ..plain(&["strategy", "set"], &["strategy", "set"]) },
    Command { places: &["prefix"], ..plain(&["strategy", "unset"], &["strategy", "unset"]) },
    plain(&["cs"], &["cs", "info"]),
];

/// The option that has milliseconds there and seconds here.
const EXPIRES: &str = "expires";

/// A command line of `nfdc` in namely's words, both without the program's name; `None` if it is
/// none. What stands before the command stays as it is.
pub fn translated(line: &[String]) -> Option<Vec<String>> {
    let begin = line
        .iter()
        .position(|word| COMMANDS.iter().any(|known| known.words.first() == Some(&word.as_str())))?;
    let (before, words) = line.split_at(begin);
    let is_meant =
        |known: &&Command| known.words.iter().zip(words).filter(|(a, b)| a == b).count() == known.words.len();
    let known = COMMANDS.iter().find(is_meant)?;
    let mut rest = words.iter().skip(known.words.len());
    let mut places = known.places.iter();
    let mut ours: Vec<String> = before.to_vec();
    ours.extend(known.ours.iter().map(|word| (*word).to_owned()));
    while let Some(word) = rest.next() {
        let is = |words: &[&str]| words.contains(&word.as_str());
        if is(known.flags) {
            ours.push(format!("--{word}"));
        } else if is(known.options) {
            let value = rest.next()?;
            ours.push(format!("--{word}"));
            ours.push(if word == EXPIRES { seconds(value)? } else { value.clone() });
        } else if is(known.places) {
            places.next()?;
            ours.push(rest.next()?.clone());
        } else {
            // Options that namely has for every command stand anywhere.
            let _ = word.starts_with('-') || places.next().is_some();
            ours.push(word.clone());
        }
    }
    Some(ours)
}

/// Whole seconds that are no shorter than so many milliseconds.
fn seconds(milliseconds: &str) -> Option<String> {
    milliseconds.parse::<u64>().ok().map(|ms| ms.div_ceil(1000).to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn words_of_nfdc_become_those_of_namely_which_take_them() {
        for (theirs, ours) in [
            ("status report", "status --report"),
            ("fib", "route fib"),
            ("fib list", "route fib"),
            ("rib list", "route list"),
            ("channel", "channel list"),
            ("cs", "cs info"),
            ("face", "face list"),
            ("--router unix:///x face list scheme udp4", "--router unix:///x face list --scheme udp4"),
            ("face show id 300", "face show 300"),
            (
                "face create remote udp4://192.0.2.1:6363 persistency permanent mtu 1400",
                "face create udp4://192.0.2.1:6363 --persistency permanent --mtu 1400",
            ),
            (
                "face create udp4://192.0.2.1:6363 reliability on",
                "face create udp4://192.0.2.1:6363 --reliability on",
            ),
            ("face destroy face 300", "face destroy 300"),
            (
                "route add prefix /a nexthop 300 origin static cost 5 no-inherit capture expires 1500",
                "route add /a 300 --origin static --cost 5 --no-inherit --capture --expires 2",
            ),
            ("route add /a 300 cost 5", "route add /a 300 --cost 5"),
            ("route remove prefix /a nexthop 300", "route remove /a 300"),
            ("cs config capacity 100 admit off serve on", "cs config --capacity 100 --admit off --serve on"),
            ("cs erase /a count 5 --json", "cs erase /a --count 5 --json"),
            (
                "strategy set prefix /a strategy /localhost/nfd/strategy/asf",
                "strategy set /a /localhost/nfd/strategy/asf",
            ),
            ("strategy unset prefix /a", "strategy unset /a"),
        ] {
            assert!(
                Cli::try_parse_from(["namely"].into_iter().chain(theirs.split(' '))).is_err(),
                "ours: {theirs}"
            );
            assert_eq!(translated(&words(theirs)), Some(words(ours)), "{theirs}");
            let parsed = Cli::try_parse_from(["namely"].into_iter().chain(ours.split(' ')));
            assert!(parsed.is_ok(), "{ours}: {parsed:?}");
        }
    }

    #[test]
    fn what_nfdc_would_not_take_either_is_left_as_it_is() {
        for line in ["nonsense", "face create remote", "route add prefix", "route add /a 1 expires soon"] {
            let ours = translated(&words(line));
            let parsed = ours.as_ref().map(|ours| {
                Cli::try_parse_from(["namely".to_owned()].into_iter().chain(ours.iter().cloned())).is_ok()
            });
            assert_ne!(parsed, Some(true), "{line}: {ours:?}");
        }
    }
}

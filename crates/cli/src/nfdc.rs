//! The syntax of NFD's `nfdc`, for its users:
//! `namely face create remote udp://192.0.2.1 persistency permanent`, `namely fib list`.
//!
//! A command line is translated only if namely does not accept it. So no word of `nfdc` can shadow
//! a word of namely's own syntax.

/// A command of `nfdc`.
struct Command {
    /// The words of the command. If they are a prefix of another command, that command precedes
    /// this one in [`COMMANDS`].
    words: &'static [&'static str],
    /// The words of namely's command.
    ours: &'static [&'static str],
    /// Keywords that may precede positional arguments, in order.
    positional: &'static [&'static str],
    /// Keywords with a value, which are options of namely's command.
    options: &'static [&'static str],
    /// Keywords without a value, which are options of namely's command.
    flags: &'static [&'static str],
}

const fn plain(words: &'static [&'static str], ours: &'static [&'static str]) -> Command {
    Command { words, ours, positional: &[], options: &[], flags: &[] }
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
        positional: &["remote"],
        options: &["local", "persistency", "reliability", "congestion-marking", "mtu"],
        ..plain(&["face", "create"], &["face", "create"])
    },
    Command { positional: &["face"], ..plain(&["face", "destroy"], &["face", "destroy"]) },
    Command { positional: &["id"], ..plain(&["face", "show"], &["face", "show"]) },
    Command { options: &["remote", "scheme"], ..plain(&["face", "list"], &["face", "list"]) },
    plain(&["face"], &["face", "list"]),
    Command {
        positional: &["prefix", "nexthop"],
        options: &["origin", "cost", EXPIRES],
        flags: &["no-inherit", "capture"],
        ..plain(&["route", "add"], &["route", "add"])
    },
    Command {
        positional: &["prefix", "nexthop"],
        options: &["origin"],
        ..plain(&["route", "remove"], &["route", "remove"])
    },
    plain(&["route"], &["route", "list"]),
    Command { options: &["capacity", "admit", "serve"], ..plain(&["cs", "config"], &["cs", "config"]) },
    Command { positional: &["prefix"], options: &["count"], ..plain(&["cs", "erase"], &["cs", "erase"]) },
    Command { positional: &["prefix", "strategy"], ..plain(&["strategy", "set"], &["strategy", "set"]) },
    Command { positional: &["prefix"], ..plain(&["strategy", "unset"], &["strategy", "unset"]) },
    plain(&["cs"], &["cs", "info"]),
];

/// The option with a value in milliseconds in `nfdc`, and in seconds in namely.
const EXPIRES: &str = "expires";

/// Translates a command line of `nfdc` without the program's name; `None` if the line is no such
/// command. Words before the command stay unchanged.
pub fn translated(line: &[String]) -> Option<Vec<String>> {
    let begin = line
        .iter()
        .position(|word| COMMANDS.iter().any(|known| known.words.first() == Some(&word.as_str())))?;
    let (before, words) = line.split_at(begin);
    let is_meant =
        |known: &&Command| known.words.iter().zip(words).filter(|(a, b)| a == b).count() == known.words.len();
    let command = COMMANDS.iter().find(is_meant)?;
    let mut rest = words.iter().skip(command.words.len());
    let mut positional = command.positional.iter();
    let mut ours: Vec<String> = before.to_vec();
    ours.extend(command.ours.iter().map(|word| (*word).to_owned()));
    while let Some(word) = rest.next() {
        let is = |words: &[&str]| words.contains(&word.as_str());
        if is(command.flags) {
            ours.push(format!("--{word}"));
        } else if is(command.options) {
            let value = rest.next()?;
            ours.push(format!("--{word}"));
            ours.push(if word == EXPIRES { seconds(value)? } else { value.clone() });
        } else if is(command.positional) {
            positional.next()?;
            ours.push(rest.next()?.clone());
        } else {
            // Global options may be anywhere.
            let _ = word.starts_with('-') || positional.next().is_some();
            ours.push(word.clone());
        }
    }
    Some(ours)
}

/// Rounds milliseconds up to whole seconds.
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
    fn nfdc_words_translate_to_valid_commands() {
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
    fn invalid_nfdc_commands_stay_invalid() {
        for line in ["nonsense", "face create remote", "route add prefix", "route add /a 1 expires soon"] {
            let ours = translated(&words(line));
            let parsed = ours.as_ref().map(|ours| {
                Cli::try_parse_from(["namely".to_owned()].into_iter().chain(ours.iter().cloned())).is_ok()
            });
            assert_ne!(parsed, Some(true), "{line}: {ours:?}");
        }
    }
}

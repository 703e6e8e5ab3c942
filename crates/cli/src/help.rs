//! The help of `namely` itself: its commands in groups, on one screen.

use std::fmt::Write as _;

use crate::args::left_out;

/// Commands that belong together, and their description.
struct Row {
    /// The heading of a group, in its first row.
    group: &'static str,
    commands: &'static [&'static str],
    about: &'static str,
}

const fn row(group: &'static str, commands: &'static [&'static str], about: &'static str) -> Row {
    Row { group, commands, about }
}

const ROWS: [Row; 21] = [
    row("Start", &["demo"], "a file through two routers, nothing to set up"),
    row("", &["up", "down", "wait"], "start a router, stop it, wait until it runs"),
    row("", &["config", "migrate"], "its configuration; that of NFD"),
    row("Data", &["serve", "put"], "publish a directory, a file"),
    row("", &["get", "cat", "ls", "stat"], "fetch, print, list, inspect by name, verified"),
    row("", &["mount"], "a directory as a file system, read-only"),
    row("", &["proxy", "catalogue"], "HTTP over named data; blocks of files"),
    row("Trust", &["key", "cert"], "your keys; certificates and trust anchors"),
    row("Router", &["status", "top"], "its state; its traffic, in the terminal"),
    row("", &["dashboard"], "routers on a web page"),
    row("", &["face", "channel"], "its links; its addresses"),
    row("", &["neighbors"], "the neighbors on its links"),
    row("", &["route", "bind"], "where names lead; prefixes of applications"),
    row("", &["strategy", "cs"], "how names are forwarded; the cache"),
    row("", &["kernel", "vip"], "the forwarder in the kernel; VIP"),
    row("Faults", &["why", "trace", "words"], "explain a name, each packet, a term"),
    row("", &["ping", "pingserver"], "measure a round trip; answer pings"),
    row("", &["peek", "poke"], "request, answer one packet"),
    row("", &["perf", "dissect"], "measure throughput; show packets as text"),
    row("Networks", &["testbed", "model"], "of routers on this machine; of queues"),
    row("Shell", &["completions", "man"], "files for shells; manual pages"),
];

/// The template of the help, for clap.
pub fn template() -> String {
    let mut text = String::from(
        "Named Data Networking: request data by name; the network finds it, caches it\n\
         and proves its producer\n\n{usage-heading} {usage}\n\n",
    );
    let mut group = "";
    for row in &ROWS {
        if !row.group.is_empty() {
            group = row.group;
        }
        let built = row.commands.iter().filter(|command| left_out(command).is_none());
        let commands = built.copied().collect::<Vec<_>>().join(", ");
        if !commands.is_empty() {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{group:9} {commands:20} {}", row.about);
            group = "";
        }
    }
    text + "\nEvery command takes --router URI, --json, -q and -v. `namely help COMMAND` has\n\
            its options and examples, `namely version` the version.{after-help}\n"
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn the_help_lists_every_command() {
        let command = Cli::command();
        let known: Vec<&str> =
            command.get_subcommands().filter(|of| !of.is_hide_set()).map(|of| of.get_name()).collect();
        let listed: Vec<&str> = ROWS.iter().flat_map(|row| row.commands).copied().collect();
        for name in &known {
            assert!(listed.contains(name) || *name == "version", "{name} is in no row");
        }
        for name in listed {
            assert!(known.contains(&name) || left_out(name).is_some(), "{name} is no command");
        }
    }

    #[test]
    fn the_help_fits_one_screen() {
        let mut command = Cli::command();
        for help in [command.render_help(), command.render_long_help()] {
            let text = help.to_string();
            assert!(text.lines().count() <= 40, "{} lines\n{text}", text.lines().count());
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest.is_some_and(|columns| columns <= 80), "{longest:?}\n{text}");
        }
    }
}

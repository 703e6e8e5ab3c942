//! The `namely` command as a library: arguments, output, and one module for each command. The
//! program only calls [`main`], so that tests and the generator of man pages use the same command
//! tree.
//!
//! Answers go to standard output (text, or JSON lines with `--json`). Everything else (progress,
//! hints, errors) goes to standard error. Exit statuses are [`failure::Exit`].
#![forbid(unsafe_code)]

pub mod args;
pub mod commands;
pub mod context;
pub mod failure;
pub mod fetching;
pub mod help;
pub mod keys;
pub mod nfd_conf;
pub mod nfdc;
pub mod options;
pub mod others;
pub mod output;
pub mod router;
pub mod signing;
pub mod silence;
pub mod stop;
pub mod turns;

use std::ffi::{CString, OsString};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Parses the command line, runs the command and converts its failure to a message and an exit
/// status.
pub fn main() -> ExitCode {
    let (cli, hint) = command_line();
    let out = output::Output::new(cli.global.json, cli.global.quiet);
    if let Some(hint) = hint {
        out.remark(hint);
    }
    // `namely up` reads the log level and the setting of core dumps from its configuration.
    if !matches!(cli.command, args::Command::Up(_)) {
        init_log(cli.global.verbose, cli.command.access_log());
        // Most commands hold private keys in memory.
        if !namely_host::keep_from_dumps() {
            tracing::warn!(
                "core dumps are on: a crash writes this program's memory, with its keys, to a file"
            );
        }
    }
    match commands::run(&cli, &out).and_then(|()| out.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        // As in `namely get NAME -o - | head`.
        Err(_) if out.is_content_unread() => ExitCode::SUCCESS,
        Err(failure) => {
            let failure =
                router::explain_no_route(&context::Context { global: &cli.global, out: &out }, failure);
            out.failure(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Returns the command line, and a hint if it has the syntax of another program. A wrong command
/// line or a request for help ends the process.
fn command_line() -> (args::Cli, Option<String>) {
    let mut error = match parse(std::env::args_os()) {
        Ok(cli) => return (cli, None),
        Err(error) => error,
    };
    let theirs: Option<Vec<String>> =
        std::env::args_os().skip(1).map(|word| word.into_string().ok()).collect();
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand).cloned() {
        let word = &word;
        let first = theirs.iter().flatten().find(|argument| !argument.starts_with('-'));
        let is_command = first == Some(word);
        let is_suggested = error.get(ContextKind::SuggestedSubcommand).is_some();
        if let Some(why) = args::left_out(word) {
            output::say(format!("hint: {why}"));
        } else if let Some(usual) = args::usual_command(&command_words(theirs.iter().flatten(), word)) {
            // Clap suggests the command with the most similar letters, such as `top` for `stop`.
            error.remove(ContextKind::SuggestedSubcommand);
            output::say(format!("hint: {usual}"));
        } else if let Some(near) = args::nearest(word).filter(|_| is_command && !is_suggested) {
            output::say(format!("hint: did you mean `namely {near}`?"));
        }
    }
    let Some(ours) = theirs.and_then(|line| nfdc::translated(&line)).filter(|_| error.use_stderr()) else {
        output::end_with(&error)
    };
    match parse(["namely"].into_iter().chain(ours.iter().map(String::as_str)).map(OsString::from)) {
        Ok(cli) => (cli, Some(format!("hint: here that is `namely {}`", ours.join(" ")))),
        Err(_) => output::end_with(&error),
    }
}

/// Parses a command line, and names this process by its command: routers list the name beside the
/// process id.
fn parse(line: impl Iterator<Item = OsString>) -> Result<args::Cli, clap::Error> {
    let mut matches = args::Cli::command().try_get_matches_from(line)?;
    // `namely down` finds routers by the name of their program.
    let command = matches.subcommand_name().filter(|command| *command != "up");
    if let Some(name) = command.and_then(|command| CString::new(format!("namely {command}")).ok()) {
        // The kernel keeps 15 octets of it.
        let _ = rustix::thread::set_name(&name);
    }
    args::Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut args::Cli::command()))
}

/// Returns the words of a command line up to the unknown command `word`, without options.
fn command_words<'a>(line: impl Iterator<Item = &'a String>, word: &str) -> String {
    let mut words = Vec::new();
    for argument in line.filter(|argument| !argument.starts_with('-')) {
        words.push(argument.as_str());
        if argument == word {
            break;
        }
    }
    words.join(" ")
}

/// Initializes logging of the libraries. Warnings are logged by default, and each `-v` adds a
/// level; `NAMELY_LOG` overrides both. `access` is the target of a gateway's access log, which is
/// logged at any level.
fn init_log(verbose: u8, access: Option<&str>) {
    let level = [LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG, LevelFilter::TRACE]
        [usize::from(verbose.min(3))];
    let filter = std::env::var("NAMELY_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(level));
    let filter = access.into_iter().fold(filter, |all, target| all.with_target(target, LevelFilter::INFO));
    // A second call fails and keeps the first subscriber, as in tests that call several commands.
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(output::Logged);
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}

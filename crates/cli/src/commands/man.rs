//! `namely man`: manual pages made from the command tree, in the form of man-pages(7).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};

use crate::args::Cli;
use crate::context::Context;
use crate::failure::{Failure, io_failure};

/// The sample file, which explains every key of the configuration.
const SAMPLE: &str = include_str!("../../texts/namely.toml");

/// The date of the release, in the pages' footers. A test compares it with the CHANGELOG.
pub const RELEASED: &str = "2026-11-29";

/// The source of the pages.
const SOURCE: &str = concat!("namely ", env!("CARGO_PKG_VERSION"));

/// Exit statuses of `namely`.
const STATUSES: [Entry; 11] = [
    Entry("0", "Done."),
    Entry("1", "Failed."),
    Entry("2", "Wrong usage."),
    Entry("3", "No router was reached."),
    Entry("4", "The network has no such data."),
    Entry("5", "No answer in time."),
    Entry("6", "Data arrived without the signature of a trusted producer."),
    Entry("7", "The router refused the command."),
    Entry("69", "The router cannot listen on an address."),
    Entry("78", "The configuration of the router is wrong."),
    Entry("130", "Interrupted by a signal."),
];

/// Exit statuses of `namelyd`.
const ROUTER_STATUSES: [Entry; 5] = [
    Entry("0", "Stopped by a signal, or --check found no error."),
    Entry("1", "Another refusal by the environment."),
    Entry("2", "Wrong usage."),
    Entry("69", "An address to listen on is taken, or may not be used."),
    Entry("78", "The configuration is wrong."),
];

/// Variables that `namely` reads.
const VARIABLES: [Entry; 7] = [
    Entry("NAMELY_ROUTER", "The router to use, as --router."),
    Entry("NAMELY_TRUST_ROUTER_OF", "Users whose routers are trusted, as --trust-router-of."),
    Entry("NAMELY_HOME", "The folder of keys and trust."),
    Entry("NAMELY_PASSPHRASE", "The passphrase of private keys."),
    Entry("NAMELY_LOG", "The level of the log."),
    Entry("NAMELY_CORE_DUMPS", "1 permits core dumps, which contain secrets."),
    Entry("NDN_CLIENT_TRANSPORT", "The router of ndn-cxx's programs, if NAMELY_ROUTER is not set."),
];

/// Variables that `namelyd` reads.
const ROUTER_VARIABLES: [Entry; 5] = [
    Entry("NAMELY_LOG", "The level of the log, as --log."),
    Entry("NAMELY_CORE_DUMPS", "1 permits core dumps, which contain secrets."),
    Entry("XDG_CONFIG_HOME", "The folder of namely/namely.toml."),
    Entry("XDG_RUNTIME_DIR", "The folder of the sockets of a router that root does not start."),
    Entry("STATE_DIRECTORY", "The folder of the router's key, set by systemd."),
];

/// Files of the router, which `namely` connects to.
const FILES: [Entry; 5] = [
    Entry("~/.config/namely/namely.toml", "The configuration of your router, namely.toml(5)."),
    Entry("/etc/namely/namely.toml", "The configuration of the system's router."),
    Entry("$XDG_RUNTIME_DIR/namely.sock", "The socket of your router."),
    Entry("/run/namely/namely.sock", "The socket of root's router."),
    Entry("/usr/share/doc/namely/glossary.md", "The words of these pages and of messages, in packages."),
];

/// A term and its description.
struct Entry(&'static str, &'static str);

/// Write the man pages.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely man ~/.local/share/man")]
pub struct Man {
    /// The directory for man1/namely.1, man1/namely-get.1 and so on, man5/namely.toml.5 and
    /// man8/namelyd.8; created if it is missing.
    dir: PathBuf,
}

impl Man {
    /// Writes one page for each command, one for the router and one for its configuration.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let section = |number: &str| {
            let dir = self.dir.join(number);
            std::fs::create_dir_all(&dir).map_err(|e| io_failure("make", &dir, e)).map(|()| dir)
        };
        let (commands, formats, daemons) = (section("man1")?, section("man5")?, section("man8")?);
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        write_commands(&root, &[], &commands)?;
        let mut daemon = namely_daemon::command();
        daemon.build();
        let page = Page {
            command: &daemon,
            section: "8",
            statuses: &ROUTER_STATUSES,
            variables: &ROUTER_VARIABLES,
            related: vec!["namely.toml(5)".into(), "namely(1)".into(), "namely-up(1)".into()],
        };
        page.write_to(&daemons)?;
        write(&formats.join("namely.toml.5"), configuration_page().as_bytes())?;
        let dir = std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone());
        ctx.out.remark(format!("man pages written to {}", self.dir.display()));
        ctx.out.remark(format!("if man does not find them: export MANPATH={}:", dir.display()));
        Ok(())
    }
}

/// Writes the page of a command, and of those below it.
fn write_commands(command: &Command, above: &[String], dir: &Path) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let below: Vec<&Command> = command.get_subcommands().filter(|of| !of.is_hide_set()).collect();
    let mut related: Vec<String> = above.iter().rev().map(|name| format!("{name}(1)")).collect();
    let names = below.iter().map(|of| of.get_display_name().unwrap_or_else(|| of.get_name()));
    related.extend(names.map(|name| format!("{name}(1)")));
    related.extend(["namelyd(8)".into(), "namely.toml(5)".into()]);
    let page = Page { command, section: "1", statuses: &STATUSES, variables: &VARIABLES, related };
    page.write_to(dir)?;
    let above = [above, &[name]].concat();
    below.into_iter().try_for_each(|of| write_commands(of, &above, dir))
}

/// A manual page of a program.
struct Page<'a> {
    command: &'a Command,
    section: &'static str,
    statuses: &'a [Entry],
    variables: &'a [Entry],
    /// Pages to see also.
    related: Vec<String>,
}

impl Page<'_> {
    fn write_to(&self, dir: &Path) -> Result<(), Failure> {
        let manual = if self.section == "8" { "System Administration" } else { "User Commands" };
        // The generator would run the lines of examples together.
        let command = self.command.clone().after_help(None::<&str>);
        let man = clap_mangen::Man::new(command);
        let man = man.section(self.section).date(RELEASED).source(SOURCE).manual(manual);
        let path = dir.join(man.get_filename());
        let mut page = Vec::new();
        man.render(&mut page).map_err(|e| io_failure("write", &path, e))?;
        let notes = self.command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let mut text = tidied(&String::from_utf8_lossy(&page));
        text += &after_help(&notes);
        text += &list("EXIT STATUS", self.statuses);
        text += &list("ENVIRONMENT", self.variables);
        text += &list("FILES", &FILES);
        text += &see_also(&self.related);
        write(&path, text.as_bytes())
    }
}

/// The octets of a line of text in a page's source, beyond which mandoc(1) reports it.
const LINE_OCTETS_MAX: usize = 80;

/// A page of the generator without line breaks beside empty lines, which have no effect, and with
/// short lines.
fn tidied(page: &str) -> String {
    let lines: Vec<&str> = page.lines().map(str::trim_end).collect();
    let mut text = String::new();
    for (i, line) in lines.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| lines.get(i));
        let is_empty = |line: Option<&&str>| line == Some(&"");
        if *line == ".br" && (is_empty(before) || is_empty(lines.get(i + 1))) {
            continue;
        }
        if line.starts_with('.') {
            let _ = writeln!(text, "{line}");
        } else {
            wrap(line, &mut text);
        }
    }
    text
}

/// Adds a line of text as lines that are not too long. The formatter fills them again.
fn wrap(line: &str, text: &mut String) {
    let mut octets = 0;
    for word in line.split(' ') {
        if octets > 0 && octets + word.len() >= LINE_OCTETS_MAX {
            text.push('\n');
            octets = 0;
            if word.starts_with(['.', '\'']) {
                text.push_str("\\&");
            }
        } else if octets > 0 {
            text.push(' ');
        }
        text.push_str(word);
        octets += word.len() + 1;
    }
    text.push('\n');
}

/// The sections for the end of the help: its examples, each on its own line, and its notes.
fn after_help(text: &str) -> String {
    let (mut examples, mut notes) = (String::new(), String::new());
    let mut is_example = false;
    for block in text.split("\n\n") {
        // The statuses have a section of their own.
        let mut lines = block.lines().filter(|line| !line.starts_with("Exit status:")).peekable();
        if block.starts_with("Exit status:") {
            continue;
        }
        is_example = block.starts_with("Example") || is_example && block.starts_with("  ");
        if is_example {
            lines.next_if(|line| line.starts_with("Example"));
            lines.for_each(|line| {
                examples.push_str(&format!("{}\n", escaped(line.strip_prefix("  ").unwrap_or(line))))
            });
        } else if lines.peek().is_some() {
            notes.push_str(".PP\n");
            lines.for_each(|line| wrap(&escaped(line.trim_start()), &mut notes));
        }
    }
    let mut sections = String::new();
    if !notes.is_empty() {
        let _ = write!(sections, ".SH NOTES\n{}", notes.trim_start_matches(".PP\n"));
    }
    if !examples.is_empty() {
        let _ = write!(sections, ".SH EXAMPLES\n.nf\n{examples}.fi\n");
    }
    sections
}

fn list(heading: &str, entries: &[Entry]) -> String {
    let mut section = format!(".SH {heading}\n");
    for Entry(term, text) in entries {
        let _ = writeln!(section, ".TP\n.B {}\n{}", escaped(term), escaped(text));
    }
    section
}

/// References to other pages, the last without a comma.
fn see_also(pages: &[String]) -> String {
    let mut section = ".SH SEE ALSO\n".to_owned();
    for (i, page) in pages.iter().enumerate() {
        let (name, number) = page.split_once('(').unwrap_or((page, ""));
        let comma = if i + 1 < pages.len() { "," } else { "" };
        let _ = writeln!(section, ".BR {} ({number}{comma}", escaped(name));
    }
    section
}

/// A line of text, in which roff finds no request.
fn escaped(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-");
    // A dot or a quote at the start of a line would be a request of roff.
    let guard = if text.starts_with(['.', '\'']) { "\\&" } else { "" };
    format!("{guard}{text}")
}

fn write(path: &Path, page: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, page).map_err(|e| io_failure("write", path, e))
}

/// Returns the page of the configuration file. It contains the sample file, and a test compares the
/// keys of the sample with those of the router.
fn configuration_page() -> String {
    let mut page = format!(
        ".TH namely.toml 5 {RELEASED} \"{SOURCE}\" \"File Formats\"\n.SH NAME\nnamely.toml \\- configuration of namelyd\n\
         .SH DESCRIPTION\nThe file that \\fBnamelyd\\fR(8) and \\fBnamely up\\fR read:\n~/.config/namely/namely.toml, or\n\
         /etc/namely/namely.toml, or the file of \\fB\\-\\-config\\fR. It is TOML.\nEvery key has a default, and no file is\n\
         needed. \\fBnamelyd \\-\\-check\\fR reports errors in a file;\non SIGHUP a router reads it again.\n\
         .SH KEYS\nEvery key, with its effect. Lines that begin with \"#= \" show defaults.\n.PP\n.nf\n"
    );
    for line in SAMPLE.lines() {
        let _ = writeln!(page, "{}", escaped(line));
    }
    page + ".fi\n" + &list("FILES", &FILES[..2]) + &see_also(&["namelyd(8)".into(), "namely(1)".into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_lines_are_short_and_plain() {
        assert_eq!(tidied(".TP\na  \n.br\nb\n.br\n\n.br\nc\n"), ".TP\na\n.br\nb\n\nc\n");
        let long = format!("{} .dot 'quote", "x".repeat(77));
        assert_eq!(tidied(&long), format!("{}\n\\&.dot 'quote\n", "x".repeat(77)));
        assert_eq!(tidied(&"y".repeat(200)).len(), 201, "a word stays whole");
    }

    #[test]
    fn examples_and_notes_have_sections() {
        let text =
            after_help("Examples:\n  namely a\n      does it\n  namely b\n\nSome note.\nExit status: 0.");
        assert_eq!(text, ".SH NOTES\nSome note.\n.SH EXAMPLES\n.nf\nnamely a\n    does it\nnamely b\n.fi\n");
        assert_eq!(after_help(""), "");
        assert_eq!(see_also(&["a-b(1)".into(), "c(8)".into()]), ".SH SEE ALSO\n.BR a\\-b (1),\n.BR c (8)\n");
    }
}

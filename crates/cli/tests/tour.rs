//! The commands of README.md and docs/ run, in their order, in one shell, and succeed.
//!
//! In a ```` ```console ```` block, the test runs the lines that start with `$ `. The other lines
//! are output for the reader. Each document is one session in an empty home and working directory.
//! Free ports replace its ports of 127.0.0.1, so that two users may run this test at once.
//! `lab$ ` and `desk$ ` are two hosts in one document. Each has a key chain and a router of its
//! own. An address and a port of this machine replace lab's 192.0.2.7:6363, and a file of the
//! session replaces NFD's configuration of the machine. A ```` ```console kernel ```` block loads a
//! module: it runs in a guest (`kernel.rs`). A ```` ```console build ```` block compiles or
//! installs: examples/rust/tests/pages.rs runs those of Rust and C, and
//! bindings/python/tests/test_wheel.py that of Python.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use namely_testkit::{Need, found_within, skip};

use crate::docs::FIRST_HOURS;
use crate::migrate::nfd_sample_for_tests;

/// Maximum duration of one document's commands. On a quiet machine, each takes less than a
/// tenth of it.
const LIMIT: Duration = Duration::from_secs(1200);

/// Maximum time in which its background commands end.
const GRACE: Duration = Duration::from_secs(2);

/// The configuration of NFD that pages migrate, and the file of the session in its place.
const NFD_CONF: (&str, &str) = ("/etc/ndn/nfd.conf", "nfd.conf");

/// First lines of the blocks that other tests run.
const OF_OTHERS: [&str; 2] = ["```console kernel", "```console build"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is above the crate")
}

/// The commands of a document's console blocks.
pub(crate) fn commands(document: &Path) -> Vec<String> {
    let text = fs::read_to_string(document).unwrap();
    let port = namely_testkit::free_port();
    let mut commands = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
            let is_for_nobody = line.starts_with("```console") && !inside && !OF_OTHERS.contains(&line);
            assert!(!is_for_nobody, "{}: nothing runs '{line}'", document.display());
        } else if let (true, Some(command)) = (inside, line.strip_prefix("$ ")) {
            commands.push(command.replace(NFD_CONF.0, NFD_CONF.1));
        } else if let (true, Some((host @ ("lab" | "desk"), command))) = (inside, line.split_once("$ ")) {
            let here = format!(
                "export NAMELY_HOME=\"$HOME/{host}\" NAMELY_ROUTER=\"unix://$HOME/{host}.sock\"; {command}"
            );
            commands.push(here.replace("192.0.2.7", "127.0.0.1").replace(":6363", &format!(":{port}")));
        }
    }
    with_free_ports(commands)
}

/// Replaces each port of 127.0.0.1, also where a command has only its number, by a free one.
fn with_free_ports(mut commands: Vec<String>) -> Vec<String> {
    let port_in = |text: &str| {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..digits].parse::<u16>().ok().filter(|&port| port != 0)
    };
    let ports: BTreeSet<u16> =
        commands.iter().flat_map(|command| command.split("127.0.0.1:").skip(1).filter_map(port_in)).collect();
    for port in ports {
        let free = namely_testkit::free_port().to_string();
        for command in &mut commands {
            *command = with_number(command, &port.to_string(), &free);
        }
    }
    commands
}

/// Replaces a number where it is not a part of a longer word.
fn with_number(text: &str, number: &str, by: &str) -> String {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(number) {
        let (before, after) = (&rest[..at], &rest[at + number.len()..]);
        let is_whole = !is_word(before.chars().next_back()) && !is_word(after.chars().next());
        replaced += before;
        replaced += if is_whole { by } else { number };
        rest = after;
    }
    replaced + rest
}

#[test]
fn two_sessions_share_no_port() {
    let session =
        || with_free_ports(vec!["serve 8765 18765".into(), "up tcp://127.0.0.1:8765 127.0.0.1:0".into()]);
    let (one, other) = (session(), session());
    assert_ne!(one, other);
    let port = one[1].trim_start_matches("up tcp://127.0.0.1:").trim_end_matches(" 127.0.0.1:0");
    assert_ne!(port, "8765");
    assert_eq!(one[0], format!("serve {port} 18765"));
}

/// A third-party program that the commands use and that is not installed.
fn missing(commands: &[String]) -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    let used = |program: &str| commands.iter().any(|command| command.split(' ').any(|word| word == program));
    ["curl", "python3"].into_iter().find(|program| used(program) && !installed(program))
}

/// Removes the commands of testbeds if these cannot run, with a skip.
fn without_testbeds(commands: &mut Vec<String>) {
    let is_root = rustix::process::geteuid().is_root();
    let user: &[&str] = if is_root { &[] } else { &["--user", "--map-root-user"] };
    let mut unshare = Command::new("unshare");
    unshare.args(user).args(["--net", "--pid", "--mount", "--fork", "--mount-proc", "sh", "-c"]);
    unshare.arg("mount -t tmpfs x /run && ip netns add x");
    let is_testbed = |command: &String| command.contains("namely testbed run");
    if commands.iter().any(is_testbed) && !unshare.output().is_ok_and(|output| output.status.success()) {
        skip(Need::Namespaces, "`namely testbed run`: no namespaces here, or no unshare and ip");
        // The commands that read the testbed's results are removed, too.
        let files = commands.iter().filter(|command| is_testbed(command));
        let stems =
            files.filter_map(|command| command.split(' ').find_map(|word| word.strip_suffix(".toml")));
        let results: Vec<String> = stems.map(|stem| format!("{stem}-results")).collect();
        let reads = |command: &String| results.iter().any(|folder| command.contains(folder));
        commands.retain(|command| !is_testbed(command) && !reads(command));
    }
}

/// Runs the commands in one shell. Returns the output if one failed or the time was over.
pub(crate) fn run(document: &Path) -> Result<usize, String> {
    let mut commands = commands(document);
    without_testbeds(&mut commands);
    if commands.is_empty() {
        return Ok(0);
    }
    if let Some(program) = missing(&commands) {
        let need = if program == "curl" { Need::Curl } else { Need::Python };
        skip(need, format_args!("{} needs {program}, which is not installed", document.display()));
        return Ok(0);
    }
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(NFD_CONF.1), nfd_sample_for_tests(&home.path().join("namely.sock"))).unwrap();
    let log = fs::File::create(home.path().join("log")).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_namely")).parent().unwrap();
    let mut script = String::from("set -euo pipefail\n");
    for command in &commands {
        script += &format!("echo '$ '{}\n{}\n", quote(command), repeated(command));
    }
    let mut shell = Command::new("bash")
        .stdin(Stdio::piped())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .current_dir(home.path())
        .env_clear()
        .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()))
        .env("HOME", home.path())
        .env("XDG_RUNTIME_DIR", home.path())
        .env("NAMELY_ROUTER", format!("unix://{}/namely.sock", home.path().display()))
        // The session's own process group: background commands end with it.
        .process_group(0)
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let status = found_within(LIMIT, || shell.try_wait().unwrap());
    let group = rustix::process::Pid::from_raw(shell.id() as i32).unwrap();
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
    // Background commands that end by SIGTERM have time to do so.
    found_within(GRACE, || {
        shell.try_wait().unwrap()?;
        rustix::process::test_kill_process_group(group).err()
    });
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    let _ = shell.wait();
    let printed = fs::read_to_string(home.path().join("log")).unwrap_or_default();
    match status {
        Some(status) if status.success() => Ok(commands.len()),
        Some(status) => Err(format!("{}: {status}\n{printed}", document.display())),
        None => Err(format!("{}: not done in {LIMIT:?}\n{printed}", document.display())),
    }
}

/// Repeats a measurement that fails. A measurement of a second has no answer if the router does not
/// run in that second, on a busy machine.
fn repeated(command: &str) -> String {
    let is_measurement = command.starts_with("namely perf ") && !command.ends_with('&');
    if is_measurement { format!("{command} || {command} || {command}") } else { command.to_owned() }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[test]
fn the_readme_commands_run() {
    let count = run(&root().join("README.md")).unwrap_or_else(|e| panic!("{e}"));
    assert!(count > 5, "the README has a first session");
}

#[test]
fn the_documented_commands_run() {
    for entry in fs::read_dir(root().join("docs")).unwrap().flatten() {
        let path = entry.path();
        // The pages of the first hours have tests of their own.
        let has_own_test = FIRST_HOURS.iter().any(|hour| path.ends_with(hour.page));
        if path.extension().is_some_and(|e| e == "md") && !has_own_test {
            let count = run(&path).unwrap_or_else(|e| panic!("{e}"));
            assert!(count > 30 || !path.ends_with("docs/tour.md"), "the tour is complete: {count}");
            println!("{}: {count} commands", path.display());
        }
    }
}

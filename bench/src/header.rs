//! The header of the figures: the machine, its load, and the exact programs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::machine::Machine;
use crate::namespace::NetworkScope;
use crate::options::Compare;
use crate::subject::Subject;
use namely_testbed::Interrupt;
use namely_testbed::{Process, command};

/// Maximum time of a program to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// Returns the header. Programs are run to print their versions, with `dir` for their files.
pub fn lines(
    options: &Compare,
    scope: &NetworkScope,
    subjects: &[Box<dyn Subject>],
    dir: &Path,
    interrupt: &Interrupt,
) -> Vec<String> {
    let network = match scope {
        NetworkScope::OwnNamespace => "a namespace of its own".to_owned(),
        NetworkScope::Loopback(why) => format!("the machine's loopback ({why})"),
    };
    let (plan, runs) = (options.plan(), options.repeats.runs());
    let mut lines = vec![
        format!("machine: {}", Machine::read()),
        format!("network: {network}"),
        format!(
            "runs: {runs} of each subject in each scenario, alternating; objects of {} MiB",
            plan.object_octets >> 20
        ),
    ];
    lines.extend(subjects.iter().map(|subject| {
        let what = match subject.missing() {
            Some(missing) => format!("absent ({missing})"),
            None => versions(&subject.programs(), dir, interrupt),
        };
        format!("{}: {what}", subject.name())
    }));
    lines
}

fn versions(programs: &[PathBuf], dir: &Path, interrupt: &Interrupt) -> String {
    let versions = programs.iter().map(|program| version(program, dir, interrupt));
    versions.collect::<Vec<_>>().join(", ")
}

fn version(program: &Path, dir: &Path, interrupt: &Interrupt) -> String {
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let output = dir.join("version");
    let mut command = command(program, dir);
    command.arg("--version");
    let result = Process::run("version", command, dir, Some(&output), VERSION_LIMIT, interrupt);
    let printed = result.ok().and_then(|_| std::fs::read_to_string(&output).ok()).unwrap_or_default();
    version_in(&name, &printed)
}

/// Returns the first line that a program printed, preceded by its name if the line is only a
/// number.
fn version_in(name: &str, printed: &str) -> String {
    match printed.lines().next() {
        Some(line) if line.starts_with(|c: char| c.is_ascii_digit()) => format!("{name} {line}"),
        Some(line) => line.to_owned(),
        None => format!("{name} of unknown version"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_starts_with_the_program_name() {
        assert_eq!(version_in("tool", "24.07\nmore\n"), "tool 24.07");
        assert_eq!(version_in("tool", "other 1.5\n"), "other 1.5");
        assert_eq!(version_in("tool", ""), "tool of unknown version");
    }
}

//! Programs print only through the modules in [`WRITERS`], which write escaped text. A print
//! elsewhere would send file names and foreign text to the terminal unescaped.

use std::fs;
use std::path::Path;

use super::root;

/// Folders whose sources print only through the modules below.
const SOURCES: [&str; 5] =
    ["crates", "bindings/c/src", "bindings/python/src", "bench/src", "experiments/src"];

/// The modules that write to a terminal, each with its reason.
const WRITERS: [(&str, &str); 11] = [
    ("bench/src/output.rs", "the output of `namely-bench` and `namely-experiments`, as `Plain`"),
    ("bench/src/plain/ends.rs", "what a parent process reads: the word READY, and round trips"),
    ("bench/src/plain/relay.rs", "what a parent process reads: the word READY"),
    ("experiments/src/sim/progress.rs", "the progress of a simulation, which has numbers only"),
    (
        "crates/cli/src/output.rs",
        "the output of the commands: it takes `Text`, and octets that were asked for",
    ),
    ("crates/cli/src/commands/top/screen.rs", "draws cells of a screen, whose text is `Plain` (view.rs)"),
    ("crates/daemon/src/exit.rs", "what ends the router, as `Plain`"),
    ("crates/daemon/src/log/mod.rs", "a line of the log, as `Plain` or as escaped JSON"),
    ("crates/daemon/src/run.rs", "where the router listens, as `Plain`"),
    ("crates/testkit/src/lib.rs", "tests print the reason of a skip; no program has it"),
    ("bindings/c/src/bin/namely-c-install.rs", "paths that whoever installs the library gave"),
];

/// Macros and functions that write to a terminal.
const WRITES: [&str; 10] = [
    "print!(",
    "println!(",
    "dbg!(",
    "stdout()",
    " stderr()",
    "::stderr()",
    "ProgressBar::",
    "prompt_password(",
    "ratatui::try_init",
    "(std::io::stderr)",
];

fn is_left_out(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    matches!(name, "tests" | "tests.rs" | "examples" | "target")
}

/// Adds the lines of the sources below `folder` that write to a terminal. Skips tests and the
/// modules in [`WRITERS`].
fn search(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the sources").flatten() {
        let path = entry.path();
        let below = path.strip_prefix(root()).expect("a source").display().to_string();
        if is_left_out(&path) || WRITERS.iter().any(|(writer, _)| below == *writer) {
            continue;
        }
        if path.is_dir() {
            search(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("sources are UTF-8");
            let lines = text.lines().enumerate().take_while(|(_, line)| *line != "mod tests {");
            let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
            let written = code.filter(|(_, line)| WRITES.iter().any(|write| line.contains(write)));
            found.extend(written.map(|(n, line)| format!("{below}:{}: {}", n + 1, line.trim())));
        }
    }
}

#[test]
fn only_output_modules_write_to_terminals() {
    let mut found = Vec::new();
    for folder in SOURCES {
        search(&root().join(folder), &mut found);
    }
    assert!(found.is_empty(), "use the output of the crate, which escapes:\n{}", found.join("\n"));
}

#[test]
fn each_listed_writer_exists_and_writes() {
    for (writer, _) in WRITERS {
        let text =
            fs::read_to_string(root().join(writer)).unwrap_or_else(|error| panic!("{writer}: {error}"));
        assert!(WRITES.iter().any(|write| text.contains(write)), "{writer} writes nothing any more");
    }
}

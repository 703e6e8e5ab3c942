//! docs/status.md, from the tables in docs/rows: one file for each system, one entry for each row
//! of its requirements.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::process::Command;

use namely_testkit::{Need, skip};
use serde::Deserialize;

use super::{compare, known_tests, root};

const PAGE: &str = "docs/status.md";

/// The systems, in the order of the page.
const SYSTEMS: [&str; 6] = ["istack", "hicn", "nb-cache", "ndn-ndp", "n-dise", "product"];

/// Sources, or single tests, that the default gate does not run, and their suite (.ci/inputs).
const SUITE_OF: [(&str, &str); 8] = [
    ("bindings_pass_every_case_over_the_kernel", "kernel-tools"),
    ("crates/cli/tests/kernel.rs", "kernel-tools"),
    ("crates/cli/tests/kernel_router.rs", "kernel-tools"),
    ("crates/nnet/tests/neighbours.rs", "kernel-tools"),
    ("crates/dashboard/tests/browser/", "page"),
    ("kernel/test/figures.c", "kernel-figures"),
    ("packaging/deb/", "deb"),
    ("packaging/images/", "images"),
];

/// Maximum length of a line of the page. A row stays readable at a glance.
const LINE_CHARS_MAX: usize = 260;

const HEAD: &str = "# Status

Every requirement of the five systems, one line for each row. **works**: tests of this repository show it; **part**: the last
column names the open point; **open**: it is not built. A column is empty where the row does not concern it. The tests of a row
are listed in [docs/rows](rows), from which this page is written; a name there that does not exist fails the build. Rows of the
kernel run in a guest: `kernel/run`, of which the gate runs the part `--quick`.
";

/// A system's rows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct System {
    title: String,
    #[serde(default)]
    row: Vec<Row>,
}

/// A row of the requirements.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    title: String,
    /// In user space.
    user: Option<State>,
    /// In the kernel module.
    kernel: Option<State>,
    /// The missing parts, in one line.
    open: Option<String>,
    /// The page with figures or the design.
    page: Option<String>,
    #[serde(default)]
    tests: Vec<String>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum State {
    Works,
    Part,
    Open,
}

impl State {
    fn word(of: Option<State>) -> &'static str {
        match of {
            Some(State::Works) => "works",
            Some(State::Part) => "part",
            Some(State::Open) => "open",
            None => "",
        }
    }
}

impl Row {
    fn states(&self) -> impl Iterator<Item = State> {
        self.user.into_iter().chain(self.kernel)
    }

    /// The fault of the declaration, if it has one.
    fn fault(&self) -> Option<&'static str> {
        let is_whole = self.states().all(|state| state == State::Works);
        match (self.states().next(), is_whole, &self.open) {
            (None, ..) => Some("has no state"),
            (_, true, Some(_)) => Some("works but names an open point"),
            (_, false, None) => Some("does not work but names no open point"),
            _ if is_whole && self.tests.is_empty() => Some("works but names no test"),
            _ => None,
        }
    }

    /// The row's line. A link leads to its page.
    fn line(&self) -> String {
        let [user, kernel] = [self.user, self.kernel].map(State::word);
        let open = self.open.as_deref().unwrap_or_default();
        let page = self.page.as_deref().and_then(|page| page.strip_prefix("docs/"));
        let title = page.map_or(self.title.clone(), |page| format!("[{}]({page})", self.title));
        format!("| {} | {title} | {user} | {kernel} | {open} |", self.id)
    }
}

fn systems() -> Vec<System> {
    let read = |name: &&str| {
        let text = std::fs::read_to_string(root().join(format!("docs/rows/{name}.toml")));
        toml::from_str(&text.expect("a table of rows")).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    SYSTEMS.iter().map(read).collect()
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for system in systems() {
        let _ = write!(
            page,
            "\n## {}\n\n| row | requirement | user space | kernel | open point |\n",
            system.title
        );
        page.push_str("| --- | --- | --- | --- | --- |\n");
        for row in system.row {
            page.push_str(&row.line());
            page.push('\n');
        }
    }
    let open = std::fs::read_to_string(root().join("docs/rows/open.txt")).expect("the open points");
    page.push('\n');
    page.push_str(&open);
    page
}

#[test]
fn the_status_follows_its_tables() {
    let page = page();
    compare(PAGE, &page);
    let long = page.lines().find(|line| line.chars().count() > LINE_CHARS_MAX && line.starts_with('|'));
    assert_eq!(long, None, "a row of the status has more than {LINE_CHARS_MAX} characters");
}

#[test]
fn every_row_names_tests_that_exist() {
    let known = known_tests();
    for row in systems().iter().flat_map(|system| &system.row) {
        assert_eq!(row.fault(), None, "{}", row.id);
        let missing: Vec<_> = row.tests.iter().filter(|test| !known.contains_key(*test)).collect();
        assert!(missing.is_empty(), "{} names tests that do not exist: {missing:?}", row.id);
        for (state, is_guest) in [(row.user, false), (row.kernel, true)] {
            let is_shown = row.tests.iter().any(|test| is_of_guest(test, &known) == is_guest);
            let side = if is_guest { "the kernel" } else { "user space" };
            assert!(state != Some(State::Works) || is_shown, "{} works in {side}: name a test there", row.id);
        }
    }
}

/// The suites outside the default gate that show a row.
fn suites(row: &Row, known: &HashMap<String, String>) -> BTreeSet<&'static str> {
    let homes = row.tests.iter().filter_map(|test| Some((test, known.get(test)?)));
    let of = |(test, home): (&String, &String)| {
        SUITE_OF.iter().find(|(of, _)| test == of || home.starts_with(of)).map(|(_, suite)| *suite)
    };
    homes.filter_map(of).collect()
}

/// Returns true if a test runs in a guest that has the module.
fn is_of_guest(test: &str, known: &HashMap<String, String>) -> bool {
    let home = known.get(test).map_or("", String::as_str);
    let suite = SUITE_OF.iter().find(|(of, _)| test == *of || home.starts_with(of));
    home.starts_with("kernel/") || suite.is_some_and(|(_, suite)| suite.starts_with("kernel"))
}

/// A record of `.ci/record`.
#[derive(Deserialize)]
struct Record {
    inputs: String,
    failed: u64,
}

/// The fault of a suite's record, if it has one.
fn record_fault(suite: &str) -> Option<String> {
    let again = format!("run .ci/record {suite} COMMAND, or state what is not shown as an open point");
    let text = std::fs::read_to_string(root().join(format!("evidence/{suite}.json")));
    let Ok(text) = text else { return Some(format!("{suite} has no record: {again}")) };
    let record: Record = serde_json::from_str(&text).expect("a record of a suite");
    let output = Command::new(root().join(".ci/record")).args(["--inputs", suite]).output();
    let inputs = String::from_utf8(output.expect("bash runs").stdout).expect("a hash");
    match record {
        Record { failed: 1.., .. } => Some(format!("{suite} failed: {again}")),
        Record { inputs: of, .. } if of != inputs.trim() => Some(format!("{suite} ran other files: {again}")),
        Record { .. } => None,
    }
}

#[test]
fn a_row_works_on_this_code_only() {
    if Command::new("git").arg("--version").output().is_err() || !root().join(".git").exists() {
        skip(Need::Programs, "git lists the files of a suite");
        return;
    }
    let known = known_tests();
    let systems = systems();
    let rows = systems.iter().flat_map(|system| &system.row).filter(|row| row.fault().is_none());
    let working = rows.filter(|row| row.states().all(|state| state == State::Works));
    let needed: BTreeSet<_> = working.flat_map(|row| suites(row, &known)).collect();
    let faults: Vec<_> = needed.into_iter().filter_map(record_fault).collect();
    assert!(faults.is_empty(), "rows of docs/rows say 'works':\n{}", faults.join("\n"));
}

#[test]
fn a_row_without_proof_is_refused() {
    let row = |text: &str| toml::from_str::<Row>(&format!("id = \"X-01\"\ntitle = \"t\"\n{text}"));
    let fault = |text: &str| row(text).map(|row| row.fault());
    assert_eq!(fault("user = \"works\""), Ok(Some("works but names no test")));
    assert_eq!(fault("user = \"works\"\ntests = [\"a\"]"), Ok(None));
    assert_eq!(
        fault("user = \"works\"\nopen = \"x\"\ntests = [\"a\"]"),
        Ok(Some("works but names an open point"))
    );
    assert_eq!(fault("kernel = \"part\""), Ok(Some("does not work but names no open point")));
    assert_eq!(fault("tests = [\"a\"]"), Ok(Some("has no state")));
    assert!(row("state = \"works\"").is_err());
}

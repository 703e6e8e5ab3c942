//! The documents are true: the tests that docs/security.md names exist, every row of the
//! requirements is in docs/status.md, every link of a page has a target, and one page leads each
//! kind of newcomer from nothing to a first success.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use namely_testkit::{Need, skip};

use crate::tour;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is above the crate")
}

/// The functions below a folder, each with the path of its source from the root: every `fn name` of
/// Rust, `def name` of Python, and `TEST(name` of the guest's C.
pub(crate) fn functions(dir: &Path, found: &mut HashMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "target" | ".git" | "node_modules") {
                functions(&path, found);
            }
        } else if let Some(keyword) = keyword_of_functions(&name) {
            let text = fs::read_to_string(&path).unwrap();
            let home = path.strip_prefix(root()).unwrap().display().to_string();
            let names = text.split(keyword).skip(1).map(|rest| {
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
            });
            found.extend(names.map(|name| (name, home.clone())));
        }
    }
}

fn keyword_of_functions(file: &str) -> Option<&'static str> {
    match file.rsplit_once('.')?.1 {
        "rs" => Some("fn "),
        "py" => Some("def "),
        // Tests that kernel/run runs in a guest.
        "c" => Some("TEST("),
        _ => None,
    }
}

/// The words in backquotes of a table cell.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn rows(document: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    text.lines()
        .filter(|l| l.starts_with("| ") && !l.starts_with("| ---"))
        .map(|l| l.trim_matches('|').split(" | ").map(|c| c.trim().to_string()).collect())
        .collect()
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let mut known = HashMap::new();
    functions(&root(), &mut known);
    let promises: Vec<_> = rows("docs/security.md").into_iter().filter(|r| r[0].starts_with("P-")).collect();
    assert!(promises.len() > 10, "docs/security.md lists the promises");
    for row in promises {
        let [id, _, state, shown] = &row[..] else { panic!("row {:?} has not four cells", row[0]) };
        assert!(matches!(state.as_str(), "works" | "part" | "open"), "{id}: state {state:?}");
        let tests = quoted(shown);
        assert!(*state != "works" || !tests.is_empty(), "{id} works but names no test");
        for test in tests {
            assert!(known.contains_key(test), "{id} names the test {test}, which does not exist");
        }
    }
}

#[test]
fn every_requirement_is_in_the_status() {
    let dir = root().join("../shared/acceptance");
    let Ok(files) = fs::read_dir(&dir) else {
        skip(Need::Requirements, "the requirements are not beside this checkout");
        return;
    };
    let listed: HashSet<String> = rows("docs/status.md").into_iter().map(|r| r[0].clone()).collect();
    for file in files.flatten() {
        for line in fs::read_to_string(file.path()).unwrap().lines().filter(|l| l.starts_with("| ")) {
            let id = line.trim_matches('|').split('|').next().unwrap_or_default().trim();
            let is_row = id.split_once('-').is_some_and(|(a, n)| a.len() <= 2 && n.parse::<u32>().is_ok());
            assert!(!is_row || listed.contains(id), "{id} is missing in docs/status.md");
        }
    }
}

/// Pages for users and operators, who do not know the requirements.
const FOR_USERS: [&str; 27] = [
    "README.md",
    "docs/c.md",
    "docs/configuration.md",
    "docs/content-store.md",
    "docs/counters.md",
    "docs/dashboard.md",
    "docs/files.md",
    "docs/first-file.md",
    "docs/glossary.md",
    "docs/install.md",
    "docs/interop.md",
    "docs/keychain.md",
    "docs/limits.md",
    "docs/management.md",
    "docs/nfd.md",
    "docs/perf.md",
    "docs/proxy.md",
    "docs/python.md",
    "docs/questions.md",
    "docs/rust.md",
    "docs/sockets.md",
    "docs/stability.md",
    "docs/tour.md",
    "docs/troubleshooting.md",
    "docs/trust.md",
    "docs/two-hosts.md",
    "docs/xrootd.md",
];

#[test]
fn user_pages_name_no_requirement() {
    let is_number = |word: &&str| {
        word.split_once('-').is_some_and(|(of, number)| {
            ["IS", "HT", "NB", "ND", "VI", "X"].contains(&of)
                && number.len() == 2
                && number.parse::<u8>().is_ok()
        })
    };
    for page in FOR_USERS {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let found: Vec<&str> = words.filter(is_number).collect();
        assert!(found.is_empty(), "{page} names {found:?}: docs/status.md is the place for it");
    }
}

/// The Markdown pages of the repository's root and of docs/.
fn pages() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/experiments"];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap().flatten());
    let mut pages: Vec<_> = entries.map(|entry| entry.path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

/// A page without its blocks of code and its text in backquotes.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// Returns the targets of a page's links.
fn targets(text: &str) -> Vec<String> {
    let prose = prose(text);
    prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to.to_owned()).collect()
}

/// The anchors of a page's headings, as renderers of Markdown make them. An anchor has letters,
/// digits, `-` and `_` in lower case. A space becomes `-`. A repeated name has a number.
fn anchors(text: &str) -> HashSet<String> {
    let mut anchors = HashSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let anchor: String = heading
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                _ => None,
            })
            .collect();
        let again = (1..).map(|number| format!("{anchor}-{number}"));
        let anchor = std::iter::once(anchor.clone()).chain(again).find(|name| !anchors.contains(name));
        anchors.extend(anchor);
    }
    anchors
}

/// Returns the fault of a page's link, if there is one.
fn wrong(page: &Path, to: &str) -> Option<&'static str> {
    let (file, anchor) = to.split_once('#').map_or((to, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
    let Ok(path) = path.canonicalize() else { return Some("there is no such file") };
    if !path.starts_with(root()) {
        return Some("it leads out of the repository");
    }
    let is_there = |anchor: &str| fs::read_to_string(&path).is_ok_and(|text| anchors(&text).contains(anchor));
    anchor.filter(|anchor| !is_there(anchor)).map(|_| "the page has no such heading")
}

#[test]
fn every_page_link_has_a_target() {
    let mut count = 0;
    for page in pages() {
        for to in targets(&fs::read_to_string(&page).unwrap()) {
            if to.starts_with("https://") || to.starts_with("http://") {
                continue;
            }
            count += 1;
            let wrong = wrong(&page, &to);
            assert!(wrong.is_none(), "{} links to {to}: {}", page.display(), wrong.unwrap_or_default());
        }
    }
    assert!(count > 200, "the pages link to one another: {count}");
}

#[test]
fn broken_links_are_detected() {
    let page = root().join("docs/install.md");
    for right in ["c.md", "../README.md#documents", "testbeds/grid-9.toml", "#installing-from-packages"] {
        assert_eq!(wrong(&page, right), None, "{right}");
    }
    for missing in ["d.md", "../README.md#no-tour", "#nothing", "README.md", "../../.."] {
        assert!(wrong(&page, missing).is_some(), "{missing}");
    }
    let text = "# A `b` c!\n[x](y.md) `[no](no.md)`\n```\n# no\n[no](no.md)\n```\n## A b c\n";
    assert_eq!(targets(text), ["y.md"]);
    assert_eq!(anchors(text), ["a-b-c", "a-b-c-1"].map(String::from).into());
}

/// A newcomer's first hour: the commands of one page, from an empty home on.
pub(crate) struct FirstHour {
    pub(crate) page: &'static str,
    /// Parts of commands that a newcomer of this kind needs, in their order.
    steps: &'static [&'static str],
}

const STUDENT: FirstHour = FirstHour {
    page: "docs/first-file.md",
    steps: &["namely up", "namely serve", "namely ls", "namely get", "cmp ", "namely why"],
};

/// With two hosts. The fetching one needs no router of its own at first.
const SCIENTIST: FirstHour = FirstHour {
    page: "docs/two-hosts.md",
    steps: &[
        "namely serve",
        "cert show",
        "cert trust --from",
        "namely get",
        "cmp ",
        "route add",
        "namely get",
    ],
};

/// With a configuration of NFD.
const OPERATOR: FirstHour = FirstHour {
    page: "docs/nfd.md",
    steps: &["migrate", "--check", "namely up", "namely status", "route add", "namely ping", "/metrics"],
};

pub(crate) const FIRST_HOURS: [FirstHour; 3] = [STUDENT, SCIENTIST, OPERATOR];

impl FirstHour {
    /// Runs all commands of the page. None may fail.
    fn run(&self) {
        let page = root().join(self.page);
        let commands = tour::commands(&page);
        let mut rest = commands.iter();
        for step in self.steps {
            let is_there = rest.any(|command| command.contains(step));
            assert!(is_there, "{} has no {step} after the steps before it", self.page);
        }
        tour::run(&page).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_students_first_hour_succeeds() {
    STUDENT.run();
}

#[test]
fn a_scientists_first_hour_succeeds() {
    SCIENTIST.run();
}

#[test]
fn an_operators_first_hour_succeeds() {
    OPERATOR.run();
}

//! docs/counters.md, from the declarations of the counters.
//!
//! A counter is a documented item: a variant of an enum with a label, a row of a macro such as
//! `counters!`, a field of a struct of counts, or a constant with the label. [`SECTIONS`] names the
//! declarations of each section. The first paragraph of the documentation is the meaning. Counters
//! that Rust does not declare are in docs/rows/counters.toml.

mod reader;
mod sections;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use self::reader::read;
use self::sections::{SECTIONS, Section};
use super::{compare, root};

const PAGE: &str = "docs/counters.md";

const HEAD: &str = "# Counters

`namely status --counters` prints each counter that is not zero: those of links (`link.truncated`) for the whole router and for each face, those of the forwarder
(`forwarder.no_route`), of the content store's disk (`cs_disk.hits`), of neighbor discovery, of VIP and of management. [Metrics](metrics.md) and the
[dashboard](dashboard.md) show the same names. This page is written from the declarations in the code.

Every frame or packet that a face drops has a counter with the reason. Drops that the forwarder decides on, such as no route or full tables, have counters of the
forwarder. A router that forwards [in the kernel](kernel.md#a-router-on-it) shows the counters of `/proc/net/nnet/drops` and `/proc/net/nnet/cs` as those of the
forwarder, and the counters of `/proc/net/nnet/stats` under `kernel.`, such as `kernel.socket_full`. A face there has the drops of its two sockets' queues only.
";

/// The line below the title of a section that counts drops. The dashboard reads it.
const DROPS: &str = "Each counted event is a drop or a refusal.";

/// Labels of counters that no release has published yet, or the beginnings of such labels.
const UNPUBLISHED: [&str; 4] = ["lost", "management.", "metrics.", "worker0."];

/// A counter with its meaning.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Counter {
    /// The title of its section, if the section names no declaration.
    #[serde(default)]
    section: String,
    name: String,
    meaning: String,
}

impl Counter {
    fn line(&self) -> String {
        format!("- `{}`: {}\n", self.name, self.meaning)
    }
}

/// Counters that Rust does not declare.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Others {
    counter: Vec<Counter>,
}

fn text_of(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn others() -> Vec<Counter> {
    toml::from_str::<Others>(&text_of("docs/rows/counters.toml")).expect("the other counters").counter
}

/// The counters of a section. Adds what is wrong with declarations to `faults`.
fn counters_of(section: &Section, others: &[Counter], faults: &mut Vec<String>) -> Vec<Counter> {
    let mut counters = Vec::new();
    for part in section.parts {
        let (mut found, mut wrong) = read(part, &text_of(part.source));
        counters.append(&mut found);
        faults.append(&mut wrong);
    }
    counters.extend(others.iter().filter(|counter| counter.section == section.title).cloned());
    let mut names = BTreeSet::new();
    let repeated = counters.iter().filter(|counter| !names.insert(&counter.name));
    faults.extend(repeated.map(|counter| format!("{} is twice in {}", counter.name, section.title)));
    counters
}

/// The page, with what is wrong with declarations.
fn page() -> (String, Vec<String>) {
    let (mut page, mut faults, others) = (HEAD.to_owned(), Vec::new(), others());
    for section in &SECTIONS {
        let counters = counters_of(section, &others, &mut faults);
        if counters.is_empty() {
            faults.push(format!("{} has no counter", section.title));
        }
        page.push_str(&format!("\n## {}\n\n", section.title));
        let lines = [if section.is_drop { DROPS } else { "" }, section.note];
        let lines: Vec<_> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        if !lines.is_empty() {
            page.push_str(&format!("{}\n\n", lines.join("\n")));
        }
        counters.iter().for_each(|counter| page.push_str(&counter.line()));
    }
    let is_known = |title: &str| SECTIONS.iter().any(|section| section.title == title);
    let homeless = others.iter().filter(|counter| !is_known(&counter.section));
    faults.extend(homeless.map(|counter| format!("{} is in no section", counter.name)));
    (page, faults)
}

/// The names at the beginnings of a page's list items.
fn names(page: &str) -> BTreeSet<&str> {
    let items = page.lines().filter_map(|line| line.strip_prefix("- `")?.split_once("`: "));
    items.map(|(name, _)| name).collect()
}

/// The published names of a page.
pub(super) fn published(page: &str) -> BTreeSet<&str> {
    let is_published = |name: &&str| !UNPUBLISHED.iter().any(|begin| name.starts_with(begin));
    names(page).into_iter().filter(is_published).collect()
}

/// The published names that a page lacks.
fn missing<'a>(published: &'a str, page: &str) -> Vec<&'a str> {
    let declared = names(page);
    published.lines().filter(|name| !declared.contains(name)).collect()
}

/// Calls that count a drop under a label in quotes, which no declaration documents.
fn bare_labels(source: &str) -> Vec<&str> {
    const CALLS: [&str; 4] = [".count(\"", ".add(\"", ".add_drops(\"", ".count_receive_drop(\""];
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    source.lines().filter(|line| CALLS.iter().any(|call| line.contains(call))).map(str::trim).collect()
}

#[test]
fn the_page_of_counters_follows_their_declarations() {
    let (page, faults) = page();
    assert!(faults.is_empty(), "{} declarations are wrong:\n{}", faults.len(), faults.join("\n"));
    let published = text_of("docs/interfaces/counters.txt");
    let missing = missing(&published, &page);
    assert!(missing.is_empty(), "published counters without a declaration: {missing:?}");
    compare(PAGE, &page);
}

#[test]
fn each_label_of_a_drop_is_declared() {
    let mut found = BTreeMap::new();
    crate::rules::each_source(&mut |path, text| {
        let is_counted = ["crates/io/src/", "crates/dataplane/src/"].iter().any(|of| path.starts_with(of));
        let bare: Vec<_> = bare_labels(text).into_iter().map(str::to_owned).collect();
        if is_counted && !path.ends_with("tests.rs") && !bare.is_empty() {
            found.insert(path.to_owned(), bare);
        }
    });
    assert!(found.is_empty(), "declare these labels in labels.rs: {found:#?}");
    assert_eq!(
        bare_labels("turn.count(\"x\");\nturn.count(X);\n#[cfg(test)]\nmod tests {\nt.count(\"y\");").len(),
        1
    );
}

#[test]
fn each_counter_of_the_kernel_module_is_listed() {
    let source = text_of("kernel/module/main.c");
    let (_, names) = source.split_once("nnet_count_names").expect("the names of the counters");
    let (names, _) = names.split_once("};").expect("the end of the names");
    let mut declared: Vec<_> = names.split('"').skip(1).step_by(2).collect();
    let others = others();
    let of_kernel = others.iter().filter(|counter| counter.section.starts_with("Kernel module"));
    let mut listed: Vec<_> = of_kernel.map(|counter| counter.name.as_str()).collect();
    declared.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, declared, "docs/rows/counters.toml and kernel/module/main.c");
}

#[test]
fn a_published_name_without_a_declaration_is_found() {
    let page = "## Faces\n\n- `a.b`: Packets\n- `lost`: Segments\n";
    assert_eq!(missing("a.b\nlost\n", page), Vec::<&str>::new());
    assert_eq!(missing("a.b\na.c\n", page), ["a.c"]);
    assert_eq!(published(page).into_iter().collect::<Vec<_>>(), ["a.b"]);
}

//! docs/limits.md, from the declarations of the limits.
//!
//! A limit is a constant or a field whose documentation has a section `# Limit`:
//!
//! ```text
//! /// Incomplete messages of a face.
//! ///
//! /// # Limit
//! /// The message that waited longest is evicted.
//! /// - Counter: `reassembly_evicted`
//! /// - Tests: `the_oldest_message_is_evicted`
//! pub const MESSAGES_MAX: usize = 512;
//! ```
//!
//! The first paragraph names the limited thing, the text of the section says what happens at the
//! limit. `- Value:` gives the value where the expression of a constant does not, `- Setting:` the
//! key of the configuration. Limits that Rust does not declare are in docs/rows/limits.toml.

use std::collections::BTreeMap;

use serde::Deserialize;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Expr, Lit};

use super::{compare, known_tests, root};

const PAGE: &str = "docs/limits.md";

/// Titles of the page's sections, by the folder that declares the limits.
const SECTION_OF: [(&str, &str); 4] = [
    ("kernel", "Kernel module"),
    ("bindings", "Bindings"),
    ("bench", "Benchmarks"),
    ("experiments", "Experiments"),
];

const HEAD: &str = "# Limits

Every table, queue and buffer that a peer, a file or another user can fill has a limit, and a counter of what it refuses. This
page is written from the declarations in the code. Each declaration also names the tests at the limit and one past it. A name in
capitals is a constant; a name with a dot is a setting ([configuration](configuration.md)).
";

/// A declared limit.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Limit {
    /// The crate or the part that declares it.
    section: String,
    /// The limited thing.
    subject: String,
    /// The constant, field or setting.
    #[serde(default)]
    name: String,
    value: String,
    /// The effect of the limit.
    full: String,
    #[serde(default)]
    counters: Vec<String>,
    tests: Vec<String>,
}

impl Limit {
    fn line(&self) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!(", `{}`", self.name) };
        let counters: Vec<_> = self.counters.iter().map(|counter| format!("`{counter}`")).collect();
        let counters =
            if counters.is_empty() { String::new() } else { format!(" Counted: {}.", counters.join(", ")) };
        let [subject, full] = [&self.subject, &self.full].map(|text| capitalized(text));
        format!("- {subject}{name}: **{}**. {full}.{counters}", self.value)
    }
}

/// The limits of one source.
struct Reader<'a> {
    section: &'a str,
    /// The type whose fields are read.
    owner: String,
    found: Vec<Limit>,
    /// Declarations that lack a part.
    faults: Vec<String>,
}

impl Reader<'_> {
    fn read(&mut self, name: &str, attributes: &[Attribute], value: Option<&Expr>) {
        let docs = documentation(attributes);
        let Some((head, section)) = docs.split_once("# Limit\n") else { return };
        let mut limit = Limit { section: self.section.to_owned(), name: name.to_owned(), ..Limit::default() };
        let paragraph = head.trim().split("\n\n").next().unwrap_or_default();
        limit.subject = joined(paragraph).trim_end_matches('.').to_owned();
        limit.value = value.and_then(|value| shown(name, value)).unwrap_or_default();
        // A later section is no part of this one.
        let section = format!("\n{}", section.split("\n# ").next().unwrap_or_default());
        let mut parts = section.split("\n- ");
        limit.full = joined(parts.next().unwrap_or_default()).trim_end_matches('.').to_owned();
        for part in parts {
            let part = joined(part);
            match part.split_once(": ") {
                Some(("Value", value)) => limit.value = value.to_owned(),
                Some(("Setting", setting)) => limit.name = setting.trim_matches('`').to_owned(),
                Some(("Counter", counters)) => limit.counters = quoted(counters),
                Some(("Tests", tests)) => limit.tests = quoted(tests),
                _ => self.faults.push(format!("{name}: {part:?} is no part of a limit")),
            }
        }
        for (part, is_empty) in [
            ("subject", limit.subject.is_empty()),
            ("value", limit.value.is_empty()),
            ("sentence about what happens at it", limit.full.is_empty()),
            ("test", limit.tests.is_empty()),
        ] {
            if is_empty {
                self.faults.push(format!("{}: {name} has no {part}", self.section));
            }
        }
        self.found.push(limit);
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.read(&item.ident.to_string(), &item.attrs, Some(&item.expr));
    }

    fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
        self.read(&item.ident.to_string(), &item.attrs, Some(&item.expr));
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        self.owner = item.ident.to_string();
        self.read(&item.ident.to_string(), &item.attrs, None);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.read(&item.sig.ident.to_string(), &item.attrs, None);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.read(&item.sig.ident.to_string(), &item.attrs, None);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_field(&mut self, field: &'a syn::Field) {
        let Some(ident) = &field.ident else { return };
        self.read(&format!("{}::{ident}", self.owner), &field.attrs, None);
    }
}

/// The lines of a documentation comment, without the blank before each.
pub(super) fn documentation(attributes: &[Attribute]) -> String {
    let mut lines = String::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Ok(pair) = attribute.meta.require_name_value()
            && let Expr::Lit(literal) = &pair.value
            && let Lit::Str(line) = &literal.lit
        {
            let line = line.value();
            lines.push_str(line.strip_prefix(' ').unwrap_or(&line));
            lines.push('\n');
        }
    }
    lines
}

pub(super) fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The words in backquotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A constant's value as people write it; `None` if it is no number or time.
fn shown(name: &str, value: &Expr) -> Option<String> {
    if let Some((unit, count)) = duration(value) {
        return Some(format!("{count} {unit}"));
    }
    let number = number(value)?;
    Some(match name {
        _ if name.contains("OCTETS") => octets(number),
        _ if name.contains("_NS") => time(number),
        _ if name.contains("_MS") => format!("{} ms", grouped(number)),
        _ => grouped(number),
    })
}

fn octets(number: u128) -> String {
    for (unit, size) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if number >= size && number.is_multiple_of(size) {
            return format!("{} {unit}", number / size);
        }
    }
    format!("{} octets", grouped(number))
}

fn time(ns: u128) -> String {
    for (unit, size) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if ns >= size && ns.is_multiple_of(size) {
            return format!("{} {unit}", grouped(ns / size));
        }
    }
    format!("{} ns", grouped(ns))
}

/// A number with commas between thousands.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `Duration::from_secs(5)` as 5 and its unit.
fn duration(value: &Expr) -> Option<(&'static str, u128)> {
    let Expr::Call(call) = value else { return None };
    let Expr::Path(path) = &*call.func else { return None };
    let unit = match path.path.segments.last()?.ident.to_string().as_str() {
        "from_secs" => "s",
        "from_millis" => "ms",
        "from_micros" => "us",
        "from_mins" => "min",
        _ => return None,
    };
    Some((unit, number(call.args.first()?)?))
}

/// The value of an expression of literals.
fn number(value: &Expr) -> Option<u128> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Binary(binary) => {
            let (left, right) = (number(&binary.left)?, number(&binary.right)?);
            match binary.op {
                BinOp::Add(_) => left.checked_add(right),
                BinOp::Sub(_) => left.checked_sub(right),
                BinOp::Mul(_) => left.checked_mul(right),
                BinOp::Div(_) => left.checked_div(right),
                BinOp::Shl(_) => left.checked_shl(u32::try_from(right).ok()?),
                _ => None,
            }
        }
        Expr::Paren(inner) => number(&inner.expr),
        Expr::Cast(inner) => number(&inner.expr),
        _ => None,
    }
}

/// The section of a source: its crate, or a name for a part outside `crates`.
fn section(source: &str) -> String {
    let mut folders = source.split('/');
    match folders.next() {
        Some("crates") => folders.next().unwrap_or_default().to_owned(),
        Some(top) => {
            let title = SECTION_OF.iter().find(|(folder, _)| *folder == top);
            title.map_or(top, |(_, title)| title).to_owned()
        }
        None => String::new(),
    }
}

/// Limits that Rust does not declare.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Others {
    limit: Vec<Limit>,
}

/// All limits, by section, with what is wrong with declarations.
fn limits() -> (BTreeMap<String, Vec<Limit>>, Vec<String>) {
    let (mut all, mut faults) = (BTreeMap::<String, Vec<Limit>>::new(), Vec::new());
    crate::rules::each_source(&mut |source, text| {
        if !text.contains("# Limit") || source.contains("/tests/") {
            return;
        }
        let file = syn::parse_file(text).expect("a source of items");
        let section = section(source);
        let mut reader =
            Reader { section: &section, owner: String::new(), found: Vec::new(), faults: Vec::new() };
        reader.visit_file(&file);
        faults.append(&mut reader.faults);
        let sections = text.lines().filter(|line| line.trim_end().ends_with("/// # Limit")).count();
        if sections != reader.found.len() {
            faults.push(format!("{source}: {sections} sections, {} limits read", reader.found.len()));
        }
        if !reader.found.is_empty() {
            all.entry(section.clone()).or_default().append(&mut reader.found);
        }
    });
    let others = std::fs::read_to_string(root().join("docs/rows/limits.toml")).expect("the other limits");
    let others: Others = toml::from_str(&others).expect("the other limits");
    for mut limit in others.limit {
        limit.full = limit.full.trim_end_matches('.').to_owned();
        all.entry(limit.section.clone()).or_default().push(limit);
    }
    all.values_mut()
        .for_each(|limits| limits.sort_by(|a, b| (&a.subject, &a.name).cmp(&(&b.subject, &b.name))));
    (all, faults)
}

#[test]
fn the_page_of_limits_follows_their_declarations() {
    let (all, faults) = limits();
    assert!(faults.is_empty(), "{} limits lack a part:\n{}", faults.len(), faults.join("\n"));
    let mut page = HEAD.to_owned();
    for (section, limits) in all {
        page.push_str(&format!("\n## {section}\n\n"));
        limits.iter().for_each(|limit| page.push_str(&(limit.line() + "\n")));
    }
    compare(PAGE, &page);
}

#[test]
fn every_limit_names_tests_that_exist() {
    let known = known_tests();
    let all = limits().0.into_values().flatten().collect::<Vec<_>>();
    assert!(all.len() > 300, "{} limits are declared", all.len());
    for limit in all {
        let missing: Vec<_> = limit.tests.iter().filter(|test| !known.contains_key(*test)).collect();
        assert!(
            missing.is_empty(),
            "{} {} names tests that do not exist: {missing:?}",
            limit.section,
            limit.name
        );
    }
}

#[test]
fn a_declaration_without_its_parts_is_found() {
    let read = |text: &str| {
        let file = syn::parse_file(text).expect("items");
        let mut reader = Reader { section: "x", owner: String::new(), found: Vec::new(), faults: Vec::new() };
        reader.visit_file(&file);
        (reader.found, reader.faults)
    };
    let (found, faults) = read(
        "/// Messages of a face.\n///\n/// # Limit\n/// The oldest\n/// is evicted.\n/// - Counter: `evicted`\n/// - Tests: `a`, `b`\nconst LIMIT_OCTETS_MAX: usize = 3 << 10;",
    );
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(
        found[0].line(),
        "- Messages of a face, `LIMIT_OCTETS_MAX`: **3 KiB**. The oldest is evicted. Counted: `evicted`."
    );
    assert_eq!(found[0].tests, ["a", "b"]);
    let (_, faults) = read("/// # Limit\n/// - Sometimes: never\nconst A: usize = f();");
    assert_eq!(faults.len(), 5, "{faults:?}");
    let (found, _) = read(
        "struct S {\n/// Things.\n///\n/// # Limit\n/// Full.\n/// - Setting: `a.b_max`\n/// - Value: 5\n/// - Tests: `t`\nb: usize }",
    );
    assert_eq!(found[0].line(), "- Things, `a.b_max`: **5**. Full.");
}

//! docs/interfaces: the published names, one file for each interface. A change of an interface is a
//! change of its file, so a reviewer sees it, and the CHANGELOG gets a line.
//!
//! A published name keeps its spelling or receives an alias (docs/stability.md).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::CommandFactory as _;

use super::counters::published;
use super::{compare, root};

/// Crates that applications in Rust use.
const RUST: [&str; 2] = ["crates/socket/src", "crates/client/src"];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files below a folder with an extension, sorted, with their texts.
fn sources(folder: &str, extension: &str) -> Vec<(String, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|of| of == extension) {
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                found.push((name, std::fs::read_to_string(&path).expect("sources are UTF-8")));
            }
        }
    }
    found.sort();
    found
}

/// Adds a command with its options, and the commands below it.
fn add_command(text: &mut String, path: &str, command: &clap::Command) {
    let aliases: Vec<_> = command.get_all_aliases().collect();
    let aliases = if aliases.is_empty() { String::new() } else { format!(" (also {})", aliases.join(", ")) };
    let _ = writeln!(text, "{path}{aliases}");
    let mut options: Vec<_> = command
        .get_arguments()
        .map(|argument| {
            let long = argument.get_long_and_visible_aliases().unwrap_or_default();
            let names = long.iter().map(|name| format!("--{name}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            let names: Vec<_> = short.into_iter().chain(names).collect();
            if names.is_empty() { format!("<{}>", argument.get_id()) } else { names.join(" ") }
        })
        .collect();
    options.sort();
    options.iter().for_each(|option| text.push_str(&format!("    {option}\n")));
    let mut below: Vec<_> = command.get_subcommands().collect();
    below.sort_by_key(|command| command.get_name().to_owned());
    below.iter().for_each(|command| add_command(text, &format!("{path} {}", command.get_name()), command));
}

#[test]
fn commands_and_options_are_published() {
    let mut text = String::new();
    add_command(&mut text, "namely", &namely::args::Cli::command());
    compare("docs/interfaces/commands.txt", &text);
}

/// The keys of the sample configuration, which another test holds complete.
#[test]
fn keys_of_the_configuration_are_published() {
    let (mut keys, mut section) = (BTreeSet::new(), String::new());
    for line in read("docs/namely.toml").lines() {
        let line = line.trim_start_matches("#= ");
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            section = name.trim_matches('[').to_owned();
            continue;
        }
        let Some((key, _)) = line.split_once(" = ") else { continue };
        if key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
            keys.insert(format!("{section}.{key}\n"));
        }
    }
    compare("docs/interfaces/configuration.txt", &keys.into_iter().collect::<String>());
}

/// The counters, by their page.
#[test]
fn counters_are_published() {
    let page = read("docs/counters.md");
    let names: String = published(&page).iter().map(|name| format!("{name}\n")).collect();
    compare("docs/interfaces/counters.txt", &names);
}

/// The signatures of the public items of a Rust source, without those of its tests.
fn public_items(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let mut items = Vec::new();
    let mut lines = source.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if !line.starts_with("pub ") {
            continue;
        }
        let mut item = line.to_owned();
        let is_open = |item: &str| !item.ends_with(['{', ';', ',', '}']) || item.ends_with("(,");
        let depth = |item: &str| item.matches('(').count() > item.matches(')').count();
        while is_open(&item) || depth(&item) {
            let Some(next) = lines.next() else { break };
            item.push(' ');
            item.push_str(next);
        }
        items.push(item.trim_end_matches(['{', ' ', ',']).replace("( ", "(").replace(", )", ")"));
    }
    items
}

#[test]
fn public_items_of_rust_are_published() {
    let mut text = String::new();
    for (name, source) in RUST.iter().flat_map(|folder| sources(folder, "rs")) {
        let items = public_items(&source);
        if !name.contains("tests") && !items.is_empty() {
            let _ = writeln!(text, "{name}\n    {}", items.join("\n    "));
        }
    }
    compare("docs/interfaces/rust.txt", &text);
}

/// The header of the C library without its comments.
#[test]
fn declarations_of_c_are_published() {
    let header = read("bindings/c/namely.h");
    let (mut text, mut is_comment) = (String::new(), false);
    for line in header.lines() {
        is_comment |= line.trim_start().starts_with("/*");
        if !is_comment && !line.trim().is_empty() && !line.trim_start().starts_with("//") {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        is_comment &= !line.contains("*/");
    }
    compare("docs/interfaces/c.txt", &text);
}

#[test]
fn names_of_python_are_published() {
    let mut text = String::new();
    let folder = "bindings/python/python/namely";
    for (name, source) in ["py", "pyi"].iter().flat_map(|extension| sources(folder, extension)) {
        let is_name = |line: &&str| {
            let line = line.trim_start().trim_start_matches("async ");
            ["def ", "class "]
                .iter()
                .any(|word| line.strip_prefix(word).is_some_and(|of| !of.starts_with('_')))
        };
        let names: Vec<_> = source.lines().filter(is_name).map(str::trim_end).collect();
        let _ = writeln!(text, "{name}\n    {}", names.join("\n    "));
    }
    compare("docs/interfaces/python.txt", &text);
}

#[test]
fn public_items_are_read_whole() {
    let source = "pub fn a(\n    b: u8,\n) -> u8 {\npub(crate) fn c() {}\n    pub d: u8,\npub use e;\n";
    assert_eq!(public_items(source), ["pub fn a(b: u8) -> u8", "pub d: u8", "pub use e;"]);
}

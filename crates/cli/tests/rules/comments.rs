//! Comments have at most 100 columns. A table or a link that cannot be broken counts too: rephrase
//! it.

use std::fs;
use std::path::Path;

use super::root;

/// Longest line of a comment.
const COLUMNS_MAX: usize = 100;

/// Folders without sources of this project, or with generated files.
const LEFT_OUT: [&str; 4] = ["target", ".git", "node_modules", "corpus"];

/// The marks with which the comments of a kind of source begin.
fn marks(extension: &str) -> Option<&'static [&'static str]> {
    match extension {
        "rs" => Some(&["//"]),
        "py" => Some(&["#"]),
        "c" | "h" => Some(&["//", "*", "/*"]),
        _ => None,
    }
}

/// The numbers of the lines that are comments and too long.
fn long_lines(text: &str, marks: &[&str]) -> Vec<usize> {
    let is_comment = |line: &str| marks.iter().any(|mark| line.trim_start().starts_with(mark));
    let is_long = |line: &str| line.chars().count() > COLUMNS_MAX && is_comment(line);
    text.lines().enumerate().filter(|(_, line)| is_long(line)).map(|(n, _)| n + 1).collect()
}

/// Adds where a long comment is, file by file.
fn search(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !LEFT_OUT.contains(&entry.file_name().to_string_lossy().as_ref()) {
                search(&path, found);
            }
        } else if let Some(marks) = path.extension().and_then(|e| e.to_str()).and_then(marks) {
            let text = fs::read_to_string(&path).expect("sources are UTF-8");
            found.extend(long_lines(&text, marks).iter().map(|n| format!("{}:{n}", path.display())));
        }
    }
}

#[test]
fn comments_have_at_most_100_columns() {
    let mut found = Vec::new();
    search(&root(), &mut found);
    found.sort();
    assert!(
        found.is_empty(),
        "{} comments have more than {COLUMNS_MAX} columns:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn long_comments_are_detected() {
    let long = "x".repeat(COLUMNS_MAX);
    let text = format!("// short\n  /// {long}\nlet a = \"{long}\";\n//! {long}\n");
    assert_eq!(long_lines(&text, &["//"]), [2, 4]);
}

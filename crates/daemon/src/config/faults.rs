//! Finds all errors of a configuration file in one pass.
//!
//! The parser stops at the first error. So the entry with an error is taken out of the tree, and
//! the rest is parsed again, until no error is left. Errors that follow from the absence of an
//! entry that was taken out are no errors of the file.

use serde::de::DeserializeOwned;
use toml::de::Error;

use super::document::Document;
use super::error::{ConfigError, Fault, Step};
use super::examples::Examples;
use super::words::explain;

/// Errors in one report.
///
/// # Limit
/// The report ends with the advice to correct these first.
/// - Tests: `a_report_lists_thirty_two_errors`
const FAULTS_MAX: usize = 32;

/// Passes over a file. Only consequences of errors need more passes than there are errors.
const PASSES_MAX: usize = 4 * FAULTS_MAX;

/// The parser's message for a key that occurs twice. The entries after it are parsed correctly.
const DUPLICATE: &str = "duplicate key";

/// A key that was taken out of its table.
struct Removed {
    /// The offset of the table.
    table: usize,
    /// The key, in its right spelling.
    key: String,
}

/// Reads `text` as a configuration.
///
/// # Errors
/// All errors, in the order of the text.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Fault>> {
    let (mut document, errors) = Document::parse(text);
    if errors.is_empty()
        && let Ok(read) = document.read()
    {
        return Ok(read);
    }
    let syntax = errors.iter().take(FAULTS_MAX + 1).map(|error| syntax_fault(&document, error));
    let mut faults: Vec<Fault> = syntax.collect();
    // Entries after an error of the syntax may have got into the wrong table. The line of the error
    // may be the head of a table that got the entries of another one.
    let doubtful = errors.iter().filter(|error| error.message() != DUPLICATE).filter_map(Error::span);
    let doubtful = doubtful.map(|span| document.line_start(span.start)).min().unwrap_or(usize::MAX);
    add_faults::<T>(&mut document, doubtful, &mut faults);
    faults.sort_by_key(|fault| fault.position);
    faults.dedup();
    if faults.len() > FAULTS_MAX {
        faults.truncate(FAULTS_MAX);
        faults.push(Fault::new(None, "there are more errors: correct these first"));
    }
    Err(faults)
}

/// Adds the errors of keys and values before the offset `doubtful`.
fn add_faults<T: DeserializeOwned>(document: &mut Document<'_>, doubtful: usize, faults: &mut Vec<Fault>) {
    let examples = Examples::read();
    let mut removed: Vec<Removed> = Vec::new();
    let passes_max = if document.is_searched() { PASSES_MAX } else { 1 };
    for _ in 0..passes_max {
        let Err(error) = document.read::<T>() else { return };
        let found = error.span().and_then(|span| Some((document.find(&span)?, span)));
        let Some((path, span)) = found else {
            return faults.push(Fault::new(None, error.message()));
        };
        let start = span.start;
        let missing = error.message().strip_prefix("missing field ").map(|key| key.trim_matches('`'));
        let is_of_table =
            missing.is_some() || document.value(&path).is_some_and(|value| value.get_ref().is_table());
        let is_unknown = error.message().starts_with("unknown field ");
        let is_consequence = is_of_table
            && !is_unknown
            && removed.iter().any(|of| of.table == start && missing.is_none_or(|key| key == of.key));
        let explained = explain(error.message(), &path, document, &examples);
        // The end of a table may be behind an error of the syntax, with the key that seems missing.
        // The parser puts a value without octets where it could read none.
        let is_certain =
            !span.is_empty() && start < doubtful && (missing.is_none() || doubtful == usize::MAX);
        if is_certain && !is_consequence {
            faults.push(Fault::new(Some(document.position(start)), &explained.reason));
        }
        if let (Some(Step::Key(key)), None) = (path.last(), missing) {
            let table = document.start_around(&path);
            removed.push(Removed { table, key: explained.meant.unwrap_or_else(|| key.clone()) });
        }
        if faults.len() > FAULTS_MAX || !document.remove(&path) {
            return;
        }
    }
}

fn syntax_fault(document: &Document<'_>, error: &Error) -> Fault {
    let span = error.span();
    let position = span.as_ref().map(|span| document.position(span.start));
    let reason = match span {
        Some(span) if error.message() == DUPLICATE => {
            let key = document.slice(span.clone());
            let first = document.key_before(key, span.start);
            let first = first.map_or_else(String::new, |first| format!(": line {} has it, too", first.line));
            format!("`{key}` is set twice in one table{first}")
        }
        _ => error.message().to_owned(),
    };
    Fault::new(position, &reason)
}

/// Runs a check of a configuration that was parsed from `text`, again and again without the keys
/// that it refuses.
///
/// # Errors
/// All errors that the check finds, with their positions in `text`.
pub(super) fn check_all<T: DeserializeOwned>(
    text: &str,
    first: &T,
    check: &dyn Fn(&T) -> Result<(), ConfigError>,
) -> Result<(), Vec<Fault>> {
    let Err(mut error) = check(first) else { return Ok(()) };
    let mut document = Document::parse(text).0;
    let mut found = Vec::new();
    loop {
        let key = error.faults.iter().map(|fault| &fault.key).find(|key| !key.is_empty()).cloned();
        found.extend(error.faults.into_iter().map(|fault| located(fault, &document)));
        let Some(key) = key.filter(|_| found.len() < FAULTS_MAX && document.is_searched()) else { break };
        let Some(rest) = document.read_without::<T>(&key) else { break };
        match check(&rest) {
            Ok(()) => break,
            Err(next) => error = next,
        }
    }
    Err(found)
}

/// The error with the position of its key.
pub(super) fn located(fault: Fault, document: &Document<'_>) -> Fault {
    let position = fault.position.or_else(|| document.position_of(&fault.key));
    Fault { position, ..fault }
}

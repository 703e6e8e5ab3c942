//! The text of a configuration file as a tree whose nodes know their positions.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer, Error};

use super::error::{Position, Step};

/// Octets of a file of which all errors are reported.
///
/// Each costs a pass over the file, and the
/// parser stores all errors of the syntax, of which a file of this size may have half as many.
///
/// # Limit
/// The first error of a larger file is reported.
/// - Tests: `a_large_file_reports_its_first_error`
pub(super) const SEARCHED_OCTETS_MAX: usize = 256 << 10;

/// A parsed file. Entries can be taken out, so that the parser finds the errors behind the first.
pub(super) struct Document<'a> {
    text: &'a str,
    root: DeTable<'a>,
}

impl<'a> Document<'a> {
    /// Parses `text`. After an error of the syntax the tree has the entries that could be parsed,
    /// or none if the text is not searched.
    pub(super) fn parse(text: &'a str) -> (Self, Vec<Error>) {
        if text.len() <= SEARCHED_OCTETS_MAX {
            let (root, errors) = DeTable::parse_recoverable(text);
            return (Document { text, root: root.into_inner() }, errors);
        }
        match DeTable::parse(text) {
            Ok(root) => (Document { text, root: root.into_inner() }, Vec::new()),
            Err(error) => (Document { text, root: DeTable::new() }, vec![error]),
        }
    }

    /// Returns true if errors behind the first one are searched.
    pub(super) fn is_searched(&self) -> bool {
        self.text.len() <= SEARCHED_OCTETS_MAX
    }

    /// Reads the tree as a value.
    ///
    /// # Errors
    /// The first error, with the position of its key or value.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde::Deserialize::deserialize(Deserializer::from(Spanned::new(0..0, self.root.clone())))
    }

    /// The way to the innermost node whose key or value is at `span`.
    pub(super) fn find(&self, span: &Range<usize>) -> Option<Vec<Step>> {
        let mut path = Vec::new();
        find_in_table(&self.root, span, &mut path).then_some(path)
    }

    /// The value at the end of `path`.
    pub(super) fn value(&self, path: &[Step]) -> Option<&Spanned<DeValue<'a>>> {
        let (first, rest) = path.split_first()?;
        let Step::Key(first) = first else { return None };
        rest.iter().try_fold(self.root.get(first.as_str())?, |value, step| match (value.get_ref(), step) {
            (DeValue::Table(table), Step::Key(key)) => table.get(key.as_str()),
            (DeValue::Array(array), Step::Entry(index)) => array.get(*index),
            _ => None,
        })
    }

    /// The keys of the table at the end of `path`, or of the whole file.
    pub(super) fn keys(&self, path: &[Step]) -> Vec<&str> {
        let table = match self.value(path).map(Spanned::get_ref) {
            Some(DeValue::Table(table)) => table,
            None if path.is_empty() => &self.root,
            _ => return Vec::new(),
        };
        table.keys().map(|key| &**key.get_ref()).collect()
    }

    /// The position of the value at the end of `path`, or of the nearest table around it.
    pub(super) fn position_of(&self, path: &[Step]) -> Option<Position> {
        let found = (1..=path.len()).rev().find_map(|steps| self.value(&path[..steps]));
        found.map(|value| self.position(value.span().start))
    }

    /// The offset of the table or list that contains the end of `path`.
    pub(super) fn start_around(&self, path: &[Step]) -> usize {
        let around = path.split_last().and_then(|(_, around)| self.value(around));
        around.map_or(0, |value| value.span().start)
    }

    /// The last key `name` that begins before `offset`.
    pub(super) fn key_before(&self, name: &str, offset: usize) -> Option<Position> {
        let mut found = None;
        each_key(&self.root, &mut |key: &str, at: usize| {
            if key == name && at < offset {
                found = found.max(Some(at));
            }
        });
        found.map(|at| self.position(at))
    }

    /// The ways to all values that are no tables, and no lists of tables.
    pub(super) fn leaves(&self) -> Vec<Vec<Step>> {
        let mut leaves = Vec::new();
        add_leaves(&self.root, &mut Vec::new(), &mut leaves);
        leaves
    }

    /// A value as it is written, in one line.
    pub(super) fn text_of(&self, value: &Spanned<DeValue<'_>>) -> String {
        let text = self.slice(value.span());
        match value.get_ref() {
            DeValue::Array(list) if text.contains('\n') => {
                let entries: Vec<&str> = list.iter().map(|entry| self.slice(entry.span())).collect();
                format!("[{}]", entries.join(", "))
            }
            _ => text.to_owned(),
        }
    }

    /// The text at `span`.
    pub(super) fn slice(&self, span: Range<usize>) -> &'a str {
        self.text.get(span).unwrap_or_default()
    }

    /// The line and column of an offset.
    pub(super) fn position(&self, offset: usize) -> Position {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let in_line = &before[self.line_start(offset)..];
        Position { line: 1 + before.matches('\n').count(), column: 1 + in_line.chars().count() }
    }

    /// The offsets at which the lines begin, for the lines of many values.
    pub(super) fn line_starts(&self) -> Vec<usize> {
        std::iter::once(0).chain(self.text.match_indices('\n').map(|(end, _)| end + 1)).collect()
    }

    /// The offset at which the line of an offset begins.
    pub(super) fn line_start(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or(self.text);
        before.rfind('\n').map_or(0, |end| end + 1)
    }

    /// Takes out the entry at the end of `path`. Returns false if there is none.
    pub(super) fn remove(&mut self, path: &[Step]) -> bool {
        remove_from_table(&mut self.root, path)
    }

    /// Takes out the entry at the end of `path`, or the smallest table around it without which the
    /// rest is a valid value. Returns that value.
    pub(super) fn read_without<T: DeserializeOwned>(&mut self, path: &[Step]) -> Option<T> {
        (1..=path.len()).rev().find_map(|steps| {
            let is_removed = self.remove(&path[..steps]);
            is_removed.then(|| self.read().ok()).flatten()
        })
    }
}

fn find_in_table(table: &DeTable<'_>, span: &Range<usize>, path: &mut Vec<Step>) -> bool {
    table.iter().any(|(key, value)| {
        path.push(Step::from(&**key.get_ref()));
        let is_found = find_in_value(value, span, path) || key.span() == *span;
        if !is_found {
            path.pop();
        }
        is_found
    })
}

fn find_in_value(value: &Spanned<DeValue<'_>>, span: &Range<usize>, path: &mut Vec<Step>) -> bool {
    let is_below = match value.get_ref() {
        DeValue::Table(table) => find_in_table(table, span, path),
        DeValue::Array(array) => array.iter().enumerate().any(|(index, entry)| {
            path.push(Step::Entry(index));
            let is_found = find_in_value(entry, span, path);
            if !is_found {
                path.pop();
            }
            is_found
        }),
        _ => false,
    };
    is_below || value.span() == *span
}

fn each_key(table: &DeTable<'_>, call: &mut dyn FnMut(&str, usize)) {
    for (key, value) in table.iter() {
        call(key.get_ref(), key.span().start);
        match value.get_ref() {
            DeValue::Table(table) => each_key(table, call),
            DeValue::Array(array) => {
                for entry in array.iter() {
                    if let DeValue::Table(table) = entry.get_ref() {
                        each_key(table, call);
                    }
                }
            }
            _ => {}
        }
    }
}

fn add_leaves(table: &DeTable<'_>, path: &mut Vec<Step>, leaves: &mut Vec<Vec<Step>>) {
    for (key, value) in table.iter() {
        path.push(Step::from(&**key.get_ref()));
        match value.get_ref() {
            DeValue::Table(table) => add_leaves(table, path, leaves),
            DeValue::Array(array) if array.first().is_some_and(|entry| entry.get_ref().is_table()) => {
                for (index, entry) in array.iter().enumerate() {
                    path.push(Step::Entry(index));
                    if let DeValue::Table(table) = entry.get_ref() {
                        add_leaves(table, path, leaves);
                    }
                    path.pop();
                }
            }
            _ => leaves.push(path.clone()),
        }
        path.pop();
    }
}

fn remove_from_table(table: &mut DeTable<'_>, path: &[Step]) -> bool {
    match path {
        [Step::Key(key)] => table.remove(key.as_str()).is_some(),
        [Step::Key(key), rest @ ..] => {
            table.get_mut(key.as_str()).is_some_and(|value| remove_from_value(value.get_mut(), rest))
        }
        _ => false,
    }
}

fn remove_from_value(value: &mut DeValue<'_>, path: &[Step]) -> bool {
    match (value, path) {
        (DeValue::Table(table), _) => remove_from_table(table, path),
        (DeValue::Array(array), [Step::Entry(index)]) => {
            let count = array.len();
            let entries = std::mem::replace(array, DeArray::new()).into_iter().enumerate();
            *array = entries.filter(|(i, _)| i != index).map(|(_, entry)| entry).collect();
            *index < count
        }
        (DeValue::Array(array), [Step::Entry(index), rest @ ..]) => {
            array.get_mut(*index).is_some_and(|entry| remove_from_value(entry.get_mut(), rest))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_and_removed() {
        let text = "a = 1\n[[b]]\nc = [10, 20]\n[[b]]\nc = [30]\n";
        let (mut document, errors) = Document::parse(text);
        assert!(errors.is_empty());
        let at = text.find("20").unwrap();
        let path = document.find(&(at..at + 2)).unwrap();
        let list = [Step::from("b"), Step::from(0), Step::from("c"), Step::from(1)];
        assert_eq!(path, list);
        assert_eq!(document.position_of(&path), Some(Position { line: 3, column: 10 }));
        assert!(document.remove(&path) && !document.remove(&path), "there is one entry");
        let rest: toml::Table = document.read().unwrap();
        assert_eq!(rest["b"][0]["c"].as_array().unwrap().len(), 1);
        let rest: toml::Table = document.read_without(&[Step::from("b"), Step::from(1)]).unwrap();
        assert_eq!(rest["b"].as_array().unwrap().len(), 1);
        assert_eq!(document.key_before("c", text.len()).unwrap().line, 3);
    }
}

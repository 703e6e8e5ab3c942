//! Errors of a catalogue.

use std::io;
use std::path::Path;

use crate::SIZE_MAX;

/// An error in a catalogue. The whole catalogue is refused, and its user keeps the previous one.
#[derive(Debug, thiserror::Error)]
#[error("{line}: {fault}")]
pub struct CatalogueError {
    /// The line, from 1 on; for imported JSON the number of the record.
    pub line: u64,
    /// The fault in it.
    #[source]
    pub fault: Fault,
}

/// A fault. All but [`Fault::Read`] are in the catalogue itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The system's error of reading it.
    #[error("it cannot be read: {0}")]
    Read(#[source] io::Error),
    /// It is not UTF-8.
    #[error("this is no UTF-8: write it as text")]
    NotText,
    /// A line, or the whole, is longer than this many octets.
    #[error("more than {0} octets: make it shorter")]
    TooLong(u64),
    /// The first line is not `catalogue TAB version`.
    #[error("a catalogue begins with the line `catalogue`, a tab and its version, a number")]
    NoVersion,
    /// A line has the wrong fields.
    #[error(
        "write a block as `name TAB octets`, a file as `TAB name TAB octets`, with `TAB adler32` \
         if it is known"
    )]
    Fields,
    /// The text is not a valid name.
    #[error("`{0}` is no name: write parts without blanks between slashes, as /a/b")]
    Name(String),
    /// A size is not a number, is 0, or exceeds [`SIZE_MAX`].
    #[error("`{0}` is no size: write a decimal number of octets, 1 to {SIZE_MAX}")]
    Size(String),
    /// The text is not a valid Adler-32.
    #[error("`{0}` is no Adler-32: write eight hexadecimal digits, or nothing")]
    Checksum(String),
    /// A file comes before any block.
    #[error("a file before any block: write its block's line above it")]
    NoBlock,
    /// The block has no files.
    #[error("{0} has no files: write them below it, or leave it out")]
    NoFiles(String),
    /// The block's size differs from the sum of its files.
    #[error("{block} has {said} octets and its files have {files}: write {files}, or add the missing files")]
    Sum {
        /// The block.
        block: String,
        /// Its size in the catalogue.
        said: u64,
        /// The sum of its files.
        files: u64,
    },
    /// The block is also in this line.
    #[error("{0} is in line {1} too: write all its files below one of them")]
    BlockTwice(String, u64),
    /// The file is also in this line, in this block.
    #[error("{0} is in line {1} too, in {2}: a file is in one block, remove one of them")]
    FileTwice(String, u64, String),
    /// Two blocks have one id: the other one, and its line.
    #[error("routers confuse it with {0} in line {1}: both names have the same hash; leave one out")]
    SameId(String, u64),
    /// More blocks than the limit.
    #[error("more than {0} blocks: leave some out")]
    TooManyBlocks(usize),
    /// More files than the limit.
    #[error("more than {0} files: leave some blocks out")]
    TooManyFiles(usize),
    /// It is not JSON, or a record lacks a field.
    #[error("{0}")]
    Json(String),
}

impl Fault {
    pub(crate) fn at(self, line: u64) -> CatalogueError {
        CatalogueError { line, fault: self }
    }
}

impl CatalogueError {
    /// Formats the error with its file, as compilers do.
    pub fn of_file(&self, path: &Path) -> String {
        format!("{}:{self}", path.display())
    }
}

//! What is wrong with a catalogue, and what to do.

use std::fmt;
use std::io;
use std::path::Path;

use crate::SIZE_MAX;

/// A catalogue that is not taken: whoever had another one keeps that.
#[derive(Debug)]
pub struct CatalogueError {
    /// The line, from 1 on; of JSON that is imported the record in which it is.
    pub line: u64,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong. All but [`Fault::Read`] are the fault of who wrote it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The system does not read it.
    Read(io::Error),
    /// It is no UTF-8.
    NotText,
    /// It is longer than a line, or the whole, may be: so many octets.
    TooLong(u64),
    /// The first line is not `catalogue TAB version`.
    NoVersion,
    /// A line has not the fields that it should have.
    Fields,
    /// What should be a name is none.
    Name(String),
    /// A size is no number, 0, or more than [`SIZE_MAX`].
    Size(String),
    /// What should be an Adler-32 is none.
    Checksum(String),
    /// A file comes before any block.
    NoBlock,
    /// The block has no files.
    NoFiles(String),
    /// The block has another size than its files together.
    Sum {
        /// The block.
        block: String,
        /// What it says.
        said: u64,
        /// What its files have.
        files: u64,
    },
    /// The block was there before, in this line.
    BlockTwice(String, u64),
    /// The file was there before, in this line, and in this block.
    FileTwice(String, u64, String),
    /// Two blocks have one id: the other one, and its line.
    SameId(String, u64),
    /// More blocks than may be.
    TooManyBlocks(usize),
    /// More files than may be.
    TooManyFiles(usize),
    /// It is no JSON, or a record lacks what it should have.
    Json(String),
}

impl Fault {
    pub(crate) fn at(self, line: u64) -> CatalogueError {
        CatalogueError { line, fault: self }
    }
}

impl CatalogueError {
    /// The error with the file that it is of, as compilers write it.
    pub fn of_file(&self, path: &Path) -> String {
        format!("{}:{self}", path.display())
    }
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Read(error) => write!(f, "it cannot be read: {error}"),
            Fault::NotText => f.write_str("this is no UTF-8: write it as text"),
            Fault::TooLong(octets) => write!(f, "more than {octets} octets: make it shorter"),
            Fault::NoVersion => {
                f.write_str("a catalogue begins with the line `catalogue`, a tab and its version, a number")
            }
            Fault::Fields => f.write_str(
                "write a block as `name TAB octets`, a file as `TAB name TAB octets`, with `TAB adler32` if it is known",
            ),
            Fault::Name(text) => {
                write!(f, "`{text}` is no name: write parts without blanks between slashes, as /a/b")
            }
            Fault::Size(text) => {
                write!(f, "`{text}` is no size: write a decimal number of octets, 1 to {SIZE_MAX}")
            }
            Fault::Checksum(text) => {
                write!(f, "`{text}` is no Adler-32: write eight hexadecimal digits, or nothing")
            }
            Fault::NoBlock => f.write_str("a file before any block: write its block's line above it"),
            Fault::NoFiles(block) => write!(f, "{block} has no files: write them below it, or leave it out"),
            Fault::Sum { block, said, files } => {
                write!(f, "{block} says {said} octets and its files have {files}: write {files}, or what is missing")
            }
            Fault::BlockTwice(block, line) => {
                write!(f, "{block} is in line {line} too: write all its files below one of them")
            }
            Fault::FileTwice(file, line, block) => {
                write!(f, "{file} is in line {line} too, in {block}: a file is in one block, remove one of them")
            }
            Fault::SameId(block, line) => write!(
                f,
                "routers could not tell it from {block} in line {line}: both names begin with one hash; leave one out"
            ),
            Fault::TooManyBlocks(max) => write!(f, "more than {max} blocks: leave some out"),
            Fault::TooManyFiles(max) => write!(f, "more than {max} files: leave some blocks out"),
            Fault::Json(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for CatalogueError {}

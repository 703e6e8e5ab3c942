//! A catalogue: blocks of data, the files in each, and their sizes (VI-04). A router that caches
//! whole blocks looks up a file's block in it.
//!
//! It is a text file, read by [`read`] and written by [`Catalogue::write`]; [`import`] makes one
//! from answers of DBS and Rucio. The result is plain data. This crate opens no file, knows no
//! router, and accepts no catalogue that is faulty in part.
//!
//! ```text
//! # a comment; empty lines are left out
//! catalogue TAB version
//! block TAB octets
//! TAB file TAB octets
//! TAB file TAB octets TAB adler32
//! ```
//!
//! `version` and `octets` are decimal, `adler32` has eight hexadecimal digits. The name of a block
//! or file has parts between slashes, without blanks. The octets of a block are the sum of those of
//! its files.
//!
//! ```
//! let text = "catalogue\t7\n\
//!             /Muon/Run1-v1/AOD#1\t30\n\
//!             \t/store/data/Run1/Muon/AOD/v1/a.root\t10\n\
//!             \t/store/data/Run1/Muon/AOD/v1/b.root\t20\t00a0ff17\n";
//! let catalogue = namely_catalogue::read(text.as_bytes(), namely_catalogue::Limits::default())?;
//! assert_eq!((catalogue.version, catalogue.blocks.len()), (7, 1));
//! assert_eq!(catalogue.block_of("/store/data/Run1/Muon/AOD/v1/b.root").unwrap().octets, 30);
//! let mut again = Vec::new();
//! catalogue.write(&mut again).expect("memory has room");
//! assert_eq!(again, text.as_bytes());
//! # Ok::<(), namely_catalogue::CatalogueError>(())
//! ```
#![forbid(unsafe_code)]

mod error;
pub mod import;
mod text;

use std::io::{self, Write};

use namely_security::sha256;
use namely_wire::Name;
use namely_wire::tlv::Writer;

pub use self::error::{CatalogueError, Fault};
pub use self::text::{LINE_OCTETS_MAX, TEXT_OCTETS_MAX, read};

/// Blocks of a catalogue.
///
/// # Limit
/// The catalogue is refused, and the error names the line.
/// - Tests: `a_catalogue_ends_at_its_limits`,
///   `an_import_ends_at_its_limits`
pub const BLOCKS_MAX: usize = 65_536;

/// Files in all blocks of a catalogue together.
///
/// # Limit
/// The catalogue is refused, and the error names the line.
/// - Tests: `a_catalogue_ends_at_its_limits`,
///   `an_import_ends_at_its_limits`
pub const FILES_MAX: usize = 1 << 20;

/// Octets of a block or file in a catalogue.
///
/// # Limit
/// The catalogue is refused, and the error names the line.
/// - Value: 1 to 2^63 - 1
/// - Tests: `sizes_are_accepted_up_to_their_limit`,
///   `an_invalid_line_is_reported_with_its_place`
pub const SIZE_MAX: u64 = i64::MAX as u64;

/// Limits of a catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of blocks.
    pub blocks_max: usize,
    /// Maximum number of files, in all blocks together.
    pub files_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { blocks_max: BLOCKS_MAX, files_max: FILES_MAX }
    }
}

/// Blocks of data and their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// Its version: routers that exchange counts send it with them.
    pub version: u64,
    /// The blocks, in the order of the text.
    pub blocks: Vec<Block>,
}

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its name, such as `/SingleMuon/Run2017F-17Nov2017-v1/MINIAOD#13f6ce2c`.
    pub name: String,
    /// Its identifier between routers: see [`block_id`].
    pub id: u64,
    /// Octets of its files together.
    pub octets: u64,
    /// Its files, at least one, in the order of the text.
    pub files: Vec<File>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name, such as an LFN of CMS.
    pub name: String,
    /// Its octets.
    pub octets: u64,
    /// Adler-32 of its content, if known.
    pub adler32: Option<u32>,
}

impl Catalogue {
    /// Returns the block of a file.
    pub fn block_of(&self, file: &str) -> Option<&Block> {
        self.blocks.iter().find(|block| block.files.iter().any(|known| known.name == file))
    }

    /// Files in all blocks.
    pub fn files(&self) -> usize {
        self.blocks.iter().map(|block| block.files.len()).sum()
    }

    /// Octets of all blocks.
    pub fn octets(&self) -> u128 {
        self.blocks.iter().map(|block| u128::from(block.octets)).sum()
    }

    /// Writes the text.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "catalogue\t{}", self.version)?;
        for block in &self.blocks {
            writeln!(out, "{}\t{}", block.name, block.octets)?;
            for file in &block.files {
                match file.adler32 {
                    None => writeln!(out, "\t{}\t{}", file.name, file.octets)?,
                    Some(sum) => writeln!(out, "\t{}\t{}\t{sum:08x}", file.name, file.octets)?,
                }
            }
        }
        Ok(())
    }
}

/// Converts the name of a block or file to an NDN name: each part between slashes is a component.
pub fn to_name(name: &str) -> Name {
    name.split('/').skip(1).fold(Name::new(), |name, part| name.join_generic(part))
}

/// The identifier of a block between routers: the first eight octets of the SHA-256 of its name's
/// TLV, as a number in network order.
pub fn block_id(name: &str) -> u64 {
    let mut tlv = Writer::new();
    to_name(name).as_name().encode(&mut tlv);
    let digest = sha256(&tlv.into_vec());
    digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// Returns true if `name` is a valid name of a block or a file: parts between slashes, none of them
/// empty, `.` or `..`, without blanks and control characters.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !matches!(part, "" | "." | "..") && !part.chars().any(|c| c.is_whitespace() || c.is_control())
    };
    name.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_part))
}

/// Returns the positions of two blocks with one id.
fn same_id(blocks: &[Block]) -> Option<(usize, usize)> {
    let mut ids: Vec<(u64, usize)> = blocks.iter().map(|block| block.id).zip(0..).collect();
    ids.sort_unstable();
    ids.windows(2)
        .filter(|pair| pair[0].0 == pair[1].0)
        .map(|pair| (pair[0].1, pair[1].1))
        .min_by_key(|p| p.1)
}

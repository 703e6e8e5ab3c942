//! Fetches files: verified, streamed to disk, and under the final name only when complete.
//!
//! Works with namely's file server, with others that implement the ndn6-file-server protocol, and
//! with any segmented object; a [`Consumer`](namely_socket::Consumer) finds and verifies the
//! objects.

mod checksum;
mod error;
mod file;
mod jobs;
mod journal;
mod options;
mod own;
mod part;
mod reuse;
mod spans;
mod target;
mod tree;
mod version;

pub use namely_host::disk::UntrustedFile;

pub use self::checksum::{CheckedWriter, Checksums, ChecksumsError, LIST_OCTETS_MAX};
pub use self::error::GetError;
pub(crate) use self::error::reason;
pub use self::file::{
    FetchedFile, RESTARTS_MAX, find_file, find_newest, get, get_newest, get_newest_to_writer, get_object,
    get_to_writer,
};
pub use self::jobs::{JOBS_DEFAULT, JOBS_MAX, JOBS_OCTETS, JobInProgress, Jobs};
pub use self::journal::ResumeSecret;
pub use self::options::GetOptions;
pub use self::part::PART_SUFFIX;
pub use self::tree::{
    DEPTH_MAX, FAILED_MAX, FetchedTree, Filter, FilterError, PATTERNS_MAX, SMALL_COPY_ENTRIES, TreeEvent,
    TreeProgress, TreeRules, find_version, get_tree, get_tree_by_rules, get_tree_filtered,
};
pub use self::version::{CLOCK_SKEW_MAX, check_age};

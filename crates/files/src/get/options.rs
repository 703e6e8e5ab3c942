//! The options of a fetch.

use namely_security::ContentDigest;

use super::journal::ResumeSecret;

/// Options of fetching files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// Whether a partial file is resumed.
    pub resume: bool,
    /// Whether the file is synchronized to the disk before it receives its final name.
    pub sync: bool,
    /// The secret that authenticates this user's journals of partial files. Without one, an
    /// interrupted fetch leaves nothing behind, and no fetch resumes.
    pub secret: Option<ResumeSecret>,
    /// Whether files receive the permissions of the producer's metadata, limited by `umask`.
    pub keep_mode: bool,
    /// Whether an older version may replace the one that was fetched before.
    pub allow_older: bool,
    /// The earliest time of the producer's statement about its newest version, ns since the Unix
    /// epoch.
    pub as_of_min_ns: Option<u64>,
    /// The digest of the file. A file of another digest keeps the name of its partial file.
    /// Trees: see [`TreeRules::checksums`](super::TreeRules::checksums).
    pub digest: Option<ContentDigest>,
    /// Trees: files that are fetched at once, at most [`JOBS_MAX`](super::JOBS_MAX). None: as many
    /// as fill a window, see [`JOBS_DEFAULT`](super::JOBS_DEFAULT) and
    /// [`JOBS_OCTETS`](super::JOBS_OCTETS).
    pub jobs: Option<usize>,
    /// Trees: whether files that the producer does not have are deleted from the fetched
    /// directories.
    pub delete: bool,
    /// Trees: the number of entries that may be deleted. None: at most half of a copy of more than
    /// [`SMALL_COPY_ENTRIES`](super::SMALL_COPY_ENTRIES) entries.
    pub delete_max: Option<u64>,
    /// Trees: whether the fetch only reports its steps, and fetches, writes and removes nothing.
    pub dry_run: bool,
    /// Trees: whether contents are compared instead of sizes and times.
    pub compare_content: bool,
    /// Trees: whether symbolic links that stay in the tree are made as links, rather than as copies
    /// of the files and directories that they lead to.
    pub links: bool,
}

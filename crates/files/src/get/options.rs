//! The options of a fetch.

use std::time::Duration;

use super::journal::ResumeSecret;

/// How files are fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetOptions {
    /// Whether a partial file is gone on with.
    pub resume: bool,
    /// Whether the file is on the disk, not only in the system's cache, when it gets its final
    /// name.
    pub sync: bool,
    /// The secret that marks this user's journals of partial files. Without one, a fetch that ends
    /// early leaves nothing behind, and no fetch resumes.
    pub secret: Option<ResumeSecret>,
    /// Whether files have the permissions that the producer tells, as far as `umask` lets them.
    pub keep_mode: bool,
    /// Whether an older version may replace the one that was fetched before.
    pub allow_older: bool,
    /// The largest age of the producer's statement about its newest version.
    pub age_max: Option<Duration>,
    /// Trees: whether files that the producer does not have are deleted from the fetched
    /// directories.
    pub delete: bool,
    /// Trees: whether the fetch only reports its steps, and fetches, writes and removes nothing.
    pub dry_run: bool,
}

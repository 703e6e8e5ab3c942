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
    /// What this user's journals of partial files are known by; none: fetches that end early leave
    /// nothing behind, and none is gone on with.
    pub secret: Option<ResumeSecret>,
    /// Whether files have the permissions that the producer tells, as far as `umask` lets them.
    pub keep_mode: bool,
    /// Whether an older version may replace the one that was fetched before.
    pub allow_older: bool,
    /// How old what the producer says of its newest version may be.
    pub age_max: Option<Duration>,
    /// Of trees: whether what the producer does not have goes from the directories that are
    /// fetched.
    pub delete: bool,
    /// Of trees: whether nothing is fetched, written or removed; what would be is told.
    pub dry_run: bool,
}

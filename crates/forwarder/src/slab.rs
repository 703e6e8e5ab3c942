//! How entries of a table are named: by a small number, not by a pointer.

/// The number of an entry, counted from 1; [`NONE`] names no entry.
pub(crate) type Id = u32;

/// No entry. It is 0 so that fresh zeroed memory is an empty table.
pub(crate) const NONE: Id = 0;

/// Maximum number of entries a table may be asked to hold; configuration beyond it is refused.
pub(crate) const ENTRIES_MAX: usize = 1 << 30;

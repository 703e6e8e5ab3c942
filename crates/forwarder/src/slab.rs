//! Identifiers of table entries: a small number, not a pointer.

/// The number of an entry, counted from 1; [`NONE`] is no entry.
pub(crate) type Id = u32;

/// No entry. It is 0 so that fresh zeroed memory is an empty table.
pub(crate) const NONE: Id = 0;

/// Maximum number of entries in a table; a configuration beyond it is refused.
pub(crate) const ENTRIES_MAX: usize = 1 << 30;

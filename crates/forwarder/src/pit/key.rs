//! The key of a pending Interest outside the table.

use crate::slab::Id;

/// Identifies an entry that was found earlier and may have been removed since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryKey {
    pub(crate) id: Id,
    pub(crate) serial: u32,
}

//! How a pending Interest is named from outside the table.

use crate::slab::Id;

/// Names an entry that was found earlier and may be gone by now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryKey {
    pub(crate) id: Id,
    pub(crate) serial: u32,
}

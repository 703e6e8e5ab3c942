//! Datasets of tables that may be long: a part at a time, so that commands are served in between.
//!
//! There is one production of a dataset at a time, whoever asks: its answer satisfies all that
//! wait. So no more are under way than there are such datasets.

use namely_wire::mgmt::{Dataset, encode_blocks};
use namely_wire::{Name, NameRef};

use crate::control::Tables;
use crate::dataset::Reader;

/// A dataset that is being made.
#[derive(Debug)]
pub(crate) struct Production {
    /// The dataset's name.
    pub(crate) name: Name,
    /// Who asked for it first.
    pub(crate) reader: Reader,
    /// What of it there is.
    pub(crate) content: Vec<u8>,
    cursor: Cursor,
    /// When the last superuser who asked for it stops waiting, ns; none if none did.
    superuser_until_ns: Option<u64>,
}

/// Where it goes on.
#[derive(Clone, Debug)]
enum Cursor {
    Fib(Option<u32>),
    Rib(Option<Name>),
}

impl Production {
    /// One of `dataset`; none if that is made in one part.
    pub(crate) fn new(dataset: Dataset, name: NameRef<'_>, reader: Reader) -> Option<Self> {
        let cursor = match dataset {
            Dataset::FibList => Cursor::Fib(None),
            Dataset::RibList => Cursor::Rib(None),
            _ => return None,
        };
        let (name, content) = (name.to_name(), Vec::new());
        Some(Production { name, reader, content, cursor, superuser_until_ns: None })
    }

    /// Makes the next part; returns true if it was the last.
    pub(crate) fn step(&mut self, tables: &dyn Tables, now_ns: u64) -> bool {
        match &mut self.cursor {
            Cursor::Fib(from) => {
                let (mut entries, is_first) = (Vec::new(), from.is_none());
                *from = tables.fib(*from, &mut entries);
                let is_last = from.is_none();
                if is_first && is_last {
                    entries.sort_by(|a, b| a.prefix.cmp(&b.prefix));
                }
                self.content.extend(encode_blocks(&entries));
                is_last
            }
            Cursor::Rib(last) => {
                let mut entries = Vec::new();
                *last = tables.rib(last.as_ref(), now_ns, &mut entries);
                self.content.extend(encode_blocks(&entries));
                last.is_none()
            }
        }
    }

    /// A superuser waits for it until `until_ns`, and is to see the present state: what others
    /// began is begun anew.
    pub(crate) fn superuser_asks(&mut self, until_ns: u64) {
        if self.superuser_until_ns.is_none() {
            self.content.clear();
            match &mut self.cursor {
                Cursor::Fib(from) => *from = None,
                Cursor::Rib(last) => *last = None,
            }
        }
        self.superuser_until_ns = self.superuser_until_ns.max(Some(until_ns));
    }

    /// Whether a superuser asked for it who does not wait any more, and will ask again.
    pub(crate) fn is_owed(&self, now_ns: u64) -> bool {
        self.superuser_until_ns.is_some_and(|until_ns| until_ns <= now_ns)
    }
}

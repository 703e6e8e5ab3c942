//! Long datasets, made in parts so that commands are served in between.
//!
//! There is at most one production for each dataset, because its answer satisfies all pending
//! Interests. So the number of productions is at most the number of such datasets.

use namely_messages::{Dataset, encode_blocks};
use namely_wire::{Name, NameRef};

use crate::control::Tables;
use crate::dataset::Reader;

/// A dataset that is being made.
#[derive(Debug)]
pub(crate) struct Production {
    /// The dataset's name.
    pub(crate) name: Name,
    /// The reader that requested it first.
    pub(crate) reader: Reader,
    /// The content so far.
    pub(crate) content: Vec<u8>,
    cursor: Cursor,
    /// Expiry of the last Interest of a superuser, ns; `None` without one.
    superuser_until_ns: Option<u64>,
}

/// The position of the next part.
#[derive(Clone, Debug)]
enum Cursor {
    Fib(Option<u32>),
    Rib(Option<Name>),
}

impl Production {
    /// Starts a production of `dataset`; `None` if it is made in one part.
    pub(crate) fn new(dataset: Dataset, name: NameRef<'_>, reader: Reader) -> Option<Self> {
        let cursor = match dataset {
            Dataset::FibList => Cursor::Fib(None),
            Dataset::RibList => Cursor::Rib(None),
            _ => return None,
        };
        let (name, content) = (name.to_name(), Vec::new());
        Some(Production { name, reader, content, cursor, superuser_until_ns: None })
    }

    /// Makes the next part. Returns true if it was the last.
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

    /// Reports that a superuser waits for the dataset until `until_ns`. A production that other
    /// readers started is restarted, because a superuser must receive the present state.
    pub(crate) fn superuser_waits(&mut self, until_ns: u64) {
        if self.superuser_until_ns.is_none() {
            self.content.clear();
            match &mut self.cursor {
                Cursor::Fib(from) => *from = None,
                Cursor::Rib(last) => *last = None,
            }
        }
        self.superuser_until_ns = self.superuser_until_ns.max(Some(until_ns));
    }

    /// Returns true if the last Interest of a superuser has expired. The dataset then answers the
    /// superuser's next Interest.
    pub(crate) fn is_owed(&self, now_ns: u64) -> bool {
        self.superuser_until_ns.is_some_and(|until_ns| until_ns <= now_ns)
    }
}

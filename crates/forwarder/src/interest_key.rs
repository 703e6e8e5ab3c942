//! An Interest as the tables use it: its view, the hashes of its name, and its lookup key.

use namely_wire::InterestView;

use crate::hash::NameHashes;
use crate::prefix_table::Key;

/// The request of an Interest. PIT and content store index it by its name without a trailing
/// implicit digest, because a Data carries that name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InterestKey<'a> {
    pub(crate) view: &'a InterestView<'a>,
    pub(crate) hashes: &'a NameHashes,
    /// Components of the name, not counting a trailing implicit digest.
    pub(crate) components: usize,
    /// The implicit digest that ends the name.
    pub(crate) digest: Option<&'a [u8]>,
}

impl<'a> InterestKey<'a> {
    /// `hashes` are those of the name of `view`.
    pub(crate) fn new(view: &'a InterestView<'a>, hashes: &'a NameHashes) -> Self {
        let all = hashes.len();
        let last = &view.name.as_bytes()[hashes.end(all.saturating_sub(1))..];
        // TYPE 1, LENGTH 32: a checked name has no digest component of another length.
        match last.split_at_checked(2) {
            Some(([1, 32], digest)) => {
                InterestKey { view, hashes, components: all - 1, digest: Some(digest) }
            }
            _ => InterestKey { view, hashes, components: all, digest: None },
        }
    }

    /// The hash under which the tables store it.
    pub(crate) fn hash(&self) -> u64 {
        self.hashes.hash(self.components)
    }

    /// The whole name, for longest-prefix matches.
    pub(crate) fn key(&self) -> Key<'a> {
        Key::new(self.view.name, self.hashes)
    }
}

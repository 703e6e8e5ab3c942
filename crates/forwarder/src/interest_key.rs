//! An Interest as the tables see it: its view, the hashes of its name, and what to look under.

use namely_wire::InterestView;

use crate::hash::NameHashes;
use crate::prefix_table::Key;

/// What an Interest requests. PIT and content store file it under its name without a trailing
/// implicit digest, because that is the name a Data carries.
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

    /// The hash that the tables file it under.
    pub(crate) fn hash(&self) -> u64 {
        self.hashes.hash(self.components)
    }

    /// The whole name, for longest-prefix matches.
    pub(crate) fn key(&self) -> Key<'a> {
        Key::new(self.view.name, self.hashes)
    }
}

//! Seeds of one target.

/// The names and inputs of one target's corpus.
pub(crate) type Group = Vec<(&'static str, Vec<u8>)>;

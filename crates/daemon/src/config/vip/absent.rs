//! `[vip]` of a router that was built without VIP: the table is refused.

use std::convert::Infallible;
use std::path::Path;

use namely_wire::Name;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The virtual plane of VIP, which this build does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vip {
    pub(super) router: String,
    pub(super) prefix: Name,
    never: Infallible,
}

impl<'de> Deserialize<'de> for Vip {
    fn deserialize<D: Deserializer<'de>>(_deserializer: D) -> Result<Self, D::Error> {
        Err(D::Error::custom(
            "this router was built without VIP: take out the table, or use a build with the feature `vip`",
        ))
    }
}

/// The smallest limit that the core accepts. The core has no registered objects.
pub(super) fn objects_max(_vip: Option<&Vip>) -> usize {
    1
}

impl Vip {
    pub(crate) fn blocks_max(&self) -> usize {
        match self.never {}
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        std::iter::empty()
    }
}

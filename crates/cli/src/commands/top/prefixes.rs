//! Prefixes of Interests, for `namely top`.

use namely_client::{Client, HotPrefix};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::Cell;

pub(super) const COLUMNS: [&str; 2] = ["prefix", "part of Interests"];

/// A prefix, and its share of a sample of Interests.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hot {
    pub(super) prefix: String,
    pub(super) part: f64,
}

impl Hot {
    pub(super) fn cells(&self) -> Vec<Cell> {
        vec![self.prefix.as_str().into(), Cell::Real(self.part, 3)]
    }

    pub(super) fn json(&self) -> Value {
        json!({"prefix": self.prefix, "part": self.part})
    }
}

/// Samples the router's Interests for a moment.
///
/// # Errors
/// The client has no right to trace, the router does not trace, or the router does not answer.
pub(super) fn look(router: &mut Client) -> Result<Vec<Hot>, Failure> {
    let hot = |hot: HotPrefix| Hot { prefix: hot.prefix.to_string(), part: hot.part };
    Ok(router.hot_prefixes()?.into_iter().map(hot).collect())
}

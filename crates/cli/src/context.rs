//! The surroundings of a command that runs.

use crate::options::Global;
use crate::output::Output;

/// Options and output of a command that runs.
#[derive(Debug)]
pub struct Context<'a> {
    /// Options of every command.
    pub global: &'a Global,
    /// Where answers go.
    pub out: &'a Output,
}

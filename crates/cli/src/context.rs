//! The context of a running command.

use crate::options::Global;
use crate::output::Output;

/// Options and output of a running command.
#[derive(Debug)]
pub struct Context<'a> {
    /// Options of every command.
    pub global: &'a Global,
    /// Output for answers and remarks.
    pub out: &'a Output,
}

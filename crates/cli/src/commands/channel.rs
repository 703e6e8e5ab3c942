//! `namely channel`: the channels that the router listens on.

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Cell;
use crate::router::connect;

/// List the addresses that the router listens on.
#[derive(Debug, Subcommand)]
pub enum Channel {
    /// List the addresses at which the router accepts new faces
    List(List),
}

impl Channel {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let Channel::List(list) = self;
        list.run(ctx)
    }
}

/// List the addresses at which the router accepts new faces.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely channel list --json")]
pub struct List {}

impl List {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let channels = connect(ctx)?.channels()?;
        let rows: Vec<Vec<Cell>> =
            channels.into_iter().map(|channel| vec![channel.local_uri.into()]).collect();
        ctx.out.table(&["local"], &rows);
        Ok(())
    }
}

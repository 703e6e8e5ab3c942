//! `namely kernel`: the forwarder in the kernel (docs/kernel.md). The commands load its module, and
//! show and change the state of the forwarder of this network namespace.

mod face;
mod module;
mod route;
mod status;
mod tables;

use clap::Subcommand;
use namely_nnet::{Control, ControlError};

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Load, show and configure the forwarder in the kernel.
#[derive(Debug, Subcommand)]
pub enum Kernel {
    /// Load the module
    Load(module::Load),
    /// Unload the module
    Unload(module::Unload),
    /// Show the state of this network namespace's forwarder
    Status(status::Status),
    /// List, create and destroy faces
    #[command(subcommand)]
    Face(face::Face),
    /// List, add and remove routes
    #[command(subcommand)]
    Route(route::Route),
    /// List the prefixes that applications have bound
    #[command(subcommand)]
    Bind(tables::Bind),
    /// List, set and unset forwarding strategies
    #[command(subcommand)]
    Strategy(tables::Strategy),
    /// Show, configure and erase the content store
    #[command(subcommand)]
    Cs(tables::Cs),
}

impl Kernel {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Kernel::Load(c) => c.run(ctx),
            Kernel::Unload(c) => c.run(ctx),
            Kernel::Status(c) => c.run(ctx),
            Kernel::Face(c) => c.run(ctx),
            Kernel::Route(c) => c.run(ctx),
            Kernel::Bind(c) => c.run(ctx),
            Kernel::Strategy(c) => c.run(ctx),
            Kernel::Cs(c) => c.run(ctx),
        }
    }
}

/// Opens the netlink socket of this network namespace's forwarder.
fn control() -> Result<Control, Failure> {
    Ok(Control::open()?)
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let (exit, hint) = match &error {
            ControlError::NotLoaded => (Exit::NoRouter, Some("load it with `namely kernel load`")),
            ControlError::NotPermitted => (Exit::Refused, Some("run it as root, or with CAP_NET_ADMIN")),
            ControlError::NotFound => (
                Exit::NotFound,
                Some("list them with `namely kernel face list`, `route list` or `strategy list`"),
            ),
            ControlError::NoStrategy => {
                (Exit::NotFound, Some("`namely kernel strategy set --help` lists them"))
            }
            ControlError::Invalid(_) | ControlError::Permanent => (Exit::Refused, None),
            ControlError::Full => (
                Exit::Refused,
                Some("set limits with `namely kernel load`: faces_max=N, fib_entries_max=N and others"),
            ),
            ControlError::Stopped => (
                Exit::NoRouter,
                Some("`namely kernel status` shows why; a new network namespace has a new forwarder"),
            ),
            ControlError::System(_) => (Exit::Failed, None),
        };
        Failure { hint: hint.map(Into::into), ..Failure::new(exit, error.to_string()) }
    }
}

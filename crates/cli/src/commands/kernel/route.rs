//! `namely kernel route`: the FIB. The kernel computes no routes, so the FIB holds exactly the
//! added routes.

use clap::{Args, Subcommand};
use namely_wire::Name;
use serde_json::json;

use super::control;
use super::face::{FaceName, face_name};
use crate::context::Context;
use crate::failure::Failure;
use crate::options::name;
use crate::output::Cell;

/// List, add and remove routes.
#[derive(Debug, Subcommand)]
pub enum Route {
    /// List routes
    List(List),
    /// Add a route
    Add(Add),
    /// Remove a route
    Remove(Remove),
}

impl Route {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Route::List(c) => c.run(ctx),
            Route::Add(c) => c.run(ctx),
            Route::Remove(c) => c.run(ctx),
        }
    }
}

/// List routes.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely kernel route list --json")]
pub struct List {}

impl List {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let routes = control()?.routes()?;
        let row = |route: &namely_nnet::Route| {
            vec![route.prefix.to_string().into(), route.face.into(), route.cost.into()]
        };
        let rows: Vec<Vec<Cell>> = routes.iter().map(row).collect();
        ctx.out.table(&["prefix", "face", "cost"], &rows);
        Ok(())
    }
}

/// A route.
#[derive(Debug, Args)]
pub(super) struct RouteSelector {
    /// The name prefix.
    #[arg(value_parser = name)]
    prefix: Name,
    /// The next hop: a face's number, `local` (the applications of this host that have bound
    /// prefixes), a network device, or a station on one: ether://[address%device].
    #[arg(value_parser = face_name)]
    next_hop: FaceName,
}

/// Add a route.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely kernel route add /lab local\n  namely kernel route add / eth0 --cost 10\n\nThe face of a network device is made if there is none."
)]
pub struct Add {
    #[command(flatten)]
    which: RouteSelector,
    /// Lower is better.
    #[arg(long, default_value_t = 0)]
    cost: u64,
}

impl Add {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut kernel = control()?;
        let prefix = &self.which.prefix;
        let face = self.which.next_hop.made(&mut kernel)?;
        kernel.route_new(prefix.as_name(), face, self.cost)?;
        ctx.out.answer(
            || format!("{prefix} goes to face {face}, cost {}", self.cost),
            || json!({"prefix": prefix.to_string(), "face": face, "cost": self.cost}),
        );
        Ok(())
    }
}

/// Remove a route.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely kernel route remove /lab local")]
pub struct Remove {
    #[command(flatten)]
    which: RouteSelector,
}

impl Remove {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut kernel = control()?;
        let prefix = &self.which.prefix;
        let face = self.which.next_hop.found(&mut kernel)?;
        kernel.route_del(prefix.as_name(), face)?;
        ctx.out.answer(
            || format!("{prefix} no longer goes to face {face}"),
            || json!({"prefix": prefix.to_string(), "face": face}),
        );
        Ok(())
    }
}

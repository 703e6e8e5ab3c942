//! `namely route`: routes of the RIB, and the resulting entries of the FIB.

use std::time::Duration;

use clap::{Args, Subcommand};
use namely_client::RouteOptions;
use namely_messages::{FibEntry, RibEntry, RouteOrigin, route_flags};
use namely_wire::Name;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::options::name;
use crate::output::Cell;
use crate::router::connect;

/// List, add and remove routes.
#[derive(Debug, Subcommand)]
pub enum Route {
    /// List routes
    List(List),
    /// Add a route
    Add(Add),
    /// Remove a route
    Remove(Remove),
    /// List the FIB: the next hops of Interests
    Fib(Fib),
}

impl Route {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Route::List(c) => c.run(ctx),
            Route::Add(c) => c.run(ctx),
            Route::Remove(c) => c.run(ctx),
            Route::Fib(c) => c.run(ctx),
        }
    }
}

/// List routes.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely route list --json")]
pub struct List {}

impl List {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let entries: Vec<RibEntry> = connect(ctx)?.rib()?;
        let rows: Vec<Vec<Cell>> =
            entries.iter().flat_map(|e| e.routes.iter().map(move |r| route_row(&e.prefix, r))).collect();
        ctx.out.table(&["prefix", "face id", "origin", "cost", "flags", "expires ms"], &rows);
        Ok(())
    }
}

fn route_row(prefix: &Name, route: &namely_messages::Route) -> Vec<Cell> {
    let flags = [(route_flags::CHILD_INHERIT, "inherit"), (route_flags::CAPTURE, "capture")];
    let words: Vec<&str> = flags.iter().filter(|(bit, _)| route.flags & bit != 0).map(|(_, w)| *w).collect();
    vec![
        prefix.to_string().into(),
        route.face_id.into(),
        route.origin.to_string().into(),
        route.cost.into(),
        words.join(",").into(),
        route.expiration_period_ms.into(),
    ]
}

/// List the FIB.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely route fib")]
pub struct Fib {}

impl Fib {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let entries: Vec<FibEntry> = connect(ctx)?.fib()?;
        let rows: Vec<Vec<Cell>> = entries
            .iter()
            .flat_map(|e| {
                e.next_hops.iter().map(|n| vec![e.prefix.to_string().into(), n.face_id.into(), n.cost.into()])
            })
            .collect();
        ctx.out.table(&["prefix", "face id", "cost"], &rows);
        Ok(())
    }
}

/// A route.
#[derive(Debug, Args)]
pub struct RouteSelector {
    /// The name prefix.
    #[arg(value_parser = name)]
    prefix: Name,
    /// The next hop: a face's number, a URI (add creates the face if there is none), or `local`:
    /// the applications of this host that have bound prefixes.
    next_hop: String,
    /// The route's origin: static, app, client, autoreg, nlsr, or a number.
    #[arg(long, default_value = "static", value_parser = parse_origin)]
    origin: RouteOrigin,
}

fn parse_origin(word: &str) -> Result<RouteOrigin, String> {
    word.parse()
        .map_err(|_| "static, app, client, autoreg, autoconf, nlsr, prefixann, or a number".to_string())
}

/// Add a route.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely route add /lab udp://192.0.2.7 --cost 10\n  namely route add /lab local"
)]
pub struct Add {
    #[command(flatten)]
    which: RouteSelector,
    /// Lower is better.
    #[arg(long, default_value_t = 0)]
    cost: u64,
    /// Longer prefixes with routes of their own do not inherit this route.
    #[arg(long)]
    no_inherit: bool,
    /// This prefix does not inherit routes of shorter prefixes.
    #[arg(long)]
    capture: bool,
    /// Remove the route after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    expires: Option<u64>,
}

impl Add {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut router = connect(ctx)?;
        let face = router.find_or_create_face(&self.which.next_hop)?;
        let options = RouteOptions {
            origin: self.which.origin,
            cost: self.cost,
            child_inherit: !self.no_inherit,
            capture: self.capture,
            expires: self.expires.map(Duration::from_secs),
        };
        router.add_route(&self.which.prefix, face, &options)?;
        let prefix = &self.which.prefix;
        ctx.out.answer(
            || format!("{prefix} goes to face {face}"),
            || json!({"prefix": prefix.to_string(), "face_id": face, "cost": self.cost}),
        );
        Ok(())
    }
}

/// Remove a route.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely route remove /lab udp4://192.0.2.7:6363")]
pub struct Remove {
    #[command(flatten)]
    which: RouteSelector,
}

impl Remove {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut router = connect(ctx)?;
        let face = router.find_face(&self.which.next_hop)?;
        router.remove_route(&self.which.prefix, face, self.which.origin)?;
        let prefix = &self.which.prefix;
        ctx.out.answer(
            || format!("{prefix} no longer goes to face {face}"),
            || json!({"prefix": prefix.to_string(), "face_id": face}),
        );
        Ok(())
    }
}

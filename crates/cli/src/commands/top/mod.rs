//! `namely top`: the current traffic of a router, in the terminal.
//!
//! The command reads management's datasets, which are open to every client, and changes nothing.

mod prefixes;
mod rates;
mod screen;
mod view;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use namely_client::rates::{Rates, Sample};

use self::rates::TopSnapshot;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Cell;
use crate::router::connect;

/// Show the router's current traffic: faces, drops, content store, workers.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely top\n  namely top --once --interval 5\n  namely top --once --json\n  namely top --prefixes\n\nKeys: s sorts by the next column, / filters faces by a part of their URI (Esc ends it), p pauses, q quits."
)]
pub struct Top {
    /// Interval in seconds at which the router is polled, 0.1 or more.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = super::status::seconds)]
    interval: Duration,
    /// Print one interval, and end.
    #[arg(long)]
    once: bool,
    /// The column by which faces are sorted, the largest first.
    #[arg(long, value_enum, default_value_t = Sort::Octets)]
    sort: Sort,
    /// Only faces with this in their URIs.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Also show the prefixes of Interests, from a sample of 50 ms of each interval. It needs the
    /// right to manage the router.
    #[arg(long)]
    prefixes: bool,
}

/// The sort keys of faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// Octets in and out
    Octets,
    /// Interests in and out
    Interests,
    /// Data in and out
    Data,
    /// The face's number
    Face,
}

impl Sort {
    fn next(self) -> Self {
        match self {
            Sort::Octets => Sort::Interests,
            Sort::Interests => Sort::Data,
            Sort::Data => Sort::Face,
            Sort::Face => Sort::Octets,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Sort::Octets => "octets",
            Sort::Interests => "Interests",
            Sort::Data => "Data",
            Sort::Face => "face",
        }
    }
}

impl Top {
    /// Shows the traffic until the command is stopped, or once.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut router = connect(ctx)?;
        if !self.once {
            return screen::run(&mut router, self.interval, self.sort, &self.filter, self.prefixes);
        }
        let stop = crate::stop::flag()?;
        let first = Sample::take(&mut router)?;
        let end = Instant::now() + self.interval;
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(end.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
        }
        let rates = Rates::between(&first, &Sample::take(&mut router)?);
        let prefixes = if self.prefixes { prefixes::look(&mut router)? } else { Vec::new() };
        let shown = TopSnapshot { rates, prefixes };
        if ctx.out.is_json() {
            ctx.out.json(&rates::json(&shown, self.sort, &self.filter));
            return Ok(());
        }
        let TopSnapshot { rates, prefixes } = shown;
        ctx.out.line(rates::heading(&rates));
        let faces: Vec<Vec<Cell>> =
            rates::faces(&rates, self.sort, &self.filter).iter().map(rates::face_cells).collect();
        ctx.out.line("");
        ctx.out.table(&rates::FACE_COLUMNS, &faces);
        let hot: Vec<Vec<Cell>> = prefixes.iter().map(|hot| hot.cells()).collect();
        if !hot.is_empty() {
            ctx.out.line("");
            ctx.out.table(&prefixes::COLUMNS, &hot);
        }
        let events: Vec<Vec<Cell>> = rates.events.iter().map(rates::event_cells).collect();
        if !events.is_empty() {
            ctx.out.line("");
            ctx.out.table(&rates::EVENT_COLUMNS, &events);
        }
        Ok(())
    }
}

//! `namely kernel status`: the state of this network namespace's forwarder, on one screen.

use clap::Args;
use namely_nnet::module;
use namely_nnet::proc::{self, State};
use serde_json::json;

use super::control;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{Cell, count_text, octets_text};

/// The files with counters in /proc/net/nnet.
const FILES: [&str; 4] = ["stats", "drops", "cs", "memory"];

/// Show the state of the forwarder in the kernel.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely kernel status\n  namely kernel status --counters --json")]
pub struct Status {
    /// Show all counters instead, each with its file in /proc/net/nnet.
    #[arg(long)]
    counters: bool,
}

/// Reads the counters of one file of /proc/net/nnet.
pub(super) fn counters(file: &str) -> Result<Vec<(String, u64)>, Failure> {
    proc::counters(file).map_err(|_| not_loaded())
}

fn not_loaded() -> Failure {
    Failure::new(Exit::NoRouter, "the kernel's forwarder is not loaded")
        .hint("load it with `namely kernel load`")
}

impl Status {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let state = proc::state().map_err(|_| not_loaded())?;
        if let (State::Stopped(why), true) = (&state, self.counters) {
            return Err(Failure::new(Exit::NoRouter, format!("the kernel's forwarder has stopped: {why}")));
        }
        if self.counters { self.all(ctx) } else { self.summary(ctx, &state) }
    }

    fn all(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        for file in FILES {
            let row = |(counter, value)| vec![file.into(), Cell::from(counter), Cell::from(value)];
            rows.extend(counters(file)?.into_iter().map(row));
        }
        ctx.out.table(&["file", "counter", "value"], &rows);
        Ok(())
    }

    fn summary(&self, ctx: &Context<'_>, state: &State) -> Result<(), Failure> {
        let (word, why) = match state {
            State::Unused => ("unused", None),
            State::Running => ("running", None),
            State::Stopped(why) => ("stopped", Some(why)),
        };
        let release = module::release();
        if *state != State::Running {
            ctx.out.answer(
                || match why {
                    Some(why) => format!("forwarder   stopped in this network namespace: {why}"),
                    None => {
                        format!("forwarder   unused in this network namespace so far, in Linux {release}")
                    }
                },
                || json!({"state": word, "why": why, "kernel": release, "family": module::family()}),
            );
            return Ok(());
        }
        let mut kernel = control()?;
        let (faces, routes) = (kernel.faces()?.len(), kernel.routes()?.len());
        let all = FILES.map(counters).into_iter().collect::<Result<Vec<_>, _>>()?;
        let [stats, drops, cs, memory] = &all[..] else { return Err(not_loaded()) };
        let of = |from: &[(String, u64)], name: &str| {
            from.iter().find(|(label, _)| label == name).map_or(0, |(_, value)| *value)
        };
        let s = |name: &str| of(stats, name);
        let dropped: u64 = drops.iter().map(|(_, value)| value).sum();
        let text = || {
            [
                format!("forwarder   running at kernel://, in Linux {release}"),
                format!("faces       {faces}"),
                format!("routes      {routes}"),
                format!("FIB         {}", count_text(s("fib_entries"), "prefix")),
                format!("bindings    {}", s("bindings")),
                format!("PIT         {}", count_text(s("pit_entries"), "pending Interest")),
                format!(
                    "CS          {} of {} packets, {}, {}",
                    of(cs, "packets"),
                    of(cs, "packets_max"),
                    count_text(of(cs, "hits"), "hit"),
                    count_text(of(cs, "misses"), "miss")
                ),
                format!("Interests   {} in, {} out", s("in_interests"), s("out_interests")),
                format!("Data        {} in, {} out", s("in_data"), s("out_data")),
                format!("Nacks       {} in, {} out", s("in_nacks"), s("out_nacks")),
                format!(
                    "satisfied   {}, unsatisfied {}",
                    s("satisfied_interests"),
                    s("unsatisfied_interests")
                ),
                format!("dropped     {dropped}"),
                format!("memory      {}", octets_text(of(memory, "octets"))),
            ]
        };
        let value = || {
            let object = |rows: &[(String, u64)]| {
                rows.iter().map(|(name, n)| (name.clone(), json!(n))).collect::<serde_json::Map<_, _>>()
            };
            json!({
                "state": word, "kernel": release, "family": module::family(), "faces": faces, "routes": routes,
                "stats": object(stats), "drops": object(drops), "cs": object(cs), "memory": object(memory),
            })
        };
        ctx.out.answer(text, value);
        Ok(())
    }
}

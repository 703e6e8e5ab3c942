//! `namely status`: the state of the router, on one screen.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, Parser};
use namely_messages::{Counter, CsInfo, RibEntry, RouterDetails};
use serde_json::json;

use crate::args::Cli;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Cell, count_text, draining_text, octets_text};
use crate::router::connect;

/// Show the state of the router.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely status --json\n  namely status --counters\n  namely status --watch 2\n  namely status --report > report.txt"
)]
pub struct Status {
    /// Show the counters of drops instead, of the router and of each face (namely's router only)
    #[arg(long)]
    counters: bool,
    /// Show everything for a report of a problem: also channels, faces, routes, bindings,
    /// strategies and counters.
    #[arg(long, conflicts_with = "counters")]
    report: bool,
    /// Repeat it at this interval, until the command is stopped or its output is closed.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = seconds)]
    watch: Option<Duration>,
}

/// Parses a time of at least a tenth of a second.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let time = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| *time >= Duration::from_millis(100)).ok_or_else(|| "give seconds, 0.1 or more".into())
}

impl Status {
    /// Prints the general status and a summary of faces, routes and the content store.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let Some(pause) = self.watch else { return self.show(ctx) };
        let stop = crate::stop::flag()?;
        while !stop.load(Ordering::Relaxed) {
            ctx.out.clear();
            self.show(ctx)?;
            let end = Instant::now() + pause;
            while Instant::now() < end && !stop.load(Ordering::Relaxed) {
                if ctx.out.is_closed(Duration::from_millis(50).min(pause)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn show(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        self.summary(ctx)?;
        if !self.report {
            return Ok(());
        }
        let parts: [&[&str]; 8] = [
            &["channel", "list"],
            &["face", "list"],
            &["route", "list"],
            &["route", "fib"],
            &["bind", "list"],
            &["strategy", "list"],
            &["cs", "info"],
            &["status", "--counters"],
        ];
        for words in parts {
            let cli = Cli::try_parse_from(["namely"].iter().chain(words));
            let cli = cli.map_err(|error| Failure::failed(error.to_string()))?;
            if !ctx.out.is_json() {
                ctx.out.line([String::new(), words.join(" ")]);
            }
            let part = Cli { global: ctx.global.clone(), ..cli };
            // Other routers than namely's report only some of these parts.
            if let Err(failure) = super::run(&part, ctx.out) {
                ctx.out.answer(
                    || failure.message.clone(),
                    || json!({"part": words.join(" "), "error": failure.message}),
                );
            }
        }
        Ok(())
    }

    fn summary(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut router = connect(ctx)?;
        if self.counters {
            let row = |counter: &Counter| {
                vec![counter.label.as_str().into(), counter.face_id.into(), counter.value.into()]
            };
            let rows: Vec<Vec<Cell>> = router.counters()?.iter().map(row).collect();
            ctx.out.table(&["counter", "face id", "value"], &rows);
            return Ok(());
        }
        let uri = router.router().to_string();
        let general = router.status()?;
        let cs = router.cs_info()?;
        // Other routers do not report the number of faces, so all faces are requested.
        let faces = general.faces.map_or_else(|| router.faces().map(|all| all.len() as u64), Ok)?;
        let of_rib = |rib: Vec<RibEntry>| rib.iter().map(|entry| entry.routes.len() as u64).sum();
        let routes: u64 = general.routes.map_or_else(|| router.rib().map(of_rib), Ok)?;
        let up_s = general.uptime_ms() / 1000;
        let details = general.details.as_ref();
        let text = || {
            [
                format!("router      {} at {}", general.version, uri),
                format!("up          {}", duration_text(up_s)),
                format!("faces       {faces}"),
                format!("routes      {routes}"),
                format!("FIB         {}", count_text(general.fib_entries, "prefix")),
                format!("PIT         {}", count_text(general.pit_entries, "pending Interest")),
                of_store(&cs),
                format!("Interests   {} in, {} out", general.in_interests, general.out_interests),
                format!("Data        {} in, {} out", general.in_data, general.out_data),
                format!("Nacks       {} in, {} out", general.in_nacks, general.out_nacks),
                format!(
                    "satisfied   {}, unsatisfied {}",
                    general.satisfied_interests, general.unsatisfied_interests
                ),
            ]
            .into_iter()
            .chain(details.into_iter().flat_map(of_details))
            .collect::<Vec<_>>()
        };
        let value = || {
            json!({
                "version": general.version, "router": uri, "up_s": up_s, "faces": faces, "routes": routes,
                "fib_entries": general.fib_entries, "pit_entries": general.pit_entries,
                "cs": {"entries": cs.entries, "capacity": cs.capacity, "hits": cs.hits, "misses": cs.misses, "policy": cs.policy},
                "in": {"interests": general.in_interests, "data": general.in_data, "nacks": general.in_nacks},
                "out": {"interests": general.out_interests, "data": general.out_data, "nacks": general.out_nacks},
                "satisfied_interests": general.satisfied_interests,
                "unsatisfied_interests": general.unsatisfied_interests,
                "octets": details.map(|own| json!({"in": own.in_octets, "out": own.out_octets})),
                "waits_for": details.map(|own| &own.awaited),
                "draining": details.and_then(|own| own.draining).map(|pending| json!({"pending": pending})),
            })
        };
        ctx.out.answer(text, value);
        Ok(())
    }
}

fn of_store(cs: &CsInfo) -> String {
    let policy = cs.policy.as_ref().map(|policy| format!(", policy {policy}")).unwrap_or_default();
    let CsInfo { entries, capacity, hits, misses, .. } = cs;
    let [hits, misses] = [count_text(*hits, "hit"), count_text(*misses, "miss")];
    format!("CS          {entries} of {capacity} packets, {hits}, {misses}{policy}")
}

/// The lines that only namely's router has.
fn of_details(details: &RouterDetails) -> Vec<String> {
    let octets = [details.in_octets, details.out_octets].map(octets_text);
    let mut lines = vec![format!("octets      {} in, {} out", octets[0], octets[1])];
    lines.extend(details.awaited.iter().map(|uri| format!("waits for   {uri}")));
    lines.extend(details.draining.map(|pending| format!("stops       {}", draining_text(pending))));
    lines
}

pub(super) fn duration_text(seconds: u64) -> String {
    let (d, h, m, s) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (d, h, m) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, _) => format!("{m} min {s} s"),
        (0, _, _) => format!("{h} h {m} min"),
        _ => format!("{d} d {h} h"),
    }
}

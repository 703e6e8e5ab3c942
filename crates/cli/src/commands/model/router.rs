//! `namely model router`: one router as an open network of five queues.

use std::path::PathBuf;

use clap::Args;
use namely_sim::queueing::{Measured, Rates, Router as Queues, RouterQueues, Shares, Stage};
use serde_json::json;

use super::tables::Costs;
use super::{ARRIVALS, ARRIVALS_MAX, refused};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Cell;

/// Default share of the maximum load at which stages are shown.
const LOAD_SHARE: f64 = 0.9;

/// One router.
#[derive(Debug, Args)]
#[command(
    after_help = "Rates are packets a second; k and M stand for thousands and millions. A stage without a rate has no bound.

Examples:
  namely model router --cs 4.7k --pit 4k --fib 4k --cs-hit 0.5
  namely model router --cs 414 --cs-write 300 --pit 1M --pit-hit 0.1 --load 300 --simulate
  namely-bench tables --json --scenario cs-hit-1M,cs-miss-1M,core-4c-1k,pit-1k > tables.jsonl
  namely model router --tables tables.jsonl --cs-hit 0.5"
)]
pub struct Router {
    /// Interests that the content store looks up in a second.
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Rates")]
    cs: Option<f64>,
    /// Data packets that it stores in a second.
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Rates")]
    cs_write: Option<f64>,
    /// Interests that the PIT looks up.
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Rates")]
    pit: Option<f64>,
    /// Data that it looks up.
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Rates")]
    pit_data: Option<f64>,
    /// Interests that the FIB looks up.
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Rates")]
    fib: Option<f64>,
    /// The rates of this machine's tables: lines that `namely-bench tables --json` printed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cs", "cs_write", "pit", "pit_data", "fib"], help_heading = "Rates")]
    tables: Option<PathBuf>,
    /// The share of Interests that the content store answers.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Shares")]
    cs_hit: f64,
    /// Share of the other Interests that are pending already.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Shares")]
    pit_hit: f64,
    /// Share of the remaining Interests that have a route.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, help_heading = "Shares")]
    fib_hit: f64,
    /// Share of arriving Data that is cached.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, help_heading = "Shares")]
    cached: f64,
    /// Arriving Interests in a second [default: 0.9 of the router's maximum].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    load: Option<f64>,
    /// Also simulate the queues, for this many arrivals.
    #[arg(long, value_name = "ARRIVALS", num_args = 0..=1, require_equals = true, default_missing_value = ARRIVALS, value_parser = clap::value_parser!(u64).range(1..=ARRIVALS_MAX))]
    simulate: Option<u64>,
    /// The seed of the simulation.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Router {
    /// Computes and prints the model.
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let rates = self.rates()?;
        let Router { cs_hit, pit_hit, fib_hit, cached, .. } = *self;
        let router = Queues::new(rates, Shares { cs_hit, pit_hit, fib_hit, cached }).map_err(refused)?;
        let (stage, most) = router.bottleneck();
        if most.is_infinite() {
            return Err(Failure::failed("nothing bounds this router").hint(
                "give the rate of at least one stage that packets reach, such as --cs 4.7k, or --tables FILE",
            ));
        }
        let load = self.load.unwrap_or(LOAD_SHARE * most);
        self.stages(ctx, &router, load)?;
        let one_thread = router.one_thread_max();
        ctx.out.answer(
            || {
                [
                    String::new(),
                    format!("at {load:.0} Interests/s"),
                    format!("bottleneck       {}", stage.name()),
                    format!("at most          {most:.0} Interests/s with a thread for each stage"),
                    format!("                 {one_thread:.0} Interests/s with one thread for all"),
                ]
            },
            || json!({"load": load, "bottleneck": stage.name(), "max_load": most, "max_load_of_one_thread": one_thread}),
        );
        Ok(())
    }

    fn rates(&self) -> Result<Rates, Failure> {
        if let Some(path) = &self.tables {
            return Ok(Costs::read(path)?.rates(self.cs_hit));
        }
        let or = |given: Option<f64>| given.unwrap_or(f64::INFINITY);
        Ok(Rates {
            cs_lookup: or(self.cs),
            cs_insert: or(self.cs_write),
            pit_lookup: or(self.pit),
            pit_match: or(self.pit_data),
            fib_lookup: or(self.fib),
        })
    }

    /// Prints the table of stages.
    fn stages(&self, ctx: &Context<'_>, router: &Queues, load: f64) -> Result<(), Failure> {
        let known = |rate: f64, digits| if rate.is_finite() { Cell::Real(rate, digits) } else { Cell::None };
        let stages = router.at(load).map_err(|e| {
            refused(e).hint(format!(
                "without --load the stages are shown at {LOAD_SHARE} of the router's maximum load"
            ))
        })?;
        let simulated = match self.simulate {
            Some(arrivals) => {
                Some(RouterQueues::run(*router, load, usize::MAX, arrivals, self.seed).map_err(refused)?)
            }
            None => None,
        };
        let rows: Vec<Vec<Cell>> = stages
            .iter()
            .map(|s| {
                let mut row = vec![
                    s.stage.name().into(),
                    Cell::Real(s.arrivals, 1),
                    known(s.service, 1),
                    known(router.bound(s.stage), 1),
                    Cell::Real(s.utilisation, 4),
                    Cell::Real(s.packets_mean, 3),
                    Cell::Real(s.time_mean_s * 1e6, 1),
                ];
                row.extend(simulated.iter().flat_map(|m| of_stage(m, s.stage)));
                row
            })
            .collect();
        let mut titles =
            vec!["stage", "packets/s", "rate", "Interests/s at most", "utilisation", "packets", "time us"];
        if simulated.is_some() {
            titles.extend(["simulated utilisation", "simulated packets"]);
        }
        ctx.out.table(&titles, &rows);
        Ok(())
    }
}

fn of_stage(measured: &Measured, stage: Stage) -> [Cell; 2] {
    let index = stage as usize;
    let of = |values: &[f64], digits| values.get(index).map_or(Cell::None, |x| Cell::Real(*x, digits));
    [of(&measured.utilisation, 4), of(&measured.packets_mean, 3)]
}

/// Parses packets per second: `4.7k`, `1.5M`, `414`.
fn rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1e3),
        Some(b'M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let rate = digits.parse::<f64>().ok().map(|rate| rate * factor);
    let rate = rate.filter(|rate| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "give packets a second above 0, such as 414, 4.7k or 1.5M".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_accept_thousands_and_millions() {
        assert_eq!(rate("4.7k"), Ok(4700.0));
        assert_eq!(rate("1.5M"), Ok(1_500_000.0));
        assert_eq!(rate("414"), Ok(414.0));
        for wrong in ["", "k", "-1", "0", "1G", "nan", "1e999", "4k4", "ä"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}

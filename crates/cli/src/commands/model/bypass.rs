//! `namely model bypass`: the N-queue bypass model over a range of loads.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use namely_sim::queueing::{Bypass as Queues, BypassQueues, Steady, bypass_svg};

use super::{ARRIVALS, ARRIVALS_MAX, refused};
use crate::context::Context;
use crate::failure::{Failure, io_failure};
use crate::output::Cell;

/// Maximum number of points of a range of loads.
const POINTS_MAX: u64 = 1000;

/// Routers in a row.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  namely model bypass 5x3 drop-10 --load 1
  namely model bypass 5x3 2x3 drop-10 drop-2 --load 0.1..2 --plot bypass.svg
  namely model bypass 3x3 --load 0.5..4 --points 8 --simulate --json")]
pub struct Bypass {
    /// NxM: N queues of M states (from empty to M-1 packets), each a router's content store that
    /// passes packets on when it is full. drop-P: one queue that drops packets when it has P.
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<Model>,
    /// Arrivals for each service of one queue: a number, or a range such as 0.1..2.
    #[arg(long, value_name = "LOAD", default_value = "0.1..2")]
    load: Loads,
    /// Number of loads of a range.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=POINTS_MAX))]
    points: u64,
    /// Also simulate the queues, for this many arrivals.
    #[arg(long, value_name = "ARRIVALS", num_args = 0..=1, require_equals = true, default_missing_value = ARRIVALS, value_parser = clap::value_parser!(u64).range(1..=ARRIVALS_MAX))]
    simulate: Option<u64>,
    /// The seed of the simulation.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Draw packets, loss and utilization over the load into an SVG file.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

impl Bypass {
    /// Solves, prints and draws.
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut rows = Vec::new();
        let mut solved = Vec::new();
        for Model { name, queues } in &self.models {
            let mut of_model = Vec::new();
            for load in self.load.points(self.points) {
                let steady = queues.solve(load).map_err(refused)?;
                rows.push(self.row(name, *queues, &steady)?);
                of_model.push(steady);
            }
            solved.push((name.clone(), of_model));
        }
        let mut titles = vec!["model", "load", "packets", "a queue", "time", "utilisation", "loss"];
        if self.simulate.is_some() {
            titles.extend(["simulated packets", "simulated utilisation", "simulated loss"]);
        }
        ctx.out.table(&titles, &rows);
        if let Some(path) = &self.plot {
            fs::write(path, bypass_svg(&solved)).map_err(|e| io_failure("write", path, e))?;
            ctx.out.remark(format!("drawn to {}", path.display()));
        }
        Ok(())
    }

    fn row(&self, name: &str, queues: Queues, steady: &Steady) -> Result<Vec<Cell>, Failure> {
        let count = queues.queues() as f64;
        let mut row = vec![
            name.into(),
            Cell::Real(steady.load(), 3),
            Cell::Real(steady.packets_mean(), 6),
            Cell::Real(steady.packets_mean() / count, 6),
            Cell::Real(steady.time_mean(), 6),
            Cell::Real(steady.utilisation(), 6),
            Cell::Small(steady.loss()),
        ];
        if let Some(arrivals) = self.simulate {
            let measured = BypassQueues::run(queues, steady.load(), arrivals, self.seed).map_err(refused)?;
            let packets: f64 = measured.packets_mean.iter().sum();
            let utilisation = measured.utilisation.iter().sum::<f64>() / count;
            row.extend([Cell::Real(packets, 6), Cell::Real(utilisation, 6), Cell::Small(measured.loss())]);
        }
        Ok(row)
    }
}

/// A model with its name on the command line.
#[derive(Clone, Debug)]
struct Model {
    name: String,
    queues: Queues,
}

impl FromStr for Model {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |digits: &str| digits.parse::<usize>().ok();
        let unknown = || "give NxM, such as 5x3 for five queues of three states, or drop-P".to_owned();
        let queues = match text.strip_prefix("drop-") {
            Some(packets) => Queues::dropping(number(packets).ok_or_else(unknown)?),
            None => {
                let (queues, states) = text.split_once(['x', '*']).ok_or_else(unknown)?;
                Queues::new(number(queues).ok_or_else(unknown)?, number(states).ok_or_else(unknown)?)
            }
        };
        Ok(Model { name: text.into(), queues: queues.map_err(|e| e.to_string())? })
    }
}

/// One load, or a range.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Loads {
    from: f64,
    to: f64,
}

impl Loads {
    /// Returns evenly spaced loads, both ends included; a single load if the ends are equal.
    fn points(self, points: u64) -> Vec<f64> {
        if self.from == self.to {
            return vec![self.from];
        }
        let step = (self.to - self.from) / (points - 1) as f64;
        (0..points).map(|point| self.from + point as f64 * step).collect()
    }
}

impl FromStr for Loads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let number = |text: &str| text.parse::<f64>().ok().filter(|load| load.is_finite() && *load > 0.0);
        match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => Ok(Loads { from, to }),
            _ => Err("give a number above 0, such as 0.8, or a range that grows, such as 0.1..2".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_parse_as_number_or_range() {
        assert_eq!("0.5".parse::<Loads>().unwrap().points(20), [0.5]);
        assert_eq!("1..2".parse::<Loads>().unwrap().points(5), [1.0, 1.25, 1.5, 1.75, 2.0]);
        for wrong in ["", "0", "2..1", "-1..2", "a", "1..", "inf", "NaN..1"] {
            assert!(wrong.parse::<Loads>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn models_are_named_as_in_the_paper() {
        let of = |text: &str| text.parse::<Model>().map(|m| (m.queues.queues(), m.queues.states()));
        assert_eq!(of("5x3"), Ok((5, 3)));
        assert_eq!(of("5*3"), Ok((5, 3)));
        assert_eq!(of("drop-10"), Ok((1, 11)));
        for wrong in ["5", "x", "drop-", "drop-0", "0x3", "5x1", "99x99", "drop-99999999999999999999"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}

//! One router as an open network of five queues, each with a server of its own (M/M/1). The model
//! yields the part of the offered Interests that arrives at each queue, and the throughput of the
//! slowest (equations 4 to 7 of NB-Cache).
//!
//! A router in which one thread does all the stages for a packet, one after another, has one
//! server, not five: [`Router::one_thread_max`].

use crate::random::Random;

use super::error::{Error, rate, share};
use super::stations::{Measured, Scene, Stations, exponential};

/// A stage of the router, in the order of the paper's q1 to q5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The content store looks up an Interest (q1).
    CsLookup,
    /// The content store inserts a Data (q2).
    CsInsert,
    /// The PIT looks up an Interest that the content store did not answer (q3).
    PitLookup,
    /// The PIT looks up a Data (q4).
    PitMatch,
    /// The FIB looks up an Interest that the PIT did not have (q5).
    FibLookup,
}

impl Stage {
    /// All, in the paper's order.
    pub const ALL: [Stage; 5] =
        [Stage::CsLookup, Stage::CsInsert, Stage::PitLookup, Stage::PitMatch, Stage::FibLookup];

    /// The name of the stage.
    pub fn name(self) -> &'static str {
        match self {
            Stage::CsLookup => "cs lookup",
            Stage::CsInsert => "cs insert",
            Stage::PitLookup => "pit lookup",
            Stage::PitMatch => "pit match",
            Stage::FibLookup => "fib lookup",
        }
    }
}

/// The service rate of each stage, packets a second. A stage without a known rate has no bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Interests at the content store.
    pub cs_lookup: f64,
    /// Data that the content store inserts.
    pub cs_insert: f64,
    /// Interests at the PIT.
    pub pit_lookup: f64,
    /// Data at the PIT.
    pub pit_match: f64,
    /// Interests at the FIB.
    pub fib_lookup: f64,
}

impl Default for Rates {
    fn default() -> Self {
        let unbounded = f64::INFINITY;
        Rates {
            cs_lookup: unbounded,
            cs_insert: unbounded,
            pit_lookup: unbounded,
            pit_match: unbounded,
            fib_lookup: unbounded,
        }
    }
}

impl Rates {
    fn of(&self, stage: Stage) -> f64 {
        match stage {
            Stage::CsLookup => self.cs_lookup,
            Stage::CsInsert => self.cs_insert,
            Stage::PitLookup => self.pit_lookup,
            Stage::PitMatch => self.pit_match,
            Stage::FibLookup => self.fib_lookup,
        }
    }
}

/// The shares of packets by their processing: the paper's alpha, beta, theta and phi.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// The share of Interests that the content store answers.
    pub cs_hit: f64,
    /// Of the other Interests, the share for which the PIT has an entry already.
    pub pit_hit: f64,
    /// Of the remaining Interests, the share for which the FIB has a route.
    pub fib_hit: f64,
    /// The share of received Data that the content store inserts.
    pub cached: f64,
}

impl Default for Shares {
    /// Every Interest is forwarded, and every Data cached.
    fn default() -> Self {
        Shares { cs_hit: 0.0, pit_hit: 0.0, fib_hit: 1.0, cached: 1.0 }
    }
}

/// A router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    rates: Rates,
    shares: Shares,
}

/// The load of a stage at an offered load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageLoad {
    /// The stage.
    pub stage: Stage,
    /// Packets that arrive in a second.
    pub arrivals: f64,
    /// Packets that it could serve in a second.
    pub service: f64,
    /// The share of time in which it is busy: arrivals divided by service.
    pub utilisation: f64,
    /// Packets in it on average, including the one in service.
    pub packets_mean: f64,
    /// The mean time of a packet in the station, s.
    pub time_mean_s: f64,
}

impl Router {
    /// A router with these rates and shares.
    ///
    /// # Errors
    /// [`Error::Rate`] or [`Error::Share`] for a value that makes no sense. A rate may be infinite.
    pub fn new(rates: Rates, shares: Shares) -> Result<Self, Error> {
        for stage in Stage::ALL {
            let given = rates.of(stage);
            if given != f64::INFINITY {
                rate(stage.name(), given)?;
            }
        }
        share("the share of content store hits", shares.cs_hit)?;
        share("the share of PIT hits", shares.pit_hit)?;
        share("the share of Interests that have a route", shares.fib_hit)?;
        share("the share of Data that are cached", shares.cached)?;
        Ok(Router { rates, shares })
    }

    /// Packets that arrive at `stage` for each Interest that the router is offered (Eq. 4).
    pub fn visits(&self, stage: Stage) -> f64 {
        let Shares { cs_hit, pit_hit, fib_hit, cached } = self.shares;
        let at_pit = 1.0 - cs_hit;
        let at_fib = (1.0 - pit_hit) * at_pit;
        let forwarded = fib_hit * at_fib;
        match stage {
            Stage::CsLookup => 1.0,
            Stage::CsInsert => cached * forwarded,
            Stage::PitLookup => at_pit,
            Stage::PitMatch => forwarded,
            Stage::FibLookup => at_fib,
        }
    }

    /// Interests a second up to which `stage` keeps up (Eq. 6); infinite if it receives none.
    pub fn bound(&self, stage: Stage) -> f64 {
        match self.visits(stage) {
            0.0 => f64::INFINITY,
            visits => self.rates.of(stage) / visits,
        }
    }

    /// The first stage to be overloaded, and the Interests a second up to which it keeps up. This
    /// is the router's maximum (Eq. 7). Of several such stages the first in order.
    pub fn bottleneck(&self) -> (Stage, f64) {
        let least = |best: (Stage, f64), stage| {
            let bound = self.bound(stage);
            if bound < best.1 { (stage, bound) } else { best }
        };
        Stage::ALL.into_iter().fold((Stage::CsLookup, self.bound(Stage::CsLookup)), least)
    }

    /// Maximum Interests a second if one thread does all the stages.
    pub fn one_thread_max(&self) -> f64 {
        let spent: f64 = Stage::ALL.into_iter().map(|stage| 1.0 / self.bound(stage)).sum();
        1.0 / spent
    }

    /// The load of each stage when `load` Interests arrive in a second.
    ///
    /// # Errors
    /// [`Error::Overload`] if the bottleneck cannot keep up. Its queue then has no mean length.
    pub fn at(&self, load: f64) -> Result<[StageLoad; 5], Error> {
        rate("the load", load)?;
        let (stage, most) = self.bottleneck();
        if load >= most {
            return Err(Error::Overload { given: load, most, stage: stage.name() });
        }
        Ok(Stage::ALL.map(|stage| {
            let (arrivals, service) = (load * self.visits(stage), self.rates.of(stage));
            let utilisation = arrivals / service;
            let packets_mean = utilisation / (1.0 - utilisation);
            let time_mean_s = 1.0 / (service - arrivals);
            StageLoad { stage, arrivals, service, utilisation, packets_mean, time_mean_s }
        }))
    }
}

/// The queues of a [`Router`] as a scene to simulate; upstreams answer at once.
#[derive(Clone, Copy, Debug)]
pub struct RouterQueues(Router);

impl RouterQueues {
    /// Simulates the queues of `of`, each with room for `room` packets, while `load` Interests
    /// arrive in a second, until `arrivals` have arrived.
    ///
    /// # Errors
    /// A load that is not above 0.
    pub fn run(of: Router, load: f64, room: usize, arrivals: u64, seed: u64) -> Result<Measured, Error> {
        rate("the load", load)?;
        let mut stations = Stations::new(RouterQueues(of), vec![room; Stage::ALL.len()], load, seed);
        stations.run_until_arrivals(arrivals);
        Ok(stations.measured())
    }
}

impl Scene for RouterQueues {
    fn arrive(&mut self, _lengths: &[usize]) -> Option<usize> {
        Some(Stage::CsLookup as usize)
    }

    fn serve(&mut self, station: usize, random: &mut Random) -> (f64, Option<usize>) {
        let stage = Stage::ALL[station];
        let Shares { cs_hit, pit_hit, fib_hit, cached } = self.0.shares;
        let (next, goes_on) = match stage {
            Stage::CsLookup => (Some(Stage::PitLookup), 1.0 - cs_hit),
            Stage::PitLookup => (Some(Stage::FibLookup), 1.0 - pit_hit),
            Stage::FibLookup => (Some(Stage::PitMatch), fib_hit),
            Stage::PitMatch => (Some(Stage::CsInsert), cached),
            Stage::CsInsert => (None, 1.0),
        };
        let next = next.filter(|_| random.happens((goes_on * 1e6) as u32));
        (exponential(random, self.0.rates.of(stage)), next.map(|next| next as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates =
        Rates { cs_lookup: 1000.0, cs_insert: 200.0, pit_lookup: 900.0, pit_match: 800.0, fib_lookup: 700.0 };
    const SHARES: Shares = Shares { cs_hit: 0.5, pit_hit: 0.2, fib_hit: 0.9, cached: 0.75 };

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn each_stage_gets_the_equation_4_share() {
        let router = Router::new(RATES, SHARES).unwrap();
        let visits = Stage::ALL.map(|stage| router.visits(stage));
        let expected = [1.0, 0.75 * 0.9 * 0.8 * 0.5, 0.5, 0.9 * 0.8 * 0.5, 0.8 * 0.5];
        assert!(visits.iter().zip(expected).all(|(a, b)| close(*a, b)), "{visits:?}");
    }

    #[test]
    fn the_slowest_stage_bounds_the_router() {
        let router = Router::new(RATES, SHARES).unwrap();
        let (stage, most) = router.bottleneck();
        assert_eq!(stage, Stage::CsInsert);
        assert!(close(most, 200.0 / (0.75 * 0.9 * 0.8 * 0.5)), "{most}");
        let (stage, most) = Router::new(Rates { cs_insert: 500.0, ..RATES }, SHARES).unwrap().bottleneck();
        assert_eq!((stage, most), (Stage::CsLookup, 1000.0));
        let uncached = Router::new(RATES, Shares { cs_hit: 1.0, ..SHARES }).unwrap();
        assert_eq!(uncached.bottleneck(), (Stage::CsLookup, 1000.0), "stages without packets bound nothing");
    }

    #[test]
    fn a_stage_is_a_single_server_queue() {
        let router = Router::new(RATES, SHARES).unwrap();
        let [cs, insert, ..] = router.at(500.0).unwrap();
        assert!(close(cs.utilisation, 0.5) && close(cs.packets_mean, 1.0) && close(cs.time_mean_s, 0.002));
        assert!(close(insert.arrivals, 135.0) && close(insert.utilisation, 0.675), "{insert:?}");
        assert!(close(insert.packets_mean, insert.arrivals * insert.time_mean_s), "Little's law");
        let unknown = Router::new(Rates { cs_lookup: 10.0, ..Rates::default() }, Shares::default()).unwrap();
        let idle = unknown.at(5.0).unwrap()[2];
        assert_eq!((idle.utilisation, idle.packets_mean, idle.time_mean_s), (0.0, 0.0, 0.0));
    }

    #[test]
    fn one_thread_shares_all_stage_times() {
        let rates = Rates { cs_lookup: 100.0, pit_lookup: 100.0, ..Rates::default() };
        let router = Router::new(rates, Shares { cs_hit: 0.5, ..Shares::default() }).unwrap();
        assert!(close(router.one_thread_max(), 1.0 / (0.01 + 0.5 * 0.01)));
        assert_eq!(router.bottleneck().1, 100.0);
    }

    #[test]
    fn an_invalid_rate_is_refused_by_name() {
        for wrong in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            let error = Router::new(Rates { pit_match: wrong, ..RATES }, SHARES).unwrap_err().to_string();
            assert!(error.contains("pit match") && error.contains("above 0"), "{error}");
        }
        for wrong in [-0.1, 1.1, f64::NAN] {
            let error = Router::new(RATES, Shares { pit_hit: wrong, ..SHARES }).unwrap_err().to_string();
            assert!(error.contains("PIT hits") && error.contains("from 0 to 1"), "{error}");
        }
        let router = Router::new(RATES, SHARES).unwrap();
        let most = router.bottleneck().1;
        assert!(router.at(most * 0.999).is_ok());
        let error = router.at(most).unwrap_err();
        assert!(matches!(error, Error::Overload { stage: "cs insert", .. }), "{error}");
        assert!(router.at(0.0).is_err() && router.at(f64::INFINITY).is_err());
    }
}

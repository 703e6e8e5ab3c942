//! The N-queue bypass model (NB-Cache, section IV): queues in a row, each with room for a number of
//! packets and a server of its own. A packet that finds a queue full enters the next one. A packet
//! that finds the last one full is lost.
//!
//! The `m^n` states of `n` queues with `m` states each form a Markov chain. Its transition rates
//! are generated into a sparse matrix. The balance equations are solved by Gauss-Seidel sweeps,
//! forwards and backwards in turn, with a normalization after each. A sweep only adds and divides
//! positive numbers, so a loss of 1e-30 is as exact as a loss of 0.1. A direct solver subtracts,
//! which cancels such a small loss. Its factors for a lattice of five dimensions would also fill
//! the memory.

use crate::random::Random;
use sprs::{CsMat, TriMat};

use super::error::{Error, rate};
use super::stations::{Measured, Scene, Stations, exponential};

/// States of a bypass model.
///
/// # Limit
/// A larger model is refused.
/// - Tests: `bypass_sizes_are_limited`
pub const STATES_MAX: usize = 200_000;

/// States of one queue of a bypass model.
///
/// Sweeps grow with their square.
///
/// # Limit
/// A model with a larger queue is refused.
/// - Tests: `bypass_sizes_are_limited`
pub const QUEUE_STATES_MAX: usize = 128;

/// Maximum number of queues. With two states each they have at most [`STATES_MAX`] states.
const QUEUES_MAX: usize = STATES_MAX.ilog2() as usize;

/// Sweeps after which the chain counts as unsolved.
const SWEEPS_MAX: usize = 50_000;

/// The sweeps end once no probability changes in a sweep by more than this share of itself.
const CHANGE_MAX: f64 = 1e-12;

/// A probability below this limit is treated as 0, so its changes do not count.
const PROBABILITY_MIN: f64 = 1e-250;

/// `n` queues of `m` states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bypass {
    queues: usize,
    states: usize,
}

impl Bypass {
    /// Creates queues with `states` states each: from empty to full with `states - 1` packets.
    ///
    /// # Errors
    /// Fewer than one queue or two states, or more states than [`QUEUE_STATES_MAX`] of a queue or
    /// [`STATES_MAX`] of all.
    pub fn new(queues: usize, states: usize) -> Result<Self, Error> {
        if !(1..=QUEUES_MAX).contains(&queues) {
            return Err(Error::Size { of: "queues", given: queues, least: 1, most: QUEUES_MAX });
        }
        if !(2..=QUEUE_STATES_MAX).contains(&states) {
            let of = "states of a queue";
            return Err(Error::Size { of, given: states, least: 2, most: QUEUE_STATES_MAX });
        }
        let all = states.checked_pow(queues as u32).filter(|all| *all <= STATES_MAX);
        match all {
            Some(_) => Ok(Bypass { queues, states }),
            None => Err(Error::TooManyStates { queues, states, most: STATES_MAX }),
        }
    }

    /// A single queue that drops arriving packets while it has `packets`: the paper's mm1-drop.
    ///
    /// # Errors
    /// As [`Bypass::new`].
    pub fn dropping(packets: usize) -> Result<Self, Error> {
        Bypass::new(1, packets.saturating_add(1))
    }

    /// The number of queues.
    pub fn queues(self) -> usize {
        self.queues
    }

    /// The number of states of each queue.
    pub fn states(self) -> usize {
        self.states
    }

    /// Packets in `queue` in a state: a digit of the state's number. Queue 0 has the least
    /// significant digit.
    fn packets(self, state: usize, queue: usize) -> usize {
        state / self.states.pow(queue as u32) % self.states
    }

    /// The rates between states as a matrix (row: to, column: from), and the rate at which each
    /// state is left. The unit of time is one mean service.
    fn transitions(self, load: f64) -> (CsMat<f64>, Vec<f64>) {
        let all = self.states.pow(self.queues as u32);
        let mut rates = TriMat::new((all, all));
        let mut left = vec![0.0; all];
        for (state, left) in left.iter_mut().enumerate() {
            let mut queue_step = 1;
            let mut arrives = true;
            for queue in 0..self.queues {
                let packets = self.packets(state, queue);
                if arrives && packets + 1 < self.states {
                    rates.add_triplet(state + queue_step, state, load);
                    *left += load;
                    arrives = false;
                }
                if packets > 0 {
                    rates.add_triplet(state - queue_step, state, 1.0);
                    *left += 1.0;
                }
                queue_step *= self.states;
            }
        }
        (rates.to_csr(), left)
    }

    /// The steady state at `load` arrivals for each service of one queue (the paper's a).
    ///
    /// # Errors
    /// A load that is not above 0, and [`Error::Unsolved`].
    pub fn solve(self, load: f64) -> Result<Steady, Error> {
        rate("the load", load)?;
        let (rates, left) = self.transitions(load);
        let mut steady = vec![1.0 / left.len() as f64; left.len()];
        let mut change = f64::INFINITY;
        for _ in 0..SWEEPS_MAX {
            change = sweep(&rates, &left, &mut steady);
            if change < CHANGE_MAX {
                return Ok(Steady { of: self, load, probabilities: steady });
            }
        }
        Err(Error::Unsolved { change })
    }
}

/// Performs one sweep forwards and one backwards. Returns the greatest relative change of a
/// probability.
fn sweep(rates: &CsMat<f64>, left: &[f64], steady: &mut [f64]) -> f64 {
    let mut change = 0.0f64;
    let mut balance = |state: usize| {
        let entered: f64 = rates
            .outer_view(state)
            .map_or(0.0, |row| row.iter().map(|(from, rate)| rate * steady[from]).sum());
        let new = entered / left[state];
        if new > PROBABILITY_MIN {
            change = change.max((new - steady[state]).abs() / new);
        }
        steady[state] = new;
    };
    (0..left.len()).for_each(&mut balance);
    (0..left.len()).rev().for_each(&mut balance);
    let sum: f64 = steady.iter().sum();
    steady.iter_mut().for_each(|probability| *probability /= sum);
    change
}

/// The steady state of a [`Bypass`] at a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Steady {
    of: Bypass,
    load: f64,
    probabilities: Vec<f64>,
}

impl Steady {
    /// The number of queues.
    pub fn queues(&self) -> usize {
        self.of.queues
    }

    /// Arrivals for each service of one queue.
    pub fn load(&self) -> f64 {
        self.load
    }

    /// The probability of each state. The packets of queue 0 are the least significant digit of the
    /// state's number.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    fn mean(&self, of_state: impl Fn(usize) -> f64) -> f64 {
        self.probabilities.iter().enumerate().map(|(state, probability)| probability * of_state(state)).sum()
    }

    /// Packets in all queues on average (Eq. 8).
    pub fn packets_mean(&self) -> f64 {
        (0..self.of.queues).map(|queue| self.packets_mean_of(queue)).sum()
    }

    /// Packets in one queue on average.
    pub fn packets_mean_of(&self, queue: usize) -> f64 {
        self.mean(|state| self.of.packets(state, queue) as f64)
    }

    /// The share of servers that are busy, on average (Eq. 9 and 10).
    pub fn utilisation(&self) -> f64 {
        let busy: f64 = (0..self.of.queues).map(|queue| self.utilisation_of(queue)).sum();
        busy / self.of.queues as f64
    }

    /// The share of time in which the server of one queue is busy.
    pub fn utilisation_of(&self, queue: usize) -> f64 {
        self.mean(|state| if self.of.packets(state, queue) > 0 { 1.0 } else { 0.0 })
    }

    /// The share of arrivals that find every queue full.
    pub fn loss(&self) -> f64 {
        self.probabilities.last().copied().unwrap_or(0.0)
    }

    /// The mean time that a packet spends in a queue if it is not lost, in services (Little's law).
    pub fn time_mean(&self) -> f64 {
        self.packets_mean() / (self.load * (1.0 - self.loss()))
    }
}

/// The queues of a [`Bypass`] as a scene to simulate: a service takes one second on average.
#[derive(Clone, Copy, Debug)]
pub struct BypassQueues(Bypass);

impl BypassQueues {
    /// Simulates the queues of `of` at `load` arrivals a second until `arrivals` packets have
    /// arrived.
    ///
    /// # Errors
    /// A load that is not above 0.
    pub fn run(of: Bypass, load: f64, arrivals: u64, seed: u64) -> Result<Measured, Error> {
        rate("the load", load)?;
        let room = vec![of.states - 1; of.queues];
        let mut stations = Stations::new(BypassQueues(of), room, load, seed);
        stations.run_until_arrivals(arrivals);
        Ok(stations.measured())
    }
}

impl Scene for BypassQueues {
    fn arrive(&mut self, lengths: &[usize]) -> Option<usize> {
        lengths.iter().position(|length| length + 1 < self.0.states)
    }

    fn serve(&mut self, _station: usize, random: &mut Random) -> (f64, Option<usize>) {
        (exponential(random, 1.0), None)
    }
}

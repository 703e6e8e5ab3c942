//! Queues with bounded room, each before one server, in virtual time: the queues of the models,
//! event by event, with a seed.
//!
//! A packet that was served and finds the next queue full stays with its server. The server serves
//! no other packet until there is room (as a thread waits at a full ring). A packet that arrives
//! from outside and finds no room is lost.

use crate::random::Random;

/// The routes of packets between stations, and the times that they take.
pub trait Scene {
    /// Returns the station that a packet from outside joins, given the number of packets in each,
    /// or `None` if the packet is lost.
    fn arrive(&mut self, lengths: &[usize]) -> Option<usize>;

    /// Returns the time for which a station serves its next packet, s, and the packet's next
    /// station, or `None` if it leaves.
    fn serve(&mut self, station: usize, random: &mut Random) -> (f64, Option<usize>);
}

/// A random time until the next event of a Poisson process with this rate, s.
pub fn exponential(random: &mut Random, rate: f64) -> f64 {
    // In (0, 1], so that the logarithm is finite.
    let unit = ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -unit.ln() / rate
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Server {
    Idle,
    /// Serves until this time. Then the packet moves to this station.
    Busy(f64, Option<usize>),
    /// Has served, and waits for room at a station.
    Waits(usize),
}

/// The measurements since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Virtual time that has passed, s.
    pub seconds: f64,
    /// Packets that arrived from outside.
    pub arrivals: u64,
    /// Packets that found no room.
    pub lost: u64,
    /// Packets that left.
    pub done: u64,
    /// Packets that each station holds on average, including the one in service.
    pub packets_mean: Vec<f64>,
    /// The share of time in which each station's server serves.
    pub utilisation: Vec<f64>,
}

impl Measured {
    /// The share of arrivals that was lost.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.arrivals.max(1) as f64
    }

    /// Packets that left in a second.
    pub fn throughput(&self) -> f64 {
        self.done as f64 / self.seconds
    }
}

/// Stations in virtual time.
#[derive(Clone, Debug)]
pub struct Stations<S> {
    scene: S,
    room: Vec<usize>,
    lengths: Vec<usize>,
    servers: Vec<Server>,
    rate: f64,
    random: Random,
    now_s: f64,
    next_arrival_s: f64,
    arrivals: u64,
    lost: u64,
    done: u64,
    /// Packets times seconds, and busy seconds, of each station.
    held: Vec<f64>,
    busy: Vec<f64>,
}

impl<S: Scene> Stations<S> {
    /// Empty stations with the given room, in packets. Packets arrive at random (a Poisson
    /// process), `rate` a second.
    pub fn new(scene: S, room: Vec<usize>, rate: f64, seed: u64) -> Self {
        let stations = room.len();
        let mut random = Random::new(seed);
        let next_arrival_s = exponential(&mut random, rate);
        Stations {
            scene,
            room,
            lengths: vec![0; stations],
            servers: vec![Server::Idle; stations],
            rate,
            random,
            now_s: 0.0,
            next_arrival_s,
            arrivals: 0,
            lost: 0,
            done: 0,
            held: vec![0.0; stations],
            busy: vec![0.0; stations],
        }
    }

    /// Packets that each station holds now.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Runs until `arrivals` packets have arrived in total.
    pub fn run_until_arrivals(&mut self, arrivals: u64) {
        while self.arrivals < arrivals {
            self.step(f64::INFINITY);
        }
    }

    /// Runs until the virtual time `seconds`.
    pub fn run_until(&mut self, seconds: f64) {
        while self.now_s < seconds {
            self.step(seconds);
        }
    }

    /// The measurements until now.
    pub fn measured(&self) -> Measured {
        let share = |sums: &[f64]| sums.iter().map(|sum| sum / self.now_s).collect();
        Measured {
            seconds: self.now_s,
            arrivals: self.arrivals,
            lost: self.lost,
            done: self.done,
            packets_mean: share(&self.held),
            utilisation: share(&self.busy),
        }
    }

    /// Performs the next event. If there is none before `end_s`, advances the time to `end_s`.
    fn step(&mut self, end_s: f64) {
        let due = |server: &Server| match server {
            Server::Busy(ends_s, _) => *ends_s,
            Server::Idle | Server::Waits(_) => f64::INFINITY,
        };
        let mut first = (self.next_arrival_s, None);
        for (station, server) in self.servers.iter().enumerate() {
            if due(server) < first.0 {
                first = (due(server), Some(station));
            }
        }
        if first.0 > end_s {
            return self.pass_until(end_s);
        }
        self.pass_until(first.0);
        match first.1 {
            Some(station) => self.end_service(station),
            None => self.arrive(),
        }
    }

    fn pass_until(&mut self, then_s: f64) {
        let passed = then_s - self.now_s;
        self.now_s = then_s;
        for (station, server) in self.servers.iter().enumerate() {
            self.held[station] += passed * self.lengths[station] as f64;
            if matches!(server, Server::Busy(..)) {
                self.busy[station] += passed;
            }
        }
    }

    fn arrive(&mut self) {
        self.next_arrival_s = self.now_s + exponential(&mut self.random, self.rate);
        self.arrivals += 1;
        match self.scene.arrive(&self.lengths).filter(|station| self.has_room(*station)) {
            Some(station) => self.join(station),
            None => self.lost += 1,
        }
    }

    fn has_room(&self, station: usize) -> bool {
        self.lengths[station] < self.room[station]
    }

    fn join(&mut self, station: usize) {
        self.lengths[station] += 1;
        if self.servers[station] == Server::Idle {
            self.begin_service(station);
        }
    }

    fn begin_service(&mut self, station: usize) {
        let (seconds, then) = self.scene.serve(station, &mut self.random);
        self.servers[station] = Server::Busy(self.now_s + seconds, then);
    }

    fn end_service(&mut self, station: usize) {
        let Server::Busy(_, then) = self.servers[station] else { return };
        match then {
            None => {
                self.done += 1;
                self.leave(station);
            }
            Some(next) => {
                self.servers[station] = Server::Waits(next);
                self.go_on(station);
            }
        }
    }

    /// Moves the packet that `station` has served to the next one, if there is room.
    fn go_on(&mut self, station: usize) {
        let Server::Waits(next) = self.servers[station] else { return };
        if self.has_room(next) {
            self.join(next);
            self.leave(station);
        }
    }

    /// Removes a packet that `station` has served. The server takes the next one, and a packet that
    /// waits for the room enters.
    fn leave(&mut self, station: usize) {
        self.lengths[station] -= 1;
        self.servers[station] = Server::Idle;
        if self.lengths[station] > 0 {
            self.begin_service(station);
        }
        let waits = (0..self.servers.len()).find(|other| self.servers[*other] == Server::Waits(station));
        if let Some(waits) = waits {
            self.go_on(waits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two stations in a row, which serve at these rates.
    struct Tandem([f64; 2]);

    impl Scene for Tandem {
        fn arrive(&mut self, _lengths: &[usize]) -> Option<usize> {
            Some(0)
        }

        fn serve(&mut self, station: usize, random: &mut Random) -> (f64, Option<usize>) {
            (exponential(random, self.0[station]), (station == 0).then_some(1))
        }
    }

    #[test]
    fn equal_seeds_give_equal_runs() {
        let run = |seed| {
            let mut stations = Stations::new(Tandem([2.0, 3.0]), vec![10, 10], 1.0, seed);
            stations.run_until(1000.0);
            stations.measured()
        };
        assert_eq!(run(4), run(4));
        assert_ne!(run(4), run(5));
    }

    #[test]
    fn tandem_queues_match_separate_queues() {
        let mut stations = Stations::new(Tandem([2.0, 3.0]), vec![10_000, 10_000], 1.0, 1);
        stations.run_until_arrivals(1_000_000);
        let measured = stations.measured();
        let [first, second] = measured.packets_mean[..] else { panic!("{measured:?}") };
        assert!((first - 1.0).abs() < 0.02 && (second - 0.5).abs() < 0.01, "{measured:?}");
        assert!((measured.utilisation[0] - 0.5).abs() < 0.005, "{measured:?}");
        assert_eq!(measured.lost, 0);
    }

    #[test]
    fn a_blocked_server_loses_nothing() {
        let mut stations = Stations::new(Tandem([100.0, 1.0]), vec![3, 2], 10.0, 1);
        stations.run_until(1000.0);
        let measured = stations.measured();
        let held: usize = stations.lengths().iter().sum();
        assert_eq!(measured.arrivals, measured.lost + measured.done + held as u64);
        assert!((measured.throughput() - 1.0).abs() < 0.1, "the last server is never idle: {measured:?}");
        assert!(measured.utilisation[0] < 0.02, "to wait is not to serve: {measured:?}");
        assert!(measured.packets_mean[0] > 2.5 && measured.packets_mean[1] > 1.9, "{measured:?}");
    }
}

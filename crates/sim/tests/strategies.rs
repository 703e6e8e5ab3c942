//! Strategies in a network: how they do over minutes.

use namely_sim::{ConstantRate, LinkSpec, MS, Network, PortId, Producer, RouterSpec, SECOND};
use namely_wire::Name;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Two routers joined by two links, the cheaper one of 10 ms and the other of 30 ms, a consumer of
/// 20 pieces a second at one end and their producer at the other.
struct TwoWays {
    network: Network,
    links: [PortId; 2],
    consumer: namely_sim::AppId,
}

impl TwoWays {
    fn new(seed: u64, strategy: &str) -> Self {
        let mut network = Network::new(seed);
        let [near, far] = [(); 2].map(|()| network.add_router(RouterSpec::default()));
        let links = [10, 30].map(|delay_ms| {
            network.connect(near, far, LinkSpec { delay_ns: delay_ms * MS, ..LinkSpec::default() })
        });
        let router = network.router(near);
        for (link, cost) in links.iter().zip(0..) {
            let face = network.face_of_port(*link);
            router.fib_add_nexthop(name("/p").as_name(), face, cost).expect("room in the FIB");
        }
        router.strategy_set(name("/p").as_name(), name(strategy).as_name()).expect("a strategy");
        network.announce(&name("/p"), far);
        network.attach(far, Box::new(Producer::new(name("/p"), 100)));
        let consumer = network.attach(near, Box::new(ConstantRate::new(name("/p"), 20)));
        TwoWays { network, links, consumer }
    }

    /// Sets the delay of the first link, both ways.
    fn set_delay(&mut self, delay_ms: u64) {
        let back = self.network.reverse(self.links[0]);
        [self.links[0], back].iter().for_each(|port| self.network.set_delay(*port, delay_ms * MS));
    }

    /// Runs for so many seconds; returns the share of Interests that took each link in the last
    /// minute of them, in percent.
    fn shares_after(&mut self, seconds: u64) -> [u64; 2] {
        let end_ns = self.network.now_ns() + seconds * SECOND;
        self.network.run_until(end_ns - 60 * SECOND);
        let before = self.links.map(|link| self.network.link_counts(link).frames);
        self.network.run_until(end_ns);
        let after = self.links.map(|link| self.network.link_counts(link).frames);
        let frames = [after[0] - before[0], after[1] - before[1]];
        frames.map(|count| count * 100 / (frames[0] + frames[1]).max(1))
    }
}

/// NFD's numbers: a probe a minute, and an eighth of what the mean was off for each measurement. So
/// leaving a way that has become slow takes some of its own answers, and coming back some probes.
#[test]
fn asf_leaves_a_way_that_slows_down_and_comes_back_when_it_is_fast_again() {
    let mut ways = TwoWays::new(11, "/localhost/nfd/strategy/asf");
    assert!(ways.shares_after(120)[0] >= 99, "the cheaper way is also the faster one");
    ways.set_delay(100);
    assert!(ways.shares_after(120)[1] >= 99, "60 ms by the other way are less than 200 ms");
    ways.set_delay(10);
    assert!(ways.shares_after(120)[1] >= 98, "one or two probes do not outweigh what was");
    assert!(ways.shares_after(1200)[0] >= 99, "twenty do");
    let consumer: &ConstantRate = ways.network.behaviour(ways.consumer).expect("a consumer");
    assert!(consumer.data + 20 >= consumer.interests, "{} of {}", consumer.data, consumer.interests);
    assert_eq!(consumer.nacks, 0);
}

#[test]
fn best_route_stays_on_a_way_that_slows_down() {
    let mut ways = TwoWays::new(11, "/localhost/nfd/strategy/best-route");
    ways.set_delay(100);
    assert_eq!(ways.shares_after(120), [100, 0]);
}

#[test]
fn probes_are_drawn_from_the_seed_alone() {
    let digest = |seed| {
        let mut ways = TwoWays::new(seed, "/localhost/nfd/strategy/asf");
        ways.network.trace();
        ways.network.run_until(30 * SECOND);
        ways.network.trace_digest()
    };
    assert_eq!(digest(3), digest(3));
    assert_ne!(digest(3), digest(4));
}

//! A hostile neighbor of a router that honest consumers fetch through.

use namely_forwarder::{DropReason, Received};
use namely_sim::{
    Behaviour, Context, FileFetch, Hostile, LinkSpec, MS, Network, Packet, Producer, RouterSpec, SECOND,
};
use namely_transport::congestion::Algorithm;
use namely_transport::fetch::Options;
use namely_wire::Name;

const PIECES: u64 = 1_500;

/// Interests and Data that the hostile neighbor sends each second.
const PER_SECOND: u64 = 4_000;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// Has the routes of a prefix and answers nothing.
struct Silent(Name);

impl Behaviour for Silent {
    fn start(&mut self, context: &mut Context<'_>) {
        let face = context.face();
        context.forwarder().fib().add_nexthop(self.0.as_name(), face, 0).expect("room in the FIB");
    }

    fn receive(&mut self, _: &Received<Packet>, _: &mut Context<'_>) {}
}

struct Outcome {
    took_ns: Vec<u64>,
    octets: Vec<u64>,
    evicted: u64,
    refused: u64,
}

/// Two consumers fetch through one router from a producer a link away. One consumer is next to the
/// router, the other a link away. An attack begins two seconds earlier.
fn run(router: RouterSpec, is_attacked: bool) -> Outcome {
    let mut network = Network::new(11);
    let [near, middle, far, empty] = [(); 4].map(|()| network.add_router(router));
    let link = LinkSpec { rate_bps: 50_000_000, delay_ns: 5 * MS, ..LinkSpec::default() };
    network.connect(near, middle, link);
    network.connect(middle, far, link);
    network.connect(middle, empty, link);
    network.announce(&name("/f"), far);
    network.announce(&name("/void"), empty);
    network.attach(far, Box::new(Producer::new(name("/f"), 1000)));
    network.attach(empty, Box::new(Silent(name("/void"))));
    let start_ns = 2 * SECOND;
    let options = Options { congestion: Algorithm::Cubic, ..Options::default() };
    let fetches = [(near, "/f/near"), (middle, "/f/middle")].map(|(node, prefix)| {
        let fetch = FileFetch::new(name(prefix), options, start_ns).of_pieces(PIECES);
        network.attach(node, Box::new(fetch))
    });
    let hostile = is_attacked.then(|| {
        let hostile = Hostile::new(name("/void"), &name("/f/near"), PIECES, PER_SECOND);
        network.attach_neighbour(middle, Box::new(hostile))
    });
    network.run_until(start_ns + 4 * SECOND);
    let fetches = fetches.map(|fetch| network.behaviour::<FileFetch>(fetch).expect("a fetch"));
    for fetch in fetches {
        let counters = fetch.counters();
        assert_eq!((counters.losses, counters.timeouts, counters.nacks), (0, 0, 0), "{counters:?}");
    }
    let dropped = |reason| network.router(middle).counters().dropped(reason);
    if let Some(hostile) = hostile {
        let hostile = network.behaviour::<Hostile>(hostile).expect("the hostile one");
        assert!(hostile.interests > 3 * PER_SECOND && hostile.nacks > 0, "{hostile:?}");
        assert_eq!(dropped(DropReason::Unsolicited), hostile.data, "not one of its Data is taken");
    }
    Outcome {
        took_ns: fetches.map(|fetch| fetch.done_ns.expect("a fetch that ends") - start_ns).into(),
        octets: fetches.map(|fetch| fetch.octets).into(),
        evicted: dropped(DropReason::PitEvicted),
        refused: dropped(DropReason::PitFaceFull),
    }
}

/// A ceiling limits the hostile neighbor. Without one it fills the table, and its own entries are
/// evicted. In both cases honest fetches lose nothing and receive at least half of their goodput.
#[test]
fn a_hostile_neighbor_costs_no_simulated_fetch() {
    let without_ceiling = RouterSpec { pit_entries_max: 2_000, ..RouterSpec::default() };
    // The same share of the table as by default.
    let with_ceiling = RouterSpec { pit_entries_per_face_max: 512, ..RouterSpec::default() };
    for (router, is_filled) in [(without_ceiling, true), (with_ceiling, false)] {
        let (quiet, attacked) = (run(router, false), run(router, true));
        assert_eq!(attacked.octets, quiet.octets, "nothing of what was not asked for arrives");
        for (attacked, quiet) in attacked.took_ns.iter().zip(&quiet.took_ns) {
            assert!(*attacked <= 2 * quiet, "{attacked} ns instead of {quiet}");
        }
        assert_eq!((attacked.evicted > 0, attacked.refused > 0), (is_filled, !is_filled));
        assert_eq!((quiet.evicted, quiet.refused), (0, 0));
    }
}

//! One congestion signal (row X-05): consumers of ndn-tools shrink their window when `namelyd`
//! marks Data, whatever the reason for the mark.

use std::path::Path;

use namely_interop::{Finished, Link, Router, World, find_tool};
use namely_testbed::Net;
use namely_testkit::{Need, or_skip};

/// Octets of a segment.
const SEGMENT: &str = "8000";

/// The statistics of ndncatchunks.
#[derive(Debug)]
struct Fetched {
    /// Data with a mark.
    marks: u64,
    /// Number of decreases of its window for a mark.
    decreases: u64,
    /// Its window over time, segments.
    windows: Vec<f64>,
}

impl Fetched {
    /// Fetches `name` at `router` with further options.
    fn new(world: &World, catchunks: &Path, router: &str, name: &str, more: &[&str], file: &Path) -> Self {
        let (out, log) = (world.path("out"), world.path("cwnd.log"));
        let mut command = world.command("/bin/sh");
        command.args(["-c", "out=$1; shift; exec \"$@\" > \"$out\"", "sh"]).arg(&out).arg(catchunks);
        // With a long minimum RTO, late Data on a busy machine does not count as lost.
        command.args(["-p", "aimd", "--min-rto", "2000", "--log-cwnd"]).arg(&log).args(more).arg(name);
        command.env("NDN_CLIENT_TRANSPORT", router);
        let errors = Finished::run("ndncatchunks", command, world.dir()).success().errors;
        assert!(std::fs::read(out).unwrap() == std::fs::read(file).unwrap(), "the file arrives as it is");
        let line = errors.lines().find_map(|line| line.strip_prefix("Congestion marks: "));
        let line = line.unwrap_or_else(|| panic!("no statistics: {errors}"));
        let (marks, decreases) = line.split_once(" (caused ").expect("how often it had an effect");
        let decreases = decreases.split(' ').next().unwrap_or_default();
        let log = std::fs::read_to_string(log).unwrap();
        let windows = log.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok());
        Fetched {
            marks: marks.parse().unwrap(),
            decreases: decreases.parse().unwrap(),
            windows: windows.collect(),
        }
    }

    /// Checks that marks arrived, and that the window shrank after its maximum.
    fn asked_for_less(&self) {
        assert!(self.marks > 0 && self.decreases > 0, "{self:?}");
        let most = self.windows.iter().copied().fold(0.0, f64::max);
        let least_after = self.windows.iter().copied().skip_while(|w| *w < most).fold(most, f64::min);
        assert!(least_after < 0.6 * most, "{self:?}");
    }
}

#[test]
fn ndncatchunks_slows_when_a_queue_marks() {
    let Some(catchunks) = or_skip(Need::Peers, find_tool("ndncatchunks")) else { return };
    let net = Net::new(&["p", "c"]).and_then(|net| {
        net.join([("p", "eth0", "10.7.0.1/24"), ("c", "eth0", "10.7.0.2/24")])?;
        Ok(net)
    });
    let Some(net) = or_skip(Need::Namespaces, net) else { return };
    // Packets that the kernel's queue does not accept wait in the router's queue.
    let slow = net.tc("-n {p} qdisc add dev eth0 root tbf rate 100mbit burst 32kb limit 4mb");
    if or_skip(Need::Netem, slow).is_none() {
        return;
    }
    let (world, far) = (World::new(), World::new());
    let producer = Router::namelyd_on_udp(&world, net.name("p"), &[]);
    let consumer = Router::namelyd_on_udp(&far, net.name("c"), &[]);
    let file = world.payload("files/f", 20_000_000, 1);
    let serve = ["--prefix", "/slow", "--segment-size", SEGMENT];
    let server = world.serve(&producer.uri(Link::Unix), &world.path("files"), &serve);
    let router = consumer.uri(Link::Unix);
    world.ask(&router, &["route", "add", "/slow", "udp4://10.7.0.1:6363"]);
    // 6.4 MB, several times as much as the kernel's queue accepts: the router's queue never empties
    // when the kernel accepts more.
    let window = ["--init-cwnd", "800", "--init-ssthresh", "800"];
    Fetched::new(&world, &catchunks, &router, "/slow/f", &window, &file).asked_for_less();
    drop(server);
}

/// NB-CC: the router marks Data from a disk that has as many pending requests as its threshold.
/// There is no other nexthop.
#[test]
fn ndncatchunks_slows_when_a_disk_marks() {
    let Some(catchunks) = or_skip(Need::Peers, find_tool("ndncatchunks")) else { return };
    let world = World::new();
    let disk = format!(
        "[tables]\ncs_packets_max = 16\n[cs.disk]\nfolder = {:?}\nadmission = \"all\"\n",
        world.path("disk")
    );
    let router = Router::namelyd_with(&world, &disk);
    let uri = router.uri(Link::Unix);
    let file = world.payload("files/f", 2_400_000, 2);
    let serve = ["--prefix", "/disk", "--segment-size", SEGMENT];
    let server = world.serve(&uri, &world.path("files"), &serve);
    let got = world.get(&uri, "/disk/f", &world.path("got"), &["--insecure"]).success();
    let name = got.values().iter().find_map(|value| value["name"].as_str().map(str::to_owned)).unwrap();
    drop(server);
    assert!(router.stop());
    // The whole file is on the disk now. The next router slows the disk.
    let slow = disk + "slow = \"200/s\"\nengine = \"threads\"\nthreads = 1\nthreshold = 8\n";
    let router = Router::namelyd_with(&world, &slow);
    let window = ["--init-cwnd", "64", "--init-ssthresh", "64"];
    Fetched::new(&world, &catchunks, &router.uri(Link::Unix), &name, &window, &file).asked_for_less();
}

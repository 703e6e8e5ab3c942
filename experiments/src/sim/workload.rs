//! The traffic of a scenario.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use namely_bench::error::Error;
use namely_sim::topology::BuiltTopology;
use namely_sim::{
    Announcement, AppId, FileFetch, MEMBERS_MAX, Network, NodeId, PopularNames, Producer, Requests, SECOND,
    SyncGroup, SyncMember, TraceConsumer, ZipfConsumer, trace,
};
use namely_transport::fetch::Options;
use namely_wire::Name;

use super::routes::announce;
use super::scenario::{LoadOptions, Scenario, Workload};

/// Prefix of a synchronization group's vectors.
const GROUP: &str = "sync";

/// The behaviors that are measured.
#[derive(Debug)]
pub(super) struct Traffic {
    workload: Workload,
    apps: Vec<AppId>,
    /// Data of each transfer.
    pieces: u64,
}

impl Traffic {
    /// Returns the number of consumers or members.
    pub(super) fn len(&self) -> usize {
        self.apps.len()
    }

    /// Returns the sum of all measurements.
    pub(super) fn requests(&self, network: &Network) -> Requests {
        let mut sum = Requests::default();
        for app in &self.apps {
            match self.workload {
                Workload::Zipf => {
                    merge(&mut sum, network.behaviour::<ZipfConsumer>(*app).map(|own| &own.requests));
                }
                Workload::Trace => {
                    merge(&mut sum, network.behaviour::<TraceConsumer>(*app).map(|own| &own.requests));
                }
                Workload::Sync => {
                    merge(&mut sum, network.behaviour::<SyncMember>(*app).map(|own| &own.requests));
                }
                Workload::Transfer => {
                    if let Some(fetch) = network.behaviour::<FileFetch>(*app) {
                        self.add_fetch(&mut sum, fetch);
                    }
                }
            }
        }
        sum
    }

    fn add_fetch(&self, sum: &mut Requests, fetch: &FileFetch) {
        let counters = fetch.counters();
        sum.interests += self.pieces;
        sum.data += counters.data;
        sum.octets += fetch.octets;
        sum.again += counters.retransmissions;
        sum.nacks += counters.nacks;
        if fetch.failure().is_some() {
            sum.unanswered += self.pieces - counters.data;
        }
        // The time of a transfer as a whole.
        if let Some(done_ns) = fetch.done_ns {
            sum.times.record(done_ns);
        }
    }
}

fn merge(sum: &mut Requests, own: Option<&Requests>) {
    if let Some(own) = own {
        sum.merge(own);
    }
}

/// Attaches producers and consumers.
pub(super) fn attach(
    scenario: &Scenario,
    network: &mut Network,
    built: &BuiltTopology,
) -> Result<Traffic, Error> {
    let load = &scenario.load;
    let mut work = Work { scenario, network, built };
    let apps = match load.workload {
        Workload::Zipf => work.zipf(),
        Workload::Trace => work.trace(load.trace.as_deref())?,
        Workload::Transfer => work.transfers(),
        Workload::Sync => work.sync(),
    };
    Ok(Traffic { workload: load.workload, apps, pieces: load.pieces })
}

struct Work<'a> {
    scenario: &'a Scenario,
    network: &'a mut Network,
    built: &'a BuiltTopology,
}

impl Work<'_> {
    fn load(&self) -> &LoadOptions {
        &self.scenario.load
    }

    /// Returns `count` nodes of the edge, evenly spread.
    fn spread(&self, count: usize) -> Vec<NodeId> {
        let edge = &self.built.edge;
        (0..count).map(|index| edge[index * edge.len() / count % edge.len()]).collect()
    }

    fn consumers(&self) -> Vec<NodeId> {
        self.spread(self.load().consumers.unwrap_or(self.built.edge.len()))
    }

    /// Attaches a producer for each prefix, and routes the prefixes.
    fn produce(&mut self, prefixes: &[Name]) {
        let announcements = self.announcements(prefixes);
        for Announcement { prefix, node } in &announcements {
            let producer = Producer::new(prefix.clone(), self.scenario.load.content);
            self.network.attach(*node, Box::new(producer));
        }
        announce(self.scenario.network.routes, self.network, self.built, &announcements);
    }

    fn announcements(&self, prefixes: &[Name]) -> Vec<Announcement> {
        let nodes = self.spread(prefixes.len());
        let of = |(prefix, node): (&Name, NodeId)| Announcement { prefix: prefix.clone(), node };
        prefixes.iter().zip(nodes).map(of).collect()
    }

    fn sites(&self) -> Vec<Name> {
        let site = |number| Name::new().join_generic(format!("site-{number}"));
        (0..self.load().producers).map(site).collect()
    }

    fn zipf(&mut self) -> Vec<AppId> {
        let prefixes = self.sites();
        self.produce(&prefixes);
        let load = self.load();
        let names = Arc::new(PopularNames::new(&prefixes, load.names, load.exponent));
        let (rate, begins_ns, ends_ns) = (load.rate, self.scenario.begins_ns(), self.scenario.ends_ns());
        let consumers = self.consumers();
        let attach = |node| {
            let consumer = ZipfConsumer::new(names.clone(), rate).within(begins_ns, ends_ns);
            self.network.attach(node, Box::new(consumer))
        };
        consumers.into_iter().map(attach).collect()
    }

    /// Attaches the consumers of a trace. Each first component is the prefix of a producer.
    fn trace(&mut self, path: Option<&Path>) -> Result<Vec<AppId>, Error> {
        let Some(path) = path else { return Err(Error::Usage("this workload needs --trace FILE".into())) };
        let unreadable = |e| Error::environment(format!("cannot read {}", path.display()), e);
        let file = File::open(path).map_err(unreadable)?;
        let refused = |e: trace::TraceError| Error::Usage(format!("{}, {e}", path.display()));
        let mut requests = trace::read(BufReader::new(file)).map_err(refused)?;
        let mut prefixes: Vec<Name> =
            requests.iter().map(|request| request.name.as_name().prefix(1).to_name()).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        if prefixes.len() > PREFIXES_MAX {
            return Err(Error::Usage(format!(
                "{}: more than {PREFIXES_MAX} first components of names",
                path.display()
            )));
        }
        self.produce(&prefixes);
        let begins_ns = self.scenario.begins_ns();
        requests.iter_mut().for_each(|request| request.at_ns += begins_ns);
        let consumers = self.consumers();
        let mut own = vec![Vec::new(); consumers.len()];
        for request in requests {
            own[request.consumer as usize % consumers.len()].push(request);
        }
        let attach = |(node, own)| self.network.attach(node, Box::new(TraceConsumer::new(own)));
        Ok(consumers.into_iter().zip(own).map(attach).collect())
    }

    fn transfers(&mut self) -> Vec<AppId> {
        let prefixes = self.sites();
        self.produce(&prefixes);
        let (pieces, begins_ns) = (self.load().pieces, self.scenario.begins_ns());
        let consumers = self.consumers().into_iter().enumerate();
        let attach = |(number, node): (usize, NodeId)| {
            let prefix = prefixes[number % prefixes.len()].join_generic(*b"set");
            let fetch = FileFetch::new(prefix, Options::default(), begins_ns).of_pieces(pieces);
            self.network.attach(node, Box::new(fetch))
        };
        consumers.map(attach).collect()
    }

    fn sync(&mut self) -> Vec<AppId> {
        let member = |number| Name::new().join_generic(format!("member-{number}"));
        let count = self.load().producers.min(MEMBERS_MAX).min(self.built.edge.len());
        let prefixes: Vec<Name> = (0..count).map(member).collect();
        let announcements = self.announcements(&prefixes);
        announce(self.scenario.network.routes, self.network, self.built, &announcements);
        let prefix = Name::new().join_generic(GROUP.as_bytes());
        let members: Vec<NodeId> = announcements.iter().map(|of| of.node).collect();
        self.network.announce_group(&prefix, &members);
        let group = Arc::new(SyncGroup::new(prefix, prefixes));
        let mean_ns = (SECOND as f64 / self.load().rate) as u64;
        let attach = |(own, node): (usize, NodeId)| {
            self.network.attach(node, Box::new(SyncMember::new(group.clone(), own, mean_ns)))
        };
        members.into_iter().enumerate().map(attach).collect()
    }
}

/// Producers of a trace: as many as a distance vector has destinations.
const PREFIXES_MAX: usize = namely_sim::DESTINATIONS_MAX;

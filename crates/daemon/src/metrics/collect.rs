//! The metrics and their names. docs/metrics.md lists them.
//!
//! The counters of docs/counters.md are series of one metric, `namely_events_total`, with the same
//! names.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use namely_forwarder::{ROUND_TRIP_ENDS_NS, RoundTripCounts};
use namely_messages::{Counter, CsDiskStatus, CsInfo, FaceStatus, GeneralStatus, NeighborStatus};
use namely_mgmt::{Control, Now};
use namely_wire::text::{Plain, is_obeyed};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use super::process;
use crate::control::{Order, OrderSender};
use crate::home::RouterHandle;
use crate::services::{ServiceCounters, Services};
use namely_dataplane::PathTimes;

/// Time limit for the counters of the control thread. If it does not answer in time, the metrics do
/// not contain these counters.
const PATIENCE: Duration = Duration::from_secs(1);

/// The sources of metrics.
pub(super) struct Source {
    pub(super) home: RouterHandle,
    pub(super) services: Services,
    pub(super) orders: OrderSender,
    /// Start time of the router.
    pub(super) start: Now,
    /// Number of faces with their own series.
    pub(super) faces_max: usize,
}

impl Source {
    /// The current metrics as OpenMetrics text, with the server's `own` counters.
    pub(super) fn text(&self, own: [(&'static str, u64); 6]) -> String {
        let shot = self.shot(own);
        let mut text = shot.packets_of_faces();
        text += &process::text();
        let mut registry = Registry::with_prefix("namely");
        registry.register_collector(Box::new(shot));
        if encode(&mut text, &registry).is_err() {
            // Writing to a String does not fail. Without the end mark, a scraper refuses an
            // incomplete text.
            text.clear();
        }
        text
    }

    fn shot(&self, own: [(&'static str, u64); 6]) -> RouterSnapshot {
        let control = self.services.control(&self.home);
        let Control { tables, faces, .. } = control;
        let ServiceCounters { counters: of_services, path_times } = self.services.measure();
        let mut counters = tables.counters();
        counters.extend(faces.counters());
        counters.extend(of_services);
        counters.extend(self.management_counters());
        counters.extend(own.map(|(label, value)| Counter::new(label, value)));
        let of_core = self.home.kernel.is_none().then(|| self.home.core.round_trips()).into_iter().flatten();
        let of_core = of_core.map(|(strategy, counts)| (strategy.to_string(), counts));
        let mut choices = BTreeMap::new();
        for choice in tables.strategies() {
            *choices.entry(choice.strategy.to_string()).or_default() += 1;
        }
        RouterSnapshot {
            status: tables.status(),
            cs: tables.cs_info(),
            faces: faces.faces(),
            faces_max: self.faces_max,
            neighbours: control.neighbors.map(|neighbors| neighbors.neighbors()).unwrap_or_default(),
            octets: faces.octets(),
            // Prometheus subtracts it from the present time of the wall clock.
            start_ms: self.start.unix_ms_at(crate::control::now()),
            counters,
            disk: control.disk.map(|disk| (disk.status(), path_times)),
            choices,
            round_trips: of_core.collect(),
        }
    }

    fn management_counters(&self) -> Vec<Counter> {
        let (answer, answered) = sync_channel(1);
        self.orders.send(Order::Counters(answer));
        answered.recv_timeout(PATIENCE).unwrap_or_default()
    }
}

/// Converts OpenMetrics text to Prometheus' older format, in which each line contains the full name
/// of a counter.
pub(super) fn plain(open_metrics: &str) -> String {
    let counters: BTreeSet<&str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        let (mark, kind, name) = (words.next(), words.next(), words.next());
        match (mark, kind, name, words.next()) {
            (Some("#"), Some(kind), Some(name), Some(rest)) if counters.contains(name) => {
                text.extend(["# ", kind, " ", name, "_total ", rest, "\n"]);
            }
            _ => text.extend([line, "\n"]),
        }
    }
    text
}

/// A snapshot of a router.
#[derive(Debug)]
struct RouterSnapshot {
    status: GeneralStatus,
    cs: CsInfo,
    faces: Vec<FaceStatus>,
    faces_max: usize,
    /// Received and sent on all present and former faces.
    octets: [u64; 2],
    counters: Vec<Counter>,
    neighbours: Vec<NeighborStatus>,
    disk: Option<(CsDiskStatus, Vec<PathTimes>)>,
    /// Number of prefixes with each strategy.
    choices: BTreeMap<String, u64>,
    /// Round-trip times of upstreams, for each strategy that measures them. The number of these
    /// strategies is fixed and does not depend on the strategies in use. The kernel's forwarder
    /// does not report them.
    round_trips: Vec<(String, RoundTripCounts)>,
    start_ms: u64,
}

impl Collector for RouterSnapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut page = Page(encoder);
        self.router(&mut page)?;
        self.content_store(&mut page)?;
        self.write_faces(&mut page)?;
        self.counted(&mut page)
    }
}

/// The packet counters of a face, with functions for both directions.
type PacketMetrics = [(&'static str, fn(&FaceStatus) -> u64, fn(&FaceStatus) -> u64); 4];

const PACKETS: PacketMetrics = [
    ("interests", |face| face.in_interests, |face| face.out_interests),
    ("data", |face| face.in_data, |face| face.out_data),
    ("nacks", |face| face.in_nacks, |face| face.out_nacks),
    ("octets", |face| face.in_octets, |face| face.out_octets),
];

impl RouterSnapshot {
    fn router(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let status = &self.status;
        page.gauges("build_info", "The router's version", [([("version", env!("CARGO_PKG_VERSION"))], 1.0)])?;
        page.gauge("start_time_seconds", "When the router started, Unix time", self.start_ms as f64 / 1e3)?;
        for (name, help, inward, outward) in [
            ("interests", "Interests by direction", status.in_interests, status.out_interests),
            ("data", "Data by direction", status.in_data, status.out_data),
            ("nacks", "Nacks by direction", status.in_nacks, status.out_nacks),
            ("octets", "Octets of present and former faces by direction", self.octets[0], self.octets[1]),
        ] {
            page.counts(name, help, [([("direction", "in")], inward), ([("direction", "out")], outward)])?;
        }
        let ended =
            [("satisfied", status.satisfied_interests), ("unsatisfied", status.unsatisfied_interests)];
        let ended = ended.map(|(how, n)| ([("ended", how)], n));
        page.counts("pit_ended", "PIT entries that Data satisfied, or that expired without", ended)?;
        for (name, help, n) in [
            ("faces", "Faces", self.faces.len() as u64),
            ("pit_entries", "Pending Interests", status.pit_entries),
            ("fib_entries", "Prefixes with next hops", status.fib_entries),
            ("routes", "Routes of all prefixes", status.routes.unwrap_or_default()),
        ] {
            page.gauge(name, help, n as f64)?;
        }
        let chosen = self.choices.iter().map(|(strategy, n)| ([("strategy", strategy.as_str())], *n as f64));
        page.gauges("strategy_prefixes", "Prefixes for which a strategy was chosen", chosen)?;
        page.round_trips(&self.round_trips)?;
        let mut states = BTreeMap::new();
        for neighbour in &self.neighbours {
            *states.entry(neighbour.state.as_str()).or_insert(0.0) += 1.0;
        }
        let states = states.into_iter().map(|(state, n)| ([("state", state)], n));
        page.gauges("neighbors", "Stations on the links, and this router itself on each", states)
    }

    fn content_store(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let disk = self.disk.as_ref().map(|(status, _)| status);
        let of = |label: &str| {
            let found =
                disk.iter().flat_map(|status| &status.counters).find(|counter| counter.label == label);
            found.map_or(0, |counter| counter.value)
        };
        let octets = self.counters.iter().find(|counter| counter.label == CS_OCTETS);
        let octets = octets.map_or(0, |counter| counter.value);
        for (name, help, memory, on_disk) in [
            ("cs_entries", "Data in the content store", self.cs.entries, disk.map(|disk| disk.records)),
            ("cs_octets", "Octets that they take", octets, disk.map(|disk| disk.octets)),
        ] {
            page.gauges(name, help, tiers(memory, on_disk).map(|(tier, n)| (tier, n as f64)))?;
        }
        page.gauge("cs_capacity", "Most Data in the content store's memory", self.cs.capacity as f64)?;
        for (name, help, memory, label) in [
            ("cs_hits", "Interests that the content store answered", self.cs.hits, "hits"),
            ("cs_misses", "Interests that it could not answer", self.cs.misses, "misses"),
        ] {
            page.counts(name, help, tiers(memory, disk.map(|_| of(label))))?;
        }
        let Some((status, times)) = &self.disk else { return Ok(()) };
        page.gauge(
            "cs_disk_pending",
            "Requests that pend at the content store's disk",
            status.pending as f64,
        )?;
        page.histograms("cs_seconds", "How long packets took through a content store with a disk", times)
    }

    /// The faces with their own series.
    fn listed(&self) -> &[FaceStatus] {
        self.faces.get(..self.faces_max).unwrap_or(&self.faces)
    }

    /// The packet counters of the faces, which are nearly all of the text if there are many faces.
    /// Labels are escaped once for all series of a face; the encoder would escape them for each.
    fn packets_of_faces(&self) -> String {
        let others = self.faces.get(self.listed().len()..).unwrap_or_default();
        let of_one = self.listed().iter().map(|face| (labels_of(face), std::slice::from_ref(face)));
        let of_rest = (!others.is_empty()).then(|| (format!("{{face=\"{OTHERS}\""), others));
        let rows: Vec<(String, &[FaceStatus])> = of_one.chain(of_rest).collect();
        let octets: usize = rows.iter().map(|(labels, _)| labels.len() + SERIES_OCTETS).sum();
        let mut text = String::with_capacity(2 * PACKETS.len() * octets);
        for (what, inward, outward) in PACKETS.iter().filter(|_| !rows.is_empty()) {
            let name = format!("namely_face_{what}");
            text.extend(["# HELP ", &name, " Of each face, by direction\n# TYPE ", &name, " counter\n"]);
            for (labels, faces) in &rows {
                for (direction, of) in [("in", inward), ("out", outward)] {
                    let sum = faces.iter().map(of).fold(0, u64::wrapping_add).to_string();
                    let parts = [&name, "_total", labels, ",direction=\"", direction, "\"} ", &sum, "\n"];
                    text.extend(parts);
                }
            }
        }
        text
    }

    fn write_faces(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let listed = self.listed();
        let last = listed.last().map(|face| face.face_id);
        let mut dropped: BTreeMap<(Option<u64>, &str), u64> = BTreeMap::new();
        for counter in self.counters.iter().filter(|counter| counter.face_id.is_some()) {
            let own = counter.face_id.filter(|id| last.is_some_and(|last| *id <= last));
            *dropped.entry((own, &counter.label)).or_default() += counter.value;
        }
        let rows = dropped.iter().map(|((face, name), n)| {
            let face = face.map_or(OTHERS.into(), |id| id.to_string());
            ([("face", face), ("name", (*name).to_owned())], *n)
        });
        page.counts("face_events", "Counters of each face (docs/counters.md)", rows)
    }

    fn counted(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let of_all = || self.counters.iter().filter(|counter| counter.face_id.is_none());
        let rows = of_all().filter(|counter| counter.label != CS_OCTETS && turn(counter).is_none());
        let rows = rows.map(|counter| ([("name", counter.label.as_str())], counter.value));
        page.counts("events", "Counters of the whole router (docs/counters.md)", rows)?;
        let turns = of_all().filter_map(turn);
        page.gauges("worker_longest_turn_seconds", "The longest turn of a worker's event loop so far", turns)
    }
}

type Label<'a> = (&'static str, &'a str);

/// A series for the memory, and one for the disk if there is one.
fn tiers(memory: u64, disk: Option<u64>) -> impl Iterator<Item = ([Label<'static>; 1], u64)> {
    let disk = disk.map(|n| ([("tier", "disk")], n));
    [([("tier", "memory")], memory)].into_iter().chain(disk)
}

/// The label of all faces without their own series.
const OTHERS: &str = "others";

/// Typical octets of a series in addition to a face's labels.
const SERIES_OCTETS: usize = 60;

/// The labels of a face, without the closing brace of the list.
fn labels_of(face: &FaceStatus) -> String {
    let (remote, local) = (escaped(&face.uri), escaped(&face.local_uri));
    format!("{{face=\"{}\",remote=\"{remote}\",local=\"{local}\"", face.face_id)
}

/// Escapes the value of a label for OpenMetrics.
fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(|c| matches!(c, '\\' | '"') || is_obeyed(c)) {
        return value.into();
    }
    // Plain text is made first, because its escapes contain backslashes.
    Plain::new(value).as_str().replace('\\', "\\\\").replace('"', "\\\"").into()
}

/// The label of the octets in the content store, a current value and not a counter.
const CS_OCTETS: &str = "forwarder.cs_octets";

/// A worker's longest iteration, which is not a counter either.
fn turn(counter: &Counter) -> Option<([Label<'_>; 2], f64)> {
    let (worker, what) = counter.label.strip_prefix("worker")?.split_once('.')?;
    let time = match what {
        "longest_turn_us" => "wall",
        "longest_turn_cpu_us" => "cpu",
        _ => return None,
    };
    Some(([("worker", worker), ("time", time)], counter.value as f64 / 1e6))
}

/// The text under construction.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn counts<S: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (S, u64)>,
    ) -> std::fmt::Result {
        let no_exemplar = None::<&Exemplar<[Label<'_>; 0], u64>>;
        self.family(name, help, MetricType::Counter, rows, |mut series, n| {
            series.encode_counter(&n, no_exemplar)
        })
    }

    fn gauges<S: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (S, f64)>,
    ) -> std::fmt::Result {
        self.family(name, help, MetricType::Gauge, rows, |mut series, n| series.encode_gauge(&n))
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> std::fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn histograms(&mut self, name: &str, help: &str, all: &[PathTimes]) -> std::fmt::Result {
        let rows = all.iter().map(|times| ([("path", times.path)], times));
        self.family(name, help, MetricType::Histogram, rows, |mut series, times| {
            let count = times.buckets.iter().map(|(_, n)| n).sum();
            series.encode_histogram::<[Label<'_>; 0]>(times.sum_s, count, &times.buckets, None)
        })
    }

    fn round_trips(&mut self, all: &[(String, RoundTripCounts)]) -> std::fmt::Result {
        let help = "How long upstreams took to answer, as each strategy saw it that measures it";
        let rows = all.iter().map(|(strategy, counts)| ([("strategy", strategy.as_str())], counts));
        self.family("round_trip_seconds", help, MetricType::Histogram, rows, |mut series, counts| {
            let ends_s = ROUND_TRIP_ENDS_NS.iter().map(|end_ns| *end_ns as f64 / 1e9).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = ends_s.zip(counts.counts).collect();
            let (sum_s, count) = (counts.sum_ns as f64 / 1e9, counts.counts.iter().sum());
            series.encode_histogram::<[Label<'_>; 0]>(sum_s, count, &buckets, None)
        })
    }

    /// Writes a metric with a series for each row; nothing if there is no row.
    fn family<S: EncodeLabelSet, T>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        rows: impl IntoIterator<Item = (S, T)>,
        write: impl Fn(MetricEncoder<'_>, T) -> std::fmt::Result,
    ) -> std::fmt::Result {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.0.encode_descriptor(name, help, None, kind)?;
        rows.try_for_each(|(labels, value)| write(metric.encode_family(&labels)?, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_labels_are_escaped() {
        assert_eq!(escaped("udp4://192.0.2.7:6363"), "udp4://192.0.2.7:6363");
        // A newline becomes two characters for a scraper, and a control character becomes its
        // escape.
        assert_eq!(escaped("a\"} 1\n\\\u{202e}"), r#"a\"} 1\\n\\\\u{202e}"#);
    }
}

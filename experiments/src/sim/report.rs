//! The results of a run, as a table, CSV, JSON and plots.

use std::fmt::Write as _;
use std::time::Duration;

use namely_bench::output;
use namely_sim::Requests;
use namely_sim::plot::{Panel, svg};
use namely_sim::table::Table;
use serde_json::{Value, json};

use super::scenario::Running;

/// The measurements until a virtual time.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    now_ns: u64,
    events: u64,
    requests: Requests,
}

impl Sample {
    pub(super) fn of(running: &Running) -> Self {
        let network = &running.network;
        let requests = running.traffic.requests(network);
        Sample { now_ns: network.now_ns(), events: network.events(), requests }
    }

    fn seconds(&self) -> f64 {
        self.now_ns as f64 / 1e9
    }
}

/// Times of the real clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Until the network was built.
    pub(super) built: Duration,
    /// From then on.
    pub(super) ran: Duration,
    /// Processor time of all threads in that time.
    pub(super) cpu: Duration,
}

/// The results of a run.
pub(super) struct Report {
    samples: Vec<Sample>,
    last: Sample,
    times: Times,
    nodes: usize,
    links: usize,
    consumers: usize,
    lost: u64,
    hits: u64,
    misses: u64,
    digest: Option<String>,
    /// Memory of the process, octets.
    resident: Option<u64>,
}

impl Report {
    pub(super) fn new(running: &Running, samples: Vec<Sample>, times: Times) -> Self {
        let (network, built) = (&running.network, &running.built);
        let lost = |port| network.link_counts(port).lost + network.link_counts(network.back(port)).lost;
        let stores = built.nodes.iter().map(|node| network.router(*node).cs().status());
        let (hits, misses) =
            stores.fold((0, 0), |(hits, misses), store| (hits + store.hits, misses + store.misses));
        Report {
            last: Sample::of(running),
            samples,
            times,
            nodes: built.nodes.len(),
            links: built.links.len(),
            consumers: running.traffic.len(),
            lost: built.links.iter().map(|link| lost(*link)).sum(),
            hits,
            misses,
            digest: network.trace_digest(),
            resident: resident(),
        }
    }

    fn events_per_second(&self) -> f64 {
        per_second(self.last.events, self.times.ran)
    }

    /// Returns the results that depend on the scenario alone, and a line about this machine.
    pub(super) fn table(&self) -> String {
        let requests = &self.last.requests;
        let mut table = Table::new(&["result", ""]);
        let mut add = |what: &str, value: String| {
            table.row([what.to_owned(), value]);
        };
        add("nodes", self.nodes.to_string());
        add("links", self.links.to_string());
        add("consumers", self.consumers.to_string());
        add("virtual time, s", format!("{:.3}", self.last.seconds()));
        add("events", self.last.events.to_string());
        add("requests", requests.interests.to_string());
        add("answered", requests.data.to_string());
        add("requested again", requests.again.to_string());
        add("refused", requests.nacks.to_string());
        add("given up", requests.unanswered.to_string());
        add("mean time, ms", format!("{:.3}", requests.times.mean_ms()));
        add("median time, ms", format!("{:.3}", requests.times.quantile_ms(0.5)));
        add("99 % within, ms", format!("{:.3}", requests.times.quantile_ms(0.99)));
        add("answered by caches, %", format!("{:.2}", self.hit_ratio() * 100.0));
        add("frames lost", self.lost.to_string());
        if let Some(digest) = &self.digest {
            add("digest", digest.clone());
        }
        table.text()
    }

    fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }

    fn machine(&self) -> String {
        let mut text = format!(
            "here: built in {:.2} s, ran in {:.2} s, {:.0} events/s",
            self.times.built.as_secs_f64(),
            self.times.ran.as_secs_f64(),
            self.events_per_second()
        );
        let _ = write!(
            text,
            "; {:.2} s of processor time, {:.0} events and {:.0} Data in each",
            self.times.cpu.as_secs_f64(),
            per_second(self.last.events, self.times.cpu),
            per_second(self.last.requests.data, self.times.cpu)
        );
        if let Some(resident) = self.resident {
            let per_node = resident as f64 / 1024.0 / self.nodes.max(1) as f64;
            let _ = write!(text, ", {per_node:.1} KiB of memory a node");
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let requests = &self.last.requests;
        json!({
            "nodes": self.nodes, "links": self.links, "consumers": self.consumers,
            "virtual_s": self.last.seconds(), "events": self.last.events,
            "requests": requests.interests, "answered": requests.data, "again": requests.again,
            "refused": requests.nacks, "given_up": requests.unanswered, "octets": requests.octets,
            "mean_ms": requests.times.mean_ms(), "median_ms": requests.times.quantile_ms(0.5),
            "p99_ms": requests.times.quantile_ms(0.99), "hit_ratio": self.hit_ratio(),
            "frames_lost": self.lost, "digest": self.digest,
            "machine": {
                "build_s": self.times.built.as_secs_f64(), "run_s": self.times.ran.as_secs_f64(),
                "events_per_s": self.events_per_second(), "resident_octets": self.resident,
                "cpu_s": self.times.cpu.as_secs_f64(),
                "events_per_cpu_s": per_second(self.last.events, self.times.cpu),
                "data_per_cpu_s": per_second(self.last.requests.data, self.times.cpu),
            },
        })
    }

    /// Returns the samples, a line each.
    pub(super) fn csv(&self) -> String {
        let mut text =
            "virtual_s,events,requests,answered,again,refused,given_up,octets,mean_ms,p99_ms\n".to_owned();
        for sample in &self.samples {
            let of = &sample.requests;
            let _ = writeln!(
                text,
                "{:.6},{},{},{},{},{},{},{},{:.3},{:.3}",
                sample.seconds(),
                sample.events,
                of.interests,
                of.data,
                of.again,
                of.nacks,
                of.unanswered,
                of.octets,
                of.times.mean_ms(),
                of.times.quantile_ms(0.99)
            );
        }
        text
    }

    /// Draws rates over the virtual time.
    pub(super) fn svg(&self) -> String {
        type Figure = (&'static str, fn(&Sample) -> f64);
        let figures: [Figure; 4] = [
            ("requests/s", |sample| sample.requests.interests as f64),
            ("answers/s", |sample| sample.requests.data as f64),
            ("requested again/s", |sample| sample.requests.again as f64),
            ("content, Mbit/s", |sample| sample.requests.octets as f64 * 8.0 / 1e6),
        ];
        let panels = figures.map(|(title, value)| {
            let mut points = Vec::new();
            let (mut time, mut sum) = (0.0, 0.0);
            for sample in &self.samples {
                let seconds = (sample.seconds() - time).max(1e-9);
                points.push((sample.seconds(), (value(sample) - sum) / seconds));
                (time, sum) = (sample.seconds(), value(sample));
            }
            let y_max = points.iter().map(|(_, y)| *y).fold(1.0, f64::max);
            Panel { title: title.into(), x_max: time.max(1e-9), y_max, lines: vec![points] }
        });
        svg(&panels, 2, "virtual time, s")
    }

    pub(super) fn print(&self, json: bool) {
        let text =
            if json { format!("{}\n", self.json()) } else { format!("{}{}\n", self.table(), self.machine()) };
        output::lines(text);
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

/// Returns the resident memory of this process, if the system reports it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

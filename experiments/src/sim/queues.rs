//! `sim-queues`: the cost of event queues. The times from events to those that they schedule are
//! recorded in a network, and replayed with different numbers of pending events.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use namely_bench::error::Error;
use namely_bench::output;
use namely_sim::queue::{
    BinaryQueue, CalendarQueue, Entry, EventKey, EventQueue, QuadHeap, RadixHeap, TimingWheel,
};
use namely_sim::table::Table;
use namely_sim::topology::Topology;
use namely_sim::{
    Announcement, LinkSpec, MS, Network, PopularNames, Producer, RouterSpec, SECOND, ZipfConsumer,
};
use namely_wire::Name;
use serde_json::json;

/// Nodes of the network whose times are recorded.
const NODES: usize = 400;

/// Options of `sim-queues`.
#[derive(Args, Debug)]
pub struct SimQueues {
    /// Numbers of pending events
    #[arg(long, value_delimiter = ',', default_values_t = [1_000usize, 10_000, 100_000, 1_000_000],
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000_000))]
    pub pending: Vec<usize>,
    /// Events of each measurement, after as many without one
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1_000_000_000))]
    pub events: usize,
    /// One JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The cost of a queue.
struct Cost {
    queue: &'static str,
    pending: usize,
    ns_per_event: f64,
    octets_per_event: f64,
}

/// Runs `sim-queues`.
///
/// # Errors
/// Returns an error if the results cannot be written.
pub fn run(options: &SimQueues) -> Result<(), Error> {
    let offsets = recorded(NODES);
    let mut table = Table::new(&["queue", "pending", "ns/event", "octets/event"]);
    let mut text = String::new();
    for pending in &options.pending {
        for cost in costs(&offsets, *pending, options.events) {
            table.row([
                cost.queue.to_owned(),
                cost.pending.to_string(),
                format!("{:.1}", cost.ns_per_event),
                format!("{:.1}", cost.octets_per_event),
            ]);
            let line = json!({
                "queue": cost.queue, "pending": cost.pending, "ns_per_event": cost.ns_per_event,
                "octets_per_event": cost.octets_per_event,
            });
            text += &format!("{line}\n");
        }
    }
    let text = if options.json { text } else { table.text() };
    output::lines(text);
    Ok(())
}

/// Returns the times from events to those that they schedule, of requests in a grid.
fn recorded(nodes: usize) -> Vec<u64> {
    let mut network = Network::new(1);
    let built = Topology::grid(nodes, LinkSpec::default()).build(&mut network, RouterSpec::default());
    let prefix = Name::new().join_generic(*b"site");
    let node = built.nodes[nodes / 2];
    network.announce_all(&[Announcement { prefix: prefix.clone(), node }], 1);
    network.attach(node, Box::new(Producer::new(prefix.clone(), 1000)));
    let names = Arc::new(PopularNames::new(&[prefix], 1_000_000, 1.0));
    for node in &built.nodes {
        network.attach(*node, Box::new(ZipfConsumer::new(names.clone(), 20.0)));
    }
    network.run_until(SECOND);
    network.record_offsets();
    network.run_until(SECOND + 500 * MS);
    network.recorded_offsets().to_vec()
}

fn costs(offsets: &[u64], pending: usize, events: usize) -> [Cost; 5] {
    [
        cost::<BinaryQueue>("binary heap", offsets, pending, events),
        cost::<QuadHeap>("4-ary heap", offsets, pending, events),
        cost::<CalendarQueue>("calendar queue", offsets, pending, events),
        cost::<RadixHeap>("radix heap", offsets, pending, events),
        cost::<TimingWheel>("timing wheel", offsets, pending, events),
    ]
}

/// Removes the first event and adds another one, again and again.
fn cost<Q: EventQueue>(queue: &'static str, offsets: &[u64], pending: usize, events: usize) -> Cost {
    let (mut events_of, mut number) = (Q::default(), 0u64);
    let mut entry = |now_ns: u64| {
        let offset_ns = offsets.get(number as usize % offsets.len().max(1)).copied().unwrap_or(1);
        number += 1;
        let node = number as u32 % 4096;
        Entry { key: EventKey { at_ns: now_ns + offset_ns, node, source: node, number }, slot: node }
    };
    (0..pending).for_each(|_| events_of.push(entry(0)));
    let mut replay = |count: usize| {
        for _ in 0..count {
            if let Some(first) = events_of.pop_before(u64::MAX) {
                events_of.push(entry(black_box(first).key.at_ns));
            }
        }
    };
    replay(events);
    let began = Instant::now();
    replay(events);
    let took = began.elapsed();
    Cost {
        queue,
        pending,
        ns_per_event: took.as_nanos() as f64 / events as f64,
        octets_per_event: events_of.octets() as f64 / pending as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_times_keep_queues_full() {
        let offsets = recorded(16);
        assert!(offsets.len() > 500, "{}", offsets.len());
        let costs = costs(&offsets, 500, 2_000);
        assert!(costs.iter().all(|cost| cost.octets_per_event >= size_of::<Entry>() as f64));
    }
}

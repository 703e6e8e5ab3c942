//! Traces: records of the packets below a prefix, taken while they are processed.
//!
//! Without a trace none of this runs, and no packet is inspected. Each worker records into its own
//! ring. A full ring drops its oldest entry if it is not read, so a trace never delays a packet.

use std::collections::VecDeque;
use std::sync::Arc;

use namely_forwarder::{FaceId, Outgoing, Received, Step, Tracer};
use namely_host::clock;
use namely_messages::{Command, Scope, TraceEntry, TraceSent, TraceStep, TracedKind};
use namely_wire::{InterestView, Name, NameRef, tlv, types};
use parking_lot::Mutex;

use crate::Packet;

/// Records of a trace that a worker retains until they are read.
///
/// # Limit
/// The oldest record is overwritten.
/// - Counter: `lost` of the trace
/// - Tests: `a_full_ring_keeps_the_newest_packets`
pub const TRACE_RING_ENTRIES: usize = 512;

/// Octets of a traced packet's name that are recorded.
///
/// # Limit
/// Of a longer name, the components that fit are recorded.
/// - Counter: `left_out` of the packet
/// - Tests: `an_arrival_entry_cuts_a_long_name`
pub const TRACE_NAME_OCTETS_MAX: usize = 512;

/// Decisions about a traced packet that are recorded.
///
/// # Limit
/// Further decisions are only counted.
/// - Counter: `left_out` of the packet
/// - Tests: `steps_past_the_trace_limit_are_counted`
pub const TRACE_STEPS_MAX: usize = 16;

/// Outgoing packets of a traced packet that are recorded.
///
/// # Limit
/// Further packets are only counted.
/// - Counter: `left_out` of the packet
/// - Tests: `steps_past_the_trace_limit_are_counted`
pub const TRACE_SENT_MAX: usize = 16;

/// A trace of packets below a prefix.
#[derive(Debug)]
pub struct Trace {
    prefix: Name,
    /// One ring for each worker.
    rings: Box<[Mutex<Ring>]>,
}

/// The records of one worker.
#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<TraceEntry>,
    lost: u64,
}

impl Trace {
    /// A trace of names below `prefix`, with a ring for each worker.
    pub fn new(prefix: Name, workers: usize) -> Self {
        Trace { prefix, rings: (0..workers).map(|_| Mutex::default()).collect() }
    }

    fn wants(&self, name: NameRef<'_>) -> bool {
        self.prefix.is_prefix_of(name)
    }

    /// Adds a record of a worker. The oldest of its ring is dropped if that is full.
    pub fn put(&self, worker: usize, entry: TraceEntry) {
        let Some(ring) = self.rings.get(worker) else { return };
        let mut ring = ring.lock();
        if ring.entries.len() >= TRACE_RING_ENTRIES {
            ring.entries.pop_front();
            ring.lost += 1;
        }
        ring.entries.push_back(entry);
    }

    /// Moves the records of all workers to `entries`, in the order of time. Returns the number of
    /// lost ones.
    pub fn take(&self, entries: &mut VecDeque<TraceEntry>) -> u64 {
        let mut lost = 0;
        for ring in &self.rings {
            // Taken as a whole, so that the worker waits for the lock only briefly.
            let taken = std::mem::take(&mut *ring.lock());
            entries.extend(taken.entries);
            lost += taken.lost;
        }
        entries.make_contiguous().sort_by_key(|entry| entry.time_us);
        lost
    }

    /// Maximum number of records of all workers together.
    pub fn entries_max(&self) -> usize {
        self.rings.len() * TRACE_RING_ENTRIES
    }
}

/// The active traces, as a worker holds them.
pub(super) type Traces = Vec<Arc<Trace>>;

/// Returns true if a packet must be recorded because its name is traced. Commands that read traces
/// are not recorded, because each would add one more record to read.
pub(super) fn is_traced(traces: &Traces, packet: &[u8]) -> bool {
    let Some(name) = name_of(packet) else { return false };
    traces.iter().any(|trace| trace.wants(name)) && !is_trace_command(name)
}

fn is_trace_command(name: NameRef<'_>) -> bool {
    let own = Command::TraceRead.prefix(Scope::Localhost);
    // Without the verb, so that all commands about traces match.
    own.as_name().without_last(1).is_prefix_of(name)
}

/// The name of a packet that was not checked.
fn name_of(packet: &[u8]) -> Option<NameRef<'_>> {
    let name = tlv::read_tlv(packet).ok()?.children().require(types::NAME).ok()?;
    NameRef::parse_value(name.value).ok()
}

fn kind_of(packet: &[u8], is_nack: bool) -> TracedKind {
    match packet.first() {
        _ if is_nack => TracedKind::Nack,
        Some(typ) if u32::from(*typ) == types::DATA => TracedKind::Data,
        _ => TracedKind::Interest,
    }
}

/// Returns the record of an arrived packet.
pub(super) fn arrived(face: FaceId, received: &Received<Packet>) -> TraceEntry {
    let octets: &[u8] = &received.packet;
    let nack = received.headers.nack;
    let mut entry = TraceEntry {
        kind: kind_of(octets, nack.is_some()),
        face_id: Some(face.0),
        nack: nack.map(|reason| reason.number()),
        ..about(octets)
    };
    if let Ok(interest) = InterestView::parse(octets) {
        entry.nonce = interest.nonce.map(|nonce| u32::from_be_bytes(nonce).into());
        entry.hop_limit = interest.hop_limit.map(u64::from);
    }
    entry
}

/// Returns an entry about a packet, with the present time.
fn about(packet: &[u8]) -> TraceEntry {
    let name = name_of(packet).unwrap_or_default();
    let fits = |n: &usize| name.prefix(*n).encoded_octets() <= TRACE_NAME_OCTETS_MAX;
    // Most names fit as a whole. Only a longer name is measured by component.
    let kept =
        if fits(&name.len()) { name.len() } else { (0..name.len()).take_while(fits).last().unwrap_or(0) };
    TraceEntry {
        time_us: clock::unix_ns() / 1_000,
        name: name.prefix(kept).to_name(),
        is_cut: kept < name.len(),
        octets: packet.len() as u64,
        ..TraceEntry::default()
    }
}

/// Returns the record of Data that was read from the disk. It receives its name from the packet
/// that is sent for it.
pub(super) fn disk_read() -> TraceEntry {
    TraceEntry { kind: TracedKind::DiskRead, ..about(&[]) }
}

/// Records the steps of packets during one call of the core.
pub(super) struct PacketTrace<'a> {
    traces: &'a Traces,
    worker: usize,
    /// The packet that is being processed; `None` while the core does work that became due.
    entry: Option<TraceEntry>,
}

impl<'a> PacketTrace<'a> {
    pub(super) fn new(traces: &'a Traces, worker: usize, entry: Option<TraceEntry>) -> Self {
        PacketTrace { traces, worker, entry }
    }

    /// Records an outgoing packet.
    pub(super) fn sent(&mut self, face: FaceId, outgoing: &Outgoing<Packet>) {
        self.entry.iter_mut().for_each(|entry| note_sent(entry, face, outgoing));
    }

    /// Ends the packet and adds its record to the traces.
    pub(super) fn end(mut self) {
        if let Some(entry) = self.entry.take() {
            self.put(&entry);
        }
    }

    fn put(&self, entry: &TraceEntry) {
        let name = entry.name.as_name();
        let wanting = self.traces.iter().filter(|trace| trace.wants(name));
        wanting.for_each(|trace| trace.put(self.worker, entry.clone()));
    }
}

/// Records a decision.
fn note_step(entry: &mut TraceEntry, step: Step) {
    if entry.steps.len() >= TRACE_STEPS_MAX {
        entry.left_out += 1;
        return;
    }
    let (what, number) = step.words();
    let what = if step.is_drop() { format!("dropped: {what}").into() } else { what.into() };
    entry.steps.push(TraceStep { what, number: number.map(|n| n as u64) });
}

/// Records an outgoing packet. The record of a disk read takes its name from the packet that is
/// sent for it.
fn note_sent(entry: &mut TraceEntry, face: FaceId, outgoing: &Outgoing<Packet>) {
    if entry.kind == TracedKind::DiskRead && entry.name.is_empty() {
        let TraceEntry { name, is_cut, octets, .. } = about(&outgoing.packet);
        (entry.name, entry.is_cut, entry.octets) = (name, is_cut, octets);
    }
    if entry.sent.len() >= TRACE_SENT_MAX {
        entry.left_out += 1;
        return;
    }
    let nack = outgoing.headers.nack;
    entry.sent.push(TraceSent {
        kind: kind_of(&outgoing.packet, nack.is_some()),
        face_id: face.0,
        nack: nack.map(|reason| reason.number()),
    });
}

impl Tracer<Packet> for PacketTrace<'_> {
    fn decided(&mut self, step: Step) {
        self.entry.iter_mut().for_each(|entry| note_step(entry, step));
    }

    fn ended(&mut self, interest: &Packet, waiting: usize, asked: usize) {
        if !is_traced(self.traces, interest) {
            return;
        }
        let step = |what: &'static str, n: usize| TraceStep { what: what.into(), number: Some(n as u64) };
        let steps = vec![step("waited for by", waiting), step("asked of", asked)];
        self.put(&TraceEntry { kind: TracedKind::Expired, steps, ..about(interest) });
    }
}

#[cfg(test)]
mod tests {
    use namely_wire::{InterestBuilder, LpHeaders};

    use super::*;

    fn interest(name: &Name) -> Received<Packet> {
        let packet = InterestBuilder::new(name.clone()).nonce([0, 0, 1, 2]).hop_limit(7).build();
        Received { packet: Packet::from(packet), headers: LpHeaders::default() }
    }

    #[test]
    fn a_full_ring_keeps_the_newest_packets() {
        let name: Name = "/a".parse().unwrap();
        let trace = Trace::new(name.clone(), 2);
        let put = |n: usize| {
            let face = FaceId(n as u64);
            trace.put(n % 2, TraceEntry { time_us: n as u64, ..arrived(face, &interest(&name)) });
        };
        (0..2 * TRACE_RING_ENTRIES).for_each(put);
        let take = || {
            let mut all = VecDeque::new();
            let lost = trace.take(&mut all);
            (all, lost)
        };
        let (all, lost) = take();
        assert_eq!((all.len(), lost), (2 * TRACE_RING_ENTRIES, 0));
        assert!(all.iter().enumerate().all(|(n, entry)| entry.face_id == Some(n as u64)), "in order");
        (0..2 * TRACE_RING_ENTRIES + 1).for_each(put);
        let (all, lost) = take();
        assert_eq!((all.len(), lost, all[0].time_us), (2 * TRACE_RING_ENTRIES, 1, 1));
        assert_eq!(take(), (VecDeque::new(), 0));
        trace.put(2, TraceEntry::default());
        assert_eq!(take().0.len(), 0, "there is no such worker");
    }

    #[test]
    fn an_arrival_entry_cuts_a_long_name() {
        // Components of 16 octets.
        let of = |n: usize| (0..n).fold(Name::new(), |name, _| name.join_generic([7; 14]));
        let most = TRACE_NAME_OCTETS_MAX / 16 - 1;
        let entry = arrived(FaceId(3), &interest(&of(most)));
        assert_eq!((entry.name, entry.is_cut), (of(most), false));
        assert_eq!((entry.nonce, entry.hop_limit, entry.face_id), (Some(0x102), Some(7), Some(3)));
        let entry = arrived(FaceId(3), &interest(&of(most + 1)));
        assert_eq!((entry.name, entry.is_cut), (of(most), true));
        for octets in [&[][..], &[5], &[5, 200], &[6, 2, 7, 0]] {
            let odd = Received { packet: Packet::from(octets.to_vec()), headers: LpHeaders::default() };
            assert_eq!(arrived(FaceId(1), &odd).name, Name::new());
        }
    }

    #[test]
    fn steps_past_the_trace_limit_are_counted() {
        let Received { packet, headers } = interest(&"/a".parse().unwrap());
        let outgoing = Outgoing { packet, headers, hop_limit: None };
        let mut entry = disk_read();
        (0..TRACE_STEPS_MAX).for_each(|_| note_step(&mut entry, Step::CacheMiss));
        (0..TRACE_SENT_MAX).for_each(|n| note_sent(&mut entry, FaceId(n as u64), &outgoing));
        assert_eq!((entry.steps.len(), entry.sent.len()), (TRACE_STEPS_MAX, TRACE_SENT_MAX));
        assert_eq!(
            (entry.left_out, entry.name.to_string()),
            (0, "/a".to_owned()),
            "its name is what is sent"
        );
        note_step(&mut entry, Step::CacheHit);
        note_sent(&mut entry, FaceId(9), &outgoing);
        assert_eq!((entry.steps.len(), entry.sent.len()), (TRACE_STEPS_MAX, TRACE_SENT_MAX));
        assert_eq!(entry.left_out, 2);
        let mut dropped = TraceEntry::default();
        note_step(&mut dropped, Step::Drops(namely_forwarder::DropReason::Loop));
        assert_eq!(dropped.steps[0].what, "dropped: loop");
    }

    #[test]
    fn names_below_the_prefix_are_traced() {
        let traces: Traces = vec![Arc::new(Trace::new("/a/b".parse().unwrap(), 1))];
        let is = |traces: &Traces, uri: &str| is_traced(traces, &interest(&uri.parse().unwrap()).packet);
        assert!(is(&traces, "/a/b") && is(&traces, "/a/b/c"));
        assert!(!is(&traces, "/a") && !is(&traces, "/a/bc") && !is_traced(&traces, &[5, 3, 7]));
        let all: Traces = vec![Arc::new(Trace::new(Name::new(), 1))];
        assert!(is(&all, "/x") && is(&all, "/localhost/nfd/faces/list"));
        assert!(!is(&all, "/localhost/nfd/trace/read/x") && !is(&all, "/localhost/nfd/trace/start/x"));
    }
}

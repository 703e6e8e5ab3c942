//! The active packet traces.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use namely_host::clock;
use namely_messages::{Block, FaceEventKind, FaceEventNotification, TraceEntry};
use namely_mgmt::{Control, Now, TracePart};
use namely_wire::Name;
use parking_lot::Mutex;

use super::{Service, StartContext};
use crate::control::now;
use crate::exit::Failure;
use crate::home::RouterHandle;
use namely_dataplane::{DataPlane, Trace};

/// Packet traces at once.
///
/// # Limit
/// A further trace is refused with 500.
/// - Tests: `an_ended_trace_frees_its_slot`
pub(super) const TRACES_MAX: usize = 4;

/// Time for which a packet trace continues without a reader.
///
/// # Limit
/// The trace ends.
/// - Tests: `an_unread_trace_ends`
pub(super) const TRACE_UNREAD_MS: u64 = 10_000;

/// Delay before a packet is reported, us. It lets earlier entries of other workers arrive first.
const SETTLE_US: u64 = 10_000;

const NS_PER_MS: u64 = 1_000_000;

/// Packet traces as a service. There are none if the kernel forwards, because its packets pass no
/// worker.
#[derive(Default)]
pub(super) struct PacketTraces(OnceLock<Traces>);

impl Service for PacketTraces {
    fn start(&self, start: &StartContext<'_>) -> Result<(), Failure> {
        if start.home.kernel.is_none() {
            let _ = self.0.set(Traces::new(start.home.plane.clone()));
        }
        Ok(())
    }

    fn face_event(&self, _: &RouterHandle, event: &FaceEventNotification, _: u64) {
        if let (Some(traces), FaceEventKind::Destroyed) = (self.0.get(), event.kind) {
            traces.face_closed(event.face_id);
        }
    }

    fn tick(&self, _: &RouterHandle, now: Now) -> Option<u64> {
        self.0.get()?.tick(now.ns)
    }

    fn datasets<'a>(&'a self, control: &mut Control<'a>) {
        control.traces = self.0.get().map(|traces| traces as &dyn namely_mgmt::Traces);
    }
}

/// The active traces.
struct Traces {
    plane: Arc<DataPlane>,
    active: Mutex<ActiveTraces>,
}

#[derive(Default)]
struct ActiveTraces {
    traces: Vec<ActiveTrace>,
    last_id: u64,
}

/// An active trace.
struct ActiveTrace {
    id: u64,
    trace: Arc<Trace>,
    /// The face that started it.
    face: u64,
    ends_ns: u64,
    read_ns: u64,
    /// Entries taken from the workers and not reported yet, sorted by time. Contains at most twice
    /// the entries that the workers retain.
    waiting: VecDeque<TraceEntry>,
}

impl ActiveTrace {
    fn due_ns(&self) -> u64 {
        self.ends_ns.min(self.read_ns.saturating_add(TRACE_UNREAD_MS * NS_PER_MS))
    }
}

impl Traces {
    fn new(plane: Arc<DataPlane>) -> Self {
        Traces { plane, active: Mutex::default() }
    }

    /// Ends expired traces. Returns the time of the next call.
    fn tick(&self, now_ns: u64) -> Option<u64> {
        self.retain(|tracing| tracing.due_ns() > now_ns);
        self.active.lock().traces.iter().map(ActiveTrace::due_ns).min()
    }

    /// A face was closed: ends the traces that it started.
    fn face_closed(&self, face: u64) {
        self.retain(|tracing| tracing.face != face);
    }

    /// Ends traces. Returns true if any has ended.
    fn retain(&self, stays: impl Fn(&ActiveTrace) -> bool) -> bool {
        let ActiveTraces { traces, .. } = &mut *self.active.lock();
        let before = traces.len();
        traces.retain(stays);
        let is_changed = traces.len() < before;
        if is_changed {
            self.apply(traces);
        }
        is_changed
    }

    fn read_at(&self, trace: u64, octets_max: usize, now_us: u64) -> Option<TracePart> {
        let mut active = self.active.lock();
        let tracing = active.traces.iter_mut().find(|tracing| tracing.id == trace)?;
        tracing.read_ns = now().ns;
        let mut traced = TracePart::default();
        if tracing.waiting.len() <= tracing.trace.entries_max() {
            traced.lost = tracing.trace.take(&mut tracing.waiting);
        }
        let settled_us = now_us.saturating_sub(SETTLE_US);
        // An entry with a time in the future was made before the clock was set back.
        let is_settled = |entry: &&TraceEntry| entry.time_us <= settled_us || entry.time_us > now_us;
        let mut room = octets_max;
        while let Some(next) = tracing.waiting.front().filter(is_settled) {
            let Some(left) = room.checked_sub(next.to_vec().len()) else { break };
            room = left;
            traced.entries.extend(tracing.waiting.pop_front());
        }
        traced.is_more = tracing.waiting.front().filter(is_settled).is_some();
        Some(traced)
    }

    fn apply(&self, traces: &[ActiveTrace]) {
        let all: Vec<_> = traces.iter().map(|tracing| tracing.trace.clone()).collect();
        self.plane.trace(&all);
    }
}

impl namely_mgmt::Traces for Traces {
    fn start(&self, prefix: &Name, time_ms: u64, face: u64) -> Result<u64, String> {
        let ActiveTraces { traces, last_id } = &mut *self.active.lock();
        if traces.len() >= TRACES_MAX {
            return Err(format!("{TRACES_MAX} traces are active, which is the limit: end one of them"));
        }
        *last_id += 1;
        let read_ns = now().ns;
        traces.push(ActiveTrace {
            id: *last_id,
            trace: Arc::new(Trace::new(prefix.clone(), self.plane.workers())),
            face,
            ends_ns: read_ns.saturating_add(time_ms.saturating_mul(NS_PER_MS)),
            read_ns,
            waiting: VecDeque::new(),
        });
        self.apply(traces);
        tracing::info!(%prefix, face, "packets are traced");
        Ok(*last_id)
    }

    fn read(&self, trace: u64, octets_max: usize) -> Option<TracePart> {
        self.read_at(trace, octets_max, clock::unix_ns() / 1_000)
    }

    fn stop(&self, trace: u64) -> bool {
        self.retain(|tracing| tracing.id != trace)
    }
}

#[cfg(test)]
mod tests {
    use namely_mgmt::Traces as _;

    use super::*;
    use namely_dataplane::{Core, DataPlaneOptions};

    fn traces() -> Traces {
        let core = Core::new(namely_forwarder::Config::new(namely_security::sha256), 1).unwrap();
        let (plane, _) = DataPlane::start(DataPlaneOptions::default(), Arc::new(core)).unwrap();
        Traces::new(Arc::new(plane))
    }

    #[test]
    fn an_unread_trace_ends() {
        let (traces, name) = (traces(), "/a".parse().unwrap());
        let unread_ns = TRACE_UNREAD_MS * NS_PER_MS;
        let before_ns = now().ns;
        let read = traces.start(&name, 3_600_000, 300).unwrap();
        let due_ns = traces.tick(before_ns).expect("it may be left alone");
        assert!(due_ns >= before_ns + unread_ns);
        traces.tick(due_ns - 1);
        assert_eq!(traces.read(read, 8_000), Some(TracePart::default()), "now it was read");
        let later_ns = traces.tick(due_ns).expect("and so goes on");
        assert!(later_ns > due_ns);
        assert_eq!(traces.tick(later_ns), None);
        assert_eq!(traces.read(read, 8_000), None);
        assert!(!traces.stop(read));
    }

    #[test]
    fn a_trace_ends_with_its_owner() {
        let (traces, name) = (traces(), "/a".parse().unwrap());
        let short = traces.start(&name, 5, 300).unwrap();
        let long = traces.start(&name, 60_000, 301).unwrap();
        let due_ns = traces.tick(0).unwrap();
        traces.tick(due_ns);
        assert_eq!((traces.read(short, 100), traces.read(long, 100)), (None, Some(TracePart::default())));
        traces.face_closed(300);
        assert!(traces.read(long, 100).is_some(), "another's");
        traces.face_closed(301);
        assert_eq!(traces.read(long, 100), None);
    }

    #[test]
    fn trace_entries_are_ordered_by_time() {
        let (traces, name) = (traces(), "/a".parse().unwrap());
        let id = traces.start(&name, 60_000, 300).unwrap();
        let put = |time_us| {
            let active = traces.active.lock();
            active.traces[0].trace.put(0, TraceEntry { time_us, ..TraceEntry::default() });
        };
        let now_us = 1_000_000;
        let read = |octets_max| {
            let traced = traces.read_at(id, octets_max, now_us).unwrap();
            let times: Vec<u64> = traced.entries.iter().map(|entry| entry.time_us).collect();
            (times, traced.is_more)
        };
        [now_us - SETTLE_US + 1, 5, 3, 4].into_iter().for_each(put);
        let one = TraceEntry { time_us: 3, ..TraceEntry::default() }.to_vec().len();
        assert_eq!(read(one), (vec![3], true), "as much as there is room for");
        put(1);
        assert_eq!(read(8_000), (vec![1, 4, 5], false), "a new entry waits");
        assert_eq!(read(8_000), (vec![], false));
        put(now_us - SETTLE_US);
        assert_eq!(read(8_000), (vec![now_us - SETTLE_US], false));
    }

    #[test]
    fn traces_above_the_limit_are_refused() {
        let (traces, name) = (traces(), "/a".parse().unwrap());
        let ids: Vec<_> = (0..TRACES_MAX).map(|_| traces.start(&name, 60_000, 300).unwrap()).collect();
        assert!(traces.start(&name, 60_000, 300).is_err());
        assert!(traces.stop(ids[1]) && traces.start(&name, 60_000, 300).is_ok());
    }
}

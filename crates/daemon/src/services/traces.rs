//! Which prefixes are traced, for whom, and until when.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use namely_host::clock;
use namely_mgmt::{Control, Now, Traced};
use namely_wire::Name;
use namely_wire::mgmt::{Block, FaceEventKind, FaceEventNotification, TraceEntry};
use parking_lot::Mutex;

use super::{Service, Start};
use crate::control::now;
use crate::exit::Failure;
use crate::home::Home;
use namely_dataplane::{DataPlane, Trace};

/// Traces at once.
pub(super) const TRACES_MAX: usize = 4;

/// A trace that nobody reads for so long ends, ms.
pub(super) const TRACE_UNREAD_MS: u64 = 10_000;

/// A packet is told of after so long, us: what another worker did of it before is told first then.
const SETTLE_US: u64 = 10_000;

const NS_PER_MS: u64 = 1_000_000;

/// Traces of packets as a service; none where the kernel forwards: its packets pass no worker.
#[derive(Default)]
pub(super) struct PacketTraces(OnceLock<Traces>);

impl Service for PacketTraces {
    fn start(&self, start: &Start<'_>) -> Result<(), Failure> {
        if start.home.kernel.is_none() {
            let _ = self.0.set(Traces::new(start.home.plane.clone()));
        }
        Ok(())
    }

    fn face_event(&self, _: &Home, event: &FaceEventNotification, _: u64) {
        if let (Some(traces), FaceEventKind::Destroyed) = (self.0.get(), event.kind) {
            traces.face_gone(event.face_id);
        }
    }

    fn tick(&self, _: &Home, now: Now) -> Option<u64> {
        self.0.get()?.tick(now.ns)
    }

    fn datasets<'a>(&'a self, control: &mut Control<'a>) {
        control.traces = self.0.get().map(|traces| traces as &dyn namely_mgmt::Traces);
    }
}

/// The traces there are.
struct Traces {
    plane: Arc<DataPlane>,
    active: Mutex<Active>,
}

#[derive(Default)]
struct Active {
    traces: Vec<Tracing>,
    last_id: u64,
}

/// One of them.
struct Tracing {
    id: u64,
    trace: Arc<Trace>,
    /// Who began it.
    face: u64,
    ends_ns: u64,
    read_ns: u64,
    /// What was taken from the workers and is not told yet, in the order of time: as much as they
    /// keep, twice at most.
    waiting: VecDeque<TraceEntry>,
}

impl Tracing {
    fn due_ns(&self) -> u64 {
        self.ends_ns.min(self.read_ns.saturating_add(TRACE_UNREAD_MS * NS_PER_MS))
    }
}

impl Traces {
    fn new(plane: Arc<DataPlane>) -> Self {
        Traces { plane, active: Mutex::default() }
    }

    /// Ends traces whose time is over; returns when to be called again.
    fn tick(&self, now_ns: u64) -> Option<u64> {
        self.retain(|tracing| tracing.due_ns() > now_ns);
        self.active.lock().traces.iter().map(Tracing::due_ns).min()
    }

    /// A face has gone, and with it who read its traces.
    fn face_gone(&self, face: u64) {
        self.retain(|tracing| tracing.face != face);
    }

    /// Returns true if any has ended.
    fn retain(&self, stays: impl Fn(&Tracing) -> bool) -> bool {
        let Active { traces, .. } = &mut *self.active.lock();
        let before = traces.len();
        traces.retain(stays);
        let is_changed = traces.len() < before;
        if is_changed {
            self.tell(traces);
        }
        is_changed
    }

    fn read_at(&self, trace: u64, octets_max: usize, now_us: u64) -> Option<Traced> {
        let mut active = self.active.lock();
        let tracing = active.traces.iter_mut().find(|tracing| tracing.id == trace)?;
        tracing.read_ns = now().ns;
        let mut traced = Traced::default();
        if tracing.waiting.len() <= tracing.trace.entries_max() {
            traced.lost = tracing.trace.take(&mut tracing.waiting);
        }
        let settled_us = now_us.saturating_sub(SETTLE_US);
        // What is of later than now was before the clock was set back.
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

    fn tell(&self, traces: &[Tracing]) {
        let all: Vec<_> = traces.iter().map(|tracing| tracing.trace.clone()).collect();
        self.plane.trace(&all);
    }
}

impl namely_mgmt::Traces for Traces {
    fn start(&self, prefix: &Name, time_ms: u64, face: u64) -> Result<u64, String> {
        let Active { traces, last_id } = &mut *self.active.lock();
        if traces.len() >= TRACES_MAX {
            return Err(format!("{TRACES_MAX} traces are under way, as many as may be: end one of them"));
        }
        *last_id += 1;
        let read_ns = now().ns;
        traces.push(Tracing {
            id: *last_id,
            trace: Arc::new(Trace::new(prefix.clone(), self.plane.workers())),
            face,
            ends_ns: read_ns.saturating_add(time_ms.saturating_mul(NS_PER_MS)),
            read_ns,
            waiting: VecDeque::new(),
        });
        self.tell(traces);
        tracing::info!(%prefix, face, "packets are traced");
        Ok(*last_id)
    }

    fn read(&self, trace: u64, octets_max: usize) -> Option<Traced> {
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
    fn a_trace_that_nobody_reads_ends_and_one_that_is_read_goes_on() {
        let (traces, name) = (traces(), "/a".parse().unwrap());
        let unread_ns = TRACE_UNREAD_MS * NS_PER_MS;
        let before_ns = now().ns;
        let read = traces.start(&name, 3_600_000, 300).unwrap();
        let due_ns = traces.tick(before_ns).expect("it may be left alone");
        assert!(due_ns >= before_ns + unread_ns);
        traces.tick(due_ns - 1);
        assert_eq!(traces.read(read, 8_000), Some(Traced::default()), "now it was read");
        let later_ns = traces.tick(due_ns).expect("and so goes on");
        assert!(later_ns > due_ns);
        assert_eq!(traces.tick(later_ns), None);
        assert_eq!(traces.read(read, 8_000), None);
        assert!(!traces.stop(read));
    }

    #[test]
    fn a_trace_ends_with_its_time_and_with_who_began_it() {
        let (traces, name) = (traces(), "/a".parse().unwrap());
        let short = traces.start(&name, 5, 300).unwrap();
        let long = traces.start(&name, 60_000, 301).unwrap();
        let due_ns = traces.tick(0).unwrap();
        traces.tick(due_ns);
        assert_eq!((traces.read(short, 100), traces.read(long, 100)), (None, Some(Traced::default())));
        traces.face_gone(300);
        assert!(traces.read(long, 100).is_some(), "another's");
        traces.face_gone(301);
        assert_eq!(traces.read(long, 100), None);
    }

    #[test]
    fn what_workers_did_is_told_in_the_order_of_time_and_not_before_all_can_have_told_it() {
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
        assert_eq!(read(8_000), (vec![1, 4, 5], false), "what has just happened waits");
        assert_eq!(read(8_000), (vec![], false));
        put(now_us - SETTLE_US);
        assert_eq!(read(8_000), (vec![now_us - SETTLE_US], false));
    }

    #[test]
    fn as_many_traces_as_may_be_are_begun_and_one_more_is_refused() {
        let (traces, name) = (traces(), "/a".parse().unwrap());
        let ids: Vec<_> = (0..TRACES_MAX).map(|_| traces.start(&name, 60_000, 300).unwrap()).collect();
        assert!(traces.start(&name, 60_000, 300).is_err());
        assert!(traces.stop(ids[1]) && traces.start(&name, 60_000, 300).is_ok());
    }
}

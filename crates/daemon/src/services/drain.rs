//! The drain: the end of a router with pending Interests. It refuses new Interests of other hosts,
//! so that they choose another next hop, and stops when the last pending Interest has its answer.
//!
//! The other services withdraw their announcements in their own [`Service::drain`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use namely_mgmt::{Control, Now};
use parking_lot::Mutex;

use super::{Notice, Service, StartContext};
use crate::config::Config;
use crate::control::OrderSender;
use crate::exit::Failure;
use crate::home::RouterHandle;
use crate::systemd;

/// Interval between counts of the pending Interests.
const COUNT_NS: u64 = 20_000_000;

/// Time that the service manager grants beyond the bound of the drain, for the stop itself.
const STOP: Duration = Duration::from_secs(2);

const NS_PER_MS: u64 = 1_000_000;

/// The drain as a service.
#[derive(Default)]
pub(super) struct Drain {
    /// The bound of a drain, ms. 0 switches it off.
    bound_ms: AtomicU64,
    orders: OnceLock<OrderSender>,
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Running,
    Draining(Draining),
    /// The control thread has no notice of it yet.
    Drained,
    Ended,
}

/// A drain in progress.
struct Draining {
    /// The pending Interests, by the last complete count.
    pending: usize,
    count: Count,
    next_ns: u64,
    until_ns: u64,
}

/// A count of the pending Interests in progress. It takes several steps if the PIT is large, and
/// management is served in between.
#[derive(Default)]
struct Count {
    /// The next position in the PIT.
    from: Option<u32>,
    counted: usize,
}

impl Count {
    /// Counts in the next part of the PIT. Returns the result after the last part.
    fn step(&mut self, home: &RouterHandle, now_ns: u64) -> Option<usize> {
        let router = home.plane.internal_face();
        self.from = home.core.pit().count_answerable(self.from, router, now_ns, &mut self.counted);
        self.from.is_none().then(|| std::mem::take(&mut self.counted))
    }
}

impl Draining {
    /// Runs the next step of the count, if it is due. Returns the time of the next one; `None` if
    /// the drain has ended.
    fn step(&mut self, home: &RouterHandle, now_ns: u64) -> Option<u64> {
        if now_ns >= self.next_ns.min(self.until_ns) {
            match self.count.step(home, now_ns) {
                Some(0) if home.plane.has_sent_all() => {
                    tracing::info!("drained: no Interest is pending");
                    return None;
                }
                Some(pending) => {
                    self.report(pending, now_ns);
                    self.next_ns = now_ns.saturating_add(COUNT_NS);
                }
                None => self.next_ns = now_ns,
            }
            if now_ns >= self.until_ns {
                // A count of a large PIT may be incomplete.
                let pending = self.pending.max(self.count.counted);
                tracing::warn!(pending, "the drain has reached its bound, process.drain_ms");
                return None;
            }
        }
        Some(self.next_ns.min(self.until_ns))
    }

    fn report(&mut self, pending: usize, now_ns: u64) {
        if std::mem::replace(&mut self.pending, pending) != pending {
            let left = Duration::from_nanos(self.until_ns.saturating_sub(now_ns));
            let plural = if pending == 1 { "" } else { "s" };
            systemd::draining(&format!("draining: {pending} Interest{plural} pending"), left + STOP);
        }
    }
}

impl Service for Drain {
    fn start(&self, start: &StartContext<'_>) -> Result<(), Failure> {
        let _ = self.orders.set(start.orders.clone());
        self.apply(start.config);
        Ok(())
    }

    fn apply(&self, config: &Config) {
        self.bound_ms.store(config.process.drain_ms, Ordering::Relaxed);
    }

    /// Returns true if an Interest is pending. The kernel's forwarder reports no pending Interests,
    /// so its router does not drain.
    fn needs_drain(&self, home: &RouterHandle, now_ns: u64) -> bool {
        if self.bound_ms.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut count = Count::default();
        loop {
            match count.step(home, now_ns) {
                Some(pending) => return pending > 0,
                None if count.counted > 0 => return true,
                None => {}
            }
        }
    }

    fn drain(&self, home: &RouterHandle, now_ns: u64) {
        home.core.pit().drain();
        let bound_ns = self.bound_ms.load(Ordering::Relaxed).saturating_mul(NS_PER_MS);
        let until_ns = now_ns.saturating_add(bound_ns);
        *self.state.lock() =
            State::Draining(Draining { pending: 0, count: Count::default(), next_ns: now_ns, until_ns });
        tracing::info!("draining: pending Interests are answered; a second signal stops at once");
    }

    fn tick(&self, home: &RouterHandle, now: Now) -> Option<u64> {
        let state = &mut *self.state.lock();
        let State::Draining(draining) = state else { return None };
        let next_ns = draining.step(home, now.ns);
        if next_ns.is_none() {
            *state = State::Drained;
            self.orders.get().into_iter().for_each(OrderSender::wake);
        }
        next_ns
    }

    fn notice(&self, _: &RouterHandle, _: u64) -> Option<Notice> {
        let state = &mut *self.state.lock();
        let is_drained = matches!(state, State::Drained);
        if is_drained {
            *state = State::Ended;
        }
        is_drained.then_some(Notice::Drained)
    }

    fn datasets<'a>(&'a self, control: &mut Control<'a>) {
        control.draining = match &*self.state.lock() {
            State::Running => None,
            State::Draining(draining) => Some(draining.pending as u64),
            State::Drained | State::Ended => Some(0),
        };
    }
}

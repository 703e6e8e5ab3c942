//! Slots for connections, some of which are reserved for holders of the token. Any program of this
//! machine may connect, and one that occupies all slots must not lock out the operator.
//!
//! A client that connects when all other slots are occupied receives a reserved slot for a short
//! time. It presents the token, or receives no more than the page's files and is closed. When all
//! reserved slots are occupied too, the connection without the token that is oldest is closed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections to a dashboard at once.
///
/// # Limit
/// A further connection is refused with 503.
/// - Counter: `refused_full`
/// - Tests: `an_excess_connection_gets_503`
pub const CONNECTIONS_MAX: usize = 64;

/// Connections to a dashboard that are reserved for holders of the token.
///
/// A connection without the token receives no more than the page's files there.
///
/// # Limit
/// The oldest connection without the token is closed; if all have the token, a further one is
/// refused with 503.
/// - Counter: `refused_full`
/// - Tests: `tokenless_programs_do_not_block_operators`,
///   `new_connections_evict_tokenless_ones`
pub const CONNECTIONS_FOR_TOKEN: usize = 16;

const _: () = assert!(CONNECTIONS_FOR_TOKEN < CONNECTIONS_MAX);

#[derive(Debug, Default)]
pub(crate) struct ConnectionSlots(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Connections in slots that are open to all clients.
    open: usize,
    /// Connections in reserved slots, with the token.
    with_token: usize,
    /// Connections in reserved slots, without the token, oldest first.
    without: VecDeque<(u64, Arc<Notify>)>,
    next: u64,
}

/// A connection's slot. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    /// Set for a reserved slot.
    kept: Option<OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    number: u64,
    evicted: Arc<Notify>,
    has_token: AtomicBool,
}

impl ConnectionSlots {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for one more connection. Returns `None` if the other slots are occupied and
    /// each reserved slot has a connection with the token.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let mut state = self.state();
        if state.open < CONNECTIONS_MAX - CONNECTIONS_FOR_TOKEN {
            state.open += 1;
            return Some(ConnectionSlot { slots: self.clone(), kept: None });
        }
        if state.with_token + state.without.len() >= CONNECTIONS_FOR_TOKEN {
            state.without.pop_front()?.1.notify_one();
        }
        let (number, evicted) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        state.without.push_back((number, evicted.clone()));
        let kept = OpenConnection { number, evicted, has_token: AtomicBool::new(false) };
        Some(ConnectionSlot { slots: self.clone(), kept: Some(kept) })
    }
}

impl ConnectionSlot {
    /// Returns true if the slot is reserved for holders of the token.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Records that the slot's owner has presented the token.
    pub(crate) fn show_token(&self) {
        let Some(kept) = &self.kept else { return };
        let mut state = self.slots.state();
        let before = state.without.len();
        state.without.retain(|(number, _)| *number != kept.number);
        // A connection that was already chosen for closing is still closed.
        if state.without.len() < before {
            state.with_token += 1;
            kept.has_token.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until the connection has to close for another one. Never returns if it need not.
    pub(crate) async fn evicted(&self) {
        match &self.kept {
            Some(kept) => kept.evicted.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        match &self.kept {
            None => state.open -= 1,
            Some(kept) if kept.has_token.load(Ordering::Relaxed) => state.with_token -= 1,
            Some(kept) => state.without.retain(|(number, _)| *number != kept.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_connections_evict_tokenless_ones() {
        let slots = Arc::<ConnectionSlots>::default();
        let enter = || slots.enter();
        let mut open: Vec<_> = (CONNECTIONS_FOR_TOKEN..CONNECTIONS_MAX).map(|_| enter().unwrap()).collect();
        assert!(open.iter().all(|slot| !slot.is_kept()));
        let silent: Vec<_> = (0..CONNECTIONS_FOR_TOKEN).map(|_| enter().unwrap()).collect();
        assert!(silent.iter().all(ConnectionSlot::is_kept));
        // A further connection evicts the oldest one.
        let with_token: Vec<_> = (0..CONNECTIONS_FOR_TOKEN).map(|_| enter().unwrap()).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        silent.iter().for_each(|slot| runtime.block_on(slot.evicted()));
        with_token.iter().for_each(ConnectionSlot::show_token);
        silent.iter().for_each(ConnectionSlot::show_token);
        assert!(enter().is_none(), "all have the token");
        drop(silent);
        assert!(enter().is_none());
        open.pop();
        assert!(enter().is_some_and(|slot| !slot.is_kept()));
        drop(with_token);
        open.push(enter().unwrap());
        assert!(enter().is_some_and(|slot| slot.is_kept()));
        drop(open);
        let state = slots.state();
        assert_eq!((state.open, state.with_token, state.without.len()), (0, 0, 0));
    }
}

//! Slots for connections, some of which are reserved for holders of the token. Any program of this
//! machine may connect, and one that occupies all slots must not lock out the operator.
//!
//! A client that connects when all other slots are occupied receives a reserved slot for a short
//! time. It presents the token, or receives no more than the page's files and is closed. When all
//! reserved slots are occupied too, a connection without the token is closed: the oldest of the
//! source that has the most of them. So a source that floods the page closes only its own.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
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
/// The oldest connection without the token, of the address with the most, is closed; if all have
/// the token, a further one is refused with 503.
/// - Counter: `refused_full`
/// - Tests: `tokenless_programs_do_not_block_operators`,
///   `new_connections_evict_tokenless_ones`, `a_flood_evicts_only_its_own_connections`
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
    without: VecDeque<TokenlessConnection>,
    next: u64,
}

#[derive(Debug)]
struct TokenlessConnection {
    number: u64,
    source: IpAddr,
    evicted: Arc<Notify>,
}

impl State {
    /// Removes the oldest connection of the source that has the most of those without the token.
    fn evict(&mut self) -> Option<TokenlessConnection> {
        let of_source = |source: IpAddr| self.without.iter().filter(|other| other.source == source).count();
        // The first of equals is the oldest.
        let at = (0..self.without.len()).rev().max_by_key(|at| of_source(self.without[*at].source))?;
        self.without.remove(at)
    }
}

/// The host that an address stands for: the network of 64 bits in IPv6, of which a host may use
/// every address.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
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

    /// Takes a slot for one more connection, of `address`. Returns `None` if the other slots are
    /// occupied and each reserved slot has a connection with the token.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let mut state = self.state();
        if state.open < CONNECTIONS_MAX - CONNECTIONS_FOR_TOKEN {
            state.open += 1;
            return Some(ConnectionSlot { slots: self.clone(), kept: None });
        }
        if state.with_token + state.without.len() >= CONNECTIONS_FOR_TOKEN {
            state.evict()?.evicted.notify_one();
        }
        let (number, evicted) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        state.without.push_back(TokenlessConnection {
            number,
            source: source(address),
            evicted: evicted.clone(),
        });
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
        state.without.retain(|other| other.number != kept.number);
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
            Some(kept) => state.without.retain(|other| other.number != kept.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_connections_evict_tokenless_ones() {
        let slots = Arc::<ConnectionSlots>::default();
        let enter = || slots.enter([127, 0, 0, 1].into());
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

    #[test]
    fn a_flood_evicts_only_its_own_connections() {
        let slots = Arc::<ConnectionSlots>::default();
        let enter = |address: &str| slots.enter(address.parse().unwrap()).unwrap();
        let _open: Vec<_> = (CONNECTIONS_FOR_TOKEN..CONNECTIONS_MAX).map(|_| enter("192.0.2.1")).collect();
        let operator = enter("198.51.100.1");
        let oldest = enter("2001:db8::1");
        let _flood: Vec<_> =
            (2..3 * CONNECTIONS_FOR_TOKEN).map(|n| enter(&format!("2001:db8::{n:x}"))).collect();
        let numbers = |slots: &ConnectionSlots| -> Vec<u64> {
            slots.state().without.iter().map(|connection| connection.number).collect()
        };
        let left = numbers(&slots);
        let number = |slot: &ConnectionSlot| slot.kept.as_ref().unwrap().number;
        assert!(left.contains(&number(&operator)) && !left.contains(&number(&oldest)), "{left:?}");
        assert_eq!(left.len(), CONNECTIONS_FOR_TOKEN);
        // The operator shows the token, although the flood goes on.
        operator.show_token();
        assert_eq!(slots.state().with_token, 1);
    }
}

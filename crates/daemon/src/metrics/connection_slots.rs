//! Slots for concurrent connections. A scraper sends its request at once and is answered within
//! milliseconds, so a longer connection occupies a slot without use. If all slots are in use, the
//! oldest connection of the address with most connections is evicted.

use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;

use namely_host::shares::Owner;
use parking_lot::Mutex;

/// Requests for metrics that are answered at once.
///
/// # Limit
/// The oldest connection of the address with most connections is closed.
/// - Counter: `metrics.gave_way`
/// - Tests: `the_busiest_address_loses_its_oldest_connection`,
///   `half_requests_do_not_block_scrapers`
pub(super) const METRICS_CONNECTIONS_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct ConnectionSlots(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Sorted by age, the oldest first.
    taken: Vec<(u64, Owner, Arc<TcpStream>)>,
    next: u64,
}

/// A connection's slot. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct ConnectionSlot<'a> {
    slots: &'a ConnectionSlots,
    number: u64,
}

impl ConnectionSlots {
    /// Takes a slot for a connection. Returns true if another connection was evicted for it.
    pub(super) fn enter(&self, stream: &Arc<TcpStream>, address: IpAddr) -> (ConnectionSlot<'_>, bool) {
        let holder = Owner::address(address);
        let mut state = self.0.lock();
        let goes = (state.taken.len() >= METRICS_CONNECTIONS_MAX).then(|| state.payer(holder));
        let gone = goes.map(|index| state.taken.remove(index).2);
        let number = state.next;
        state.next += 1;
        state.taken.push((number, holder, stream.clone()));
        drop(state);
        // The other connection's thread then fails to read or write. It is not an error if the peer
        // has closed that connection already.
        let has_gone = gone.map(|stream| stream.shutdown(Shutdown::Both)).is_some();
        (ConnectionSlot { slots: self, number }, has_gone)
    }
}

impl State {
    /// The oldest connection of the address with most connections, counting the new one of
    /// `holder`; among equals, the oldest of all.
    fn payer(&self, holder: Owner) -> usize {
        let count = |of: Owner| {
            self.taken.iter().filter(|(_, other, _)| *other == of).count() + usize::from(of == holder)
        };
        let most = self.taken.iter().map(|(_, of, _)| count(*of)).max();
        self.taken.iter().position(|(_, of, _)| Some(count(*of)) == most).unwrap_or(0)
    }
}

impl Drop for ConnectionSlot<'_> {
    fn drop(&mut self) {
        self.slots.0.lock().taken.retain(|(number, _, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn the_busiest_address_loses_its_oldest_connection() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let slots = ConnectionSlots::default();
        let host = |n: u8| IpAddr::from([192, 0, 2, n]);
        let has = || slots.0.lock().taken.iter().map(|(number, _, _)| *number).collect::<Vec<_>>();
        let mut held = vec![slots.enter(&stream, host(1))];
        held.extend((1..METRICS_CONNECTIONS_MAX).map(|_| slots.enter(&stream, host(2))));
        assert!(held.iter().all(|(_, has_gone)| !has_gone));
        // For any new address, host 2 loses a connection first; then the address with most
        // connections, counting the new one.
        for (from, left) in [
            (3, vec![0, 2, 3, 4, 5, 6, 7, 8]),
            (2, vec![0, 3, 4, 5, 6, 7, 8, 9]),
            (1, vec![0, 4, 5, 6, 7, 8, 9, 10]),
        ] {
            let (slot, has_gone) = slots.enter(&stream, host(from));
            assert!(has_gone);
            held.push((slot, true));
            assert_eq!(has(), left);
        }
        held.remove(0);
        assert_eq!(has(), [4, 5, 6, 7, 8, 9, 10]);
        assert!(!slots.enter(&stream, host(4)).1, "there was room");
        drop(held);
        assert_eq!(has(), Vec::<u64>::new());
    }
}

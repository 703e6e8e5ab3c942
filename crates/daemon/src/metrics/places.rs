//! Who is answered at once. A scraper asks as soon as it has connected and is answered within
//! milliseconds: a connection that stays longer is one that keeps a place for nothing. So when all
//! places are in use the oldest connection goes of the address that has most.

use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::Arc;

use namely_host::shares::Holder;
use parking_lot::Mutex;

/// Connections that are answered at once.
pub(super) const METRICS_CONNECTIONS_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Places(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// From the oldest one.
    taken: Vec<(u64, Holder, Arc<TcpStream>)>,
    next: u64,
}

/// A connection's place. Dropping it gives it to another.
#[derive(Debug)]
pub(super) struct Place<'a> {
    places: &'a Places,
    number: u64,
}

impl Places {
    /// A place for one more connection, and whether another one has gone for it.
    pub(super) fn enter(&self, stream: &Arc<TcpStream>, address: IpAddr) -> (Place<'_>, bool) {
        let holder = Holder::address(address);
        let mut state = self.0.lock();
        let goes = (state.taken.len() >= METRICS_CONNECTIONS_MAX).then(|| state.payer(holder));
        let gone = goes.map(|place| state.taken.remove(place).2);
        let number = state.next;
        state.next += 1;
        state.taken.push((number, holder, stream.clone()));
        drop(state);
        // Its thread finds the end of what it reads, or cannot write any more. Who has ended it
        // already needs no end.
        let has_gone = gone.map(|stream| stream.shutdown(Shutdown::Both)).is_some();
        (Place { places: self, number }, has_gone)
    }
}

impl State {
    /// The oldest connection of the address that has most with one more of `holder`; where several
    /// have as many, the oldest of theirs.
    fn payer(&self, holder: Holder) -> usize {
        let count = |of: Holder| {
            self.taken.iter().filter(|(_, other, _)| *other == of).count() + usize::from(of == holder)
        };
        let most = self.taken.iter().map(|(_, of, _)| count(*of)).max();
        self.taken.iter().position(|(_, of, _)| Some(count(*of)) == most).unwrap_or(0)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.places.0.lock().taken.retain(|(number, _, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn the_oldest_of_the_address_with_most_gives_way() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let places = Places::default();
        let host = |n: u8| IpAddr::from([192, 0, 2, n]);
        let has = || places.0.lock().taken.iter().map(|(number, _, _)| *number).collect::<Vec<_>>();
        let mut held = vec![places.enter(&stream, host(1))];
        held.extend((1..METRICS_CONNECTIONS_MAX).map(|_| places.enter(&stream, host(2))));
        assert!(held.iter().all(|(_, has_gone)| !has_gone));
        // Whoever comes, the other host pays; then the one that has most with the one that comes.
        for (from, left) in [
            (3, vec![0, 2, 3, 4, 5, 6, 7, 8]),
            (2, vec![0, 3, 4, 5, 6, 7, 8, 9]),
            (1, vec![0, 4, 5, 6, 7, 8, 9, 10]),
        ] {
            let (place, has_gone) = places.enter(&stream, host(from));
            assert!(has_gone);
            held.push((place, true));
            assert_eq!(has(), left);
        }
        held.remove(0);
        assert_eq!(has(), [4, 5, 6, 7, 8, 9, 10]);
        assert!(!places.enter(&stream, host(4)).1, "there was room");
        drop(held);
        assert_eq!(has(), Vec::<u64>::new());
    }
}

//! Places for connections, some of which are kept for who has the token: any program of this
//! machine may connect, and one that takes all places and keeps them must not keep the operator
//! out.
//!
//! Who connects when all other places are taken has one of those for a short time. It shows the
//! token, or gets no more than the page's files, and goes; when all of these are in use too, the
//! one goes that has been there longest without the token.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections at once.
pub const CONNECTIONS_MAX: usize = 64;

/// Those among them that are kept for who has the token.
pub const CONNECTIONS_FOR_TOKEN: usize = 16;

const _: () = assert!(CONNECTIONS_FOR_TOKEN < CONNECTIONS_MAX);

#[derive(Debug, Default)]
pub(crate) struct Places(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// In places for everybody.
    open: usize,
    /// In kept places, with the token.
    with_token: usize,
    /// In kept places, without, from the one that has been there longest.
    without: VecDeque<(u64, Arc<Notify>)>,
    next: u64,
}

/// A connection's place. Dropping it gives it to another.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    /// Where it is one of those that are kept.
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    gives_way: Arc<Notify>,
    has_token: AtomicBool,
}

impl Places {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more connection; `None` if all who have one have the token, or came while
    /// there were others.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Place> {
        let mut state = self.state();
        if state.open < CONNECTIONS_MAX - CONNECTIONS_FOR_TOKEN {
            state.open += 1;
            return Some(Place { places: self.clone(), kept: None });
        }
        if state.with_token + state.without.len() >= CONNECTIONS_FOR_TOKEN {
            state.without.pop_front()?.1.notify_one();
        }
        let (number, gives_way) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        state.without.push_back((number, gives_way.clone()));
        let kept = Kept { number, gives_way, has_token: AtomicBool::new(false) };
        Some(Place { places: self.clone(), kept: Some(kept) })
    }
}

impl Place {
    /// Whether it is kept for who has the token.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Who has it has shown the token.
    pub(crate) fn show_token(&self) {
        let Some(kept) = &self.kept else { return };
        let mut state = self.places.state();
        let before = state.without.len();
        state.without.retain(|(number, _)| *number != kept.number);
        // One that has to give way goes all the same.
        if state.without.len() < before {
            state.with_token += 1;
            kept.has_token.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until the connection has to give way to another, for ever if it need not.
    pub(crate) async fn gives_way(&self) {
        match &self.kept {
            Some(kept) => kept.gives_way.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.state();
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
    fn whoever_comes_last_has_a_place_until_all_kept_ones_have_the_token() {
        let places = Arc::<Places>::default();
        let enter = || places.enter();
        let mut open: Vec<_> = (CONNECTIONS_FOR_TOKEN..CONNECTIONS_MAX).map(|_| enter().unwrap()).collect();
        assert!(open.iter().all(|place| !place.is_kept()));
        let silent: Vec<_> = (0..CONNECTIONS_FOR_TOKEN).map(|_| enter().unwrap()).collect();
        assert!(silent.iter().all(Place::is_kept));
        // One more has the place of the oldest.
        let with_token: Vec<_> = (0..CONNECTIONS_FOR_TOKEN).map(|_| enter().unwrap()).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        silent.iter().for_each(|place| runtime.block_on(place.gives_way()));
        with_token.iter().for_each(Place::show_token);
        silent.iter().for_each(Place::show_token);
        assert!(enter().is_none(), "all have the token");
        drop(silent);
        assert!(enter().is_none());
        open.pop();
        assert!(enter().is_some_and(|place| !place.is_kept()));
        drop(with_token);
        open.push(enter().unwrap());
        assert!(enter().is_some_and(|place| place.is_kept()));
        drop(open);
        let state = places.state();
        assert_eq!((state.open, state.with_token, state.without.len()), (0, 0, 0));
    }
}

//! Pending handshakes at listeners that make a face only after a handshake.
//!
//! Each owner has a quota of the slots. When an owner's quota is full, a new handshake evicts the
//! owner's oldest one. When the table is full, it evicts the oldest one of the owner with the most.
//! A peer that connects often and sends nothing therefore evicts its own handshakes. A handshake
//! that takes too long is ended.
//!
//! The descriptor is an epoll instance. It watches the listening socket, the connections, and a
//! timer for the oldest connection, so the worker has one source to watch.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namely_host::clock;
use namely_host::shares::{Owner, Refusal, ShareLimits, Shares};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::error::OpenError;

/// Pending handshakes of one memif or WebSocket listener.
///
/// The largest holder loses its oldest handshake if it has more than 8. Otherwise the oldest
/// handshake of the same part of the table is evicted: of local users, or of hosts.
///
/// # Limit
/// The oldest handshake of the holder with most is evicted.
/// - Value: 256, of which 64 are for users of this machine; 16 more for root
/// - Counter: `memif_handshakes_full`, `websocket_handshakes_full` of the listener
/// - Tests: `full_handshakes_evict_the_largest_holder`,
///   `among_small_holders_the_oldest_is_evicted`,
///   `a_started_handshake_survives_other_users`,
///   `a_started_handshake_survives_other_hosts`
pub const HANDSHAKES_MAX: usize = 256;

/// Pending handshakes of one user or host at a listener.
///
/// # Limit
/// The oldest handshake of the same user or host is evicted.
/// - Value: 64; for root as many as all
/// - Counter: `memif_handshakes_full`, `websocket_handshakes_full` of the listener
/// - Tests: `waiting_memif_handshakes_are_limited`,
///   `a_full_holder_evicts_its_oldest_handshake`,
///   `waiting_websocket_handshakes_are_limited`
pub const HANDSHAKES_PER_HOLDER_MAX: usize = 64;

/// An owner with at most this many handshakes does not lose one because it has the most.
pub const HANDSHAKES_RESERVE: usize = 8;

/// Slots reserved for users of this machine.
pub const HANDSHAKES_LOCAL_RESERVE: usize = 64;

/// Slots that root may use beyond the limit.
pub const HANDSHAKES_ROOT_EXTRA: usize = 16;

/// Time of a memif or WebSocket handshake.
///
/// # Limit
/// The connection is closed, and its memory is released.
/// - Counter: `memif_handshake_timeout`, `websocket_handshake_timeout` of the listener
/// - Tests: `a_slow_handshake_releases_its_memory`,
///   `a_slow_websocket_handshake_times_out`
pub const HANDSHAKE_NS_MAX: u64 = 5_000_000_000;

/// Numbers of the listener and the timer in the epoll instance. Connections have lower numbers.
const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// The handshakes at one listener.
pub(crate) struct Handshakes<T> {
    epoll: OwnedFd,
    timer: OwnedFd,
    shares: Shares,
    /// The pending handshakes in the order of arrival, which is the order of their deadlines.
    pending: BTreeMap<u64, Pending<T>>,
    next: u64,
}

/// A pending handshake.
pub(crate) struct Pending<T> {
    number: u64,
    holder: Owner,
    deadline_ns: u64,
    what: T,
}

impl<T> Pending<T> {
    /// Returns its state and its owner, and a function that makes it again from another state.
    pub(crate) fn into_parts(self) -> (T, Owner, impl FnOnce(T) -> Pending<T>) {
        let Pending { number, holder, deadline_ns, what } = self;
        (what, holder, move |what| Pending { number, holder, deadline_ns, what })
    }
}

/// The work due at a listener.
#[derive(Debug, Default)]
pub(crate) struct DueHandshakes {
    /// The listening socket is readable.
    pub(crate) is_listener_ready: bool,
    /// The handshakes with readable connections.
    pub(crate) numbers: Vec<u64>,
    /// The number of handshakes that took too long and were ended.
    pub(crate) timed_out: u64,
}

impl<T: AsFd> Handshakes<T> {
    /// Makes an empty table for a listening socket.
    pub(crate) fn new(listener: &OwnedFd) -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        let shares = Shares::new(ShareLimits {
            total: HANDSHAKES_MAX as u64,
            ceiling: HANDSHAKES_PER_HOLDER_MAX as u64,
            local_ceiling: None,
            reserve: HANDSHAKES_RESERVE as u64,
            local_reserve: HANDSHAKES_LOCAL_RESERVE as u64,
            root_extra: HANDSHAKES_ROOT_EXTRA as u64,
        });
        Ok(Handshakes { epoll, timer, shares, pending: BTreeMap::new(), next: 0 })
    }

    /// Returns the work due now. Ends the handshakes that took too long.
    pub(crate) fn ready(&mut self) -> Result<DueHandshakes, Errno> {
        // Room for all connections, the listener and the timer, so that one call returns them all.
        let mut events = Vec::with_capacity(HANDSHAKES_MAX + HANDSHAKES_ROOT_EXTRA + 2);
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, spare, Some(&Timespec::default())) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(errno) => return Err(errno),
        }
        let mut ready = DueHandshakes::default();
        for event in events {
            match event.data.u64() {
                LISTENER => ready.is_listener_ready = true,
                TIMER => ready.timed_out = self.expire(clock::monotonic_ns()),
                number => ready.numbers.push(number),
            }
        }
        Ok(ready)
    }

    /// Begins a handshake. Returns the number of handshakes that were evicted for it.
    ///
    /// # Errors
    /// No slot is free and no handshake may be evicted, or the system cannot watch the connection.
    /// Nothing has changed apart from the evictions.
    pub(crate) fn begin(&mut self, holder: Owner, what: T) -> Result<u64, Errno> {
        let mut evicted = 0;
        // Each pass ends one handshake, so the loop ends.
        while let Err(refusal) = self.shares.take(holder, 1) {
            let Some(number) = self.victim(holder, refusal) else { return Err(Errno::USERS) };
            self.take(number);
            evicted += 1;
        }
        let number = self.next;
        if let Err(errno) = epoll::add(&self.epoll, &what, EventData::new_u64(number), EventFlags::IN) {
            self.shares.give_back(holder, 1);
            return Err(errno);
        }
        self.next += 1;
        let deadline_ns = clock::monotonic_ns().saturating_add(HANDSHAKE_NS_MAX);
        let is_first = self.pending.is_empty();
        self.pending.insert(number, Pending { number, holder, deadline_ns, what });
        // Deadlines follow the order of arrival, so a later handshake does not change the timer.
        if is_first {
            self.set_timer();
        }
        Ok(evicted)
    }

    /// Returns the handshake to evict for `holder`. If `holder` is at its ceiling, it is the oldest
    /// one of `holder`. Otherwise it is the oldest one of the owner with the most. If no owner is
    /// above the reserve, it is the oldest one in the part of the table to which `holder` belongs:
    /// that of local users, or that of hosts.
    fn victim(&self, holder: Owner, refusal: Refusal) -> Option<u64> {
        let payer = match refusal {
            Refusal::Ceiling => Some(holder),
            Refusal::Full { payer } => payer,
        };
        let of_payer = |pending: &&Pending<T>| match payer {
            Some(payer) => pending.holder == payer,
            None => pending.holder == holder || pending.holder.is_local() == holder.is_local(),
        };
        // In the order of arrival, so the first match is the oldest.
        self.pending.values().find(of_payer).map(|pending| pending.number)
    }

    /// Removes a handshake. Its connection is no longer watched here.
    pub(crate) fn take(&mut self, number: u64) -> Option<Pending<T>> {
        let pending = self.pending.remove(&number)?;
        // The call fails only if the connection is not watched.
        let _ = epoll::delete(&self.epoll, &pending.what);
        // The timer stays: if it fires too early, `expire` sets it again.
        self.shares.give_back(pending.holder, 1);
        Some(pending)
    }

    /// Puts back a handshake that `take` removed and that is not complete. The caller must not
    /// begin another one in between.
    ///
    /// # Errors
    /// The system cannot watch it.
    pub(crate) fn put_back(&mut self, pending: Pending<T>) -> Result<(), Errno> {
        // The slot that `take` released is still free.
        self.shares.take(pending.holder, 1).map_err(|_| Errno::USERS)?;
        let (number, holder) = (pending.number, pending.holder);
        epoll::add(&self.epoll, &pending.what, EventData::new_u64(number), EventFlags::IN)
            .inspect_err(|_| self.shares.give_back(holder, 1))?;
        self.pending.insert(number, pending);
        Ok(())
    }

    fn expire(&mut self, now_ns: u64) -> u64 {
        let mut fired = [0; 8];
        // Reading makes the timer unreadable again. The number of expirations is not needed.
        let _ = rustix::io::read(&self.timer, &mut fired);
        let mut timed_out = 0;
        while let Some((number, first)) = self.pending.first_key_value()
            && first.deadline_ns <= now_ns
        {
            let number = *number;
            self.take(number);
            timed_out += 1;
        }
        self.set_timer();
        timed_out
    }

    /// Sets the timer to the deadline of the oldest connection. Disarms it if there is none.
    fn set_timer(&self) {
        let due_ns = self.pending.first_key_value().map_or(0, |(_, pending)| pending.deadline_ns);
        let it_value =
            Timespec { tv_sec: (due_ns / 1_000_000_000) as i64, tv_nsec: (due_ns % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        // The call fails only for malformed times.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once);
    }
}

impl<T> AsFd for Handshakes<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Makes the error of a listener that cannot be opened.
pub(crate) fn failed(errno: Errno) -> OpenError {
    OpenError::system("preparing a listener")(errno)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn descriptor() -> OwnedFd {
        eventfd(0, EventfdFlags::CLOEXEC).unwrap()
    }

    fn handshakes() -> Handshakes<OwnedFd> {
        Handshakes::new(&descriptor()).unwrap()
    }

    fn host(n: u8) -> Owner {
        Owner::address(Ipv4Addr::new(192, 0, 2, n).into())
    }

    fn of(handshakes: &Handshakes<OwnedFd>, holder: Owner) -> usize {
        handshakes.pending.values().filter(|pending| pending.holder == holder).count()
    }

    #[test]
    fn a_full_holder_evicts_its_oldest_handshake() {
        let mut all = handshakes();
        let (one, other) = (Owner::uid(1), Owner::uid(2));
        assert_eq!(all.begin(other, descriptor()), Ok(0));
        let gone: Vec<u64> =
            (0..HANDSHAKES_PER_HOLDER_MAX).map(|_| all.begin(one, descriptor()).unwrap()).collect();
        assert!(gone.iter().all(|gone| *gone == 0));
        let oldest = all.pending.values().find(|pending| pending.holder == one).map(|p| p.number).unwrap();
        assert_eq!(all.begin(one, descriptor()), Ok(1), "one past the limit");
        assert!(!all.pending.contains_key(&oldest));
        assert_eq!((of(&all, one), of(&all, other)), (HANDSHAKES_PER_HOLDER_MAX, 1));
    }

    #[test]
    fn full_handshakes_evict_the_largest_holder() {
        let mut all = handshakes();
        for n in 0..4 {
            (0..HANDSHAKES_PER_HOLDER_MAX).for_each(|_| assert!(all.begin(host(n), descriptor()).is_ok()));
        }
        let remote = HANDSHAKES_MAX - HANDSHAKES_LOCAL_RESERVE;
        assert_eq!(all.pending.len(), remote, "the rest is kept for users of this machine");
        assert_eq!(all.begin(host(9), descriptor()), Ok(1), "a new host");
        assert_eq!(of(&all, host(9)), 1);
        for uid in 1..=(HANDSHAKES_LOCAL_RESERVE as u32) {
            assert_eq!(all.begin(Owner::uid(uid), descriptor()), Ok(0));
        }
        assert_eq!(all.pending.len(), HANDSHAKES_MAX);
        assert_eq!(all.begin(Owner::uid(1000), descriptor()), Ok(1), "one user more");
        assert_eq!(of(&all, host(9)), 1, "the largest paid");
        (0..HANDSHAKES_ROOT_EXTRA).for_each(|_| assert_eq!(all.begin(Owner::Root, descriptor()), Ok(0)));
        assert_eq!(all.begin(Owner::Root, descriptor()), Ok(1));
    }

    #[test]
    fn among_small_holders_the_oldest_is_evicted() {
        let mut all = handshakes();
        let remote = HANDSHAKES_MAX - HANDSHAKES_LOCAL_RESERVE;
        for n in 0..remote {
            assert_eq!(all.begin(host((n / HANDSHAKES_RESERVE) as u8), descriptor()), Ok(0));
        }
        assert_eq!(all.begin(host(200), descriptor()), Ok(1));
        assert_eq!((of(&all, host(0)), of(&all, host(200))), (HANDSHAKES_RESERVE - 1, 1));
    }

    #[test]
    fn a_taken_handshake_can_be_resumed() {
        let mut all = handshakes();
        let descriptor = descriptor();
        let watched = rustix::io::dup(&descriptor).unwrap();
        all.begin(host(1), descriptor).unwrap();
        rustix::io::write(&watched, &1u64.to_ne_bytes()).unwrap();
        for _ in 0..2 {
            let ready = all.ready().unwrap();
            assert_eq!((ready.numbers.as_slice(), ready.is_listener_ready), (&[0][..], false));
            let pending = all.take(0).unwrap();
            assert_eq!(all.shares.used(), 0);
            all.put_back(pending).unwrap();
        }
        let last = all.pending.values().map(|pending| pending.deadline_ns).max().unwrap();
        assert_eq!((all.expire(last - 1), all.expire(last)), (0, 1));
        assert_eq!((all.pending.len(), all.shares.used()), (0, 0));
    }
}

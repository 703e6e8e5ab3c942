//! Connections whose handshakes are under way, at listeners whose peers must say something before
//! they have a face.
//!
//! Each holder has a share of the places; where it is used up, or all are, the handshake that waits
//! longest of the holder with most gives way, and the one that comes is begun all the same. So who
//! connects and says nothing puts out its own. A handshake that takes too long is ended.
//!
//! The descriptor is an epoll instance of its own, which watches the listening socket, the
//! connections, and a timer for the oldest of them: the worker sees one source.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namely_host::clock;
use namely_host::shares::{Holder, Refusal, ShareLimits, Shares};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::error::OpenError;

/// Connections of one listener whose handshakes are under way.
pub const HANDSHAKES_MAX: usize = 256;

/// The same of one holder.
pub const HANDSHAKES_PER_HOLDER_MAX: usize = 64;

/// A holder that has no more of them than this does not have to pay for others.
pub const HANDSHAKES_RESERVE: usize = 8;

/// Places that only users of this machine may have.
pub const HANDSHAKES_LOCAL_RESERVE: usize = 64;

/// Places that root has where all are taken.
pub const HANDSHAKES_ROOT_EXTRA: usize = 16;

/// How long a handshake may take, ns.
pub const HANDSHAKE_NS_MAX: u64 = 5_000_000_000;

/// Numbers of the epoll instance; connections have those below.
const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// The handshakes at one listener.
pub(crate) struct Handshakes<T> {
    epoll: OwnedFd,
    timer: OwnedFd,
    shares: Shares,
    /// By the order of their coming, which is that of their deadlines.
    pending: BTreeMap<u64, Pending<T>>,
    next: u64,
}

/// One of them.
pub(crate) struct Pending<T> {
    number: u64,
    holder: Holder,
    deadline_ns: u64,
    what: T,
}

impl<T> Pending<T> {
    /// What is known of it, and how it goes on with another state.
    pub(crate) fn into_parts(self) -> (T, Holder, impl FnOnce(T) -> Pending<T>) {
        let Pending { number, holder, deadline_ns, what } = self;
        (what, holder, move |what| Pending { number, holder, deadline_ns, what })
    }
}

/// What is to be done at a listener.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// Somebody has connected.
    pub(crate) is_listener_ready: bool,
    /// The handshakes whose peers said something.
    pub(crate) numbers: Vec<u64>,
    /// How many took too long, and are ended.
    pub(crate) timed_out: u64,
}

impl<T: AsFd> Handshakes<T> {
    /// None yet, at a socket that listens.
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

    /// What is to be done now. Those that took too long are ended.
    pub(crate) fn ready(&mut self) -> Result<Ready, Errno> {
        let mut events = Vec::with_capacity(HANDSHAKES_MAX + HANDSHAKES_ROOT_EXTRA + 2);
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, spare, Some(&Timespec::default())) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(errno) => return Err(errno),
        }
        let mut ready = Ready::default();
        for event in events {
            match event.data.u64() {
                LISTENER => ready.is_listener_ready = true,
                TIMER => ready.timed_out = self.expire(clock::monotonic_ns()),
                number => ready.numbers.push(number),
            }
        }
        Ok(ready)
    }

    /// Begins one. Returns how many had to give way to it.
    ///
    /// # Errors
    /// The system cannot watch it; nothing has changed but for those that gave way.
    pub(crate) fn begin(&mut self, holder: Holder, what: T) -> Result<u64, Errno> {
        let mut evicted = 0;
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
        if is_first {
            self.set_timer();
        }
        Ok(evicted)
    }

    /// The handshake that gives way to one of `holder`: the oldest of the holder who pays; where
    /// nobody has more than the reserve, the oldest of those who share their part with `holder`.
    fn victim(&self, holder: Holder, refusal: Refusal) -> Option<u64> {
        let payer = match refusal {
            Refusal::Ceiling => Some(holder),
            Refusal::Full { payer } => payer,
        };
        let of_payer = |pending: &&Pending<T>| match payer {
            Some(payer) => pending.holder == payer,
            None => pending.holder == holder || pending.holder.is_local() == holder.is_local(),
        };
        self.pending.values().find(of_payer).map(|pending| pending.number)
    }

    /// Takes one out. Its connection is watched here no more.
    pub(crate) fn take(&mut self, number: u64) -> Option<Pending<T>> {
        let pending = self.pending.remove(&number)?;
        let _ = epoll::delete(&self.epoll, &pending.what);
        self.shares.give_back(pending.holder, 1);
        Some(pending)
    }

    /// Goes on with one that was taken out and has no end yet, before another one comes.
    ///
    /// # Errors
    /// The system cannot watch it.
    pub(crate) fn put_back(&mut self, pending: Pending<T>) -> Result<(), Errno> {
        self.shares.take(pending.holder, 1).map_err(|_| Errno::USERS)?;
        let (number, holder) = (pending.number, pending.holder);
        epoll::add(&self.epoll, &pending.what, EventData::new_u64(number), EventFlags::IN)
            .inspect_err(|_| self.shares.give_back(holder, 1))?;
        self.pending.insert(number, pending);
        Ok(())
    }

    fn expire(&mut self, now_ns: u64) -> u64 {
        let mut fired = [0; 8];
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

    /// Has the timer fire when the oldest connection has had its time; without one, never.
    fn set_timer(&self) {
        let due_ns = self.pending.first_key_value().map_or(0, |(_, pending)| pending.deadline_ns);
        let it_value =
            Timespec { tv_sec: (due_ns / 1_000_000_000) as i64, tv_nsec: (due_ns % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        // It fails on malformed times only.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once);
    }
}

impl<T> AsFd for Handshakes<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Why a listener cannot be made.
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

    fn host(n: u8) -> Holder {
        Holder::address(Ipv4Addr::new(192, 0, 2, n).into())
    }

    fn of(handshakes: &Handshakes<OwnedFd>, holder: Holder) -> usize {
        handshakes.pending.values().filter(|pending| pending.holder == holder).count()
    }

    #[test]
    fn a_holder_at_its_handshakes_puts_out_its_own_oldest_and_nobody_elses() {
        let mut all = handshakes();
        let (one, other) = (Holder::uid(1), Holder::uid(2));
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
    fn when_all_handshakes_are_taken_the_largest_pays_and_root_and_users_get_in() {
        let mut all = handshakes();
        for n in 0..4 {
            (0..HANDSHAKES_PER_HOLDER_MAX).for_each(|_| assert!(all.begin(host(n), descriptor()).is_ok()));
        }
        let remote = HANDSHAKES_MAX - HANDSHAKES_LOCAL_RESERVE;
        assert_eq!(all.pending.len(), remote, "the rest is kept for users of this machine");
        assert_eq!(all.begin(host(9), descriptor()), Ok(1), "a new host");
        assert_eq!(of(&all, host(9)), 1);
        for uid in 1..=(HANDSHAKES_LOCAL_RESERVE as u32) {
            assert_eq!(all.begin(Holder::uid(uid), descriptor()), Ok(0));
        }
        assert_eq!(all.pending.len(), HANDSHAKES_MAX);
        assert_eq!(all.begin(Holder::uid(1000), descriptor()), Ok(1), "one user more");
        assert_eq!(of(&all, host(9)), 1, "the largest paid");
        (0..HANDSHAKES_ROOT_EXTRA).for_each(|_| assert_eq!(all.begin(Holder::Root, descriptor()), Ok(0)));
        assert_eq!(all.begin(Holder::Root, descriptor()), Ok(1));
    }

    #[test]
    fn where_nobody_has_much_the_oldest_of_the_same_kind_gives_way() {
        let mut all = handshakes();
        let remote = HANDSHAKES_MAX - HANDSHAKES_LOCAL_RESERVE;
        for n in 0..remote {
            assert_eq!(all.begin(host((n / HANDSHAKES_RESERVE) as u8), descriptor()), Ok(0));
        }
        assert_eq!(all.begin(host(200), descriptor()), Ok(1));
        assert_eq!((of(&all, host(0)), of(&all, host(200))), (HANDSHAKES_RESERVE - 1, 1));
    }

    #[test]
    fn one_that_was_taken_out_can_go_on_and_what_ended_leaves_its_place() {
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

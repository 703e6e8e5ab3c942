//! Slots for clients and for streams, their limit per address, and eviction when no slot is free.
//!
//! Only a late client is evicted: one that does not use its slot ([`Pace::late`]). The victim is a
//! client of the address with the most clients; of these, the one that has been late for the
//! longest time. A client that keeps up is never closed for another; new clients wait instead.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use namely_host::shares::{Owner, Share, ShareLimits, SharePool};
use namely_socket::FETCHES_MAX;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::pace::Pace;
use super::{
    CLIENTS_MAX, CLIENTS_PER_ADDRESS_MAX, Counters, NEWCOMERS_MAX, PLACE_TIMEOUT, STREAMS_PER_ADDRESS_MAX,
};

/// Interval at which a waiting client looks for another to evict.
const LOOK: Duration = Duration::from_millis(100);

/// The clients of a gateway.
#[derive(Debug)]
pub(super) struct Clients {
    table: Mutex<Table>,
    slots: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Number of clients and streams of each address.
    client_shares: SharePool,
    stream_shares: SharePool,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    clients: BTreeMap<u64, Arc<State>>,
}

/// State of a client.
#[derive(Debug)]
struct State {
    holder: Owner,
    pace: Mutex<Pace>,
    /// Whether the client has a slot for a stream.
    streams: AtomicBool,
    /// Whether the client has been notified to leave.
    is_notified: AtomicBool,
    leave: Notify,
}

/// A connected client. Dropping it frees its slot.
#[derive(Debug)]
pub(super) struct Client {
    number: u64,
    state: Arc<State>,
    clients: Arc<Clients>,
    /// None for a newcomer.
    slot: Mutex<Option<OwnedSemaphorePermit>>,
    /// `None` for clients on this machine, which have no limit.
    share: Option<Share>,
}

/// A slot among the streams that the socket accepts.
#[derive(Debug)]
pub(super) struct StreamSlot {
    state: Arc<State>,
    _permit: OwnedSemaphorePermit,
    _share: Option<Share>,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.state.streams.store(false, Ordering::Relaxed);
    }
}

/// The clients among which one is to be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Among {
    All,
    Streams,
    Of(Owner),
}

impl Clients {
    pub(super) fn new(counters: Arc<Counters>) -> Arc<Self> {
        let shares = |total: usize, ceiling: usize| {
            let (total, ceiling) = (total as u64, ceiling as u64);
            SharePool::new(ShareLimits { total, ceiling, ..ShareLimits::default() })
        };
        Arc::new(Clients {
            table: Mutex::default(),
            slots: Arc::new(Semaphore::new(CLIENTS_MAX)),
            streams: Arc::new(Semaphore::new(FETCHES_MAX)),
            client_shares: shares(CLIENTS_MAX + NEWCOMERS_MAX, CLIENTS_PER_ADDRESS_MAX),
            stream_shares: shares(FETCHES_MAX, STREAMS_PER_ADDRESS_MAX),
            counters,
        })
    }

    /// Returns the number of clients.
    pub(super) fn len(&self) -> usize {
        self.table().clients.len()
    }

    /// Waits until another client may connect.
    pub(super) async fn room(&self) {
        while self.len() >= CLIENTS_MAX + NEWCOMERS_MAX {
            self.make_room(Among::All);
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Admits a client from `address`; none if its address has reached the limit. Then a late
    /// client of that address is notified to leave, if there is one.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Client> {
        let holder = Owner::address(address);
        let share = match self.client_shares.take(holder, 1) {
            // All programs of this machine share a loopback address, so it has no limit.
            _ if address.to_canonical().is_loopback() => None,
            Ok(share) => Some(share),
            Err(_) => {
                // The slot is free only once that client has left.
                self.make_room(Among::Of(holder));
                Counters::count(&self.counters.refused_address, 1);
                return None;
            }
        };
        let slot = self.slots.clone().try_acquire_owned().ok();
        if slot.is_none() {
            self.make_room(Among::All);
        }
        let state = Arc::new(State {
            holder,
            pace: Mutex::new(Pace::new(Instant::now())),
            streams: AtomicBool::new(false),
            is_notified: AtomicBool::new(false),
            leave: Notify::new(),
        });
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.clients.insert(number, state.clone());
        drop(table);
        Some(Client { number, state, clients: self.clone(), slot: Mutex::new(slot), share })
    }

    /// Waits for a permit of `slots`, and evicts late clients meanwhile; none if no slot was free
    /// in time.
    async fn slot(&self, slots: &Arc<Semaphore>, among: Among) -> Option<OwnedSemaphorePermit> {
        let waits = async {
            let mut slot = std::pin::pin!(slots.clone().acquire_owned());
            loop {
                tokio::select! {
                    biased;
                    slot = &mut slot => return slot.ok(),
                    () = tokio::time::sleep(LOOK) => self.make_room(among),
                }
            }
        };
        tokio::time::timeout(PLACE_TIMEOUT, waits).await.ok().flatten()
    }

    /// Notifies one late client to leave, if there is any.
    fn make_room(&self, among: Among) {
        let now = Instant::now();
        let table = self.table();
        let mut counts: BTreeMap<Owner, usize> = BTreeMap::new();
        table.clients.values().for_each(|state| *counts.entry(state.holder).or_default() += 1);
        let late = table.clients.values().filter(|state| match among {
            Among::All => true,
            Among::Streams => state.streams.load(Ordering::Relaxed),
            Among::Of(holder) => state.holder == holder,
        });
        // A client that was notified already frees its slot soon.
        let late = late.filter(|state| !state.is_notified.load(Ordering::Relaxed)).filter_map(|state| {
            let late = state.pace().late(now)?;
            Some((counts.get(&state.holder).copied().unwrap_or(0), late, state))
        });
        if let Some((_, _, state)) = late.max_by_key(|(count, late, _)| (*count, *late)) {
            state.is_notified.store(true, Ordering::Relaxed);
            state.leave.notify_one();
            Counters::count(&self.counters.shed, 1);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    pub(super) fn pace(&self) -> MutexGuard<'_, Pace> {
        self.state.pace()
    }

    /// Waits until the client has to leave, because of eviction or because it is too slow.
    pub(super) async fn leaves(&self) {
        let mut look = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                () = self.state.leave.notified() => return,
                _ = look.tick() => {
                    if self.pace().is_too_slow(Instant::now()) {
                        return Counters::count(&self.clients.counters.slow, 1);
                    }
                }
            }
        }
    }

    /// Waits for a slot if the client was admitted without one. Returns true if it has a slot.
    pub(super) async fn settle(&self) -> bool {
        if self.has_slot() {
            return true;
        }
        let slot = self.clients.slot(&self.clients.slots, Among::All).await;
        let settled = slot.is_some();
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = slot;
        settled
    }

    fn has_slot(&self) -> bool {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Waits for a slot for a stream; none if no slot was free in time.
    pub(super) async fn stream(&self) -> Option<StreamSlot> {
        let Clients { stream_shares, streams, .. } = &*self.clients;
        let until = Instant::now() + PLACE_TIMEOUT;
        let share = loop {
            match stream_shares.take(self.state.holder, 1) {
                _ if self.share.is_none() => break None,
                Ok(share) => break Some(share),
                Err(_) if Instant::now() >= until => return None,
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        };
        let permit = self.clients.slot(streams, Among::Streams).await?;
        self.state.streams.store(true, Ordering::Relaxed);
        Some(StreamSlot { state: self.state.clone(), _permit: permit, _share: share })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.clients.table().clients.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    fn clients() -> Arc<Clients> {
        Clients::new(Arc::default())
    }

    impl Client {
        fn came(&self, since: Duration) {
            *self.pace() = Pace::new(Instant::now().checked_sub(since).unwrap());
        }

        /// Counts as a new client, however long this thread stalls.
        fn comes(&self) {
            *self.pace() = Pace::new(Instant::now() + Duration::from_secs(3600));
        }

        fn is_evicted(&self) -> bool {
            self.state.is_notified.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn the_idlest_client_of_an_address_leaves() {
        let clients = clients();
        let all: Vec<_> = (0..CLIENTS_PER_ADDRESS_MAX).map(|_| clients.admit(address(1)).unwrap()).collect();
        all.iter().for_each(Client::comes);
        assert!(clients.admit(address(1)).is_none());
        assert!(all.iter().all(|client| !client.is_evicted()), "they had come just now");
        assert!(clients.admit(address(2)).is_some(), "another address has its own places");
        all[7].came(Duration::from_secs(10));
        assert!(clients.admit(address(1)).is_none());
        assert!(all[7].is_evicted());
        drop(all);
        assert!(clients.admit(address(1)).is_some());
        assert_eq!(clients.len(), 0);
    }

    #[test]
    fn local_programs_share_all_client_slots() {
        let clients = clients();
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let address = address.parse().unwrap();
            let all: Vec<_> = (0..CLIENTS_MAX + NEWCOMERS_MAX).map(|_| clients.admit(address)).collect();
            assert!(all.iter().all(Option::is_some));
        }
    }

    #[test]
    fn the_largest_address_yields_a_slot() {
        let clients = clients();
        let large: Vec<_> = (0..3).map(|_| clients.admit(address(1)).unwrap()).collect();
        let small = clients.admit(address(2)).unwrap();
        large[2].comes();
        small.came(Duration::from_secs(60));
        large[0].came(Duration::from_secs(10));
        large[1].came(Duration::from_secs(20));
        let is_evicted = |client: &Client| client.is_evicted();
        clients.make_room(Among::All);
        assert!(is_evicted(&large[1]) && !is_evicted(&large[0]) && !is_evicted(&small));
        clients.make_room(Among::All);
        assert!(is_evicted(&large[0]) && !is_evicted(&small));
        clients.make_room(Among::Streams);
        assert!(!is_evicted(&small), "it has no stream");
        clients.make_room(Among::All);
        assert!(is_evicted(&small) && !is_evicted(&large[2]), "who keeps up stays");
        assert_eq!(clients.counters.shed.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn an_address_has_a_stream_limit() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let clients = clients();
        let (one, other) = (clients.admit(address(1)).unwrap(), clients.admit(address(2)).unwrap());
        runtime.block_on(async {
            let mut streams = Vec::new();
            for _ in 0..STREAMS_PER_ADDRESS_MAX {
                streams.push(one.stream().await.unwrap());
            }
            let short = Duration::from_millis(200);
            assert!(tokio::time::timeout(short, one.stream()).await.is_err(), "one more waits");
            assert!(other.stream().await.is_some());
            streams.pop();
            assert!(one.stream().await.is_some());
        });
    }
}

//! Who may have a face: how many there are, for whom, and which gives way when all are in use.
//!
//! An address on a datagram proves nothing, so that faces cost an attacker next to nothing. When
//! there are as many as there may be, the one goes that was heard of longest ago among those to
//! which nothing was ever sent; where there is none, the idlest of the holder with most faces, if
//! that has more than [`FACES_RESERVE`]; and else the idlest of all. Faces that the configuration
//! or management made stay, and no peer on the network makes a face of this machine's users go.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use namely_host::shares::{Holder, Refusal, ShareLimits, Shares};
use namely_wire::mgmt::FacePersistency;
use parking_lot::Mutex;

use crate::options::IoOptions;
use crate::port::FacePort;

/// A holder that has no more faces than this does not have to pay more than others.
pub const FACES_RESERVE: usize = 16;

/// Faces that root and the router itself may have beyond the limit.
pub const FACES_ROOT_EXTRA: usize = 64;

/// The name under which a peer that gets no face is counted.
pub(crate) fn label(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Ceiling => "too_many_of_one_peer",
        Refusal::Full { .. } => "too_many_transports",
    }
}

/// A face's place in the table; never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Place(u64);

/// All faces with sockets.
pub(crate) struct FaceTable<P>(Mutex<State<P>>);

struct State<P> {
    shares: Shares,
    entries: HashMap<Place, Entry<P>>,
    next: u64,
    /// Those of peers on the network that may have to go, the first one first.
    remote: BTreeSet<Key>,
    /// The same of each holder.
    by_holder: BTreeMap<Holder, BTreeSet<Key>>,
}

struct Entry<P> {
    holder: Holder,
    port: Weak<FacePort<P>>,
    /// Where it stands among those that may have to go.
    key: Option<Key>,
}

/// By what faces that may have to go are ordered: whether something was ever sent to the peer, and
/// when something last arrived, ns, as it was when this was last looked at. It is looked at when a
/// face stands first, so that a packet that arrives costs nothing here.
type Key = (bool, u64, Place);

/// The right to one face. It is given back when this is dropped.
pub(crate) struct Admission<P> {
    table: Arc<FaceTable<P>>,
    place: Place,
}

/// The right to another face, and the one whose place it has, which must end now.
pub(crate) type Entered<P> = (Admission<P>, Option<Arc<FacePort<P>>>);

impl<P> Admission<P> {
    pub(crate) fn place(&self) -> Place {
        self.place
    }
}

impl<P> Drop for Admission<P> {
    fn drop(&mut self) {
        self.table.0.lock().remove(self.place);
    }
}

impl<P> FaceTable<P> {
    pub(crate) fn new(options: &IoOptions) -> Arc<Self> {
        let shares = options.face_shares.of(options.faces_max);
        let limits = ShareLimits {
            total: options.faces_max as u64,
            ceiling: shares.per_address_max as u64,
            local_ceiling: Some(shares.per_uid_max as u64),
            reserve: FACES_RESERVE as u64,
            local_reserve: shares.local_reserve as u64,
            root_extra: FACES_ROOT_EXTRA as u64,
        };
        Arc::new(FaceTable(Mutex::new(State {
            shares: Shares::new(limits),
            entries: HashMap::new(),
            next: 0,
            remote: BTreeSet::new(),
            by_holder: BTreeMap::new(),
        })))
    }
}

impl<P: AsRef<[u8]> + Clone> FaceTable<P> {
    /// The right to another face, and the one whose place it has, which must end now.
    ///
    /// # Errors
    /// The holder has as many as one may have, or all are in use and none can go.
    pub(crate) fn enter(self: &Arc<Self>, holder: Holder) -> Result<Entered<P>, Refusal> {
        // Dropped after the lock is released: they may be the last hold on a port, and that one's
        // place is given back under the lock.
        let mut seen = Vec::new();
        let mut state = self.0.lock();
        let mut evicted = None;
        if let Err(refusal) = state.shares.take(holder, 1) {
            let Refusal::Full { payer } = refusal else { return Err(refusal) };
            let victim = state.victim(holder, payer, &mut seen).ok_or(refusal)?;
            evicted = state.remove(victim);
            state.shares.take(holder, 1)?;
        }
        state.next += 1;
        let place = Place(state.next);
        state.entries.insert(place, Entry { holder, port: Weak::new(), key: None });
        drop(state);
        let evicted = evicted.and_then(|port| port.upgrade());
        Ok((Admission { table: self.clone(), place }, evicted))
    }

    /// Whether [`FaceTable::enter`] may succeed.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) fn check(&self, holder: Holder) -> Result<(), Refusal> {
        let mut seen = Vec::new();
        let mut state = self.0.lock();
        match state.shares.check(holder, 1) {
            Err(Refusal::Full { payer }) => {
                let victim = state.victim(holder, payer, &mut seen);
                victim.map(|_| ()).ok_or(Refusal::Full { payer })
            }
            checked => checked,
        }
    }

    /// From now on the face may have to go.
    pub(crate) fn know(&self, port: &Arc<FacePort<P>>) {
        let Some(place) = port.place() else { return };
        let mut state = self.0.lock();
        let Some(entry) = state.entries.get_mut(&place) else { return };
        entry.port = Arc::downgrade(port);
        let holder = entry.holder;
        if holder != Holder::Root && port.persistency() == FacePersistency::OnDemand {
            state.stand(place, Some(key(place, port)));
        }
    }

    /// All faces.
    pub(crate) fn ports(&self) -> Vec<Arc<FacePort<P>>> {
        self.0.lock().entries.values().filter_map(|entry| entry.port.upgrade()).collect()
    }
}

fn key<P: AsRef<[u8]> + Clone>(place: Place, port: &FacePort<P>) -> Key {
    (port.is_answered(), port.active_ns.load(Ordering::Relaxed), place)
}

impl<P> State<P> {
    /// Puts a face where it belongs among those that may have to go.
    fn stand(&mut self, place: Place, key: Option<Key>) {
        let Some(entry) = self.entries.get_mut(&place) else { return };
        let (holder, before) = (entry.holder, std::mem::replace(&mut entry.key, key));
        let of_holder = self.by_holder.entry(holder).or_default();
        if let Some(before) = before {
            of_holder.remove(&before);
            self.remote.remove(&before);
        }
        if let Some(key) = key {
            of_holder.insert(key);
            if !holder.is_local() {
                self.remote.insert(key);
            }
        } else if of_holder.is_empty() {
            self.by_holder.remove(&holder);
        }
    }

    fn remove(&mut self, place: Place) -> Option<Weak<FacePort<P>>> {
        self.stand(place, None);
        let entry = self.entries.remove(&place)?;
        self.shares.give_back(entry.holder, 1);
        Some(entry.port)
    }
}

impl<P: AsRef<[u8]> + Clone> State<P> {
    /// The face that makes room for one of `holder`. What is looked at goes to `seen`.
    fn victim(
        &mut self,
        holder: Holder,
        payer: Option<Holder>,
        seen: &mut Vec<Arc<FacePort<P>>>,
    ) -> Option<Place> {
        let idlest = self.first(None, seen);
        if let Some((false, _, place)) = idlest {
            return Some(place);
        }
        // Nobody on the network makes an application go.
        let payer = payer.filter(|payer| holder.is_local() || !payer.is_local());
        let paid = payer.and_then(|payer| self.first(Some(payer), seen));
        paid.or(idlest).map(|(_, _, place)| place)
    }

    /// The first of a holder, or of all peers on the network, after those that have moved on stand
    /// where they belong. Each look costs one packet that arrived since the last one.
    fn first(&mut self, of: Option<Holder>, seen: &mut Vec<Arc<FacePort<P>>>) -> Option<Key> {
        for _ in 0..=self.entries.len() {
            let set = match of {
                Some(holder) => self.by_holder.get(&holder)?,
                None => &self.remote,
            };
            let first = *set.first()?;
            let place = first.2;
            let port = self.entries.get(&place).and_then(|entry| entry.port.upgrade());
            let now = port
                .as_ref()
                .and_then(|port| (port.persistency() == FacePersistency::OnDemand).then(|| key(place, port)));
            seen.extend(port);
            if now == Some(first) {
                return now;
            }
            self.stand(place, now);
        }
        None
    }
}

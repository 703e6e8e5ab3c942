//! Admission of faces: quotas of their owners, and eviction when all slots are in use.
//!
//! The source address of a datagram may be forged, so faces cost an attacker little. A full table
//! evicts the first of these faces that exists:
//!
//! - the idlest face of a network peer to which nothing was ever sent;
//! - the idlest face of the owner with the most faces, if it has more than [`FACES_RESERVE`];
//! - the idlest face of all peers on the network.
//!
//! Faces of the configuration and of management are not evicted. A peer on the network never evicts
//! a face of a local user.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use namely_host::shares::{Owner, Refusal, ShareLimits, Shares};
use namely_messages::FacePersistency;
use parking_lot::Mutex;

use crate::labels::listener;
use crate::options::IoOptions;
use crate::port::FaceSender;

/// An owner with at most this many faces does not lose one because it has the most faces.
pub const FACES_RESERVE: usize = 16;

/// Faces that root and the router itself may have beyond the limit.
pub const FACES_ROOT_EXTRA: usize = 64;

/// Returns the label of the counter for a peer that receives no face.
pub(crate) fn label(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Ceiling => listener::TOO_MANY_OF_ONE_PEER,
        Refusal::Full { .. } => listener::TOO_MANY_TRANSPORTS,
    }
}

/// The key of a face in the table. Keys are never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct FaceKey(u64);

/// All faces with sockets.
pub(crate) struct FaceTable<P>(Mutex<State<P>>);

struct State<P> {
    shares: Shares,
    entries: HashMap<FaceKey, Entry<P>>,
    next: u64,
    /// Faces of peers on the network that may be evicted, in the order of eviction.
    remote: BTreeSet<EvictionKey>,
    /// Faces that may be evicted, by owner.
    by_holder: BTreeMap<Owner, BTreeSet<EvictionKey>>,
}

struct Entry<P> {
    holder: Owner,
    port: Weak<FaceSender<P>>,
    /// Its key in the order of eviction. `None` if it may not be evicted.
    key: Option<EvictionKey>,
}

/// The key of the order of eviction: whether a frame was ever sent to the peer, and the time of the
/// last arrival, ns. The values are those of the last refresh. A key is refreshed when its face is
/// first in the order, so an arriving packet costs nothing here.
type EvictionKey = (bool, u64, FaceKey);

/// A slot for one face in the table. Dropping it releases the slot.
pub(crate) struct Admission<P> {
    table: Arc<FaceTable<P>>,
    face: FaceKey,
}

/// The slot for a new face, and the face that was evicted for it. The caller must end the evicted
/// face now.
pub(crate) type AdmissionOutcome<P> = (Admission<P>, Option<Arc<FaceSender<P>>>);

impl<P> Admission<P> {
    pub(crate) fn face_key(&self) -> FaceKey {
        self.face
    }
}

impl<P> Drop for Admission<P> {
    fn drop(&mut self) {
        // Does nothing for an evicted face, because its entry was removed already.
        self.table.0.lock().remove(self.face);
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
    /// Takes a slot for a new face. Also returns the face that was evicted for it, which the caller
    /// must end now.
    ///
    /// # Errors
    /// The owner is at its ceiling, or all slots are in use and no face may be evicted.
    pub(crate) fn enter(self: &Arc<Self>, holder: Owner) -> Result<AdmissionOutcome<P>, Refusal> {
        // Dropped after the lock is released. These may be the last references to a port, and
        // dropping a port removes its entry under the same lock.
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
        let face = FaceKey(state.next);
        // The port does not exist yet. `know` sets it.
        state.entries.insert(face, Entry { holder, port: Weak::new(), key: None });
        drop(state);
        // Upgraded without the lock: if this is the last reference, its drop locks the table.
        let evicted = evicted.and_then(|port| port.upgrade());
        Ok((Admission { table: self.clone(), face }, evicted))
    }

    /// Checks whether [`FaceTable::enter`] would succeed now.
    ///
    /// # Errors
    /// The reason for which it would fail.
    pub(crate) fn check(&self, holder: Owner) -> Result<(), Refusal> {
        // Declared before the lock, and thus dropped after it, as in `enter`.
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

    /// Sets the port of a face. An on-demand face becomes a candidate for eviction, unless root
    /// owns it.
    pub(crate) fn know(&self, port: &Arc<FaceSender<P>>) {
        let Some(face) = port.face_key() else { return };
        let mut state = self.0.lock();
        let Some(entry) = state.entries.get_mut(&face) else { return };
        entry.port = Arc::downgrade(port);
        let holder = entry.holder;
        if holder != Owner::Root && port.persistency() == FacePersistency::OnDemand {
            state.stand(face, Some(key(face, port)));
        }
    }

    /// Returns the ports of all faces.
    pub(crate) fn ports(&self) -> Vec<Arc<FaceSender<P>>> {
        // Collected, so that the caller visits the ports without the lock.
        self.0.lock().entries.values().filter_map(|entry| entry.port.upgrade()).collect()
    }
}

fn key<P: AsRef<[u8]> + Clone>(face: FaceKey, port: &FaceSender<P>) -> EvictionKey {
    (port.is_answered(), port.active_ns(), face)
}

impl<P> State<P> {
    /// Sets the key of a face in the order of eviction.
    fn stand(&mut self, face: FaceKey, key: Option<EvictionKey>) {
        let Some(entry) = self.entries.get_mut(&face) else { return };
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
            // If empty sets stayed, the map would grow with every address that ever had a face.
            self.by_holder.remove(&holder);
        }
    }

    fn remove(&mut self, face: FaceKey) -> Option<Weak<FaceSender<P>>> {
        self.stand(face, None);
        let entry = self.entries.remove(&face)?;
        self.shares.give_back(entry.holder, 1);
        Some(entry.port)
    }
}

impl<P: AsRef<[u8]> + Clone> State<P> {
    /// Returns the face to evict for `holder`. Adds the ports that it visits to `seen`.
    fn victim(
        &mut self,
        holder: Owner,
        payer: Option<Owner>,
        seen: &mut Vec<Arc<FaceSender<P>>>,
    ) -> Option<FaceKey> {
        let idlest = self.first(None, seen);
        // A face to which nothing was sent may have cost its peer only one datagram, whose source
        // may be forged.
        if let Some((false, _, face)) = idlest {
            return Some(face);
        }
        // A peer on the network never evicts an application's face.
        let payer = payer.filter(|payer| holder.is_local() || !payer.is_local());
        let paid = payer.and_then(|payer| self.first(Some(payer), seen));
        paid.or(idlest).map(|(_, _, face)| face)
    }

    /// Refreshes stale keys, and returns the first key of an owner, or of all peers on the network
    /// if `of` is `None`. A key is stale only if a packet was received or sent since its last
    /// refresh, so the refreshes are no more than the packets.
    fn first(&mut self, of: Option<Owner>, seen: &mut Vec<Arc<FaceSender<P>>>) -> Option<EvictionKey> {
        // Each pass refreshes one face. Packets that arrive meanwhile must not prolong the search.
        for _ in 0..=self.entries.len() {
            let set = match of {
                Some(holder) => self.by_holder.get(&holder)?,
                None => &self.remote,
            };
            let first = *set.first()?;
            let face = first.2;
            let port = self.entries.get(&face).and_then(|entry| entry.port.upgrade());
            let now = port
                .as_ref()
                .and_then(|port| (port.persistency() == FacePersistency::OnDemand).then(|| key(face, port)));
            seen.extend(port);
            if now == Some(first) {
                return now;
            }
            self.stand(face, now);
        }
        None
    }
}

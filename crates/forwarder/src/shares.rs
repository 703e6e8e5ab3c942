//! Quotas of tables, so that no user of a router exhausts a table. Each face has an *owner*
//! ([`Owner`]), which is charged for the entries of the face. An owner may have several faces.
//! These rules hold for every table:
//!
//! - **Ceiling.** Each face and each owner has a maximum, which is far less than the whole table.
//! - **Reserve.** Entries of an owner up to its reserve are never evicted.
//! - **The largest owner loses.** When a table is full, a new entry of an owner with fewer entries
//!   evicts an entry of an owner with more ([`pays`]). A new entry of the largest owner is refused.
//! - **The router is exempt.** [`OwnerId::ROUTER`] has no ceiling, and its entries are never
//!   evicted. In the PIT, however, each of its faces has the ceiling of a face, so that no single
//!   program of root fills the PIT.
//!
//! The data path does not run this code for each packet. The control path charges each route and
//! each binding ([`OwnerAccounting`]). A face receives its share of the PIT in grants of several
//! entries ([`Grants`]), and uses a grant without a lock. An owner may therefore be charged, for
//! each of its faces, for up to [`IDLE_MAX`] entries that are not in use.

use crate::error::ConfigError;
use crate::face_id::FaceKey;
use crate::ordered::{NoMemory, Ordered, Pieces};

/// The owner of a face's entries: an opaque number that the embedder assigns, for example to a
/// user, an address, or a device. Faces with the same number share one quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub u128);

impl OwnerId {
    /// The router itself, and users with all rights on its machine. This owner has no ceiling, and
    /// its entries are never evicted.
    pub const ROUTER: OwnerId = OwnerId(0);
}

/// An owner as the tables identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Assigned by the embedder.
    Given(OwnerId),
    /// A face without an assigned owner: it owns its entries itself.
    Face(FaceKey),
}

impl Owner {
    pub(crate) const ROUTER: Owner = Owner::Given(OwnerId::ROUTER);
}

/// The limits of a table for one face and one owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceilings {
    pub(crate) face_max: u32,
    pub(crate) holder_max: u32,
}

/// The ceiling that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ceiling {
    Face,
    Owner,
}

/// Returns true if an owner with `victim` entries loses one to an owner with `newcomer` entries.
/// The victim must have more entries than both the newcomer and the reserve.
pub(crate) fn pays(victim: u32, newcomer: u32, reserve: u32) -> bool {
    victim > newcomer.max(reserve)
}

/// Minimum number of entries of a grant, if the ceilings leave as many.
// The lock is taken once per grant. Larger grants would leave more of an owner's ceiling unused.
const GRANT: u32 = 16;

/// Maximum number of entries that a face is granted and does not use.
// Two grants, because with one a face at the boundary would return and request a grant with each
// packet.
pub(crate) const IDLE_MAX: u32 = 2 * GRANT;

/// Index of an owner in [`Grants`]; the router's is [`ROUTER_INDEX`].
pub(crate) type OwnerIndex = u32;

/// The index of the router. No other owner has it, so it also stands for "none".
pub(crate) const ROUTER_INDEX: OwnerIndex = 0;

/// No limit.
pub(crate) const ALL: u32 = u32::MAX;

/// Grants of faces, and their sums by owner.
pub(crate) struct Grants {
    ceilings: Ceilings,
    /// The grant of each face, by the slot of the face.
    faces: Ordered<u32, FaceGrant>,
    indices: Ordered<Owner, OwnerIndex>,
    /// Owner `index` is at position `index - 1`. The router has no element.
    holders: Pieces<OwnerUsage>,
    /// The head of the list of released indices; [`ROUTER_INDEX`] if the list is empty.
    free: OwnerIndex,
}

#[derive(Clone, Copy)]
struct FaceGrant {
    generation: u32,
    holder: OwnerIndex,
    entries: u32,
}

#[derive(Clone, Copy)]
struct OwnerUsage {
    owner: Owner,
    /// The number of registered faces. In a released element: the next released index.
    faces: u32,
    entries: u32,
}

/// The grant of a face after a change, and its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) granted: u32,
    pub(crate) holder: OwnerIndex,
    /// The grants of all faces of the owner.
    pub(crate) of_holder: u32,
}

impl Grants {
    /// Reserves memory for faces in `slots` slots, and for as many owners.
    pub(crate) fn new(ceilings: Ceilings, slots: usize) -> Result<Self, ConfigError> {
        Ok(Grants {
            ceilings,
            faces: Ordered::with_room(slots)?,
            indices: Ordered::with_room(slots)?,
            holders: Pieces::with_room(slots)?,
            free: ROUTER_INDEX,
        })
    }

    /// Registers a face. If an earlier face is registered in its slot, it is removed, and the
    /// remaining share of its owner is returned, too.
    pub(crate) fn open(&mut self, face: FaceKey, owner: Owner) -> Result<(Share, Option<Share>), NoMemory> {
        // Allocations, which may fail, come first.
        self.faces.reserve()?;
        self.indices.reserve()?;
        self.holders.reserve(self.holders.len() + 1)?;
        let before = self.faces.get(&face.slot).map(|known| known.generation);
        let closed = before.and_then(|generation| self.close(FaceKey { slot: face.slot, generation }));
        let holder = self.index_of(owner)?;
        if let Some(holding) = self.holding_mut(holder) {
            holding.faces += 1;
        }
        // The router has no ceiling as an owner, so each of its faces is granted its own ceiling at
        // once.
        let entries = if holder == ROUTER_INDEX { self.ceilings.face_max } else { 0 };
        self.faces.insert(face.slot, FaceGrant { generation: face.generation, holder, entries })?;
        Ok((self.share(holder, entries), closed))
    }

    /// Removes a face and its grant. `None` if the face is not registered.
    pub(crate) fn close(&mut self, face: FaceKey) -> Option<Share> {
        let FaceGrant { holder, entries, .. } = *self.granted(face)?;
        self.faces.remove(&face.slot);
        if let Some(holding) = self.holding_mut(holder) {
            holding.faces -= 1;
            holding.entries -= entries;
            let OwnerUsage { owner, faces, .. } = *holding;
            if faces == 0 {
                self.indices.remove(&owner);
                // The elements themselves form the list of released indices, so that a release
                // allocates nothing.
                let next = core::mem::replace(&mut self.free, holder);
                self.holding_mut(holder).into_iter().for_each(|free| free.faces = next);
            }
        }
        Some(self.share(holder, 0))
    }

    /// Raises the grant of a face by `wanted` entries, at least [`GRANT`], or by as many as the
    /// ceilings leave. `None` if the face is not registered.
    pub(crate) fn grant(&mut self, face: FaceKey, wanted: u32) -> Option<Result<Share, Ceiling>> {
        let ceilings = self.ceilings;
        let FaceGrant { holder, entries, .. } = *self.granted(face)?;
        if holder == ROUTER_INDEX {
            // The face was granted its ceiling at registration.
            return Some(Err(Ceiling::Face));
        }
        let of_face = ceilings.face_max.saturating_sub(entries);
        let of_holder = ceilings.holder_max.saturating_sub(self.held(holder));
        let more = wanted.max(GRANT).min(of_face).min(of_holder);
        Some(match more {
            0 if of_face == 0 => Err(Ceiling::Face),
            0 => Err(Ceiling::Owner),
            _ => Ok(self.set(face.slot, entries + more)),
        })
    }

    /// Reduces the grant of a face that uses `used` entries, if it has more than one grant unused.
    /// `None` if the face is not registered.
    pub(crate) fn trim(&mut self, face: FaceKey, used: u32) -> Option<Share> {
        let FaceGrant { holder, entries, .. } = *self.granted(face)?;
        // One unused grant remains, so that the next packets need no lock.
        let kept = used.saturating_add(GRANT);
        if holder == ROUTER_INDEX || entries <= kept {
            return Some(self.share(holder, entries));
        }
        Some(self.set(face.slot, kept))
    }

    /// The owner that is charged for a face; the face itself if it is not registered.
    pub(crate) fn owner_of(&self, face: FaceKey) -> Owner {
        match self.granted(face) {
            Some(known) => self.holding(known.holder).map_or(Owner::ROUTER, |holding| holding.owner),
            None => Owner::Face(face),
        }
    }

    fn granted(&self, face: FaceKey) -> Option<&FaceGrant> {
        self.faces.get(&face.slot).filter(|known| known.generation == face.generation)
    }

    fn set(&mut self, slot: u32, entries: u32) -> Share {
        let Some(granted) = self.faces.get_mut(&slot) else { return self.share(ROUTER_INDEX, 0) };
        let (holder, before) = (granted.holder, granted.entries);
        granted.entries = entries;
        if let Some(holding) = self.holding_mut(holder) {
            holding.entries = holding.entries - before + entries;
        }
        self.share(holder, entries)
    }

    fn share(&self, holder: OwnerIndex, granted: u32) -> Share {
        Share { granted, holder, of_holder: self.held(holder) }
    }

    fn held(&self, holder: OwnerIndex) -> u32 {
        self.holding(holder).map_or(0, |holding| holding.entries)
    }

    fn holding(&self, holder: OwnerIndex) -> Option<&OwnerUsage> {
        self.holders.get((holder as usize).checked_sub(1)?)
    }

    fn holding_mut(&mut self, holder: OwnerIndex) -> Option<&mut OwnerUsage> {
        self.holders.get_mut((holder as usize).checked_sub(1)?)
    }

    fn index_of(&mut self, owner: Owner) -> Result<OwnerIndex, NoMemory> {
        if owner == Owner::ROUTER {
            return Ok(ROUTER_INDEX);
        }
        if let Some(known) = self.indices.get(&owner) {
            return Ok(*known);
        }
        let holding = OwnerUsage { owner, faces: 0, entries: 0 };
        let index = match self.free {
            ROUTER_INDEX => {
                self.holders.push(holding)?;
                self.holders.len() as OwnerIndex
            }
            index => {
                if let Some(free) = self.holding_mut(index) {
                    let next = core::mem::replace(free, holding).faces;
                    self.free = next;
                }
                index
            }
        };
        // `open` has reserved the memory, so this cannot fail after the index was taken.
        self.indices.insert(owner, index)?;
        Ok(index)
    }
}

/// The number and octets of names in a table, as a charge or as a ceiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) count: usize,
    /// Octets of the names.
    pub(crate) octets: usize,
}

impl Names {
    /// No ceiling.
    #[cfg(test)]
    pub(crate) const ALL: Names = Names { count: usize::MAX, octets: usize::MAX };
}

/// The owner that is charged for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// The route is the router's own, or from one of its managers: no owner is charged.
    Router,
    /// The owner of the face that the route leads to.
    Owner,
}

/// The number and octets of each owner's names in a table that the control path writes.
#[derive(Debug)]
pub(crate) struct OwnerAccounting {
    holder_max: Names,
    held: Ordered<Owner, Names>,
}

/// Outcome of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChargeOutcome {
    Yes,
    /// The owner would exceed its ceiling; nothing is charged.
    Full,
    /// There is no memory to record the charge; nothing is charged.
    NoMemory,
}

impl OwnerAccounting {
    pub(crate) fn new(holder_max: Names) -> Self {
        OwnerAccounting { holder_max, held: Ordered::default() }
    }

    /// Charges one name of `octets` octets.
    pub(crate) fn charge(&mut self, owner: Owner, octets: usize) -> ChargeOutcome {
        if owner == Owner::ROUTER {
            return ChargeOutcome::Yes;
        }
        let held = self.held.get(&owner).copied().unwrap_or_default();
        let after = Names { count: held.count + 1, octets: held.octets + octets };
        if after.count > self.holder_max.count || after.octets > self.holder_max.octets {
            return ChargeOutcome::Full;
        }
        match self.held.insert(owner, after) {
            Ok(()) => ChargeOutcome::Yes,
            Err(NoMemory) => ChargeOutcome::NoMemory,
        }
    }

    /// Reverts one charge.
    pub(crate) fn credit(&mut self, owner: Owner, octets: usize) {
        let Some(held) = self.held.get_mut(&owner) else { return };
        held.count = held.count.saturating_sub(1);
        held.octets = held.octets.saturating_sub(octets);
        if held.count == 0 {
            self.held.remove(&owner);
        }
    }

    /// Returns the names that are charged to an owner.
    #[cfg(test)]
    pub(crate) fn held(&self, owner: Owner) -> Names {
        self.held.get(&owner).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

//! Shares: nobody uses up what others need. Each face has a *holder*, who pays for what the face
//! has in a table; a holder may have several faces. The rules, for every table:
//!
//! - **Ceiling.** A face, and a holder, has at most so much, which is far less than the whole.
//! - **Reserve.** What a holder has up to its reserve is never taken from it.
//! - **The largest pays.** When a table is full, one who has less gets in at the cost of one who
//!   has more ([`pays`]), and who has most is refused.
//! - **The router is exempt.** [`HolderId::ROUTER`] has no ceiling, and it never pays; but each of
//!   its faces has one in the PIT as any face has, so that no single program of root's fills it.
//!
//! Nothing here is done for each packet. The control path charges routes and bindings one by one
//! ([`Ledger`]). A face gets its share of the PIT in grants of several entries ([`Grants`]), within
//! which its packets count without a lock; so a holder may be charged for up to
//! [`IDLE_MAX`] entries of each face that are not in use.

use crate::error::ConfigError;
use crate::face_id::FaceKey;
use crate::ordered::{NoMemory, Ordered, Pieces};

/// Who pays for what a face has: an opaque number that the home gives, such as for a user, an
/// address, or a device. Faces with one number pay together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u128);

impl HolderId {
    /// The router itself, and who has all rights on its machine: has no ceiling and never pays.
    pub const ROUTER: HolderId = HolderId(0);
}

/// A holder as the tables know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// As the home said.
    Given(HolderId),
    /// A face that the home gave no holder: its own.
    Face(FaceKey),
}

impl Holder {
    pub(crate) const ROUTER: Holder = Holder::Given(HolderId::ROUTER);
}

/// The limits of a table for one face and one holder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceilings {
    pub(crate) face_max: u32,
    pub(crate) holder_max: u32,
}

/// Which ceiling is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ceiling {
    Face,
    Holder,
}

/// Returns true if a holder that has `victim` gives up one for a newcomer that has `newcomer`:
/// only who has more than both the newcomer and the reserve pays.
pub(crate) fn pays(victim: u32, newcomer: u32, reserve: u32) -> bool {
    victim > newcomer.max(reserve)
}

/// Entries that a face gets at once.
const GRANT: u32 = 16;

/// Entries that a face may have been granted and not use.
pub(crate) const IDLE_MAX: u32 = 2 * GRANT;

/// Number of a holder in [`Grants`]; the router's is [`ROUTER_INDEX`].
pub(crate) type HolderIndex = u32;

/// The router's number, and that of faces that are not entered.
pub(crate) const ROUTER_INDEX: HolderIndex = 0;

/// No limit.
pub(crate) const ALL: u32 = u32::MAX;

/// Grants of faces and what they make of holders.
pub(crate) struct Grants {
    ceilings: Ceilings,
    /// By slot.
    faces: Ordered<u32, Granted>,
    indices: Ordered<Holder, HolderIndex>,
    /// By index, from 1 on: the router's is not kept.
    holders: Pieces<Holding>,
    /// The first index that was used and is not; [`ROUTER_INDEX`] if there is none.
    free: HolderIndex,
}

#[derive(Clone, Copy)]
struct Granted {
    generation: u32,
    holder: HolderIndex,
    entries: u32,
}

#[derive(Clone, Copy)]
struct Holding {
    who: Holder,
    /// Of an index that is not in use, the next one of these.
    faces: u32,
    entries: u32,
}

/// What a face has after a change, and its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) granted: u32,
    pub(crate) holder: HolderIndex,
    /// What all faces of the holder have.
    pub(crate) of_holder: u32,
}

impl Grants {
    /// For faces in so many slots, of which each has one holder at most.
    pub(crate) fn new(ceilings: Ceilings, slots: usize) -> Result<Self, ConfigError> {
        Ok(Grants {
            ceilings,
            faces: Ordered::with_room(slots)?,
            indices: Ordered::with_room(slots)?,
            holders: Pieces::with_room(slots)?,
            free: ROUTER_INDEX,
        })
    }

    /// Enters a face, in the place of one that had its slot before; of that one's holder it says
    /// what is left.
    pub(crate) fn open(&mut self, face: FaceKey, who: Holder) -> Result<(Share, Option<Share>), NoMemory> {
        // What may be refused comes first.
        self.faces.reserve()?;
        self.indices.reserve()?;
        self.holders.reserve(self.holders.len() + 1)?;
        let before = self.faces.get(&face.slot).map(|known| known.generation);
        let closed = before.and_then(|generation| self.close(FaceKey { slot: face.slot, generation }));
        let holder = self.index_of(who)?;
        if let Some(holding) = self.holding_mut(holder) {
            holding.faces += 1;
        }
        let entries = if holder == ROUTER_INDEX { self.ceilings.face_max } else { 0 };
        self.faces.insert(face.slot, Granted { generation: face.generation, holder, entries })?;
        Ok((self.share(holder, entries), closed))
    }

    /// Forgets a face and what it was granted; `None` if it is not entered, or no longer.
    pub(crate) fn close(&mut self, face: FaceKey) -> Option<Share> {
        let Granted { holder, entries, .. } = *self.granted(face)?;
        self.faces.remove(&face.slot);
        if let Some(holding) = self.holding_mut(holder) {
            holding.faces -= 1;
            holding.entries -= entries;
            let Holding { who, faces, .. } = *holding;
            if faces == 0 {
                self.indices.remove(&who);
                let next = core::mem::replace(&mut self.free, holder);
                self.holding_mut(holder).into_iter().for_each(|free| free.faces = next);
            }
        }
        Some(self.share(holder, 0))
    }

    /// Grants a face more, `wanted` entries or as many as the ceilings leave. `None` if the face is
    /// not entered.
    pub(crate) fn grant(&mut self, face: FaceKey, wanted: u32) -> Option<Result<Share, Ceiling>> {
        let ceilings = self.ceilings;
        let Granted { holder, entries, .. } = *self.granted(face)?;
        if holder == ROUTER_INDEX {
            // It has all that a face may have from the beginning.
            return Some(Err(Ceiling::Face));
        }
        let of_face = ceilings.face_max.saturating_sub(entries);
        let of_holder = ceilings.holder_max.saturating_sub(self.held(holder));
        let more = wanted.max(GRANT).min(of_face).min(of_holder);
        Some(match more {
            0 if of_face == 0 => Err(Ceiling::Face),
            0 => Err(Ceiling::Holder),
            _ => Ok(self.set(face.slot, entries + more)),
        })
    }

    /// Takes back what a face that uses `used` entries was granted too much; `None` if the face is
    /// not entered.
    pub(crate) fn trim(&mut self, face: FaceKey, used: u32) -> Option<Share> {
        let Granted { holder, entries, .. } = *self.granted(face)?;
        let kept = used.saturating_add(GRANT);
        if holder == ROUTER_INDEX || entries <= kept {
            return Some(self.share(holder, entries));
        }
        Some(self.set(face.slot, kept))
    }

    /// Who pays for a face; itself if it is not entered.
    pub(crate) fn holder_of(&self, face: FaceKey) -> Holder {
        match self.granted(face) {
            Some(known) => self.holding(known.holder).map_or(Holder::ROUTER, |holding| holding.who),
            None => Holder::Face(face),
        }
    }

    fn granted(&self, face: FaceKey) -> Option<&Granted> {
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

    fn share(&self, holder: HolderIndex, granted: u32) -> Share {
        Share { granted, holder, of_holder: self.held(holder) }
    }

    fn held(&self, holder: HolderIndex) -> u32 {
        self.holding(holder).map_or(0, |holding| holding.entries)
    }

    fn holding(&self, holder: HolderIndex) -> Option<&Holding> {
        self.holders.get((holder as usize).checked_sub(1)?)
    }

    fn holding_mut(&mut self, holder: HolderIndex) -> Option<&mut Holding> {
        self.holders.get_mut((holder as usize).checked_sub(1)?)
    }

    fn index_of(&mut self, who: Holder) -> Result<HolderIndex, NoMemory> {
        if who == Holder::ROUTER {
            return Ok(ROUTER_INDEX);
        }
        if let Some(known) = self.indices.get(&who) {
            return Ok(*known);
        }
        let holding = Holding { who, faces: 0, entries: 0 };
        let index = match self.free {
            ROUTER_INDEX => {
                self.holders.push(holding)?;
                self.holders.len() as HolderIndex
            }
            index => {
                if let Some(free) = self.holding_mut(index) {
                    let next = core::mem::replace(free, holding).faces;
                    self.free = next;
                }
                index
            }
        };
        self.indices.insert(who, index)?;
        Ok(index)
    }
}

/// What names in a table cost, and what one holder may have of it.
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

/// Whom a route is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Nobody: it is the router's own, or of who may manage it.
    Router,
    /// The holder of the face that it leads to.
    Holder,
}

/// What each holder has of a table that the control path writes.
#[derive(Debug)]
pub(crate) struct Ledger {
    holder_max: Names,
    held: Ordered<Holder, Names>,
}

/// Outcome of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charged {
    Yes,
    /// The holder would have more than it may; nothing is charged.
    Full,
    /// There is no memory to note it; nothing is charged.
    NoMemory,
}

impl Ledger {
    pub(crate) fn new(holder_max: Names) -> Self {
        Ledger { holder_max, held: Ordered::default() }
    }

    /// Charges one name of so many octets.
    pub(crate) fn charge(&mut self, who: Holder, octets: usize) -> Charged {
        if who == Holder::ROUTER {
            return Charged::Yes;
        }
        let held = self.held.get(&who).copied().unwrap_or_default();
        let after = Names { count: held.count + 1, octets: held.octets + octets };
        if after.count > self.holder_max.count || after.octets > self.holder_max.octets {
            return Charged::Full;
        }
        match self.held.insert(who, after) {
            Ok(()) => Charged::Yes,
            Err(NoMemory) => Charged::NoMemory,
        }
    }

    /// Takes a charge back.
    pub(crate) fn credit(&mut self, who: Holder, octets: usize) {
        let Some(held) = self.held.get_mut(&who) else { return };
        held.count = held.count.saturating_sub(1);
        held.octets = held.octets.saturating_sub(octets);
        if held.count == 0 {
            self.held.remove(&who);
        }
    }

    /// What a holder has.
    #[cfg(test)]
    pub(crate) fn held(&self, who: Holder) -> Names {
        self.held.get(&who).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

//! Who has how much of something that there is only so much of: faces, octets, handshakes,
//! commands. So that nobody uses up what others need, each *holder* has a ceiling, a part is kept
//! for this machine's own programs, and when all is in use the largest holder pays.
//!
//! Only sums are kept here. What a holder gives up, and when, is for whoever owns the things: on
//! [`Refusal::Full`] it takes something of the holder named there, gives that back, and asks again.
//! Nothing here reads a clock, waits, or makes a system call.
//!
//! ```
//! use namely_host::shares::{Holder, Refusal, ShareLimits, Shares};
//!
//! let limits = ShareLimits { total: 10, ceiling: 8, ..ShareLimits::default() };
//! let mut clients = Shares::new(limits);
//! let [one, other] = [1, 2].map(Holder::uid);
//! assert_eq!(clients.take(one, 8), Ok(()));
//! assert_eq!(clients.take(one, 1), Err(Refusal::Ceiling));
//! assert_eq!(clients.take(other, 2), Ok(()));
//! assert_eq!(clients.take(other, 1), Err(Refusal::Full { payer: Some(one) }));
//! clients.give_back(one, 1);
//! assert_eq!(clients.take(other, 1), Ok(()));
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who something is counted for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Holder {
    /// The router itself, and root's programs on this machine. There is no ceiling for it.
    Root,
    /// A user of this machine, as the kernel says. Made by [`Holder::uid`].
    Uid(u32),
    /// A host on the network, or several that share an IPv6 prefix of 64 bits. Made by
    /// [`Holder::address`].
    Address(IpAddr),
    /// A station of a local network, by its address there.
    Station([u8; 6]),
    /// A site that a gateway serves from its origin, by its number there.
    Site(u32),
}

impl Holder {
    /// A user of this machine.
    pub fn uid(uid: u32) -> Self {
        if uid == 0 { Holder::Root } else { Holder::Uid(uid) }
    }

    /// Whoever is at an address. Of IPv6 addresses the first 64 bits count, since a host has the
    /// rest to choose from; an IPv4 address counts as itself however it is written. Addresses of
    /// the loopback are no exception: they do not say which user is there.
    pub fn address(address: IpAddr) -> Self {
        let IpAddr::V6(v6) = address.to_canonical() else { return Holder::Address(address.to_canonical()) };
        let [a, b, c, d, ..] = v6.segments();
        Holder::Address(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
    }

    /// A number for who knows no holders: another one for each. Root's is 0.
    pub fn number(self) -> u128 {
        let (kind, value): (u128, u128) = match self {
            Holder::Root => (0, 0),
            Holder::Uid(uid) => (1, uid.into()),
            Holder::Address(IpAddr::V4(address)) => (2, u32::from(address).into()),
            Holder::Address(IpAddr::V6(prefix)) => (3, u128::from(prefix) >> 64),
            Holder::Station([a, b, c, d, e, f]) => (4, u64::from_be_bytes([0, 0, a, b, c, d, e, f]).into()),
            Holder::Site(number) => (5, number.into()),
        };
        kind << 64 | value
    }

    /// Returns true for programs of this machine, whose user the kernel has told.
    pub fn is_local(self) -> bool {
        matches!(self, Holder::Root | Holder::Uid(_))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Root => f.write_str("root"),
            Holder::Uid(uid) => write!(f, "uid {uid}"),
            Holder::Address(IpAddr::V6(prefix)) => write!(f, "{prefix}/64"),
            Holder::Address(address) => write!(f, "{address}"),
            Holder::Site(number) => write!(f, "site {number}"),
            Holder::Station(octets) => {
                let [first, rest @ ..] = octets;
                write!(f, "{first:02x}")?;
                rest.iter().try_for_each(|octet| write!(f, ":{octet:02x}"))
            }
        }
    }
}

/// How much there is, and for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareLimits {
    /// Most that all together have; root's `root_extra` comes on top.
    pub total: u64,
    /// Most that one holder has. There is no such limit for root.
    pub ceiling: u64,
    /// Most that a user of this machine has, if that is another number.
    pub local_ceiling: Option<u64>,
    /// A holder that has no more than this is never asked to pay.
    pub reserve: u64,
    /// The part of the total that only holders on this machine may have
    /// ([`Holder::is_local`]).
    pub local_reserve: u64,
    /// What root may have where the total is in use.
    pub root_extra: u64,
}

impl Default for ShareLimits {
    /// No limits at all.
    fn default() -> Self {
        ShareLimits {
            total: u64::MAX,
            ceiling: u64::MAX,
            local_ceiling: None,
            reserve: 0,
            local_reserve: 0,
            root_extra: 0,
        }
    }
}

/// Why a share was not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The holder has as much as one may have.
    Ceiling,
    /// All is in use.
    Full {
        /// The holder who pays, which may be the one who asked: of those who stand in the way, the
        /// one with most. `None` if nobody has more than the reserve.
        payer: Option<Holder>,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Ceiling => f.write_str("this user or host has as much as one may have"),
            Refusal::Full { .. } => f.write_str("as much is in use as may be"),
        }
    }
}

impl std::error::Error for Refusal {}

/// What each holder has.
#[derive(Clone, Debug)]
pub struct Shares {
    limits: ShareLimits,
    held: BTreeMap<Holder, u64>,
    local: Class,
    remote: Class,
}

/// Holders on this machine, or all others.
#[derive(Clone, Debug, Default)]
struct Class {
    used: u64,
    /// By what they have.
    by_size: BTreeSet<(u64, Holder)>,
}

impl Shares {
    /// Nobody has anything yet.
    pub fn new(limits: ShareLimits) -> Self {
        Shares { limits, held: BTreeMap::new(), local: Class::default(), remote: Class::default() }
    }

    /// The limits.
    pub fn limits(&self) -> &ShareLimits {
        &self.limits
    }

    /// What all together have.
    pub fn used(&self) -> u64 {
        self.local.used.saturating_add(self.remote.used)
    }

    /// What one has.
    pub fn held(&self, holder: Holder) -> u64 {
        self.held.get(&holder).copied().unwrap_or(0)
    }

    /// The holders, and what each has.
    pub fn holders(&self) -> impl Iterator<Item = (Holder, u64)> + '_ {
        self.held.iter().map(|(holder, held)| (*holder, *held))
    }

    /// Gives `amount` to a holder: all of it or nothing.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    pub fn take(&mut self, holder: Holder, amount: u64) -> Result<(), Refusal> {
        self.check(holder, amount)?;
        self.set(holder, self.held(holder).saturating_add(amount));
        Ok(())
    }

    /// Whether [`Shares::take`] would give `amount`.
    ///
    /// # Errors
    /// What it would say.
    pub fn check(&self, holder: Holder, amount: u64) -> Result<(), Refusal> {
        let ShareLimits { total, local_reserve, root_extra, .. } = self.limits;
        let used = self.used().checked_add(amount);
        if holder == Holder::Root {
            let fits = used.is_some_and(|used| used <= total.saturating_add(root_extra));
            return if fits { Ok(()) } else { Err(self.full(holder, amount)) };
        }
        let ceiling = self.limits.local_ceiling.filter(|_| holder.is_local()).unwrap_or(self.limits.ceiling);
        if self.held(holder).checked_add(amount).is_none_or(|held| held > ceiling) {
            return Err(Refusal::Ceiling);
        }
        let fits = used.is_some_and(|used| used <= total);
        let fits_class = holder.is_local()
            || self.remote.used.saturating_add(amount) <= total.saturating_sub(local_reserve);
        if fits && fits_class { Ok(()) } else { Err(self.full(holder, amount)) }
    }

    /// Takes back what a holder had; more than it had is all of it.
    pub fn give_back(&mut self, holder: Holder, amount: u64) {
        self.set(holder, self.held(holder).saturating_sub(amount));
    }

    /// The holder that has most; of several, any. Root is never it.
    pub fn largest(&self) -> Option<(Holder, u64)> {
        [self.remote.largest(), self.local.largest()].into_iter().flatten().max_by_key(|(_, held)| *held)
    }

    /// Who must give something up so that `holder` can have `amount`.
    fn full(&self, holder: Holder, amount: u64) -> Refusal {
        // Where only the part of the remote ones is in use, the local ones have nothing to do with
        // it.
        let is_remote_part = self.used().checked_add(amount).is_some_and(|used| used <= self.limits.total);
        let largest = if is_remote_part { self.remote.largest() } else { self.largest() };
        let own = self.held(holder).saturating_add(amount);
        let payer = match largest {
            // Whoever would be the largest pays himself: two of one size do not take turns.
            Some((_, most)) if holder != Holder::Root && own > most => Some((holder, self.held(holder))),
            largest => largest,
        };
        let payer = payer.filter(|(_, held)| *held > self.limits.reserve);
        Refusal::Full { payer: payer.map(|(holder, _)| holder) }
    }

    fn set(&mut self, holder: Holder, held: u64) {
        let before = self.held(holder);
        let class = if holder.is_local() { &mut self.local } else { &mut self.remote };
        class.used = class.used.saturating_sub(before).saturating_add(held);
        class.by_size.remove(&(before, holder));
        if held == 0 {
            self.held.remove(&holder);
        } else {
            class.by_size.insert((held, holder));
            self.held.insert(holder, held);
        }
    }
}

impl Class {
    fn largest(&self) -> Option<(Holder, u64)> {
        let mut from_the_largest = self.by_size.iter().rev();
        from_the_largest.find(|(_, holder)| *holder != Holder::Root).map(|(held, holder)| (*holder, *held))
    }
}

/// [`Shares`] that several threads draw from. Clones are the same pool.
#[derive(Clone, Debug)]
pub struct SharePool(Arc<Mutex<Shares>>);

impl SharePool {
    /// Nobody has anything yet.
    pub fn new(limits: ShareLimits) -> Self {
        SharePool(Arc::new(Mutex::new(Shares::new(limits))))
    }

    /// Gives `amount` to a holder until the share is dropped.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn take(&self, holder: Holder, amount: u64) -> Result<Share, Refusal> {
        self.lock().take(holder, amount)?;
        Ok(Share { pool: self.clone(), holder, amount: AtomicU64::new(amount) })
    }

    /// Whether [`SharePool::take`] would give `amount` now.
    ///
    /// # Errors
    /// What it would say.
    pub fn check(&self, holder: Holder, amount: u64) -> Result<(), Refusal> {
        self.lock().check(holder, amount)
    }

    /// What all together have.
    pub fn used(&self) -> u64 {
        self.lock().used()
    }

    /// What one has.
    pub fn held(&self, holder: Holder) -> u64 {
        self.lock().held(holder)
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        // Sums are complete whenever the lock is free, however its last owner ended.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a pool that somebody has. It is given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    pool: SharePool,
    holder: Holder,
    amount: AtomicU64,
}

impl Share {
    /// Whose it is.
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// How much.
    pub fn amount(&self) -> u64 {
        self.amount.load(Ordering::Relaxed)
    }

    /// Gives all of it back before its time: somebody else may have it while what it stood for is
    /// being taken down. It is empty then.
    pub fn give_back(&self) {
        let amount = self.amount.swap(0, Ordering::Relaxed);
        if amount > 0 {
            self.pool.lock().give_back(self.holder, amount);
        }
    }

    /// Takes more of the pool.
    ///
    /// # Errors
    /// [`Refusal`]; the share is as before then.
    pub fn grow(&mut self, amount: u64) -> Result<(), Refusal> {
        self.pool.lock().take(self.holder, amount)?;
        let all = self.amount.get_mut();
        *all = all.saturating_add(amount);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;

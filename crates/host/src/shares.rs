//! Quota accounting of a limited resource: faces, octets, handshakes, commands. Each *holder* has a
//! ceiling, a part is reserved for this machine's own programs, and the largest holder pays when
//! all is in use. A holder therefore cannot use up the share of others.
//!
//! Only sums are stored here. The owner of the resource decides when and how a holder pays: on
//! [`Refusal::Full`] it evicts something of that holder, gives it back, and tries again. Nothing
//! here reads a clock, waits, or makes a system call.
//!
//! ```
//! use namely_host::shares::{Owner, Refusal, ShareLimits, Shares};
//!
//! let limits = ShareLimits { total: 10, ceiling: 8, ..ShareLimits::default() };
//! let mut clients = Shares::new(limits);
//! let [one, other] = [1, 2].map(Owner::uid);
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

/// The owner for which something is counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// The router itself, and root's programs on this machine. There is no ceiling for it.
    Root,
    /// A user of this machine, as reported by the kernel. Made by [`Owner::uid`].
    Uid(u32),
    /// A host on the network, or several that share an IPv6 prefix of 64 bits. Made by
    /// [`Owner::address`].
    Address(IpAddr),
    /// A host on a local network, by its link address.
    Station([u8; 6]),
    /// A site that a gateway serves from its origin, by its number there.
    Site(u32),
}

impl Owner {
    /// A user of this machine.
    pub fn uid(uid: u32) -> Self {
        if uid == 0 { Owner::Root } else { Owner::Uid(uid) }
    }

    /// A host at an address. Of IPv6 addresses the first 64 bits count, because a host can choose
    /// the others. An IPv4 address counts as itself in either notation. Addresses of the loopback
    /// are no exception, because they do not identify the user.
    pub fn address(address: IpAddr) -> Self {
        let IpAddr::V6(v6) = address.to_canonical() else { return Owner::Address(address.to_canonical()) };
        let [a, b, c, d, ..] = v6.segments();
        Owner::Address(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
    }

    /// Returns a distinct number for each holder, for code that does not use holders. Root's is 0.
    pub fn number(self) -> u128 {
        let (kind, value): (u128, u128) = match self {
            Owner::Root => (0, 0),
            Owner::Uid(uid) => (1, uid.into()),
            Owner::Address(IpAddr::V4(address)) => (2, u32::from(address).into()),
            Owner::Address(IpAddr::V6(prefix)) => (3, u128::from(prefix) >> 64),
            Owner::Station([a, b, c, d, e, f]) => (4, u64::from_be_bytes([0, 0, a, b, c, d, e, f]).into()),
            Owner::Site(number) => (5, number.into()),
        };
        kind << 64 | value
    }

    /// Returns true for programs of this machine, whose user the kernel has reported.
    pub fn is_local(self) -> bool {
        matches!(self, Owner::Root | Owner::Uid(_))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Root => f.write_str("root"),
            Owner::Uid(uid) => write!(f, "uid {uid}"),
            Owner::Address(IpAddr::V6(prefix)) => write!(f, "{prefix}/64"),
            Owner::Address(address) => write!(f, "{address}"),
            Owner::Site(number) => write!(f, "site {number}"),
            Owner::Station(octets) => {
                let [first, rest @ ..] = octets;
                write!(f, "{first:02x}")?;
                rest.iter().try_for_each(|octet| write!(f, ":{octet:02x}"))
            }
        }
    }
}

/// The amount of a resource, and its shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareLimits {
    /// Maximum for all holders together; root's `root_extra` is added to it.
    pub total: u64,
    /// Maximum for one holder. It does not apply to root.
    pub ceiling: u64,
    /// Maximum for a user of this machine, if it differs.
    pub local_ceiling: Option<u64>,
    /// A holder with no more than this never pays.
    pub reserve: u64,
    /// The part of the total that is reserved for holders on this machine ([`Owner::is_local`]).
    pub local_reserve: u64,
    /// The amount that root may have beyond the total.
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

/// The reason for which a share was not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The holder has reached its ceiling.
    #[error("this user or host has as much as one may have")]
    Ceiling,
    /// All is in use.
    #[error("as much is in use as may be")]
    Full {
        /// The holder that pays, which may be the requesting one: the largest of the holders in the
        /// way. `None` if no holder has more than the reserve.
        payer: Option<Owner>,
    },
}

/// The amounts of all holders.
#[derive(Clone, Debug)]
pub struct Shares {
    limits: ShareLimits,
    held: BTreeMap<Owner, u64>,
    local: Class,
    remote: Class,
}

/// Holders on this machine, or all others.
#[derive(Clone, Debug, Default)]
struct Class {
    used: u64,
    /// Holders by their amounts.
    by_size: BTreeSet<(u64, Owner)>,
}

impl Shares {
    /// Makes accounts without any holder.
    pub fn new(limits: ShareLimits) -> Self {
        Shares { limits, held: BTreeMap::new(), local: Class::default(), remote: Class::default() }
    }

    /// The limits.
    pub fn limits(&self) -> &ShareLimits {
        &self.limits
    }

    /// Returns the amount of all holders together.
    pub fn used(&self) -> u64 {
        self.local.used.saturating_add(self.remote.used)
    }

    /// Returns the amount of one holder.
    pub fn held(&self, holder: Owner) -> u64 {
        self.held.get(&holder).copied().unwrap_or(0)
    }

    /// The holders and their amounts.
    pub fn holders(&self) -> impl Iterator<Item = (Owner, u64)> + '_ {
        self.held.iter().map(|(holder, held)| (*holder, *held))
    }

    /// Gives `amount` to a holder: all of it or nothing.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    pub fn take(&mut self, holder: Owner, amount: u64) -> Result<(), Refusal> {
        self.check(holder, amount)?;
        self.set(holder, self.held(holder).saturating_add(amount));
        Ok(())
    }

    /// Checks that [`Shares::take`] would give `amount`.
    ///
    /// # Errors
    /// The error that it would return.
    pub fn check(&self, holder: Owner, amount: u64) -> Result<(), Refusal> {
        let ShareLimits { total, local_reserve, root_extra, .. } = self.limits;
        let used = self.used().checked_add(amount);
        if holder == Owner::Root {
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

    /// Takes back an amount of a holder. An amount above the held one takes back all of it.
    pub fn give_back(&mut self, holder: Owner, amount: u64) {
        self.set(holder, self.held(holder).saturating_sub(amount));
    }

    /// Returns the largest holder, or any of several with the same amount. Root is never returned.
    pub fn largest(&self) -> Option<(Owner, u64)> {
        [self.remote.largest(), self.local.largest()].into_iter().flatten().max_by_key(|(_, held)| *held)
    }

    /// Returns the refusal with the holder that must pay before `holder` can have `amount`.
    fn full(&self, holder: Owner, amount: u64) -> Refusal {
        // If only the part of the remote holders is in use, local holders do not pay.
        let is_remote_part = self.used().checked_add(amount).is_some_and(|used| used <= self.limits.total);
        let largest = if is_remote_part { self.remote.largest() } else { self.largest() };
        let own = self.held(holder).saturating_add(amount);
        let payer = match largest {
            // A holder that would become the largest pays itself, so that two of one size do not
            // evict each other alternately.
            Some((_, most)) if holder != Owner::Root && own > most => Some((holder, self.held(holder))),
            largest => largest,
        };
        let payer = payer.filter(|(_, held)| *held > self.limits.reserve);
        Refusal::Full { payer: payer.map(|(holder, _)| holder) }
    }

    fn set(&mut self, holder: Owner, held: u64) {
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
    fn largest(&self) -> Option<(Owner, u64)> {
        let mut from_the_largest = self.by_size.iter().rev();
        from_the_largest.find(|(_, holder)| *holder != Owner::Root).map(|(held, holder)| (*holder, *held))
    }
}

/// [`Shares`] that several threads draw from. Clones are the same pool.
#[derive(Clone, Debug)]
pub struct SharePool(Arc<Mutex<Shares>>);

impl SharePool {
    /// Makes a pool without any holder.
    pub fn new(limits: ShareLimits) -> Self {
        SharePool(Arc::new(Mutex::new(Shares::new(limits))))
    }

    /// Gives `amount` to a holder until the share is dropped.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn take(&self, holder: Owner, amount: u64) -> Result<Share, Refusal> {
        self.lock().take(holder, amount)?;
        Ok(Share { pool: self.clone(), holder, amount: AtomicU64::new(amount) })
    }

    /// Checks that [`SharePool::take`] would give `amount` now.
    ///
    /// # Errors
    /// The error that it would return.
    pub fn check(&self, holder: Owner, amount: u64) -> Result<(), Refusal> {
        self.lock().check(holder, amount)
    }

    /// Returns the amount of all holders together.
    pub fn used(&self) -> u64 {
        self.lock().used()
    }

    /// Returns the amount of one holder.
    pub fn held(&self, holder: Owner) -> u64 {
        self.lock().held(holder)
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        // The sums are consistent whenever the lock is free, even after a panic of its last owner.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a pool. It is given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    pool: SharePool,
    holder: Owner,
    amount: AtomicU64,
}

impl Share {
    /// Returns its holder.
    pub fn holder(&self) -> Owner {
        self.holder
    }

    /// The amount of the share.
    pub fn amount(&self) -> u64 {
        self.amount.load(Ordering::Relaxed)
    }

    /// Gives all of it back early, so that another holder can have it while the resource is being
    /// released. The share is empty then.
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

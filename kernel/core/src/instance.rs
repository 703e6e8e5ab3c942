//! The forwarder of one network namespace, and the module's requests other than packets.

use alloc::boxed::Box;

use namely_forwarder::{
    BindError, Bound, Config, CsChange, FaceError, FaceId, FaceProperties, FibError, Forwarder, StrategyError,
};
use namely_link::{LinkConfig, LinkKind, LinkService, MTU_OCTETS_MIN, ReassemblyTotal};
use namely_wire::NameRef;

use crate::home::{Embedder, Lock, allocate, linger, sha256};
use crate::packets::{Link, Queue};
use crate::rows;
use crate::skb::Skb;

/// Octets of incomplete messages that all links of an instance may hold.
const REASSEMBLY_OCTETS_MAX: usize = 1 << 20;

/// The limits that a home may set: `struct nn_limits` of nnet.h.
#[repr(C)]
pub(crate) struct Limits {
    faces: u32,
    pit_entries: u32,
    cs_packets: u32,
    fib_entries: u32,
    bindings: u32,
    strategies: u32,
    cs_octets: u64,
}

/// Maximum number of Data that one call of `cs_shrink` evicts.
const SHRUNK_PER_CALL: usize = 64;

/// Maximum number of entries of each kind that one call of `expire` ends.
pub(crate) const EXPIRED_PER_CALL: usize = 128;

/// Index entries of the content store for each Data: one for each prefix of its name.
const CS_ENTRIES_PER_PACKET: usize = 8;

/// The reason of a refused call, as the kernel's error number.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(crate) enum Refused {
    NoFace = -2,
    Io = -5,
    NoMemory = -12,
    Invalid = -22,
    NoRoom = -28,
    Quota = -122,
    InUse = -98,
    NotSupported = -95,
    TooLong = -90,
    BadDigest = -74,
}

/// The answer to a call: a number that is not negative, or the reason of the refusal.
pub(crate) type Answer = Result<u64, Refused>;

// The sizes of a bucket of the PIT with its lock, and of a pending Interest (`IS-34`, `IS-27`).
const _: () = assert!(Forwarder::<Skb, Lock>::PIT_BUCKET_OCTETS == 8);
const _: () = assert!(Forwarder::<Skb, Lock>::PIT_ENTRY_OCTETS <= 280);

/// A forwarder and the state that its links share.
pub(crate) struct Instance {
    pub(crate) core: Box<Forwarder<Skb, Lock>>,
    pub(crate) reassembly: ReassemblyTotal,
    /// Maximum number of packets for which the content store has memory.
    cs_packets_max: usize,
}

impl Instance {
    /// Creates an instance. This takes long, and needs much memory.
    #[inline(never)]
    pub(crate) fn new(limits: &Limits, seed: u128) -> Result<Box<Self>, Refused> {
        let mut config = Config::new(sha256);
        let pit_entries = limits.pit_entries as usize;
        config.faces_max = limits.faces as usize;
        config.pit.entries_max = pit_entries;
        config.pit.entries_per_face_max = (pit_entries / 2).max(1);
        config.pit.entries_per_holder_max = (pit_entries / 2).max(1);
        config.dead_nonces.entries_max = pit_entries;
        config.cs.packets_max = limits.cs_packets as usize;
        config.cs.entries_max = config.cs.packets_max.saturating_mul(CS_ENTRIES_PER_PACKET);
        config.cs.octets_max = limits.cs_octets;
        config.fib.entries_max = limits.fib_entries as usize;
        config.bindings.entries_max = limits.bindings as usize;
        config.strategies.choices_max = limits.strategies as usize;
        config.strategies.prefixes_max = limits.strategies as usize;
        let cs_packets_max = config.cs.packets_max;
        let core = make(config, seed)?;
        let reassembly = ReassemblyTotal::unshared(REASSEMBLY_OCTETS_MAX);
        Ok(Box::write(allocate()?, Instance { core, reassembly, cs_packets_max }))
    }

    /// Allocates the memory for one more name in a table, in a context that may sleep. The next
    /// name that enters finds that memory, unless other names come in between.
    pub(crate) fn make_room(&self, table: u64, name: NameRef<'_>) -> Answer {
        let octets = name.as_bytes().len();
        let made = match table {
            rows::FIB => self.core.fib().make_room(1, octets),
            rows::BINDINGS => self.core.bindings().make_room(1, octets),
            rows::STRATEGIES => self.core.strategies().make_room(1, octets),
            _ => return Err(Refused::Invalid),
        };
        made.map(|()| 0).map_err(|_| Refused::NoMemory)
    }

    /// Creates the link service of a face: a socket's if `mtu` is 0, else a device's.
    #[inline(never)]
    pub(crate) fn make_link(
        total: &'static ReassemblyTotal,
        mtu: u64,
        sequence: u64,
    ) -> Result<Box<Link>, Refused> {
        let kind = match mtu as usize {
            0 => LinkKind::Stream,
            mtu if mtu >= MTU_OCTETS_MIN => LinkKind::Datagram { mtu },
            _ => return Err(Refused::Invalid),
        };
        Ok(Box::write(allocate()?, Self::new_link(total, kind, sequence)))
    }

    #[inline(never)]
    fn new_link(total: &'static ReassemblyTotal, kind: LinkKind, sequence: u64) -> Link {
        Link::new(LinkService::new(LinkConfig::new(kind), total, sequence))
    }

    pub(crate) fn face_register(&self, kind: u64) -> Answer {
        let kinds = [FaceProperties::application(), FaceProperties::remote(), FaceProperties::group()];
        let properties =
            usize::try_from(kind).ok().and_then(|kind| kinds.get(kind)).ok_or(Refused::Invalid)?;
        match self.core.face_register(*properties) {
            Ok(face) => Ok(face.0),
            Err(FaceError::TableFull) => Err(Refused::NoRoom),
            Err(FaceError::NoMemory) => Err(Refused::NoMemory),
            Err(FaceError::NotFound | FaceError::Permanent) => Err(Refused::NoFace),
        }
    }

    pub(crate) fn face_release(&self, face: FaceId) -> Answer {
        // `expire` sweeps the face's remaining table entries.
        self.core.face_release_within(face, 0).map(|_| 0).map_err(|_| Refused::NoFace)
    }

    pub(crate) fn route_add(&self, prefix: NameRef<'_>, face: FaceId, cost: u64) -> Answer {
        match self.core.fib().add_nexthop(prefix, face, cost) {
            Ok(()) => Ok(0),
            Err(FibError::NoFace) => Err(Refused::NoFace),
            Err(FibError::NoMemory) => Err(Refused::NoMemory),
            Err(FibError::TableFull | FibError::NextHopsFull) => Err(Refused::NoRoom),
        }
    }

    pub(crate) fn route_remove(&self, prefix: NameRef<'_>, face: FaceId) -> Answer {
        if self.core.fib().remove_nexthop(prefix, face) { Ok(0) } else { Err(Refused::NoFace) }
    }

    /// Binds a face to a prefix. Returns 1 if no route leads to the local face yet.
    pub(crate) fn bind(&self, face: FaceId, prefix: NameRef<'_>) -> Answer {
        match self.core.bindings().bind(face, prefix) {
            Ok(Bound::Routed) => Ok(0),
            Ok(Bound::NotRouted) => Ok(1),
            Err(BindError::InUse) => Err(Refused::InUse),
            Err(BindError::NoFace) => Err(Refused::NoFace),
            Err(BindError::NotUpper) => Err(Refused::NotSupported),
            Err(BindError::TableFull) => Err(Refused::NoRoom),
            Err(BindError::OwnerFull) => Err(Refused::Quota),
            Err(BindError::NoMemory) => Err(Refused::NoMemory),
        }
    }

    pub(crate) fn unbind(&self, face: FaceId, prefix: NameRef<'_>) -> Answer {
        if self.core.bindings().unbind(face, prefix) { Ok(0) } else { Err(Refused::NoFace) }
    }

    pub(crate) fn strategy_set(&self, prefix: NameRef<'_>, strategy: NameRef<'_>) -> Answer {
        self.core.strategies().set(prefix, strategy).map(|_| 0).map_err(refused_strategy)
    }

    pub(crate) fn strategy_unset(&self, prefix: NameRef<'_>) -> Answer {
        match self.core.strategies().unset(prefix) {
            Ok(true) => Ok(0),
            Ok(false) => Err(Refused::NoFace),
            Err(error) => Err(refused_strategy(error)),
        }
    }

    /// Changes the content store's capacity, up to the capacity at creation. `cs_shrink` removes
    /// the packets beyond it.
    pub(crate) fn cs_limit(&self, packets_max: u64) -> Answer {
        let packets_max = usize::try_from(packets_max).map_err(|_| Refused::Invalid)?;
        if packets_max > self.cs_packets_max {
            return Err(Refused::NoRoom);
        }
        self.core.cs().change(&CsChange { packets_max: Some(packets_max), ..CsChange::default() });
        Ok(0)
    }

    /// Evicts some of the Data beyond the capacity. Returns 1 if more remain.
    pub(crate) fn cs_shrink(&self) -> Answer {
        Ok(u64::from(self.core.cs().shrink(SHRUNK_PER_CALL)))
    }

    /// Erases up to `count` Data at or under a prefix. Returns the number that it erased.
    pub(crate) fn cs_erase(&self, prefix: NameRef<'_>, count: u64) -> Answer {
        let (erased, _) = self.core.cs().erase(prefix, usize::try_from(count).unwrap_or(usize::MAX));
        Ok(erased as u64)
    }

    /// Does the work that is due. Returns the time of the next call, ns: `u64::MAX` if nothing
    /// waits.
    #[inline(never)]
    pub(crate) fn expire(&self, queue: &mut Queue, home: Embedder, now_ns: u64) -> Answer {
        let due_ns = queue.expire(self, home, now_ns);
        queue.send(home, now_ns);
        Ok(due_ns)
    }
}

/// Creates a forwarder, and allocates the large tables in full. A packet must not make them grow: a
/// softirq cannot allocate megabytes.
#[inline(never)]
fn make(config: Config, seed: u128) -> Result<Box<Forwarder<Skb, Lock>>, Refused> {
    let place = allocate()?;
    let core = Box::write(place, Forwarder::new(config, seed).map_err(|_| Refused::NoMemory)?);
    core.prepare().map_err(|_| Refused::NoMemory)?;
    Ok(core)
}

fn refused_strategy(error: StrategyError) -> Refused {
    match error {
        StrategyError::Unknown => Refused::NotSupported,
        StrategyError::TableFull => Refused::NoRoom,
        StrategyError::NoMemory => Refused::NoMemory,
        _ => Refused::Invalid,
    }
}

/// Panics on purpose, so that a test sees the effect on the kernel. 0 panics at once, 1 panics with
/// a lock held that another processor waits for, 2 waits for that lock.
#[inline(never)]
pub(crate) fn planted_panic(how: u64) {
    static HELD: lock_api::Mutex<Lock, ()> = lock_api::Mutex::new(());
    if how > 0 {
        core::mem::forget(HELD.lock());
        linger();
    }
    panic!("planted");
}

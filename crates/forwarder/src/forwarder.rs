//! The forwarder: the calls that drive it, and access to each of its tables.
//!
//! [`Forwarder::grow`] allocates memory for future packets in a context that may wait. Tables grow
//! by pages of at most 4 KiB and then by chunks, and a large chunk has some megabytes. A packet
//! that needs a new page or chunk waits until it is zeroed. If only a few pages can be allocated at
//! a time, as in an interrupt of a kernel, a chunk cannot be allocated at all.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::{Name, NameRef};

use crate::batch::{Batch, BatchScratch};
use crate::config::Config;
#[cfg(feature = "vip")]
use crate::control::ObjectControl;
use crate::control::{
    BindingControl, CsControl, DiscoveryControl, FibControl, PitControl, StrategyControl, TableSizes,
};
use crate::counters::{DropReason, ForwarderCounters, HotCounter};
use crate::error::ConfigError;
use crate::explain::{Explanation, explain};
use crate::face_id::{FaceId, FaceKey};
use crate::faces::batch_context::BatchContext;
use crate::faces::{FaceError, FaceProperties, Faces, Released};
use crate::hash::{NameHasher, NameHashes};
use crate::ordered::NoMemory;
use crate::packet::{Output, PacketBuf, Received};
use crate::pipeline::Pipeline;
use crate::pipeline::expire::{EXPIRED_PER_CALL_MAX, Expiry, expire_within};
use crate::pipeline::read_ahead::{name_octets, read_ahead};
use crate::pipeline::sweep::{SWEPT_AT_ONCE_MAX, sweep_released};
use crate::pit::{Pit, Satisfied};
use crate::reserve::Reserve;
use crate::shares::{Owner, OwnerId};
use crate::strategy::RoundTripCounts;
use crate::tables::Tables;
use crate::tier::{Completion, Ticket};

/// An NDN forwarder. `B` holds packets, `R` is the embedder's lock.
pub struct Forwarder<B, R> {
    pub(crate) tables: Tables<B, R>,
}

/// The sizes of table entries, which embedders compare with their limits at compile time.
impl<B, R> Forwarder<B, R> {
    /// Octets of a bucket of the PIT with its lock (`IS-34`).
    pub const PIT_BUCKET_OCTETS: usize = Pit::<B, R>::BUCKET_OCTETS;

    /// Octets of a pending Interest with one downstream and one upstream, without its packet
    /// (`IS-27`).
    pub const PIT_ENTRY_OCTETS: usize = Pit::<B, R>::ENTRY_OCTETS;
}

/// The calls that drive the forwarder.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// A forwarder with no routes and only the face `local`. `seed` is the key of the name hashes
    /// and of the Nonces that the forwarder adds. It must be secret, random in all bits, and
    /// different for each router. A simulation uses a fixed seed to be repeatable.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: a limit is 0 but must be positive, a limit is too large, or there is no
    /// memory for the tables.
    pub fn new(config: Config, seed: u128) -> Result<Self, ConfigError> {
        config.check()?;
        Forwarder::with_hasher(config, NameHasher::new(seed))
    }

    pub(crate) fn with_hasher(config: Config, hasher: NameHasher) -> Result<Self, ConfigError> {
        Ok(Forwarder { tables: Tables::new(config, hasher)? })
    }

    /// Processes one packet that `face` received. Packets to send are passed to `out`; drops are
    /// counted. The octets may be arbitrary. The work memory is on the stack: an embedder with a
    /// small stack uses [`Forwarder::receive_batch`], whose batch contains it.
    pub fn receive(&self, face: FaceId, received: Received<B>, now_ns: u64, out: &mut impl Output<B>) {
        let mut hashes = NameHashes::new();
        self.tables.names.hasher.fill(name_octets(received.packet.as_ref()), &mut hashes);
        let reserve = Reserve::new(1);
        let context = BatchContext::new(&self.tables.faces, &self.tables.counters, &reserve, None, now_ns);
        let pipeline = Pipeline::new(&self.tables, &context);
        pipeline.process(face, received, &hashes, &mut Satisfied::new(), out);
        self.tables.settle(&reserve);
    }

    /// Processes all packets of `batch`, in their order, and leaves it empty. The result is that of
    /// [`Forwarder::receive`] for each packet, in less time.
    pub fn receive_batch(&self, batch: &mut Batch<B>, now_ns: u64, out: &mut impl Output<B>) {
        batch.make_hashes();
        let Batch { packets, hashes, work, .. } = batch;
        let BatchScratch { reserve, hint, satisfied } = &mut **work;
        let (reserve, hint) = (&*reserve, &*hint);
        reserve.begin(packets.len());
        let tables = &self.tables;
        let context = BatchContext::new(&tables.faces, &tables.counters, reserve, Some(hint), now_ns);
        let pipeline = Pipeline::new(tables, &context);
        let mut packets = packets.drain(..);
        while !packets.as_slice().is_empty() {
            // In groups, so that prefetched lines are still in the cache when their packet is
            // processed.
            let group = packets.as_slice().len().min(hashes.len());
            read_ahead(tables, &packets.as_slice()[..group], hashes);
            for ((face, received), hashes) in packets.by_ref().take(group).zip(hashes.iter()) {
                pipeline.process(face, received, hashes, satisfied, out);
                reserve.next();
            }
        }
        // At the end of the batch, because other workers may need the reserved ids before this
        // worker has packets again.
        tables.settle(reserve);
    }

    /// Ends pending Interests past their deadline (guide 4.2.6, Interest Finalize) and runs the
    /// timers of strategies. Returns the time of the next call; `None` if no deadline or timer is
    /// pending. A pending Interest ends within about a millisecond after its lifetime, and no
    /// packet reports this. `out` receives the packets that timers send: announcements of the
    /// tier's congestion and of its end.
    pub fn expire<O: Output<B>>(&self, now_ns: u64, out: &mut O) -> Option<u64> {
        self.expire_within(now_ns, EXPIRED_PER_CALL_MAX, out).next_ns
    }

    /// As [`Forwarder::expire`], with at most `budget` steps of each kind, for an embedder whose
    /// packets wait during a call. The cost of a call grows with the budget alone.
    pub fn expire_within<O: Output<B>>(&self, now_ns: u64, budget: usize, out: &mut O) -> Expiry {
        expire_within(&self.tables, now_ns, budget, out)
    }

    /// Completes a read that [`Tier::read`](crate::Tier::read) began. With Data, the Interest is
    /// answered and the Data is cached in memory, as if it had come from upstream. Without Data,
    /// the Interest is forwarded by its strategy. If the Interest is no longer pending, nothing
    /// happens.
    pub fn tier_completed(
        &self,
        ticket: Ticket,
        completion: Completion<B>,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) {
        let (tables, reserve, mut hashes) = (&self.tables, Reserve::new(1), NameHashes::new());
        let context = BatchContext::new(&tables.faces, &tables.counters, &reserve, None, now_ns);
        Pipeline::new(tables, &context).tier_completed(&mut hashes, ticket, completion, out);
        tables.settle(&reserve);
    }

    /// As [`Forwarder::tier_completed`], with the work memory of an empty batch instead of the
    /// stack.
    pub fn tier_completed_beside(
        &self,
        batch: &mut Batch<B>,
        ticket: Ticket,
        completion: Completion<B>,
        now_ns: u64,
        out: &mut impl Output<B>,
    ) {
        let tables = &self.tables;
        let (BatchScratch { reserve, hint, .. }, hashes) = batch.work_memory();
        let (reserve, hint) = (&*reserve, &*hint);
        reserve.begin(1);
        let context = BatchContext::new(&tables.faces, &tables.counters, reserve, Some(hint), now_ns);
        Pipeline::new(tables, &context).tier_completed(hashes, ticket, completion, out);
        tables.settle(reserve);
    }

    /// Allocates all memory of the PIT, of the content store and of the dead-nonce list that
    /// packets may need with the limits of [`crate::Config`]. Afterwards packets allocate memory
    /// for single entries, never a chunk, unless the content store's limits or policy change. Also
    /// allocates the buffer for the names of control calls. Takes locks while it allocates: an
    /// embedder whose packets must not wait calls it before it has any.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`]. Chunks that were allocated before the error stay allocated.
    pub fn prepare(&self) -> Result<(), ConfigError> {
        self.tables.names.prepare()?;
        self.tables.pit.prepare(self.tables.config.pit.entries_max)?;
        self.tables.dead_nonces.prepare()?;
        self.tables.cs.prepare(self.tables.config.cs.packets_max, self.tables.config.cs.entries_max)
    }

    /// Allocates the next chunk of each table that uses more than half of its last chunk, or of its
    /// pages. Also allocates a missing chunk of the content store's hash tables, if these are in
    /// use. Pages are left to the packets that need them. Returns true if a chunk was allocated;
    /// another call may then allocate more.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`]. Chunks that were allocated before the error stay allocated.
    pub fn grow(&self) -> Result<bool, ConfigError> {
        // An array, so that every table grows: `any` would stop at the first one that has grown.
        let grown = [
            self.tables.pit.grow()?,
            self.tables.cs.grow()?,
            self.tables.fib.grow()?,
            self.tables.bpt.grow()?,
            self.tables.strategies.grow()?,
        ];
        Ok(grown.contains(&true))
    }

    /// Returns true if the last chunk of a table in which packets allocate slots is more than half
    /// used: then it is time for [`Forwarder::grow`]. Reads some numbers and takes no lock.
    #[inline]
    pub fn is_growth_due(&self) -> bool {
        self.tables.pit.is_growth_due() || self.tables.cs.is_growth_due()
    }
}

/// Faces. Their release affects all tables.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Adds a face that is itself the owner of its table entries.
    ///
    /// # Errors
    ///
    /// [`FaceError::TableFull`] if `faces_max` faces exist, [`FaceError::NoMemory`].
    pub fn face_register(&self, spec: FaceProperties) -> Result<FaceId, FaceError> {
        self.register(spec, Owner::Face)
    }

    /// Adds a face whose table entries are charged to `holder`, with those of the owner's other
    /// faces.
    ///
    /// # Errors
    ///
    /// [`FaceError::TableFull`] if `faces_max` faces exist, [`FaceError::NoMemory`].
    pub fn face_register_for(&self, spec: FaceProperties, holder: OwnerId) -> Result<FaceId, FaceError> {
        self.register(spec, |_| Owner::Given(holder))
    }

    /// Registers a face. The memory for its release is allocated now, so that a release cannot
    /// fail.
    fn register(
        &self,
        spec: FaceProperties,
        owner_of: impl FnOnce(FaceKey) -> Owner,
    ) -> Result<FaceId, FaceError> {
        self.tables.departed.promise().map_err(|_| FaceError::NoMemory)?;
        // The PIT registers the face before its id is published, so that none of its packets is
        // uncounted.
        let entered = self.tables.faces.enter(spec).and_then(|key| {
            match self.tables.pit.open(key, owner_of(key), spec.scope) {
                Ok(()) => Ok(key.id()),
                Err(NoMemory) => {
                    // Cannot fail: the id is not published yet.
                    let _ = self.tables.faces.release(key.id());
                    Err(FaceError::NoMemory)
                }
            }
        });
        if entered.is_err() {
            // The face does not exist, so no release will use the memory that was promised for it.
            self.tables.departed.cancel_promise();
        }
        entered
    }

    /// Removes a face with its next hops, its bindings and its pending Interests. A pending
    /// Interest ends if the face was its only downstream. Never waits for packets that use the
    /// face. Later calls of [`Forwarder::expire`] clear most of the entries, but no packet is sent
    /// to the face from now on.
    ///
    /// # Errors
    ///
    /// [`FaceError::NotFound`] if there is no such face, [`FaceError::Permanent`] for
    /// [`FaceId::LOCAL`].
    pub fn face_release(&self, face: FaceId) -> Result<Released, FaceError> {
        self.face_release_within(face, SWEPT_AT_ONCE_MAX)
    }

    /// As `face_release`, but at most `budget` entries are cleared now.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn face_release_within(&self, face: FaceId, budget: usize) -> Result<Released, FaceError> {
        self.release(face, budget).map(|(_, released)| released)
    }

    /// As `face_release_within`, and returns the key that the face had.
    pub(crate) fn release(&self, face: FaceId, budget: usize) -> Result<(FaceKey, Released), FaceError> {
        let (key, released) = self.tables.faces.release(face)?;
        match released {
            Released::Freed => self.tables.counters.faces_freed.add(1),
            Released::Orphaned => self.tables.counters.faces_orphaned.add(1),
        }
        // The face table no longer contains the face. A `DiscoveryControl` that adds the face
        // after this step therefore detects the release, and removes it again.
        self.tables.discovery.lock().forget(key);
        // A caller that adds an entry for the face from now on removes it itself: see
        // [`Faces::was_released`]. The sweeps find the entries that were added before.
        self.tables.departed.add(key);
        sweep_released(&self.tables, budget);
        Ok((key, released))
    }
}

/// The tables.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// The face table.
    pub fn faces(&self) -> &Faces<R> {
        &self.tables.faces
    }

    /// Pending Interests.
    pub fn pit(&self) -> PitControl<'_, B, R> {
        let Tables { pit, faces, .. } = &self.tables;
        PitControl { pit, faces }
    }

    /// The content store.
    pub fn cs(&self) -> CsControl<'_, B, R> {
        let Tables { names, cs, counters, .. } = &self.tables;
        CsControl { names, cs, counters }
    }

    /// Next hops.
    pub fn fib(&self) -> FibControl<'_, R> {
        let Tables { names, fib, memory, faces, .. } = &self.tables;
        FibControl { names, fib, memory, faces }
    }

    /// The prefixes that applications have bound.
    pub fn bindings(&self) -> BindingControl<'_, B, R> {
        let Tables { names, bpt, fib, pit, faces, .. } = &self.tables;
        BindingControl { names, bpt, fib, pit, faces }
    }

    /// The strategies and the prefixes that they handle.
    pub fn strategies(&self) -> StrategyControl<'_, R> {
        let Tables { names, strategies, .. } = &self.tables;
        StrategyControl { names, strategies }
    }

    /// Registered objects.
    #[cfg(feature = "vip")]
    pub fn objects(&self) -> ObjectControl<'_, B, R> {
        let Tables { names, objects, cs, faces, .. } = &self.tables;
        ObjectControl { names, objects, cs, faces }
    }

    /// The faces that discovery Interests are sent to.
    pub fn discovery(&self) -> DiscoveryControl<'_, R> {
        let Tables { discovery, faces, .. } = &self.tables;
        DiscoveryControl { discovery, faces }
    }

    /// Sets the names of this router's regions; see [`crate::Config::regions`].
    pub fn regions_set(&self, regions: Vec<Name>) {
        self.tables.regions.set(regions);
    }

    /// From now on, an Interest that traces hops and whose HopLimit is exhausted here is sent to
    /// this face. With [`FaceId::NONE`] it is handled as any other Interest with an exhausted
    /// HopLimit.
    pub fn set_explainer(&self, face: FaceId) {
        self.tables.explainer.set(face);
    }
}

/// Counters and sizes.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// The number of entries in each table.
    pub fn table_sizes(&self) -> TableSizes {
        TableSizes {
            pit: self.tables.pit.len(),
            fib: self.tables.fib.len(),
            bindings: self.tables.bpt.len(),
            dead_nonces: self.tables.dead_nonces.len(),
            cs: self.cs().status().packets,
            strategy_prefixes: self.tables.memory.len(),
        }
    }

    /// Round-trip times of upstreams, by the name of the strategy that measured them.
    pub fn round_trips(&self) -> impl Iterator<Item = (Name, RoundTripCounts)> {
        self.tables.memory.round_trips().map(|(kind, counts)| (kind.name(), counts))
    }

    /// All counters.
    pub fn counters(&self) -> ForwarderCounters {
        let own = &self.tables.counters;
        ForwarderCounters {
            packets: self.tables.faces.packets(),
            satisfied: own.sum(HotCounter::Satisfied),
            unsatisfied: own.unsatisfied.value(),
            suppressed: own.sum(HotCounter::Suppressed),
            to_network: own.sum(HotCounter::ToNetwork),
            to_local: own.sum(HotCounter::ToLocal),
            faces_freed: own.faces_freed.value(),
            faces_orphaned: own.faces_orphaned.value(),
            orphans: self.tables.faces.orphans() as u64,
            strategy_memory_full: self.tables.memory.full(),
            tier: self.tables.cs.tier.read(),
            objects: self.tables.cs.object_counts(),
            drops: DropReason::ALL.map(|reason| own.drop_count(reason)),
        }
    }

    /// Explains how the tables would handle an Interest for `name`.
    pub fn explain(&self, name: NameRef<'_>) -> Explanation {
        explain(&self.tables, name)
    }
}

#[cfg(test)]
mod tests;

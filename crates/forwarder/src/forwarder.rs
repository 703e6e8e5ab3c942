//! The forwarder: its driving calls, and the way to each of its tables.
//!
//! Memory for packets that are yet to come is made where one may wait ([`Forwarder::grow`]).
//! Tables grow by chunks, of which a large one is some megabytes: a packet that opens one waits
//! until it is cleared, and where memory comes in pieces of a few pages, as in a kernel's
//! interrupt, it cannot be had at all.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::{Name, NameRef};

use crate::batch::{Batch, Work};
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
use crate::pipeline::sweep::{SWEPT_AT_ONCE_MAX, sweep_departed};
use crate::pit::{Pit, Satisfied};
use crate::reserve::Reserve;
use crate::shares::{Holder, HolderId};
use crate::strategy::RoundTripCounts;
use crate::tables::Tables;
use crate::tier::{Completion, Ticket};

/// An NDN forwarder. `B` holds packets, `R` is the home's lock.
pub struct Forwarder<B, R> {
    pub(crate) tables: Tables<B, R>,
}

/// The sizes of the tables, which homes compare with their limits at compile time.
impl<B, R> Forwarder<B, R> {
    /// Octets of a bucket of the PIT with its lock (`IS-34`).
    pub const PIT_BUCKET_OCTETS: usize = Pit::<B, R>::BUCKET_OCTETS;

    /// Octets of a pending Interest with one downstream and one upstream, beside its packet
    /// (`IS-27`).
    pub const PIT_ENTRY_OCTETS: usize = Pit::<B, R>::ENTRY_OCTETS;
}

/// Driving.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// A forwarder with no routes and only the face `local`. `seed` keys the name hashes and the
    /// Nonces it adds: secret and different for each router, all of its bits random; the same in a
    /// simulation that is to repeat itself.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: a limit of 0 where one is needed, one that is too large, or no memory for
    /// the tables.
    pub fn new(config: Config, seed: u128) -> Result<Self, ConfigError> {
        config.check()?;
        Forwarder::with_hasher(config, NameHasher::new(seed))
    }

    pub(crate) fn with_hasher(config: Config, hasher: NameHasher) -> Result<Self, ConfigError> {
        Ok(Forwarder { tables: Tables::new(config, hasher)? })
    }

    /// Processes one packet that `face` received. What is to be sent goes to `out`; what is dropped
    /// is counted. Any octets may be given. The work memory is on the stack: a home that has little
    /// of it uses [`Forwarder::receive_batch`], whose batch brings it.
    pub fn receive(&self, face: FaceId, received: Received<B>, now_ns: u64, out: &mut impl Output<B>) {
        let mut hashes = NameHashes::new();
        self.tables.names.hasher.fill(name_octets(received.packet.as_ref()), &mut hashes);
        let reserve = Reserve::new(1);
        let context = BatchContext::new(&self.tables.faces, &self.tables.counters, &reserve, None, now_ns);
        let pipeline = Pipeline::new(&self.tables, &context);
        pipeline.process(face, received, &hashes, &mut Satisfied::new(), out);
        self.tables.settle(&reserve);
    }

    /// Processes all packets of `batch`, in their order, and leaves it empty: the same as
    /// [`Forwarder::receive`] for each of them, in less time.
    pub fn receive_batch(&self, batch: &mut Batch<B>, now_ns: u64, out: &mut impl Output<B>) {
        let Batch { packets, hashes, work, .. } = batch;
        let Work { reserve, hint, satisfied } = &mut **work;
        let (reserve, hint) = (&*reserve, &*hint);
        reserve.begin(packets.len());
        let tables = &self.tables;
        let context = BatchContext::new(&tables.faces, &tables.counters, reserve, Some(hint), now_ns);
        let pipeline = Pipeline::new(tables, &context);
        let mut packets = packets.drain(..);
        while !packets.as_slice().is_empty() {
            let group = packets.as_slice().len().min(hashes.len());
            read_ahead(tables, &packets.as_slice()[..group], hashes);
            for ((face, received), hashes) in packets.by_ref().take(group).zip(hashes.iter()) {
                pipeline.process(face, received, hashes, satisfied, out);
                reserve.next();
            }
        }
        tables.settle(reserve);
    }

    /// Ends pending Interests (guide 4.2.6, Interest Finalize) whose time is over, runs the timers
    /// of strategies, and returns when to call again; `None` if nothing waits. A pending Interest
    /// ends within about a millisecond after its lifetime, silently. `out` takes packets that a
    /// timer sends: announcements of a congested tier.
    pub fn expire<O: Output<B>>(&self, now_ns: u64, out: &mut O) -> Option<u64> {
        self.expire_within(now_ns, EXPIRED_PER_CALL_MAX, out).next_ns
    }

    /// The same, with at most `budget` steps of each kind, for a home that does nothing else during
    /// a call. The cost of a call grows with the budget alone.
    pub fn expire_within<O: Output<B>>(&self, now_ns: u64, budget: usize, out: &mut O) -> Expiry {
        expire_within(&self.tables, now_ns, budget, out)
    }

    /// A read has completed that [`Tier::read`](crate::Tier::read) began. With Data the Interest is
    /// answered, and the Data is kept in memory, as if it had come from upstream; without, the
    /// Interest goes where its strategy sends it. If it is no longer pending, nothing happens.
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

    /// [`Forwarder::tier_completed`] with the work memory of a batch that is empty, and not of the
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
        let (reserve, hint, hashes) = batch.work_memory();
        reserve.begin(1);
        let context = BatchContext::new(&tables.faces, &tables.counters, reserve, Some(hint), now_ns);
        Pipeline::new(tables, &context).tier_completed(hashes, ticket, completion, out);
        tables.settle(reserve);
    }

    /// Makes all memory now that packets may need of the PIT and of the content store with the
    /// limits of [`crate::Config`]. After that, packets allocate memory for single entries, never a
    /// chunk, unless the content store's limits or policy are changed.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`]. Chunks that were made stay.
    pub fn prepare(&self) -> Result<(), ConfigError> {
        self.tables.pit.prepare(self.tables.config.pit.entries_max)?;
        self.tables.cs.prepare(self.tables.config.cs.packets_max, self.tables.config.cs.entries_max)
    }

    /// Makes the next chunk of each table that uses more than half of its last one, and of the
    /// content store's hash tables one, if they are in use and lack any. Returns true if it made
    /// something: then it is worth calling again.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`]. Chunks that were made stay.
    pub fn grow(&self) -> Result<bool, ConfigError> {
        let grown = [
            self.tables.pit.grow()?,
            self.tables.cs.grow()?,
            self.tables.fib.grow()?,
            self.tables.bpt.grow()?,
            self.tables.strategies.grow()?,
        ];
        Ok(grown.contains(&true))
    }

    /// Returns true if the last chunk of a table in which packets take places is more than half
    /// used: then it is time for [`Forwarder::grow`]. Reads some numbers and takes no lock.
    #[inline]
    pub fn is_growth_due(&self) -> bool {
        self.tables.pit.is_growth_due() || self.tables.cs.is_growth_due()
    }
}

/// Faces. Their release concerns all tables.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Adds a face that is charged alone for its entries in the tables.
    ///
    /// # Errors
    ///
    /// [`FaceError::TableFull`] if `faces_max` faces exist, [`FaceError::NoMemory`].
    pub fn face_register(&self, spec: FaceProperties) -> Result<FaceId, FaceError> {
        self.register(spec, Holder::Face)
    }

    /// Adds a face for which `holder` pays, together with its other faces.
    ///
    /// # Errors
    ///
    /// [`FaceError::TableFull`] if `faces_max` faces exist, [`FaceError::NoMemory`].
    pub fn face_register_for(&self, spec: FaceProperties, holder: HolderId) -> Result<FaceId, FaceError> {
        self.register(spec, |_| Holder::Given(holder))
    }

    /// The memory of its release is allocated now, so that a release cannot fail.
    fn register(
        &self,
        spec: FaceProperties,
        holder_of: impl FnOnce(FaceKey) -> Holder,
    ) -> Result<FaceId, FaceError> {
        self.tables.departed.promise().map_err(|_| FaceError::NoMemory)?;
        // The face is known to the PIT before its id is known to anybody: none of its packets comes
        // uncounted.
        let entered =
            self.tables.faces.enter(spec).and_then(|key| match self.tables.pit.open(key, holder_of(key)) {
                Ok(()) => Ok(key.id()),
                Err(NoMemory) => {
                    // Nobody knows it yet.
                    let _ = self.tables.faces.release(key.id());
                    Err(FaceError::NoMemory)
                }
            });
        if entered.is_err() {
            self.tables.departed.take_back();
        }
        entered
    }

    /// Removes a face with its next hops, its bindings and its pending Interests: an Interest ends
    /// if the face was its only downstream. Never waits for packets that hold it; all but a few
    /// entries are cleared by later calls of [`Forwarder::expire`], and no packet goes to the face
    /// from now on.
    ///
    /// # Errors
    ///
    /// [`FaceError::NotFound`] if there is no such face, [`FaceError::Permanent`] for
    /// [`FaceId::LOCAL`].
    pub fn face_release(&self, face: FaceId) -> Result<Released, FaceError> {
        self.face_release_within(face, SWEPT_AT_ONCE_MAX)
    }

    /// The same, but at most `budget` entries are cleared now.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn face_release_within(&self, face: FaceId, budget: usize) -> Result<Released, FaceError> {
        self.release(face, budget).map(|(_, released)| released)
    }

    /// The same, with the key that the face had.
    pub(crate) fn release(&self, face: FaceId, budget: usize) -> Result<(FaceKey, Released), FaceError> {
        let (key, released) = self.tables.faces.release(face)?;
        match released {
            Released::Freed => self.tables.counters.faces_freed.add(1),
            Released::Orphaned => self.tables.counters.faces_orphaned.add(1),
        }
        // After the face is gone from the table, so that `DiscoveryControl` cannot enter it again
        // unseen.
        self.tables.discovery.lock().forget(key);
        // A table that enters the face from here on removes the entry itself: see
        // [`Faces::has_gone`]. The sweeps find entries made before.
        self.tables.departed.add(key);
        sweep_departed(&self.tables, budget);
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
        PitControl { pit: &self.tables.pit }
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

    /// Which strategy handles which names.
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

    /// The faces that discoveries go to.
    pub fn discovery(&self) -> DiscoveryControl<'_, R> {
        let Tables { discovery, faces, .. } = &self.tables;
        DiscoveryControl { discovery, faces }
    }

    /// Names of the regions this router is in; see [`crate::Config::regions`].
    pub fn regions_set(&self, regions: Vec<Name>) {
        self.tables.regions.set(regions);
    }

    /// From now on a traceroute Interest that ends here goes to this face. With [`FaceId::NONE`] it
    /// is dropped, as any Interest with an exhausted HopLimit.
    pub fn set_explainer(&self, face: FaceId) {
        self.tables.explainer.set(face);
    }
}

/// Readings.
impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// How full the tables are.
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

    /// How long upstreams took to answer, as each strategy saw it that measures it, by its name.
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

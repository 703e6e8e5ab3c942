//! The forwarder: its tables and its two driving calls.

use alloc::boxed::Box;

use lock_api::{Mutex, RawMutex};
use namely_wire::{PACKET_OCTETS_MAX, types};

use crate::batch::name_octets;
use crate::bpt::Bpt;
use crate::config::{Config, ConfigError};
use crate::congestion::Told;
use crate::counters::{Counters, DropReason};
use crate::cs::Cs;
use crate::dead_nonces::DeadNonces;
use crate::discovery_faces::DiscoveryFaces;
use crate::faces::{BatchContext, FaceId, Faces};
use crate::fib::Fib;
use crate::hash::{NameHasher, NameHashes, STEP, mix};
use crate::objects::Objects;
use crate::packet::{Output, PacketBuf, Received};
use crate::pipeline::Departed;
use crate::pit::{Pit, Satisfied};
use crate::pool::{Apart, boxed};
use crate::prefix_table::NameOctets;
use crate::regions::Regions;
use crate::reserve::Reserve;
use crate::strategy::{StrategyChoice, StrategyMemory};
use crate::sync::plain::{AtomicU64, Ordering};
use crate::tier::Tier;
use crate::trace::{Step, decided};

/// An NDN forwarder. `B` holds packets, `R` is the home's lock.
pub struct Forwarder<B, R> {
    pub(crate) config: Apart<Config>,
    pub(crate) hasher: NameHasher,
    pub(crate) scratch: Mutex<R, Scratch>,
    /// Where the sequence of random numbers is.
    random: AtomicU64,
    pub(crate) faces: Apart<Faces<R>>,
    pub(crate) pit: Apart<Pit<B, R>>,
    pub(crate) cs: Apart<Cs<B, R>>,
    pub(crate) fib: Apart<Fib<R>>,
    pub(crate) bpt: Apart<Bpt<R>>,
    pub(crate) strategies: Apart<StrategyChoice<R>>,
    /// The registered objects (VIP).
    pub(crate) objects: Objects<R>,
    /// What strategies remember of prefixes.
    pub(crate) memory: StrategyMemory<R>,
    /// The faces that discoveries go to (self-learning).
    pub(crate) discovery: Mutex<R, DiscoveryFaces>,
    /// The neighbours that know that the tier has too much to do.
    pub(crate) told: Mutex<R, Told>,
    pub(crate) dead_nonces: DeadNonces<R>,
    pub(crate) regions: Regions<R>,
    /// Released faces that tables still mention.
    pub(crate) departed: Mutex<R, Departed>,
    pub(crate) counters: Apart<Counters>,
    /// Who answers Interests that follow a name hop by hop; 0 for nobody.
    pub(crate) explainer: AtomicU64,
}

/// Work memory that is more than a small stack has room for.
pub(crate) struct Scratch {
    /// Of the name that a control call is about, and of a forwarding hint beside a batch.
    pub(crate) hashes: Box<[NameHashes]>,
    /// Of a name that is read from a table.
    pub(crate) octets: Box<NameOctets>,
}

impl Scratch {
    fn new() -> Result<Self, ConfigError> {
        let octets = boxed(PACKET_OCTETS_MAX, || 0)?.try_into().map_err(|_| ConfigError::OutOfMemory)?;
        Ok(Scratch { hashes: boxed(1, NameHashes::new)?, octets })
    }
}

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
        let mut config = Apart::new(|| Ok(config))?;
        config.interest_lifetime_remote_ms_max =
            config.interest_lifetime_remote_ms_max.min(config.interest_lifetime_ms_max);
        let regions = core::mem::take(&mut config.regions);
        Ok(Forwarder {
            random: AtomicU64::new(hasher.secret()),
            hasher,
            scratch: Mutex::new(Scratch::new()?),
            faces: Apart::new(|| Faces::new(config.faces_max))?,
            pit: Apart::new(|| Pit::new(&config))?,
            cs: Apart::new(|| Cs::new(&config))?,
            fib: Apart::new(|| Fib::new(config.fib_entries_max, config.nexthops_max))?,
            bpt: Apart::new(|| Bpt::new(config.bindings_max, config.bindings_per_holder_max()))?,
            strategies: Apart::new(|| StrategyChoice::new(config.strategy_choices_max))?,
            objects: Objects::new(config.object_names_max, config.objects_max),
            memory: StrategyMemory::new(config.strategy_prefixes_max, config.strategy_faces_max)?,
            discovery: Mutex::new(DiscoveryFaces::default()),
            told: Mutex::new(Told::default()),
            dead_nonces: DeadNonces::new(config.dead_nonces_max, config.dead_nonce_lifetime_ns)?,
            regions: Regions::new(regions),
            departed: Mutex::new(Departed::default()),
            counters: Apart::new(Counters::new)?,
            explainer: AtomicU64::new(FaceId::NONE.0),
            config,
        })
    }

    /// Processes one packet that `face` received. What is to be sent goes to `out`; what is dropped
    /// is counted. Any octets may be given. The work memory is on the stack: a home that has little
    /// of it uses [`Forwarder::receive_batch`], whose batch brings it.
    pub fn receive(&self, face: FaceId, received: Received<B>, now_ns: u64, out: &mut impl Output<B>) {
        let mut hashes = NameHashes::new();
        self.hasher.fill(name_octets(received.packet.as_ref()), &mut hashes);
        let reserve = Reserve::new(1);
        let context = BatchContext::new(&self.faces, &self.counters, &reserve, None, now_ns);
        self.process(&context, face, received, (&hashes, &mut Satisfied::new()), out);
        self.settle(&reserve);
    }

    /// Gives back what was taken for packets and not used.
    pub(crate) fn settle(&self, reserve: &Reserve) {
        self.pit.settle(reserve);
        self.cs.settle(reserve);
    }

    /// The same for a packet whose name has `hashes`, if it has a name. `satisfied` is memory for
    /// what a Data satisfies, and is empty again when this returns.
    pub(crate) fn process<O: Output<B>>(
        &self,
        context: &BatchContext<'_, R>,
        face: FaceId,
        received: Received<B>,
        (hashes, satisfied): (&NameHashes, &mut Satisfied<B>),
        out: &mut O,
    ) {
        if let Some(tier) = out.tier() {
            tier.packet_begins();
        }
        let Some(ingress) = context.hold_ingress(face) else {
            self.counters.dropped(DropReason::UnknownFace);
            return decided(out, Step::Drops(DropReason::UnknownFace));
        };
        let octets = received.packet.as_ref();
        let is = |typ: u32| octets.first().is_some_and(|first| u32::from(*first) == typ);
        let result = if octets.len() > PACKET_OCTETS_MAX {
            Err(DropReason::TooLarge)
        } else if let Some(reason) = received.headers.nack {
            self.receive_nack(context, &ingress, &received, hashes, reason, out)
        } else if is(types::INTEREST) {
            self.receive_interest(context, &ingress, received, hashes, out)
        } else if is(types::DATA) {
            self.receive_data(context, &ingress, received, hashes, satisfied, out)
        } else {
            Err(DropReason::Malformed)
        };
        if let Err(reason) = result {
            self.counters.dropped(reason);
            decided(out, Step::Drops(reason));
        }
    }

    /// The next random number: the same in each run for the same seed and the same packets.
    pub(crate) fn next_random(&self) -> u64 {
        // Relaxed: each caller gets a number of its own, and nothing follows from their order.
        mix(self.random.fetch_add(STEP, Ordering::Relaxed))
    }

    /// The next Nonce for an Interest that lacks one.
    pub(crate) fn next_nonce(&self) -> [u8; 4] {
        (self.next_random() as u32).to_be_bytes()
    }
}

#[cfg(test)]
mod tests;

//! The parts of a forwarder. Each is a type with its own limits, its own methods and its own locks;
//! work on several of them is in `pipeline` for packets, and in `control` for the control path.

use lock_api::RawMutex;

use crate::bpt::Bpt;
use crate::config::Config;
use crate::congestion::{Announcements, Announcing};
use crate::counters::Counters;
use crate::cs::Cs;
use crate::dead_nonces::DeadNonces;
use crate::departed::Departed;
use crate::discovery_faces::Discovery;
use crate::error::ConfigError;
use crate::explainer::Explainer;
use crate::faces::Faces;
use crate::fib::Fib;
use crate::hash::NameHasher;
use crate::name_keys::NameKeys;
use crate::objects::Objects;
use crate::packet::PacketBuf;
use crate::pit::Pit;
use crate::pool::Apart;
use crate::random::Random;
use crate::regions::Regions;
use crate::reserve::Reserve;
use crate::strategy::{StrategyChoice, StrategyMemory};

/// All tables and their counters.
pub(crate) struct Tables<B, R> {
    pub(crate) config: Apart<Config>,
    /// Makes keys of names.
    pub(crate) names: NameKeys<R>,
    pub(crate) random: Random,
    pub(crate) faces: Apart<Faces<R>>,
    pub(crate) pit: Apart<Pit<B, R>>,
    pub(crate) cs: Apart<Cs<B, R>>,
    pub(crate) fib: Apart<Fib<R>>,
    pub(crate) bpt: Apart<Bpt<R>>,
    pub(crate) strategies: Apart<StrategyChoice<R>>,
    /// The registered objects (VIP).
    pub(crate) objects: Objects<R>,
    /// The strategies' memory of prefixes.
    pub(crate) memory: StrategyMemory<R>,
    /// The faces that discoveries go to (self-learning).
    pub(crate) discovery: Discovery<R>,
    /// The reports of the tier load to neighbors.
    pub(crate) announcements: Announcements<R>,
    pub(crate) dead_nonces: DeadNonces<R>,
    pub(crate) regions: Regions<R>,
    /// Released faces that tables still mention.
    pub(crate) departed: Departed<R>,
    pub(crate) counters: Apart<Counters>,
    /// Answers traceroute Interests.
    pub(crate) explainer: Explainer,
}

impl<B: PacketBuf, R: RawMutex> Tables<B, R> {
    pub(crate) fn new(config: Config, hasher: NameHasher) -> Result<Self, ConfigError> {
        let mut config = Apart::new(|| Ok(config))?;
        config.interest_lifetime_remote_ms_max =
            config.interest_lifetime_remote_ms_max.min(config.interest_lifetime_ms_max);
        let regions = core::mem::take(&mut config.regions);
        Ok(Tables {
            random: Random::new(hasher.secret()),
            names: NameKeys::new(hasher)?,
            faces: Apart::new(|| Faces::new(config.faces_max))?,
            pit: Apart::new(|| Pit::new(&config.pit, config.faces_max))?,
            cs: Apart::new(|| Cs::new(&config.cs, config.cs_policy, config.cs_admit, config.cs_serve))?,
            fib: Apart::new(|| Fib::new(&config.fib))?,
            bpt: Apart::new(|| Bpt::new(&config.bindings))?,
            strategies: Apart::new(|| StrategyChoice::new(config.strategies.choices_max))?,
            objects: Objects::new(&config.objects),
            memory: StrategyMemory::new(&config.strategies)?,
            discovery: Discovery::new(),
            announcements: Announcements::new(config.cs_announce_ns),
            dead_nonces: DeadNonces::new(&config.dead_nonces)?,
            regions: Regions::new(regions),
            departed: Departed::new(),
            counters: Apart::new(Counters::new)?,
            explainer: Explainer::none(),
            config,
        })
    }

    /// Returns ids that were reserved for packets and not used.
    pub(crate) fn settle(&self, reserve: &Reserve) {
        self.pit.settle(reserve);
        self.cs.settle(reserve);
    }

    /// Strategy and counters for announcements of the tier's load.
    pub(crate) fn announcing(&self) -> Announcing<'_> {
        Announcing { counters: &self.cs.tier, random: &self.random }
    }
}

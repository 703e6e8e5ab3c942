//! The parts of a forwarder. Each is a type with its own limits, its own methods and its own locks;
//! work on several of them is in `pipeline` for packets, and in `control` for the control path.

use lock_api::RawMutex;

use crate::bpt::Bpt;
use crate::config::Config;
use crate::congestion::{AnnouncementContext, Announcements};
use crate::counters::Counters;
use crate::cs::Cs;
use crate::dead_nonces::DeadNonces;
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
use crate::pool::HeapPart;
use crate::random::Random;
use crate::regions::Regions;
use crate::released_faces::ReleasedFaces;
use crate::reserve::Reserve;
use crate::strategy::{StrategyChoice, StrategyMemory};

/// All tables and their counters.
pub(crate) struct Tables<B, R> {
    pub(crate) config: HeapPart<Config>,
    /// Makes keys of names.
    pub(crate) names: NameKeys<R>,
    pub(crate) random: Random,
    pub(crate) faces: HeapPart<Faces<R>>,
    pub(crate) pit: HeapPart<Pit<B, R>>,
    pub(crate) cs: HeapPart<Cs<B, R>>,
    pub(crate) fib: HeapPart<Fib<R>>,
    pub(crate) bpt: HeapPart<Bpt<R>>,
    pub(crate) strategies: HeapPart<StrategyChoice<R>>,
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
    /// Released faces that tables still refer to.
    pub(crate) departed: ReleasedFaces<R>,
    pub(crate) counters: HeapPart<Counters>,
    /// Answers traceroute Interests.
    pub(crate) explainer: Explainer,
}

impl<B: PacketBuf, R: RawMutex> Tables<B, R> {
    pub(crate) fn new(config: Config, hasher: NameHasher) -> Result<Self, ConfigError> {
        let mut config = HeapPart::new(|| Ok(config))?;
        // Corrected once, so that no packet compares the two limits.
        config.pit.interest_lifetime_remote_ms_max =
            config.pit.interest_lifetime_remote_ms_max.min(config.pit.interest_lifetime_ms_max);
        // Taken out of the configuration, because regions change at run time.
        let regions = core::mem::take(&mut config.regions);
        Ok(Tables {
            // From the hasher's secret, because the embedder supplies one seed.
            random: Random::new(hasher.secret()),
            names: NameKeys::new(hasher)?,
            faces: HeapPart::new(|| Faces::new(config.faces_max))?,
            pit: HeapPart::new(|| Pit::new(&config.pit, config.faces_max, config.threads_max))?,
            cs: HeapPart::new(|| Cs::new(&config.cs, config.cs_policy, config.cs_admit, config.cs_serve))?,
            fib: HeapPart::new(|| Fib::new(&config.fib))?,
            bpt: HeapPart::new(|| Bpt::new(&config.bindings))?,
            strategies: HeapPart::new(|| StrategyChoice::new(config.strategies.choices_max))?,
            objects: Objects::new(&config.objects),
            memory: StrategyMemory::new(&config.strategies, config.threads_max)?,
            discovery: Discovery::new(),
            announcements: Announcements::new(config.cs_announce_ns),
            dead_nonces: DeadNonces::new(&config.dead_nonces, config.threads_max)?,
            regions: Regions::new(regions),
            departed: ReleasedFaces::new(),
            counters: HeapPart::new(|| Counters::new(config.threads_max))?,
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
    pub(crate) fn announcing(&self) -> AnnouncementContext<'_> {
        AnnouncementContext { counters: &self.cs.tier, random: &self.random }
    }
}

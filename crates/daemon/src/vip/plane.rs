//! The virtual plane and its inputs and outputs in the router: demand and routes before a slot,
//! next hops after it.

use std::collections::HashMap;
use std::sync::Arc;

use namely_forwarder::{FaceId, ObjectPlacement, ObjectPlan};
use namely_vip::{Config, Decay, NOWHERE, NeighbourConfig, Popularity, Vip, vips_of};

use super::catalogue::LoadedCatalogue;
use super::disk::{DISK, DiskTier};
use crate::config::{self, ConfigError, Register, Unregistered};
use crate::disk::Disk;
use namely_dataplane::{Core, DataPlane};

/// Data packets of an object that are not segments of its files, such as metadata with a file's
/// size.
const PACKETS_MORE: u64 = 4;

/// Octets of a packet in addition to its segment: name and signature.
const PACKET_OCTETS_MORE: u64 = 512;

/// The settings of the thread of VIP.
pub(crate) struct Settings {
    pub(super) config: config::Vip,
    /// The keys of the neighbors, in their order.
    pub(super) keys: Vec<Option<namely_discovery::Key>>,
    pub(super) loaded: Arc<LoadedCatalogue>,
}

impl Settings {
    /// Reads the configured keys and the catalogue.
    ///
    /// # Errors
    /// [`ConfigError`] contains the file, the line and a hint.
    pub(crate) fn read(config: &config::Vip) -> Result<Self, ConfigError> {
        let keys = config.keys()?;
        let loaded = Arc::new(LoadedCatalogue::read(&config.catalogue, &config.prefix, config.blocks_max())?);
        Ok(Settings { config: config.clone(), keys, loaded })
    }

    /// The request counts of blocks, if they select the registered ones.
    fn popularity(&self) -> Option<Popularity> {
        let config = &self.config;
        let interval_ms = u32::try_from(config.register_interval_s.saturating_mul(1000)).unwrap_or(u32::MAX);
        let decay = Decay::from_half_life(config.score_half_life_s.saturating_mul(1000), interval_ms);
        let is_needed = matches!(config.register, Register::Top(_));
        is_needed.then(|| Popularity::new(self.loaded.blocks().len(), decay))
    }

    /// Selects the blocks to register; `now` are the registered ones.
    fn choose(&self, popularity: Option<&Popularity>, now: &[u32]) -> Vec<u32> {
        match (self.config.register, popularity) {
            (Register::Top(most), Some(popularity)) => popularity.choose(now, most),
            _ => (0..self.loaded.blocks().len() as u32).collect(),
        }
    }

    /// Largest memory size of a segment's packet, octets.
    pub(super) fn packet_octets(&self) -> u64 {
        let segment = self.config.segment_octets;
        segment + segment / 4 + PACKET_OCTETS_MORE
    }

    fn vip_config(&self, boot: u64, disk: Option<&DiskTier>) -> Config {
        let neighbours = self.config.neighbour.iter().map(|neighbour| NeighbourConfig {
            router: neighbour.router.as_ref().map(|router| router.clone().into_bytes()),
            octets_per_s: neighbour.octets_per_s,
            octets_per_s_out: neighbour.octets_per_s_out.unwrap_or(neighbour.octets_per_s),
        });
        Config {
            router: self.config.router.clone().into_bytes(),
            boot,
            period_ms: self.config.period_ms,
            plane: self.config.plane(disk.and_then(|disk| disk.tier(self))),
            neighbours: neighbours.collect(),
        }
    }
}

/// The virtual plane and the last inputs from the router. The core contains all blocks of the
/// catalogue, by their index there. The plane contains the registered ones, with its own indices.
pub(super) struct VipState {
    pub(super) vip: Vip,
    pub(super) settings: Settings,
    /// The block of each object of the plane, sorted by index.
    pub(super) registered: Vec<u32>,
    /// Request counts of blocks, if they select the registered ones.
    popularity: Option<Popularity>,
    /// Time of the next selection, ns.
    choose_ns: u64,
    /// The face of each neighbor.
    pub(super) faces: Vec<Option<FaceId>>,
    /// Interests for each block since the tables were made: at its registration, and now.
    interests: Vec<(u64, u64)>,
    /// The last slot with updated routes and next hops.
    slot: u64,
    /// The content store's disk, if it has one.
    pub(super) disk: Option<DiskTier>,
    core: Arc<Core>,
    plane: Arc<DataPlane>,
}

impl VipState {
    /// Enters the catalogue, and starts the plane with this boot number.
    ///
    /// # Errors
    /// [`ConfigError`]: there is no room for the catalogue's names, or the configuration is wrong.
    pub(super) fn new(
        settings: Settings,
        boot: u64,
        core: Arc<Core>,
        plane: Arc<DataPlane>,
        disk: Option<&Arc<Disk>>,
    ) -> Result<Self, ConfigError> {
        let popularity = settings.popularity();
        let registered = settings.choose(popularity.as_ref(), &[]);
        let disk = disk.map(|disk| DiskTier::new(disk.clone(), core.clone()));
        let config = settings.vip_config(boot, disk.as_ref());
        let vip =
            Vip::new(settings.loaded.objects(&registered)?, config).map_err(|error| error.to_string())?;
        settings.loaded.enter(&core)?;
        let faces = vec![None; settings.config.neighbour.len()];
        let interests = Vec::new();
        let (choose_ns, slot) = (0, 0);
        let mut machine = VipState {
            vip,
            settings,
            registered,
            popularity,
            choose_ns,
            faces,
            interests,
            slot,
            disk,
            core,
            plane,
        };
        machine.reserve_room();
        machine.begin_counting();
        machine.follow_plan();
        Ok(machine)
    }

    /// Applies other settings. Nothing has changed after an error.
    ///
    /// # Errors
    /// As for [`VipState::new`].
    pub(super) fn exchange(&mut self, settings: Settings) -> Result<(), ConfigError> {
        self.read_demand();
        let by_id: HashMap<u64, u32> =
            settings.loaded.blocks().iter().zip(0..).map(|(block, index)| (block.id, index)).collect();
        let old = self.settings.loaded.blocks().iter();
        let new_indices: Vec<Option<u32>> = old.map(|block| by_id.get(&block.id).copied()).collect();
        let new_index = |block: &u32| new_indices.get(*block as usize).copied().flatten();
        let now: Vec<u32> = self.registered.iter().filter_map(new_index).collect();
        let mut popularity = settings.popularity();
        if let (Some(new), Some(old)) = (&mut popularity, &self.popularity) {
            let stay = new_indices.iter().enumerate();
            stay.for_each(|(k, index)| {
                index.iter().for_each(|at| new.add_demand(*at as usize, old.count(k)))
            });
        }
        let registered = settings.choose(popularity.as_ref(), &now);
        let objects = settings.loaded.objects(&registered)?;
        // Indices denote other blocks from now on, so the old next hops are removed first.
        (0..new_indices.len()).for_each(|block| self.core.objects().direct(block as u32, None));
        settings.loaded.enter(&self.core)?;
        let config = settings.vip_config(0, self.disk.as_ref());
        self.vip.exchange(objects, config).map_err(|error| error.to_string())?;
        let face_of = |neighbour: &config::VipNeighbour| {
            let index = self.settings.config.neighbour.iter().position(|old| old.face == neighbour.face);
            index.and_then(|b| self.faces[b])
        };
        self.faces = settings.config.neighbour.iter().map(face_of).collect();
        (self.settings, self.registered, self.popularity) = (settings, registered, popularity);
        self.reserve_room();
        self.begin_counting();
        self.follow_plan();
        Ok(())
    }

    /// Registers the most requested blocks, if a selection is due.
    ///
    /// # Errors
    /// As for [`VipState::new`]; the previous blocks stay registered.
    pub(super) fn choose(&mut self, now_ns: u64) -> Result<(), ConfigError> {
        let interval_ns = self.settings.config.register_interval_s.saturating_mul(1_000_000_000);
        let Some(popularity) = self.popularity.as_mut().filter(|_| now_ns >= self.choose_ns) else {
            return Ok(());
        };
        let is_first = self.choose_ns == 0;
        self.choose_ns = now_ns.saturating_add(interval_ns);
        if is_first {
            return Ok(());
        }
        popularity.fade();
        let registered = self.settings.choose(self.popularity.as_ref(), &self.registered);
        if registered == self.registered {
            return Ok(());
        }
        let objects = self.settings.loaded.objects(&registered)?;
        let config = self.settings.vip_config(0, self.disk.as_ref());
        self.vip.exchange(objects, config).map_err(|error| error.to_string())?;
        let come = registered.iter().filter(|block| self.registered.binary_search(block).is_err()).count();
        tracing::debug!("{come} blocks became more popular than others and are registered");
        let left = std::mem::replace(&mut self.registered, registered);
        left.iter().for_each(|block| self.core.objects().direct(*block, None));
        self.reserve_room();
        self.follow_plan();
        self.update_routes();
        Ok(())
    }

    /// Reserves room in the content store for the planned objects and their additional packets.
    fn reserve_room(&self) {
        let config = &self.settings.config;
        let objects = self.vip.objects().as_slice();
        let smallest = objects.iter().map(|object| object.octets).min().unwrap_or(1).max(1);
        let kept_max = (objects.len() as u64).min(config.memory / smallest);
        let packets = config.memory / config.segment_octets + kept_max * (PACKETS_MORE + 1);
        let octets = if kept_max > 0 { packets.saturating_mul(self.settings.packet_octets()) } else { 0 };
        // With room 0, objects would be treated like all other Data, even those planned for the
        // disk.
        let least = u64::from(self.has_disk());
        let (packets, octets) = (packets.max(least), octets.max(least));
        self.core.objects().room(usize::try_from(packets).unwrap_or(usize::MAX), octets);
        self.core.objects().only(config.unregistered == Unregistered::Refuse);
    }

    /// Returns true if objects may be planned for the disk.
    fn has_disk(&self) -> bool {
        self.disk.is_some() && self.settings.config.disk_octets_max != Some(0)
    }

    /// The planned tier of an object. While the disk fails, no object is planned for it.
    pub(super) fn tier(&self, object: usize) -> u8 {
        let is_left_out = self.disk.as_ref().is_none_or(DiskTier::is_left_out);
        match self.vip.plane().placed()[object] {
            DISK if is_left_out => NOWHERE,
            tier => tier,
        }
    }

    /// Updates the disk's room and read rate in the plane.
    fn update_disk(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        disk.look();
        if let Some(now) = disk.tier(&self.settings) {
            self.vip.plane_mut().set_tier(usize::from(DISK), now);
        }
    }

    /// Updates the content store's plan for each block.
    fn follow_plan(&self) {
        let plane = self.vip.plane();
        let of_no_object = match self.settings.config.unregistered {
            Unregistered::Admit => ObjectPlacement::Unplanned,
            Unregistered::Refuse => ObjectPlacement::Nowhere,
        };
        let mut for_disk = vec![false; self.settings.loaded.blocks().len()];
        let mut registered = self.registered.iter().enumerate().peekable();
        for (block, object) in (0..).zip(self.settings.loaded.blocks()) {
            let k = registered.next_if(|(_, of)| **of == block).map(|(k, _)| k);
            let packets = object.octets.div_ceil(self.settings.config.segment_octets) + PACKETS_MORE;
            let plan = match k.map(|k| (self.tier(k), plane.scores()[k])) {
                None => ObjectPlan { placement: of_no_object, ..ObjectPlan::default() },
                Some((NOWHERE, _)) => ObjectPlan::default(),
                Some((DISK, _)) => ObjectPlan { placement: ObjectPlacement::Tier, ..ObjectPlan::default() },
                Some((_, worth)) => ObjectPlan {
                    placement: ObjectPlacement::Memory,
                    worth,
                    octets: packets.saturating_mul(self.settings.packet_octets()),
                },
            };
            for_disk[block as usize] = plan.placement == ObjectPlacement::Tier;
            self.core.objects().plan(block, plan);
        }
        if let Some(disk) = &self.disk {
            disk.plan(for_disk.into_iter());
        }
    }

    /// Octets of an object in the content store's memory.
    pub(super) fn held(&self, object: usize) -> u64 {
        self.registered.get(object).map_or(0, |block| self.core.objects().held(*block).octets)
    }

    fn begin_counting(&mut self) {
        let blocks = 0..self.settings.loaded.blocks().len() as u32;
        self.interests =
            blocks.map(|block| self.core.objects().requests(block)).map(|count| (count, count)).collect();
    }

    /// VIPs of an object that were requested here since its registration.
    pub(super) fn requested(&self, object: usize) -> u64 {
        let Some(block) = self.registered.get(object).map(|block| *block as usize) else { return 0 };
        self.interests.get(block).map_or(0, |(first, last)| self.share(block, last - first))
    }

    /// The number of VIPs of a block for a number of Interests.
    fn share(&self, block: usize, interests: u64) -> u64 {
        let octets = self.settings.loaded.blocks().get(block).map_or(1, |block| block.octets);
        vips_of(interests.saturating_mul(self.settings.config.segment_octets), octets)
    }

    /// Enters the requests since the last call into the plane. Fractions that are too small to
    /// count are carried over to the next call.
    pub(super) fn read_demand(&mut self) {
        let mut position = 0;
        for block in 0..self.interests.len() {
            let is_registered = self.registered.get(position).is_some_and(|of| *of as usize == block);
            let k = is_registered.then_some(position);
            position += usize::from(is_registered);
            let (first, last) = self.interests[block];
            let now = self.core.objects().requests(block as u32).max(last);
            if now == last {
                continue;
            }
            let vips = self.share(block, now - first) - self.share(block, last - first);
            self.interests[block].1 = now;
            if let Some(popularity) = &mut self.popularity {
                popularity.add_demand(block, vips);
            }
            if let Some(k) = k {
                self.vip.plane_mut().add_demand(k, vips);
            }
        }
    }

    /// Called after each tick. If the tick began a slot, updates the next hops of Interests and the
    /// plan of the content store, and returns true.
    pub(super) fn follow(&mut self) -> bool {
        if self.slot == self.vip.slot() {
            return false;
        }
        self.slot = self.vip.slot();
        self.update_disk();
        for (k, block) in self.registered.iter().enumerate() {
            self.core.objects().direct(*block, self.direction(k));
        }
        self.follow_plan();
        true
    }

    /// The face for Interests of an object.
    pub(super) fn direction(&self, object: usize) -> Option<FaceId> {
        self.vip.plane().direction(object).and_then(|b| self.faces.get(b).copied().flatten())
    }

    /// Finds the faces of the neighbors, and the next hops of objects. A neighbor with a closed
    /// face is removed.
    pub(super) fn update_routes(&mut self) {
        for (b, neighbour) in self.settings.config.neighbour.iter().enumerate() {
            let now = self.plane.face_to(&neighbour.face, neighbour.local.as_ref());
            if now != self.faces[b] {
                if self.faces[b].is_some() {
                    self.vip.neighbour_removed(b);
                }
                self.faces[b] = now;
            }
        }
        let loaded = self.settings.loaded.clone();
        for (k, block) in self.registered.iter().enumerate() {
            let Some(name) = loaded.first(*block) else { continue };
            let hops = self.core.fib().next_hops(name.as_name());
            let neighbour = |face: FaceId| self.faces.iter().position(|known| *known == Some(face));
            let hops_of = hops.iter().filter_map(|(face, _)| neighbour(*face));
            let plane = self.vip.plane_mut();
            plane.set_hops(k, hops_of);
            plane.set_source(k, hops.iter().any(|(_, leads_here)| *leads_here));
        }
        // Interests from VIP neighbors do not count as demand, because neighbors report their
        // demand.
        let speaking = self.settings.config.neighbour.iter().zip(&self.faces);
        let speaking = speaking.filter_map(|(neighbour, face)| face.filter(|_| neighbour.router.is_some()));
        self.core.objects().neighbours(&speaking.collect::<Vec<_>>());
    }
}
